package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/corpus/trace"
	"culprit/rules"
)

// demoConfig are the flags of demo.
type demoConfig struct {
	data, rules string
	jobs        int
	seed        uint64
}

func demoCommand() *cobra.Command {
	cfg := demoConfig{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Fill a folder with a simulated cluster, to look around in",
		Long: `Simulates two months of a cluster with as many jobs, and as many failures of each reason, as the one of the paper: retries, four
bad nodes and an outage of the storage included. Failed attempts have logs, which are classified as any other. The folder says
that it is simulated. The same seed gives the same cluster, and an interrupted demo goes on where it was.`,
		Example: `  culprit demo --data demo && culprit serve --data demo
  culprit demo --data small --jobs 2000 && culprit report --data small --paper`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd, cfg) },
	}
	f := cmd.Flags()
	f.StringVar(&cfg.data, "data", "", "`folder` to fill; one of its own")
	f.StringVar(&cfg.rules, "rules", "", "`folder` of rule packs to use instead of the built-in ones")
	f.IntVar(&cfg.jobs, "jobs", 96260, "`number` of jobs")
	f.Uint64Var(&cfg.seed, "seed", 1, "`number` that chooses the cluster")
	return cmd
}

func demo(cmd *cobra.Command, cfg demoConfig) (err error) {
	if cfg.data == "" {
		return usagef("--data is missing: name a folder for the simulated cluster")
	}
	if cfg.jobs < 1 {
		return usagef("--jobs %d: must be at least 1", cfg.jobs)
	}
	c, err := loadClassifier(cfg.rules)
	if err != nil {
		return err
	}
	kept, err := corpus.Open(cmd.Context(), cfg.data, corpus.Options{NoIndex: true})
	if err != nil {
		return err
	}
	defer func() {
		if e := kept.Close(); err == nil {
			err = e
		}
	}()
	if err := kept.MarkSimulated(corpus.Simulated{Jobs: cfg.jobs, Seed: cfg.seed}); err != nil {
		return err
	}
	began := time.Now()
	s := &simulation{corpus: kept, classifier: c, progress: newProgress(cmd.ErrOrStderr()), verdicts: map[string]classifier.Verdict{}}
	if err := s.run(cmd.Context(), trace.Simulation{Jobs: cfg.jobs, Seed: cfg.seed}); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "simulated %d jobs with %d attempts, %d of them failed, in %s\nculprit serve --data %s shows them\n",
		cfg.jobs, s.attempts, s.failed, time.Since(began).Round(time.Second), cfg.data)
	return nil
}

// simulation keeps simulated attempts.
type simulation struct {
	corpus           *corpus.Corpus
	classifier       *classifier.Classifier
	progress         *progress
	verdicts         map[string]classifier.Verdict // of runs without logs, by state
	attempts, failed int
}

// demoBatch is how many attempts are kept at a time.
const demoBatch = 1000

func (s *simulation) run(ctx context.Context, sim trace.Simulation) error {
	var batch []trace.SimulatedRun
	for run, err := range sim.Runs() {
		if err != nil {
			return err
		}
		s.attempts++
		if run.Category != rules.CategoryNone {
			s.failed++
		}
		if batch = append(batch, run); len(batch) < demoBatch {
			continue
		}
		if err := s.keep(ctx, batch); err != nil {
			return err
		}
		batch = batch[:0]
		s.progress.update(int64(s.attempts), int64(sim.Jobs)*5/4)
	}
	err := s.keep(ctx, batch)
	s.progress.end()
	return err
}

// keep keeps a batch: runs that failed with their logs, on all cores, since each log is synced by itself.
func (s *simulation) keep(ctx context.Context, batch []trace.SimulatedRun) error {
	var records []*corpus.Attempt
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8 * runtime.GOMAXPROCS(0))
	for i := range batch {
		run := &batch[i]
		if run.Failure != nil {
			g.Go(func() error { return s.keepFailed(gctx, run) })
			continue
		}
		v, ok := s.verdicts[run.Attempt.State]
		if !ok {
			var err error
			if v, err = s.classifier.Classify(ctx, run.Attempt.Exit, func(func(classifier.Log, error) bool) {}); err != nil {
				return err
			}
			s.verdicts[run.Attempt.State] = v
		}
		run.Attempt.Verdict = v
		records = append(records, &run.Attempt)
	}
	for _, r := range s.corpus.AddAll(ctx, records) {
		if r.Err != nil {
			return r.Err
		}
	}
	return g.Wait()
}

func (s *simulation) keepFailed(ctx context.Context, run *trace.SimulatedRun) error {
	var text bytes.Buffer
	if err := run.Failure.Write(&text); err != nil {
		return err
	}
	kept, err := s.corpus.NewLog()
	if err != nil {
		return err
	}
	defer kept.Discard()
	a := &run.Attempt
	a.Verdict, err = s.classifier.Classify(ctx, a.Exit, kept.Tee(classifier.One(classifier.Log{Reader: io.Reader(&text)})))
	if err != nil {
		return err
	}
	_, err = s.corpus.Add(ctx, a, kept)
	return err
}
