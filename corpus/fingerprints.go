package corpus

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Kind is a kind of failure: the attempts with one fingerprint.
type Kind struct {
	Fingerprint string    `json:"fingerprint"`
	Summary     string    `json:"summary"` // of its latest attempt
	Category    string    `json:"category"`
	Title       string    `json:"title"` // of the category
	Fault       string    `json:"fault"`
	Rule        string    `json:"rule,omitempty"`
	Latest      int64     `json:"latest"`     // id of its latest attempt
	First       time.Time `json:"first_seen"` // ever, whatever the filter
	Last        time.Time `json:"last_seen"`  // ever
	Attempts    int       `json:"attempts"`   // what follows is within the filter
	Jobs        int       `json:"jobs"`
	Users       int       `json:"users"`
	Nodes       int       `json:"nodes"`
	GPUSeconds  float64   `json:"gpu_s"`
	Spark       []int     `json:"spark"` // attempts in equal parts of the time from the first to the last that passes the filter
	State       KindState `json:"state"`
	Note        Note      `json:"note"`
}

// KindState is what is known of a kind of failure.
type KindState string

// The states. Resolved is what a person said; returned is when it was seen again afterwards.
const (
	KindNew      KindState = "new" // first seen within newFor
	KindKnown    KindState = "known"
	KindResolved KindState = "resolved"
	KindReturned KindState = "returned"
)

// newFor is how long a kind of failure is new.
const newFor = 24 * time.Hour

// Note is what a person says of a kind of failure.
type Note struct {
	Text     string     `json:"text,omitempty"`
	Ticket   string     `json:"ticket,omitempty"` // a link to a page; https or http
	Resolved *time.Time `json:"resolved,omitempty"`
	Who      string     `json:"who,omitempty"`
	At       *time.Time `json:"at,omitempty"` // nil: nobody said anything
}

// sparkParts is how many parts a spark line has.
const sparkParts = 24

// KindOrders are what Kinds can be sorted by, descending: GPU time, attempts, last seen, first seen, users, nodes.
var KindOrders = []string{"gpu_s", "attempts", "last_seen", "first_seen", "users", "nodes"}

// Kinds lists the kinds of failure of the attempts that pass the filter, at most filter.Limit of them (0 for all), and
// says how many there are. The order is one of KindOrders; "" is by GPU time. States, if any, leave out kinds of others.
func (c *Corpus) Kinds(ctx context.Context, filter Filter, order string, states []KindState) ([]Kind, int, error) {
	if order != "" && !slices.Contains(KindOrders, order) {
		return nil, 0, invalid("sort", "%q is none of gpu_s, attempts, last_seen, first_seen, users, nodes", order)
	}
	notes, err := c.notes(ctx)
	if err != nil {
		return nil, 0, err
	}
	jobs, err := c.jobsOf(ctx, &filter)
	if err != nil {
		return nil, 0, err
	}
	f, err := c.current(ctx)
	if err != nil {
		return nil, 0, err
	}
	list := f.kinds(&filter, jobs)
	f.mu.RUnlock()
	now := time.Now()
	for i := range list {
		list[i].Note = notes[list[i].Fingerprint]
		list[i].State = list[i].state(now)
	}
	list = slices.DeleteFunc(list, func(k Kind) bool { return len(states) > 0 && !slices.Contains(states, k.State) })
	slices.SortFunc(list, kindOrder(order))
	total := len(list)
	if filter.Limit > 0 && total > filter.Limit {
		list = list[:filter.Limit]
	}
	return list, total, c.nameKinds(ctx, list)
}

// Kind returns one kind of failure over all time. ErrNotFound where no attempt has the fingerprint.
func (c *Corpus) Kind(ctx context.Context, fingerprint string) (Kind, error) {
	list, _, err := c.Kinds(ctx, Filter{Fingerprints: []string{fingerprint}}, "", nil)
	if err != nil {
		return Kind{}, err
	}
	if len(list) == 0 {
		return Kind{}, fmt.Errorf("fingerprint %.40q: %w", fingerprint, ErrNotFound)
	}
	return list[0], nil
}

func (k *Kind) state(now time.Time) KindState {
	switch r := k.Note.Resolved; {
	case r != nil && k.Last.After(*r):
		return KindReturned
	case r != nil:
		return KindResolved
	case now.Sub(k.First) < newFor:
		return KindNew
	}
	return KindKnown
}

func kindOrder(order string) func(a, b Kind) int {
	by := map[string]func(a, b Kind) int{
		"attempts":   func(a, b Kind) int { return cmp.Compare(b.Attempts, a.Attempts) },
		"last_seen":  func(a, b Kind) int { return b.Last.Compare(a.Last) },
		"first_seen": func(a, b Kind) int { return b.First.Compare(a.First) },
		"users":      func(a, b Kind) int { return cmp.Compare(b.Users, a.Users) },
		"nodes":      func(a, b Kind) int { return cmp.Compare(b.Nodes, a.Nodes) },
	}[order]
	return func(a, b Kind) int {
		n := 0
		if by != nil {
			n = by(a, b)
		}
		return cmp.Or(n, cmp.Compare(b.GPUSeconds, a.GPUSeconds), cmp.Compare(b.Attempts, a.Attempts), cmp.Compare(a.Fingerprint, b.Fingerprint))
	}
}

// seen is what is counted of one kind.
type seen struct {
	print        term
	first, last  int64 // ever
	latest       int64 // when the latest that passes ended
	kind         Kind
	gpu          int64
	jobs         map[uint32]bool
	users, nodes map[term]bool
	ends         []int64
}

// kinds counts the attempts that pass the filter by their fingerprint, except those without one.
func (f *facts) kinds(filter *Filter, jobs map[uint32]bool) []Kind {
	matches := f.matcher(filter, jobs, cmp.Or(filter.Outcome, OutcomeFailed))
	byPrint := make([]*seen, len(f.text))
	var from, to int64
	for i := range f.list {
		r := &f.list[i]
		if r.print == 0 {
			continue
		}
		s := byPrint[r.print]
		if s == nil {
			s = &seen{print: r.print, first: r.ended, last: r.ended}
			byPrint[r.print] = s
		}
		s.first, s.last = min(s.first, r.ended), max(s.last, r.ended)
		if !matches(r) {
			continue
		}
		s.add(f, r)
		if from == 0 || r.ended < from {
			from = r.ended
		}
		to = max(to, r.ended)
	}
	var list []Kind
	for _, s := range byPrint {
		if s != nil && s.kind.Attempts > 0 {
			list = append(list, s.done(f, from, to))
		}
	}
	return list
}

func (s *seen) add(f *facts, r *fact) {
	if s.jobs == nil {
		s.jobs, s.users, s.nodes = map[uint32]bool{}, map[term]bool{}, map[term]bool{}
	}
	k := &s.kind
	if k.Attempts == 0 || r.ended >= s.latest {
		s.latest, k.Latest = r.ended, r.id
		k.Category, k.Fault, k.Rule = f.text[r.category], f.text[r.fault], f.text[r.rule]
	}
	k.Attempts++
	s.gpu += r.gpuTime()
	s.jobs[r.job] = true
	if r.user != 0 {
		s.users[r.user] = true
	}
	if r.nodes != 0 {
		s.nodes[r.nodes] = true
	}
	s.ends = append(s.ends, r.ended)
}

func (s *seen) done(f *facts, from, to int64) Kind {
	k := s.kind
	k.Fingerprint = f.text[s.print]
	k.First, k.Last = time.UnixMilli(s.first).UTC(), time.UnixMilli(s.last).UTC()
	k.Jobs, k.Users, k.GPUSeconds = len(s.jobs), len(s.users), seconds(s.gpu)
	names := map[string]bool{}
	for list := range s.nodes {
		for _, name := range f.nodesOf(list) {
			names[name] = true
		}
	}
	k.Nodes = len(names)
	k.Spark = make([]int, sparkParts)
	for _, at := range s.ends {
		k.Spark[min(sparkParts-1, (at-from)*sparkParts/max(1, to-from))]++
	}
	return k
}

// nameKinds gives kinds the words of their latest verdict.
func (c *Corpus) nameKinds(ctx context.Context, list []Kind) error {
	at := map[int64]*Kind{}
	ids := []int64{}
	for i := range list[:min(len(list), maxTitles)] {
		at[list[i].Latest] = &list[i]
		ids = append(ids, list[i].Latest)
	}
	wanted, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	rows, err := c.read.QueryContext(ctx, `SELECT v.attempt_id, coalesce(json_extract(v.body, '$.summary'), ''), coalesce(json_extract(v.body, '$.title'), '')
		FROM json_each(?) w JOIN verdict v ON v.attempt_id = w.value`, string(wanted))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var summary, title string
		if err := rows.Scan(&id, &summary, &title); err != nil {
			return err
		}
		at[id].Summary, at[id].Title = summary, title
	}
	return rows.Err()
}

// notes returns what people say, by fingerprint.
func (c *Corpus) notes(ctx context.Context) (map[string]Note, error) {
	rows, err := c.read.QueryContext(ctx, "SELECT fingerprint, note, ticket, resolved, who, at FROM fingerprint_note")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	notes := map[string]Note{}
	for rows.Next() {
		var fingerprint string
		var n Note
		var resolved, said sql.NullInt64
		if err := rows.Scan(&fingerprint, &n.Text, &n.Ticket, &resolved, &n.Who, &said); err != nil {
			return nil, err
		}
		n.Resolved, n.At = timeOf(resolved), timeOf(said)
		notes[fingerprint] = n
	}
	return notes, rows.Err()
}

// SetNote keeps what a person says of a kind of failure, in the place of what was said before. The ticket is a link that a
// page may show, so it must be one of http or https.
func (c *Corpus) SetNote(ctx context.Context, fingerprint string, n Note) error {
	err := errors.Join(checkText("fingerprint", fingerprint), checkNote("note", n.Text), checkText("ticket", n.Ticket), checkText("who", n.Who))
	if err != nil {
		return err
	}
	if fingerprint == "" {
		return invalid("fingerprint", "is missing")
	}
	if u, err := url.Parse(n.Ticket); n.Ticket != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		return invalid("ticket", "%q is no link: it must begin with https:// or http://", n.Ticket)
	}
	var resolved any
	if n.Resolved != nil {
		resolved = n.Resolved.UnixMilli()
	}
	return c.commit(ctx, func(b *batch) error {
		_, err := b.exec(`INSERT INTO fingerprint_note (fingerprint, note, ticket, resolved, who, at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (fingerprint) DO UPDATE SET note = excluded.note, ticket = excluded.ticket, resolved = excluded.resolved,
			who = excluded.who, at = excluded.at`, fingerprint, n.Text, n.Ticket, resolved, n.Who, time.Now().UnixMilli())
		return err
	})
}
