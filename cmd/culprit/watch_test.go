package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"culprit/corpus"
)

// writeLogs writes files that last changed that long ago.
func writeLogs(t *testing.T, dir string, age time.Duration, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func keptAttempts(t *testing.T, data string) []string {
	t.Helper()
	kept, err := corpus.Open(t.Context(), data, corpus.Options{ReadOnly: true, NoIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	page, err := kept.Attempts(t.Context(), corpus.Filter{Sort: "id"})
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, a := range page.Attempts {
		var logs []string
		for _, l := range a.Logs {
			logs = append(logs, l.Name)
		}
		root := ""
		if a.Verdict.Root != nil {
			root = a.Verdict.Root.File
		}
		list = append(list, fmt.Sprintf("%s#%d %s%s %s [%s] %s", a.Job, a.Number, a.User, a.RunID, a.Verdict.Category, strings.Join(logs, " "), root))
	}
	return list
}

const watchedOOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"

// TestWatch: the logs of an attempt are kept together when they are quiet, once.
func TestWatch(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	writeLogs(t, dir, time.Hour, map[string]string{"7/1/rank-0.err": "step 1\n", "7/1/rank-2.err": watchedOOM, "7/1/rank-10.err": "step 1\n", "7/1/notes.txt": watchedOOM})
	writeLogs(t, dir, 30*time.Minute, map[string]string{"7/2/rank-0.err": watchedOOM, "8/1/rank-0.err": "step 1\n"})
	writeLogs(t, dir, time.Second, map[string]string{"8/1/rank-1.err": watchedOOM, "9/1/rank-0.err": watchedOOM})
	pattern := dir + "/{job}/{attempt}/rank-{rank}.err"
	want := []string{"7#1  gpu-oom [0 2 10] 2", "7#2  gpu-oom [0] "}
	for range 2 {
		if code, _, problems := command(t, "", "watch", "--once", "--data", data, pattern); code != exitOK {
			t.Fatalf("watch exits %d: %s", code, problems)
		}
		if diff := cmp.Diff(want, keptAttempts(t, data)); diff != "" {
			t.Fatal(diff)
		}
	}
	writeLogs(t, dir, time.Hour, map[string]string{"8/1/rank-1.err": watchedOOM})
	command(t, "", "watch", "--once", "--data", data, pattern)
	if diff := cmp.Diff(append(want, "8#1  gpu-oom [0 1] 1"), keptAttempts(t, data)); diff != "" {
		t.Fatal(diff)
	}
	// A log that grew after it was picked up is left, and said.
	writeLogs(t, dir, time.Hour, map[string]string{"7/2/rank-0.err": watchedOOM + "more\n"})
	code, _, problems := command(t, "", "watch", "--once", "--data", data, pattern)
	if code != exitOK || !strings.Contains(problems, "not picked up") || !strings.Contains(problems, "job=7") {
		t.Errorf("a log that grew: exit code %d, %s", code, problems)
	}
}

// TestWatchExitFile: an attempt ends with its exit file; attempts that are no numbers are counted.
func TestWatchExitFile(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	writeLogs(t, dir, time.Hour, map[string]string{"ada/train/a/err.log": watchedOOM, "ada/train/a/exit": "1\n", "ada/train/b/err.log": "fine\n", "ada/train/b/exit": "0", "bob/x/a/err.log": watchedOOM})
	command(t, "", "watch", "--once", "--data", data, "--exit-file", "exit", dir+"/{user}/{job}/{attempt}/*.log")
	want := []string{"train#1 adaa gpu-oom [] ", "train#2 adab none [] "}
	if diff := cmp.Diff(want, keptAttempts(t, data)); diff != "" {
		t.Error(diff)
	}
}

func TestWatchPattern(t *testing.T) {
	for _, pattern := range []string{"/logs/*.err", "/logs/{job}/{job}", "/logs/{job}/{gpu}", ""} {
		if code, _, problems := command(t, "", "watch", "--once", "--data", t.TempDir(), pattern); code != exitUsage {
			t.Errorf("pattern %q: exit code %d, want %d: %s", pattern, code, exitUsage, problems)
		}
	}
	p, err := newPathPattern("/l[o]gs?/{job}-{attempt}.err")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]map[string]string{
		"/l[o]gs?/train-3.err": {"job": "train", "attempt": "3"},
		"/l[o]gs?/a/b-3.err":   nil,
		"/logs/train-3.err":    nil,
	} {
		if diff := cmp.Diff(want, p.parts(path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}
