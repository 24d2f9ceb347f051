package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"culprit/classifier/eval"
)

// evalConfig are the flags of eval. A limit of -1 is none.
type evalConfig struct {
	misses, calibration, json                       bool
	rules                                           string
	minCategory, minFault, minRetry, minRoot, minF1 float64
	maxFalseStop, maxMissedStop                     float64
}

func evalCommand() *cobra.Command {
	var cfg evalConfig
	cmd := &cobra.Command{
		Use:   "eval [flags] LABELS.jsonl",
		Short: "Score the verdicts on a labelled corpus",
		Long: `Classifies each log of a labelled corpus and compares. LABELS.jsonl has one JSON object a line with file (relative to it),
category, accept, fault, retry, root, root_also and exit_code. A false stop is a retry blocked (never) that the label
allows; a missed stop the opposite. With --min-… and --max-… the exit code is 1 where a figure falls short.`,
		Example: `  culprit eval --misses corpus/labels.jsonl
  culprit eval --min-category 0.97 --max-false-stop 0 corpus/labels.jsonl`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return evaluate(cmd, cfg, args[0]) },
	}
	f := cmd.Flags()
	f.BoolVar(&cfg.misses, "misses", false, "list the logs where the verdict and the label differ")
	f.BoolVar(&cfg.calibration, "calibration", false, "how often verdicts are right, by confidence")
	f.BoolVar(&cfg.json, "json", false, "print the scores as JSON")
	f.StringVar(&cfg.rules, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	f.Float64Var(&cfg.minCategory, "min-category", -1, "least `share` of right categories, 0 to 1")
	f.Float64Var(&cfg.minF1, "min-macro-f1", -1, "least macro-F1, 0 to 1")
	f.Float64Var(&cfg.minFault, "min-fault", -1, "least `share` of right faults, 0 to 1")
	f.Float64Var(&cfg.minRetry, "min-retry", -1, "least `share` of right retry advice, 0 to 1")
	f.Float64Var(&cfg.minRoot, "min-root", -1, "least `share` of right root lines, 0 to 1")
	f.Float64Var(&cfg.maxFalseStop, "max-false-stop", -1, "greatest `share` of false stops, 0 to 1")
	f.Float64Var(&cfg.maxMissedStop, "max-missed-stop", -1, "greatest `share` of missed stops, 0 to 1")
	return cmd
}

func evaluate(cmd *cobra.Command, cfg evalConfig, path string) error {
	c, err := loadClassifier(cfg.rules)
	if err != nil {
		return err
	}
	labels, err := eval.LoadLabels(path)
	if err != nil {
		return err
	}
	var outcomes []eval.Outcome
	if err := eval.Run(cmd.Context(), c, filepath.Dir(path), labels, func(o eval.Outcome) { outcomes = append(outcomes, o) }); err != nil {
		return err
	}
	s := eval.Score(outcomes)
	out := cmd.OutOrStdout()
	if cfg.json {
		if err := json.NewEncoder(out).Encode(s); err != nil {
			return err
		}
	} else {
		printScores(out, s)
	}
	if cfg.calibration {
		printCalibration(out, eval.Calibration(outcomes))
	}
	if cfg.misses {
		printMisses(out, outcomes)
	}
	if short := cfg.shortfalls(s); len(short) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "culprit: "+strings.Join(short, "; "))
		return errQuiet
	}
	return nil
}

// shortfalls names the figures that miss their limit.
func (cfg evalConfig) shortfalls(s eval.Scores) []string {
	var short []string
	least := func(name string, got, limit float64) {
		if limit >= 0 && got < limit {
			short = append(short, fmt.Sprintf("%s is %.4f, less than %.4f", name, got, limit))
		}
	}
	most := func(name string, got, limit float64) {
		if limit >= 0 && got > limit {
			short = append(short, fmt.Sprintf("%s is %.4f, more than %.4f", name, got, limit))
		}
	}
	least("category", s.Category, cfg.minCategory)
	least("macro-F1", s.MacroF1, cfg.minF1)
	least("fault", s.Fault, cfg.minFault)
	least("retry", s.Retry, cfg.minRetry)
	least("root line", s.Root, cfg.minRoot)
	most("false stop", s.FalseStop, cfg.maxFalseStop)
	most("missed stop", s.MissedStop, cfg.maxMissedStop)
	return short
}

func printScores(w io.Writer, s eval.Scores) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "logs\t%d\n", s.Logs)
	fmt.Fprintf(t, "category\t%.1f%%\t(the label's own: %.1f%%)\n", s.Category*100, s.CategoryExact*100)
	fmt.Fprintf(t, "macro-F1\t%.3f\n", s.MacroF1)
	fmt.Fprintf(t, "fault\t%.1f%%\n", s.Fault*100)
	fmt.Fprintf(t, "retry\t%.1f%%\n", s.Retry*100)
	fmt.Fprintf(t, "root line\t%.1f%%\n", s.Root*100)
	fmt.Fprintf(t, "false stops\t%d\t(%.1f%% of the logs that may be retried)\n", s.FalseStops, s.FalseStop*100)
	fmt.Fprintf(t, "missed stops\t%d\t(%.1f%% of the logs that must not be)\n", s.MissedStops, s.MissedStop*100)
	t.Flush()
}

func printCalibration(w io.Writer, bins []eval.Bin) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nconfidence\tverdicts\tright\tshare\tmean confidence")
	for _, b := range bins {
		if b.Logs > 0 {
			fmt.Fprintf(t, "%.1f to %.1f\t%d\t%d\t%.1f%%\t%.2f\n", b.From, b.To, b.Logs, b.Right, 100*float64(b.Right)/float64(b.Logs), b.Mean)
		}
	}
	t.Flush()
}

// printMisses lists what differs: the category, fault, retry or the root line.
func printMisses(w io.Writer, outcomes []eval.Outcome) {
	for _, o := range outcomes {
		var wrong []string
		for _, check := range []struct {
			name  string
			right bool
		}{{"category", o.CategoryRight()}, {"fault", o.FaultRight()}, {"retry", o.RetryRight()}, {"root line", o.RootRight()}} {
			if !check.right {
				wrong = append(wrong, check.name)
			}
		}
		if len(wrong) == 0 {
			continue
		}
		v := o.Verdict
		fmt.Fprintf(w, "\n%s: %s\n", o.Label.File, strings.Join(wrong, ", "))
		fmt.Fprintf(w, "  want %s, %s, %s: %s\n", o.Label.Category, o.Label.Fault, o.Label.Retry, printable(o.Label.Root, 160))
		fmt.Fprintf(w, "  got  %s, %s, %s (%.0f%% sure, rule %s)", v.Category, v.Fault, v.Retry, v.Confidence*100, v.Rule)
		if v.Root != nil {
			fmt.Fprintf(w, ": line %d: %s", v.Root.Line, printable(v.Root.Text, 160))
		}
		fmt.Fprintln(w)
	}
}
