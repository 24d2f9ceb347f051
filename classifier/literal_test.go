package classifier

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"culprit/rules"
)

// automaton is Aho and Corasick's: the plain way to find many literals, and the oracle of the filter.
type automaton struct {
	next [][256]int32
	out  [][]int32
}

func newAutomaton(gates []rules.Gate, fold bool) *automaton {
	a := &automaton{next: make([][256]int32, 1), out: make([][]int32, 1)}
	for i, g := range gates {
		if g.Fold != fold {
			continue
		}
		text := g.Literal
		if fold {
			text = lower(text)
		}
		state := int32(0)
		for k := range len(text) {
			to := a.next[state][text[k]]
			if to == 0 {
				to = int32(len(a.next))
				a.next = append(a.next, [256]int32{})
				a.out = append(a.out, nil)
				a.next[state][text[k]] = to
			}
			state = to
		}
		a.out[state] = append(a.out[state], int32(i))
	}
	fail := make([]int32, len(a.next))
	var queue []int32
	for _, to := range a.next[0] {
		if to != 0 {
			queue = append(queue, to)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		a.out[state] = append(a.out[state], a.out[fail[state]]...)
		for c, to := range a.next[state] {
			if to == 0 {
				a.next[state][c] = a.next[fail[state]][c]
				continue
			}
			fail[to] = a.next[fail[state]][c]
			queue = append(queue, to)
		}
	}
	return a
}

// find returns each occurrence as "literal@position".
func (a *automaton) find(gates []rules.Gate, b []byte, fold bool, found map[string]int) {
	state := int32(0)
	for i, c := range b {
		if fold && c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		state = a.next[state][c]
		for _, lit := range a.out[state] {
			found[fmt.Sprintf("%d@%d", lit, i+1-len(gates[lit].Literal))]++
		}
	}
}

// sameHits compares the filter with the oracle.
func sameHits(t *testing.T, gates []rules.Gate, b []byte) {
	t.Helper()
	want, got := map[string]int{}, map[string]int{}
	newAutomaton(gates, false).find(gates, b, false, want)
	newAutomaton(gates, true).find(gates, b, true, want)
	for _, h := range newFilter(gates, commonWord).scan(b, nil) {
		got[fmt.Sprintf("%d@%d", h.literal, h.pos)]++
	}
	for k := range want {
		if got[k] != 1 {
			t.Errorf("gates %v in %q: %s found %d times, want once", gates, b, k, got[k])
		}
	}
	for k, n := range got {
		if want[k] == 0 {
			t.Errorf("gates %v in %q: %s found %d times, want never", gates, b, k, n)
		}
	}
}

func TestFilter(t *testing.T) {
	gates := []rules.Gate{
		{Literal: "CUDA out of memory"}, {Literal: "out of memory", Fold: true}, {Literal: "memory"}, {Literal: "OOM!"},
		{Literal: "[rank0]: @_{"}, {Literal: "xid (", Fold: true}, {Literal: "aaaaaaaaaa"}, {Literal: "über den Speicher"},
	}
	for _, text := range []string{
		"", "OOM", "OOM!", "x OOM!OOM!", "RuntimeError: CUDA out of memory. Tried", "Out Of Memory: killed", "cuda OUT OF MEMORY",
		"[rank0]: @_{", "{RANK0}: `\x7f[", strings.Repeat("a", 40), "NVRM: XID (PCI", "läuft über den Speicher hinaus", "memory", "memor",
	} {
		for pad := range 9 {
			sameHits(t, gates, []byte(strings.Repeat(".", pad)+text))
			sameHits(t, gates, []byte(strings.Repeat(".", pad)+text+strings.Repeat("\n", pad)))
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(uint64(1), []byte("CUDA out of memory"))
	f.Add(uint64(7), []byte("abababababab"))
	f.Fuzz(func(t *testing.T, seed uint64, text []byte) {
		if len(text) > 4096 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		var gates []rules.Gate
		seen := map[string]bool{}
		for range 1 + r.IntN(12) {
			g := rules.Gate{Literal: randomLiteral(r, text), Fold: r.IntN(2) == 0}
			if g.Fold {
				g.Literal = lower(g.Literal)
			}
			if key := fmt.Sprint(g); !seen[key] && len(g.Literal) >= 4 {
				seen[key] = true
				gates = append(gates, g)
			}
		}
		sameHits(t, gates, text)
	})
}

// randomLiteral is a piece of text, so that it occurs, or of a small alphabet, so that it overlaps with others.
func randomLiteral(r *rand.Rand, text []byte) string {
	n := 4 + r.IntN(16)
	if len(text) > n && r.IntN(3) > 0 {
		at := r.IntN(len(text) - n)
		return string(text[at : at+n])
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = "abAB[{"[r.IntN(6)]
	}
	return string(b)
}
