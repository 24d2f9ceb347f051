package corpus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"culprit/classifier"
	"culprit/rules"
)

// open opens a corpus in a folder until the test ends.
func open(t testing.TB, dir string, opt Options) *Corpus {
	t.Helper()
	c, err := Open(t.Context(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error("closing:", err)
		}
	})
	return c
}

// logs yields logs by name and text.
func logs(nameAndText ...string) iter.Seq2[classifier.Log, error] {
	return func(yield func(classifier.Log, error) bool) {
		for i := 0; i < len(nameAndText); i += 2 {
			if !yield(classifier.Log{Name: nameAndText[i], Reader: strings.NewReader(nameAndText[i+1])}, nil) {
				return
			}
		}
	}
}

// stage reads logs through Tee as the classifier does.
func stage(t testing.TB, c *Corpus, seq iter.Seq2[classifier.Log, error]) *StagedLog {
	t.Helper()
	l, err := c.NewLog()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Discard)
	for log, err := range l.Tee(seq) {
		if err != nil {
			break // Add says it
		}
		if _, err := io.Copy(io.Discard, log.Reader); err != nil {
			break
		}
	}
	return l
}

// add keeps an attempt with logs and fails the test where that fails.
func add(t testing.TB, c *Corpus, a Attempt, nameAndText ...string) Attempt {
	t.Helper()
	if _, err := tryAdd(t, c, &a, nameAndText...); err != nil {
		t.Fatalf("adding %s/%d: %v", a.Job, a.Number, err)
	}
	return a
}

func tryAdd(t testing.TB, c *Corpus, a *Attempt, nameAndText ...string) (existed bool, err error) {
	t.Helper()
	if a.Verdict.Category == "" {
		a.Verdict = oom(0)
	}
	var l *StagedLog
	if len(nameAndText) > 0 {
		l = stage(t, c, logs(nameAndText...))
	}
	return c.Add(context.Background(), a, l)
}

// oom is a verdict whose root cause is at a line; 0 for none.
func oom(line int64) classifier.Verdict {
	v := classifier.Verdict{Category: "gpu-oom", Title: "GPU out of memory", Fault: rules.FaultUser, Retry: rules.RetryNever,
		Rule: "torch-cuda-oom", Confidence: 0.97, Summary: "rank 3 ran out of GPU memory", Cascade: []classifier.Evidence{}, Fingerprint: "5b1c0f6a9e2d"}
	if line > 0 {
		v.Root = &classifier.Evidence{Rule: "torch-cuda-oom", Category: "gpu-oom", Line: line, Text: "torch.OutOfMemoryError: CUDA out of memory."}
	}
	return v
}

func at(s string) *time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return &t
}

func code(n int) classifier.Exit { return classifier.Exit{Code: &n} }

func TestAddKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{})
	sent := Attempt{Cluster: "a", Job: "42", Number: 2, RunID: "s9XYZ", Name: "train", User: "alice", VC: "vision", GPUs: 8, GPUType: "H100",
		Nodes: []string{"gpu-1", "gpu-2"}, Submitted: at("2026-12-01T08:00:00+01:00"), Start: at("2026-12-01T08:10:00+01:00"), End: at("2026-12-01T09:10:00.5+01:00"),
		Exit: classifier.Exit{Code: new(int), Signal: 9, State: "FAILED", Reason: "NonZeroExitCode"}, CostClass: "spot", Verdict: oom(2)}
	*sent.Code = 1
	text := "step 1\ntorch.OutOfMemoryError: CUDA out of memory.\n"
	got := add(t, c, sent, "rank0", text, "rank1", "")

	want := sent
	want.ID = got.ID
	for _, p := range []**time.Time{&want.Submitted, &want.Start, &want.End} {
		u := (*p).UTC()
		*p = &u
	}
	want.RTFSeconds, want.GPUSeconds = 3600.5, 8*3600.5
	want.Logs = []LogFile{{Name: "rank0", Digest: "0", Bytes: int64(len(text)), Lines: 2}, {Name: "rank1"}}
	want.Logs[0].Digest, want.Logs[1].Digest = got.Logs[0].Digest, got.Logs[1].Digest
	want.Created = got.Created
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Add changed the attempt (-want +got):\n%s", diff)
	}
	if age := time.Since(got.Created); age < 0 || age > time.Minute {
		t.Errorf("created %v ago", age)
	}
	read, err := c.Attempt(t.Context(), got.ID)
	if diff := cmp.Diff(got, read); err != nil || diff != "" {
		t.Errorf("Attempt: %v, differs from what Add returned (-add +attempt):\n%s", err, diff)
	}
	r, f, err := c.OpenLog(t.Context(), got.ID, "rank0")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, err := io.ReadAll(r); err != nil || string(body) != text || f != got.Logs[0] {
		t.Errorf("OpenLog = %q, %+v, %v; want %q", body, f, err, text)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "staging")); err != nil || len(entries) != 0 {
		t.Errorf("staging holds %d files after Add, %v", len(entries), err)
	}
}

func TestAddAgain(t *testing.T) {
	base := Attempt{Job: "7", User: "alice", GPUs: 4, Exit: code(1)}
	with := func(change func(*Attempt)) Attempt { a := base; change(&a); return a }
	run1 := with(func(a *Attempt) { a.RunID = "s1" })
	record := Attempt{Job: "7", RunID: "s1", Start: at("2026-12-01T10:00:00Z"), End: at("2026-12-01T11:00:00Z"), Nodes: []string{"n1"}}
	type sending struct {
		attempt Attempt
		log     string // empty: none
	}
	for _, tt := range []struct {
		name        string
		first, then sending
		existed     bool
		conflict    string // field
		number      int
		logs        int
	}{
		{"the same without a number is the same", sending{base, "x"}, sending{base, "x"}, true, "", 1, 1},
		{"another log without a number is the next attempt", sending{base, "x"}, sending{base, "y"}, false, "", 2, 1},
		{"other fields without a number are the next attempt", sending{base, "x"}, sending{with(func(a *Attempt) { a.GPUs = 8 }), "x"}, false, "", 2, 1},
		{"the same number with the same", sending{with(func(a *Attempt) { a.Number = 3 }), "x"}, sending{with(func(a *Attempt) { a.Number = 3 }), "x"}, true, "", 3, 1},
		{"the same number with another log", sending{with(func(a *Attempt) { a.Number = 3 }), "x"}, sending{with(func(a *Attempt) { a.Number = 3 }), "y"}, false, "logs", 0, 0},
		{"the same number with other GPUs", sending{with(func(a *Attempt) { a.Number = 3 }), "x"}, sending{with(func(a *Attempt) { a.Number, a.GPUs = 3, 8 }), "x"}, false, "gpus", 0, 0},
		{"the same number with another exit code", sending{with(func(a *Attempt) { a.Number = 3 }), "x"}, sending{with(func(a *Attempt) { a.Number, a.Exit = 3, code(0) }), "x"}, false, "exit_code", 0, 0},
		{"another user's job", sending{base, "x"}, sending{with(func(a *Attempt) { a.User = "bob" }), "y"}, false, "user", 0, 0},
		{"no user is no other user", sending{base, "x"}, sending{with(func(a *Attempt) { a.User = "" }), "y"}, false, "", 2, 1},
		{"a run id makes one attempt", sending{run1, "x"}, sending{run1, "x"}, true, "", 1, 1},
		{"another run id another", sending{run1, "x"}, sending{with(func(a *Attempt) { a.RunID = "s2" }), "x"}, false, "", 2, 1},
		{"a run id of another number", sending{with(func(a *Attempt) { a.RunID, a.Number = "s1", 1 }), "x"}, sending{with(func(a *Attempt) { a.RunID, a.Number = "s1", 2 }), "x"}, false, "attempt", 0, 0},
		{"a number of another run id", sending{with(func(a *Attempt) { a.RunID, a.Number = "s1", 1 }), "x"}, sending{with(func(a *Attempt) { a.RunID, a.Number = "s2", 1 }), "x"}, false, "run_id", 0, 0},
		{"the record after the log", sending{run1, "x"}, sending{record, ""}, true, "", 1, 1},
		{"the log after the record", sending{record, ""}, sending{run1, "x"}, true, "", 1, 1},
		{"the record after a log without run id", sending{base, "x"}, sending{record, ""}, true, "", 1, 1},
		{"a log without run id after the record", sending{record, ""}, sending{base, "x"}, true, "", 1, 1},
		{"a second log after record and log", sending{with(func(a *Attempt) { a.End = record.End }), "x"}, sending{base, "y"}, false, "", 2, 1},
		{"nodes in another order", sending{with(func(a *Attempt) { a.Number, a.Nodes = 1, []string{"a", "b"} }), "x"}, sending{with(func(a *Attempt) { a.Number, a.Nodes = 1, []string{"b", "a"} }), "x"}, true, "", 1, 1},
		{"a start after the kept end", sending{with(func(a *Attempt) { a.Number, a.End = 1, record.Start }), "x"}, sending{with(func(a *Attempt) { a.Number, a.Start = 1, record.End }), "x"}, false, "end", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, t.TempDir(), Options{NoIndex: true})
			send := func(s sending) (*Attempt, bool, error) {
				a := s.attempt
				var files []string
				if s.log != "" {
					files = []string{"", s.log}
				}
				existed, err := tryAdd(t, c, &a, files...)
				return &a, existed, err
			}
			if _, existed, err := send(tt.first); existed || err != nil {
				t.Fatalf("first: existed %v, %v", existed, err)
			}
			before, _ := c.History(t.Context(), "", "7")
			a, existed, err := send(tt.then)
			if tt.conflict != "" {
				var conflict *ConflictError
				if !errors.Is(err, ErrConflict) || !errors.As(err, &conflict) || conflict.Field != tt.conflict {
					t.Fatalf("got %v, want a conflict of %s", err, tt.conflict)
				}
				after, _ := c.History(t.Context(), "", "7")
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("the conflict changed what was kept (-before +after):\n%s", diff)
				}
				return
			}
			if err != nil || existed != tt.existed || a.Number != tt.number || len(a.Logs) != tt.logs {
				t.Fatalf("then: existed %v, number %d, %d logs, %v; want %v, %d, %d", existed, a.Number, len(a.Logs), err, tt.existed, tt.number, tt.logs)
			}
		})
	}
}

func TestLogAndRecordMeet(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	record := Attempt{Job: "9", RunID: "s1", User: "alice", GPUs: 2, Start: at("2026-12-01T10:00:00Z"), End: at("2026-12-01T11:00:00Z"),
		Verdict: classifier.Verdict{Category: "no-signature"}}
	first := add(t, c, record)
	log := add(t, c, Attempt{Job: "9", Exit: code(1), Verdict: oom(1)}, "", "torch.OutOfMemoryError: CUDA out of memory.\n")
	if log.ID != first.ID || log.RTFSeconds != 3600 || log.User != "alice" || *log.Code != 1 || log.Verdict.Category != "gpu-oom" {
		t.Errorf("the log did not complete its record: %+v", log)
	}
	again := add(t, c, record)
	if diff := cmp.Diff(log, again); diff != "" {
		t.Errorf("the record sent again changed the attempt (-before +after):\n%s", diff)
	}
	if p, err := c.Attempts(t.Context(), Filter{Categories: []string{"gpu-oom"}}); err != nil || p.Total != 1 {
		t.Errorf("by category: %d, %v; want 1", p.Total, err)
	}
}

func TestUserBecomesKnown(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	add(t, c, Attempt{Job: "1", Number: 1}, "", "a")
	if p, err := c.Attempts(t.Context(), Filter{Users: []string{"alice"}}); err != nil || p.Total != 0 {
		t.Fatalf("before: %d, %v", p.Total, err)
	}
	add(t, c, Attempt{Job: "1", Number: 2, User: "alice"}, "", "b")
	p, err := c.Attempts(t.Context(), Filter{Users: []string{"alice"}})
	if err != nil || p.Total != 2 || p.Attempts[1].User != "alice" {
		t.Errorf("after: %+v, %v; want both attempts", p, err)
	}
}

func TestAddRefuses(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	good := Attempt{Job: "1", Verdict: oom(0)}
	for _, tt := range []struct {
		field  string
		change func(*Attempt)
	}{
		{"job", func(a *Attempt) { a.Job = "" }},
		{"job", func(a *Attempt) { a.Job = "a\nb" }},
		{"job", func(a *Attempt) { a.Job = strings.Repeat("x", 2000) }},
		{"user", func(a *Attempt) { a.User = "\xff" }},
		{"attempt", func(a *Attempt) { a.Number = -1 }},
		{"gpus", func(a *Attempt) { a.GPUs = -1 }},
		{"exit_code", func(a *Attempt) { a.Exit = code(512) }},
		{"signal", func(a *Attempt) { a.Signal = -9 }},
		{"nodes", func(a *Attempt) { a.Nodes = []string{"a", ""} }},
		{"end", func(a *Attempt) { a.Start, a.End = at("2026-12-01T10:00:00Z"), at("2026-12-01T09:59:59Z") }},
		{"start", func(a *Attempt) { a.Start = &time.Time{} }},
		{"verdict", func(a *Attempt) { a.Verdict.Category = "" }},
	} {
		a := good
		tt.change(&a)
		var field *FieldError
		if _, err := c.Add(t.Context(), &a, nil); !errors.As(err, &field) || field.Field != tt.field {
			t.Errorf("%+v: got %v, want a FieldError of %s", a, err, tt.field)
		}
	}
	if s, err := c.Stats(t.Context()); err != nil || s.Attempts != 0 || s.Jobs != 0 {
		t.Errorf("kept %d attempts of %d jobs, %v; want none", s.Attempts, s.Jobs, err)
	}
}

func TestConcurrentAdds(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	const writers, each = 16, 20
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[int64]bool{}
	conflicts := 0
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				// Half are attempts of one job, whose numbers must come out without gap; one in each is a conflict.
				a := Attempt{Job: fmt.Sprintf("own-%d", w), Verdict: oom(0)}
				if i%2 == 0 {
					a.Job = "shared"
				}
				if i == 7 {
					a.Job, a.User = "owned", fmt.Sprint(w)
				}
				l := stage(t, c, logs("", fmt.Sprintf("log %d of %d\n", i, w)))
				_, err := c.Add(context.Background(), &a, l)
				mu.Lock()
				if errors.Is(err, ErrConflict) {
					conflicts++
				} else if err != nil {
					t.Errorf("adding: %v", err)
				} else {
					ids[a.ID] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if conflicts != writers-1 || len(ids) != writers*each-conflicts {
		t.Errorf("%d conflicts and %d ids; want %d and %d", conflicts, len(ids), writers-1, writers*each-writers+1)
	}
	history, err := c.History(t.Context(), "", "shared")
	if err != nil || len(history) != writers*each/2 {
		t.Fatalf("%d attempts of the shared job, %v; want %d", len(history), err, writers*each/2)
	}
	for i, a := range history {
		if a.Number != i+1 {
			t.Fatalf("attempt %d of the shared job has number %d", i+1, a.Number)
		}
	}
}

func TestAddAll(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	list := []*Attempt{
		{Job: "1", User: "alice", Verdict: oom(0)},
		{Job: "", Verdict: oom(0)},
		{Job: "1", User: "bob", Verdict: oom(0)},
		{Job: "1", User: "alice", GPUs: 2, Verdict: oom(0)},
		{Job: "1", User: "alice", Verdict: oom(0)},
	}
	got := c.AddAll(t.Context(), list)
	var field *FieldError
	if !errors.As(got[1].Err, &field) || !errors.Is(got[2].Err, ErrConflict) {
		t.Errorf("errors %v and %v; want a FieldError and a conflict", got[1].Err, got[2].Err)
	}
	for i, want := range map[int]Added{0: {}, 3: {}, 4: {Existed: true}} {
		if got[i] != want {
			t.Errorf("%d: %+v, want %+v", i, got[i], want)
		}
	}
	if list[3].Number != 2 || list[4].ID != list[0].ID || list[2].ID != 0 {
		t.Errorf("kept %+v", list)
	}
}

func TestNotFound(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	a := add(t, c, Attempt{Job: "1"}, "x", "text\n", "y", "text\n")
	_, err := c.Attempt(t.Context(), 99)
	_, err2 := c.Lines(t.Context(), a.ID, "z", 1, 2)
	_, err3 := c.Lines(t.Context(), a.ID, "", 1, 2) // two logs: which?
	for _, err := range []error{err, err2, err3, c.SetVerdict(t.Context(), 99, oom(0))} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	}
	if err := os.Remove(c.logPath(a.Logs[0].Digest)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lines(t.Context(), a.ID, "x", 1, 2); err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a log that is gone: %v; want an error that says it is missing", err)
	}
}

func TestSetVerdict(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	a := add(t, c, Attempt{Job: "1"}, "", "NCCL timeout\n")
	waitIndexed(t, c)
	v := classifier.Verdict{Category: "collective-timeout", Fault: rules.FaultUnknown, Retry: rules.RetryOnce, Rule: "nccl-timeout", Cascade: []classifier.Evidence{}}
	if err := c.SetVerdict(t.Context(), a.ID, v); err != nil {
		t.Fatal(err)
	}
	got, err := c.Attempt(t.Context(), a.ID)
	if diff := cmp.Diff(v, got.Verdict); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	waitIndexed(t, c)
	if h, err := c.Search(t.Context(), "category:collective-timeout", 0, ""); err != nil || h.Total != 1 {
		t.Errorf("search by the new category: %d, %v; want 1", h.Total, err)
	}
	if h, err := c.Search(t.Context(), "category:gpu-oom", 0, ""); err != nil || h.Total != 0 {
		t.Errorf("search by the old category: %d, %v; want 0", h.Total, err)
	}
}

func TestStats(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	add(t, c, Attempt{Job: "1"}, "a", "same\n", "b", "same\n", "c", "other")
	add(t, c, Attempt{Job: "1", Number: 2}, "", "same\n")
	waitIndexed(t, c)
	s, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.StoredBytes == 0 || s.DatabaseBytes == 0 || s.IndexBytes == 0 {
		t.Errorf("no sizes: %+v", s)
	}
	s.StoredBytes, s.DatabaseBytes, s.IndexBytes, s.Rebuilding = 0, 0, 0, false
	if diff := cmp.Diff(Stats{Attempts: 2, Jobs: 1, Logs: 2, LogBytes: 10}, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// waitIndexed waits until the index has read everything that is kept.
func waitIndexed(t testing.TB, c *Corpus) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); c.index.done.Load() < c.rev.Load(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the index is at %d of %d after 30 s", c.index.done.Load(), c.rev.Load())
		}
	}
}
