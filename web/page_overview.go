package web

import (
	"cmp"
	"context"
	"slices"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

// bar is a row of a bar chart.
type bar struct {
	Label    string
	Note     string
	Link     string
	Fault    string
	Seconds  float64 // GPU time
	Attempts int
	Share    float64 // 0 to 1, of all
	Start    float64 // percent, where the bar begins in a stacked chart
	Width    float64 // percent
}

type overviewView struct {
	layout
	Bar        filterBar
	Total      corpus.WasteRow
	Share      float64 // of all GPU time, that of attempts without a failure included
	NoGPUTime  bool    // nothing has GPU time: the bars are by attempts
	Faults     []bar
	Categories []bar
	Nodes      []bar
	Users      []bar
	VCs        []bar
	OverTime   *overTime
	Kinds      []kindView // the costliest
	New        []kindView // first seen in the last day
	Latest     []corpus.Attempt
	Attempts   string // link to the list behind the figures
	AllKinds   string
	NewKinds   string
	AllTime    string
}

// mostParts is how many columns of time a chart has at most.
const mostParts = 62

// overviewPage shows where the GPU hours go.
func (s *Server) overviewPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "range")...)
	v := overviewView{layout: s.layout("Overview", "overview")}
	f := q.filter()
	v.Bar = s.bar(&v.layout, q, "/", q.timeRange("/", "30d"))
	f.Window = v.Bar.Time.window
	if q.err != nil {
		return nil, q.err
	}
	v.Attempts, v.AllTime = v.to("/attempts"), v.to("/", "range", "all", "from", "", "to", "")
	v.AllKinds, v.NewKinds = v.to("/fingerprints"), v.to("/fingerprints", "state", "new", "range", "all", "from", "", "to", "")
	return v, s.fillOverview(c.Request.Context(), &v, f)
}

func (s *Server) fillOverview(ctx context.Context, v *overviewView, f corpus.Filter) error {
	charts := []struct {
		by    corpus.Grouping
		param string
		limit int
		bars  *[]bar
	}{
		{corpus.ByFault, "fault", 0, &v.Faults},
		{corpus.ByCategory, "category", 12, &v.Categories},
		{corpus.ByNode, "node", 0, &v.Nodes}, // all, because the chart counts attempts and the report sorts by GPU time
		{corpus.ByUser, "user", 10, &v.Users},
		{corpus.ByVC, "vc", 10, &v.VCs},
	}
	for _, chart := range charts {
		f := f
		f.Limit = chart.limit
		if chart.by == corpus.ByNode && len(f.Faults) == 0 { // a node is suspect by what is not the user's fault
			f.Faults = []string{"infrastructure", "unknown"}
		}
		report, err := s.corpus.Waste(ctx, f, chart.by)
		if err != nil {
			return err
		}
		if chart.by == corpus.ByFault {
			v.Total, v.NoGPUTime = report.Total, report.Total.GPUSeconds == 0
		}
		*chart.bars = bars(report, chart.param, v.NoGPUTime || chart.by == corpus.ByNode, v.layout)
	}
	all := f
	all.Outcome = corpus.OutcomeAll
	report, err := s.corpus.Waste(ctx, all, corpus.ByFault)
	if err != nil {
		return err
	}
	if report.Total.GPUSeconds > 0 {
		v.Share = v.Total.GPUSeconds / report.Total.GPUSeconds
	}
	series, err := s.corpus.OverTime(ctx, f, mostParts)
	if err != nil {
		return err
	}
	v.OverTime = newOverTime(series, v.NoGPUTime, func(from, to string) string { return v.to("/attempts", "range", "", "from", from, "to", to) })
	if err := s.fillKinds(ctx, v, f); err != nil {
		return err
	}
	f.Outcome, f.Limit = corpus.OutcomeFailed, 10
	page, err := s.corpus.Attempts(ctx, f)
	v.Latest = page.Attempts
	return err
}

// fillKinds adds the costliest kinds of failure, and those that were never seen before the last day.
func (s *Server) fillKinds(ctx context.Context, v *overviewView, f corpus.Filter) error {
	f.Limit = 8
	kinds, _, err := s.corpus.Kinds(ctx, f, "", nil)
	if err != nil {
		return err
	}
	v.Kinds = viewKinds(kinds)
	f.Window = corpus.Window{}
	kinds, _, err = s.corpus.Kinds(ctx, f, "first_seen", []corpus.KindState{corpus.KindNew})
	v.New = viewKinds(kinds)
	return err
}

const mostBars = 12

// bars makes a chart of a report. Bars are as wide as their share of the widest; in the stacked chart of faults, of all.
func bars(r corpus.Report, param string, byAttempts bool, l layout) (out []bar) {
	value := func(row corpus.WasteRow) float64 {
		if byAttempts {
			return float64(row.Attempts)
		}
		return row.GPUSeconds
	}
	var widest float64
	if byAttempts {
		slices.SortStableFunc(r.Rows, func(a, b corpus.WasteRow) int { return cmp.Compare(b.Attempts, a.Attempts) })
	}
	for _, row := range r.Rows {
		widest = max(widest, value(row))
	}
	start := 0.0
	for _, row := range r.Rows {
		if row.Key == "" || widest == 0 {
			continue
		}
		if len(out) == mostBars {
			break
		}
		b := bar{Label: row.Key, Fault: faultWord(row.Fault), Seconds: row.GPUSeconds, Attempts: row.Attempts, Start: start,
			Link: l.to("/attempts", param, row.Key, "sort", "-gpu_s")}
		if row.Title != "" {
			b.Label = row.Title
		}
		if total := value(r.Total); total > 0 {
			b.Share = value(row) / total
		}
		b.Width = 100 * value(row) / widest
		if r.By == corpus.ByFault {
			b.Fault, b.Width = faultWord(row.Key), 100*b.Share
		}
		start += b.Width
		out = append(out, b)
	}
	return out
}
