package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"culprit/classifier"
	"culprit/rules"
)

// gateConfig are the flags that gate and run share: which attempt it is and who decides.
type gateConfig struct {
	job, user, vc, cluster, name, node string
	gpus, attempt                      int
	server                             string
	policy                             string
	rules                              string
	history                            string
	profile                            string
	terminationLog                     string
}

// jobFlags adds the flags that gate and run share.
func (cfg *gateConfig) jobFlags(f *pflag.FlagSet) {
	f.StringVar(&cfg.server, "server", "", "`address` of a server that knows the job's other attempts")
	f.StringVar(&cfg.job, "job", "", "the scheduler's `id` of the job (default: as the environment says)")
	f.IntVar(&cfg.attempt, "attempt", 0, "`number` of the attempt, from 1 (default: as the environment says)")
	f.StringVar(&cfg.cluster, "cluster", "", "`name` of the cluster, where several share a server")
	f.StringVar(&cfg.user, "user", "", "`name` of who submitted the job")
	f.StringVar(&cfg.vc, "vc", "", "`name` of the virtual cluster: account, queue or namespace")
	f.StringVar(&cfg.name, "name", "", "`name` of the job")
	f.StringVar(&cfg.node, "node", "", "`names` of the nodes, with commas between")
	f.IntVar(&cfg.gpus, "gpus", 0, "`number` of GPUs that the job holds")
	f.StringVar(&cfg.policy, "policy", "", "`file` with the policy, where no server decides (default: the built-in one)")
	f.StringVar(&cfg.rules, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	f.StringVar(&cfg.profile, "profile", "plain", "`system` whose dialect to speak: "+profileNames())
	f.StringVar(&cfg.terminationLog, "termination-log", "", "`file` for the decision as JSON of at most 4096 bytes (default with --profile kubernetes: "+terminationLog+")")
}

func (cfg *gateConfig) check() error {
	switch {
	case cfg.gpus < 0:
		return usagef("--gpus %d: must not be negative", cfg.gpus)
	case cfg.attempt < 0:
		return usagef("--attempt %d: must be 1 or more", cfg.attempt)
	}
	_, err := profileOf(cfg.profile)
	return err
}

func gateCommand() *cobra.Command {
	var cfg gateConfig
	var asked asking
	cmd := &cobra.Command{
		Use:   "gate [flags] [FILE | FOLDER | -]...",
		Short: "Say whether a failed job may run again",
		Long: `Decides retry or stop for the logs of a failed attempt, read as by classify --together, or for an attempt that a server
keeps (--server with --job and without files). With a server and files the server decides, with the job's history.

The exit code is 0 for retry, 1 for stop and 2 for wrong usage. Where there is nothing to decide by (no log, no server, a
policy that does not load) the answer is retry; --on-error stop turns that round.`,
		Example: `  culprit gate --exit-code 1 --history attempts.jsonl slurm-4711.err && sbatch job.sh
  culprit gate --server http://culprit:8080 --job 4711 --json
  culprit gate --profile gitlab --explain`,
		RunE: func(cmd *cobra.Command, args []string) error { return gate(cmd, cfg, asked, args) },
	}
	f := cmd.Flags()
	cfg.jobFlags(f)
	asked.exitFlags(f)
	f.StringVar(&cfg.history, "history", "", "`file` with the job's earlier attempts: one JSON object a line, as classify --json prints them")
	f.BoolVar(&asked.json, "json", false, "print the decision as JSON")
	f.StringVar(&asked.onError, "on-error", "retry", "`answer` where nothing can be decided: retry or stop")
	f.BoolVar(&asked.explain, "explain", false, "print what to paste into the system's file for --profile")
	f.DurationVar(&asked.timeout, "timeout", 10*time.Second, "how long the server may take")
	cmd.AddCommand(replayCommand())
	return cmd
}

// asking are the flags of gate alone.
type asking struct {
	classifyConfig
	onError string
	explain bool
	timeout time.Duration
}

// exitFlags are those of classify that say how the attempt ended.
func (a *asking) exitFlags(f *pflag.FlagSet) {
	f.IntVar(&a.exitCode, "exit-code", -1, "exit `code` of the job, 0 to 255")
	f.IntVar(&a.signal, "signal", 0, "`number` of the signal that ended the job")
	f.StringVar(&a.state, "state", "", "the scheduler's `state`: FAILED, OUT_OF_MEMORY, NODE_FAIL, OOMKilled …")
	f.StringVar(&a.reason, "reason", "", "the scheduler's `reason`")
}

func gate(cmd *cobra.Command, cfg gateConfig, asked asking, args []string) error {
	exit, err := asked.exit(cmd)
	if err == nil {
		err = cfg.check()
	}
	if err != nil {
		return err
	}
	if asked.onError != "retry" && asked.onError != "stop" {
		return usagef("--on-error %q: must be retry or stop", asked.onError)
	}
	p, err := profileOf(cfg.profile)
	if err != nil {
		return err
	}
	if asked.explain {
		text, err := p.explain()
		if err == nil {
			_, err = io.WriteString(cmd.OutOrStdout(), text)
		}
		return err
	}
	if cfg.server != "" {
		if _, err := newClient(cfg.server); err != nil {
			return err
		}
	}
	g := gateKeeper{cfg: cfg, fields: cfg.attemptFields(cmd.Flags(), os.Getenv), exit: exit, stdin: cmd.InOrStdin(), warnings: cmd.ErrOrStderr()}
	d, err := g.decide(cmd.Context(), args, asked.timeout)
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "culprit: %v\n", err)
		d = undecided(err)
	}
	if d.Undecided && asked.onError == "stop" {
		d.Verdict, d.Would, d.Turn = classifier.AnswerStop, classifier.AnswerStop, classifier.TurnOperator
		d.Reason += ", but --on-error stop asks for a ground to retry"
	}
	if asked.json {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(d)
	} else {
		_, err = io.WriteString(cmd.OutOrStdout(), decisionText(d))
	}
	if err := errors.Join(err, p.announce(cmd.Context(), cmd.OutOrStdout(), d, cfg.terminationLog)); err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "culprit: %v\n", err)
	}
	if d.Verdict == classifier.AnswerStop {
		return errQuiet
	}
	return nil
}

// undecided is the decision where the gate itself has trouble.
func undecided(err error) classifier.Decision {
	d := classifier.Decide(classifier.Policy{}, classifier.Record{}, nil)
	d.Reason = "the gate could not decide (" + oneLine(err.Error()) + "), and nothing speaks against a retry"
	d.WouldChange = "a gate that works: see the reason"
	return d
}

// gateKeeper asks a server or decides itself.
type gateKeeper struct {
	cfg      gateConfig
	fields   url.Values
	exit     classifier.Exit
	stdin    io.Reader
	warnings io.Writer
}

func (g *gateKeeper) decide(ctx context.Context, args []string, timeout time.Duration) (classifier.Decision, error) {
	if g.cfg.server != "" {
		return g.askServer(ctx, args, timeout)
	}
	policy, err := loadPolicy(g.cfg.policy)
	if err != nil {
		return classifier.Decision{}, err
	}
	c, err := loadClassifier(g.cfg.rules)
	if err != nil {
		return classifier.Decision{}, err
	}
	if unknown := policy.UnknownRules(c.Rules()); len(unknown) > 0 {
		fmt.Fprintf(g.warnings, "culprit: %s: no such rule: %s\n", g.cfg.policy, strings.Join(unknown, ", "))
	}
	var earlier []classifier.Record
	if g.cfg.history != "" {
		if earlier, err = readHistory(g.cfg.history); err != nil {
			return classifier.Decision{}, err
		}
	}
	logs, err := g.files(args)
	if err != nil {
		return classifier.Decision{}, err
	}
	v, err := c.Classify(ctx, g.exit, openAll(g.stdin, logs))
	if err != nil {
		return classifier.Decision{}, err
	}
	now := classifier.Record{VC: g.fields.Get("vc"), Verdict: v}
	now.Number, _ = strconv.Atoi(g.fields.Get("attempt")) // absent: 0
	if node := g.fields.Get("node"); node != "" {
		now.Nodes = strings.Split(node, ",")
	}
	return classifier.Decide(policy, now, earlier), nil
}

// files are those that the arguments stand for; without arguments standard input.
func (g *gateKeeper) files(args []string) ([]string, error) {
	if len(args) == 0 {
		return []string{"-"}, nil
	}
	files, problems := expand(args)
	return files, errors.Join(problems...)
}

// askServer asks about a stored attempt, or about the files with the history that the server has.
func (g *gateKeeper) askServer(ctx context.Context, args []string, timeout time.Duration) (classifier.Decision, error) {
	c, err := newClient(g.cfg.server)
	if err != nil {
		return classifier.Decision{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if len(args) == 0 {
		ask := url.Values{}
		for _, name := range []string{"job", "attempt", "cluster"} {
			if v := g.fields.Get(name); v != "" {
				ask.Set(name, v)
			}
		}
		if ask.Get("job") == "" {
			return classifier.Decision{}, fmt.Errorf("which job this is is not known: say it with --job, or name log files")
		}
		return c.gate(ctx, message{Query: ask})
	}
	files, err := g.files(args)
	if err != nil {
		return classifier.Decision{}, err
	}
	body, err := packed(g.stdin, files)
	if err != nil {
		return classifier.Decision{}, err
	}
	ask := g.fields
	if g.exit.Code != nil {
		ask.Set("exit_code", strconv.Itoa(*g.exit.Code))
	}
	for name, value := range map[string]string{"state": g.exit.State, "reason": g.exit.Reason} {
		if value != "" {
			ask.Set(name, value)
		}
	}
	if g.exit.Signal != 0 {
		ask.Set("signal", strconv.Itoa(g.exit.Signal))
	}
	return c.gate(ctx, message{Query: ask, ContentType: "text/plain", Encoding: "gzip", body: body})
}

// packed reads files one after the other as one gzip stream.
func packed(stdin io.Reader, files []string) (io.Reader, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	for log, err := range openAll(stdin, files) {
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(z, log.Reader); err != nil {
			return nil, err
		}
	}
	return &b, z.Close()
}

// loadPolicy reads a policy file; an empty name is the built-in policy.
func loadPolicy(file string) (classifier.Policy, error) {
	if file == "" {
		return classifier.DefaultPolicy(), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return classifier.Policy{}, err
	}
	defer f.Close()
	return classifier.LoadPolicy(f, file)
}

// maxHistoryLine bounds a line of a history: a verdict with its evidence is far smaller.
const maxHistoryLine = 4 << 20

// readHistory reads earlier attempts: a line each, a record or the verdict alone.
func readHistory(file string) ([]classifier.Record, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []classifier.Record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxHistoryLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var r struct {
			classifier.Record
			Verdict *classifier.Verdict `json:"verdict"`
		}
		var v classifier.Verdict
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: not an attempt: %w", file, n, err)
		}
		if r.Verdict == nil {
			if err := json.Unmarshal(lines.Bytes(), &v); err != nil || v.Category == "" {
				return nil, fmt.Errorf("%s:%d: neither a verdict nor an attempt with one", file, n)
			}
			r.Verdict = &v
		}
		r.Record.Verdict = *r.Verdict
		list = append(list, r.Record)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// addHistory adds an attempt to a history in one write, so that two that are added at once do not mix.
func addHistory(file string, r classifier.Record) error {
	r.Verdict.Cascade, r.Verdict.Others = []classifier.Evidence{}, nil // the gate does not look at those of earlier attempts
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return appendTo(file, string(line)+"\n")
}

// decisionText is a decision for a terminal.
func decisionText(d classifier.Decision) string {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-8s %s\n", name, value)
		}
	}
	head := strings.ToUpper(string(d.Verdict))
	switch {
	case d.Would != d.Verdict && d.Mode == classifier.ModeWarn:
		head += ", with a warning: the policy would stop this"
	case d.Would != d.Verdict:
		head += " (shadow: would stop)"
	}
	if d.Category != "" {
		head += " - " + d.Category
	}
	fmt.Fprintf(&b, "%s, attempt %d\n", head, d.Attempt)
	field("because", printable(d.Reason, 400))
	for i, e := range d.Evidence {
		if i == 2 {
			break
		}
		field("proof", place(e)+printable(e.Text, 200))
	}
	if d.Would == classifier.AnswerStop {
		field("turn", string(d.Turn))
		field("changes", printable(d.WouldChange, 300))
	}
	if d.RetryAfter > 0 {
		field("wait", fmt.Sprintf("%ds", d.RetryAfter))
	}
	if len(d.ExcludeNodes) > 0 {
		field("without", printable(strings.Join(d.ExcludeNodes, ","), 400))
	}
	if !d.Undecided {
		used := fmt.Sprintf("%d of %d", d.Budget.Used, d.Budget.Max)
		if slices.Contains([]rules.Retry{rules.RetryNever}, d.Retry) && d.Budget.Max == 0 {
			used = "none for this advice"
		}
		field("retries", used)
	}
	field("rule", d.Rule)
	return b.String()
}
