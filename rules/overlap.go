package rules

import (
	"fmt"
	"slices"
	"strings"
)

// overlap is a positive line of one rule that another rule, with another verdict, matches too.
type overlap struct {
	rule, other       *Rule
	line              Case
	length, otherSize int // of the two matches, in bytes
}

// lost tells whether the other rule wins the line: a cause or a fact over a symptom, else the longer match.
func (o overlap) lost() bool {
	if a, b := o.rule.Role == Symptom, o.other.Role == Symptom; a != b {
		return a
	}
	return o.otherSize > o.length
}

// overlaps reports rules that disagree about a line. A generic rule gives way, so only exact ones can disagree.
func (l *linter) overlaps() {
	for _, r := range l.set.Rules() {
		if r.Generic || r.Block != "" {
			continue
		}
		positive := l.cases[r.ID].Positive
		byOther := make(map[*Rule][]overlap)
		var others []*Rule
		for _, c := range positive {
			for _, o := range l.overlapsOf(r, c) {
				if byOther[o.other] == nil {
					others = append(others, o.other)
				}
				byOther[o.other] = append(byOther[o.other], o)
			}
		}
		for _, other := range others {
			l.overlapping(r, byOther[other], len(positive))
		}
	}
}

func (l *linter) overlapping(r *Rule, found []overlap, positive int) {
	o := found[0]
	if i := slices.IndexFunc(found, overlap.lost); i >= 0 {
		o = found[i]
	}
	verdicts := fmt.Sprintf("(%s) by %s (%s) at %s:%d", verdictOf(r), o.other.ID, verdictOf(o.other), o.other.File, o.other.Line)
	if len(found) == positive && !slices.ContainsFunc(found, func(o overlap) bool { return !o.lost() }) {
		l.add(SeverityError, r, "shadowed: each positive line is taken from this rule %s", verdicts)
		return
	}
	outcome := "and would be kept"
	if o.lost() {
		outcome = "and taken"
	}
	l.findings = append(l.findings, Finding{SeverityWarning, o.line.File, o.line.Line, r.ID,
		fmt.Sprintf("overlap: this line is matched %s, %s: %d bytes against %d", verdicts, outcome, o.otherSize, o.length)})
}

// overlapsOf finds the exact rules that match a line of r and would give another verdict.
func (l *linter) overlapsOf(r *Rule, c Case) []overlap {
	m, ok, err := r.Match(c.Text)
	if !ok || err != nil {
		return nil // Check tells
	}
	var found []overlap
	for _, other := range l.set.candidates(c.Text) {
		if other == r || other.Generic || verdictOf(other) == verdictOf(r) {
			continue
		}
		if n, ok, err := other.Match(c.Text); ok && err == nil {
			found = append(found, overlap{r, other, c, m.End - m.Start, n.End - n.Start})
		}
	}
	return found
}

// verdictOf is what a rule says of a failure, in words to compare.
func verdictOf(r *Rule) string {
	return strings.Join([]string{r.Category.ID, string(r.Role), string(r.Fault), string(r.Retry)}, " ")
}

// candidates are the rules whose gate a line opens, in load order.
func (s *Set) candidates(line string) []*Rule {
	folded := lowerASCII(line)
	var open []int
	for _, g := range s.gates {
		text := line
		if g.Fold {
			text = folded
		}
		if strings.Contains(text, g.Literal) {
			open = append(open, g.Rules...)
		}
	}
	slices.Sort(open)
	open = slices.Compact(open)
	rules := make([]*Rule, len(open))
	for i, n := range open {
		rules[i] = s.rules[n]
	}
	return rules
}
