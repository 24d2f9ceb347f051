package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"culprit/rules"
)

// growthPart makes the work ten times as much: logs and rules. storePart does so with attempts.
func (b *bench) growthPart() error {
	if err := b.longerLogs(); err != nil {
		return err
	}
	return b.moreRules()
}

// grown adds a row: what ten times the work costs. At most a fifth more than in proportion counts as linear.
func (b *bench) grown(what, before, after string, factor, cost float64) {
	b.row(what, after, before+" before", fmt.Sprintf("%.2f× the cost", cost), fmt.Sprintf("at most %g×", factor*1.2), cost <= factor*1.2)
}

func (b *bench) longerLogs() error {
	sizes := []int{20_000_000, 200_000_000}
	if b.cfg.full {
		sizes = append(sizes, 2_000_000_000)
	}
	var before time.Duration
	for i, size := range sizes {
		name := fmt.Sprintf("training-%d", size)
		l, err := b.trainingLog(name, b.small(size))
		if err != nil {
			return err
		}
		got, err := b.turns(l, min(3, b.cfg.rounds), b.scanProgram(inside, 1, ""))
		os.Remove(l.path)
		if err != nil {
			return err
		}
		took := got[inside].cpu()
		if i > 0 {
			b.grown(fmt.Sprintf("growth: a log of %s MB instead of %s, processor time", thousands(float64(size)/1e6), thousands(float64(sizes[i-1])/1e6)), millis(before), millis(took), 10, of(took, before))
		}
		before = took
	}
	return nil
}

// moreRules measures the scan with ten times as many rules: the built-in ones, and nine of other words for each of them.
func (b *bench) moreRules() error {
	l, err := b.trainingLog("training-for-rules", b.small(200_000_000))
	if err != nil {
		return err
	}
	defer os.Remove(l.path)
	packs, n, err := b.inventedPacks(9)
	if err != nil {
		return err
	}
	few, many := b.scanProgram("few rules", 1, ""), b.scanProgram("many rules", 1, packs)
	got, err := b.turns(l, min(3, b.cfg.rounds), few, many)
	if err != nil {
		return err
	}
	b.grown(fmt.Sprintf("growth: %s rules instead of %s, scan of the training log, processor time", thousands(float64(n)), thousands(float64(len(b.set.Rules())))),
		millis(got[few.name].cpu()), millis(got[many.name].cpu()), 10, of(got[many.name].cpu(), got[few.name].cpu()))
	return nil
}

// inventedPacks writes the built-in packs beside packs with so many invented rules for each of theirs, of as many
// literals of the same lengths. It returns the folder and how many rules there are.
func (b *bench) inventedPacks(each int) (dir string, n int, err error) {
	dir = b.path("packs")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", 0, err
	}
	sources, err := filepath.Glob("rules/packs/*.yaml")
	if err != nil || len(sources) == 0 {
		return "", 0, fmt.Errorf("the packs are not here: run it at the root of the repository (%v)", err)
	}
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.yaml") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return "", 0, err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o640); err != nil {
			return "", 0, err
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	n = len(b.set.Rules())
	for i := range each {
		_, err := b.writeFile(fmt.Sprintf("packs/invented-%d.yaml", i), func(w io.Writer) error {
			for _, rule := range b.set.Rules() {
				if len(rule.Literals()) == 0 {
					continue
				}
				n++
				if err := inventedRule(w, r, rule, i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return "", 0, err
		}
	}
	return dir, n, nil
}

func inventedRule(w io.Writer, r *rand.Rand, like *rules.Rule, i int) error {
	var literals []string
	for _, l := range like.Literals() {
		text := fmt.Sprintf("%q", invented(r, max(len(l), 8)))
		for slices.Contains(literals, text) { // a rule's literals differ
			text = fmt.Sprintf("%q", invented(r, max(len(l), 8)))
		}
		literals = append(literals, text)
	}
	_, err := fmt.Fprintf(w, "- id: invented-%d-%s\n  category: %s\n  literals: [%s]\n  summary: \"it was invented\"\n  advice: Nothing to do.\n  source: invented\n",
		i, like.ID, like.Category.ID, strings.Join(literals, ", "))
	return err
}

// invented is a text of that length of words that no log has, but whose letters and spaces are as usual.
func invented(r *rand.Rand, length int) string {
	syllables := []string{"ba", "ce", "di", "for", "gu", "hin", "ka", "lem", "mo", "nur", "pre", "ra", "sto", "ti", "ver", "zon"}
	var s strings.Builder
	for s.Len() < length {
		for range 2 + r.IntN(3) {
			s.WriteString(syllables[r.IntN(len(syllables))])
		}
		s.WriteByte(" :_."[r.IntN(4)])
	}
	return strings.TrimRight(s.String()[:length], " ") + "x"
}
