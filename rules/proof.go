package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
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
	left := pr.walk(tree.Root, paths{{0, &text{}}})
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
	next   [][]int32 // by state and class
	accept []bool    // by state: a literal ends here
}

func newAutomaton(literals []string) *automaton {
	a := &automaton{runes: []rune{utf8.RuneError}, class: make(map[rune]int)}
	most := 1 // states
	for _, lit := range literals {
		most += len(lit)
		for _, r := range lit {
			if a.class[r] == 0 {
				a.class[r] = len(a.runes)
				a.runes = append(a.runes, r)
			}
		}
	}
	rows := make([]int32, most*len(a.runes))
	state := func() int32 {
		a.next = append(a.next, rows[:len(a.runes)])
		rows = rows[len(a.runes):]
		return int32(len(a.next) - 1)
	}
	root := state()
	a.accept = make([]bool, most)
	for _, lit := range literals {
		at := root
		for _, r := range lit {
			c := a.class[r]
			if a.next[at][c] == 0 {
				a.next[at][c] = state()
			}
			at = a.next[at][c]
		}
		a.accept[at] = true
	}
	a.link()
	return a
}

// link works the transitions of each state's longest proper suffix into its own, breadth first.
func (a *automaton) link() {
	suffix := make([]int32, len(a.next))
	queue := make([]int32, 1, len(a.next))
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		a.accept[state] = a.accept[state] || a.accept[suffix[state]]
		for c, to := range a.next[state] {
			fallback := a.next[suffix[state]][c]
			if to == 0 {
				a.next[state][c] = fallback
				continue
			}
			if state != 0 {
				suffix[to] = fallback
			}
			queue = append(queue, to)
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

// paths holds the states that the automaton can be in, ascending, each with a short text that leads there. They are
// mostly two or three.
type paths []arrival

type arrival struct {
	state int32
	text  *text
}

// find is the place of a state, or where it belongs.
func (p paths) find(state int32) (int, bool) {
	return slices.BinarySearchFunc(p, state, func(a arrival, state int32) int { return int(a.state - state) })
}

// add keeps the shorter of two texts and tells whether the state is new.
func (p *paths) add(state int32, t *text) bool {
	i, known := p.find(state)
	switch {
	case !known:
		*p = slices.Insert(*p, i, arrival{state, t})
	case t.length < (*p)[i].text.length:
		(*p)[i].text = t
	}
	return !known
}

func (p *paths) merge(q paths) {
	for _, a := range q {
		p.add(a.state, a.text)
	}
}

func (p paths) sameStates(q paths) bool {
	return slices.EqualFunc(p, q, func(a, b arrival) bool { return a.state == b.state })
}

func (p paths) witness() (string, bool) {
	if len(p) == 0 {
		return "", false
	}
	shortest := slices.MinFunc(p, func(a, b arrival) int { return a.text.length - b.text.length })
	var runes []rune
	for t := shortest.text; t.length > 0; t = t.before {
		runes = append(runes, t.r)
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
	if pr.budget <= 0 || len(from) == 0 {
		return nil
	}
	switch n.T {
	case syntax.NtConcatenate:
		for _, c := range n.Children {
			from = pr.walk(c, from)
		}
		return from
	case syntax.NtAlternate:
		var to paths
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
			from = pr.step(from, []character{pr.character(pr.folded(r))})
		}
		return from
	case syntax.NtNothing:
		return nil
	}
	if isAssertion(n.T) {
		return from
	}
	if isCharacter(n) {
		chars := pr.characters(n)
		least, most := characterCount(n)
		return pr.repeat(from, least, most, func(p paths) paths { return pr.step(p, chars) })
	}
	// A back-reference, a condition or something that this code does not know: any text at all.
	var any []character
	for _, r := range pr.automaton.runes {
		any = append(any, pr.character(r))
	}
	return pr.repeat(from, 0, math.MaxInt32, func(p paths) paths { return pr.step(p, any) })
}

// repeat applies a step at least least times and at most most times.
func (pr *proof) repeat(from paths, least, most int, step func(paths) paths) paths {
	for i := range least {
		if len(from) == 0 || pr.budget <= 0 {
			return from
		}
		to := step(from)
		if i > 64 && to.sameStates(from) {
			break // and so it stays
		}
		from = to
	}
	all := slices.Clone(from)
	for i := least; i < most && pr.budget > 0 && len(from) > 0; i++ {
		var fresh paths
		for _, a := range step(from) {
			if all.add(a.state, a.text) {
				fresh = append(fresh, a)
			}
		}
		from = fresh
	}
	return all
}

// step moves on by one of the characters. Completed literals are dropped.
func (pr *proof) step(from paths, chars []character) paths {
	pr.budget--
	to := make(paths, 0, len(from)+1)
	for _, at := range from {
		row := pr.automaton.next[at.state]
		for _, c := range chars {
			next := row[c.class]
			if pr.automaton.accept[next] {
				continue
			}
			if i, known := to.find(next); !known || at.text.length+1 < to[i].text.length {
				to.add(next, at.text.then(c.r))
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

// character is one that a node accepts, with its class.
type character struct {
	r     rune
	class int
}

func (pr *proof) character(r rune) character { return character{r, pr.automaton.class[r]} }

// characters stands for all that a node accepts: those of the literals, and one for the others.
func (pr *proof) characters(n *syntax.RegexNode) []character {
	var chars []character
	for _, r := range pr.automaton.runes[1:] {
		if accepts(n, r) || pr.fold && accepts(n, unicode.ToUpper(r)) {
			chars = append(chars, pr.character(r))
		}
	}
	if r, ok := pr.other(n); ok {
		chars = append(chars, pr.character(r))
	}
	return chars
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
