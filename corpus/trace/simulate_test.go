package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"culprit/rules"
)

// TestSimulationMix: the cluster has the paper's jobs and failed attempts, exactly, and its shares of GPU time, about.
func TestSimulationMix(t *testing.T) {
	taxonomy, err := rules.DefaultTaxonomy()
	if err != nil {
		t.Fatal(err)
	}
	trials := map[string]int{}
	last := map[string]string{}
	gpu := map[string]float64{}
	ofJob := map[string]float64{}
	for run, err := range (Simulation{Seed: 1}).Runs() {
		if err != nil {
			t.Fatal(err)
		}
		a := &run.Attempt
		if a.Number == 1 && last[a.Job] != "" || a.Submitted != nil && a.Start.Before(*a.Submitted) || !a.End.After(*a.Start) {
			t.Fatalf("a run out of order: %+v", a)
		}
		trials[run.Category]++
		last[a.Job] = run.Category
		ofJob[a.Job] += a.End.Sub(*a.Start).Seconds() * float64(a.GPUs)
	}
	jobs := map[string]int{}
	for job, category := range last {
		outcome := "unsuccessful"
		if category == "none" || category == "cancelled" {
			outcome = category
		}
		jobs[outcome]++
		gpu[outcome] += ofJob[job]
	}
	if diff := cmp.Diff(map[string]int{"none": paperPassed, "cancelled": paperKilled, "unsuccessful": paperUnsuccessful}, jobs); diff != "" {
		t.Error("jobs by outcome:", diff)
	}
	for _, c := range taxonomy.Categories {
		if c.Trials > 0 && trials[c.ID] != c.Trials {
			t.Errorf("%d failed attempts of %s, want %d", trials[c.ID], c.ID, c.Trials)
		}
	}
	total := gpu["none"] + gpu["cancelled"] + gpu["unsuccessful"]
	for outcome, want := range map[string]float64{"none": paperPassedGPU, "cancelled": paperKilledGPU, "unsuccessful": paperUnsuccessfulGPU} {
		if got := gpu[outcome] / total; got < want-0.05 || got > want+0.05 {
			t.Errorf("share of GPU time of %s: %.3f, want about %.3f", outcome, got, want)
		}
	}
}

// TestSimulationIsSeeded: the same seed gives the same runs, another one others, and any number of jobs works.
func TestSimulationIsSeeded(t *testing.T) {
	list := func(s Simulation) []string {
		var list []string
		for run, err := range s.Runs() {
			list = append(list, line(run.Record, err)+" "+run.Category)
		}
		return list
	}
	first := list(Simulation{Jobs: 200, Seed: 1})
	if diff := cmp.Diff(first, list(Simulation{Jobs: 200, Seed: 1})); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(first, list(Simulation{Jobs: 200, Seed: 2})) {
		t.Error("seeds 1 and 2 give the same cluster")
	}
	for _, jobs := range []int{1, 2, 5, 30} {
		seen := map[string]bool{}
		for run, err := range (Simulation{Jobs: jobs}).Runs() {
			if err != nil {
				t.Fatal(err)
			}
			seen[run.Attempt.Job] = true
		}
		if len(seen) != jobs {
			t.Errorf("a cluster of %d jobs has %d", jobs, len(seen))
		}
	}
}
