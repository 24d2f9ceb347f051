package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"culprit/classifier"
	"culprit/rules"
)

// classifierOf makes a classifier of one rule a line: id, category, literal.
func classifierOf(t testing.TB, lines ...string) *classifier.Classifier {
	t.Helper()
	var pack strings.Builder
	for _, line := range lines {
		f := strings.SplitN(line, " ", 3)
		fmt.Fprintf(&pack, "- id: %s\n  category: %s\n  role: cause\n  literals: [%q]\n  summary: \"it said %s\"\n  advice: \"Mend it.\"\n  source: test\n", f[0], f[1], f[2], f[2])
	}
	set, err := rules.Load(fstest.MapFS{"test.yaml": {Data: []byte(pack.String())}})
	if err != nil {
		t.Fatal(err)
	}
	return classifier.New(set)
}

// keep adds an attempt with the verdict of a classifier.
func keep(t testing.TB, c *Corpus, cl *classifier.Classifier, job, text string) Attempt {
	t.Helper()
	exit := code(1)
	v, err := cl.Classify(t.Context(), exit, logs("", text))
	if err != nil {
		t.Fatal(err)
	}
	return add(t, c, Attempt{Job: job, Exit: exit, Verdict: v}, "", text)
}

// pass runs a pass to its end.
func pass(t testing.TB, c *Corpus, cl *classifier.Classifier, opt PassOptions) Pass {
	t.Helper()
	if _, err := c.StartPass(t.Context(), cl, opt); err != nil {
		t.Fatal(err)
	}
	return ended(t, c)
}

func ended(t testing.TB, c *Corpus) Pass {
	t.Helper()
	if err := c.WaitPass(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := c.LastPass(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReclassify(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	before, after := classifierOf(t, "old-oom gpu-oom memory gone", "old-io disk-full disk gone"), classifierOf(t, "old-oom gpu-oom memory gone", "new-io storage-error disk gone")
	same := keep(t, c, before, "same", "step 1\nmemory gone now\n")
	moved := keep(t, c, before, "moved", "step 1\ndisk gone now\n")
	bare := add(t, c, Attempt{Job: "bare", Exit: code(1), Verdict: classify(t, before, code(1))})
	damaged := keep(t, c, before, "damaged", "disk gone, and the file too\n")
	if err := os.Remove(c.logPath(damaged.Logs[0].Digest)); err != nil {
		t.Fatal(err)
	}
	revOf := func(id int64) (rev int64) {
		if err := c.read.QueryRow("SELECT rev FROM attempt WHERE id = ?", id).Scan(&rev); err != nil {
			t.Fatal(err)
		}
		return rev
	}
	rev := revOf(same.ID)

	wantMoves := []Move{{"disk-full", "storage-error", 1}}
	dry := pass(t, c, after, PassOptions{DryRun: true})
	if dry.State != PassDone || dry.Total != 4 || dry.Done != 4 || dry.Failed != 1 || dry.Moved != 1 || !dry.DryRun || cmp.Diff(wantMoves, dry.Moves) != "" {
		t.Errorf("dry run: %+v", dry)
	}
	if a, _ := c.Attempt(t.Context(), moved.ID); a.Verdict.Category != "disk-full" {
		t.Errorf("a dry run made the verdict %s", a.Verdict.Category)
	}

	p := pass(t, c, after, PassOptions{})
	if p.State != PassDone || p.Done != 4 || p.Failed != 1 || p.Bytes != same.Logs[0].Bytes+moved.Logs[0].Bytes || p.Ended == nil || cmp.Diff(wantMoves, p.Moves) != "" {
		t.Errorf("pass: %+v", p)
	}
	list, err := c.MovedBy(t.Context(), p.ID, 0, 10)
	want := []Moved{{moved.ID, "", "moved", 1, saidOf(&moved.Verdict), Said{"storage-error", "infrastructure", "once", "new-io"}}}
	if len(list) == 1 { // fault and retry are the taxonomy's
		want[0].To.Fault, want[0].To.Retry = list[0].To.Fault, list[0].To.Retry
	}
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Errorf("moved (-want +got), %v:\n%s", err, diff)
	}
	for id, category := range map[int64]string{same.ID: "gpu-oom", moved.ID: "storage-error", bare.ID: bare.Verdict.Category, damaged.ID: "disk-full"} {
		a, err := c.Attempt(t.Context(), id)
		if err != nil || a.Verdict.Category != category || id != damaged.ID && a.Verdict.RulesVersion != after.Rules().Version() {
			t.Errorf("attempt %s: %s by rules %s, %v; want %s by %s", a.Job, a.Verdict.Category, a.Verdict.RulesVersion, err, category, after.Rules().Version())
		}
	}
	if got := revOf(same.ID); got != rev {
		t.Errorf("an attempt with the same verdict got rev %d after %d: the index would read it again for nothing", got, rev)
	}
	if n := searched(t, c, "category:storage-error"); n != 1 {
		t.Errorf("search finds %d attempts with the new category, want 1", n)
	}

	if p := pass(t, c, after, PassOptions{}); p.Total != 1 || p.Moved != 0 {
		t.Errorf("the same rules again: %+v, want only the one that failed", p)
	}
	if p := pass(t, c, after, PassOptions{All: true}); p.Total != 4 || p.Moved != 0 {
		t.Errorf("all again: %+v, want 4 and none moved", p)
	}
}

func classify(t testing.TB, cl *classifier.Classifier, exit classifier.Exit) classifier.Verdict {
	t.Helper()
	v, err := cl.Classify(t.Context(), exit, logs())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// searched waits for the index and returns how many attempts a search finds.
func searched(t testing.TB, c *Corpus, query string) int64 {
	t.Helper()
	for range 500 {
		found, err := c.Search(t.Context(), query, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		if found.Unindexed == 0 {
			return found.Total
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the index does not catch up")
	return 0
}

// TestPassGoesOn holds that a pass that was paused, or cut off with its process, goes on where it was and ends with
// every attempt read once.
func TestPassGoesOn(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, Options{NoIndex: true})
	before, after := classifierOf(t, "old-io disk-full disk gone"), classifierOf(t, "new-io storage-error disk gone")
	const attempts = 2*passAttempts + 50
	for i := range attempts {
		keep(t, c, before, fmt.Sprint(i), "disk gone\n")
	}
	if _, err := c.PausePass(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("pausing without a pass: %v, want ErrNotFound", err)
	}
	if _, err := c.StartPass(t.Context(), after, PassOptions{}); err != nil {
		t.Fatal(err)
	}
	p, err := c.PausePass(t.Context())
	if err != nil || p.State != PassPaused {
		t.Fatalf("paused: %+v, %v", p, err)
	}
	var conflict *ConflictError
	if _, err := c.StartPass(t.Context(), after, PassOptions{}); !errors.As(err, &conflict) {
		t.Errorf("starting beside a paused pass: %v, want a conflict", err)
	}
	// A batch by hand, then the end of the process with the pass still running.
	if err := c.setPassState(t.Context(), p.ID, PassRunning); err != nil {
		t.Fatal(err)
	}
	list, err := c.nextReadings(t.Context(), p)
	if err != nil || p.Done == 0 && len(list) != passAttempts {
		t.Fatalf("%d readings, %v", len(list), err)
	}
	if err := c.readAgain(t.Context(), after, p, list); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	c = open(t, dir, Options{NoIndex: true})
	cut, err := c.LastPass(t.Context())
	if err != nil || cut.State != PassRunning || cut.position != list[len(list)-1].id || cut.Done != p.Done+int64(len(list)) {
		t.Fatalf("after the restart: %+v, %v; want it running at %d", cut, err, list[len(list)-1].id)
	}
	if err := c.ContinuePass(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	p = ended(t, c)
	if p.State != PassDone || p.Done != attempts || p.Total != attempts && p.Total != 0 || p.Moved != attempts {
		t.Errorf("at the end: %+v, want %d done and moved", p, attempts)
	}
	if _, err := c.ResumePass(t.Context(), after); !errors.As(err, &conflict) {
		t.Errorf("resuming a pass that is done: %v, want a conflict", err)
	}
}

// TestPassAfterNewRules holds that a pass by rules that are no longer in use is not gone on with.
func TestPassAfterNewRules(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	first, second, third := classifierOf(t, "a disk-full disk gone"), classifierOf(t, "b disk-full disk gone"), classifierOf(t, "c disk-full disk gone")
	a := keep(t, c, first, "1", "disk gone\n")
	p, err := c.StartPass(t.Context(), second, PassOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitPass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.commit(context.Background(), func(b *batch) error {
		_, err := b.exec("UPDATE pass SET state = 'running', ended = NULL WHERE id = ?", p.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ResumePass(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	last := ended(t, c)
	if last.ID == p.ID || last.RulesVersion != third.Rules().Version() || !last.All || last.State != PassDone {
		t.Errorf("the pass after new rules: %+v, want a new one by %s", last, third.Rules().Version())
	}
	if got, _ := c.Attempt(t.Context(), a.ID); got.Verdict.Rule != "c" {
		t.Errorf("the verdict is by rule %s, want c", got.Verdict.Rule)
	}
	if _, err := c.CancelPass(t.Context()); err == nil {
		t.Error("a pass that is done was cancelled")
	}
}

// TestPassSeesChanges holds that an attempt that changes while it is read again is read once more.
func TestPassSeesChanges(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	before, after := classifierOf(t, "old-io disk-full disk gone"), classifierOf(t, "new-io storage-error disk gone")
	a := keep(t, c, before, "1", "disk gone\n")
	if _, err := c.StartPass(t.Context(), after, PassOptions{}); err != nil {
		t.Fatal(err)
	}
	p := ended(t, c)
	list := []*reading{{id: a.ID}}
	if err := c.classifyAll(t.Context(), after, list); err != nil {
		t.Fatal(err)
	}
	if err := c.SetVerdict(t.Context(), a.ID, oom(0)); err != nil {
		t.Fatal(err)
	}
	var stale []*reading
	if err := c.commit(t.Context(), func(b *batch) (err error) { stale, err = b.stale(list); return err }); err != nil || len(stale) != 1 {
		t.Fatalf("%d stale readings, %v; want 1", len(stale), err)
	}
	p.All = true
	if err := c.readAgain(t.Context(), after, p, list); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Attempt(t.Context(), a.ID); got.Verdict.Category != "storage-error" {
		t.Errorf("the verdict is %s, want storage-error", got.Verdict.Category)
	}
}
