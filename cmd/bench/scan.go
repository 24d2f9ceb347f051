package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"culprit/classifier"
	"culprit/rules"
)

// scanMain is this program as its own child: it loads the rules, reads a log, and says how long it takes to read it again,
// as a server does that has been up for a while: its patterns are compiled, its buffers are there.
func scanMain(args []string) error {
	flags := flag.NewFlagSet("scan", flag.ContinueOnError)
	dir := flags.String("rules", "", "folder of packs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	began := time.Now()
	set, err := loadRules(*dir)
	if err != nil {
		return err
	}
	c := classifier.New(set)
	loaded := time.Since(began)
	one := 1
	classify := func() error {
		f, err := os.Open(flags.Arg(0))
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = c.Classify(context.Background(), classifier.Exit{Code: &one}, classifier.One(classifier.Log{Reader: f}))
		return err
	}
	if err := classify(); err != nil {
		return err
	}
	cpu := processorTime()
	began = time.Now()
	if err := classify(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(scanned{time.Since(began), processorTime() - cpu, loaded, len(set.Rules())})
}

// scanned is what the child says.
type scanned struct {
	Wall, CPU, Load time.Duration
	Rules           int
}

func loadRules(dir string) (*rules.Set, error) {
	if dir == "" {
		return rules.Default()
	}
	return rules.Load(os.DirFS(dir))
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// program is something that has its turn on a log.
type program struct {
	name string
	turn func(l logFile) sample
}

// command makes a program of a command line; LOG stands for the log. Its time is that of its process.
func (b *bench) command(name string, args ...string) program {
	return program{name, func(l logFile) sample {
		line := slices.Clone(args)
		for i := range line {
			line[i] = strings.ReplaceAll(line[i], "LOG", l.path)
		}
		_, s := b.measured(1, line...)
		return s
	}}
}

// measured runs a command line on so many cores; 0 is all.
func (b *bench) measured(cores int, line ...string) ([]byte, sample) {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
	defer cancel()
	if cores == 1 && has("taskset") {
		line = append([]string{"taskset", "-c", "0"}, line...)
	}
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if cores > 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(cores))
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	s := sample{wall: time.Since(began)}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && errs.Len() == 0 {
		err = nil // grep found nothing
	}
	if err != nil {
		s.err = fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, clip(errs.String()))
		return nil, s
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return out.Bytes(), s
}

func clip(s string) string { return s[:min(len(s), 300)] }

func has(tool string) bool {
	_, err := exec.LookPath(tool)
	return err == nil
}

// scanProgram is culprit's reading of a log without the start of the program, as in a server.
func (b *bench) scanProgram(name string, cores int, packs string) program {
	return program{name, func(l logFile) sample {
		line := []string{b.self, "scan"}
		if packs != "" {
			line = append(line, "-rules", packs)
		}
		out, s := b.measured(cores, append(line, l.path)...)
		if s.err != nil {
			return s
		}
		var got scanned
		if err := json.Unmarshal(out, &got); err != nil {
			return sample{err: err}
		}
		return sample{wall: got.Wall, cpu: got.CPU}
	}}
}

// turns lets the programs have their turns on a log.
func (b *bench) turns(l logFile, rounds int, programs ...program) (map[string]samples, error) {
	got := map[string]samples{}
	for range rounds {
		for _, p := range programs {
			s := p.turn(l)
			if s.err != nil {
				return nil, fmt.Errorf("%s on %s: %w", p.name, l.name, s.err)
			}
			got[p.name] = append(got[p.name], s)
		}
	}
	return got, b.ctx.Err()
}

const (
	whole                       = "culprit classify"
	inside                      = "culprit, rules loaded"
	both                        = "culprit, rules loaded, all cores"
	ripgrep, gnuGrep, wordCount = "rg -j1 -F -f literals -c", "grep -F -c -f literals", "wc -l"
	hsLiterals, hsPatterns      = "Hyperscan, literals", "Hyperscan, patterns"
)

// ratio is how many times as fast as the peer culprit is, by the clock.
func ratio(got map[string]samples, culprit, peer string) float64 {
	return of(got[peer].wall(), got[culprit].wall())
}

// cpuRatio is the same by processor time.
func cpuRatio(got map[string]samples, culprit, peer string) float64 {
	return of(got[peer].cpu(), got[culprit].cpu())
}

func of(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func (b *bench) scanPart() error {
	training, err := b.trainingLog("training", b.small(200_000_000))
	if err != nil {
		return err
	}
	words, err := b.wordsLog(b.small(50_000_000))
	if err != nil {
		return err
	}
	programs, err := b.peers()
	if err != nil {
		return err
	}
	programs = append(programs, b.command(whole, b.culprit, "classify", "--exit-code", "1", "LOG"), b.scanProgram(inside, 1, ""))
	if err := b.scanLog(training, "200 MB training log", 4, 1, append(programs, b.scanProgram(both, 0, ""))); err != nil {
		return err
	}
	if err := b.scanLog(words, "logs of words, 50 MB", 3, 0, programs); err != nil {
		return err
	}
	if err := b.loops(training); err != nil {
		return err
	}
	return b.worst()
}

// peers are the other programs that this machine has.
func (b *bench) peers() ([]program, error) {
	literals, err := b.writeFile("literals", func(w io.Writer) error {
		for _, g := range b.set.Gates() {
			if _, err := fmt.Fprintln(w, g.Literal); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []program
	for _, p := range []struct {
		tool, name string
		line       []string
	}{
		{"wc", wordCount, []string{"wc", "-l", "LOG"}},
		{"rg", ripgrep, []string{"rg", "-a", "-j1", "-F", "-f", literals, "-c", "LOG"}},
		{"grep", gnuGrep, []string{"grep", "-a", "-F", "-c", "-f", literals, "LOG"}},
	} {
		if !has(p.tool) {
			b.note("%s is missing on this machine and was left out.", p.tool)
			continue
		}
		list = append(list, b.command(p.name, p.line...))
	}
	hs, err := b.hyperscan()
	if err != nil {
		b.note("Hyperscan was left out: %v.", err)
	}
	return append(list, hs...), nil
}

// scanLog measures the programs on a log and adds the rows against ripgrep and Hyperscan.
func (b *bench) scanLog(l logFile, name string, againstRipgrep, againstHyperscan float64, programs []program) error {
	b.say("%s", name)
	got, err := b.turns(l, b.cfg.rounds, programs...)
	if err != nil {
		return err
	}
	starts, err := b.starts(programs)
	if err != nil {
		return err
	}
	t := table{title: "One core, " + name, head: []string{"program", "clock", "processor time", "start", "processor time without the start", "culprit to it, clock", "culprit to it, processor time"}}
	for _, p := range programs {
		s := got[p.name]
		culprit := inside
		if p.name == ripgrep || p.name == gnuGrep || p.name == wordCount {
			culprit = whole
		}
		row := []string{p.name, mbs(speed(l.bytes, s.wall())), mbs(speed(l.bytes, s.cpu())), millis(starts[p.name]), mbs(speed(l.bytes, s.cpu()-starts[p.name])),
			times(ratio(got, culprit, p.name)), times(cpuRatio(got, culprit, p.name))}
		if strings.HasPrefix(p.name, "culprit") {
			row[5], row[6] = "", ""
		}
		t.rows = append(t.rows, row)
	}
	t.text = "Programs of one process are compared with the whole of `culprit classify`, the start of each included: the processor time that it takes for a log of one line.\n" +
		"Hyperscan, whose figure is that of scanning alone, is compared with culprit once the rules are loaded, as in a server.\n\n"
	b.details = append(b.details, t)
	at := func(p string) string { return mbs(speed(l.bytes, got[p].cpu())) }
	if got[ripgrep] != nil {
		r := cpuRatio(got, whole, ripgrep)
		b.row(name+", whole program, against ripgrep", at(whole), at(ripgrep), times(r), demanded(againstRipgrep), r >= againstRipgrep)
	}
	if got[hsLiterals] != nil {
		r := cpuRatio(got, inside, hsLiterals)
		b.row(name+", scan alone, against Hyperscan with the literals", at(inside), at(hsLiterals), times(r), demanded(againstHyperscan), r >= againstHyperscan)
	}
	if got[both] != nil {
		r := ratio(got, both, inside)
		b.row(name+", scan alone, all cores against one, by the clock", mbs(speed(l.bytes, got[both].wall())), mbs(speed(l.bytes, got[inside].wall())), times(r), "1.6×", r >= 1.6)
	}
	return nil
}

// starts is the processor time that each program takes for a log of one line.
func (b *bench) starts(programs []program) (map[string]time.Duration, error) {
	l, err := b.makeLog("one line", func(w io.Writer) error { _, err := io.WriteString(w, "step 1\n"); return err })
	if err != nil {
		return nil, err
	}
	got, err := b.turns(l, min(3, b.cfg.rounds), programs...)
	starts := map[string]time.Duration{}
	for name, s := range got {
		starts[name] = s.cpu()
	}
	return starts, err
}

// demanded is a target as text; 0 demands nothing.
func demanded(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%g×", ratio)
}

// worst measures inputs that are made to be slow.
func (b *bench) worst() error {
	if !has("rg") {
		return nil
	}
	logs, err := b.worstLogs(b.small(64 << 20))
	if err != nil {
		return err
	}
	programs := []program{b.command(ripgrep, "rg", "-a", "-j1", "-F", "-f", b.path("literals"), "-c", "LOG"), b.scanProgram(inside, 1, "")}
	t := table{title: "One core, inputs made to be slow, 64 MB each", head: []string{"input", inside, ripgrep, "ratio, clock", "ratio, processor time"},
		text: "Speeds are by processor time.\n\n"}
	for _, l := range logs {
		b.say("worst: %s", l.name)
		got, err := b.turns(l, min(3, b.cfg.rounds), programs...)
		if err != nil {
			return err
		}
		mine, theirs := speed(l.bytes, got[inside].cpu()), speed(l.bytes, got[ripgrep].cpu())
		r := cpuRatio(got, inside, ripgrep)
		t.rows = append(t.rows, []string{l.name, mbs(mine), mbs(theirs), times(ratio(got, inside, ripgrep)), times(r)})
		b.row("worst input: "+l.name, mbs(mine), mbs(theirs), times(r), "0.5× and 50 MB/s", r >= 0.5 && mine >= 50)
		os.Remove(l.path)
	}
	b.details = append(b.details, t)
	return nil
}
