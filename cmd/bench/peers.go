package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"

	"culprit/rules"
)

//go:embed testdata/hyperscan.c
var hyperscanSource string

// hyperscan builds the program over Hyperscan and its databases of the literals and of the patterns that it takes.
func (b *bench) hyperscan() ([]program, error) {
	if !has("cc") {
		return nil, errors.New("there is no C compiler")
	}
	source, err := b.writeFile("hyperscan.c", func(w io.Writer) error { _, err := io.WriteString(w, hyperscanSource); return err })
	if err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(b.ctx, "cc", "-O2", "-o", b.path("hyperscan"), source, "-lhs").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("it is not installed (Debian: apt-get install libhyperscan-dev): %s", firstLine(out))
	}
	var list []program
	for _, kind := range []struct {
		name, program string
		lines         []string
	}{{"literals", hsLiterals, b.literalLines()}, {"patterns", hsPatterns, patternLines(b.set)}} {
		p, err := b.hyperscanProgram(kind.name, kind.program, kind.lines)
		if err != nil {
			b.note("%s was left out: %v.", kind.program, err)
			continue
		}
		list = append(list, p)
	}
	return list, nil
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return string(line)
}

func (b *bench) hyperscanProgram(kind, name string, lines []string) (program, error) {
	list, err := b.writeFile(kind+".all", writeLines(lines))
	if err != nil {
		return program{}, err
	}
	out, s := b.measured(0, b.path("hyperscan"), "accept", kind, list)
	if s.err != nil {
		return program{}, s.err
	}
	var taken []string
	for number := range strings.FieldsSeq(string(out)) {
		var n int
		if _, err := fmt.Sscan(number, &n); err != nil || n >= len(lines) {
			return program{}, fmt.Errorf("it accepted line %q", number)
		}
		taken = append(taken, lines[n])
	}
	if list, err = b.writeFile(kind+".taken", writeLines(taken)); err != nil {
		return program{}, err
	}
	db := b.path(kind + ".db")
	if _, s := b.measured(0, b.path("hyperscan"), "compile", kind, list, db); s.err != nil {
		return program{}, s.err
	}
	b.note("%s: Hyperscan takes %s of %s; compiling them took %.1f s, which is not counted.", name, thousands(float64(len(taken))), thousands(float64(len(lines))), s.wall.Seconds())
	return program{name, func(l logFile) sample {
		out, s := b.measured(1, b.path("hyperscan"), "scan", db, l.path)
		if s.err != nil {
			return s
		}
		var matches int64
		var wall, cpu float64 // without loading the database, as culprit without its rules
		if _, err := fmt.Sscan(string(out), &matches, &wall, &cpu); err != nil {
			return sample{err: err}
		}
		return sample{wall: time.Duration(wall * float64(time.Second)), cpu: time.Duration(cpu * float64(time.Second))}
	}}, nil
}

func writeLines(lines []string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
		return err
	}
}

func mark(fold bool) string {
	if fold {
		return "i\t"
	}
	return "-\t"
}

func (b *bench) literalLines() []string {
	var lines []string
	for _, g := range b.set.Gates() {
		lines = append(lines, mark(g.Fold)+g.Literal)
	}
	return lines
}

// patternLines are the rules' patterns; a rule that has only literals is a pattern of those.
func patternLines(set *rules.Set) []string {
	var lines []string
	for _, r := range set.Rules() {
		if p := patternOf(r); p != "" {
			lines = append(lines, mark(r.IgnoreCase())+p)
		}
	}
	return lines
}

func patternOf(r *rules.Rule) string {
	if p := r.Pattern(); p != "" || len(r.Literals()) == 0 {
		return p
	}
	var quoted []string
	for _, l := range r.Literals() {
		quoted = append(quoted, regexp.QuoteMeta(l))
	}
	return strings.Join(quoted, "|")
}

// loops measures what one would write first: each pattern on each line, on a sample of a log.
func (b *bench) loops(l logFile) error {
	sample, err := head(l.path, b.small(128<<10))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(sample), "\n"), "\n")
	var fast []*regexp2.Regexp
	var std []*regexp.Regexp
	refused := 0
	for _, r := range b.set.Rules() {
		p := patternOf(r)
		if p == "" {
			continue
		}
		options := regexp2.RegexOptions(regexp2.ExplicitCapture)
		if r.IgnoreCase() {
			options |= regexp2.IgnoreCase
		}
		re, err := regexp2.Compile(p, options)
		if err != nil {
			return fmt.Errorf("rule %s: %w", r.ID, err)
		}
		fast = append(fast, re)
		if r.IgnoreCase() {
			p = "(?i)" + p
		}
		if re, err := regexp.Compile(p); err != nil {
			refused++
		} else {
			std = append(std, re)
		}
	}
	t := table{title: "A loop of all rules over all lines", head: []string{"engine", "patterns", "speed", "culprit, rules loaded, on the whole log, to it"},
		text: fmt.Sprintf("Measured on the first %d KB of the training log, one core, one turn, by processor time; the speed does not depend on the length.\n\n", len(sample)/1000)}
	mine := b.scanProgram(inside, 1, "").turn(l)
	if mine.err != nil {
		return mine.err
	}
	for _, engine := range []struct {
		name  string
		count int
		match func(string)
	}{
		{"regexp2 v2", len(fast), func(line string) {
			for _, re := range fast {
				_, _ = re.MatchString(line) // its only error is a time-out, and there is none
			}
		}},
		{"regexp of the standard library", len(std), func(line string) {
			for _, re := range std {
				re.MatchString(line)
			}
		}},
	} {
		before := processorTime()
		for _, line := range lines {
			engine.match(line)
		}
		v := speed(int64(len(sample)), processorTime()-before)
		b.say("loop with %s: %s", engine.name, mbs(v))
		t.rows = append(t.rows, []string{engine.name, thousands(float64(engine.count)), fmt.Sprintf("%.3f MB/s", v), times(speed(l.bytes, mine.cpu) / v)})
	}
	if refused > 0 {
		b.note("The standard library refuses %d of the patterns (it has no look-around); its loop leaves them out.", refused)
	}
	b.details = append(b.details, t)
	return nil
}

// head is the start of a file, whole lines.
func head(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(n)))
	if i := bytes.LastIndexByte(data, '\n'); i >= 0 {
		data = data[:i+1]
	}
	return data, err
}
