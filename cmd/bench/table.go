package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is one line of the table of what must be reached.
type row struct {
	work, culprit, peer string
	ratio               string // of culprit's speed to the peer's; for growth, of the larger cost to the smaller
	target              string
	met                 string // yes, no, or - where nothing is demanded
}

// table is a detailed table behind the rows.
type table struct {
	title, text string
	head        []string
	rows        [][]string
}

func (b *bench) row(work, culprit, peer, ratio, target string, met bool) {
	r := row{work, culprit, peer, ratio, target, "no"}
	if met {
		r.met = "yes"
	}
	if target == "" {
		r.target, r.met = "-", "-"
	}
	b.rows = append(b.rows, r)
	b.say("%s: %s, %s, %s (target %s: %s)", work, culprit, peer, ratio, r.target, r.met)
}

// sample is one turn of a program.
type sample struct {
	wall, cpu time.Duration
	err       error
}

// samples are the turns of a program on one input.
type samples []sample

func (s samples) median(of func(sample) time.Duration) time.Duration {
	if len(s) == 0 {
		return 0
	}
	list := make([]time.Duration, len(s))
	for i := range s {
		list[i] = of(s[i])
	}
	slices.Sort(list)
	return list[len(list)/2]
}

func (s samples) wall() time.Duration {
	return s.median(func(s sample) time.Duration { return s.wall })
}
func (s samples) cpu() time.Duration { return s.median(func(s sample) time.Duration { return s.cpu }) }

// speed is MB/s.
func speed(bytes int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(bytes) / 1e6 / took.Seconds()
}

func mbs(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f MB/s", v)
	}
	return thousands(v) + " MB/s"
}

// thousands writes a number with commas.
func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func times(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 20:
		return thousands(v) + "×"
	}
	return fmt.Sprintf("%.2f×", v)
}

func millis(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1000)
}

func busy(load string, limit float64) bool {
	v, err := strconv.ParseFloat(load, 64)
	return err == nil && v > limit
}

// percentile is by nearest rank; list is sorted in place.
func percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[(len(list)*p+99)/100-1]
}

func (b *bench) write(w io.Writer, m machine) error {
	var s strings.Builder
	fmt.Fprintf(&s, `# What culprit costs, beside its peers

Measured on %s by `+"`make bench`"+` (go run ./cmd/bench) in %.0f minutes. Programs took turns on the same inputs in one run; a figure is the
median of %d turns. One core means GOMAXPROCS=1 and taskset -c 0. Inputs are in the page cache and made from seeds. What runs on one core is
compared by processor time, all else by the clock; the detailed tables have both.

- machine: %s, %d cores, %s, %s; its load was %s when the run began and %s when it ended (a run on %d cores makes about %d of it itself)
- %s

`, m.date, time.Since(b.began).Minutes(), b.cfg.rounds, m.cpu, m.cores, m.memory, m.kernel, m.load, firstField("/proc/loadavg"), m.cores, m.cores, strings.Join(m.versions, "\n- "))
	if busy(m.load, 1) || busy(firstField("/proc/loadavg"), float64(m.cores)+1.5) {
		s.WriteString("**The machine was busy with other work.** What is measured by the clock (rates, latencies, all cores against one) is worse than on an idle\nmachine; ratios by processor time suffer less.\n\n")
	}
	if b.cfg.quick {
		s.WriteString("**A quick run: inputs were too small to measure anything.**\n\n")
	}
	s.WriteString("## What must be reached\n\n| work | culprit | peer | ratio | target | met |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, r := range b.rows {
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s |\n", r.work, r.culprit, r.peer, r.ratio, r.target, r.met)
	}
	for _, t := range b.details {
		fmt.Fprintf(&s, "\n## %s\n\n%s| %s |\n|%s\n", t.title, t.text, strings.Join(t.head, " | "), strings.Repeat(" --- |", len(t.head)))
		for _, r := range t.rows {
			fmt.Fprintf(&s, "| %s |\n", strings.Join(r, " | "))
		}
	}
	if len(b.notes) > 0 {
		s.WriteString("\n## Notes\n\n")
		for _, n := range b.notes {
			fmt.Fprintf(&s, "- %s\n", n)
		}
	}
	_, err := io.WriteString(w, s.String())
	return err
}
