package rules

import (
	"fmt"
	"slices"
	"strings"
)

// overlap is a positive line of one rule that another rule, with another verdict, would take from it.
type overlap struct {
	other         *Rule
	line          Case
	length, taken int // of the rule's own match and the other's, in bytes
}

// overlaps reports rules that lose lines of their own to rules of another verdict. A rule that matches more of the line
// than a more general one does not: it was written for that. Generic rules are there to give way.
func (l *linter) overlaps() {
	for _, r := range l.set.Rules() {
		if r.Generic || r.Block != "" {
			continue
		}
		positive := l.cases[r.ID].Positive
		lost := 0
		byOther := make(map[*Rule]overlap)
		var others []*Rule
		for _, c := range positive {
			found := l.taken(r, c)
			lost += min(len(found), 1)
			for _, o := range found {
				if _, ok := byOther[o.other]; !ok {
					byOther[o.other] = o
					others = append(others, o.other)
				}
			}
		}
		for _, other := range others {
			l.overlapping(r, byOther[other], lost == len(positive))
		}
	}
}

func (l *linter) overlapping(r *Rule, o overlap, all bool) {
	verdicts := fmt.Sprintf("(%s) by %s (%s) at %s:%d", verdictOf(r), o.other.ID, verdictOf(o.other), o.other.File, o.other.Line)
	if all {
		l.add(SeverityError, r, "shadowed: each positive line is taken from this rule %s", verdicts)
		return
	}
	l.findings = append(l.findings, Finding{SeverityWarning, o.line.File, o.line.Line, r.ID,
		fmt.Sprintf("overlap: this line is taken from its rule %s, which matches %d bytes of it against %d", verdicts, o.taken, o.length)})
}

// taken finds the rules that match a line of r, are preferred to r and would give another verdict.
func (l *linter) taken(r *Rule, c Case) []overlap {
	m, ok, err := r.Match(c.Text)
	if !ok || err != nil {
		return nil // Check tells
	}
	var found []overlap
	before := true // other stands before r in load order
	for _, other := range l.set.candidates(c.Text) {
		if other == r {
			before = false
			continue
		}
		if verdictOf(other) == verdictOf(r) {
			continue
		}
		n, ok, err := other.Match(c.Text)
		if ok && err == nil && preferred(other, n, r, m, before) {
			found = append(found, overlap{other, c, m.End - m.Start, n.End - n.Start})
		}
	}
	return found
}

// preferred tells whether the classifier takes a's match of a line over b's: a fact first, an exact rule before a generic
// one, then the longer match, then the rule that was loaded first.
func preferred(a *Rule, am Match, b *Rule, bm Match, before bool) bool {
	if fact := a.Role == Fact; fact != (b.Role == Fact) {
		return fact
	}
	if a.Generic != b.Generic {
		return b.Generic
	}
	al, bl := am.End-am.Start, bm.End-bm.Start
	return al > bl || al == bl && before
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
