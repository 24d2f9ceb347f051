package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // zones of traces, also where the machine has none

	"github.com/spf13/cobra"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/corpus/trace"
)

// source is a kind of records that import reads.
type source struct {
	name, short, long, example string
	read                       trace.Reader
	columns                    bool // has columns that --map can name
}

var sources = []source{
	{name: "slurm", short: "Import what sacct prints, with -P or --json", read: trace.Slurm,
		long: `Reads the output of sacct -P (with its header, so without -n) or sacct --json. Ask for
JobIDRaw,JobID,JobName,User,UID,Account,Partition,QOS,Cluster,State,ExitCode,DerivedExitCode,ElapsedRaw,Submit,Start,End,
AllocTRES,ReqTRES,NodeList,FailedNode,Restarts,SLUID,Reason,StdErr,WorkDir (leave out what your Slurm does not know, as
SLUID before it had it), and for -D, which shows the runs of requeued jobs. sacct's times have no zone: they are this machine's
unless --zone says otherwise.`,
		example: `  sacct -a -D -P -S 2026-11-01 -E 2026-12-01 -o JobIDRaw,JobID,JobName,User,UID,Account,Partition,QOS,Cluster,State,ExitCode,DerivedExitCode,ElapsedRaw,Submit,Start,End,AllocTRES,ReqTRES,NodeList,FailedNode,Restarts,Reason,StdErr,WorkDir | culprit import slurm -
  sacct -a -D --json -S 2026-11-01 | culprit import slurm --log-root /home -`},
	{name: "kubernetes", short: "Import what kubectl get pods,jobs,events -o json prints", read: trace.Kubernetes,
		long: `Reads the output of kubectl get -o json. The pods of one job that ran at the same time (a PyTorchJob's workers, an indexed
Job's) are one attempt, each restart of a container another. Events tell a preemption from an OOM kill where the pod does not.`,
		example: `  kubectl get pods,jobs,events -A -o json | culprit import kubernetes -`},
	{name: "philly", short: "Import cluster_job_log of the Philly trace", read: trace.Philly,
		long:    `Reads cluster_job_log of github.com/msr-fiddle/philly-traces. The trace has no logs and no exit codes, so no category of failure.`,
		example: `  culprit import philly cluster_job_log`},
	{name: "acme", short: "Import trace_seren.csv or trace_kalos.csv of AcmeTrace", read: trace.Acme,
		long: `Reads the job traces of github.com/InternLM/AcmeTrace. Runtime is end minus start: the duration of Kalos, which counts the
queue, is not used.`,
		example: `  culprit import acme --cluster seren trace_seren.csv`},
	{name: "csv", short: "Import a table with a header", read: trace.CSV, columns: true,
		long: `Reads a CSV table. Its columns are named as an attempt's fields, or mapped to them with --map; others are passed over. Fields:
` + strings.Join(trace.Fields, ", ") + `. Times without a zone are UTC unless --zone says otherwise; numbers are seconds or
milliseconds since 1970.`,
		example: `  culprit import csv --map job=JobId,user=Owner,start=Began,end=Ended,gpus=GPUs --zone Europe/Berlin jobs.csv`},
	{name: "ndjson", short: "Import one JSON object a line", read: trace.NDJSON, columns: true,
		long: `Reads one JSON object a line, with members as csv has columns; a dot names a member of an inner object. Fields:
` + strings.Join(trace.Fields, ", ") + `.`,
		example: `  culprit import ndjson --map job=id,exit_code=status.code jobs.ndjson.gz`},
}

// importConfig are the flags of import.
type importConfig struct {
	data, server, rules, zone, cluster string
	columns                            map[string]string
	logRoots                           []string
}

func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Import what schedulers and published traces tell of jobs",
		Long: `Reads records of jobs and keeps them, with the verdict that their exit code and state allow. What is read again is
recognised, so an import that was interrupted is simply run again. At the end it says what it left out and why.`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, s := range sources {
		cmd.AddCommand(importSourceCommand(s))
	}
	return cmd
}

func importSourceCommand(s source) *cobra.Command {
	var cfg importConfig
	cmd := &cobra.Command{
		Use:     s.name + " [flags] FILE... | -",
		Short:   s.short,
		Long:    s.long + "\n\nFiles ending in .gz and .zst are unpacked; - is standard input.",
		Example: s.example,
		Args:    usageArgs(cobra.MinimumNArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return importFiles(cmd, s, cfg, args) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.data, "data", "culprit-data", "`folder` of the database; no server must be running on it")
	f.StringVar(&cfg.server, "server", "", "`address` of a running server to send to, instead of --data")
	f.StringVar(&cfg.rules, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	f.StringVar(&cfg.zone, "zone", "", "`zone` of times that have none, such as Europe/Berlin or UTC")
	f.StringVar(&cfg.cluster, "cluster", "", "`name` of the cluster, to tell equal job ids of several apart")
	f.StringArrayVar(&cfg.logRoots, "log-root", nil, "`folder` below which logs may be read that records name; can be given again")
	if s.columns {
		f.StringToStringVar(&cfg.columns, "map", nil, "`field=column` pairs, with commas between them")
	}
	return cmd
}

func importFiles(cmd *cobra.Command, s source, cfg importConfig, files []string) (err error) {
	opt, err := cfg.options()
	if err != nil {
		return err
	}
	to, err := openDestination(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	in := newImporter(to, newProgress(cmd.ErrOrStderr()))
	for _, file := range files {
		if err = in.file(cmd.Context(), cmd.InOrStdin(), file, s.read, opt); err != nil {
			err = fmt.Errorf("%s: %w; what was read before is kept, and recognised when it is read again", file, err)
			break
		}
	}
	in.progress.end()
	in.print(cmd.OutOrStdout())
	return err
}

func (cfg importConfig) options() (trace.Options, error) {
	opt := trace.Options{Cluster: cfg.cluster, Columns: cfg.columns}
	if cfg.zone != "" {
		zone, err := time.LoadLocation(cfg.zone)
		if err != nil {
			return opt, usagef("--zone %q: %v", cfg.zone, err)
		}
		opt.Zone = zone
	}
	if err := trace.CheckColumns(cfg.columns); err != nil {
		return opt, usagef("--map: %v", err)
	}
	return opt, nil
}

// importBatch is how many records share a transaction.
const importBatch = 1000

// importer hands records to a destination and counts what becomes of them.
type importer struct {
	to       *destination
	progress *progress
	batch    []trace.Record

	read, added, known int
	skipped, noted     map[string]*tally
}

// tally counts one reason and remembers where it came up first.
type tally struct {
	n     int
	first string
}

func newImporter(to *destination, p *progress) *importer {
	return &importer{to: to, progress: p, skipped: map[string]*tally{}, noted: map[string]*tally{}}
}

func count(m map[string]*tally, reason, first string) {
	if m[reason] == nil {
		m[reason] = &tally{first: first}
	}
	m[reason].n++
}

// file reads one file to its end.
func (in *importer) file(ctx context.Context, stdin io.Reader, file string, read trace.Reader, opt trace.Options) error {
	f, err := openLog(stdin, file)
	if err != nil {
		return err
	}
	defer f.Close()
	r := &countingReader{r: f, size: sizeOf(file)}
	for rec, err := range read(r, opt) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var skip *trace.Skip
		switch {
		case errors.As(err, &skip):
			count(in.skipped, skip.Reason, skip.Error())
			continue
		case err != nil:
			return errors.Join(err, in.flush(ctx))
		}
		for _, n := range rec.Notes {
			count(in.noted, n, "job "+rec.Attempt.Job)
		}
		if in.batch = append(in.batch, rec); len(in.batch) == importBatch {
			if err := in.flush(ctx); err != nil {
				return err
			}
			in.progress.update(r.n, max(r.size, r.n))
		}
	}
	return in.flush(ctx)
}

// flush keeps the records of the batch.
func (in *importer) flush(ctx context.Context) error {
	if len(in.batch) == 0 {
		return nil
	}
	results, err := in.to.keep(ctx, in.batch)
	if err != nil {
		return err
	}
	for i, r := range results {
		switch {
		case r.Err != nil:
			count(in.skipped, refusalReason(r.Err), fmt.Sprintf("job %s: %v", in.batch[i].Attempt.Job, r.Err))
		case r.Existed:
			in.known++
		default:
			in.added++
		}
	}
	in.read += len(in.batch)
	in.batch = in.batch[:0]
	return nil
}

// refusalReason says in few words why an attempt was not kept.
func refusalReason(err error) string {
	var conflict *corpus.ConflictError
	var field *corpus.FieldError
	switch {
	case errors.As(err, &conflict):
		return "its " + conflict.Field + " contradicts what is kept"
	case errors.As(err, &field):
		return "its " + field.Field + " cannot be right"
	}
	return "it was refused"
}

func (in *importer) print(w io.Writer) {
	skipped := 0
	for _, t := range in.skipped {
		skipped += t.n
	}
	fmt.Fprintf(w, "imported %d attempts; %d were known, %d entries left out\n", in.added, in.known, skipped)
	printTallies(w, "left out", in.skipped)
	printTallies(w, "noted", in.noted)
}

func printTallies(w io.Writer, title string, m map[string]*tally) {
	if len(m) == 0 {
		return
	}
	fmt.Fprintf(w, "%s:\n", title)
	reasons := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return m[b].n - m[a].n })
	for _, reason := range reasons {
		fmt.Fprintf(w, "  %8d  %s\n            first: %s\n", m[reason].n, reason, printable(m[reason].first, 200))
	}
}

// countingReader counts the bytes that are read of a file of a known size; 0 is unknown.
type countingReader struct {
	r       io.Reader
	n, size int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// sizeOf is the size of a file whose bytes are read as they are; 0 for others.
func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil || slices.Contains([]string{".gz", ".zst"}, filepath.Ext(file)) {
		return 0
	}
	return info.Size()
}

// destination is where records go: a corpus that is opened here, or a server.
type destination struct {
	corpus     *corpus.Corpus
	classifier *classifier.Classifier
	roots      *trace.Roots
	verdicts   map[string]classifier.Verdict // by exit: records without logs have few
	server     *client
}

func openDestination(ctx context.Context, cfg importConfig) (*destination, error) {
	if cfg.server != "" {
		c, err := newClient(cfg.server)
		if err != nil {
			return nil, err
		}
		if cfg.logRoots != nil {
			return nil, usagef("--log-root needs --data: a server reads logs below folders of its own")
		}
		return &destination{server: &c}, nil
	}
	c, err := loadClassifier(cfg.rules)
	if err != nil {
		return nil, err
	}
	roots, err := trace.OpenRoots(cfg.logRoots)
	if err != nil {
		return nil, usageError{err}
	}
	kept, err := corpus.Open(ctx, cfg.data, corpus.Options{NoIndex: true})
	if err != nil {
		return nil, errors.Join(err, roots.Close())
	}
	return &destination{corpus: kept, classifier: c, roots: roots, verdicts: map[string]classifier.Verdict{}}, nil
}

func (d *destination) close() error {
	if d.corpus == nil {
		return nil
	}
	return errors.Join(d.corpus.Close(), d.roots.Close())
}

// keep keeps records in their order. The error is one after which going on makes no sense.
func (d *destination) keep(ctx context.Context, list []trace.Record) ([]corpus.Added, error) {
	if d.server != nil {
		return d.send(ctx, list)
	}
	attempts := make([]*corpus.Attempt, len(list))
	for i := range list {
		a := &list[i].Attempt
		var err error
		if a.Verdict, err = d.verdict(ctx, a.Exit); err != nil {
			return nil, err
		}
		attempts[i] = a
	}
	results := d.corpus.AddAll(ctx, attempts)
	for i, r := range results {
		if r.Err != nil && !isRefused(r.Err) {
			return nil, r.Err
		}
		if r.Err == nil && !d.roots.Empty() {
			if err := d.keepLog(ctx, &list[i]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// isRefused tells what is wrong with a record from what is wrong with the corpus.
func isRefused(err error) bool {
	var field *corpus.FieldError
	return errors.Is(err, corpus.ErrConflict) || errors.As(err, &field)
}

// verdict is the verdict on a run without a log.
func (d *destination) verdict(ctx context.Context, e classifier.Exit) (classifier.Verdict, error) {
	code := -1
	if e.Code != nil {
		code = *e.Code
	}
	key := fmt.Sprint(code, " ", e.Signal, " ", e.State, "\n", e.Reason)
	v, ok := d.verdicts[key]
	if !ok {
		var err error
		if v, err = d.classifier.Classify(ctx, e, func(func(classifier.Log, error) bool) {}); err != nil {
			return v, err
		}
		if len(d.verdicts) < 10_000 { // reasons can be anything
			d.verdicts[key] = v
		}
	}
	return v, nil
}

// keepLog reads the log that the record of a failed run names, where that may be read and is not kept yet. A log that
// cannot be read is left out.
func (d *destination) keepLog(ctx context.Context, rec *trace.Record) error {
	a := rec.Attempt
	if rec.Log == "" || a.Succeeded() || len(a.Logs) > 0 {
		return nil
	}
	f, err := d.roots.Open(rec.Log, rec.Owner)
	if err != nil {
		return nil
	}
	defer f.Close()
	kept, err := d.corpus.NewLog()
	if err != nil {
		return err
	}
	defer kept.Discard()
	if a.Verdict, err = d.classifier.Classify(ctx, a.Exit, kept.Tee(classifier.One(classifier.Log{Reader: f}))); err != nil {
		return err
	}
	_, err = d.corpus.Add(ctx, &a, kept)
	return err
}
