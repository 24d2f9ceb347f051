package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/corpus"
)

// command runs culprit with input and returns its exit code and output.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &problems)
	return code, out.String(), problems.String()
}

const sacctRows = `JobIDRaw|JobID|JobName|User|Account|State|ExitCode|ElapsedRaw|Submit|Start|End|AllocTRES|NodeList|Restarts|StdErr|WorkDir
1|1|train|ada|nlp|FAILED|1:0|3600|2026-11-01T10:00:00|2026-11-01T10:00:00|2026-11-01T11:00:00|gres/gpu=8|gpu-[1-2]|0|err.%j|DIR
1|1|train|ada|nlp|COMPLETED|0:0|60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|gres/gpu=8|gpu-[1-2]|1|err.%j|DIR
2|2|train|bob|nlp|OUT_OF_MEMORY|0:125|60|2026-11-01T12:00:00|2026-11-01T12:00:00|2026-11-01T12:01:00|gres/gpu=1|gpu-3|0||
3|3|train|bob|nlp|RUNNING|0:0|60|2026-11-01T12:00:00|2026-11-01T12:00:00|Unknown|gres/gpu=1|gpu-3|0||
`

// TestImportSlurm imports the same twice: nothing is doubled, what is left out is said, logs are read below a root.
func TestImportSlurm(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "err.1"), []byte("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := strings.ReplaceAll(sacctRows, "DIR", dir)
	for _, want := range []string{"imported 3 attempts; 0 were known, 1 entries left out", "imported 0 attempts; 3 were known, 1 entries left out"} {
		code, out, problems := command(t, rows, "import", "slurm", "--data", data, "--zone", "UTC", "--log-root", dir, "-")
		if code != exitOK || !strings.Contains(out, want) || !strings.Contains(out, "1  it has not ended; import again when it has\n            first: line 5 (3)") {
			t.Fatalf("import exits %d\n%s%s\nwant %q and why one is left out", code, out, problems, want)
		}
	}
	kept, err := corpus.Open(t.Context(), data, corpus.Options{ReadOnly: true, NoIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	page, err := kept.Attempts(t.Context(), corpus.Filter{Sort: "id"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range page.Attempts {
		got = append(got, fmt.Sprint(a.Job, "#", a.Number, " ", a.Verdict.Category, " ", a.GPUSeconds, " ", len(a.Logs)))
	}
	if want := "1#1 gpu-oom 28800 1, 1#2 none 480 0, 2#1 cpu-oom 60 0"; strings.Join(got, ", ") != want {
		t.Errorf("kept %q, want %q", strings.Join(got, ", "), want)
	}
}

// TestImportIsResumed: what was kept before an import broke is recognised by the next.
func TestImportIsResumed(t *testing.T) {
	data := t.TempDir()
	var whole strings.Builder
	whole.WriteString("job,user,gpus,start,end,exit_code\n")
	for i := range 2500 {
		fmt.Fprintf(&whole, "j%d,u%d,1,%d,%d,%d\n", i, i%7, 1790000000+i, 1790000100+i, i%2)
	}
	text := whole.String()
	cut := `{"status": "Pass"`
	if code, _, problems := command(t, "["+cut, "import", "philly", "--data", data, "-"); code != exitFail || !strings.Contains(problems, "what was read before is kept") {
		t.Errorf("a cut trace: exit code %d, %s", code, problems)
	}
	half := text[:strings.Index(text, "j1800,")]
	if code, out, problems := command(t, half, "import", "csv", "--data", data, "-"); code != exitOK || !strings.Contains(out, "imported 1800 attempts") {
		t.Fatalf("the first half: exit code %d, %s%s", code, out, problems)
	}
	if code, out, problems := command(t, text, "import", "csv", "--data", data, "-"); code != exitOK || !strings.Contains(out, "imported 700 attempts; 1800 were known") {
		t.Fatalf("all: exit code %d, %s%s", code, out, problems)
	}
}

// TestImportToServer sends records to a running server; those of another user's job are refused and said.
func TestImportToServer(t *testing.T) {
	base, _ := startServer(t, t.TempDir())
	rows := sacctRows + "2|2|train|eve|nlp|FAILED|1:0|60|2026-11-02T12:00:00|2026-11-02T12:00:00|2026-11-02T12:01:00|gres/gpu=1|gpu-3|1||\n"
	for _, want := range []string{"imported 3 attempts; 0 were known, 2 entries left out", "imported 0 attempts; 3 were known, 2 entries left out"} {
		code, out, problems := command(t, rows, "import", "slurm", "--server", base, "--zone", "UTC", "-")
		if code != exitOK || !strings.Contains(out, want) || !strings.Contains(out, "it was refused\n            first: job 2: the server answered 409: user:") {
			t.Errorf("import exits %d\n%s%s\nwant %q and the refusal", code, out, problems, want)
		}
	}
	if status, body := get(t, base+"/api/v1/jobs/1"); status != 200 || strings.Count(body, `"attempt":`) < 2 {
		t.Errorf("job 1: %d %s, want two attempts", status, body)
	}
}

func TestImportUsage(t *testing.T) {
	for _, args := range [][]string{
		{"import", "slurm"},
		{"import", "slurm", "--zone", "Mars/Olympus", "-"},
		{"import", "csv", "--map", "gpu=GPUs", "-"},
		{"import", "slum", "-"},
		{"import", "slurm", "--server", "localhost", "-"},
		{"import", "slurm", "--log-root", "logs", "-"},
	} {
		if code, _, problems := command(t, "", args...); code != exitUsage {
			t.Errorf("culprit %s exits %d, want %d: %s", strings.Join(args, " "), code, exitUsage, problems)
		}
	}
	code, _, problems := command(t, "", "import", "csv", "--data", t.TempDir(), "/no/such/file")
	if code != exitFail || !strings.Contains(problems, "/no/such/file") {
		t.Errorf("a file that is not there: exit code %d, %s", code, problems)
	}
}

// TestImportStops: an interrupted import ends with an error and without harm.
func TestImportStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, problems bytes.Buffer
	if code := run(ctx, []string{"import", "slurm", "--data", t.TempDir(), "-"}, strings.NewReader(sacctRows), &out, &problems); code != exitFail {
		t.Errorf("exit code %d, want %d: %s", code, exitFail, &problems)
	}
}
