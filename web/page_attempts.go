package web

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

type attemptsView struct {
	layout
	Bar      filterBar
	Page     corpus.Page
	Outcomes []choice
	Columns  map[string]choice // of the table, by the key that it sorts by
	Facets   []facet
	First    string // link to the first page; "" on it
	Before   string
	Next     string
	CSV      string
	Unasked  bool // neither filter nor span: an empty list means an empty corpus
}

// facet is what the attempts of the list are, by one field.
type facet struct {
	Label string
	List  []choice
}

// columns are the keys that the table can be sorted by, in both directions.
var columns = []string{"end", "rtf_s", "gpu_s"}

// attemptsPage lists attempts, narrowed by filters.
func (s *Server) attemptsPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "range", "sort", "cursor", "before", "q")...)
	v := attemptsView{layout: s.layout("Failures", "attempts")}
	f := q.filter()
	v.Bar = s.bar(&v.layout, q, "/attempts", q.timeRange("/attempts", "all"), "sort")
	f.Window, f.Limit, f.Sort, f.Cursor = v.Bar.Time.window, 50, q.text("sort"), q.text("cursor")
	v.Bar.Search = true
	if f.Outcome == "" {
		f.Outcome = corpus.OutcomeFailed
	}
	text := q.text("q")
	if q.err != nil {
		return nil, q.err
	}
	if text != "" {
		return seeOther(link("/search", "q", asSearch(text, q))), nil
	}
	var err error
	if v.Page, err = s.corpus.Attempts(c.Request.Context(), f); err != nil {
		return nil, err
	}
	v.fillWays(q, f)
	v.Unasked = v.Bar.Unasked() && f.Cursor == ""
	for _, o := range outcomes {
		v.Outcomes = append(v.Outcomes, choice{Label: o, Link: with("/attempts", q.values, "outcome", o), Current: o == string(f.Outcome)})
	}
	return v, s.fillFacets(c.Request.Context(), &v, q, f)
}

// asSearch writes words and filters as one search. A search knows no time, so that is left out.
func asSearch(text string, q *query) string {
	for _, name := range []string{"category", "fault", "retry", "user", "vc", "node", "job", "rule", "fingerprint", "cluster", "gpu_type"} {
		for i, value := range q.list(name) {
			if i > 0 {
				text += " OR"
			}
			if strings.ContainsAny(value, " \t\"") {
				value = `"` + strings.ReplaceAll(value, `"`, "") + `"`
			}
			text += " " + name + ":" + value
		}
	}
	return text
}

// maxBefore is how many pages back the way is known; the cursors of each stand in the URL.
const maxBefore = 40

// fillWays adds the links to other pages of the list and to other orders of it. A cursor leads forward only, so the
// cursors of the pages before are carried along, the last one last; that of the first page is "-".
func (v *attemptsView) fillWays(q *query, f corpus.Filter) {
	before := q.list("before")
	to := func(cursor string, before []string) string {
		values := maps.Clone(q.values)
		values.Del("before")
		base := with("/attempts", values, "", "")
		var extra []string
		if cursor != "" && cursor != "-" {
			extra = append(extra, "cursor="+url.QueryEscape(cursor))
		}
		if len(before) > 0 {
			extra = append(extra, "before="+url.QueryEscape(strings.Join(before, ",")))
		}
		if len(extra) == 0 {
			return base
		}
		return base + map[bool]string{true: "&", false: "?"}[strings.Contains(base, "?")] + strings.Join(extra, "&")
	}
	if v.Page.Next != "" {
		here := append(slices.Clone(before), cmp.Or(f.Cursor, "-"))
		v.Next = to(v.Page.Next, here[max(0, len(here)-maxBefore):])
	}
	if f.Cursor != "" {
		v.First = to("", nil)
		if n := len(before); n > 0 {
			v.Before = to(before[n-1], before[:n-1])
		}
	}
	v.Columns = map[string]choice{}
	values := maps.Clone(q.values)
	values.Del("before")
	for _, key := range columns {
		c := choice{Link: with("/attempts", values, "sort", "-"+key)}
		switch f.Sort {
		case "-" + key:
			c = choice{Link: with("/attempts", values, "sort", key), Value: "descending", Current: true}
		case key:
			c.Value, c.Current = "ascending", true
		case "":
			if key == "end" {
				c = choice{Link: with("/attempts", values, "sort", key), Value: "descending", Current: true}
			}
		}
		v.Columns[key] = c
	}
	v.CSV = with("/attempts.csv", values, "", "")
}

// fillFacets counts what the list consists of.
func (s *Server) fillFacets(ctx context.Context, v *attemptsView, q *query, f corpus.Filter) error {
	values := maps.Clone(q.values)
	values.Del("before")
	for _, by := range []corpus.Grouping{corpus.ByCategory, corpus.ByUser, corpus.ByVC, corpus.ByNode, corpus.ByCluster} {
		counted := f
		counted.Limit, counted.Cursor, counted.Sort = 0, "", ""
		report, err := s.corpus.Waste(ctx, counted, by)
		if err != nil {
			return err
		}
		slices.SortStableFunc(report.Rows, func(a, b corpus.WasteRow) int { return cmp.Compare(b.Attempts, a.Attempts) })
		facet := facet{Label: groupingWords[by]}
		for _, row := range report.Rows {
			if row.Key == "" || len(facet.List) == mostFacets {
				continue
			}
			facet.List = append(facet.List, choice{Label: cmp.Or(row.Title, row.Key), Value: count(row.Attempts), Link: with("/attempts", values, string(by), row.Key)})
		}
		if len(facet.List) > 1 {
			v.Facets = append(v.Facets, facet)
		}
	}
	return nil
}

const mostFacets = 6

func choicesOf(values []string, word func(any) string) (out []choice) {
	for _, v := range values {
		out = append(out, choice{Label: word(v), Value: v})
	}
	return out
}

// attemptsCSV is the list of attempts as a table for other programs.
func (s *Server) attemptsCSV(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "range", "sort")...)
	f := q.filter()
	f.Window, f.Sort = q.timeRange("/attempts", "all").window, q.text("sort")
	if f.Outcome == "" {
		f.Outcome = corpus.OutcomeFailed
	}
	if q.err != nil {
		return nil, q.err
	}
	one := f
	one.Limit = 1
	if _, err := s.corpus.Attempts(c.Request.Context(), one); err != nil { // while it can still be told
		return nil, err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(s.corpus.WriteAttempts(c.Request.Context(), w, f)) }() // ends when the reader is closed
	return file{contentType: "text/csv; charset=utf-8", download: "attempts.csv", body: r}, nil
}
