package corpus

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"culprit/classifier"
)

// TestHistories: each job once with all its attempts in order, over more jobs than are read at once, by the window of
// any of its attempts.
func TestHistories(t *testing.T) {
	c, err := Open(t.Context(), t.TempDir(), Options{NoIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	day := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	add := func(job string, number int, end time.Time) {
		a := Attempt{Job: job, Number: number, VC: "v", GPUs: 2, Start: new(end.Add(-time.Hour)), End: &end, Nodes: []string{"n1"},
			Verdict: classifier.Verdict{Category: "gpu-oom"}}
		if _, err := c.Add(t.Context(), &a, nil); err != nil {
			t.Fatal(err)
		}
	}
	const jobs = historyJobs + 7
	for i := range jobs {
		add(fmt.Sprint("job-", i), 1, day)
	}
	add("job-3", 3, day.AddDate(0, 0, 5))
	add("job-3", 2, day.AddDate(0, 0, 2))
	read := func(w Window) (n, attempts int, longest []classifier.Record) {
		for h, err := range c.Histories(t.Context(), w) {
			if err != nil {
				t.Fatal(err)
			}
			n, attempts = n+1, attempts+len(h)
			if len(h) > len(longest) {
				longest = h
			}
		}
		return n, attempts, longest
	}
	for _, tt := range []struct {
		name           string
		window         Window
		jobs, attempts int
	}{
		{"all", Window{}, jobs, jobs + 2},
		{"the end of the first attempts is included", Window{From: day}, jobs, jobs + 2},
		{"the window's end is not", Window{To: day}, 0, 0},
		{"after the first attempts", Window{From: day.Add(time.Second)}, 1, 3},
		{"only the last attempt", Window{From: day.AddDate(0, 0, 5), To: day.AddDate(0, 0, 6)}, 1, 3},
		{"after all", Window{From: day.AddDate(0, 1, 0)}, 0, 0},
	} {
		if n, attempts, _ := read(tt.window); n != tt.jobs || attempts != tt.attempts {
			t.Errorf("%s: %d jobs, %d attempts; want %d, %d", tt.name, n, attempts, tt.jobs, tt.attempts)
		}
	}
	_, _, longest := read(Window{})
	var numbers []int
	for _, r := range longest {
		numbers = append(numbers, r.Number)
		if r.VC != "v" || r.GPUSeconds != 7200 || r.Nodes[0] != "n1" || r.Verdict.Category != "gpu-oom" {
			t.Errorf("%+v", r)
		}
	}
	if diff := cmp.Diff([]int{1, 2, 3}, numbers); diff != "" {
		t.Errorf("attempts of job-3 (-want +got):\n%s", diff)
	}
	for range c.Histories(t.Context(), Window{}) {
		break // a reader that has seen enough
	}
}
