package corpus

import (
	"cmp"
	"container/heap"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"culprit/rules"
)

// facts are what reports and lists count, of every attempt, in memory: about 90 bytes an attempt. A million of them are
// filtered in milliseconds by any fields together, which no set of SQL indexes does. They are read from SQLite when
// first asked for, or from the file of facts, and what has changed since (by rev) before every answer.
type facts struct {
	mu    sync.RWMutex
	rev   int64
	saved atomic.Int64 // the rev of the file
	list  []fact       // by id
	terms
}

// fact is one attempt. Strings are numbers of terms, 0 the empty string.
type fact struct {
	id       int64
	ended    int64 // end, or where there is none the time it was kept; milliseconds since 1970
	rtf      int64 // milliseconds; -1 unknown
	job      uint32
	gpus     int32
	user     term
	vc       term
	gpuType  term
	cluster  term
	category term
	fault    term
	retry    term
	rule     term
	print    term // fingerprint
	nodes    term // the JSON array
}

// gpuTime is the attempt's GPU time in milliseconds.
func (f *fact) gpuTime() int64 {
	if f.rtf < 0 {
		return 0
	}
	return f.rtf * int64(f.gpus)
}

// term is a string by its number.
type term uint32

// terms numbers strings.
type terms struct {
	number map[string]term
	text   []string
}

func (t *terms) of(s string) term {
	if n, ok := t.number[s]; ok {
		return n
	}
	if t.number == nil {
		t.number, t.text = map[string]term{"": 0}, []string{""}
		if s == "" {
			return 0
		}
	}
	n := term(len(t.text))
	s = strings.Clone(s)
	t.number[s], t.text = n, append(t.text, s)
	return n
}

// current returns the facts as of now, locked for reading: the caller must call mu.RUnlock.
func (c *Corpus) current(ctx context.Context) (*facts, error) {
	f := &c.facts
	newest := c.rev.Load()
	if c.write == nil { // somebody else may be writing
		var err error
		if newest, err = newestRev(ctx, c.read); err != nil {
			return nil, err
		}
	}
	f.mu.RLock()
	if f.rev >= newest {
		return f, nil
	}
	f.mu.RUnlock()
	if err := c.refresh(ctx, newest); err != nil {
		return nil, fmt.Errorf("reading what has changed: %w", err)
	}
	f.mu.RLock()
	return f, nil
}

// refresh reads what has changed up to the rev newest.
func (c *Corpus) refresh(ctx context.Context, newest int64) error {
	f := &c.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rev >= newest { // another refresh was faster
		return nil
	}
	if f.rev == 0 {
		if file := c.readFactsFile(newest); file != nil {
			f.rev, f.list, f.terms = file.rev, file.list, file.terms
			f.saved.Store(f.rev)
		}
	}
	switch {
	case f.rev >= newest:
		return nil
	case f.rev == 0:
		if err := f.load(ctx, c.read); err != nil {
			return err
		}
	default:
		if err := f.readChanges(ctx, c.read); err != nil {
			return err
		}
	}
	if c.write != nil && f.rev-f.saved.Load() >= saveAfter {
		c.saveSoon()
	}
	return nil
}

// saveSoon has the facts written in the background, unless that is under way.
func (c *Corpus) saveSoon() {
	c.queueing.RLock() // Close waits for it, so that it waits for what is begun here too
	defer c.queueing.RUnlock()
	if c.life.Err() == nil && c.saving.CompareAndSwap(false, true) {
		c.workers.Go(func() {
			defer c.saving.Store(false)
			c.saveFacts(saveAfter)
		})
	}
}

// readChanges reads what has changed since rev.
func (f *facts) readChanges(ctx context.Context, db *sql.DB) error {
	rev := f.rev
	err := readFacts(ctx, db, changedFacts, []any{rev}, &f.terms, func(row fact, changed int64) {
		rev = max(rev, changed)
		i, found := slices.BinarySearchFunc(f.list, row.id, func(r fact, id int64) int { return cmp.Compare(r.id, id) })
		if found {
			f.list[i] = row
		} else {
			f.list = slices.Insert(f.list, i, row)
		}
	})
	if err == nil { // else some of it is read again
		f.rev = rev
	}
	return err
}

// load reads all attempts, parts of them on all cores.
func (f *facts) load(ctx context.Context, db *sql.DB) error {
	var last, rev int64
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(id), 0), coalesce(max(rev), 0) FROM attempt").Scan(&last, &rev); err != nil {
		return err
	}
	parts := make([]facts, runtime.GOMAXPROCS(0))
	if last < 10_000 {
		parts = parts[:1]
	}
	step := last/int64(len(parts)) + 1
	g, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		part := &parts[i]
		part.list = make([]fact, 0, step)
		// What changes meanwhile has a higher rev and is left to the next refresh.
		g.Go(func() error {
			from := int64(i) * step
			return readFacts(ctx, db, "a.id > ? AND a.id <= ? AND a.rev <= ? ORDER BY a.id", []any{from, from + step, rev}, &part.terms,
				func(row fact, _ int64) { part.list = append(part.list, row) })
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	f.terms, f.list = parts[0].terms, slices.Grow(parts[0].list, int(last/8)+int(last)-len(parts[0].list))
	for i := range parts[1:] {
		f.add(&parts[i+1])
	}
	f.rev = rev
	return nil
}

// add appends the facts of a part, with its terms numbered anew.
func (f *facts) add(part *facts) {
	number := make([]term, len(part.text))
	for i, s := range part.text {
		number[i] = f.of(s)
	}
	for _, row := range part.list {
		for _, t := range row.terms() {
			*t = number[*t]
		}
		f.list = append(f.list, row)
	}
}

// terms returns the fields that are terms, in the order of readFacts' columns.
func (f *fact) terms() [10]*term {
	return [...]*term{&f.cluster, &f.user, &f.vc, &f.gpuType, &f.nodes, &f.category, &f.fault, &f.retry, &f.rule, &f.print}
}

const factColumns = `a.id, a.rev, a.job_id, a.gpus, coalesce(a.ended, a.created), coalesce(a.ended - a.started, -1),
	j.cluster, j.user, a.vc, a.gpu_type, a.nodes, a.category, a.fault, a.retry, a.rule, a.fingerprint`

// changedFacts is what readFacts needs for what has changed. By id it would read everything.
const changedFacts = "a.rev > ? ORDER BY a.rev"

// readFacts calls visit with the fact and the rev of every attempt that where lets through. It reads from the driver
// itself, which for a million rows takes half of the time of database/sql.
func readFacts(ctx context.Context, db *sql.DB, where string, args []any, t *terms, visit func(fact, int64)) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(dc any) error {
		named := make([]driver.NamedValue, len(args))
		for i, a := range args {
			named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
		}
		rows, err := dc.(driver.QueryerContext).QueryContext(ctx,
			"SELECT "+factColumns+" FROM attempt a JOIN job j ON j.id = a.job_id WHERE "+where, named)
		if err != nil {
			return err
		}
		defer rows.Close()
		return scanFacts(rows, t, visit)
	})
}

func scanFacts(rows driver.Rows, t *terms, visit func(fact, int64)) error {
	t.of("") // number 0
	values := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(values); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var n [6]int64
		for i := range n {
			n[i] = values[i].(int64)
		}
		row := fact{id: n[0], job: uint32(n[2]), gpus: int32(n[3]), ended: n[4], rtf: n[5]}
		for i, field := range row.terms() {
			*field = t.of(values[len(n)+i].(string))
		}
		visit(row, n[1])
	}
}

// nodesOf returns the nodes of a fact.
func (f *facts) nodesOf(nodes term) []string {
	var list []string
	if nodes != 0 {
		if err := json.Unmarshal([]byte(f.text[nodes]), &list); err != nil {
			return nil // cannot be: Add wrote it
		}
	}
	return list
}

// termFilter lets an attempt through if one of its terms is marked.
type termFilter struct {
	field func(*fact) term
	has   []bool
}

// termFilters returns what the lists of a filter ask for.
func (f *facts) termFilters(filter *Filter) []termFilter {
	var list []termFilter
	for _, l := range []struct {
		wanted []string
		by     Grouping
	}{
		{filter.Categories, ByCategory}, {filter.Faults, ByFault}, {filter.Retries, ByRetry}, {filter.Rules, ByRule},
		{filter.Fingerprints, ByFingerprint}, {filter.Clusters, ByCluster}, {filter.Users, ByUser}, {filter.VCs, ByVC}, {filter.GPUTypes, ByGPUType},
	} {
		if len(l.wanted) > 0 {
			list = append(list, termFilter{termOf(l.by), f.having(l.wanted)})
		}
	}
	if len(filter.Nodes) > 0 {
		list = append(list, termFilter{func(r *fact) term { return r.nodes }, f.havingNode(filter.Nodes)})
	}
	return list
}

// matcher returns a function that says whether an attempt passes the filter; jobs are the filter's.
func (f *facts) matcher(filter *Filter, jobs map[uint32]bool, outcome Outcome) func(*fact) bool {
	terms := f.termFilters(filter)
	from, to := bound(filter.Window.From, math.MinInt64), bound(filter.Window.To, math.MaxInt64)
	none := f.number[rules.CategoryNone] // 0, which no attempt has, where there is none of it
	return func(r *fact) bool {
		if r.ended < from || r.ended >= to || int(r.gpus) < filter.MinGPUs || jobs != nil && !jobs[r.job] {
			return false
		}
		if outcome == OutcomeFailed && r.category == none || outcome == OutcomePassed && r.category != none {
			return false
		}
		for i := range terms {
			if t := &terms[i]; !t.has[t.field(r)] {
				return false
			}
		}
		return true
	}
}

// jobsOf returns the rows of the jobs that a filter names, nil where it names none. A job's name is not among the facts:
// there are nearly as many of them as attempts.
func (c *Corpus) jobsOf(ctx context.Context, filter *Filter) (map[uint32]bool, error) {
	if len(filter.Jobs) == 0 {
		return nil, nil
	}
	names, err := json.Marshal(filter.Jobs)
	if err != nil {
		return nil, err
	}
	ids, err := c.readIDs(ctx, "SELECT id FROM job WHERE job IN (SELECT value FROM json_each(?))", string(names))
	jobs := map[uint32]bool{}
	for _, id := range ids {
		jobs[uint32(id)] = true
	}
	return jobs, err
}

// bound returns a bound of a window in milliseconds. A time between two of them is rounded up: From ≤ t < To holds on.
func bound(t time.Time, none int64) int64 {
	if t.IsZero() {
		return none
	}
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

func (f *facts) having(wanted []string) []bool {
	has := make([]bool, len(f.text))
	for _, s := range wanted {
		if n, ok := f.number[s]; ok {
			has[n] = true
		}
	}
	return has
}

// havingNode marks the lists of nodes in which one of the wanted is. All of the JSON is looked through once a call:
// there are far fewer lists of nodes than attempts.
func (f *facts) havingNode(wanted []string) []bool {
	has := make([]bool, len(f.text))
	var quoted []string
	for _, s := range wanted {
		body, err := json.Marshal(s)
		if err != nil {
			continue // a string can always be written
		}
		quoted = append(quoted, string(body))
	}
	for n, text := range f.text {
		if !strings.HasPrefix(text, "[") {
			continue
		}
		for _, q := range quoted {
			if strings.Contains(text, q) {
				has[n] = true
			}
		}
	}
	return has
}

// sorts are the orders of Attempts.
var sorts = map[string]func(*fact) int64{
	"end":   func(r *fact) int64 { return r.ended },
	"id":    func(r *fact) int64 { return r.id },
	"rtf_s": func(r *fact) int64 { return r.rtf },
	"gpu_s": func(r *fact) int64 { return r.gpuTime() },
}

// Attempts lists the attempts that pass the filter, a page at a time. Pages stay in step while attempts are added: a
// cursor says after which attempt to go on, not how many to skip. A cursor or order that is none is a FieldError.
func (c *Corpus) Attempts(ctx context.Context, filter Filter) (Page, error) {
	order, err := newOrder(filter)
	if err != nil {
		return Page{}, err
	}
	jobs, err := c.jobsOf(ctx, &filter)
	if err != nil {
		return Page{}, err
	}
	f, err := c.current(ctx)
	if err != nil {
		return Page{}, err
	}
	ids, total := order.pick(f.list, f.matcher(&filter, jobs, filter.Outcome))
	f.mu.RUnlock()

	page := Page{Total: total}
	if len(ids) > order.limit {
		ids = ids[:order.limit]
		page.Next = order.cursor(ids[len(ids)-1])
	}
	list := make([]int64, len(ids))
	for i, at := range ids {
		list[i] = order.sign * at.id
	}
	page.Attempts, err = readAttempts(c.reader(ctx), list)
	return page, err
}

// order is how a list is sorted and which part of it is wanted.
type order struct {
	name  string
	key   func(*fact) int64
	sign  int64 // -1 for descending
	limit int
	after *place
}

// place is where an attempt stands in an order: by key, then by id.
type place struct{ key, id int64 }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.key, q.key), cmp.Compare(p.id, q.id))
}

const (
	defaultLimit = 50
	maxLimit     = 1000
)

func newOrder(f Filter) (*order, error) {
	o := &order{name: cmp.Or(f.Sort, "-end"), sign: 1, limit: f.Limit}
	name, descending := strings.CutPrefix(o.name, "-")
	if descending {
		o.sign = -1
	}
	if o.key = sorts[name]; o.key == nil {
		return nil, invalid("sort", "%q is not one of end, id, rtf_s, gpu_s, with - before it for descending", f.Sort)
	}
	switch {
	case o.limit == 0:
		o.limit = defaultLimit
	case o.limit < 0 || o.limit > maxLimit:
		return nil, invalid("limit", "%d is not from 1 to %d", f.Limit, maxLimit)
	}
	switch f.Outcome {
	case "", OutcomeAll, OutcomeFailed, OutcomePassed:
	default:
		return nil, invalid("outcome", "%q is not one of all, failed, passed", f.Outcome)
	}
	if f.Cursor == "" {
		return o, nil
	}
	var at place
	if !readCursor(f.Cursor, o.name, &at.key, &at.id) {
		return nil, invalid("cursor", "%q is none of this list", f.Cursor)
	}
	o.after = &at
	return o, nil
}

func (o *order) cursor(at place) string { return writeCursor(o.name, at.key, at.id) }

// writeCursor makes a cursor of the place after which a list sorted by order goes on.
func writeCursor(order string, key, id int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %d", order, key, id))
}

// readCursor reads a cursor and says whether it is one of that order.
func readCursor(cursor, order string, key, id *int64) bool {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return false
	}
	name, rest, _ := strings.Cut(string(text), " ")
	n, err := fmt.Sscanf(rest, "%d %d", key, id)
	return err == nil && n == 2 && name == order
}

// pick returns the first places of the list after the cursor, one more than the limit where there are as many, and how
// many attempts match in all.
func (o *order) pick(list []fact, matches func(*fact) bool) (first []place, total int64) {
	best := &worstFirst{}
	for i := range list {
		r := &list[i]
		if !matches(r) {
			continue
		}
		total++
		best.offer(o, place{o.sign * o.key(r), o.sign * r.id})
	}
	slices.SortFunc(*best, place.compare)
	return *best, total
}

// offer keeps a place if it is among the first after the cursor, one more than the limit.
func (h *worstFirst) offer(o *order, at place) {
	switch {
	case o.after != nil && at.compare(*o.after) <= 0:
	case h.Len() <= o.limit:
		heap.Push(h, at)
	case at.compare((*h)[0]) < 0:
		(*h)[0] = at
		heap.Fix(h, 0)
	}
}

// worstFirst is a heap of places with the last of them on top.
type worstFirst []place

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(i, j int) bool { return h[i].compare(h[j]) > 0 }
func (h worstFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worstFirst) Push(x any)        { *h = append(*h, x.(place)) }
func (h *worstFirst) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
