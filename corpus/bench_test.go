package corpus

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var attempts = flag.Int("corpus.attempts", 100_000, "attempts of the large benchmarks; the figures of the README are for 1,000,000 (report) and 100,000 (search)")

// trainingLog is a log of about n bytes as a training job writes it, with a traceback at its end.
func trainingLog(n int, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 7))
	words := []string{"optimizer", "loader", "shard", "cache", "tensor", "kernel", "bucket", "prefetch", "gradient", "allreduce", "checkpoint", "scheduler"}
	var b strings.Builder
	b.Grow(n + 4096)
	fmt.Fprintf(&b, "2026-12-01 10:00:00,123 INFO run %d starts on gpu-%d with %s\n", seed, rng.IntN(500), words[rng.IntN(len(words))])
	for i := 0; b.Len() < n; i++ {
		if rng.IntN(40) == 0 {
			fmt.Fprintf(&b, "2026-12-01 10:%02d:%02d WARNING [%s.%s] rank %d: %s %s took %d ms\n", i/60%60, i%60, words[rng.IntN(12)], words[rng.IntN(12)],
				rng.IntN(64), words[rng.IntN(12)], words[rng.IntN(12)], rng.IntN(9000))
			continue
		}
		fmt.Fprintf(&b, "2026-12-01 10:%02d:%02d,%03d INFO [rank%d] step %d/100000 | loss %.5f | lr %.2e | grad_norm %.3f | tokens/s %d | mem %d MiB\n",
			i/60%60, i%60, rng.IntN(1000), i%8, i, rng.Float64(), rng.Float64()/1000, rng.Float64(), rng.IntN(90_000), rng.IntN(80_000))
	}
	fmt.Fprintf(&b, "Traceback (most recent call last):\n  File \"/home/u%d/train.py\", line %d, in main\n    loss.backward()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d.00 GiB\nmarker%d\n",
		rng.IntN(300), rng.IntN(900), rng.IntN(64), seed%1000)
	return b.String()
}

// measured runs f as a benchmark and reports its processor time too, which other work on the machine changes less.
func measured(b *testing.B, name string, f func() error) {
	b.Run(name, func(b *testing.B) {
		before := cpu(b)
		for b.Loop() {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAdd is the durable adding of 100 KB logs by 64 clients, staging and zstd included, with the index behind.
func BenchmarkAdd(b *testing.B) {
	for _, indexed := range []bool{false, true} {
		b.Run(fmt.Sprintf("index=%v", indexed), func(b *testing.B) {
			c := open(b, b.TempDir(), Options{NoIndex: !indexed})
			var texts []string
			for i := range 64 {
				texts = append(texts, trainingLog(100<<10, uint64(i)))
			}
			b.SetBytes(100 << 10)
			b.SetParallelism(32) // × 2 cores
			var n atomic.Int64
			took := make([]time.Duration, b.N)
			before := cpu(b)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := n.Add(1) - 1
					begin := time.Now()
					text := fmt.Sprintf("attempt %d\n%s", i, texts[i%64])
					a := Attempt{Job: fmt.Sprint(i), User: "u", GPUs: 8, Verdict: oom(1)}
					if _, err := c.Add(context.Background(), &a, stage(b, c, logs("", text))); err != nil {
						b.Error(err)
					}
					took[i] = time.Since(begin)
				}
			})
			b.StopTimer()
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
			b.ReportMetric(float64(took[(len(took)*99-1)/100].Milliseconds()), "p99-ms")
		})
	}
}

// BenchmarkAddRecord is the adding of records without logs, as an import does it.
func BenchmarkAddRecord(b *testing.B) {
	c := open(b, b.TempDir(), Options{NoIndex: true})
	b.ResetTimer()
	fill(b, c, b.N, rand.New(rand.NewPCG(1, 1)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
}

// BenchmarkIndex is the indexing of 100 KB logs from the start, and the size of the index against that of the text.
func BenchmarkIndex(b *testing.B) {
	const docs = 1500
	dir := b.TempDir()
	c := open(b, dir, Options{NoIndex: true})
	text := int64(0)
	for i := range docs {
		log := trainingLog(100<<10, uint64(i))
		text += int64(len(log))
		add(b, c, Attempt{Job: fmt.Sprint(i), Verdict: oom(int64(strings.Count(log, "\n")) - 1)}, "", log)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		if err := os.RemoveAll(filepath.Join(dir, indexName())); err != nil {
			b.Fatal(err)
		}
		c := open(b, dir, Options{})
		for c.index.done.Load() < c.rev.Load() {
			time.Sleep(time.Millisecond)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(docs*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
	b.ReportMetric(float64(folderBytes(filepath.Join(dir, indexName())))/float64(text), "index/text")
}

// BenchmarkStage is one upload through Tee, hashing and zstd.
func BenchmarkStage(b *testing.B) {
	c := open(b, b.TempDir(), Options{NoIndex: true})
	text := trainingLog(64<<20, 1)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		stage(b, c, logs("", text)).Discard()
	}
}

// BenchmarkLines reads 200 lines from the middle of a log of 100 MB.
func BenchmarkLines(b *testing.B) {
	c := open(b, b.TempDir(), Options{NoIndex: true})
	a := add(b, c, Attempt{Job: "1"}, "", trainingLog(100<<20, 1))
	n := a.Logs[0].Lines
	for b.Loop() {
		if got, err := c.Lines(context.Background(), a.ID, "", n/2, n/2+199); err != nil || len(got) != 200 {
			b.Fatal(len(got), err)
		}
	}
}

// BenchmarkWaste is a report over -corpus.attempts attempts; cold-database and cold-file open the corpus first.
func BenchmarkWaste(b *testing.B) {
	if testing.Short() {
		b.Skip("fills a large corpus")
	}
	dir := b.TempDir()
	c := open(b, dir, Options{NoIndex: true})
	fill(b, c, *attempts, rand.New(rand.NewPCG(9, 9)))
	report := func(c *Corpus, w Window, by Grouping) error {
		_, err := c.Waste(context.Background(), Filter{Window: w}, by)
		return err
	}
	cold := func() error {
		r, err := Open(context.Background(), dir, Options{ReadOnly: true, NoIndex: true})
		if err != nil {
			return err
		}
		defer r.Close()
		return report(r, Window{}, ByCategory)
	}
	measured(b, "cold-database", cold)
	if err := report(c, Window{}, ByCategory); err != nil {
		b.Fatal(err)
	}
	c.saveFacts(1)
	measured(b, "cold-file", cold)
	for _, by := range Groupings {
		measured(b, string(by)+"/all", func() error { return report(c, Window{}, by) })
		measured(b, string(by)+"/month", func() error { return report(c, Window{*at("2026-10-01T00:00:00Z"), *at("2026-11-01T00:00:00Z")}, by) })
	}
	measured(b, "list", func() error {
		_, err := c.Attempts(context.Background(), Filter{})
		return err
	})
	measured(b, "list-user-category", func() error {
		_, err := c.Attempts(context.Background(), Filter{Users: []string{"user-7"}, Categories: []string{"gpu-oom"}})
		return err
	})
	measured(b, "stats", func() error {
		_, err := c.Stats(context.Background())
		return err
	})
}

// BenchmarkSearch searches -corpus.attempts attempts with logs of 8 KB.
func BenchmarkSearch(b *testing.B) {
	if testing.Short() {
		b.Skip("fills a large corpus")
	}
	c := open(b, b.TempDir(), Options{MaxLag: 1 << 30})
	for i := range *attempts {
		log := trainingLog(8<<10, uint64(i))
		if i%(*attempts/10) == 0 {
			log += "unobtainium was found\n"
		}
		a := Attempt{Job: fmt.Sprint(i), User: fmt.Sprintf("user-%d", i%350), Verdict: oom(int64(strings.Count(log, "\n")) - 1)}
		l, err := c.NewLog()
		if err != nil {
			b.Fatal(err)
		}
		for log, err := range l.Tee(logs("", log)) {
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, log.Reader)
		}
		if _, err := c.Add(context.Background(), &a, l); err != nil {
			b.Fatal(err)
		}
	}
	for c.index.done.Load() < c.rev.Load() {
		time.Sleep(10 * time.Millisecond)
	}
	for _, query := range []string{"unobtainium", "marker7", `"Tried to allocate 7.00 GiB"`, "memory", "cuda memory traceback", `"out of memory"`, `"rank 3"`,
		"memory user:user-7", "memory -gradient", "memory sort:best", "category:gpu-oom"} {
		measured(b, strings.ReplaceAll(query, " ", "_"), func() error {
			_, err := c.Search(context.Background(), query, 0, "")
			return err
		})
	}
}
