package web

import (
	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

type reportView struct {
	layout
	Bar       filterBar
	By        string
	ByLabel   string
	Groupings []choice
	Report    corpus.Report
	Rows      []reportRow
	CSV       string
	JSON      string
}

type reportRow struct {
	corpus.WasteRow
	Label string
	Link  string
}

// groupingWords are what the rows of a report are called on its page.
var groupingWords = map[corpus.Grouping]string{corpus.ByCategory: "category", corpus.ByFault: "fault", corpus.ByRetry: "retry advice", corpus.ByUser: "user",
	corpus.ByVC: "VC", corpus.ByNode: "node", corpus.ByGPUType: "GPU type", corpus.ByRule: "rule", corpus.ByFingerprint: "fingerprint", corpus.ByCluster: "cluster",
	corpus.ByHour: "hour", corpus.ByDay: "day", corpus.ByWeek: "week", corpus.ByMonth: "month"}

// reportPage shows the report's table, with the same numbers as the API.
func (s *Server) reportPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "by", "range")...)
	v := reportView{layout: s.layout("Report", "report"), By: q.choice("by", groupings()...)}
	f := q.filter()
	v.Bar = s.bar(&v.layout, q, "/report", q.timeRange("/report", "30d"), "by")
	f.Window = v.Bar.Time.window
	if v.By == "" {
		v.By = string(corpus.ByCategory)
	}
	if q.err != nil {
		return nil, q.err
	}
	by := corpus.Grouping(v.By)
	v.ByLabel = groupingWords[by]
	for _, g := range corpus.Groupings {
		v.Groupings = append(v.Groupings, choice{Label: groupingWords[g], Link: with("/report", q.values, "by", string(g)), Current: g == by})
	}
	var err error
	if v.Report, err = s.corpus.Waste(c.Request.Context(), f, by); err != nil {
		return nil, err
	}
	for _, row := range v.Report.Rows {
		v.Rows = append(v.Rows, viewRow(row, by, v.layout))
	}
	api := func(format string) string {
		pairs := []string{"by", v.By, "format", format}
		if !f.Window.From.IsZero() {
			pairs = append(pairs, "from", f.Window.From.UTC().Format("2006-01-02T15:04:05Z"))
		}
		if !f.Window.To.IsZero() {
			pairs = append(pairs, "to", f.Window.To.UTC().Format("2006-01-02T15:04:05Z"))
		}
		for _, name := range filterNames {
			if name != "from" && name != "to" {
				pairs = append(pairs, name, q.text(name))
			}
		}
		return link("/api/v1/report", pairs...)
	}
	v.CSV, v.JSON = api("csv"), api("json")
	return v, nil
}

func viewRow(row corpus.WasteRow, by corpus.Grouping, l layout) reportRow {
	r := reportRow{WasteRow: row, Label: row.Key}
	if row.Title != "" && by != corpus.ByFingerprint {
		r.Label = row.Title
	}
	if by == corpus.ByRetry {
		r.Label = retryWord(row.Key)
	}
	if row.Key == "" {
		r.Label = "(not given)"
		return r
	}
	switch by {
	case corpus.ByHour, corpus.ByDay, corpus.ByWeek, corpus.ByMonth:
		return r
	}
	r.Link = l.to("/attempts", string(by), row.Key)
	return r
}
