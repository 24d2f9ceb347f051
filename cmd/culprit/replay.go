package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"culprit/classifier"
	"culprit/corpus"
)

// replayConfig are the flags of gate replay.
type replayConfig struct {
	data, policy, from, to, format string
}

func replayCommand() *cobra.Command {
	var cfg replayConfig
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "What a policy would have done to past jobs",
		Long: `Decides every failed attempt of a server's folder as the gate would have under a policy: the stops, the attempts that
followed them and would not have run, the GPU time that these took, and the false blocks, after which an attempt of the
same job passed. "all" is what it would be if everything were enforced, "enforced" what the policy's modes make of it.
Read it before turning shadow into enforce. Jobs with an attempt in the time range count, with all their attempts.`,
		Example: `  culprit gate replay --from 2026-11-01
  culprit gate replay --policy policy.yaml --format csv > what-if.csv`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return replay(cmd, cfg) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.data, "data", "culprit-data", "`folder` of the database, the logs and the index")
	f.StringVar(&cfg.policy, "policy", "", "`file` with the policy (default: the built-in one)")
	f.StringVar(&cfg.from, "from", "", "only jobs with an attempt that ended at or after this `time` (2026-11-01 or RFC 3339)")
	f.StringVar(&cfg.to, "to", "", "only jobs with an attempt that ended before this `time`")
	f.StringVar(&cfg.format, "format", "table", "`format`: table, csv or json")
	return cmd
}

func replay(cmd *cobra.Command, cfg replayConfig) error {
	var w corpus.Window
	var err error
	if w.From, err = timeFlag("--from", cfg.from); err != nil {
		return err
	}
	if w.To, err = timeFlag("--to", cfg.to); err != nil {
		return err
	}
	switch cfg.format {
	case "table", "csv", "json":
	default:
		return usagef("--format %q: must be table, csv or json", cfg.format)
	}
	policy, err := loadPolicy(cfg.policy)
	if err != nil {
		return err
	}
	if _, err := os.Stat(cfg.data); err != nil {
		return fmt.Errorf("%w (--data names the folder of a server)", err)
	}
	c, err := corpus.Open(cmd.Context(), cfg.data, corpus.Options{ReadOnly: true, NoIndex: true})
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := policy.Replay(c.Histories(cmd.Context(), w))
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	switch cfg.format {
	case "json":
		return json.NewEncoder(out).Encode(r)
	case "csv":
		return writeReplayCSV(out, r)
	}
	return printReplay(out, r)
}

// replayRows are the rows and the two sums, with what each stands for.
func replayRows(r classifier.Replay) (keys []string, rows []classifier.ReplayRow) {
	for _, row := range r.Rows {
		key := row.Rule
		if key == "" {
			key = "(" + row.Category + ")"
		}
		keys, rows = append(keys, key), append(rows, row)
	}
	return append(keys, "all", "enforced"), append(rows, r.Total, r.Enforced)
}

func printReplay(w io.Writer, r classifier.Replay) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "rule\tcategory\tmode\tstops\tblocked\tGPU-hours saved\tfalse blocks\t\n")
	keys, rows := replayRows(r)
	for i, row := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%.2f\t%d\t\n", keys[i], row.Category, row.Mode, row.Stops, row.Blocked, row.GPUHours(), row.FalseBlocks)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d jobs, %d attempts, %d of them failed\n", r.Jobs, r.Attempts, r.Failed)
	return err
}

func writeReplayCSV(w io.Writer, r classifier.Replay) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"rule", "category", "mode", "stops", "blocked", "gpu_s", "false_blocks"}) // Flush reports
	keys, rows := replayRows(r)
	for i, row := range rows {
		_ = out.Write([]string{keys[i], row.Category, string(row.Mode), strconv.Itoa(row.Stops), strconv.Itoa(row.Blocked),
			strconv.FormatFloat(row.GPUSeconds, 'f', -1, 64), strconv.Itoa(row.FalseBlocks)})
	}
	out.Flush()
	return out.Error()
}
