package eval

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/classifier"
	"culprit/rules"
)

func outcome(label, said string, want, got rules.Retry, root, line string, confidence float64) Outcome {
	v := classifier.Verdict{Category: said, Fault: "user", Retry: got, Confidence: confidence}
	if line != "" {
		v.Root = &classifier.Evidence{Text: line}
	}
	return Outcome{Label: Label{Category: label, Accept: []string{"traceback"}, Fault: "user", Retry: want, Root: root, RootAlso: []string{"", "the other line"}}, Verdict: v}
}

func TestScore(t *testing.T) {
	outcomes := []Outcome{
		outcome("gpu-oom", "gpu-oom", "never", "never", "out of memory", "CUDA out of memory", 0.95),
		outcome("gpu-oom", "traceback", "never", "once", "out of memory", "the other line, whole", 0.75), // accepted; a missed stop
		outcome("network-error", "gpu-oom", "always", "never", "refused", "something else", 1),           // wrong; a false stop
		outcome("no-signature", "no-signature", "once", "once", "", "", 0.6),
	}
	got := Score(outcomes)
	// F1: gpu-oom has 2 of 2 right and is said 3 times: 2×2/(3+2) = 0.8; network-error 0; no-signature 1.
	want := Scores{Logs: 4, Category: 0.75, CategoryExact: 0.5, MacroF1: 0.6, Fault: 1, Retry: 0.5, Root: 0.75, FalseStops: 1, FalseStop: 0.5, MissedStops: 1, MissedStop: 0.5}
	if math.Abs(got.MacroF1-want.MacroF1) > 1e-9 {
		t.Errorf("macro-F1 = %v, want %v", got.MacroF1, want.MacroF1)
	}
	got.MacroF1 = want.MacroF1
	if got != want {
		t.Errorf("Score = %+v\nwant    %+v", got, want)
	}
	if s := Score(nil); s != (Scores{}) {
		t.Errorf("Score of nothing = %+v, want zeroes", s)
	}
	last := Calibration(outcomes)[5]
	if last.Logs != 2 || last.Right != 1 || math.Abs(last.Mean-0.975) > 1e-9 {
		t.Errorf("bin of 0.9 to 1 = %+v, want 2 verdicts, 1 right, mean 0.975", last)
	}
}

func TestLoadLabels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "labels.jsonl")
	for text, want := range map[string]string{
		"{\"file\": \"a\", \"category\": \"none\"}\n\n{\"file\": \"b\", \"category\": \"none\", \"new\": 1}\n": "",
		"{\"file\": \"a\", \"category\": \"none\"}\n{\"file\"\n":                                               "labels.jsonl:2: ",
		"{\"file\": \"a\"}\n": "labels.jsonl:1: a label needs file and category",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		labels, err := LoadLabels(file)
		if want == "" && (err != nil || len(labels) != 2) {
			t.Errorf("LoadLabels(%q) = %d labels, %v; want 2", text, len(labels), err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("LoadLabels(%q): error %v, want one with %q", text, err, want)
		}
	}
}
