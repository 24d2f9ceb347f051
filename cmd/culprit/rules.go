package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"culprit/classifier"
	"culprit/classifier/eval"
	"culprit/classifier/loggen"
	"culprit/rules"
)

func rulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Check, test and show the rules",
		Args:  noCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(rulesLintCommand(), rulesTestCommand(), rulesShowCommand(), rulesListCommand(), rulesCoverageCommand())
	return cmd
}

// loadPacks loads rules and cases: the built-in ones, or those of a folder.
func loadPacks(args []string) (*rules.Set, rules.Cases, error) {
	if len(args) == 0 {
		set, err := rules.Default()
		if err != nil {
			return nil, rules.Cases{}, err
		}
		cases, err := rules.DefaultCases()
		return set, cases, err
	}
	if info, err := os.Stat(args[0]); err != nil {
		return nil, rules.Cases{}, err
	} else if !info.IsDir() {
		return nil, rules.Cases{}, usagef("%s: give the folder of the packs", args[0])
	}
	dir := os.DirFS(args[0])
	set, err := rules.Load(dir)
	if err != nil {
		return nil, rules.Cases{}, err
	}
	cases, err := rules.LoadCases(dir)
	return set, cases, err
}

func rulesLintCommand() *cobra.Command {
	var healthy []string
	cmd := &cobra.Command{
		Use:   "lint [FOLDER]",
		Short: "Check the built-in packs, or those of a folder",
		Long: `Loads the packs and reports what is wrong or doubtful: rules without cases, literals that are too short or generic,
patterns that can run long, rules that overlap with another verdict, literals that are frequent in generated logs of healthy
jobs and in those of --healthy. The exit code is 1 where there is an error.`,
		Example: `  culprit rules lint my-packs
  culprit rules lint --healthy good-run.log my-packs`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			texts, err := quietLogs()
			if err != nil {
				return err
			}
			for _, file := range healthy {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				texts = append(texts, text)
			}
			set, cases, err := loadPacks(args)
			if err != nil {
				return err
			}
			errors, warnings := 0, 0
			for _, f := range rules.Lint(set, cases, texts...) {
				fmt.Fprintln(cmd.OutOrStdout(), f)
				if f.Severity == rules.SeverityError {
					errors++
				} else {
					warnings++
				}
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d rules, %d errors, %d warnings\n", len(set.Rules()), errors, warnings)
			if errors > 0 {
				return errQuiet
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&healthy, "healthy", nil, "`file` with the log of a healthy job: warn of literals that are frequent in it (may be given again)")
	return cmd
}

// quietLogs are generated logs of healthy jobs, one a framework, that say which literals are frequent. The one that quotes
// failures on purpose is left out: what stands in quotes is for the classifier to see through.
func quietLogs() ([][]byte, error) {
	var logs [][]byte
	for _, framework := range loggen.Frameworks() {
		if framework == "codegen" {
			continue
		}
		var b bytes.Buffer
		if err := (loggen.Log{Framework: framework, Seed: 1, Ranks: 2, Lines: 2000}).Write(&b); err != nil {
			return nil, err
		}
		logs = append(logs, b.Bytes())
	}
	return logs, nil
}

func rulesTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test [FOLDER]",
		Short: "Run the cases of the built-in packs, or of those of a folder",
		Args:  usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, cases, err := loadPacks(args)
			if err != nil {
				return err
			}
			failures := rules.Check(set, cases)
			for _, f := range failures {
				fmt.Fprintln(cmd.OutOrStdout(), f)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d rules, %d failed cases\n", len(set.Rules()), len(failures))
			if len(failures) > 0 {
				return errQuiet
			}
			return nil
		},
	}
}

// shownRule is a rule as `rules show --json` and `rules list --json` print it.
type shownRule struct {
	ID       string      `json:"id"`
	Category string      `json:"category"`
	Role     rules.Role  `json:"role"`
	Generic  bool        `json:"generic"`
	Fault    rules.Fault `json:"fault"`
	Retry    rules.Retry `json:"retry"`
	Literals []string    `json:"literals"`
	Pattern  string      `json:"pattern,omitempty"`
	Summary  string      `json:"summary"`
	Advice   string      `json:"advice"`
	Source   string      `json:"source"`
	File     string      `json:"file"`
	Line     int         `json:"line"`
}

func show(r *rules.Rule) shownRule {
	return shownRule{ID: r.ID, Category: r.Category.ID, Role: r.Role, Generic: r.Generic, Fault: r.Fault, Retry: r.Retry, Literals: r.Literals(),
		Pattern: r.Pattern(), Summary: r.Summary, Advice: r.Advice, Source: r.Source, File: r.File, Line: r.Line}
}

func rulesShowCommand() *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:     "show RULE",
		Short:   "Show one rule",
		Example: "  culprit rules show torch-cuda-oom",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := loadRules(dir)
			if err != nil {
				return err
			}
			r, ok := set.Rule(args[0])
			if !ok {
				return fmt.Errorf("no rule %q; `culprit rules list` lists them", args[0])
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(show(r))
			}
			return printRule(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&dir, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	return cmd
}

func printRule(w io.Writer, r *rules.Rule) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "rule\t%s\n", r.ID)
	fmt.Fprintf(t, "category\t%s (%s)\n", r.Category.ID, r.Category.Title)
	fmt.Fprintf(t, "role\t%s\n", r.Role)
	fmt.Fprintf(t, "fault\t%s\n", r.Fault)
	fmt.Fprintf(t, "retry\t%s\n", r.Retry)
	for i, l := range r.Literals() {
		fmt.Fprintf(t, "%s\t%q\n", first(i, "literals"), l)
	}
	fmt.Fprintf(t, "pattern\t%s\n", r.Pattern())
	fmt.Fprintf(t, "summary\t%s\n", r.Summary)
	fmt.Fprintf(t, "advice\t%s\n", r.Advice)
	fmt.Fprintf(t, "source\t%s\n", r.Source)
	fmt.Fprintf(t, "at\t%s:%d\n", r.File, r.Line)
	return t.Flush()
}

func rulesListCommand() *cobra.Command {
	var asJSON bool
	var dir string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the rules",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := loadRules(dir)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, r := range set.Rules() {
				if asJSON {
					if err := json.NewEncoder(cmd.OutOrStdout()).Encode(show(r)); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.Category.ID, r.Role, r.Fault, r.Retry)
			}
			return t.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a rule, one a line")
	cmd.Flags().StringVar(&dir, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	return cmd
}

func rulesCoverageCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "coverage LABELS.jsonl",
		Short: "For each rule, how often it decided on a labelled corpus, right and wrong",
		Long: `Classifies each log of a labelled corpus and counts for each rule how often it was the root cause with the right
category (right) and with a wrong one (wrong), and how often it stood among what followed (cascade).`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadClassifier(dir)
			if err != nil {
				return err
			}
			labels, err := eval.LoadLabels(args[0])
			if err != nil {
				return err
			}
			uses := map[string]*ruleUse{}
			if err := eval.Run(cmd.Context(), c, filepath.Dir(args[0]), labels, func(o eval.Outcome) { countUse(uses, o) }); err != nil {
				return err
			}
			return printCoverage(cmd.OutOrStdout(), c, uses)
		},
	}
	cmd.Flags().StringVar(&dir, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	return cmd
}

// ruleUse is what a rule did on a corpus.
type ruleUse struct{ right, wrong, cascade int }

func countUse(uses map[string]*ruleUse, o eval.Outcome) {
	use := func(id string) *ruleUse {
		if uses[id] == nil {
			uses[id] = &ruleUse{}
		}
		return uses[id]
	}
	if id := o.Verdict.Rule; id != "" && o.CategoryRight() {
		use(id).right++
	} else if id != "" {
		use(id).wrong++
	}
	for _, e := range slices.Concat(o.Verdict.Cascade, o.Verdict.Others) {
		use(e.Rule).cascade++
	}
}

func printCoverage(w io.Writer, c *classifier.Classifier, uses map[string]*ruleUse) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "rule\tcategory\tright\twrong\tcascade")
	unused := 0
	for _, r := range c.Rules().Rules() {
		u := uses[r.ID]
		if u == nil {
			unused++
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\n", r.ID, r.Category.ID, u.right, u.wrong, u.cascade)
	}
	fmt.Fprintf(t, "(%d rules did nothing here)\t\t\t\t\n", unused)
	return t.Flush()
}
