package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2/syntax"
)

// proveLiterals proves that each match of a pattern contains one of the literals; its error shows a text that the
// pattern may match without one.
//
// It runs the pattern's syntax tree over the automaton that searches for the literals: from each state that the
// automaton can be in before a node, the states that it can be in after it. A path on which a literal was completed is
// dropped; the proof holds if no path is left at the end. What the tree restricts further (look-around, anchors,
// back-references) is taken as no restriction, so a proof is never wrong, though one may be missed.
func proveLiterals(p *pattern, literals []string) error {
	tree, err := p.tree()
	if err != nil {
		return err
	}
	pr := proof{automaton: newAutomaton(literals), fold: p.ignoreCase, budget: 200_000}
	start := make(paths, len(pr.automaton.next))
	start[0] = &text{}
	left := pr.walk(tree.Root, start)
	if pr.budget <= 0 {
		return errors.New("the pattern is too involved to prove that it implies its literals")
	}
	if w, ok := left.witness(); ok {
		return &unprovedError{literals, w}
	}
	return nil
}

// unprovedError carries a text that a pattern matches, as far as its syntax tree tells, without any of the literals.
type unprovedError struct {
	literals []string
	witness  string
}

func (e *unprovedError) Error() string {
	if len(e.literals) == 1 {
		return fmt.Sprintf("literal %q is not implied: the pattern also matches without it (%q)", e.literals[0], e.witness)
	}
	return fmt.Sprintf("the %d literals are not implied: the pattern also matches without one of them (%q)", len(e.literals), e.witness)
}

// automaton is an Aho-Corasick automaton over classes of characters: each character of the literals is a class of its
// own, all others together are class 0, which leads back to the root. State 0 is the root.
type automaton struct {
	runes  []rune // by class; the first stands for nothing
	class  map[rune]int
	next   [][]int // by state and class
	accept []bool  // by state: a literal ends here
}

func newAutomaton(literals []string) *automaton {
	a := &automaton{runes: []rune{utf8.RuneError}, class: make(map[rune]int)}
	for _, r := range strings.Join(literals, "") {
		if a.class[r] == 0 {
			a.class[r] = len(a.runes)
			a.runes = append(a.runes, r)
		}
	}
	a.state()
	for _, lit := range literals {
		state := 0
		for _, r := range lit {
			c := a.class[r]
			if a.next[state][c] == 0 {
				a.next[state][c] = a.state()
			}
			state = a.next[state][c]
		}
		a.accept[state] = true
	}
	a.link()
	return a
}

func (a *automaton) state() int {
	a.next = append(a.next, make([]int, len(a.runes)))
	a.accept = append(a.accept, false)
	return len(a.next) - 1
}

// link works the transitions of each state's longest proper suffix into its own, breadth first.
func (a *automaton) link() {
	suffix := make([]int, len(a.next))
	queue := []int{0}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		a.accept[state] = a.accept[state] || a.accept[suffix[state]]
		for c, to := range a.next[state] {
			fallback := a.next[suffix[state]][c]
			switch {
			case to == 0:
				a.next[state][c] = fallback
			default:
				if state != 0 {
					suffix[to] = fallback
				}
				queue = append(queue, to)
			}
		}
	}
}

// text is a text that leads to a state, kept as a chain from its end.
type text struct {
	before *text
	r      rune
	length int
}

func (t *text) then(r rune) *text { return &text{t, r, t.length + 1} }

// paths holds for each state of the automaton a short text that leads there; nil where none does.
type paths []*text

func (p paths) empty() bool { return !slices.ContainsFunc(p, func(q *text) bool { return q != nil }) }

// add keeps the shorter of two texts and tells whether the state is new.
func (p paths) add(state int, q *text) bool {
	old := p[state]
	if old == nil || q.length < old.length {
		p[state] = q
	}
	return old == nil
}

func (p paths) witness() (string, bool) {
	var best *text
	for _, q := range p {
		if q != nil && (best == nil || q.length < best.length) {
			best = q
		}
	}
	if best == nil {
		return "", false
	}
	var runes []rune
	for ; best.length > 0; best = best.before {
		runes = append(runes, best.r)
	}
	slices.Reverse(runes)
	if len(runes) > 100 {
		runes = append(runes[:100], '…')
	}
	return string(runes), true
}

type proof struct {
	automaton *automaton
	fold      bool
	budget    int
}

// walk tells where the automaton can be after a node.
func (pr *proof) walk(n *syntax.RegexNode, from paths) paths {
	pr.budget--
	if pr.budget <= 0 || from.empty() {
		return make(paths, len(from))
	}
	switch n.T {
	case syntax.NtConcatenate:
		for _, c := range n.Children {
			from = pr.walk(c, from)
		}
		return from
	case syntax.NtAlternate:
		to := make(paths, len(from))
		for _, c := range n.Children {
			to.merge(pr.walk(c, from))
		}
		return to
	case syntax.NtCapture, syntax.NtGroup, syntax.NtAtomic:
		return pr.walk(n.Children[0], from)
	case syntax.NtLoop, syntax.NtLazyloop:
		return pr.repeat(from, n.M, n.N, func(p paths) paths { return pr.walk(n.Children[0], p) })
	case syntax.NtMulti:
		for _, r := range n.Str {
			from = pr.step(from, []rune{pr.folded(r)})
		}
		return from
	case syntax.NtNothing:
		return make(paths, len(from))
	}
	if isAssertion(n.T) {
		return from
	}
	if isCharacter(n) {
		runes := pr.runes(n)
		m, most := characterCount(n)
		return pr.repeat(from, m, most, func(p paths) paths { return pr.step(p, runes) })
	}
	// A back-reference, a condition or something that this code does not know: any text at all.
	return pr.repeat(from, 0, math.MaxInt32, func(p paths) paths { return pr.step(p, pr.automaton.runes) })
}

func (p paths) merge(q paths) {
	for state, t := range q {
		if t != nil {
			p.add(state, t)
		}
	}
}

// repeat applies a step at least least times and at most most times.
func (pr *proof) repeat(from paths, least, most int, step func(paths) paths) paths {
	for i := range least {
		if from.empty() || pr.budget <= 0 {
			return from
		}
		to := step(from)
		if i > 64 && to.sameStates(from) {
			break // and so it stays
		}
		from = to
	}
	all := make(paths, len(from))
	all.merge(from)
	for i := least; i < most && pr.budget > 0; i++ {
		from = step(from)
		fresh := make(paths, len(from))
		for state, q := range from {
			if q != nil && all.add(state, q) {
				fresh[state] = q
			}
		}
		if fresh.empty() {
			break
		}
		from = fresh
	}
	return all
}

func (p paths) sameStates(q paths) bool {
	return slices.EqualFunc(p, q, func(a, b *text) bool { return (a == nil) == (b == nil) })
}

// step moves on by one of the runes. Completed literals are dropped.
func (pr *proof) step(from paths, runes []rune) paths {
	pr.budget--
	classes := make([]int, len(runes))
	for i, r := range runes {
		classes[i] = pr.automaton.class[r]
	}
	to := make(paths, len(from))
	for state, q := range from {
		if q == nil {
			continue
		}
		row := pr.automaton.next[state]
		for i, r := range runes {
			next := row[classes[i]]
			if old := to[next]; !pr.automaton.accept[next] && (old == nil || q.length+1 < old.length) {
				to[next] = q.then(r)
			}
		}
	}
	return to
}

func (pr *proof) folded(r rune) rune {
	if pr.fold && 'A' <= r && r <= 'Z' {
		return r | 0x20
	}
	return r
}

// runes stands for the characters that a node accepts: those of the literals, and one for all others.
func (pr *proof) runes(n *syntax.RegexNode) []rune {
	var runes []rune
	for _, r := range pr.automaton.runes[1:] {
		if accepts(n, r) || pr.fold && accepts(n, unicode.ToUpper(r)) {
			runes = append(runes, r)
		}
	}
	if r, ok := pr.other(n); ok {
		runes = append(runes, r)
	}
	return runes
}

// other finds a character that the node accepts and no literal has, one that reads well if possible.
func (pr *proof) other(n *syntax.RegexNode) (rune, bool) {
	for i := range 128 {
		c := rune(i+'0') & 127 // digits and letters first, then control characters
		if accepts(n, c) && pr.automaton.class[pr.folded(c)] == 0 {
			return c, true
		}
	}
	if chars, ok := finite(n); ok {
		for _, c := range chars {
			// Match asks for a literal, so the two letters that the engine folds to k and s cannot lead past the gate.
			if c >= utf8.RuneSelf && pr.automaton.class[c] == 0 && !(pr.fold && (c == kelvin || c == longS)) {
				return c, true
			}
		}
		return 0, false
	}
	return utf8.RuneError, true // no literal has it
}

// finite lists the characters that a node accepts, where they are few.
func finite(n *syntax.RegexNode) ([]rune, bool) {
	if n.IsOneFamily() {
		return []rune{n.Ch}, true
	}
	if !n.IsSetFamily() || n.Set.IsNegated() {
		return nil, false
	}
	chars := n.Set.GetSetChars(128)
	return chars, chars != nil
}

// The two letters beyond ASCII that the engine takes for k and s where case does not count.
const (
	kelvin = '\u212A'
	longS  = '\u017F'
)

func isAssertion(t syntax.NodeType) bool {
	switch t {
	case syntax.NtBol, syntax.NtEol, syntax.NtBoundary, syntax.NtNonboundary, syntax.NtBeginning, syntax.NtStart,
		syntax.NtEndZ, syntax.NtEnd, syntax.NtEmpty, syntax.NtPosLook, syntax.NtNegLook, syntax.NtUpdateBumpalong,
		syntax.NtECMABoundary, syntax.NtNonECMABoundary, syntax.NtResetCapture:
		return true
	}
	return false
}

func isCharacter(n *syntax.RegexNode) bool {
	return n.IsOneFamily() || n.IsNotoneFamily() || n.IsSetFamily()
}

// characterCount is how often a character node repeats.
func characterCount(n *syntax.RegexNode) (least, most int) {
	switch n.T {
	case syntax.NtOne, syntax.NtNotone, syntax.NtSet:
		return 1, 1
	}
	return n.M, n.N
}

func accepts(n *syntax.RegexNode, r rune) bool {
	switch {
	case n.IsOneFamily():
		return n.Ch == r
	case n.IsNotoneFamily():
		return n.Ch != r
	}
	return n.Set.Contains(r)
}
