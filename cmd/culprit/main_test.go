package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runCLI runs the program in process.
func runCLI(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

const exampleLog = "../../classifier/testdata/example.log"

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name           string
		args           string
		code           int
		stdout, stderr string // parts
	}{
		{"help", "--help", 0, "culprit classify", ""},
		{"nothing", "", 0, "Usage:", ""},
		{"version", "version", 0, "rules, version", ""},
		{"unknown command", "clasify", 2, "", `did you mean "classify"`},
		{"unknown flag", "classify --jason", 2, "", "unknown flag"},
		{"exit code out of range", "classify --exit-code 512 -", 2, "", "--exit-code 512: must be between 0 and 511"},
		{"negative GPUs", "classify --gpus -1 -", 2, "", "--gpus -1: must not be negative"},
		{"missing file", "classify " + dir + "/no.err", 1, "", "no.err"},
		{"classify", "classify --exit-code 1 " + exampleLog, 0, "gpu-oom", ""},
		{"eval without labels", "eval", 2, "", "accepts 1 arg"},
		{"eval of nothing", "eval " + dir + "/labels.jsonl", 1, "", "labels.jsonl"},
		{"show", "rules show torch-cuda-oom", 0, "gpu-oom", ""},
		{"show nothing", "rules show no-such-rule", 1, "", "no rule"},
		{"unknown rules command", "rules prove", 2, "", `unknown command "prove"`},
		{"lint of no folder", "rules lint " + dir + "/none", 1, "", "none"},
		{"report without data", "report --data " + dir + "/none", 1, "", "--data names the folder of a server"},
		{"report of a bad time", "report --from yesterday --data " + dir, 2, "", `--from "yesterday": must be a date`},
		{"reindex without data", "reindex --data " + dir + "/none", 1, "", "none"},
		{"serve with an argument", "serve now", 2, "", `unknown command "now"`},
	}
	for _, tt := range tests {
		code, stdout, stderr := runCLI(t, "", strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: culprit %s\n got %d, %q, %q\nwant %d with %q, %q", tt.name, tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}

func TestClassifyJSON(t *testing.T) {
	log, err := os.ReadFile(exampleLog)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runCLI(t, string(log), "classify", "--json", "--exit-code", "1")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var v struct {
		File, Category, Fault, Retry, Rule, Summary, Fingerprint string
		Confidence                                               float64
		Root                                                     struct {
			Line     int
			Text     string
			Rank     string
			Captures map[string]string
		}
		Cascade  []struct{ Rule string }
		Progress struct {
			LastLine int `json:"last_line"`
			Step     int
		}
		Bytes, Lines int
	}
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatal(err)
	}
	if v.File != "-" || v.Category != "gpu-oom" || v.Fault != "user" || v.Retry != "never" || v.Confidence < 0.9 || v.Root.Line != 8 || v.Root.Rank != "3" ||
		v.Root.Captures["size"] != "2.50 GiB" || len(v.Cascade) == 0 || v.Progress.LastLine != 2 || v.Progress.Step != 12000 || v.Lines != 10 ||
		v.Bytes != len(log) || len(v.Fingerprint) != 12 || !strings.HasPrefix(v.Summary, "rank 3 ran out of GPU memory allocating 2.50 GiB") {
		t.Errorf("verdict on the example: %s", stdout)
	}
}

// TestClassifyFolder holds that a folder is a verdict a file, that an unreadable one does not hide the others, and that
// --together reads them as one attempt.
func TestClassifyFolder(t *testing.T) {
	dir := t.TempDir()
	log, err := os.ReadFile(exampleLog)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"rank-0.err": "step 1 loss 2.0\nall fine\n", "rank-3.err": string(log), "broken.gz": "not gzip"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := runCLI(t, "", "classify", "--json", dir)
	if lines := strings.Count(stdout, "\n"); code != 1 || lines != 2 || !strings.Contains(stderr, "broken.gz") {
		t.Errorf("a folder with a broken file: exit code %d, %d verdicts, %q; want 1, 2 verdicts and a complaint about broken.gz", code, lines, stderr)
	}
	code, stdout, stderr = runCLI(t, "", "classify", "--json", "--together", filepath.Join(dir, "rank-0.err"), filepath.Join(dir, "rank-3.err"))
	if code != 0 || strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, `rank-3.err","line":8`) {
		t.Errorf("one attempt of two files: exit code %d, %q, %q", code, stdout, stderr)
	}
}

func TestEvalGate(t *testing.T) {
	dir := t.TempDir()
	label := `{"file": "a.log", "category": "gpu-oom", "fault": "user", "retry": "never", "root": "CUDA out of memory"}` + "\n"
	log, err := os.ReadFile(exampleLog)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"labels.jsonl": label + strings.Replace(label, `"never"`, `"once"`, 1), "a.log": string(log)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	labels := filepath.Join(dir, "labels.jsonl")
	if code, stdout, stderr := runCLI(t, "", "eval", "--min-category", "1", "--min-root", "1", "--misses", "--calibration", labels); code != 0 || !strings.Contains(stdout, "100.0%") || !strings.Contains(stdout, "a.log: retry") {
		t.Errorf("eval: exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := runCLI(t, "", "eval", "--max-false-stop", "0", labels); code != 1 || !strings.Contains(stderr, "false stop is 1.0000, more than 0.0000") {
		t.Errorf("eval with a false stop: exit code %d, %q; want 1 and the figure", code, stderr)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("CULPRIT_JSON", "true")
	t.Setenv("CULPRIT_EXIT_CODE", "1")
	if code, stdout, stderr := runCLI(t, "x\n", "classify"); code != 0 || !strings.HasPrefix(stdout, "{") {
		t.Errorf("CULPRIT_JSON=true: exit code %d, %q, %q", code, stdout, stderr)
	}
	t.Setenv("CULPRIT_EXIT_CODE", "many")
	if code, _, stderr := runCLI(t, "x\n", "classify"); code != 2 || !strings.Contains(stderr, "CULPRIT_EXIT_CODE") {
		t.Errorf("CULPRIT_EXIT_CODE=many: exit code %d, %q; want 2 and the variable", code, stderr)
	}
}

// TestBrokenPacks holds that a broken pack is named with its line.
func TestBrokenPacks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.yaml"), []byte("- id: x\n  category: nccl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runCLI(t, "x\n", "classify", "--rules", dir); code != 1 || !strings.Contains(stderr, `mine.yaml:2: x: unknown category "nccl"`) {
		t.Errorf("a broken pack: exit code %d, %q; want 1 and mine.yaml:2", code, stderr)
	}
}
