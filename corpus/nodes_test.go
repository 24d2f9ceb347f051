package corpus

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"culprit/classifier"
)

// TestPoisson holds the distribution against tabulated values.
func TestPoisson(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 0.001*max(1, math.Abs(b)) }
	for _, tt := range []struct{ k, mean, p float64 }{{1, 1, 0.6321}, {3, 1, 0.0803}, {10, 3, 0.0011}, {5, 20, 1.0000}, {100, 90, 0.1582}} {
		if got := gammaP(tt.k, tt.mean); !near(got, tt.p) {
			t.Errorf("the chance of %g or more of mean %g: %.4f, want %.4f", tt.k, tt.mean, got, tt.p)
		}
	}
	for _, tt := range []struct{ k, low, high float64 }{{0, 0, 3.689}, {1, 0.0253, 5.572}, {5, 1.623, 11.668}, {10, 4.795, 18.390}, {100, 81.36, 121.63}} {
		if low, high := poissonInterval(tt.k); !near(low, tt.low) || !near(high, tt.high) {
			t.Errorf("interval of %g: %.4f to %.4f, want %.4f to %.4f", tt.k, low, high, tt.low, tt.high)
		}
	}
}

// addRuns adds attempts that each run an hour.
func addRuns(t *testing.T, c *Corpus, runs []Attempt) {
	t.Helper()
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	list := make([]*Attempt, len(runs))
	for i := range runs {
		a := &runs[i]
		if a.Start == nil {
			a.Start, a.End = new(start.Add(time.Duration(i)*time.Minute)), new(start.Add(time.Duration(i)*time.Minute+time.Hour))
		}
		list[i] = a
	}
	for i, r := range c.AddAll(t.Context(), list) {
		if r.Err != nil {
			t.Fatalf("attempt %d: %v", i, r.Err)
		}
	}
}

func emptyCorpus(t *testing.T) *Corpus {
	t.Helper()
	c, err := Open(t.Context(), t.TempDir(), Options{NoIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestNodes: of ten nodes with 20 hours each, one fails six times, one six times for the same job, one by its users.
func TestNodes(t *testing.T) {
	c := emptyCorpus(t)
	ok := classifier.Verdict{Category: "none"}
	infra := func(node string) classifier.Verdict {
		v := classifier.Verdict{Category: "gpu-hardware", Fault: "infrastructure"}
		if node != "" {
			v.Root = &classifier.Evidence{Node: node}
		}
		return v
	}
	var runs []Attempt
	for n := range 10 {
		for i := range 20 {
			a := Attempt{Job: fmt.Sprintf("%d-%d", n, i), Number: 1, User: fmt.Sprint("u", i%4), GPUs: 8, Nodes: []string{fmt.Sprint("n", n)}, Verdict: ok}
			switch {
			case i >= 6:
			case n == 1:
				a.Verdict = infra("")
			case n == 2:
				a.Job, a.Number, a.User = "loop", i+1, "eve"
				a.Verdict = infra("")
			case n == 3:
				a.Verdict = classifier.Verdict{Category: "gpu-oom", Fault: "user"}
			case n == 4:
				a.Verdict = classifier.Verdict{Category: "job-preempted", Fault: "infrastructure"}
			}
			runs = append(runs, a)
		}
	}
	// On four nodes: one names the culprit with its domain, one does not.
	runs = append(runs, Attempt{Job: "wide", Number: 1, GPUs: 32, Nodes: []string{"n5", "n6", "n7", "n8"}, Verdict: infra("n6.cluster")},
		Attempt{Job: "wide", Number: 2, GPUs: 32, Nodes: []string{"n5", "n6", "n7", "n8"}, Verdict: infra("elsewhere")})
	addRuns(t, c, runs)
	report, err := c.Nodes(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]NodeRow{}
	var suspects []string
	for _, r := range report.Nodes {
		rows[r.Node] = r
		if r.Suspect {
			suspects = append(suspects, r.Node)
		}
	}
	if diff := cmp.Diff([]string{"n1"}, suspects); diff != "" {
		t.Errorf("suspects: %s", diff)
	}
	for node, want := range map[string][3]float64{"n0": {20, 0, 0}, "n1": {20, 6, 6}, "n2": {20, 6, 6}, "n3": {20, 6, 0}, "n4": {20, 6, 0}, "n5": {22, 2, 0.25}, "n6": {22, 2, 1.25}} {
		r := rows[node]
		if got := [3]float64{r.Hours, float64(r.Failed), r.Charged}; got != want {
			t.Errorf("%s: hours, failures and charged failures %v, want %v", node, got, want)
		}
	}
	r := rows["n1"]
	// The other nodes have 8 charged failures in 188 hours, so 20 hours let expect 0.85 of them.
	if math.Abs(r.Expected-8*20.0/188) > 1e-9 || r.Rate != 300 || r.Jobs != 6 || r.Users != 4 || len(r.Latest) != 5 || !cmp.Equal(r.Reasons, []Reason{{"gpu-hardware", 6}}) {
		t.Errorf("n1: %+v, want 8*20/188 expected, a rate of 300 and its evidence", r)
	}
	if r.RateLow <= report.Rate || r.RateHigh < 300 {
		t.Errorf("n1: interval %.1f to %.1f, want one over the cluster's %.1f around 300", r.RateLow, r.RateHigh, report.Rate)
	}
}

func TestNodesOfNothing(t *testing.T) {
	c := emptyCorpus(t)
	report, err := c.Nodes(t.Context(), Filter{})
	if err != nil || report.Nodes == nil || len(report.Nodes) != 0 || report.Rate != 0 {
		t.Errorf("nodes of an empty corpus: %+v, %v", report, err)
	}
	addRuns(t, c, []Attempt{{Job: "1", Verdict: classifier.Verdict{Category: "gpu-hardware", Fault: "infrastructure"}, Nodes: []string{"n1"}}})
	if report, err = c.Nodes(t.Context(), Filter{}); err != nil || len(report.Nodes) != 1 || report.Nodes[0].P != 1 || report.Nodes[0].Suspect {
		t.Errorf("one node and one failure: %+v, %v; there is nothing to compare it with", report, err)
	}
}

// TestRepetition works out by hand what two jobs lost. Every attempt runs an hour on 8 GPUs but one of 30 s.
func TestRepetition(t *testing.T) {
	c := emptyCorpus(t)
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	verdict := func(category, print string, step, checkpoint int64) classifier.Verdict {
		v := classifier.Verdict{Category: category, Fingerprint: print}
		if step > 0 {
			v.Progress.Step = &step
		}
		if checkpoint > 0 {
			v.Progress.CheckpointStep = &checkpoint
		}
		return v
	}
	addRuns(t, c, []Attempt{
		{Job: "1", Number: 1, User: "ada", GPUs: 8, Submitted: new(start.Add(-time.Hour)), Verdict: verdict("gpu-oom", "a", 1000, 750)},
		{Job: "1", Number: 2, User: "ada", GPUs: 8, Verdict: verdict("gpu-oom", "a", 1000, 0)},
		{Job: "1", Number: 3, User: "ada", GPUs: 8, Verdict: verdict("gpu-oom", "b", 0, 0)},
		{Job: "1", Number: 4, User: "ada", GPUs: 8, Verdict: verdict("none", "", 0, 0)},
		{Job: "2", Number: 1, User: "bob", GPUs: 8, Start: &start, End: new(start.Add(30 * time.Second)), Verdict: verdict("gpu-oom", "a", 0, 0)},
		{Job: "2", Number: 2, User: "bob", GPUs: 8, Verdict: verdict("no-signature", "s", 0, 0)},
		{Job: "2", Number: 3, User: "bob", GPUs: 8, Verdict: verdict("no-signature", "s", 0, 0)},
		{Job: "2", Number: 4, User: "bob", GPUs: 8, Verdict: verdict("cancelled", "c", 0, 0)},
	})
	got, err := c.Repetition(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	const hour = 8 * 3600
	if got.GPUSeconds != 5*hour+240 || got.Repeats.Attempts != 1 || got.Repeats.GPUSeconds != hour || got.Minute.Attempts != 1 || got.Minute.GPUSeconds != 240 {
		t.Errorf("totals %+v, want 5 hours and 30 s on 8 GPUs, one repeat, one failure in the first minute", got)
	}
	if got.Lost.Attempts != 2 || got.Lost.GPUSeconds != 1.25*hour || got.Lost.OfGPUSeconds != 2*hour || got.ToFailure != 2*3600 {
		t.Errorf("lost %+v of which the median first failure came after %g s, want 1.25 of 2 hours and 7200 s", got.Lost, got.ToFailure)
	}
	var rows []string
	for _, r := range got.Rows {
		rows = append(rows, fmt.Sprint(r.Category, " ", r.Attempts, " ", r.PerJob, " ", r.PerUser, " ", r.Repeats.Attempts))
	}
	if diff := cmp.Diff([]string{"gpu-oom 4 2 2 1", "no-signature 2 2 2 0"}, rows); diff != "" {
		t.Error(diff)
	}
	if len(got.Users) != 1 || got.Users[0].User != "ada" || got.Users[0].Attempts != 3 {
		t.Errorf("users %+v, want ada alone, with 3 attempts", got.Users)
	}
}

// TestPaperRollsUp: later categories are counted under the paper's reasons, cancelled attempts under none.
func TestPaperRollsUp(t *testing.T) {
	c := emptyCorpus(t)
	v := func(category string) classifier.Verdict { return classifier.Verdict{Category: category} }
	addRuns(t, c, []Attempt{
		{Job: "1", Number: 1, GPUs: 1, Verdict: v("collective-timeout")},
		{Job: "1", Number: 2, GPUs: 1, Verdict: v("mpi-runtime-failure")},
		{Job: "1", Number: 3, GPUs: 1, Verdict: v("none")},
		{Job: "2", Number: 1, GPUs: 2, Verdict: v("shared-memory")},
		{Job: "3", Number: 1, GPUs: 4, Verdict: v("cancelled")},
	})
	p, err := c.Paper(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range p.Outcomes {
		got = append(got, fmt.Sprintf("%s %d %g", r.Outcome, r.Jobs, r.GPUSeconds/3600))
	}
	for _, r := range append(p.Reasons, p.Total) {
		if r.Attempts > 0 {
			got = append(got, fmt.Sprint(r.Key, " ", r.Attempts, " ", r.GPUSeconds/3600, " ", r.Includes))
		}
	}
	want := []string{"passed 1 3", "killed 1 4", "unsuccessful 1 2", "total 3 9",
		"cpu-oom 1 2 map[shared-memory:1]", "mpi-runtime-failure 2 2 map[collective-timeout:1]", " 3 4 map[]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(p.Reasons) != 22 || p.Reasons[0].Key != "cpu-oom" || p.Reasons[21].Key != "no-signature" || p.Total.PaperTrials != 39776 {
		t.Errorf("%d reasons from %s to %s with %d trials, want the paper's 22 in their order", len(p.Reasons), p.Reasons[0].Key, p.Reasons[21].Key, p.Total.PaperTrials)
	}
}

func TestSimulatedMark(t *testing.T) {
	c := emptyCorpus(t)
	if s, err := c.Simulated(); s != nil || err != nil {
		t.Errorf("an empty corpus: %v, %v", s, err)
	}
	mark := Simulated{Jobs: 5, Seed: 7}
	for range 2 {
		if err := c.MarkSimulated(mark); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := c.Simulated(); err != nil || s == nil || *s != mark {
		t.Errorf("marked: %v, %v, want %v", s, err, mark)
	}
	if err := c.MarkSimulated(Simulated{Jobs: 6}); err == nil {
		t.Error("marked as two simulations")
	}
}
