package web

import (
	"github.com/gin-gonic/gin"

	"culprit/classifier"
)

type gateView struct {
	layout
	Time   timeView
	Replay classifier.Replay
	Rows   []gateRow
}

type gateRow struct {
	classifier.ReplayRow
	Label string
	Link  string // to the attempts that the row is about
}

// gatePage shows what the policy in use would have done to past jobs, with the numbers of `culprit gate replay`.
func (s *Server) gatePage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "range", "from", "to")
	v := gateView{layout: s.layout("Gate", "gate"), Time: q.timeRange("/gate", "30d")}
	if q.err != nil {
		return nil, q.err
	}
	var err error
	v.Replay, err = s.policy.Load().Replay(s.corpus.Histories(c.Request.Context(), v.Time.window))
	if err != nil {
		return nil, err
	}
	for _, row := range v.Replay.Rows {
		r := gateRow{row, row.Rule, link("/attempts", append([]string{"rule", row.Rule}, v.Time.keep(q.values)...)...)}
		if row.Rule == "" {
			r.Label, r.Link = "("+row.Category+")", link("/attempts", append([]string{"category", row.Category}, v.Time.keep(q.values)...)...)
		}
		v.Rows = append(v.Rows, r)
	}
	return v, nil
}
