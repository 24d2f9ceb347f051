package corpus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
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
	f, err := c.current(ctx)
	if err != nil {
		return Report{}, err
	}
	groups := f.group(&filter, by)
	rows, total := f.rows(groups, by)
	f.mu.RUnlock()

	report := Report{By: by, From: timePtr(filter.Window.From), To: timePtr(filter.Window.To), Groups: len(rows), Total: total.WasteRow}
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

// member is an attempt's part in a group.
type member struct {
	fact  *fact
	share int64 // of its GPU time, in milliseconds
}

// groups are the members of each group, one group after the other.
type groups struct {
	keys    []string
	first   []int // index of a group's first member; one more at the end
	members []member
	all     []member // each attempt once, with all of its GPU time
}

// group sorts the attempts that pass the filter into groups. It counts first and places then, so that it needs no
// list a group.
func (f *facts) group(filter *Filter, by Grouping) *groups {
	matches := f.matcher(filter, true)
	g := &groups{}
	for i := range f.list {
		if r := &f.list[i]; matches(r) {
			g.all = append(g.all, member{r, r.gpuTime()})
		}
	}
	if by == ByNode {
		f.groupByNode(g)
		return g
	}
	key := f.keyer(g, by, filter.Zone)
	of := make([]uint32, len(g.all))
	for i, m := range g.all {
		of[i] = key(m.fact)
	}
	g.place(of, g.all)
	return g
}

func (f *facts) groupByNode(g *groups) {
	number := map[string]uint32{}
	nodes := make([][]uint32, len(f.text)) // by list of nodes
	var members []member
	var of []uint32
	for _, m := range g.all {
		list := nodes[m.fact.nodes]
		if list == nil {
			list = g.numberNodes(number, f.nodesOf(m.fact.nodes))
			nodes[m.fact.nodes] = list
		}
		n, left := int64(len(list)), m.share
		for i, node := range list {
			share := (left + n - int64(i) - 1) / (n - int64(i)) // so that the parts add up to the whole
			left -= share
			members, of = append(members, member{m.fact, share}), append(of, node)
		}
	}
	g.place(of, members)
}

// numberNodes returns the groups of an attempt's nodes, at least one; a node named twice counts once.
func (g *groups) numberNodes(number map[string]uint32, nodes []string) []uint32 {
	if len(nodes) == 0 {
		nodes = []string{""}
	}
	var list []uint32
	for _, node := range nodes {
		n, ok := number[node]
		if !ok {
			n = uint32(len(g.keys))
			number[node] = n
			g.keys = append(g.keys, node)
		}
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// place puts members in the order of their groups.
func (g *groups) place(of []uint32, members []member) {
	g.first = make([]int, len(g.keys)+1)
	for _, n := range of {
		g.first[n+1]++
	}
	for i := range g.keys {
		g.first[i+1] += g.first[i]
	}
	at := slices.Clone(g.first)
	g.members = make([]member, len(members))
	for i, m := range members {
		g.members[at[of[i]]] = m
		at[of[i]]++
	}
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

// row is a row of the report before its title is known.
type row struct {
	WasteRow
	rtf, gpu int64 // totals in milliseconds
	latest   int64 // the id of the last attempt that was kept
	began    int64 // the earliest end
}

// rows returns the rows of all groups, sorted, and the row of all attempts.
func (f *facts) rows(g *groups, by Grouping) ([]row, row) {
	rows := make([]row, len(g.keys))
	var total row
	var wg sync.WaitGroup
	work := make(chan int)
	jobs := f.jobs()
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			counter := newCounter(jobs, len(f.text))
			for i := range work {
				if i < 0 {
					total = f.row(g.all, counter)
					continue
				}
				rows[i] = f.row(g.members[g.first[i]:g.first[i+1]], counter)
				rows[i].Key = g.keys[i]
			}
		})
	}
	for i := -1; i < len(rows); i++ {
		work <- i
	}
	close(work)
	wg.Wait()
	for i := range rows {
		rows[i].RTFShare, rows[i].GPUShare = share(rows[i].rtf, total.rtf), share(rows[i].gpu, total.gpu)
	}
	total.RTFShare, total.GPUShare = share(total.rtf, total.rtf), share(total.gpu, total.gpu)
	slices.SortFunc(rows, rowOrder(by))
	return rows, total
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

// jobs returns the number over all jobs'.
func (f *facts) jobs() int {
	var last uint32
	for i := range f.list {
		last = max(last, f.list[i].job)
	}
	return int(last) + 1
}

// counter counts distinct jobs and users: what has been seen carries the number of the round.
type counter struct {
	round       uint32
	jobs, users []uint32
	rtf         []int64 // scratch
}

func newCounter(jobs, users int) *counter {
	return &counter{jobs: make([]uint32, jobs), users: make([]uint32, users)}
}

// row sums up the members of a group.
func (f *facts) row(members []member, c *counter) row {
	r := row{began: math.MaxInt64}
	c.round++
	c.rtf = c.rtf[:0]
	faults := map[term]int{}
	for _, m := range members {
		c.count(&r, m.fact)
		faults[m.fact.fault]++
		r.gpu += m.share
		r.began = min(r.began, m.fact.ended)
		r.latest = max(r.latest, m.fact.id)
		if m.fact.rtf >= 0 {
			r.rtf += m.fact.rtf
			c.rtf = append(c.rtf, m.fact.rtf)
		}
	}
	r.Attempts = len(members)
	r.Fault = f.most(faults)
	slices.Sort(c.rtf)
	r.RTFp50, r.RTFp90, r.RTFp95 = percentile(c.rtf, 50), percentile(c.rtf, 90), percentile(c.rtf, 95)
	r.RTFTotal, r.GPUSeconds = seconds(r.rtf), seconds(r.gpu)
	return r
}

// count counts an attempt's job and user, unless they have been in this round, and its demand.
func (c *counter) count(r *row, f *fact) {
	if c.jobs[f.job] != c.round {
		c.jobs[f.job] = c.round
		r.Jobs++
	}
	if f.user != 0 && c.users[f.user] != c.round {
		c.users[f.user] = c.round
		r.Users++
	}
	switch {
	case f.gpus <= 1:
		r.GPU1++
	case f.gpus <= 4:
		r.GPU2to4++
	default:
		r.GPUOver4++
	}
}

// most returns the term that was counted most, the first in the alphabet of several.
func (f *facts) most(counts map[term]int) string {
	best, most := "", 0
	for t, n := range counts {
		if s := f.text[t]; n > most || n == most && s < best {
			best, most = s, n
		}
	}
	return best
}

// percentile returns the p-th percentile of sorted milliseconds in seconds, by nearest rank: the smallest value that at
// least p percent of them do not exceed. It is 0 for none.
func percentile(sorted []int64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return seconds(sorted[(len(sorted)*p+99)/100-1])
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
