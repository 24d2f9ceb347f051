package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"culprit/corpus"
)

// reportConfig are the flags of report.
type reportConfig struct {
	data, by, from, to, format string
	limit                      int
	paper, nodes, repetition   bool
}

func reportCommand() *cobra.Command {
	var cfg reportConfig
	var groupings []string
	for _, g := range corpus.Groupings {
		groupings = append(groupings, string(g))
	}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Where the GPU time of failed attempts went",
		Long: `Sums up the failed attempts that ended in a time range: attempts, jobs, users, runtime to failure (RTF) at the 50th, 90th
and 95th percentile, GPU time and its share. It reads the folder of a server, which may be running.`,
		Example: `  culprit report --by category
  culprit report --paper
  culprit report --nodes
  culprit report --by user --from 2026-11-01 --to 2026-12-01 --format csv > november.csv`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return report(cmd, cfg) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.data, "data", "culprit-data", "`folder` of the database, the logs and the index")
	f.StringVar(&cfg.by, "by", "category", "what a row stands for: "+strings.Join(groupings, ", "))
	f.StringVar(&cfg.from, "from", "", "only attempts that ended at or after this `time` (2026-11-01 or RFC 3339)")
	f.StringVar(&cfg.to, "to", "", "only attempts that ended before this `time`")
	f.StringVar(&cfg.format, "format", "table", "`format`: table, csv or json")
	f.IntVar(&cfg.limit, "limit", 0, "most rows, the most GPU time first; 0 for all")
	f.BoolVar(&cfg.paper, "paper", false, "print Table 6 and Table 7 of the paper, with its own figures beside (table or json)")
	f.BoolVar(&cfg.nodes, "nodes", false, "print which nodes fail more than others, and how to leave them out (table or json)")
	f.BoolVar(&cfg.repetition, "repetition", false, "print what failed again as before, early, late, or long after a checkpoint (table or json)")
	cmd.MarkFlagsMutuallyExclusive("paper", "nodes", "repetition")
	return cmd
}

func report(cmd *cobra.Command, cfg reportConfig) error {
	filter := corpus.Filter{Limit: cfg.limit}
	var err error
	if filter.Window.From, err = timeFlag("--from", cfg.from); err != nil {
		return err
	}
	if filter.Window.To, err = timeFlag("--to", cfg.to); err != nil {
		return err
	}
	if cfg.limit < 0 {
		return usagef("--limit %d: must not be negative", cfg.limit)
	}
	switch cfg.format {
	case "table", "csv", "json":
	default:
		return usagef("--format %q: must be table, csv or json", cfg.format)
	}
	if _, err := os.Stat(cfg.data); err != nil {
		return fmt.Errorf("%w (--data names the folder of a server)", err)
	}
	kept, err := corpus.Open(cmd.Context(), cfg.data, corpus.Options{ReadOnly: true, NoIndex: true})
	if err != nil {
		return err
	}
	defer kept.Close()
	if simulated, err := kept.Simulated(); err != nil {
		return err
	} else if simulated != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "culprit: this cluster is simulated")
	}
	switch {
	case cfg.paper:
		return reportPaper(cmd, kept, filter, cfg.format)
	case cfg.nodes:
		return reportNodes(cmd, kept, filter, cfg.format)
	case cfg.repetition:
		return reportRepetition(cmd, kept, filter, cfg.format)
	}
	r, err := kept.Waste(cmd.Context(), filter, corpus.Grouping(cfg.by))
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	switch cfg.format {
	case "json":
		return json.NewEncoder(out).Encode(r)
	case "csv":
		return r.WriteCSV(out)
	}
	return printReport(out, r)
}

// timeFlag reads a date or a time; empty is no bound.
func timeFlag(name, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, value); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("%s %q: must be a date (2026-11-01) or a time with its zone (2026-11-01T08:00:00Z)", name, value)
}

func printReport(w io.Writer, r corpus.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tattempts\tjobs\tusers\tRTF p50\tp90\tp95\t1 GPU\t2-4\t>4\tGPU-hours\tshare\t\n", r.By)
	for _, row := range append(r.Rows, r.Total) {
		key := row.Key
		switch {
		case row.Title != "" && row.Title != key:
			key += " (" + printable(row.Title, 48) + ")"
		case key == "":
			key = "(none)"
		}
		if row == r.Total {
			key = "total"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%.2f\t%.1f%%\t\n", key, row.Attempts, row.Jobs, row.Users,
			seconds(row.RTFp50), seconds(row.RTFp90), seconds(row.RTFp95), row.GPU1, row.GPU2to4, row.GPUOver4, row.GPUHours(), row.GPUShare*100)
	}
	return t.Flush()
}

// seconds is a duration for people: 45s, 12m, 3.4h, 2.1d.
func seconds(s float64) string {
	switch {
	case s < 120:
		return fmt.Sprintf("%.0fs", s)
	case s < 2*3600:
		return fmt.Sprintf("%.0fm", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.1fh", s/3600)
	}
	return fmt.Sprintf("%.1fd", s/86400)
}
