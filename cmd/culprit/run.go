package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
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
)

// runConfig are the flags of run.
type runConfig struct {
	gateConfig
	stdout      bool
	quiet       bool
	keepMB      int64
	spool       string
	postTimeout time.Duration
	retryExit   int
	stopExit    int
}

func runCommand() *cobra.Command {
	var cfg runConfig
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT]...",
		Short: "Run a job, and where it fails say why and whether to run it again",
		Long: `Runs COMMAND as if culprit were not there: its streams go on as they come, signals are passed on, and on success nothing is
added. Where it fails, the kept copy of its stderr is classified, a short verdict follows the log, and the exit code says
whether a retry can help: COMMAND's own code where it cannot, 75 where it can, or what --profile says. Where culprit itself
has trouble the exit code is COMMAND's own.

With --server the attempt is posted, within --post-timeout; with --spool it is kept on disk while the server is away, and
sent by the next run. Which job it is comes from the environment of Slurm, Kubernetes, GitLab, GitHub, Buildkite, Airflow,
Argo, Metaflow, SkyPilot or AWS Batch, and from the flags.`,
		Example: `  culprit run -- python train.py
  culprit run --profile slurm --server http://culprit:8080 -- srun python train.py
  culprit run --history .culprit.jsonl -- make test`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			// A variable that is wrong must not keep a job from running.
			if err := flagsFromEnvironment(cmd); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "culprit: ignored: %v\n", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runJob(cmd, cfg, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // COMMAND's flags are its own
	cfg.jobFlags(f)
	f.BoolVar(&cfg.stdout, "stdout", false, "look into standard output too, not only into standard error")
	f.BoolVar(&cfg.quiet, "quiet", false, "print no verdict after the log")
	f.Int64Var(&cfg.keepMB, "keep-mb", 64, "`megabytes` of each stream that are kept until the end: the first quarter and the last part")
	f.StringVar(&cfg.spool, "spool", "", "`folder` for attempts while the server is away")
	f.DurationVar(&cfg.postTimeout, "post-timeout", 10*time.Second, "how long the server may take, all in all")
	f.IntVar(&cfg.retryExit, "retry-exit", -1, "exit `code` where a retry can help (default 75, or the profile's)")
	f.IntVar(&cfg.stopExit, "stop-exit", -1, "exit `code` where it cannot (default COMMAND's own, or the profile's)")
	f.StringVar(&cfg.history, "history", "", "`file` with the job's earlier attempts, one JSON object a line; this one is added")
	return cmd
}

// check refuses flags that cannot be meant, before the job has run.
func (cfg *runConfig) check(args []string) error {
	switch {
	case len(args) == 0:
		return usagef("COMMAND is missing, as in: culprit run -- python train.py")
	case cfg.retryExit < -1 || cfg.retryExit > 255:
		return usagef("--retry-exit %d: must be between 0 and 255", cfg.retryExit)
	case cfg.stopExit < -1 || cfg.stopExit > 255:
		return usagef("--stop-exit %d: must be between 0 and 255", cfg.stopExit)
	case cfg.keepMB < 1 || cfg.keepMB > 1<<20:
		return usagef("--keep-mb %d: must be between 1 and 1048576", cfg.keepMB)
	case cfg.spool != "" && cfg.server == "":
		return usagef("--spool is for attempts that go to a server: say which with --server")
	}
	if cfg.server != "" {
		if _, err := newClient(cfg.server); err != nil {
			return err
		}
	}
	return cfg.gateConfig.check()
}

// job is a run of COMMAND.
type job struct {
	cfg     runConfig
	profile profile
	stderr  io.Writer
	streams []*capture
	ended   ended
	fields  url.Values // of the attempt
}

func runJob(cmd *cobra.Command, cfg runConfig, args []string) error {
	if err := cfg.check(args); err != nil {
		return err
	}
	p, err := profileOf(cfg.profile)
	if err != nil {
		return err
	}
	j := &job{cfg: cfg, profile: p, stderr: cmd.ErrOrStderr()}
	j.fields = cfg.attemptFields(cmd.Flags(), os.Getenv)
	// What follows the job's end is bounded by itself and by the next signal, not by the one that ended the job.
	ctx, interrupted := context.WithCancel(context.WithoutCancel(cmd.Context()))
	defer interrupted()
	if err := j.run(args, cmd.InOrStdin(), cmd.OutOrStdout(), interrupted); err != nil {
		fmt.Fprintf(j.stderr, "culprit: %v\n", err)
		return exitCode(j.ended.code)
	}
	defer j.close()
	code := j.after(ctx)
	if j.profile.raise && j.ended.signal != 0 && code == j.ended.code {
		j.close()
		dieBy(j.ended.signal)
	}
	if code == 0 {
		return nil
	}
	return exitCode(code)
}

func (j *job) close() {
	for _, s := range j.streams {
		s.close()
	}
}

// run runs the command to its end.
func (j *job) run(args []string, stdin io.Reader, stdout io.Writer, interrupted func()) error {
	pumps, err := j.pumps(stdout)
	if err != nil {
		j.note("the job runs without a watcher: %v", err)
		pumps, j.streams = nil, nil
	}
	j.ended, err = runChild(args, stdin, stdout, j.stderr, pumps, interrupted)
	return err
}

// pumps are one for stderr and, where asked for, one for stdout. Where both go to the same place, as after 2>&1, one
// pump takes both, so that their order stays.
func (j *job) pumps(stdout io.Writer) (pumps []*pump, err error) {
	limit := j.cfg.keepMB << 20
	add := func(name string, isStdout, isStderr bool, to io.Writer) {
		kept := newCapture(name, limit)
		var p *pump
		if p, err = newPump(isStdout, isStderr, to, kept); err == nil {
			pumps = append(pumps, p)
			j.streams = append(j.streams, kept)
		}
	}
	if sameFile(stdout, j.stderr) {
		add("output", true, true, j.stderr)
		return pumps, err
	}
	add("stderr", false, true, j.stderr)
	if err == nil && j.cfg.stdout {
		add("stdout", true, false, stdout)
	}
	return pumps, err
}

// sameFile tells whether two streams go to one place that is no terminal.
func sameFile(a, b io.Writer) bool {
	fa, okA := a.(*os.File)
	fb, okB := b.(*os.File)
	if !okA || !okB {
		return false
	}
	ia, errA := fa.Stat()
	ib, errB := fb.Stat()
	return errA == nil && errB == nil && os.SameFile(ia, ib) && ia.Mode()&os.ModeCharDevice == 0
}

// note says something of culprit's own on stderr, in a line that begins with its name.
func (j *job) note(format string, args ...any) {
	if !j.cfg.quiet {
		fmt.Fprintf(j.stderr, "culprit: %s\n", oneLine(fmt.Sprintf(format, args...)))
	}
}

// after says what there is to say of the job's end and returns the exit code.
func (j *job) after(ctx context.Context) int {
	if j.ended.code == 0 {
		j.report(ctx, nil)
		return 0
	}
	if slices.ContainsFunc(j.streams, (*capture).endsInLine) && !j.cfg.quiet {
		fmt.Fprintln(j.stderr)
	}
	d, err := j.decide(ctx)
	if err != nil {
		j.note("no verdict: %v", err)
		return j.ended.code
	}
	if !j.cfg.quiet {
		fmt.Fprint(j.stderr, prefixed(decisionText(d)))
	}
	if err := j.profile.announce(ctx, j.stderr, d, j.cfg.terminationLog); err != nil {
		j.note("%v", err)
	}
	return j.exit(d)
}

// exit is the exit code for a decision.
func (j *job) exit(d classifier.Decision) int {
	if d.Verdict == classifier.AnswerRetry {
		if j.cfg.retryExit >= 0 {
			return j.cfg.retryExit
		}
		return j.profile.retry(j.ended.code)
	}
	if j.cfg.stopExit >= 0 {
		return j.cfg.stopExit
	}
	return j.profile.stop(j.ended.code)
}

// classifying bounds how long the reading of the kept log may take.
const classifying = 30 * time.Second

// decide is the decision of the server, which knows the job's other attempts; else one of our own.
func (j *job) decide(ctx context.Context) (classifier.Decision, error) {
	v, err := j.classify(ctx)
	if err != nil {
		return classifier.Decision{}, err
	}
	policy, err := loadPolicy(j.cfg.policy)
	if err != nil {
		return classifier.Decision{}, err
	}
	now := classifier.Record{VC: j.fields.Get("vc"), Verdict: v}
	if nodes := j.fields.Get("nodes"); nodes != "" && !strings.ContainsAny(nodes, "[,") {
		now.Nodes = []string{nodes}
	}
	now.Number, _ = strconv.Atoi(j.fields.Get("attempt")) // absent: 0
	if d, ok := j.report(ctx, &v); ok {
		return d, nil
	}
	if j.cfg.history == "" {
		return classifier.Decide(policy, now, nil), nil
	}
	earlier, err := readHistory(j.cfg.history)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		j.note("the history is left out: %v", err)
	}
	if err := addHistory(j.cfg.history, now); err != nil {
		j.note("not added to the history: %v", err)
	}
	return classifier.Decide(policy, now, earlier), nil
}

// exitOf is what the classifier is told of the end.
func (e ended) exitOf() classifier.Exit {
	return classifier.Exit{Code: &e.code, Signal: int(e.signal)}
}

func (j *job) classify(ctx context.Context) (classifier.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, classifying)
	defer cancel()
	c, err := loadClassifier(j.cfg.rules)
	if err != nil {
		return classifier.Verdict{}, err
	}
	texts := make([]kept, len(j.streams))
	v, err := c.Classify(ctx, j.ended.exitOf(), func(yield func(classifier.Log, error) bool) {
		for i, s := range j.streams {
			var err error
			if texts[i], err = s.text(); err != nil {
				yield(classifier.Log{}, fmt.Errorf("%s could not be kept: %w", s.name, err))
				return
			}
			if !yield(classifier.Log{Name: s.name, Reader: texts[i]}, nil) {
				return
			}
		}
	})
	if err != nil {
		return v, err
	}
	v.Bytes, v.Lines = 0, 0
	for i, s := range j.streams {
		name := s.name
		if len(j.streams) == 1 {
			name = ""
		}
		texts[i].place(v.Cascade, name)
		texts[i].place(v.Others, name)
		if v.Root != nil {
			root := []classifier.Evidence{*v.Root}
			texts[i].place(root, name)
			v.Root = &root[0]
		}
		v.Bytes, v.Lines = v.Bytes+s.size, v.Lines+s.newlines
	}
	return v, nil
}

// report posts the attempt and asks the server for its decision, where there is a server. ok is false where it gave none.
func (j *job) report(ctx context.Context, v *classifier.Verdict) (d classifier.Decision, ok bool) {
	if j.cfg.server == "" {
		return d, false
	}
	if j.fields.Get("job") == "" {
		if v != nil {
			j.note("not posted: which job this is is not known; say it with --job")
		}
		return d, false
	}
	c, err := newClient(j.cfg.server)
	if err != nil {
		j.note("not posted: %v", err)
		return d, false
	}
	ctx, cancel := context.WithTimeout(ctx, j.cfg.postTimeout)
	defer cancel()
	stored, err := j.post(ctx, c)
	if err != nil {
		j.later(err, v != nil)
		return d, false
	}
	if v != nil {
		ask := url.Values{"job": {stored.Job}, "attempt": {strconv.Itoa(stored.Number)}}
		if cluster := j.fields.Get("cluster"); cluster != "" {
			ask.Set("cluster", cluster)
		}
		if d, err = c.gate(ctx, message{Query: ask}); err != nil {
			j.note("the server did not decide: %v", err)
		}
		ok = err == nil
	}
	if j.cfg.spool != "" {
		if _, err := (spool{j.cfg.spool}).send(ctx, c); err != nil && v != nil {
			j.note("spool: %v", err)
		}
	}
	return d, ok
}

// later spools what could not be posted, unless the server has refused it for good. A job that passed hears nothing of it.
func (j *job) later(err error, say bool) {
	var final refusal
	switch {
	case errors.As(err, &final):
		err = fmt.Errorf("not posted: %w", err)
	case j.cfg.spool == "":
		err = fmt.Errorf("not posted, and no --spool to keep it for later: %w", err)
	default:
		m, buildErr := j.message()
		if buildErr == nil {
			buildErr = (spool{j.cfg.spool}).add(m)
		}
		if buildErr != nil {
			err = fmt.Errorf("not posted and not spooled: %w", errors.Join(err, buildErr))
		} else {
			err = fmt.Errorf("not posted, kept in %s for later: %w", j.cfg.spool, err)
		}
	}
	if say {
		j.note("%v", err)
	}
}

func (j *job) post(ctx context.Context, c client) (stored keptAttempt, err error) {
	m, err := j.message()
	if err != nil {
		return stored, err
	}
	return stored, c.post(ctx, "/api/v1/attempts", m, &stored)
}

// message is the attempt for the server: its metadata, and the kept log where there is one.
func (j *job) message() (message, error) {
	q := url.Values{}
	for name, values := range j.fields {
		q[name] = values
	}
	q.Set("start", j.ended.start.UTC().Format(time.RFC3339Nano))
	q.Set("end", j.ended.end.UTC().Format(time.RFC3339Nano))
	m := message{Query: q, ContentType: "application/json"}
	if j.ended.signal != 0 {
		q.Set("signal", strconv.Itoa(int(j.ended.signal)))
	} else {
		q.Set("exit_code", strconv.Itoa(j.ended.code))
	}
	if j.ended.code == 0 || !slices.ContainsFunc(j.streams, func(s *capture) bool { return s.size > 0 && s.err == nil }) {
		// Without a log it is JSON, which says how it ended itself.
		body, err := json.Marshal(map[string]int{"exit_code": j.ended.code})
		q.Del("exit_code")
		q.Del("signal")
		m.body = bytes.NewReader(body)
		return m, err
	}
	texts := make([]kept, len(j.streams))
	for i, s := range j.streams {
		if s.err != nil {
			continue
		}
		var err error
		if texts[i], err = s.text(); err != nil {
			return m, err
		}
	}
	pr, pw := io.Pipe()
	form := multipart.NewWriter(nil)
	boundary := form.Boundary()
	go func() { pw.CloseWithError(j.writeForm(pw, boundary, texts)) }()
	m.ContentType, m.Encoding, m.body = "multipart/form-data; boundary="+boundary, "gzip", pr
	return m, nil
}

// writeForm packs the kept logs as a form with a file a stream.
func (j *job) writeForm(w io.Writer, boundary string, texts []kept) error {
	packed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	form := multipart.NewWriter(packed)
	if err := form.SetBoundary(boundary); err != nil {
		return err
	}
	for i, s := range j.streams {
		if texts[i].Reader == nil {
			continue
		}
		part, err := form.CreateFormFile("log", s.name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(part, texts[i]); err != nil {
			return err
		}
	}
	return errors.Join(form.Close(), packed.Close())
}

// prefixed marks lines as culprit's, so that nobody takes them for the job's.
func prefixed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("culprit: " + line)
	}
	return b.String()
}

// attemptFields are what the environment and then the flags say of the attempt, under their names in the API.
func (cfg *gateConfig) attemptFields(f *pflag.FlagSet, getenv func(string) string) url.Values {
	fields, _ := metadata(getenv)
	for flag, value := range map[string]string{"job": cfg.job, "user": cfg.user, "vc": cfg.vc, "cluster": cfg.cluster, "name": cfg.name,
		"gpus": strconv.Itoa(cfg.gpus), "attempt": strconv.Itoa(cfg.attempt), "node": cfg.node} {
		if !f.Changed(flag) {
			continue
		}
		if flag == "node" {
			fields.Del("nodes")
		}
		if flag == "job" {
			fields.Del("run_id") // it belonged to the job of the environment
			if !f.Changed("attempt") && getenv("SLURM_JOB_ID") == "" {
				fields.Del("attempt")
			}
		}
		fields.Set(flag, value)
	}
	if fields.Get("user") == "" {
		if user := cmp.Or(getenv("USER"), getenv("LOGNAME")); user != "" {
			fields.Set("user", user)
		}
	}
	return fields
}
