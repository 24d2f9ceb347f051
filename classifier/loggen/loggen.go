// Package loggen writes logs of healthy training jobs, seeded, in the layouts of the frameworks that people train with.
//
// They are what benchmarks, the tests for false alarms and the tests of memory read: start-up chatter with its harmless
// warnings, then progress without end. The same seed gives the same bytes.
package loggen

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Log describes a log to be written.
type Log struct {
	Framework string // one of Frameworks
	Seed      uint64
	Ranks     int   // speakers that take turns; 1 where 0
	Lines     int   // stop after so many lines; 0: no limit
	Bytes     int64 // stop after the line that reaches so many bytes; 0: no limit
	SaveEvery int   // save a checkpoint each so many steps, in frameworks that tell of it; 0: as rarely as they do
}

// framework is how one framework logs.
type framework struct {
	start []string                                          // printed once
	step  func(g *generator, step, rank int) string         // one line of progress
	every map[int]func(g *generator, step, rank int) string // further lines each so many steps
}

// rare is how many steps there are at least between two checkpoints; what comes more often is something else.
const rare = 100

// generator is the state of one log.
type generator struct {
	rand  *rand.Rand
	clock time.Time
	loss  float64
}

// Frameworks are the names that Log.Framework can have, sorted.
func Frameworks() []string {
	names := make([]string, 0, len(frameworks))
	for name := range frameworks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Write writes the log to w.
func (l Log) Write(w io.Writer) error {
	f, ok := frameworks[l.Framework]
	if !ok {
		return fmt.Errorf("unknown framework %q; known are %s", l.Framework, strings.Join(Frameworks(), ", "))
	}
	if l.Lines == 0 && l.Bytes == 0 {
		return fmt.Errorf("a log of %s needs a number of lines or bytes", l.Framework)
	}
	out := &counter{w: bufio.NewWriterSize(w, 256<<10), log: l}
	g := &generator{rand: rand.New(rand.NewPCG(l.Seed, 0x6c6f67)), clock: time.Date(2025, 3, 4, 8, 15, 0, 0, time.UTC), loss: 9 + float64(l.Seed%100)/100}
	for _, line := range f.start {
		if !out.line(line) {
			return out.end()
		}
	}
	for step := 1; ; step++ {
		g.tick()
		for rank := range max(1, l.Ranks) {
			if !out.line(f.step(g, step, rank)) {
				return out.end()
			}
		}
		for _, n := range slices.Sorted(keys(f.every)) {
			often := n
			if l.SaveEvery > 0 && n >= rare {
				often = l.SaveEvery
			}
			if step%often == 0 && !out.line(f.every[n](g, step, 0)) {
				return out.end()
			}
		}
	}
}

func keys[V any](m map[int]V) func(func(int) bool) {
	return func(yield func(int) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// tick moves the clock and the loss on by one step.
func (g *generator) tick() {
	g.clock = g.clock.Add(time.Duration(400+g.rand.IntN(900)) * time.Millisecond)
	g.loss = max(0.6, g.loss*(1-0.0004*g.rand.Float64()))
}

// near is x with up to 5% of noise.
func (g *generator) near(x float64) float64 { return x * (0.95 + 0.1*g.rand.Float64()) }

// counter writes lines until the log has its size.
type counter struct {
	w     *bufio.Writer
	log   Log
	lines int
	bytes int64
	err   error
}

// line writes one line and reports whether there may be more.
func (c *counter) line(s string) bool {
	n, err := c.w.WriteString(s)
	if err == nil {
		err = c.w.WriteByte('\n')
	}
	c.err = err
	c.lines++
	c.bytes += int64(n) + 1
	return err == nil && (c.log.Lines == 0 || c.lines < c.log.Lines) && (c.log.Bytes == 0 || c.bytes < c.log.Bytes)
}

func (c *counter) end() error {
	if c.err != nil {
		return c.err
	}
	return c.w.Flush()
}
