package rules

import "testing"

// One rule and one line that it matches, captures included.
func BenchmarkMatch(b *testing.B) {
	r := oneRule(b, "  pattern: 'CUDA out of memory\\. Tried to allocate (?<size>[\\d.]+ [KMGT]iB)'\n  summary: '{size}'\n")
	const line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB"
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, _ := r.Match(line); !ok {
			b.Fatal("no match")
		}
	}
}

// Each built-in rule whose gate is open on each positive case, as the classifier asks them.
func BenchmarkMatchAll(b *testing.B) {
	set, cases := builtin(b)
	type pair struct {
		rule *Rule
		line string
	}
	var pairs []pair
	bytes := 0
	for _, rc := range cases.Rules {
		for _, c := range rc.Positive {
			for _, r := range set.candidates(c.Text) {
				pairs = append(pairs, pair{r, c.Text})
				bytes += len(c.Text)
			}
		}
	}
	b.SetBytes(int64(bytes))
	b.ReportMetric(float64(len(pairs)), "pairs")
	for b.Loop() {
		for _, p := range pairs {
			if _, _, err := p.rule.Match(p.line); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// Reading, checking and proving the built-in packs, as a start does.
func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := load(embedded, "packs", false); err != nil {
			b.Fatal(err)
		}
	}
}
