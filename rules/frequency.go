package rules

import (
	"bytes"
	"encoding/binary"
)

const (
	frequentLines = 0.001 // the share of healthy lines that a literal may stand in
	enoughLines   = 1000  // a rule is tried on so many lines of a literal: enough to tell whether it matches any
)

// LintFrequency finds literals that stand in many lines of healthy logs, and rules that match such lines.
func LintFrequency(set *Set, healthy []byte) []Finding {
	l := linter{set: set}
	lines := bytes.Count(healthy, []byte("\n")) + 1
	hits := make([]int, len(set.gates))
	matched := make(map[*Rule]string) // a line that it matches
	eachHit(set.gates, healthy, func(gate int, line []byte) {
		if hits[gate]++; hits[gate] > enoughLines {
			return
		}
		for _, i := range set.gates[gate].Rules {
			r := set.rules[i]
			if matched[r] != "" {
				continue
			}
			if _, ok, err := r.Match(string(line)); ok && err == nil {
				matched[r] = string(line)
			}
		}
	})
	for i, g := range set.gates {
		if hits[i] > 10 && float64(hits[i]) > frequentLines*float64(lines) {
			for _, n := range g.Rules {
				l.add(SeverityWarning, set.rules[n], "literal %q stands in %d of %d healthy lines", g.Literal, hits[i], lines)
			}
		}
	}
	for _, r := range set.rules {
		if line := matched[r]; line != "" {
			l.add(SeverityWarning, r, "matches healthy lines, as %.200q", line)
		}
	}
	return l.findings
}

// eachHit calls found for each gate and each line that opens it, once a line.
//
// The first four bytes of each literal, folded and hashed, set a bit of a table that fits into the first cache; only
// where the text's next four bytes have theirs set are literals compared.
func eachHit(gates []Gate, text []byte, found func(gate int, line []byte)) {
	folded := []byte(lowerASCII(string(text)))
	starts := make(map[uint32][]int)
	var table [1 << 16]bool
	for i, g := range gates {
		start := binary.LittleEndian.Uint32([]byte(lowerASCII(g.Literal)))
		starts[start] = append(starts[start], i)
		table[bucket(start)] = true
	}
	last := make([]int, len(gates)) // the end of the last line found for a gate
	from := 0
	for at := 0; at+minLiteral <= len(text); at++ {
		if text[at] == '\n' {
			from = at + 1
			continue
		}
		start := binary.LittleEndian.Uint32(folded[at:])
		if !table[bucket(start)] {
			continue
		}
		for _, i := range starts[start] {
			in := text
			if gates[i].Fold {
				in = folded
			}
			if last[i] > at || !bytes.HasPrefix(in[at:], []byte(gates[i].Literal)) {
				continue
			}
			last[i] = lineEnd(text, at)
			found(i, text[from:last[i]])
		}
	}
}

func bucket(start uint32) uint32 { return start * 0x9E3779B1 >> 16 }

func lineEnd(text []byte, at int) int {
	if end := bytes.IndexByte(text[at:], '\n'); end >= 0 {
		return at + end
	}
	return len(text)
}
