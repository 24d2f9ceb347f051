package rules

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/dlclark/regexp2/v2/syntax"
	"github.com/google/go-cmp/cmp"
)

func TestDeriveLiterals(t *testing.T) {
	tests := []struct {
		pattern    string
		ignoreCase bool
		want       []string
	}{
		{`CUDA out of memory\. Tried to allocate (?<size>[\d.]+ [KMGT]iB)`, false, []string{"CUDA out of memory. Tried to allocate "}},
		{`CUDA out of memory\. Tried`, true, []string{"cuda out of memory. tried"}},
		{`error: (?:alpha was|alpine had) lost`, false, []string{"error: alpha was lost", "error: alpine had lost"}}, // "alp" factored out
		{`zone (?:abc|abd) lost`, false, []string{"zone abc lost", "zone abd lost"}},                                 // ab[cd]
		{`\bkernel: \[\d+\] Oops`, false, []string{"kernel: ["}},
		{`(?:node |rank )?left the cluster`, false, []string{"left the cluster"}},
		{`(?:gone ){2}for good`, false, []string{"gone gone for good"}},
		{`(?:gone ){2,5}now`, false, []string{"gone "}},
		{`(?:gone )+\d`, false, []string{"gone "}},
		{`(?<=before )mid(?= after)dle`, false, []string{"middle"}},
		{`(?>atomic )group`, false, []string{"atomic group"}},
		{`x{3}y{4}z+`, false, []string{"xxxyyyy"}},
		{`(?<a>ab)\k<a>+ lengthy`, false, []string{" lengthy"}},
		{`(?:Global rank|Rank) \d (?:crashed with exit code|failed with exit code) \d`, false, []string{" crashed with exit code ", " failed with exit code "}},
		{`größer als \d+`, false, []string{"größer als "}},
		{`(?:\d+ killed processes|oops: .* dead)`, false, []string{" killed processes", "oops: "}},
	}
	for _, test := range tests {
		p, err := compile(test.pattern, test.ignoreCase)
		if err != nil {
			t.Fatalf("%s: %v", test.pattern, err)
		}
		got, err := deriveLiterals(p)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s (ignore case %v): %v; literals (-want +got):\n%s", test.pattern, test.ignoreCase, err, diff)
		}
	}
}

// What proveLiterals refuses is shown in testdata/load; these it must accept.
func TestProveLiterals(t *testing.T) {
	tests := []struct {
		pattern    string
		ignoreCase bool
		literals   []string
	}{
		{`zone (?:abc|abd) lost`, false, []string{"zone abc", "abd lost"}},
		{`zone [a-c] lost`, false, []string{"zone a ", "zone b ", " c lost"}},
		{`Sink[KS] sank`, true, []string{"sinkk", "sinks"}}, // the engine also folds K and s to letters beyond ASCII
		{`l{2}ama \w+`, false, []string{"llama"}},
		{`(?:ab){100}`, false, []string{strings.Repeat("ab", 90)}},
		{`(?:ab|cd)+efgh`, false, []string{"befgh", "defgh"}},
		{`[^x]* failed: .*`, false, []string{"failed: "}},
		{`abc(?:d|e(?:f|g))h`, false, []string{"abcd", "efh", "egh"}},
		{`GRÖSSE \d`, true, []string{"gr", "sse "}},
	}
	for _, test := range tests {
		p, err := compile(test.pattern, test.ignoreCase)
		if err != nil {
			t.Fatalf("%s: %v", test.pattern, err)
		}
		if err := proveLiterals(p, test.literals); err != nil {
			t.Errorf("%s implies %q: got %v", test.pattern, test.literals, err)
		}
	}
}

// Lines made from the syntax tree of each built-in pattern: those that match contain a literal, the pack's own and
// those that would be derived without them.
func TestMatchImpliesLiteral(t *testing.T) {
	set, _ := builtin(t)
	for _, r := range set.Rules() {
		if r.pattern == nil {
			continue
		}
		derived, err := deriveLiterals(r.pattern)
		if err != nil {
			derived = r.literals // a pattern of many parts: only its author knows them
		}
		matched := checkImplied(t, r.pattern, 50, 1, r.literals, derived)
		if matched == 0 {
			t.Logf("%s: no line made from the pattern matches it", r.ID)
		}
	}
}

// checkImplied makes lines from a pattern and counts those that match.
func checkImplied(t *testing.T, p *pattern, lines int, seed uint64, sets ...[]string) (matched int) {
	t.Helper()
	tree, err := p.tree()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	for range lines {
		g := generator{rng: rng, fold: p.ignoreCase, left: 2000}
		g.node(tree.Root)
		line := g.b.String()
		if _, ok, err := p.match(line); !ok || err != nil {
			continue
		}
		matched++
		for _, literals := range sets {
			r := Rule{literals: literals, ignoreCase: p.ignoreCase, pattern: p}
			if _, ok, _ := r.Match(line); ok && !r.Gated(line) {
				t.Errorf("%s matches %q, which has none of %q", p.source, line, literals)
			}
		}
	}
	return matched
}

// generator writes a text that a syntax tree may match, look-around and anchors aside.
type generator struct {
	rng  *rand.Rand
	fold bool
	left int // nodes that may still be visited
	b    strings.Builder
}

func (g *generator) node(n *syntax.RegexNode) {
	if g.left--; g.left < 0 {
		return
	}
	times := 1
	if least, most := n.M, n.N; n.T == syntax.NtLoop || n.T == syntax.NtLazyloop || isCharacter(n) {
		if isCharacter(n) {
			least, most = characterCount(n)
		}
		times = least + g.rng.IntN(min(most-least, 3)+1)
	}
	switch {
	case n.T == syntax.NtAlternate:
		g.node(n.Children[g.rng.IntN(len(n.Children))])
	case n.T == syntax.NtMulti:
		for _, r := range n.Str {
			g.rune(r)
		}
	case isCharacter(n):
		for range min(times, 500) {
			g.rune(g.pick(n))
		}
	case isAssertion(n.T):
	default:
		for range min(times, 50) {
			for _, c := range n.Children {
				g.node(c)
			}
		}
	}
}

func (g *generator) rune(r rune) {
	if g.fold && g.rng.IntN(2) == 0 {
		if other := unicode.SimpleFold(r); other < 128 || g.rng.IntN(8) == 0 {
			r = other
		}
	}
	g.b.WriteRune(r)
}

// pick finds a character that a node accepts: mostly ASCII, mostly other than the last.
func (g *generator) pick(n *syntax.RegexNode) rune {
	if n.IsOneFamily() {
		return n.Ch
	}
	for range 400 {
		if r := rune(32 + g.rng.IntN(95)); accepts(n, r) {
			return r
		}
	}
	for r := rune(0); r < 0x3000; r++ {
		if accepts(n, r) {
			return r
		}
	}
	return ' '
}
