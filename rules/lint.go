package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Severity is how bad a finding of the linter is.
type Severity string

// An error breaks what README.md asks of a rule; a warning wants a look.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Finding is something that a loaded rule or its cases do badly.
type Finding struct {
	Severity Severity
	File     string
	Line     int
	Rule     string
	Text     string
}

// String is `packs/nccl.yaml:41: warning: nccl-watchdog-timeout: …`.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s: %s", f.File, f.Line, f.Severity, f.Rule, f.Text)
}

// Lint says what the rules of a set do badly, judged by themselves, by their cases and by text of healthy logs, ordered
// by file and line. It does not run the cases; Check does. It takes about a millisecond a rule, more where a pattern backtracks.
func Lint(set *Set, cases Cases, healthy ...[]byte) []Finding {
	l := linter{set: set, cases: casesByRule(cases)}
	for _, rc := range cases.Rules {
		if _, ok := set.Rule(rc.Rule); !ok {
			l.add(SeverityError, &Rule{ID: rc.Rule, File: rc.File, Line: rc.Line}, "cases of a rule that does not exist")
		}
	}
	for _, r := range set.Rules() {
		if r.Block == "" {
			l.rule(r)
		}
		l.sentence(r)
	}
	l.overlaps()
	for _, text := range healthy {
		l.findings = append(l.findings, LintFrequency(set, text)...)
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return l.findings
}

type linter struct {
	set      *Set
	cases    map[string]RuleCases
	findings []Finding
}

func casesByRule(cases Cases) map[string]RuleCases {
	m := make(map[string]RuleCases, len(cases.Rules))
	for _, rc := range cases.Rules {
		m[rc.Rule] = rc
	}
	return m
}

func (l *linter) add(s Severity, r *Rule, format string, args ...any) {
	l.findings = append(l.findings, Finding{s, r.File, r.Line, r.ID, fmt.Sprintf(format, args...)})
}

func (l *linter) rule(r *Rule) {
	l.hasCases(r)
	l.literals(r)
	l.places(r)
	l.leading(r)
	l.backtracking(r)
}

func (l *linter) hasCases(r *Rule) {
	rc := l.cases[r.ID]
	if len(rc.Positive) == 0 {
		l.add(SeverityError, r, "no positive case: add a line as the program prints it")
	}
	if len(rc.Negative) == 0 {
		l.add(SeverityError, r, "no near miss: add a line that looks like the message and is not")
	}
	for _, c := range rc.Negative {
		if strings.TrimSpace(c.Why) == "" {
			l.findings = append(l.findings, Finding{SeverityError, c.File, c.Line, r.ID, "near miss without why"})
		}
	}
}

// literals finds those that are a generic word, alone or with another: they open the gate too often, and are no
// signature where there is no pattern. A phrase of three words is one.
func (l *linter) literals(r *Rule) {
	for _, lit := range r.literals {
		words := len(strings.Fields(lit))
		if words > 2 || distinctive(lit) != "" || strings.ContainsAny(lit, "`<>=|*{}$@#/\\") {
			continue
		}
		severity := SeverityError
		if r.wholeLine() || words == 2 && r.pattern != nil {
			severity = SeverityWarning
		}
		l.add(severity, r, "literal %q has only words that any log has", lit)
	}
}

// wholeLine tells whether the pattern is anchored at both ends.
func (r *Rule) wholeLine() bool {
	return strings.HasPrefix(r.Pattern(), "^") && strings.HasSuffix(r.Pattern(), "$")
}

var (
	addressPlace = regexp.MustCompile(`\b\d{1,3}(?:\\?\.\d{1,3}){3}\b`)
	homePlace    = regexp.MustCompile(`(?i)/home/\w|/users/\w|\\Users\\`)
	hostPlace    = regexp.MustCompile(`(?i)\bip-\d+-\d+|\w\\?\.(?:lan|corp|intranet|cluster\\?\.local)\b`)
)

// places finds what belongs to one site and not to a message.
func (l *linter) places(r *Rule) {
	for _, text := range append(slices.Clone(r.literals), r.Pattern()) {
		for _, address := range addressPlace.FindAllString(text, -1) {
			if a := strings.ReplaceAll(address, `\`, ""); a != "0.0.0.0" && a != "127.0.0.1" && a != "169.254.169.254" {
				l.add(SeverityError, r, "the address %s stands in %q: match any address", a, text)
			}
		}
		if p := homePlace.FindString(text); p != "" {
			l.add(SeverityError, r, "a home folder (%s…) stands in %q: match any path", p, text)
		}
		if p := hostPlace.FindString(text); p != "" {
			l.add(SeverityError, r, "a host of one site (%s) stands in %q: match any host", p, text)
		}
	}
}

var leadingAny = regexp.MustCompile(`^(\^?)((?:\((?:\?:|\?<\w+>)?)*)\.[*+]`)

func (l *linter) leading(r *Rule) {
	m := leadingAny.FindStringSubmatch(r.Pattern())
	switch {
	case m == nil:
	case m[1] == "":
		l.add(SeverityError, r, "the pattern begins with .* or .+, which makes each search read the line over and over: leave it out")
	case m[2] == "":
		l.add(SeverityWarning, r, "the pattern begins with ^.*, which says nothing: leave it out")
	}
}

// sentence looks for summaries that read badly: with gaps, or as a sentence of their own.
func (l *linter) sentence(r *Rule) {
	if strings.HasSuffix(r.Summary, ".") && !strings.HasSuffix(r.Summary, "..") {
		l.add(SeverityWarning, r, "the summary ends with a full stop: it is a part of a sentence")
	}
	for _, p := range r.sentence {
		for _, q := range p.pieces {
			if !p.optional && slices.Contains(speaker, q.capture) && !r.captures(q.capture) {
				l.add(SeverityWarning, r, "the summary needs {%s}, which is often not known: put its part into [ ]", q.capture)
			}
		}
	}
	for _, c := range l.cases[r.ID].Positive {
		m, ok, _ := r.Match(c.Text)
		if gap := r.gap(m.Captures); ok && gap != "" {
			l.findings = append(l.findings, Finding{SeverityWarning, c.File, c.Line, r.ID,
				fmt.Sprintf("the summary needs {%s}, which this line does not give: put its part into [ ]", gap)})
		}
	}
}

// captures tells whether a match can have a capture of that name.
func (r *Rule) captures(name string) bool {
	if r.Block != "" {
		return slices.Contains(blockCaptures, name)
	}
	return r.pattern != nil && slices.ContainsFunc(r.pattern.compiled().groups, func(g group) bool { return g.name == name })
}

// gap is the first capture of the pattern that the summary needs and does not get.
func (r *Rule) gap(captures map[string]string) string {
	for _, p := range r.sentence {
		for _, q := range p.pieces {
			if !p.optional && r.captures(q.capture) && captures[q.capture] == "" {
				return q.capture
			}
		}
	}
	return ""
}

// slowMatch is a time that no sound pattern needs for MaxLine bytes.
const slowMatch = 25 * time.Millisecond

// backtracking times the pattern on lines made to lead it astray.
func (l *linter) backtracking(r *Rule) {
	if r.pattern == nil {
		return
	}
	slowest, worst := time.Duration(0), ""
	for _, line := range hardLines(r, l.cases[r.ID]) {
		took, err := matchTime(r, line)
		if err != nil {
			l.add(SeverityError, r, "the pattern backtracks without end on a line of %d bytes as %.80q…: %v", len(line), line, err)
			return
		}
		if took > slowest {
			slowest, worst = took, line
		}
	}
	if slowest > slowMatch {
		l.add(SeverityWarning, r, "the pattern takes %v for a line of %d bytes as %.80q…: it backtracks", slowest.Round(time.Millisecond), len(worst), worst)
	}
}

// matchTime is the shortest of up to three tries, so that a busy machine is not taken for a slow pattern. The error is
// that none of them came to an end.
func matchTime(r *Rule, line string) (took time.Duration, err error) {
	for range 3 {
		start := time.Now()
		_, _, failed := r.Match(line)
		t := time.Since(start)
		switch {
		case failed != nil && took == 0:
			err = failed
		case failed == nil && (took == 0 || t < took):
			took, err = t, nil
		}
		if err == nil && took < slowMatch {
			break
		}
	}
	return took, err
}

// hardLines are lines of MaxLine bytes that open a rule's gate and then go on in ways that a quantifier may take.
func hardLines(r *Rule, rc RuleCases) []string {
	starts := slices.Clone(r.literals[:min(len(r.literals), 3)])
	lines := make([]string, 0, 32)
	for _, c := range rc.Positive[:min(len(rc.Positive), 2)] {
		lines = append(lines, fill("", c.Text+" "))
		starts = append(starts, c.Text[:len(c.Text)/2], c.Text[:len(c.Text)-min(len(c.Text), 2)])
	}
	for _, s := range starts {
		lines = append(lines, fill("", s), fill("", s+" "), fill(s, "a"), fill(s, "1 "), fill(s, "a1_.-/:=, "))
	}
	for i, line := range lines {
		if !r.Gated(line) {
			lines[i] = fill(r.literals[0]+" ", line)
		}
	}
	return lines
}

// fill makes a line of MaxLine bytes.
func fill(start, piece string) string {
	if piece == "" {
		piece = " "
	}
	s := start + strings.Repeat(piece, MaxLine/len(piece)+1)
	return s[:MaxLine]
}
