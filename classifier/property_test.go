package classifier_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"culprit/classifier"
	"culprit/classifier/eval"
	"culprit/classifier/loggen"
)

// corpusLabels is where the labelled corpus lies beside a checkout. Tests that read it are skipped where it is not.
const corpusLabels = "../../shared/corpus/labels.jsonl"

// labelledLogs reads the labelled corpus.
func labelledLogs(t testing.TB) (labels []eval.Label, logs [][]byte) {
	t.Helper()
	labels, err := eval.LoadLabels(corpusLabels)
	if os.IsNotExist(err) {
		t.Skip("no labelled corpus at " + corpusLabels)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range labels {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(corpusLabels), l.File))
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, data)
	}
	return labels, logs
}

func classifyBytes(t testing.TB, c *classifier.Classifier, exit classifier.Exit, data []byte) classifier.Verdict {
	t.Helper()
	v, err := c.Classify(context.Background(), exit, classifier.One(classifier.Log{Reader: bytes.NewReader(data)}))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// eachLine rewrites the lines of a log.
func eachLine(change func(n int, line []byte) []byte) func([]byte) []byte {
	return func(data []byte) []byte {
		var out []byte
		lines := bytes.SplitAfter(data, []byte("\n"))
		for n, line := range lines {
			if len(line) == 0 {
				continue
			}
			text := bytes.TrimSuffix(line, []byte("\n"))
			out = append(out, change(n, text)...)
			out = append(out, line[len(text):]...)
		}
		return out
	}
}

func before(prefix string) func([]byte) []byte {
	return eachLine(func(_ int, line []byte) []byte { return append([]byte(prefix), line...) })
}

// dresses are ways in which the same log can be written.
var dresses = []struct {
	name  string
	dress func([]byte) []byte
}{
	{"coloured", eachLine(func(_ int, line []byte) []byte {
		return []byte("\x1b[32m" + string(bytes.ReplaceAll(line, []byte(": "), []byte("\x1b[0;1m: \x1b[0m"))) + "\x1b[0m")
	})},
	{"over a progress bar", eachLine(func(n int, line []byte) []byte {
		if bytes.IndexByte(line, '\r') >= 0 || len(bytes.TrimSpace(line)) == 0 { // of a blank line the bar would be what is left
			return line
		}
		return fmt.Appendf(nil, "\r %d%%|███       | %d/100 [00:01<00:09, 1.01it/s]\r%s", n%100, n%100, line)
	})},
	{"with CRLF", eachLine(func(_ int, line []byte) []byte { return append(line[:len(line):len(line)], '\r') })},
	{"with time stamps", eachLine(func(n int, line []byte) []byte {
		return fmt.Appendf(nil, "2031-02-03T%02d:%02d:%02d.000000000Z %s", n/3600%24, n/60%60, n%60, line)
	})},
	{"by the CRI", eachLine(func(n int, line []byte) []byte {
		return fmt.Appendf(nil, "2031-02-03T%02d:%02d:%02d.000000000Z stderr F %s", n/3600%24, n/60%60, n%60, line)
	})},
	{"by mpirun", before("[1,0]<stderr>:")},
	{"by horovodrun", before("[0]<stderr>:")},
	{"by docker compose", before("trainer-0 | ")},
	{"by kubectl", before("[pod/trainer-0/main] ")},
	{"by Ray", before("(TrainWorker pid=71, ip=10.9.8.7) ")},
	{"by pdsh", before("node-7: ")},
}

// TestDress holds that how a log is written changes neither category nor root line.
func TestDress(t *testing.T) {
	c := newBuiltin(t)
	labels, logs := labelledLogs(t)
	for _, d := range dresses {
		t.Run(d.name, func(t *testing.T) {
			for i, l := range labels {
				exit := classifier.Exit{Code: l.ExitCode}
				plain := classifyBytes(t, c, exit, logs[i])
				dressed := classifyBytes(t, c, exit, d.dress(logs[i]))
				sameVerdict(t, l.ID, plain, dressed)
			}
		})
	}
}

func sameVerdict(t *testing.T, id string, a, b classifier.Verdict) {
	t.Helper()
	line := func(v classifier.Verdict) int64 {
		if v.Root == nil {
			return 0
		}
		return v.Root.Line
	}
	if a.Category != b.Category || line(a) != line(b) {
		t.Errorf("%s: %s by %s on line %d plain, %s by %s on line %d dressed", id, a.Category, a.Rule, line(a), b.Category, b.Rule, line(b))
	}
}

// TestStoriesDressed holds the same over the stories.
func TestStoriesDressed(t *testing.T) {
	c := newBuiltin(t)
	for _, s := range readStories(t) {
		plain := s.classify(t, c, nil)
		for _, d := range dresses {
			if d.name == "over a progress bar" && bytes.Contains(s.logs[0].Data, []byte("␍")) {
				continue
			}
			sameVerdict(t, s.name+" "+d.name, plain, s.classify(t, c, d.dress))
		}
	}
}

// TestHealthy holds that logs of jobs that did not fail raise no alarm.
func TestHealthy(t *testing.T) {
	c := newBuiltin(t)
	zero, one := 0, 1
	for _, framework := range loggen.Frameworks() {
		var log bytes.Buffer
		if err := (loggen.Log{Framework: framework, Seed: 7, Ranks: 4, Lines: 20000}).Write(&log); err != nil {
			t.Fatal(err)
		}
		if v := classifyBytes(t, c, classifier.Exit{Code: &zero}, log.Bytes()); v.Category != "none" {
			t.Errorf("%s with exit code 0: %s by %s: %s", framework, v.Category, v.Rule, v.Summary)
		}
		if v := classifyBytes(t, c, classifier.Exit{Code: &one}, log.Bytes()); v.Category != "no-signature" || len(v.Cascade) > 0 {
			t.Errorf("%s with exit code 1: %s by %s, cascade %v: %s", framework, v.Category, v.Rule, v.Cascade, v.Summary)
		}
	}
}

// TestOffsets holds that the offset of the root cause points at its line in the log as received.
func TestOffsets(t *testing.T) {
	c := newBuiltin(t)
	labels, logs := labelledLogs(t)
	for i, l := range labels {
		v := classifyBytes(t, c, classifier.Exit{Code: l.ExitCode}, logs[i])
		if v.Root == nil {
			continue
		}
		if v.Root.Offset > 0 && logs[i][v.Root.Offset-1] != '\n' {
			t.Errorf("%s: offset %d is inside of a line", l.ID, v.Root.Offset)
		}
		if want := int64(bytes.Count(logs[i][:v.Root.Offset], []byte("\n"))) + 1; v.Root.Line != want {
			t.Errorf("%s: root on line %d, its offset is on line %d", l.ID, v.Root.Line, want)
		}
	}
}

// splitByRank cuts a log into one file a rank, and one for what has no rank.
func splitByRank(log []byte) map[string][]byte {
	files := map[string][]byte{}
	for line := range bytes.Lines(log) {
		rank := classifier.RankOf(bytes.TrimSuffix(line, []byte("\n")))
		files[rank] = append(files[rank], line...)
	}
	return files
}

// TestSplit holds that a log cut into one file a rank has the same category and the same root cause.
func TestSplit(t *testing.T) {
	c := newBuiltin(t)
	labels, logs := labelledLogs(t)
	split := 0
	for i, l := range labels {
		files := splitByRank(logs[i])
		if len(files) < 2 {
			continue
		}
		split++
		exit := classifier.Exit{Code: l.ExitCode}
		whole := classifyBytes(t, c, exit, logs[i])
		parts, err := c.Classify(context.Background(), exit, func(yield func(classifier.Log, error) bool) {
			for _, rank := range slices.Sorted(maps.Keys(files)) {
				if !yield(classifier.Log{Name: "rank-" + rank, Reader: bytes.NewReader(files[rank])}, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		rule := func(v classifier.Verdict) string { return v.Category + " by " + v.Rule }
		if whole.Category != parts.Category || rule(whole) != rule(parts) {
			t.Errorf("%s: %s whole, %s in %d files", l.ID, rule(whole), rule(parts), len(files))
		}
	}
	if split < 30 {
		t.Errorf("only %d logs could be cut", split)
	}
}
