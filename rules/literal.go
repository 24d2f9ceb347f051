package rules

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2/syntax"
)

const (
	minLiteral = 4   // bytes; the scanner's filter needs as many
	maxLiteral = 200 // bytes; more only costs memory
	maxAlts    = 32  // alternatives that one pattern may need
)

// deriveLiterals finds the best set of literals of which each match of the pattern contains one.
func deriveLiterals(p *pattern) ([]string, error) {
	tree, err := p.tree()
	if err != nil {
		return nil, err
	}
	d := derivation{fold: p.ignoreCase, budget: 50_000}
	found := d.walk(tree.Root)
	best := found.best
	if found.exact != nil {
		best = better(best, found.exact)
	}
	best = minimal(best)
	if score(best) == 0 {
		return nil, fmt.Errorf("no text of %d bytes or more stands in each match: give literals, or a pattern that has some constant part", minLiteral)
	}
	// The proof is a second, independent derivation.
	if err := proveLiterals(p, best); err != nil {
		return nil, errors.Join(errors.New("literals cannot be derived from the pattern, give them"), err)
	}
	return best, nil
}

// required is what the text that a node matches is known to be or to contain.
type required struct {
	exact []string // all texts that it can be; nil where there are too many
	best  []string // contains one of these; nil where nothing is known
}

var (
	anyText   = required{}
	emptyText = required{exact: []string{""}}
)

type derivation struct {
	fold   bool
	budget int
}

func (d *derivation) walk(n *syntax.RegexNode) required {
	d.budget--
	if d.budget <= 0 {
		return anyText
	}
	switch n.T {
	case syntax.NtMulti:
		return d.text(string(n.Str))
	case syntax.NtConcatenate:
		return d.concatenation(n.Children)
	case syntax.NtAlternate:
		return d.alternation(n.Children)
	case syntax.NtCapture, syntax.NtGroup, syntax.NtAtomic:
		return d.walk(n.Children[0])
	case syntax.NtLoop, syntax.NtLazyloop:
		return repeated(d.walk(n.Children[0]), n.M, n.N)
	}
	if isAssertion(n.T) {
		return emptyText
	}
	if isCharacter(n) {
		least, most := characterCount(n)
		return repeated(d.character(n), least, most)
	}
	return anyText
}

func (d *derivation) text(s string) required {
	if d.fold {
		s = lowerASCII(s)
	}
	return required{exact: []string{s}}
}

// character is a small set written out, so that what the parser factored out of an alternation joins again.
func (d *derivation) character(n *syntax.RegexNode) required {
	chars, _ := finite(n)
	var exact []string
	for _, r := range chars[:min(len(chars), 13)] {
		if d.fold && (r == kelvin || r == longS) { // see Rule.Match
			continue
		}
		exact = append(exact, d.text(string(r)).exact...)
	}
	slices.Sort(exact)
	exact = slices.Compact(exact)
	if len(exact) == 0 || len(chars) > 12 || len(exact) > 6 {
		return anyText
	}
	return required{exact: exact}
}

// concatenation joins neighbours that are known exactly, and keeps the best run.
func (d *derivation) concatenation(nodes []*syntax.RegexNode) required {
	run, whole := []string{""}, true
	var best []string
	for _, n := range nodes {
		next := d.walk(n)
		if joined := product(run, next.exact); joined != nil {
			run = joined
			continue
		}
		whole = false
		best = better(better(best, run), next.best)
		run = []string{""}
		if next.exact != nil {
			run = next.exact
		}
	}
	if whole {
		return required{exact: run, best: best}
	}
	return required{best: better(best, run)}
}

// product is all texts of two sets joined; nil where they are too many or too long, or not known.
func product(a, b []string) []string {
	if b == nil || len(a)*len(b) > maxAlts {
		return nil
	}
	var joined []string
	for _, x := range a {
		for _, y := range b {
			if len(x)+len(y) > maxLiteral {
				return nil
			}
			joined = append(joined, x+y)
		}
	}
	return joined
}

func (d *derivation) alternation(nodes []*syntax.RegexNode) required {
	var exact, best []string
	known, contains := true, true
	for _, n := range nodes {
		branch := d.walk(n)
		known = known && branch.exact != nil
		exact = append(exact, branch.exact...)
		alt := branch.best
		if branch.exact != nil {
			alt = better(alt, branch.exact)
		}
		contains = contains && score(alt) > 0
		best = append(best, alt...)
	}
	var r required
	if known && len(exact) <= maxAlts {
		r.exact = exact
	}
	if contains && len(best) <= maxAlts {
		r.best = minimal(best)
	}
	return r
}

func repeated(once required, least, most int) required {
	if most == 0 {
		return emptyText
	}
	if least == 0 {
		if most == 1 && once.exact != nil && len(once.exact) < maxAlts {
			return required{exact: append([]string{""}, once.exact...)}
		}
		return anyText
	}
	if least == most && once.exact != nil && least <= maxLiteral {
		exact := []string{""}
		for range least {
			if exact = product(exact, once.exact); exact == nil {
				break
			}
		}
		if exact != nil {
			return required{exact: exact}
		}
	}
	if once.exact != nil {
		return required{best: better(once.best, once.exact)}
	}
	return required{best: once.best}
}

// better is the set whose weakest literal is longer; of equals the one with fewer literals, then the first.
func better(a, b []string) []string {
	sa, sb := score(a), score(b)
	if sb > sa || sb == sa && sb > 0 && len(b) < len(a) {
		return b
	}
	return a
}

// score is how good the weakest literal of a set is; 0 is useless. A byte of a word of its own counts as much as four of
// blanks, digits and words that any log has, and each doubling of the set costs one.
func score(set []string) int {
	if len(set) == 0 {
		return 0
	}
	least := 4 * maxLiteral
	for _, s := range set {
		if len(s) < minLiteral || strings.ContainsRune(s, utf8.RuneError) {
			return 0
		}
		least = min(least, len(s)+3*len(distinctive(s)))
	}
	return max(1, least-4*(bits.Len(uint(len(set)))-1))
}

// distinctive takes out of a literal what does not make it rare.
func distinctive(s string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r < utf8.RuneSelf && !isLetter(byte(r)) }) {
		if !genericWords[strings.ToLower(word)] {
			b.WriteString(word)
		}
	}
	return b.String()
}

// minimal takes out literals that contain another one, and repetitions.
func minimal(set []string) []string {
	var kept []string
	for i, s := range set {
		if !slices.ContainsFunc(set, func(t string) bool { return t != s && strings.Contains(s, t) }) && !slices.Contains(set[:i], s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// genericWords stand in logs of every kind, healthy ones too: alone they are no signature.
var genericWords = wordSet(`a abort aborted aborting an and assert assertion at be been bad by call called can cannot
	code could critical crash crashed died does done device during epoch error errors exception exceptions exit exited exiting fail failed
	failing fails failure failures fatal file for from get got had has have in info internal invalid is it job kill killed line
	log logs loss message missing no none not null occurred of on operation or out problem process program read received request
	result rank return returned run runtime script signal size status step stop stopped system task terminate terminated terminating
	that the this time timed timeout timeouts to trace traceback type unable unexpected unknown value warn warning warnings was
	when while with worker write wrong`)

func wordSet(text string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}
