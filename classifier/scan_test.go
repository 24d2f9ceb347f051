package classifier_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"culprit/classifier"
	"culprit/rules"
)

// testRules are two rules, so that tests of reading do not hang on the built-in packs.
const testRules = `
- id: oom
  category: gpu-oom
  literals: ["CUDA out of memory. Tried"]
  pattern: 'CUDA out of memory\. Tried to allocate (?<size>[\d.]+ GiB)'
  summary: "ran out of GPU memory allocating {size}"
  advice: Lower the batch size.
  source: test
- id: peer-gone
  category: collective-error
  role: symptom
  literals: ["connection closed by peer"]
  summary: "a peer closed its connection"
  advice: Look at the peer.
  source: test
- id: python-traceback
  category: traceback
  block: python-traceback
  summary: "{type}: {message}"
  advice: Read the traceback.
  source: test
`

func testClassifier(t testing.TB, packs string) *classifier.Classifier {
	t.Helper()
	set, err := rules.Load(fstest.MapFS{"test.yaml": {Data: []byte(packs)}})
	if err != nil {
		t.Fatal(err)
	}
	return classifier.New(set)
}

const oomLine = "RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0)"

// TestLongLines holds that a literal is found wherever it stands in lines that are longer than what is read at a time,
// and that line numbers and offsets stay right after them.
func TestLongLines(t *testing.T) {
	c := testClassifier(t, testRules)
	const piece = 256 << 10
	for _, at := range []int{0, 1, 4095, piece - 30, piece - 1, piece, piece + 1, piece + 8191, piece + 8192, piece + 8193, 2*piece - 10, 3*piece + 5, 700_000} {
		for _, tail := range []int{0, 1, piece, 500_000} {
			log := "first\n" + strings.Repeat("x", at) + " " + oomLine + " " + strings.Repeat("y", tail) + "\nlast\n" + oomLine + "\n"
			v := classifyBytes(t, c, classifier.Exit{}, []byte(log))
			if v.Rule != "oom" || v.Root.Line != 2 || v.Root.Offset != 6 || v.Lines != 4 || v.Bytes != int64(len(log)) {
				t.Fatalf("%d bytes before and %d after: got rule %q, %d lines, %d bytes, line %d at %d; want the rule on line 2 at offset 6 of 4 lines", at, tail, v.Rule, v.Lines, v.Bytes, v.Root.Line, v.Root.Offset)
			}
			if len(v.Root.Text) > 4200 || !strings.Contains(v.Root.Text, oomLine) {
				t.Fatalf("%d bytes before and %d after: root text of %d bytes: %.60q", at, tail, len(v.Root.Text), v.Root.Text)
			}
		}
	}
}

// TestOverwritten holds that what a carriage return overwrote does not count, also in a line longer than a piece.
func TestOverwritten(t *testing.T) {
	c := testClassifier(t, testRules)
	for name, log := range map[string]string{
		"short":     oomLine + "\r100%|██████████| 8/8 [00:01<00:00, 8.0it/s]\n",
		"long":      oomLine + strings.Repeat(" ", 600_000) + "\r100%|██████████| 8/8 [00:01<00:00, 8.0it/s]\n",
		"long mid":  strings.Repeat("x", 300_000) + oomLine + strings.Repeat("\r 99%|█████████ | 7/8 [00:01<00:00, 8.0it/s]", 9000) + "\n",
		"backspace": oomLine + "\b\b\b\bdone\n",
	} {
		if v := classifyBytes(t, c, classifier.Exit{}, []byte(log)); v.Rule != "" {
			t.Errorf("%s: got rule %q on line %d, want none", name, v.Rule, v.Root.Line)
		}
	}
	if v := classifyBytes(t, c, classifier.Exit{}, []byte(" 12%|█ | 1/8\r"+oomLine+"\r\n")); v.Rule != "oom" || v.Root.Text != oomLine {
		t.Errorf("an error after a progress bar: got %q %+v", v.Rule, v.Root)
	}
}

// TestReaders holds that the verdict does not hang on how a log arrives.
func TestReaders(t *testing.T) {
	c := newBuiltin(t)
	labels, logs := labelledLogs(t)
	for i, l := range labels {
		want := classifyBytes(t, c, classifier.Exit{Code: l.ExitCode}, logs[i])
		for name, r := range map[string]io.Reader{
			"half":     iotest.HalfReader(bytes.NewReader(logs[i])),
			"data err": iotest.DataErrReader(bytes.NewReader(logs[i])),
		} {
			got, err := c.Classify(context.Background(), classifier.Exit{Code: l.ExitCode}, classifier.One(classifier.Log{Reader: r}))
			if err != nil {
				t.Fatal(err)
			}
			if g, w := asJSON(t, got), asJSON(t, want); g != w {
				t.Errorf("%s read by %s:\n got %s\nwant %s", l.ID, name, g, w)
			}
		}
	}
}

func asJSON(t testing.TB, v classifier.Verdict) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadError(t *testing.T) {
	c := testClassifier(t, testRules)
	broken := errors.New("the disk is gone")
	_, err := c.Classify(context.Background(), classifier.Exit{}, func(yield func(classifier.Log, error) bool) {
		yield(classifier.Log{Name: "rank-3.err", Reader: io.MultiReader(strings.NewReader("x\n"), iotest.ErrReader(broken))}, nil)
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "rank-3.err") {
		t.Errorf("got error %v, want one that names rank-3.err and wraps %v", err, broken)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Classify(ctx, classifier.Exit{}, classifier.One(classifier.Log{Reader: strings.NewReader("x")})); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v of a cancelled context, want %v", err, context.Canceled)
	}
}

// TestManyMatches holds that a rule that matches each line does not hide what stands at the end, and that the last
// failure counts where the ones before were survived.
func TestManyMatches(t *testing.T) {
	c := testClassifier(t, testRules)
	var log strings.Builder
	for i := range 5000 {
		log.WriteString(oomLine + "\n")
		if i%10 == 9 {
			log.WriteString("step 10 loss 2.5\nstep 20 loss 2.4\n")
		}
	}
	log.WriteString("last step\n" + oomLine + "\n")
	v := classifyBytes(t, c, classifier.Exit{}, []byte(log.String()))
	if want := v.Lines - 1; v.Root == nil || v.Root.Line < want-1 {
		t.Errorf("got root %+v, want one on the last lines of %d", v.Root, v.Lines)
	}
}

func TestMatchTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	c := testClassifier(t, strings.ReplaceAll(testRules, `'CUDA out of memory\. Tried to allocate (?<size>[\d.]+ GiB)'`, `'CUDA out of memory\. Tried (?<size>(\w+ ?)+)+!'`))
	start := time.Now()
	v := classifyBytes(t, c, classifier.Exit{}, []byte(oomLine+strings.Repeat(" aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 10)+"\n"+oomLine+"\n"))
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("a pattern that backtracks took %s", took)
	}
	if v.Category != "no-signature" {
		t.Errorf("got %s, want no-signature", v.Category)
	}
}

// FuzzClassify holds that no log makes the reader panic, that evidence points at lines of the log, and that reading in
// small pieces changes nothing.
func FuzzClassify(f *testing.F) {
	f.Add([]byte(oomLine + "\n"))
	f.Add([]byte("[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a\", line 1\n[rank1]: ValueError: x\n"))
	f.Add([]byte("\x1b[31m" + oomLine + "\x1b[0m\r\n connection closed by peer\r\r\n"))
	f.Add([]byte("Exception in thread \"main\" java.io.IOException: x\n\tat a.b(C.java:1)\nCaused by: a.B: y\n"))
	c := testClassifier(f, testRules)
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) > 64<<10 {
			return
		}
		v := classifyBytes(t, c, classifier.Exit{}, log)
		if v.Bytes != int64(len(log)) {
			t.Fatalf("%d bytes of %d counted", v.Bytes, len(log))
		}
		evidence := append(v.Cascade, v.Others...)
		if v.Root != nil {
			evidence = append(evidence, *v.Root)
		}
		for _, e := range evidence {
			if e.Offset < 0 || e.Offset > int64(len(log)) || int64(bytes.Count(log[:e.Offset], []byte("\n")))+1 != e.Line {
				t.Fatalf("evidence %+v is not at its line in %q", e, log)
			}
		}
		slow, err := c.Classify(context.Background(), classifier.Exit{}, classifier.One(classifier.Log{Reader: iotest.OneByteReader(bytes.NewReader(log))}))
		if err != nil {
			t.Fatal(err)
		}
		if a, b := asJSON(t, v), asJSON(t, slow); a != b {
			t.Fatalf("read at once %s\nby the byte %s", a, b)
		}
	})
}

// TestManyNearMisses holds that a literal on each line does not hide the match at the end.
func TestManyNearMisses(t *testing.T) {
	c := testClassifier(t, testRules)
	log := strings.Repeat("CUDA out of memory. Tried nothing\n", 25_000) + oomLine + "\n"
	if v := classifyBytes(t, c, classifier.Exit{}, []byte(log)); v.Rule != "oom" || v.Root.Line != 25_001 {
		t.Errorf("got %q %+v, want the rule on the last line", v.Rule, v.Root)
	}
}
