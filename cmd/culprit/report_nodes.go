package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"culprit/corpus"
)

func reportNodes(cmd *cobra.Command, kept *corpus.Corpus, filter corpus.Filter, format string) error {
	if format == "csv" {
		return usagef("--format csv: nodes come as table or json; --by node --format csv has their GPU time")
	}
	r, err := kept.Nodes(cmd.Context(), filter)
	if err != nil {
		return err
	}
	if format == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	}
	return printNodes(cmd.OutOrStdout(), r, filter.Limit, time.Now())
}

// shownNodes is how many nodes the table has unless --limit says otherwise; suspects are always in it.
const shownNodes = 20

// suspectFor is how long a node is left out before it is looked at again.
const suspectFor = 7 * 24 * time.Hour

// printNodes prints nodes with their evidence, and the lines that leave the suspects out.
func printNodes(w io.Writer, r corpus.NodeReport, limit int, now time.Time) error {
	if limit == 0 {
		limit = shownNodes
	}
	var suspects []string
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "failures at infrastructure's charge: %.3f per 1,000 node hours\n", r.Rate)
	fmt.Fprintln(t, "node\thours\tattempts\tfailed\tcharged\texpected\tper 1,000 h\t95% interval\tjobs\tusers\t  by")
	for i, n := range r.Nodes {
		if n.Suspect {
			suspects = append(suspects, n.Node)
		} else if i >= limit || n.Charged == 0 {
			break
		}
		fmt.Fprintf(t, "%s\t%.0f\t%d\t%d\t%.1f\t%.1f\t%.2f\t%.2f to %.2f\t%d\t%d\t  %s\n", suspectMark(n), n.Hours, n.Attempts, n.Failed, n.Charged, n.Expected,
			n.Rate, n.RateLow, n.RateHigh, n.Jobs, n.Users, reasonsText(n.Reasons))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if suspects == nil {
		fmt.Fprintln(w, "\nno node fails more than chance explains")
		return nil
	}
	printExclusions(w, suspects, r.Nodes, now.Add(suspectFor).Format(time.DateOnly))
	return nil
}

func suspectMark(n corpus.NodeRow) string {
	if n.Suspect {
		return "* " + n.Node
	}
	return n.Node
}

func reasonsText(reasons []corpus.Reason) string {
	var parts []string
	for _, r := range reasons {
		parts = append(parts, fmt.Sprintf("%.1f %s", r.Charged, r.Category))
	}
	return strings.Join(parts, ", ")
}

// printExclusions prints how to leave suspects out until a day, and where to look first.
func printExclusions(w io.Writer, suspects []string, nodes []corpus.NodeRow, until string) {
	fmt.Fprintf(w, "\n* suspects: they fail more than chance explains, for several jobs. Until they are repaired, or %s:\n", until)
	fmt.Fprintf(w, "  sbatch --exclude=%s\n", strings.Join(suspects, ","))
	fmt.Fprintf(w, "  scontrol update NodeName=%s State=DRAIN Reason=\"culprit: fails more than others, look again on %s\"\n", strings.Join(suspects, ","), until)
	fmt.Fprintf(w, "  kubectl taint nodes %s culprit.suspect/until=%s:NoSchedule\n", strings.Join(suspects, " "), until)
	fmt.Fprintf(w, "  kubectl taint nodes %s culprit.suspect/until:NoSchedule-     # to let them back\n", strings.Join(suspects, " "))
	for _, n := range nodes {
		if n.Suspect {
			fmt.Fprintf(w, "  %s: attempts %s\n", n.Node, strings.Trim(strings.ReplaceAll(fmt.Sprint(n.Latest), " ", ", "), "[]"))
		}
	}
}

func reportRepetition(cmd *cobra.Command, kept *corpus.Corpus, filter corpus.Filter, format string) error {
	if format == "csv" {
		return usagef("--format csv: repetition comes as table or json")
	}
	r, err := kept.Repetition(cmd.Context(), filter)
	if err != nil {
		return err
	}
	if format == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
	}
	return printRepetition(cmd.OutOrStdout(), r)
}

func printRepetition(w io.Writer, r corpus.Repetition) error {
	part := func(s float64) string {
		if r.GPUSeconds == 0 {
			return "0%"
		}
		return percent(s / r.GPUSeconds)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "GPU time of failed attempts\t%.0f h\t\t\n", r.GPUSeconds/3600)
	fmt.Fprintf(t, "of retries that failed as the attempt before\t%.0f h\t%s\t%d attempts\t\n", r.Repeats.GPUSeconds/3600, part(r.Repeats.GPUSeconds), r.Repeats.Attempts)
	fmt.Fprintf(t, "of attempts that failed in their first minute\t%.1f h\t%s\t%d attempts\t\n", r.Minute.GPUSeconds/3600, part(r.Minute.GPUSeconds), r.Minute.Attempts)
	fmt.Fprintf(t, "since the last checkpoint, where the log tells\t%.0f h\tof %.0f h\t%d attempts\t\n", r.Lost.GPUSeconds/3600, r.Lost.OfGPUSeconds/3600, r.Lost.Attempts)
	fmt.Fprintf(t, "from submission to the first failure (median)\t%s\t\t\t\n", seconds(r.ToFailure))
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprintln(t, "category\tattempts\tper job\tper user\trepeats\tGPU-hours of them\tlate\tin the first minute\t")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%d\t%.1f\t%d\t%d\t\n", row.Category, row.Attempts, row.PerJob, row.PerUser, row.Repeats.Attempts,
			row.Repeats.GPUSeconds/3600, row.Late, row.Minute.Attempts)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nwho repeats what")
	for _, u := range r.Users {
		fmt.Fprintf(t, "%s\t%s\t%d attempts\t%d repeats\t%.1f GPU-hours\t\n", printable(u.User, 60), u.Category, u.Attempts, u.Repeats.Attempts, u.Repeats.GPUSeconds/3600)
	}
	return t.Flush()
}
