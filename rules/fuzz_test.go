package rules

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"
)

// Whatever a pack holds, it loads or is refused; what has loaded holds to its word on a line.
func FuzzLoad(f *testing.F) {
	f.Add(packOne, "shared text")
	f.Add(packTwo, "other text")
	f.Add("- {id: a, category: gpu-oom, pattern: '(?<x>a+)+bcde', summary: '{x}', advice: a, source: s}", "aaaabcde")
	f.Add("- &a [*a]\n", "")
	f.Add("- id: [[[[[{{{{{", "")
	f.Fuzz(func(t *testing.T, pack, line string) {
		fsys := fstest.MapFS{"a.yaml": {Data: []byte(pack)}, "a_test.yaml": {Data: []byte(pack)}}
		_, _ = LoadCases(fsys)
		set, err := Load(fsys)
		if err != nil {
			return
		}
		for _, r := range set.Rules() {
			checkMatch(t, r, line)
		}
	})
}

// checkMatch holds a match against what Match promises.
func checkMatch(t *testing.T, r *Rule, line string) {
	t.Helper()
	start := time.Now()
	m, ok, err := r.Match(line)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("%q on %q took %v", r.Pattern(), line, took)
	}
	if !ok || err != nil {
		return
	}
	if m.Start < 0 || m.End < m.Start || m.End > min(len(line), MaxLine) {
		t.Errorf("%q on %q: match at %d to %d", r.Pattern(), line, m.Start, m.End)
	}
	if !r.Gated(line) {
		t.Errorf("%q matches %q, which has none of %q", r.Pattern(), line, r.Literals())
	}
	if s := r.Sentence(m.Captures); len(s) > len(r.Summary)*(maxCapture+1) {
		t.Errorf("sentence %q is too long", s)
	}
}

// Literals derived from a pattern, and those proved to be implied, stand in each line that it matches.
func FuzzProof(f *testing.F) {
	f.Add(`(?:abcd|abce)+f|[^x]*ghij{2,3}k?`, false, "abcd|ghij", uint64(1))
	f.Add(`a(?:b|c(?:d|e)?)+fghi(?=j)`, true, "fghi", uint64(2))
	f.Add(`(?<a>kiosk)\k<a>(?!x)|(?>sass)+?y`, true, "kiosk|ass", uint64(3))
	f.Add(`(?(a)bcde|fghi)jklm?`, false, "jkl", uint64(4))
	f.Add(`aabaab(?:a|b)*c\W+`, false, "abaaba|aabaabc|aababc", uint64(5))
	f.Fuzz(func(t *testing.T, source string, ignoreCase bool, literals string, seed uint64) {
		p, err := compile(source, ignoreCase)
		if err != nil || strings.ContainsRune(literals, utf8.RuneError) {
			return
		}
		if ignoreCase {
			literals = lowerASCII(literals)
		}
		if set := strings.Split(literals, "|"); !slices.Contains(set, "") && proveLiterals(p, set) == nil {
			checkImplied(t, p, 10, seed, set)
		}
		if set, err := deriveLiterals(p); err == nil {
			checkImplied(t, p, 10, seed, set)
		}
	})
}

func FuzzMatch(f *testing.F) {
	set, cases := builtin(f)
	for _, rc := range cases.Rules {
		for _, c := range rc.Positive {
			f.Add(c.Text)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, r := range set.candidates(line) {
			checkMatch(t, r, line)
		}
	})
}
