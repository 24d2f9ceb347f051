package web

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/corpus"
	"culprit/rules"
)

// readQuery reads the whole query, or says what is wrong with it; url.URL.Query drops what it does not understand.
func readQuery(r *http.Request) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badField("", "the query cannot be read: %v", err)
	}
	return values, nil
}

func fieldNames() []string { return slices.Collect(maps.Keys(fields)) }

// query reads parameters by name and type and keeps the first mistake in err, so that a handler asks once.
type query struct {
	values url.Values
	err    error
}

// newQuery takes the request's query, which may have the known parameters and no others.
func newQuery(r *http.Request, known ...string) *query {
	values, err := readQuery(r)
	q := &query{values, err}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) && q.err == nil {
			q.err = unknownField(name, slices.Clone(known))
		}
	}
	return q
}

func (q *query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// text is a parameter that is given at most once.
func (q *query) text(name string) string {
	values := q.values[name]
	switch {
	case len(values) == 0:
		return ""
	case len(values) > 1:
		q.fail(badField(name, "given %d times", len(values)))
	case len(values[0]) > maxText:
		q.fail(badField(name, "longer than %d bytes", maxText))
	}
	return strings.TrimSpace(values[0])
}

// list is a parameter that may be given more than once, or with commas.
func (q *query) list(name string) (list []string) {
	for _, v := range q.values[name] {
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" && !slices.Contains(list, item) {
				list = append(list, item)
			}
		}
	}
	if len(list) > 1000 {
		q.fail(badField(name, "more than 1,000 values"))
	}
	return list
}

// choice is one of the values that are known, or empty.
func (q *query) choice(name string, known ...string) string {
	v := q.text(name)
	q.check(name, v, known)
	return v
}

func (q *query) choices(name string, known ...string) []string {
	list := q.list(name)
	for _, v := range list {
		q.check(name, v, known)
	}
	return list
}

func (q *query) check(name, v string, known []string) {
	if v != "" && !slices.Contains(known, v) {
		q.fail(badField(name, "%s is none of %s", quote(v), strings.Join(known, ", ")))
	}
}

func (q *query) number(name string, fallback, least, most int64) int64 {
	v := q.text(name)
	if v == "" {
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < least || n > most {
		q.fail(badField(name, "%s: a whole number from %d to %d is wanted", quote(v), least, most))
		return fallback
	}
	return n
}

// time is RFC 3339, seconds since 1970, or a date, which means its midnight in UTC.
func (q *query) time(name string) time.Time {
	v := q.text(name)
	if v == "" {
		return time.Time{}
	}
	if day, err := time.Parse(time.DateOnly, v); err == nil {
		return day
	}
	t, err := parseTime(v)
	if err != nil {
		q.fail(badField(name, "%s: %v; a date is fine too", quote(v), err))
	}
	return t
}

func (q *query) window() corpus.Window {
	w := corpus.Window{From: q.time("from"), To: q.time("to")}
	if !w.From.IsZero() && !w.To.IsZero() && w.To.Before(w.From) {
		q.fail(badField("to", "it is before from"))
	}
	return w
}

var (
	filterNames = []string{"category", "fault", "retry", "rule", "fingerprint", "cluster", "job", "user", "vc", "gpu_type", "node",
		"min_gpus", "outcome", "from", "to"}
	faults   = []string{string(rules.FaultUser), string(rules.FaultInfrastructure), string(rules.FaultUnknown)}
	retries  = []string{string(rules.RetryNever), string(rules.RetryOnce), string(rules.RetryAlways), string(rules.RetryElsewhere)}
	outcomes = []string{string(corpus.OutcomeAll), string(corpus.OutcomeFailed), string(corpus.OutcomePassed)}
)

// filter reads what lists, reports and pages are narrowed by.
func (q *query) filter() corpus.Filter {
	return corpus.Filter{
		Categories:   q.list("category"),
		Faults:       q.choices("fault", faults...),
		Retries:      q.choices("retry", retries...),
		Rules:        q.list("rule"),
		Fingerprints: q.list("fingerprint"),
		Clusters:     q.list("cluster"),
		Jobs:         q.list("job"),
		Users:        q.list("user"),
		VCs:          q.list("vc"),
		GPUTypes:     q.list("gpu_type"),
		Nodes:        q.list("node"),
		MinGPUs:      int(q.number("min_gpus", 0, 0, 1<<30)),
		Outcome:      corpus.Outcome(q.choice("outcome", outcomes...)),
		Window:       q.window(),
	}
}
