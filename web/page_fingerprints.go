package web

import (
	"cmp"
	"time"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

type fingerprintsView struct {
	layout
	Bar    filterBar
	Kinds  []kindView
	Total  int
	States []choice
	Sorts  []choice
	Asked  bool // for a time, a filter or a state
}

// kindView is a kind of failure with its spark line.
type kindView struct {
	corpus.Kind
	Bars []rect
}

func viewKinds(list []corpus.Kind) (out []kindView) {
	for _, k := range list {
		out = append(out, kindView{k, spark(k.Spark)})
	}
	return out
}

var (
	kindStates = []string{string(corpus.KindNew), string(corpus.KindKnown), string(corpus.KindResolved), string(corpus.KindReturned)}
	kindSorts  = []choice{{Label: "most GPU time", Value: "gpu_s"}, {Label: "most attempts", Value: "attempts"}, {Label: "latest", Value: "last_seen"},
		{Label: "newest", Value: "first_seen"}, {Label: "most users", Value: "users"}, {Label: "most nodes", Value: "nodes"}}
)

const mostKinds = 100

// fingerprintsPage lists the kinds of failure.
func (s *Server) fingerprintsPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "range", "sort", "state")...)
	v := fingerprintsView{layout: s.layout("Fingerprints", "fingerprints")}
	f := q.filter()
	v.Bar = s.bar(&v.layout, q, "/fingerprints", q.timeRange("/fingerprints", "30d"), "sort", "state")
	f.Window, f.Limit = v.Bar.Time.window, mostKinds
	sort, state := q.choice("sort", corpus.KindOrders...), q.choice("state", kindStates...)
	if q.err != nil {
		return nil, q.err
	}
	var states []corpus.KindState
	v.States = []choice{{Label: "all", Link: with("/fingerprints", q.values, "state", ""), Current: state == ""}}
	for _, name := range kindStates {
		v.States = append(v.States, choice{Label: name, Link: with("/fingerprints", q.values, "state", name), Current: state == name})
	}
	if state != "" {
		states = []corpus.KindState{corpus.KindState(state)}
	}
	for _, c := range kindSorts {
		c.Link, c.Current = with("/fingerprints", q.values, "sort", c.Value), c.Value == cmp.Or(sort, "gpu_s")
		v.Sorts = append(v.Sorts, c)
	}
	kinds, total, err := s.corpus.Kinds(c.Request.Context(), f, sort, states)
	v.Kinds, v.Total, v.Asked = viewKinds(kinds), total, !v.Bar.Unasked() || state != ""
	return v, err
}

type fingerprintView struct {
	layout
	Kind     corpus.Kind
	OverTime *overTime
	Users    []bar
	Nodes    []bar
	Latest   corpus.Page
	All      string
}

// fingerprintPage shows one kind of failure: whom it hits, where and since when, and what people say of it.
func (s *Server) fingerprintPage(c *gin.Context) (any, error) {
	if q := newQuery(c.Request); q.err != nil {
		return nil, q.err
	}
	ctx := c.Request.Context()
	k, err := s.corpus.Kind(ctx, param(c, "id"))
	if err != nil {
		return nil, err
	}
	v := fingerprintView{layout: s.layout("Fingerprint "+k.Fingerprint, "fingerprints"), Kind: k, All: link("/attempts", "fingerprint", k.Fingerprint, "range", "all")}
	f := corpus.Filter{Fingerprints: []string{k.Fingerprint}}
	series, err := s.corpus.OverTime(ctx, f, mostParts)
	if err != nil {
		return nil, err
	}
	v.OverTime = newOverTime(series, true, func(from, to string) string {
		return link("/attempts", "fingerprint", k.Fingerprint, "from", from, "to", to)
	})
	f.Limit = 10
	of := layout{carried: map[string][]string{"fingerprint": {k.Fingerprint}, "range": {"all"}}}
	for _, chart := range []struct {
		by   corpus.Grouping
		bars *[]bar
	}{{corpus.ByUser, &v.Users}, {corpus.ByNode, &v.Nodes}} {
		report, err := s.corpus.Waste(ctx, f, chart.by)
		if err != nil {
			return nil, err
		}
		*chart.bars = bars(report, string(chart.by), true, of)
	}
	v.Latest, err = s.corpus.Attempts(ctx, f)
	return v, err
}

// postFingerprint keeps what a person says of a kind of failure. That it is resolved counts from the moment it is first said.
func (s *Server) postFingerprint(c *gin.Context) (any, error) {
	ctx := c.Request.Context()
	k, err := s.corpus.Kind(ctx, param(c, "id"))
	if err != nil {
		return nil, err
	}
	q, err := readForm(c, "note", "ticket", "resolved", "who")
	if err != nil {
		return nil, err
	}
	n := corpus.Note{Text: q.note("note"), Ticket: q.text("ticket"), Who: q.text("who")}
	if q.choice("resolved", "yes") == "yes" {
		now := time.Now()
		n.Resolved = &now
		if k.State == corpus.KindResolved {
			n.Resolved = k.Note.Resolved
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	if err := s.corpus.SetNote(ctx, k.Fingerprint, n); err != nil {
		return nil, err
	}
	return seeOther("/fingerprints/" + k.Fingerprint), nil
}
