// Command bench runs culprit and the tools that a person would reach for on the same logs, in turns within one run, and
// writes what it measured to BENCHMARKS.md.
//
// What two cores of a busy machine do in a second says little; the ratio of two programs that took turns on them says
// more, and processor time more than the clock. So everything is measured in rounds, the median counts, and each figure of
// culprit stands beside that of a peer. Peers that the machine lacks are left out, and the table says so. Everything is
// made from seeds, and nothing but 127.0.0.1 is spoken to.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"culprit/rules"
)

// config is what a run measures.
type config struct {
	rounds   int
	attempts int
	reports  int
	full     bool
	quick    bool
	only     string
	out      string
	budget   time.Duration
	words    string
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "scan" {
		fail(scanMain(os.Args[2:]))
		return
	}
	var cfg config
	flag.IntVar(&cfg.rounds, "rounds", 5, "how often each program has its turn; the median counts")
	flag.IntVar(&cfg.attempts, "attempts", 100_000, "attempts to search over, and a tenth of them first")
	flag.IntVar(&cfg.reports, "reports", 100_000, "attempts to report over, and a tenth of them first")
	flag.BoolVar(&cfg.full, "full", false, "report over 1,000,000 attempts and scan a log of 2 GB too")
	flag.BoolVar(&cfg.quick, "quick", false, "small logs and few attempts: to see that it runs, not to measure")
	flag.StringVar(&cfg.only, "only", "", "parts to run, with commas between: scan, server, store, growth")
	flag.StringVar(&cfg.out, "out", "BENCHMARKS.md", "`file` to write")
	flag.DurationVar(&cfg.budget, "budget", 30*time.Minute, "what is not measured after this is left out")
	flag.StringVar(&cfg.words, "words", "../shared/corpus/logs", "`folder` of logs that are words; the golden stories where there is none")
	flag.Parse()
	if cfg.full {
		cfg.reports = max(cfg.reports, 1_000_000)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fail(run(ctx, cfg))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is a run under way.
type bench struct {
	ctx     context.Context
	cfg     config
	dir     string // for everything that is made; removed at the end
	culprit string // the program
	self    string
	set     *rules.Set
	rows    []row
	details []table
	notes   []string
	began   time.Time
}

func run(interrupted context.Context, cfg config) (err error) {
	ctx, cancel := context.WithTimeout(interrupted, cfg.budget)
	defer cancel()
	b := &bench{ctx: ctx, cfg: cfg, began: time.Now()}
	if b.set, err = rules.Default(); err != nil {
		return err
	}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "culprit-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.culprit = b.path("culprit")
	if err := b.build("culprit", "./cmd/culprit"); err != nil {
		return err
	}
	m := describe(b)
	parts := []struct {
		name string
		run  func() error
	}{{"scan", b.scanPart}, {"growth", b.growthPart}, {"server", b.serverPart}, {"store", b.storePart}}
	for _, p := range parts {
		if cfg.only != "" && !strings.Contains(","+cfg.only+",", ","+p.name+",") {
			continue
		}
		b.say("%s", p.name)
		if err := p.run(); err != nil {
			if interrupted.Err() != nil {
				return interrupted.Err()
			}
			if ctx.Err() != nil {
				err = fmt.Errorf("the %s were over", cfg.budget)
			}
			b.note("The part %s ended early: %v.", p.name, err)
			b.say("%s ended early: %v", p.name, err)
		}
	}
	f, err := os.Create(cfg.out)
	if err != nil {
		return err
	}
	defer f.Close()
	return b.write(f, m)
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// build builds a program of this module.
func (b *bench) build(name, pkg string) error {
	cmd := exec.CommandContext(b.ctx, "go", "build", "-o", b.path(name), pkg)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// say tells whoever waits what is done now.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// small is n, or less of it in a quick run.
func (b *bench) small(n int) int {
	if b.cfg.quick {
		return max(1, n/50)
	}
	return n
}

// machine is what the figures depend on.
type machine struct {
	date, cpu, kernel, load string
	cores                   int
	memory                  string
	versions                []string
}

func describe(b *bench) machine {
	m := machine{date: time.Now().UTC().Format(time.DateOnly), cores: runtime.NumCPU(), load: firstField("/proc/loadavg")}
	m.cpu = fieldOf("/proc/cpuinfo", "model name")
	m.memory = fieldOf("/proc/meminfo", "MemTotal")
	m.kernel = output("uname", "-sr")
	commit := output("git", "rev-parse", "--short=12", "HEAD")
	if output("git", "status", "--porcelain", "--untracked-files=no") != "" {
		commit += " with changes"
	}
	m.versions = []string{
		fmt.Sprintf("culprit %s with %d rules (%s), %d literals", commit, len(b.set.Rules()), b.set.Version(), len(b.set.Gates())),
		runtime.Version(),
	}
	for _, tool := range [][]string{{"rg", "--version"}, {"grep", "--version"}, {"wc", "--version"}} {
		if text := output(tool[0], tool[1:]...); text != "" {
			first, _, _ := strings.Cut(text, "\n")
			m.versions = append(m.versions, first)
		}
	}
	if v := output("pkg-config", "--modversion", "libhs"); v != "" {
		m.versions = append(m.versions, "Hyperscan "+v)
	}
	return m
}

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func firstField(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}

// fieldOf is the value after a colon in a file of /proc.
func fieldOf(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// writeFile makes a file of the run.
func (b *bench) writeFile(name string, write func(io.Writer) error) (string, error) {
	f, err := os.Create(b.path(name))
	if err != nil {
		return "", err
	}
	if err := write(f); err != nil {
		f.Close()
		return "", err
	}
	return f.Name(), f.Close()
}
