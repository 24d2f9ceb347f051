package corpus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"culprit/rules"
)

// Waste reports where the runtime and GPU time of the attempts that pass the filter went; of failed ones, unless
// filter.Outcome says otherwise.
//
// Rows come by GPU time, the most first, then by RTF and key; hours, days, weeks and months in their order. By node an
// attempt counts once for each of its nodes and its GPU time is split evenly among them, so that GPU time adds up to the
// total, while attempts and RTF do not. GPU time is summed in whole milliseconds and exact.
func (c *Corpus) Waste(ctx context.Context, filter Filter, by Grouping) (Report, error) {
	if !slices.Contains(Groupings, by) {
		return Report{}, invalid("by", "%q is not one of %s", by, joined(Groupings))
	}
	if _, err := newOrder(Filter{Outcome: filter.Outcome}); err != nil {
		return Report{}, err
	}
	jobs, err := c.jobsOf(ctx, &filter)
	if err != nil {
		return Report{}, err
	}
	f, err := c.current(ctx)
	if err != nil {
		return Report{}, err
	}
	groups := f.group(&filter, jobs, by)
	f.mu.RUnlock()
	rows, total := groups.rows(by)

	report := Report{By: by, From: timePtr(filter.Window.From), To: timePtr(filter.Window.To), Groups: len(rows), Total: total}
	if filter.Limit > 0 && len(rows) > filter.Limit {
		rows = rows[:filter.Limit]
	}
	if err := c.nameRows(ctx, rows, by); err != nil {
		return Report{}, err
	}
	report.Rows = make([]WasteRow, len(rows))
	for i := range rows {
		report.Rows[i] = rows[i].WasteRow
	}
	return report, nil
}

func joined(list []Grouping) string {
	var b strings.Builder
	for i, g := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(g))
	}
	return b.String()
}

func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// groups are what has been counted of each group, and the samples that remain to be counted group by group.
type groups struct {
	keys    []string
	tallies []tally // by group
	of      []uint32
	samples []sample // of group of[i]
	total   tally
	all     []sample // each attempt once
	jobs    uint32   // over every sample's
	users   int      // likewise
}

// tally is what adds up.
type tally struct {
	attempts             int
	gpu1, gpu2to4, over4 int
	rtf, gpu             int64 // milliseconds
	faults               [3]int
	latest               int64 // id of the last attempt that was kept
	began                int64 // the earliest end
}

// sample is what does not: it is counted when its group is together.
type sample struct {
	rtf  int64 // -1 where unknown
	job  uint32
	user term
}

func (t *tally) add(r *fact, gpuTime int64, fault int) {
	t.attempts++
	switch {
	case r.gpus <= 1:
		t.gpu1++
	case r.gpus <= 4:
		t.gpu2to4++
	default:
		t.over4++
	}
	t.rtf += max(r.rtf, 0)
	t.gpu += gpuTime
	t.faults[fault]++
	t.latest = max(t.latest, r.id)
	if t.began == 0 || r.ended < t.began {
		t.began = r.ended
	}
}

// sides are the faults by their number in a tally.
var sides = [3]string{string(rules.FaultUser), string(rules.FaultInfrastructure), string(rules.FaultUnknown)}

// sideOf returns the number of a fault.
func (f *facts) sideOf() func(term) int {
	var number [3]term
	for i, s := range sides {
		number[i] = f.number[s]
	}
	return func(t term) int {
		for i, n := range number {
			if t == n {
				return i
			}
		}
		return len(sides) - 1
	}
}

// group counts the attempts that pass the filter.
func (f *facts) group(filter *Filter, jobs map[uint32]bool, by Grouping) *groups {
	g := &groups{users: len(f.text)}
	matches, side := f.matcher(filter, jobs, cmp.Or(filter.Outcome, OutcomeFailed)), f.sideOf()
	key := f.keyer(g, by, filter.Zone)
	nodes := f.nodeKeyer(g)
	for i := range f.list {
		r := &f.list[i]
		if !matches(r) {
			continue
		}
		s, time, fault := sample{r.rtf, r.job, r.user}, r.gpuTime(), side(r.fault)
		g.all = append(g.all, s)
		g.total.add(r, time, fault)
		g.jobs = max(g.jobs, r.job+1)
		if by != ByNode {
			n := key(r)
			g.at(n).add(r, time, fault)
			g.of = append(g.of, n)
			continue
		}
		list := nodes(r.nodes)
		for i, n := range list {
			left := int64(len(list) - i)
			share := (time + left - 1) / left // so that the parts add up to the whole
			time -= share
			g.at(n).add(r, share, fault)
			g.of, g.samples = append(g.of, n), append(g.samples, s)
		}
	}
	if by != ByNode {
		g.samples = g.all
	}
	return g
}

// at returns the tally of a group.
func (g *groups) at(n uint32) *tally {
	for int(n) >= len(g.tallies) {
		g.tallies = append(g.tallies, tally{})
	}
	return &g.tallies[n]
}

// nodeKeyer returns a function that gives the groups of a list of nodes, at least one; a node named twice counts once.
func (f *facts) nodeKeyer(g *groups) func(term) []uint32 {
	number, known := map[string]uint32{}, make([][]uint32, len(f.text))
	return func(nodes term) []uint32 {
		if known[nodes] != nil {
			return known[nodes]
		}
		names := f.nodesOf(nodes)
		if len(names) == 0 {
			names = []string{""}
		}
		var list []uint32
		for _, name := range names {
			n, ok := number[name]
			if !ok {
				n = uint32(len(g.keys))
				number[name], g.keys = n, append(g.keys, name)
			}
			if !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
		known[nodes] = list
		return list
	}
}

// place returns the samples in the order of their groups, and where each group begins.
func (g *groups) place() (placed []sample, first []int) {
	first = make([]int, len(g.keys)+1)
	for n := range g.tallies {
		first[n+1] = first[n] + g.tallies[n].attempts
	}
	next := slices.Clone(first)
	placed = make([]sample, len(g.samples))
	for i, s := range g.samples {
		n := g.of[i]
		placed[next[n]] = s
		next[n]++
	}
	return placed, first
}

// keyer returns a function that gives the group of an attempt, and names the groups as they come up.
func (f *facts) keyer(g *groups, by Grouping, zone *time.Location) func(*fact) uint32 {
	if field := termOf(by); field != nil {
		group := make([]uint32, len(f.text)) // group + 1 by term
		return func(r *fact) uint32 {
			t := field(r)
			if group[t] == 0 {
				g.keys = append(g.keys, f.text[t])
				group[t] = uint32(len(g.keys))
			}
			return group[t] - 1
		}
	}
	if zone == nil {
		zone = time.UTC
	}
	// Every zone is off UTC by whole quarters of an hour (since 1972), so a period is looked up by its quarter.
	const quarter = 15 * 60 * 1000
	quarters, keys := map[int64]uint32{}, map[string]uint32{}
	return func(r *fact) uint32 {
		q := r.ended / quarter
		n, ok := quarters[q]
		if !ok {
			key := period(by, time.UnixMilli(q*quarter).In(zone))
			if n, ok = keys[key]; !ok {
				n = uint32(len(g.keys))
				g.keys = append(g.keys, key)
				keys[key] = n
			}
			quarters[q] = n
		}
		return n
	}
}

// termOf returns the field of a grouping, nil for periods of time.
func termOf(by Grouping) func(*fact) term {
	return map[Grouping]func(*fact) term{
		ByCategory:    func(r *fact) term { return r.category },
		ByFault:       func(r *fact) term { return r.fault },
		ByRetry:       func(r *fact) term { return r.retry },
		ByUser:        func(r *fact) term { return r.user },
		ByVC:          func(r *fact) term { return r.vc },
		ByGPUType:     func(r *fact) term { return r.gpuType },
		ByRule:        func(r *fact) term { return r.rule },
		ByFingerprint: func(r *fact) term { return r.print },
		ByCluster:     func(r *fact) term { return r.cluster },
	}[by]
}

func isPeriod(by Grouping) bool {
	return by == ByHour || by == ByDay || by == ByWeek || by == ByMonth
}

// period names the hour, day, ISO week or month that t is in; the names sort as the periods do. An hour is named with
// its offset, since the hour that comes twice in autumn is two.
func period(by Grouping, t time.Time) string {
	switch by {
	case ByHour:
		return t.Format("2006-01-02T15:00Z07:00")
	case ByDay:
		return t.Format("2006-01-02")
	case ByWeek:
		year, week := t.ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, week)
	}
	return t.Format("2006-01")
}

// row is a row of the report with what it is sorted and named by.
type row struct {
	WasteRow
	*tally
}

// rows returns the rows of all groups, sorted, and the row of all attempts.
func (g *groups) rows(by Grouping) ([]row, WasteRow) {
	samples, first := g.place()
	rows := make([]row, len(g.keys))
	var total row
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			c := &counter{jobs: make([]uint32, g.jobs), users: make([]uint32, g.users)}
			for {
				switch i := int(next.Add(1)) - 2; {
				case i < 0: // the longest work comes first
					total = c.row(&g.total, g.all, &g.total)
				case i < len(rows):
					rows[i] = c.row(&g.tallies[i], samples[first[i]:first[i+1]], &g.total)
					rows[i].Key = g.keys[i]
				default:
					return
				}
			}
		})
	}
	wg.Wait()
	slices.SortFunc(rows, rowOrder(by))
	return rows, total.WasteRow
}

func rowOrder(by Grouping) func(a, b row) int {
	if isPeriod(by) {
		return func(a, b row) int { return cmp.Compare(a.began, b.began) }
	}
	return func(a, b row) int {
		return cmp.Or(-cmp.Compare(a.gpu, b.gpu), -cmp.Compare(a.rtf, b.rtf), -cmp.Compare(a.Attempts, b.Attempts), cmp.Compare(a.Key, b.Key))
	}
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// counter counts distinct jobs and users: what has been seen carries the number of the round.
type counter struct {
	round       uint32
	jobs, users []uint32
	rtf         []int64 // scratch
}

// row makes a row of what was added up and of its samples.
func (c *counter) row(t *tally, samples []sample, total *tally) row {
	r := WasteRow{Attempts: t.attempts, GPU1: t.gpu1, GPU2to4: t.gpu2to4, GPUOver4: t.over4, Fault: t.fault(),
		RTFTotal: seconds(t.rtf), RTFShare: share(t.rtf, total.rtf), GPUSeconds: seconds(t.gpu), GPUShare: share(t.gpu, total.gpu)}
	c.round++
	c.rtf = c.rtf[:0]
	for _, s := range samples {
		if c.jobs[s.job] != c.round {
			c.jobs[s.job] = c.round
			r.Jobs++
		}
		if s.user != 0 && c.users[s.user] != c.round {
			c.users[s.user] = c.round
			r.Users++
		}
		if s.rtf >= 0 {
			c.rtf = append(c.rtf, s.rtf)
		}
	}
	r.RTFp50, r.RTFp90, r.RTFp95 = percentile(c.rtf, 50), percentile(c.rtf, 90), percentile(c.rtf, 95)
	return row{r, t}
}

// fault returns the fault of most of the attempts.
func (t *tally) fault() string {
	most := 0
	for i, n := range t.faults {
		if n > t.faults[most] {
			most = i
		}
	}
	if t.faults[most] == 0 {
		return ""
	}
	return sides[most]
}

// percentile returns the p-th percentile of milliseconds in seconds, by nearest rank: the smallest value that at least
// p percent of them do not exceed. It is 0 for none. It changes the order of the list.
func percentile(list []int64, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	return seconds(nth(list, (len(list)*p+99)/100-1))
}

// nth returns what would be at index n if the list were sorted. It moves values so that those before n are not greater,
// those after not smaller.
func nth(list []int64, n int) int64 {
	low, high := 0, len(list)-1
	for rounds := 0; high-low > 32; rounds++ {
		if rounds > 64 { // values against which the choice of a pivot fails
			break
		}
		i, j := low, high
		pivot := median(list[low], list[(low+high)/2], list[high])
		for i <= j {
			for list[i] < pivot {
				i++
			}
			for list[j] > pivot {
				j--
			}
			if i <= j {
				list[i], list[j] = list[j], list[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			high = j
		case n >= i:
			low = i
		default:
			return list[n]
		}
	}
	slices.Sort(list[low : high+1])
	return list[n]
}

func median(a, b, c int64) int64 {
	return max(min(a, b), min(max(a, b), c))
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// maxTitles bounds for how many rows titles are looked up.
const maxTitles = 1000

// nameRows gives the rows of categories their titles, and of fingerprints and rules a summary, from the latest verdict.
func (c *Corpus) nameRows(ctx context.Context, rows []row, by Grouping) error {
	field := map[Grouping]string{ByCategory: "$.title", ByFingerprint: "$.summary", ByRule: "$.summary"}[by]
	if field == "" {
		return nil
	}
	at := map[int64]*row{}
	var ids []int64
	for i := range rows[:min(len(rows), maxTitles)] {
		if rows[i].Key != "" {
			ids = append(ids, rows[i].latest)
			at[rows[i].latest] = &rows[i]
		}
	}
	wanted, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	found, err := c.read.QueryContext(ctx, `SELECT v.attempt_id, coalesce(json_extract(v.body, ?), '')
		FROM json_each(?) w JOIN verdict v ON v.attempt_id = w.value`, field, string(wanted))
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		var title string
		if err := found.Scan(&id, &title); err != nil {
			return err
		}
		at[id].Title = title
	}
	return found.Err()
}
