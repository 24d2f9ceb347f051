package corpus

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"culprit/classifier"
	"culprit/rules"
)

// ran is an attempt that ended at a time after so many seconds.
func ran(job, user string, gpus int, end string, seconds float64, category string, fault rules.Fault, nodes ...string) Attempt {
	e := at(end)
	s := e.Add(-time.Duration(seconds * float64(time.Second)))
	return Attempt{Job: job, User: user, GPUs: gpus, Start: &s, End: e, Nodes: nodes,
		Verdict: classifier.Verdict{Category: category, Title: "title of " + category, Fault: fault, Retry: rules.RetryOnce,
			Summary: "summary of " + category, Fingerprint: "fp-" + category, Cascade: []classifier.Evidence{}}}
}

func wasteCorpus(t *testing.T) *Corpus {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	add(t, c, ran("1", "alice", 1, "2026-11-30T23:30:00Z", 100, "gpu-oom", rules.FaultUser, "n1"))
	add(t, c, ran("1", "alice", 1, "2026-12-01T00:00:00Z", 200, "gpu-oom", rules.FaultUser, "n1"))
	add(t, c, ran("2", "alice", 4, "2026-12-01T12:00:00Z", 300, "gpu-oom", rules.FaultUser, "n2"))
	add(t, c, ran("3", "bob", 8, "2026-12-06T23:59:59Z", 1000, "gpu-hardware", rules.FaultInfrastructure, "n1", "n2", "n3"))
	add(t, c, ran("4", "bob", 2, "2026-12-07T00:00:00Z", 50, "none", rules.FaultUnknown, "n3"))
	unknown := ran("5", "", 8, "2026-12-31T23:59:59.999Z", 1, "no-signature", rules.FaultUnknown)
	unknown.Start = nil
	add(t, c, unknown)
	return c
}

func TestWaste(t *testing.T) {
	c := wasteCorpus(t)
	r, err := c.Waste(t.Context(), Filter{}, ByCategory)
	if err != nil {
		t.Fatal(err)
	}
	const gpu, rtf = 8000 + 1500, 1600
	want := Report{By: ByCategory, Groups: 3, Rows: []WasteRow{
		{Key: "gpu-hardware", Title: "title of gpu-hardware", Fault: "infrastructure", Attempts: 1, Jobs: 1, Users: 1, RTFp50: 1000, RTFp90: 1000, RTFp95: 1000,
			RTFTotal: 1000, RTFShare: 1000. / rtf, GPUOver4: 1, GPUSeconds: 8000, GPUShare: 8000. / gpu},
		{Key: "gpu-oom", Title: "title of gpu-oom", Fault: "user", Attempts: 3, Jobs: 2, Users: 1, RTFp50: 200, RTFp90: 300, RTFp95: 300,
			RTFTotal: 600, RTFShare: 600. / rtf, GPU1: 2, GPU2to4: 1, GPUSeconds: 1500, GPUShare: 1500. / gpu},
		{Key: "no-signature", Title: "title of no-signature", Fault: "unknown", Attempts: 1, Jobs: 1, GPUOver4: 1},
	}, Total: WasteRow{Fault: "user", Attempts: 5, Jobs: 4, Users: 2, RTFp50: 200, RTFp90: 1000, RTFp95: 1000, RTFTotal: rtf, RTFShare: 1,
		GPU1: 2, GPU2to4: 1, GPUOver4: 2, GPUSeconds: gpu, GPUShare: 1}}
	if diff := gocmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// keys are the rows' keys with their attempts.
func keys(r Report) string {
	s := ""
	for _, row := range r.Rows {
		s += fmt.Sprintf("%s:%d ", row.Key, row.Attempts)
	}
	return s
}

func TestWasteGroupings(t *testing.T) {
	c := wasteCorpus(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		by     Grouping
		filter Filter
		want   string
	}{
		{ByFault, Filter{}, "infrastructure:1 user:3 unknown:1 "},
		{ByUser, Filter{}, "bob:1 alice:3 :1 "},
		{ByUser, Filter{Jobs: []string{"1", "3", "x"}}, "bob:1 alice:2 "},
		{ByUser, Filter{Jobs: []string{"x"}}, ""},
		{ByUser, Filter{Outcome: OutcomeAll}, "bob:2 alice:3 :1 "},
		{ByUser, Filter{Outcome: OutcomePassed}, "bob:1 "},
		{ByUser, Filter{Limit: 1}, "bob:1 "},
		{ByNode, Filter{}, "n2:2 n1:3 n3:1 :1 "},
		{ByNode, Filter{Nodes: []string{"n3"}}, "n1:1 n2:1 n3:1 "},
		{ByMonth, Filter{}, "2026-11:1 2026-12:4 "},
		{ByMonth, Filter{Zone: berlin}, "2026-12:4 2027-01:1 "},
		{ByWeek, Filter{}, "2026-W49:4 2026-W53:1 "},
		{ByDay, Filter{}, "2026-11-30:1 2026-12-01:2 2026-12-06:1 2026-12-31:1 "},
		{ByDay, Filter{Zone: berlin}, "2026-12-01:3 2026-12-07:1 2027-01-01:1 "},
		{ByHour, Filter{Users: []string{"alice"}}, "2026-11-30T23:00Z:1 2026-12-01T00:00Z:1 2026-12-01T12:00Z:1 "},
		{ByCategory, Filter{Window: Window{From: *at("2026-12-01T00:00:00Z"), To: *at("2026-12-01T12:00:00Z")}}, "gpu-oom:1 "},
		{ByCategory, Filter{Window: Window{From: *at("2027-01-01T00:00:00Z")}}, ""},
		{ByCategory, Filter{MinGPUs: 5}, "gpu-hardware:1 no-signature:1 "},
		{ByCategory, Filter{Faults: []string{"user", "unknown"}, Users: []string{"alice", "nobody"}}, "gpu-oom:3 "},
		{ByFingerprint, Filter{}, "fp-gpu-hardware:1 fp-gpu-oom:3 fp-no-signature:1 "},
		{ByRetry, Filter{}, "once:5 "},
		{ByVC, Filter{}, ":5 "}, {ByGPUType, Filter{}, ":5 "}, {ByRule, Filter{}, ":5 "}, {ByCluster, Filter{}, ":5 "},
	} {
		r, err := c.Waste(t.Context(), tt.filter, tt.by)
		if err != nil || keys(r) != tt.want {
			t.Errorf("by %s %+v: %q, %v; want %q", tt.by, tt.filter, keys(r), err, tt.want)
		}
	}
	r, err := c.Waste(t.Context(), Filter{}, ByNode)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, row := range r.Rows {
		sum += row.GPUSeconds
	}
	if math.Abs(sum-r.Total.GPUSeconds) > 1e-9 {
		t.Errorf("nodes add up to %v GPU seconds, the total is %v", sum, r.Total.GPUSeconds)
	}
	r, err = c.Waste(t.Context(), Filter{}, ByFingerprint)
	if err != nil || r.Rows[0].Title != "summary of gpu-hardware" {
		t.Errorf("a fingerprint's title: %q, %v", r.Rows[0].Title, err)
	}
	var field *FieldError
	if _, err := c.Waste(t.Context(), Filter{}, "weather"); !errors.As(err, &field) || field.Field != "by" {
		t.Errorf("an unknown grouping: %v", err)
	}
}

// The hour that comes twice when summer time ends is two rows, in order.
func TestHourThatComesTwice(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	for i, end := range []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"} {
		add(t, c, ran(fmt.Sprint(i), "u", 1, end, 10, "gpu-oom", rules.FaultUser))
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Waste(t.Context(), Filter{Zone: berlin}, ByHour)
	want := "2026-10-25T02:00+02:00:1 2026-10-25T02:00+01:00:1 2026-10-25T03:00+01:00:1 "
	if err != nil || keys(r) != want {
		t.Errorf("%q, %v; want %q", keys(r), err, want)
	}
}

func TestPercentile(t *testing.T) {
	for _, tt := range []struct {
		n, p int
		want float64
	}{
		{0, 50, 0}, {1, 50, 1}, {1, 95, 1}, {2, 50, 1}, {2, 90, 2}, {10, 50, 5}, {10, 90, 9}, {10, 95, 10}, {100, 95, 95}, {101, 95, 96},
	} {
		var list []int64
		for i := range tt.n {
			list = append(list, int64(i+1)*1000)
		}
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if got := percentile(list, tt.p); got != tt.want {
			t.Errorf("percentile %d of 1..%d = %v, want %v", tt.p, tt.n, got, tt.want)
		}
	}
}

func TestNth(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 300 {
		list := make([]int64, 1+rng.IntN(500))
		for i := range list {
			list[i] = rng.Int64N(1 + rng.Int64N(1000))
		}
		sorted := slices.Sorted(slices.Values(list))
		for range 5 {
			if n := rng.IntN(len(list)); nth(list, n) != sorted[n] {
				t.Fatalf("nth %d of %v = %d, want %d", n, sorted, nth(list, n), sorted[n])
			}
		}
	}
}

// What a report says of many attempts is what counting them one by one says.
func TestWasteAgainstCounting(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	rng := rand.New(rand.NewPCG(3, 4))
	fill(t, c, 3000, rng)
	page, err := c.Attempts(t.Context(), Filter{Limit: 1000})
	all := page.Attempts
	for err == nil && page.Next != "" {
		page, err = c.Attempts(t.Context(), Filter{Limit: 1000, Cursor: page.Next})
		all = append(all, page.Attempts...)
	}
	if err != nil || len(all) != 3000 {
		t.Fatalf("%d attempts, %v", len(all), err)
	}
	key := map[Grouping]func(Attempt) string{
		ByCategory: func(a Attempt) string { return a.Verdict.Category },
		ByUser:     func(a Attempt) string { return a.User },
		ByDay:      func(a Attempt) string { return a.End.Format("2006-01-02") },
		ByRule:     func(a Attempt) string { return a.Verdict.Rule },
	}
	for by, of := range key {
		type count struct {
			attempts    int
			jobs, users map[string]bool
			rtf         []float64
			gpu         float64
		}
		counts := map[string]*count{}
		for _, a := range all {
			if a.Verdict.Category == "none" {
				continue
			}
			n := counts[of(a)]
			if n == nil {
				n = &count{jobs: map[string]bool{}, users: map[string]bool{}}
				counts[of(a)] = n
			}
			n.attempts++
			n.jobs[a.Job], n.users[a.User] = true, true
			n.rtf = append(n.rtf, a.RTFSeconds)
			n.gpu += a.GPUSeconds
		}
		r, err := c.Waste(t.Context(), Filter{}, by)
		if err != nil || len(r.Rows) != len(counts) {
			t.Fatalf("by %s: %d rows, %v; want %d", by, len(r.Rows), err, len(counts))
		}
		for _, row := range r.Rows {
			n := counts[row.Key]
			slices.Sort(n.rtf)
			p90 := n.rtf[int(math.Ceil(0.9*float64(len(n.rtf))))-1]
			if row.Attempts != n.attempts || row.Jobs != len(n.jobs) || row.Users != len(n.users) || row.RTFp90 != p90 || math.Abs(row.GPUSeconds-n.gpu) > 1e-6*n.gpu {
				t.Errorf("by %s %q: %+v; counted %d attempts, %d jobs, %d users, p90 %v, %v GPU s", by, row.Key, row, n.attempts, len(n.jobs), len(n.users), p90, n.gpu)
			}
		}
	}
}

func TestAttemptsPages(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	fill(t, c, 500, rand.New(rand.NewPCG(5, 6)))
	for _, order := range []string{"", "end", "-id", "id", "-gpu_s", "rtf_s"} {
		var got []Attempt
		cursor := ""
		for n := 0; n == 0 || cursor != ""; n++ {
			p, err := c.Attempts(t.Context(), Filter{Sort: order, Limit: 37, Cursor: cursor, VCs: []string{"vc-1", "vc-2", "vc-3"}})
			if err != nil || n > 50 {
				t.Fatal(order, n, err)
			}
			if n > 0 && int64(len(got)) >= p.Total {
				t.Fatalf("%s: more pages than attempts", order)
			}
			got = append(got, p.Attempts...)
			cursor = p.Next
		}
		key := func(a Attempt) float64 {
			switch order {
			case "", "end":
				return float64(a.End.UnixMilli())
			case "-gpu_s":
				return a.GPUSeconds
			case "rtf_s":
				return a.RTFSeconds
			}
			return float64(a.ID)
		}
		sorted := slices.IsSortedFunc(got, func(a, b Attempt) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.ID, b.ID)) })
		if order == "" || order[0] == '-' {
			sorted = slices.IsSortedFunc(got, func(a, b Attempt) int { return -cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.ID, b.ID)) })
		}
		seen := map[int64]bool{}
		for _, a := range got {
			seen[a.ID] = true
		}
		if !sorted || len(seen) != len(got) || len(got) < 10 {
			t.Errorf("order %q: %d attempts, %d different, sorted %v", order, len(got), len(seen), sorted)
		}
	}
	for _, bad := range []Filter{{Sort: "user"}, {Limit: -1}, {Limit: 5000}, {Cursor: "x"}, {Outcome: "lost"}} {
		var field *FieldError
		if _, err := c.Attempts(t.Context(), bad); !errors.As(err, &field) {
			t.Errorf("%+v: %v, want a FieldError", bad, err)
		}
	}
	p, err := c.Attempts(t.Context(), Filter{Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	var field *FieldError
	if _, err := c.Attempts(t.Context(), Filter{Sort: "id", Cursor: p.Next}); !errors.As(err, &field) || field.Field != "cursor" {
		t.Errorf("the cursor of another order: %v", err)
	}
}

// fill adds n records of a made-up cluster.
func fill(t testing.TB, c *Corpus, n int, rng *rand.Rand) {
	t.Helper()
	categories := []string{"cpu-oom", "incorrect-inputs", "semantic-error", "core-dump", "gpu-oom", "traceback", "none", "collective-timeout", "gpu-hardware", "no-signature"}
	faults := []rules.Fault{rules.FaultUser, rules.FaultInfrastructure, rules.FaultUnknown}
	start := *at("2026-10-01T00:00:00Z")
	var list []*Attempt
	for i := range n {
		cat := rng.IntN(len(categories))
		begin := start.Add(time.Duration(rng.Int64N(int64(60 * 24 * time.Hour))).Truncate(time.Second))
		end := begin.Add(time.Duration(math.Exp(rng.Float64()*12)*1000) * time.Millisecond)
		nodes := []string{fmt.Sprintf("node-%d", rng.IntN(400))}
		gpus := []int{1, 1, 2, 4, 8, 16}[rng.IntN(6)]
		if gpus == 16 {
			nodes = append(nodes, nodes[0]+"b")
		}
		job := i * 7 / 10
		list = append(list, &Attempt{Job: fmt.Sprint(job), VC: fmt.Sprintf("vc-%d", job%14), User: fmt.Sprintf("user-%d", job%350), GPUs: gpus, Nodes: nodes,
			Start: &begin, End: &end, RunID: fmt.Sprint(i), Exit: code(1), Verdict: classifier.Verdict{Category: categories[cat], Title: categories[cat],
				Fault: faults[cat%3], Retry: rules.RetryOnce, Rule: fmt.Sprintf("rule-%d", rng.IntN(230)),
				Fingerprint: fmt.Sprintf("%012x", rng.IntN(20_000)), Cascade: []classifier.Evidence{}}})
		if len(list) < 1000 && i < n-1 {
			continue
		}
		for i, added := range c.AddAll(t.Context(), list) {
			if added.Err != nil || added.Existed || list[i].ID == 0 {
				t.Fatalf("%+v: %+v", list[i], added)
			}
		}
		list = list[:0]
	}
}

// The file of facts makes no difference but time: whole, older than the database, newer, damaged, or not there.
func TestFactsFile(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(8, 8))
	c := open(t, dir, Options{NoIndex: true})
	fill(t, c, 2*saveAtClose, rng)
	want := wasteBy(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(c.factsPath())
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, reads bool) {
		t.Helper()
		r := open(t, dir, Options{NoIndex: true, ReadOnly: true})
		if got := r.readFactsFile(r.rev.Load()) != nil; got != reads {
			t.Errorf("%s: used is %v, want %v", name, got, reads)
		}
		if diff := gocmp.Diff(want, wasteBy(t, r)); diff != "" {
			t.Errorf("%s: other reports (-want +got):\n%s", name, diff)
		}
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(c.factsPath(), b, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	check("whole", true)
	for _, n := range []int{0, 5, factsHeader, len(whole) / 2, len(whole) - 1} {
		write(whole[:n])
		check(fmt.Sprintf("cut at %d", n), false)
	}
	for range 20 {
		damaged := slices.Clone(whole)
		damaged[rng.IntN(len(damaged))] ^= 1
		write(damaged)
		check("damaged", false)
	}
	write(whole)
	c = open(t, dir, Options{NoIndex: true})
	if err := c.SetVerdict(t.Context(), 5, classifier.Verdict{Category: "none"}); err != nil {
		t.Fatal(err)
	}
	add(t, c, ran("later", "zoe", 64, "2026-12-01T12:00:00Z", 300, "gpu-oom", rules.FaultUser, "n2"))
	want = wasteBy(t, c)
	check("older", true)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	ahead := facts{rev: 1 << 40}
	ahead.of("")
	write(ahead.encode())
	check("newer", false)
	c = open(t, dir, Options{NoIndex: true})
	if _, err := os.Stat(c.factsPath()); err == nil {
		t.Error("a file of facts that is ahead of the database is still there after Open")
	}
}

func wasteBy(t *testing.T, c *Corpus) map[Grouping]Report {
	t.Helper()
	all := map[Grouping]Report{}
	for _, by := range Groupings {
		r, err := c.Waste(t.Context(), Filter{}, by)
		if err != nil {
			t.Fatal(err)
		}
		all[by] = r
	}
	return all
}

// What follows rev must read what has changed and not the whole table.
func TestChangesAreReadByIndex(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	fill(t, c, 100, rand.New(rand.NewPCG(1, 1)))
	for query, args := range map[string][]any{
		"SELECT " + factColumns + " FROM attempt a JOIN job j ON j.id = a.job_id WHERE " + changedFacts: {1},
		changedAttempts: {1, 1},
	} {
		rows, err := c.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		var id, parent, unused int
		var step string
		if !rows.Next() {
			t.Fatal("no plan")
		}
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil || !strings.Contains(step, "attempt_by_rev") {
			t.Errorf("%s\nis done by %q, %v; want the index attempt_by_rev", query, step, err)
		}
		rows.Close()
	}
}
