package corpus

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"culprit/rules"
)

func TestCorrections(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	right, wrong, unsaid := add(t, c, Attempt{Job: "1"}), add(t, c, Attempt{Job: "2"}), add(t, c, Attempt{Job: "3"})
	correct := func(k Correction) {
		t.Helper()
		if err := c.Correct(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	correct(Correction{Attempt: right.ID, Category: "cpu-oom", Fault: "user"})
	correct(Correction{Attempt: right.ID, Category: "gpu-oom", Fault: "user", Who: "alice"}) // on second thoughts
	correct(Correction{Attempt: wrong.ID, Category: "xid", Fault: "infrastructure", Why: "the kernel log\nsays so"})

	want := &Correction{Attempt: wrong.ID, Category: "xid", Fault: "infrastructure", Why: "the kernel log\nsays so"}
	got, err := c.Correction(t.Context(), wrong.ID)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Correction{}, "At")); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got.Agrees(wrong) {
		t.Errorf("%+v agrees with %+v", got, wrong.Verdict)
	}
	if got, err := c.Correction(t.Context(), unsaid.ID); got != nil || err != nil {
		t.Errorf("of nothing said: %v, %v", got, err)
	}
	accuracy, err := c.Accuracy(t.Context())
	if diff := cmp.Diff(map[string]Accuracy{"torch-cuda-oom": {Right: 1, Wrong: 1}}, accuracy); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := c.Withdraw(t.Context(), wrong.ID); err != nil {
		t.Fatal(err)
	}
	if accuracy, err := c.Accuracy(t.Context()); err != nil || accuracy["torch-cuda-oom"].Share() != 1 {
		t.Errorf("after withdrawing: %v, %v", accuracy, err)
	}
	kept, err := c.Attempt(t.Context(), right.ID)
	if err != nil || kept.Verdict.Category != "gpu-oom" {
		t.Errorf("the verdict became %v, %v", kept.Verdict, err)
	}
}

func TestCorrectRefuses(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	a := add(t, c, Attempt{Job: "1"})
	for _, k := range []Correction{
		{Attempt: a.ID, Category: "gpu-oom"},
		{Attempt: a.ID, Fault: "user"},
		{Attempt: a.ID, Category: "gpu-oom", Fault: "mine"},
		{Attempt: a.ID, Category: "gpu-oom", Fault: "user", Why: strings.Repeat("x", maxNote+1)},
		{Attempt: a.ID, Category: "gpu-oom", Fault: "user", Who: "a\x1bb"},
	} {
		var field *FieldError
		if err := c.Correct(t.Context(), k); !errors.As(err, &field) {
			t.Errorf("%+.60v: %v, want a FieldError", k, err)
		}
	}
	if err := c.Correct(t.Context(), Correction{Attempt: a.ID + 1, Category: "gpu-oom", Fault: "user"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such attempt: %v, want ErrNotFound", err)
	}
}

// TestKinds: two kinds of failure, of which one is narrowed by the filter, and its first time is outside of it.
func TestKinds(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	other := oom(0)
	other.Category, other.Fault, other.Rule, other.Summary, other.Fingerprint = "xid", rules.FaultInfrastructure, "xid-79", "GPU 3 fell off the bus", "ffffffffffff"
	for _, a := range []Attempt{
		{Job: "1", User: "alice", GPUs: 2, Nodes: []string{"a", "b"}, Start: at("2026-11-01T00:00:00Z"), End: at("2026-11-01T01:00:00Z")},
		{Job: "2", User: "bob", GPUs: 4, Nodes: []string{"b", "c"}, Start: at("2026-11-03T00:00:00Z"), End: at("2026-11-03T01:00:00Z")},
		{Job: "2", User: "bob", GPUs: 4, Nodes: []string{"c"}, Start: at("2026-11-05T00:00:00Z"), End: at("2026-11-05T01:00:00Z")},
		{Job: "3", User: "bob", GPUs: 1, Start: at("2026-11-04T00:00:00Z"), End: at("2026-11-04T01:00:00Z"), Verdict: other},
	} {
		add(t, c, a)
	}
	got, total, err := c.Kinds(t.Context(), Filter{Window: Window{From: *at("2026-11-02T00:00:00Z")}}, "", nil)
	if err != nil || total != 2 {
		t.Fatalf("%d kinds, %v, want 2", total, err)
	}
	first := make([]int, sparkParts)
	first[0], first[sparkParts-1] = 1, 1
	want := Kind{Fingerprint: "5b1c0f6a9e2d", Summary: "rank 3 ran out of GPU memory", Category: "gpu-oom", Title: "GPU out of memory", Fault: "user",
		Rule: "torch-cuda-oom", Latest: 3, First: *at("2026-11-01T01:00:00Z"), Last: *at("2026-11-05T01:00:00Z"), Attempts: 2, Jobs: 1, Users: 1, Nodes: 2,
		GPUSeconds: 8 * 3600, Spark: first, State: KindKnown}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, _, err := c.Kinds(t.Context(), Filter{}, "last_seen", nil); err != nil || got[0].Fingerprint != "5b1c0f6a9e2d" || got[1].Fingerprint != "ffffffffffff" {
		t.Errorf("by last seen: %v, %v", got, err)
	}
	if _, err := c.Kind(t.Context(), "000000000000"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such fingerprint: %v, want ErrNotFound", err)
	}
	if _, _, err := c.Kinds(t.Context(), Filter{}, "colour", nil); err == nil {
		t.Error("sorted by colour")
	}
}

func TestKindStates(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	ended := time.Now().Add(-time.Hour)
	add(t, c, Attempt{Job: "1", End: &ended})
	state := func() KindState {
		t.Helper()
		k, err := c.Kind(t.Context(), "5b1c0f6a9e2d")
		if err != nil {
			t.Fatal(err)
		}
		return k.State
	}
	note := func(n Note) {
		t.Helper()
		if err := c.SetNote(t.Context(), "5b1c0f6a9e2d", n); err != nil {
			t.Fatal(err)
		}
	}
	if got := state(); got != KindNew {
		t.Errorf("at first it is %s", got)
	}
	now := time.Now()
	note(Note{Text: "fixed in the image", Ticket: "https://tickets.example/1", Resolved: &now})
	if got := state(); got != KindResolved {
		t.Errorf("resolved, it is %s", got)
	}
	later := now.Add(time.Hour)
	add(t, c, Attempt{Job: "2", End: &later})
	if got := state(); got != KindReturned {
		t.Errorf("seen again, it is %s", got)
	}
	if list, total, err := c.Kinds(t.Context(), Filter{}, "", []KindState{KindNew, KindKnown}); err != nil || total != 0 {
		t.Errorf("of other states: %v, %v", list, err)
	}
	for _, bad := range []Note{{Ticket: "javascript:alert(1)"}, {Ticket: "JIRA-1"}, {Text: strings.Repeat("x", maxNote+1)}} {
		var field *FieldError
		if err := c.SetNote(t.Context(), "5b1c0f6a9e2d", bad); !errors.As(err, &field) {
			t.Errorf("%+.60v: %v, want a FieldError", bad, err)
		}
	}
}

func TestOverTime(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	if s, err := c.OverTime(t.Context(), Filter{}, 10); err != nil || len(s.Parts) != 0 {
		t.Errorf("of nothing: %v, %v", s, err)
	}
	add(t, c, Attempt{Job: "1", GPUs: 2, Start: at("2026-11-01T00:00:00Z"), End: at("2026-11-01T01:00:00Z")})
	add(t, c, Attempt{Job: "2", GPUs: 2, Start: at("2026-11-09T00:00:00Z"), End: at("2026-11-09T23:00:00Z")})
	for _, test := range []struct {
		most, parts int
		step        time.Duration
	}{{500, 215, time.Hour}, {10, 9, 24 * time.Hour}, {4, 3, 7 * 24 * time.Hour}} {
		s, err := c.OverTime(t.Context(), Filter{}, test.most)
		if err != nil || len(s.Parts) != test.parts || s.Step != test.step {
			t.Errorf("at most %d: %d parts of %v, %v, want %d of %v", test.most, len(s.Parts), s.Step, err, test.parts, test.step)
			continue
		}
		if first, last := s.Parts[0].GPUSeconds["user"], s.Parts[len(s.Parts)-1].GPUSeconds["user"]; first != 7200 || last != 2*23*3600 {
			t.Errorf("at most %d: the ends are %v and %v", test.most, first, last)
		}
	}
}
