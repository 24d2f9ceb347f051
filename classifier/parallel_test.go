package classifier

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"culprit/classifier/loggen"
	"culprit/rules"
)

// TestParallel holds that the verdict on a large log does not hang on the number of cores.
func TestParallel(t *testing.T) {
	set, err := rules.Default()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for _, seed := range []uint64{1, 2, 3} {
		if err := (loggen.Log{Framework: "torchrun", Seed: seed, Ranks: 4, Bytes: 9 << 20}).Write(&log); err != nil {
			t.Fatal(err)
		}
		log.WriteString("[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a.py\", line 1, in f\n[rank1]: KeyError: 'x'\n")
		log.WriteString(strings.Repeat("y", 700_000) + " torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n")
	}
	var want string
	for _, cores := range []int{1, 2, 7} {
		c := New(set)
		c.cores = make(chan struct{}, cores)
		v, err := c.Classify(context.Background(), Exit{}, One(Log{Reader: bytes.NewReader(log.Bytes())}))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = string(got)
		}
		if string(got) != want {
			t.Errorf("with %d cores:\n got %s\nwant %s", cores, got, want)
		}
	}
	if v := want; !strings.Contains(v, `"category":"gpu-oom"`) {
		t.Errorf("verdict %s", v)
	}
	if n := runtime.NumGoroutine(); n > 20 {
		t.Errorf("%d goroutines are left", n)
	}
}

// TestGateLosesNothing holds that each line that a rule matches is one on which the filter finds one of its literals:
// what the gate hides, no rule would have matched. Lines that differ in digits only are tried once.
func TestGateLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("tries every rule on every line")
	}
	set, err := rules.Default()
	if err != nil {
		t.Fatal(err)
	}
	c := New(set)
	opens := map[int32]map[int]bool{}
	for i, g := range set.Gates() {
		opens[int32(i)] = map[int]bool{}
		for _, r := range g.Rules {
			opens[int32(i)][r] = true
		}
	}
	seen := map[string]bool{}
	matches := 0
	for _, log := range gateLogs(t) {
		for raw := range bytes.Lines(log) {
			raw = bytes.TrimSuffix(raw, newline)
			l := undress(window(raw, 0, 0))
			if key := maskDigits(l.said); seen[key] || len(l.said) == 0 {
				continue
			} else {
				seen[key] = true
			}
			ch := &chunk{data: raw}
			c.scanChunk(ch)
			for i, r := range set.Rules() {
				if r.Block != "" {
					continue
				}
				_, ok, _ := r.Match(l.text)
				if !ok {
					continue
				}
				matches++
				open := false
				for _, h := range ch.hits {
					open = open || opens[h.literal][i]
				}
				if !open {
					t.Errorf("%s matches %q, and the filter finds none of its literals", r.ID, l.text)
				}
			}
		}
	}
	if matches < 150 {
		t.Errorf("only %d matches were seen over %d lines", matches, len(seen))
	}
}

// gateLogs are the stories, the labelled corpus where it is at hand, and generated logs.
func gateLogs(t *testing.T) [][]byte {
	t.Helper()
	stories, err := filepath.Glob("testdata/stories/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	labelled, err := filepath.Glob("../../shared/corpus/logs/*.log")
	if err != nil {
		t.Fatal(err)
	}
	var logs [][]byte
	for _, file := range append(stories, labelled...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, data)
	}
	for _, framework := range loggen.Frameworks() {
		var b bytes.Buffer
		if err := (loggen.Log{Framework: framework, Seed: 5, Ranks: 2, Lines: 300}).Write(&b); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, b.Bytes())
	}
	return logs
}
