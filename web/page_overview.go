package web

import (
	"cmp"
	"context"
	"net/url"
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
	Time       timeView
	Total      corpus.WasteRow
	NoGPUTime  bool // nothing has GPU time: the bars are by attempts
	Faults     []bar
	Categories []bar
	Nodes      []bar
	Users      []bar
	Latest     []corpus.Attempt
	Attempts   string // link to the list behind the figures
}

// overviewPage shows where the GPU hours go.
func (s *Server) overviewPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "range", "from", "to")
	v := overviewView{layout: s.layout("Overview", "overview"), Time: q.timeRange("/", "30d")}
	if q.err != nil {
		return nil, q.err
	}
	v.Attempts = link("/attempts", v.Time.keep(q.values)...)
	return v, s.fillOverview(c.Request.Context(), &v, q.values)
}

func (s *Server) fillOverview(ctx context.Context, v *overviewView, values url.Values) error {
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
	}
	for _, chart := range charts {
		f := corpus.Filter{Window: v.Time.window, Limit: chart.limit}
		if chart.by == corpus.ByNode { // a node is suspect by what is not the user's fault
			f.Faults = []string{"infrastructure", "unknown"}
		}
		report, err := s.corpus.Waste(ctx, f, chart.by)
		if err != nil {
			return err
		}
		if chart.by == corpus.ByFault {
			v.Total, v.NoGPUTime = report.Total, report.Total.GPUSeconds == 0
		}
		byAttempts := v.NoGPUTime || chart.by == corpus.ByNode
		*chart.bars = bars(report, chart.param, byAttempts, v.Time.keep(values))
	}
	page, err := s.corpus.Attempts(ctx, corpus.Filter{Window: v.Time.window, Outcome: corpus.OutcomeFailed, Limit: 10})
	v.Latest = page.Attempts
	return err
}

const mostBars = 12

// bars makes a chart of a report. Bars are as wide as their share of the widest; in the stacked chart of faults, of all.
func bars(r corpus.Report, param string, byAttempts bool, keep []string) (out []bar) {
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
			Link: link("/attempts", append([]string{param, row.Key}, keep...)...)}
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
