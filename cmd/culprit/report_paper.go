package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"culprit/corpus"
)

func reportPaper(cmd *cobra.Command, kept *corpus.Corpus, filter corpus.Filter, format string) error {
	if format == "csv" {
		return usagef("--format csv: two tables fit no CSV; use table or json")
	}
	p, err := kept.Paper(cmd.Context(), filter)
	if err != nil {
		return err
	}
	if format == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(p)
	}
	return printPaper(cmd.OutOrStdout(), p)
}

// printPaper prints the paper's Table 6 and Table 7 with its own figures beside ours.
func printPaper(w io.Writer, p corpus.Paper) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "Table 6: jobs by how they ended")
	fmt.Fprintln(t, "outcome\tjobs\tshare\tGPU time\tshare\t\tpaper: jobs\tshare\tGPU time\t")
	for _, r := range p.Outcomes {
		fmt.Fprintf(t, "%s\t%d\t%s\t%.0f h\t%s\t\t%d\t%s\t%s\t\n", r.Outcome, r.Jobs, percent(r.JobShare), r.GPUSeconds/3600, percent(r.GPUShare),
			r.PaperJobs, percent(r.PaperJobShare), percent(r.PaperGPUShare))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nTable 7: failed attempts by reason (RTF in minutes; by IF infrastructure, AE AI engine, U user)")
	fmt.Fprintln(t, "reason\tby\ttrials\tjobs\tusers\tRTF p50\tp90\tp95\ttotal\t1 GPU\t2-4\t>4\tRTF x GPUs\t\tpaper: trials\tshare\tRTF total\t")
	for _, r := range append(slices.Clone(p.Reasons), p.Total) {
		title, paperRTF := r.Title, "-"
		if r.Key == "" {
			title, paperRTF = "Total", "100.0%"
		}
		if r.PaperRTFShare != nil {
			paperRTF = percent2(*r.PaperRTFShare)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%.2f\t%.2f\t%.2f\t%s\t%d\t%d\t%d\t%s\t\t%d\t%s\t%s\t\n", title, strings.Join(r.Sources, " "), r.Attempts, r.Jobs, r.Users,
			r.RTFp50/60, r.RTFp90/60, r.RTFp95/60, percent2(r.RTFShare), r.GPU1, r.GPU2to4, r.GPUOver4, percent2(r.GPUShare), r.PaperTrials, percent2(r.PaperShare), paperRTF)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	printIncludes(w, p.Reasons)
	return nil
}

// printIncludes says which later categories are counted under the paper's reasons.
func printIncludes(w io.Writer, reasons []corpus.ReasonRow) {
	for _, r := range reasons {
		var parts []string
		for _, id := range slices.Sorted(maps.Keys(r.Includes)) {
			parts = append(parts, fmt.Sprintf("%d %s", r.Includes[id], id))
		}
		if parts != nil {
			fmt.Fprintf(w, "%s includes %s\n", r.Title, strings.Join(parts, ", "))
		}
	}
}

func percent(share float64) string  { return fmt.Sprintf("%.1f%%", share*100) }
func percent2(share float64) string { return fmt.Sprintf("%.2f%%", share*100) }
