package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/corpus/trace"
	"culprit/rules"
)

// storePart measures search, reports and the start of a server with many attempts.
func (b *bench) storePart() error {
	if err := b.reports(b.small(b.cfg.reports)); err != nil {
		return err
	}
	return b.searches(b.small(b.cfg.attempts))
}

// reports measures reports at a tenth of the attempts and at all of them.
func (b *bench) reports(n int) error {
	data := b.path("report-data")
	var before time.Duration
	for _, size := range []int{n / 10, n} {
		took, err := b.simulate(data+fmt.Sprint(size), size)
		if err != nil {
			return err
		}
		p95, worst, err := b.reportTimes(data + fmt.Sprint(size))
		if err != nil {
			return err
		}
		b.say("report over %d: p95 %s", size, millis(p95))
		if size < n {
			before = p95
			continue
		}
		b.note("Adding %s simulated attempts without logs took %.1f s, %s/s.", thousands(float64(n)), took.Seconds(), thousands(float64(n)/took.Seconds()))
		b.row(fmt.Sprintf("report over %s attempts, any grouping and any month, p95", thousands(float64(n))), millis(p95)+", slowest "+worst, "", "", "500 ms", p95 <= 500*time.Millisecond)
		b.grown(fmt.Sprintf("growth: report over %s attempts instead of %s", thousands(float64(n)), thousands(float64(n/10))), millis(before), millis(p95), 10, of(p95, before))
	}
	return b.coldStart(data+fmt.Sprint(n), n)
}

// simulate fills a folder with attempts of a simulated cluster, without their logs.
func (b *bench) simulate(data string, n int) (time.Duration, error) {
	kept, err := corpus.Open(b.ctx, data, corpus.Options{NoIndex: true})
	if err != nil {
		return 0, err
	}
	defer kept.Close()
	began := time.Now()
	var batch []*corpus.Attempt
	flush := func() error {
		for _, a := range kept.AddAll(b.ctx, batch) {
			if a.Err != nil {
				return a.Err
			}
		}
		batch = batch[:0]
		return nil
	}
	count := 0
	for run, err := range (trace.Simulation{Jobs: n, Seed: 1}).Runs() { // a job has one attempt or more
		if err != nil {
			return 0, err
		}
		if count++; count > n {
			break
		}
		a := run.Attempt
		a.Verdict = b.verdictOf(run.Category)
		if batch = append(batch, &a); len(batch) == 2000 {
			if err := flush(); err != nil {
				return 0, err
			}
		}
	}
	err = flush()
	return time.Since(began), err
}

func (b *bench) verdictOf(category string) classifier.Verdict {
	v := classifier.Verdict{Category: category, Title: category, Fault: rules.FaultUnknown, Retry: rules.RetryOnce, Confidence: 0.9, Summary: "simulated", Cascade: []classifier.Evidence{}, RulesVersion: b.set.Version()}
	for _, c := range b.set.Taxonomy().Categories {
		if c.ID == category {
			v.Title, v.Fault, v.Retry = c.Title, c.Fault, c.Retry
		}
	}
	if category != rules.CategoryNone {
		v.Rule = "simulated-" + category
	}
	return v
}

// reportTimes measures each grouping over all time and over months, as JSON, and names the slowest.
func (b *bench) reportTimes(data string) (p95 time.Duration, slowest string, err error) {
	kept, err := corpus.Open(b.ctx, data, corpus.Options{ReadOnly: true, NoIndex: true})
	if err != nil {
		return 0, "", err
	}
	defer kept.Close()
	windows := []corpus.Window{{}}
	for month := time.August; month <= time.December; month++ {
		windows = append(windows, corpus.Window{From: time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, month+1, 1, 0, 0, 0, 0, time.UTC)})
	}
	if _, err := kept.Waste(b.ctx, corpus.Filter{}, corpus.ByCategory); err != nil { // the first reads the facts: the cold start counts it
		return 0, "", err
	}
	var took []time.Duration
	var worst time.Duration
	for range b.cfg.rounds {
		for _, by := range corpus.Groupings {
			for _, w := range windows {
				began := time.Now()
				report, err := kept.Waste(b.ctx, corpus.Filter{Window: w, Limit: 100}, by)
				if err != nil {
					return 0, "", err
				}
				if _, err := json.Marshal(report); err != nil {
					return 0, "", err
				}
				d := time.Since(began)
				if took = append(took, d); d > worst {
					worst, slowest = d, fmt.Sprintf("%s by %s", millis(d), by)
				}
			}
		}
	}
	return percentile(took, 95), slowest, nil
}

// coldStart is the time from the start of a server's process to its first report.
func (b *bench) coldStart(data string, n int) error {
	var turns samples
	for range min(3, b.cfg.rounds) {
		s, err := b.serve("/api/v1/report?by=category", b.culprit, "serve", "--listen", "ADDRESS", "--data", data)
		if err != nil {
			return err
		}
		turns = append(turns, sample{wall: s.took})
		if err := s.stop(); err != nil {
			return err
		}
	}
	b.row(fmt.Sprintf("cold start with %s attempts, to the first report", thousands(float64(n))), millis(turns.wall()), "", "", "2 s", turns.wall() <= 2*time.Second)
	b.note("Cold start: the process is new and its text index is being built at the same time; the page cache is warm. The first start is the slowest: %s.", millis(turns[0].wall))
	return nil
}

// searchLogBytes is the length of the logs that are searched; the index takes at most 32 KB of a log of any length.
const searchLogBytes = 3000

// searches measures searches at a tenth of the attempts and at all of them.
func (b *bench) searches(n int) error {
	kept, err := corpus.Open(b.ctx, b.path("search-data"), corpus.Options{})
	if err != nil {
		return err
	}
	defer kept.Close()
	c := classifier.New(b.set)
	var before [2]time.Duration
	began := time.Now()
	for i, size := range []int{n / 10, n} {
		if err := b.fill(kept, c, []int{0, n / 10}[i], size); err != nil {
			return err
		}
		if err := b.indexed(kept); err != nil {
			return err
		}
		b.say("%d attempts are kept and indexed", size)
		rare, err := b.searchTimes(kept, func(r *rand.Rand) string { return fmt.Sprintf("serial%d", r.IntN(size)) })
		if err != nil {
			return err
		}
		common := []string{"memory", "error", "cuda memory", "python file line", `"rank 3"`, "loss step", "error -memory", "failed OR error", "user:user-7 error"}
		often, err := b.searchTimes(kept, func(r *rand.Rand) string { return common[r.IntN(len(common))] })
		if err != nil {
			return err
		}
		b.say("search over %d: rare p95 %s, common p95 %s", size, millis(rare), millis(often))
		if size < n {
			before = [2]time.Duration{rare, often}
			continue
		}
		name := thousands(float64(n))
		b.row("search over "+name+" attempts, a rare term, p95", millis(rare), "", "", "20 ms", rare <= 20*time.Millisecond)
		b.row("search over "+name+" attempts, common terms, p95", millis(often), "", "", "200 ms", often <= 200*time.Millisecond)
		b.grown("growth: common search over "+name+" attempts instead of "+thousands(float64(n/10)), millis(before[1]), millis(often), 10, of(often, before[1]))
		b.note("Keeping, classifying and indexing %s attempts of %d KB for the search took %.0f s.", name, searchLogBytes/1000, time.Since(began).Seconds())
	}
	return nil
}

// fill adds attempts number from to number to, several at a time, each with a log that has one word of its own.
func (b *bench) fill(kept *corpus.Corpus, c *classifier.Classifier, from, to int) error {
	g, ctx := errgroup.WithContext(b.ctx)
	g.SetLimit(32)
	for i := from; i < to; i++ {
		g.Go(func() error { return addFailed(ctx, kept, c, i) })
	}
	return g.Wait()
}

func addFailed(ctx context.Context, kept *corpus.Corpus, c *classifier.Classifier, i int) error {
	text, err := failedLog(i, searchLogBytes)
	if err != nil {
		return err
	}
	text = append(fmt.Appendf(nil, "attempt serial%d begins\n", i), text...)
	l, err := kept.NewLog()
	if err != nil {
		return err
	}
	defer l.Discard()
	one := 1
	a := corpus.Attempt{Job: fmt.Sprint(i), User: fmt.Sprintf("user-%d", i%20), GPUs: 8, Exit: classifier.Exit{Code: &one}}
	if a.Verdict, err = c.Classify(ctx, a.Exit, l.Tee(classifier.One(classifier.Log{Reader: bytes.NewReader(text)}))); err != nil {
		return err
	}
	_, err = kept.Add(ctx, &a, l)
	return err
}

// indexed waits until the index has read all that is kept.
func (b *bench) indexed(kept *corpus.Corpus) error {
	for {
		s, err := kept.Stats(b.ctx)
		if err != nil || s.IndexLagAttempts == 0 {
			return err
		}
		if s.IndexError != "" {
			return fmt.Errorf("the index fails: %s", s.IndexError)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (b *bench) searchTimes(kept *corpus.Corpus, query func(*rand.Rand) string) (p95 time.Duration, err error) {
	r := rand.New(rand.NewPCG(3, 4))
	var took []time.Duration
	for range 20 * b.cfg.rounds {
		q := query(r)
		began := time.Now()
		hits, err := kept.Search(b.ctx, q, 20, "")
		if err != nil {
			return 0, err
		}
		if hits.Total == 0 {
			return 0, fmt.Errorf("the search for %s found nothing", q)
		}
		took = append(took, time.Since(began))
	}
	return percentile(took, 95), nil
}

// indexBytes is the size of the text index in a corpus's folder.
func indexBytes(data string) (total int64, err error) {
	err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/index-") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
