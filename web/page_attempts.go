package web

import (
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

type attemptsView struct {
	layout
	Time     timeView
	Page     corpus.Page
	Chips    []choice // what the list is narrowed by; the link drops it
	Filters  []filterBox
	Hidden   []choice // parameters that the filter form carries on
	Sorts    []choice
	First    string // link to the first page; "" on it
	Next     string
	Unasked  bool // neither filter nor span: an empty list means an empty corpus
	Outcomes []choice
}

// filterBox is a field of the filter form: a choice, or a text where Choices is empty.
type filterBox struct {
	Name, Label, Value string
	Choices            []choice
}

var sorts = []struct{ key, label string }{{"-end", "latest"}, {"end", "oldest"}, {"-gpu_s", "most GPU time"}, {"-rtf_s", "longest"}}

// attemptsPage lists attempts, narrowed by filters.
func (s *Server) attemptsPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "range", "sort", "cursor")...)
	v := attemptsView{layout: s.layout("Attempts", "attempts"), Time: q.timeRange("/attempts", "all")}
	f := q.filter()
	f.Window, f.Limit, f.Sort, f.Cursor = v.Time.window, 50, q.text("sort"), q.text("cursor")
	if f.Outcome == "" {
		f.Outcome = corpus.OutcomeFailed
	}
	if q.err != nil {
		return nil, q.err
	}
	var err error
	if v.Page, err = s.corpus.Attempts(c.Request.Context(), f); err != nil {
		return nil, err
	}
	if v.Page.Next != "" {
		v.Next = with("/attempts", q.values, "", "")
		v.Next += map[bool]string{true: "&", false: "?"}[strings.Contains(v.Next, "?")] + link("", "cursor", v.Page.Next)[1:]
	}
	if f.Cursor != "" {
		v.First = with("/attempts", q.values, "cursor", "")
	}
	s.fillFilters(&v, q, f)
	return v, nil
}

func (s *Server) fillFilters(v *attemptsView, q *query, f corpus.Filter) {
	var categories []choice
	for _, category := range s.classifier.Load().Rules().Taxonomy().Categories {
		categories = append(categories, choice{Label: category.Title, Value: category.ID})
	}
	v.Filters = []filterBox{
		{Name: "category", Label: "Category", Choices: categories},
		{Name: "fault", Label: "Fault", Choices: choicesOf(faults, faultWord)},
		{Name: "retry", Label: "Retry", Choices: choicesOf(retries, retryWord)},
		{Name: "outcome", Label: "Outcome", Choices: choicesOf(outcomes, func(o any) string { return o.(string) })},
		{Name: "user", Label: "User"}, {Name: "vc", Label: "VC"}, {Name: "node", Label: "Node"}, {Name: "job", Label: "Job"},
	}
	for i := range v.Filters {
		box := &v.Filters[i]
		box.Value = strings.Join(q.list(box.Name), ",")
		if box.Name == "outcome" {
			box.Value = string(f.Outcome)
		}
		for j := range box.Choices {
			box.Choices[j].Current = box.Choices[j].Value == box.Value
		}
	}
	v.Unasked = f.Window == (corpus.Window{}) && f.Cursor == ""
	for _, name := range filterNames {
		value := strings.Join(q.list(name), ",")
		if value == "" || name == "from" || name == "to" {
			continue
		}
		v.Unasked = false
		v.Chips = append(v.Chips, choice{Label: name, Value: value, Link: with("/attempts", q.values, name, "")})
	}
	for _, name := range append(slices.Clone(filterNames), "range", "sort") {
		shown := slices.ContainsFunc(v.Filters, func(b filterBox) bool { return b.Name == name })
		if value := strings.Join(q.values[name], ","); value != "" && !shown {
			v.Hidden = append(v.Hidden, choice{Label: name, Value: value})
		}
	}
	for _, sort := range sorts {
		v.Sorts = append(v.Sorts, choice{Label: sort.label, Link: with("/attempts", q.values, "sort", sort.key),
			Current: f.Sort == sort.key || f.Sort == "" && sort.key == "-end"})
	}
}

func choicesOf(values []string, word func(any) string) (out []choice) {
	for _, v := range values {
		out = append(out, choice{Label: word(v), Value: v})
	}
	return out
}
