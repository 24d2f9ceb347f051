package web

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"culprit/corpus"
)

// filterBar is what pages are narrowed by: the same on all of them, and in the URL, so that a link is what one sees.
type filterBar struct {
	Path   string
	Time   timeView
	Boxes  []filterBox
	Hidden []choice // parameters that the form carries on
	Chips  []choice // what the page is narrowed by; the link drops it
	Clear  string   // link that drops all of it
	Search bool     // words of the logs can be asked for too
	Open   bool     // one of the boxes that are folded away is in use
}

// filterBox is a field of the filter form: a choice, or a text where Choices is empty.
type filterBox struct {
	Name, Label, Value string
	Choices            []choice
	Always             bool // shown though not in use
	Any                bool // may be left open
}

// bar makes the filter bar of a page and has the page's links carry what it says. own are further parameters of the page
// that its form keeps.
func (s *Server) bar(l *layout, q *query, path string, time timeView, own ...string) filterBar {
	b := filterBar{Path: path, Time: time, Clear: link(path, time.keep(q.values)...)}
	b.Boxes = []filterBox{
		{Name: "category", Label: "Category", Choices: s.categories(""), Always: true, Any: true},
		{Name: "fault", Label: "Fault", Choices: choicesOf(faults, faultWord), Always: true, Any: true},
		{Name: "user", Label: "User", Always: true}, {Name: "vc", Label: "VC", Always: true}, {Name: "cluster", Label: "Cluster", Always: true},
		{Name: "node", Label: "Node"}, {Name: "job", Label: "Job"}, {Name: "rule", Label: "Rule"},
		{Name: "retry", Label: "Retry", Choices: choicesOf(retries, retryWord), Any: true},
		{Name: "min_gpus", Label: "GPUs, at least"},
	}
	for i := range b.Boxes {
		box := &b.Boxes[i]
		box.Value = strings.Join(q.list(box.Name), ",")
		b.Open = b.Open || box.Value != "" && !box.Always
		for j := range box.Choices {
			box.Choices[j].Current = box.Choices[j].Value == box.Value
		}
	}
	b.chips(q)
	b.hide(q, own)
	l.carried = url.Values{}
	for _, name := range filterNames {
		if value := q.values[name]; len(value) > 0 && name != "outcome" {
			l.carried[name] = value
		}
	}
	if time.Key != "" {
		l.carried.Set("range", time.Key)
	}
	return b
}

func (b *filterBar) chips(q *query) {
	for _, name := range filterNames {
		value := strings.Join(q.list(name), ",")
		if value == "" || name == "from" || name == "to" {
			continue
		}
		b.Chips = append(b.Chips, choice{Label: name, Value: value, Link: with(b.Path, q.values, name, "")})
	}
}

// hide keeps what has no box, or more values than its select box can show.
func (b *filterBar) hide(q *query, own []string) {
	for _, name := range append(append(slices.Clone(filterNames), "range"), own...) {
		shown := slices.ContainsFunc(b.Boxes, func(box filterBox) bool { return box.Name == name })
		if value := strings.Join(q.values[name], ","); value != "" && !shown {
			b.Hidden = append(b.Hidden, choice{Label: name, Value: value})
		}
	}
}

// Unasked tells whether the page shows all there is.
func (b filterBar) Unasked() bool { return b.Time.window == (corpus.Window{}) && len(b.Chips) == 0 }

// to is a link to another page with the time and the filters of this one and some parameters set anew.
func (l *layout) to(path string, pairs ...string) string {
	values := maps.Clone(l.carried)
	if values == nil {
		values = url.Values{}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return with(path, values, "", "")
}

// Pages are the entries of the navigation. The pages of attempts keep the time and the filters, that of the gate the time.
func (l layout) Pages() []choice {
	list := []choice{{Label: "Overview", Value: "overview", Link: l.to("/")}, {Label: "Failures", Value: "attempts", Link: l.to("/attempts")},
		{Label: "Fingerprints", Value: "fingerprints", Link: l.to("/fingerprints")}, {Label: "Nodes", Value: "nodes", Link: l.to("/nodes")},
		{Label: "Report", Value: "report", Link: l.to("/report")},
		{Label: "Gate", Value: "gate", Link: link("/gate", "range", l.carried.Get("range"), "from", l.carried.Get("from"), "to", l.carried.Get("to"))},
		{Label: "Rules", Value: "rules", Link: "/rules"}, {Label: "Submit", Value: "submit", Link: "/submit"}}
	for i := range list {
		list[i].Current = list[i].Value == l.Nav
	}
	return list
}
