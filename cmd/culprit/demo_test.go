package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"culprit/corpus"
	"culprit/corpus/trace"
	"culprit/rules"
)

// truth is what a naive count of the simulated runs says of one category.
type truth struct {
	Attempts, Jobs, Users, GPU1, GPU2to4, GPUOver4 int
	P50, P90, P95, RTF, GPUSeconds                 float64
}

// count counts runs of one category in the plainest way.
func countRuns(runs []trace.SimulatedRun) truth {
	var t truth
	jobs, users := map[string]bool{}, map[string]bool{}
	var rtf []float64
	for _, r := range runs {
		a := r.Attempt
		s := a.End.Sub(*a.Start).Seconds()
		t.Attempts++
		jobs[a.Job], users[a.User] = true, true
		switch {
		case a.GPUs == 1:
			t.GPU1++
		case a.GPUs <= 4:
			t.GPU2to4++
		default:
			t.GPUOver4++
		}
		rtf = append(rtf, s)
		t.RTF += s
		t.GPUSeconds += s * float64(a.GPUs)
	}
	slices.Sort(rtf)
	at := func(p float64) float64 { // the smallest that at least p of all do not exceed
		for i := range rtf {
			if float64(i+1) >= p*float64(len(rtf)) {
				return rtf[i]
			}
		}
		return 0
	}
	t.Jobs, t.Users, t.P50, t.P90, t.P95 = len(jobs), len(users), at(0.50), at(0.90), at(0.95)
	return t
}

func ofRow(r corpus.WasteRow) truth {
	return truth{r.Attempts, r.Jobs, r.Users, r.GPU1, r.GPU2to4, r.GPUOver4, r.RTFp50, r.RTFp90, r.RTFp95, r.RTFTotal, r.GPUSeconds}
}

// TestDemo: the report over a simulated cluster is what is true of it, exactly, and running it again changes nothing.
func TestDemo(t *testing.T) {
	data := t.TempDir() + "/demo"
	for range 2 {
		if code, out, problems := command(t, "", "demo", "--data", data, "--jobs", "1500", "--seed", "7"); code != exitOK || !strings.Contains(out, "simulated 1500 jobs") {
			t.Fatalf("demo exits %d: %s%s", code, out, problems)
		}
	}
	runs := map[string][]trace.SimulatedRun{}
	var failed []trace.SimulatedRun
	last, gpu := map[string]string{}, map[string]float64{}
	for run, err := range (trace.Simulation{Jobs: 1500, Seed: 7}).Runs() {
		if err != nil {
			t.Fatal(err)
		}
		a := run.Attempt
		runs[run.Category] = append(runs[run.Category], run)
		if run.Category != rules.CategoryNone {
			failed = append(failed, run)
		}
		last[a.Job] = run.Category
		gpu[a.Job] += a.End.Sub(*a.Start).Seconds() * float64(a.GPUs)
	}

	code, out, problems := command(t, "", "report", "--data", data, "--format", "json")
	var report corpus.Report
	if err := json.Unmarshal([]byte(out), &report); code != exitOK || err != nil {
		t.Fatalf("report exits %d: %v %s", code, err, problems)
	}
	if !strings.Contains(problems, "simulated") {
		t.Errorf("the report does not say that the cluster is simulated: %q", problems)
	}
	if diff := cmp.Diff(countRuns(failed), ofRow(report.Total)); diff != "" {
		t.Errorf("total (-true +reported): %s", diff)
	}
	for _, row := range report.Rows {
		if diff := cmp.Diff(countRuns(runs[row.Key]), ofRow(row)); diff != "" {
			t.Errorf("%s (-true +reported): %s", row.Key, diff)
		}
	}
	if len(report.Rows) != len(runs)-1 {
		t.Errorf("the report has %d categories, want %d", len(report.Rows), len(runs)-1)
	}
	checkPaper(t, data, runs, last, gpu)
}

func checkPaper(t *testing.T, data string, runs map[string][]trace.SimulatedRun, last map[string]string, gpu map[string]float64) {
	t.Helper()
	code, out, problems := command(t, "", "report", "--data", data, "--paper", "--format", "json")
	var paper corpus.Paper
	if err := json.Unmarshal([]byte(out), &paper); code != exitOK || err != nil {
		t.Fatalf("report --paper exits %d: %v %s", code, err, problems)
	}
	jobs, seconds := map[string]int{}, map[string]float64{}
	for job, category := range last {
		outcome := map[string]string{"none": "passed", "cancelled": "killed"}[category]
		if outcome == "" {
			outcome = "unsuccessful"
		}
		for _, o := range []string{outcome, "total"} {
			jobs[o]++
			seconds[o] += gpu[job]
		}
	}
	for _, r := range paper.Outcomes {
		if r.Jobs != jobs[r.Outcome] || r.GPUSeconds != seconds[r.Outcome] {
			t.Errorf("Table 6, %s: %d jobs, %.0f GPU seconds, want %d, %.0f", r.Outcome, r.Jobs, r.GPUSeconds, jobs[r.Outcome], seconds[r.Outcome])
		}
	}
	for _, r := range paper.Reasons {
		if diff := cmp.Diff(countRuns(runs[r.Key]), ofRow(r.WasteRow)); diff != "" {
			t.Errorf("Table 7, %s (-true +reported): %s", r.Key, diff)
		}
	}
	_, text, _ := command(t, "", "report", "--data", data, "--paper")
	for _, want := range []string{"Table 6", "Table 7", "96260", "CPU out of memory", "12076", "30.36%", "6.62%"} {
		if !strings.Contains(text, want) {
			t.Errorf("report --paper does not print %q:\n%s", want, text)
		}
	}
}

func TestDemoRefuses(t *testing.T) {
	real := t.TempDir()
	if code, _, problems := command(t, "job,exit_code\n1,1\n", "import", "csv", "--data", real, "-"); code != exitOK {
		t.Fatal(problems)
	}
	if code, _, problems := command(t, "", "demo", "--data", real, "--jobs", "5"); code != exitFail || !strings.Contains(problems, "real attempts") {
		t.Errorf("demo into a corpus of real attempts exits %d: %s", code, problems)
	}
	data := t.TempDir()
	command(t, "", "demo", "--data", data, "--jobs", "5")
	if code, _, problems := command(t, "", "demo", "--data", data, "--jobs", "6"); code != exitFail || !strings.Contains(problems, "5 jobs") {
		t.Errorf("another demo into the same folder exits %d: %s", code, problems)
	}
	for _, args := range [][]string{{"demo"}, {"demo", "--data", data, "--jobs", "0"}, {"report", "--data", data, "--paper", "--format", "csv"}} {
		if code, _, _ := command(t, "", args...); code != exitUsage {
			t.Errorf("culprit %s exits %d, want %d", strings.Join(args, " "), code, exitUsage)
		}
	}
}

// TestReportNodes: only nodes that were simulated as bad are suspects.
func TestReportNodes(t *testing.T) {
	data := t.TempDir() + "/demo"
	if code, _, problems := command(t, "", "demo", "--data", data, "--jobs", "6000", "--seed", "3"); code != exitOK {
		t.Fatal(problems)
	}
	code, out, problems := command(t, "", "report", "--data", data, "--nodes", "--format", "json")
	var report corpus.NodeReport
	if err := json.Unmarshal([]byte(out), &report); code != exitOK || err != nil {
		t.Fatalf("report --nodes exits %d: %v %s", code, err, problems)
	}
	var suspects []string
	for _, n := range report.Nodes {
		if n.Suspect {
			suspects = append(suspects, n.Node)
		}
	}
	// A month of a small cluster is not enough to be sure of all four.
	if len(suspects) < 2 || slices.ContainsFunc(suspects, func(n string) bool { return !slices.Contains(trace.BadNodes, n) }) {
		t.Errorf("suspects %q, want two at least of %q and no others", suspects, trace.BadNodes)
	}
	_, text, _ := command(t, "", "report", "--data", data, "--nodes")
	for _, want := range []string{"sbatch --exclude=gpu-r", "kubectl taint nodes gpu-r", "* gpu-r03-n5", "95% interval"} {
		if !strings.Contains(text, want) {
			t.Errorf("report --nodes does not print %q:\n%s", want, text)
		}
	}
	_, text, _ = command(t, "", "report", "--data", data, "--repetition")
	for _, want := range []string{"failed as the attempt before", "first minute", "last checkpoint", "per user", "user-000"} {
		if !strings.Contains(text, want) {
			t.Errorf("report --repetition does not print %q:\n%s", want, text)
		}
	}
	for _, args := range [][]string{{"--nodes", "--paper"}, {"--nodes", "--format", "csv"}, {"--repetition", "--format", "csv"}} {
		if code, _, problems := command(t, "", append([]string{"report", "--data", data}, args...)...); code == exitOK {
			t.Errorf("report %v exits 0: %s", args, problems)
		}
	}
}
