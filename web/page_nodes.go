package web

import (
	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

type nodesView struct {
	layout
	Bar      filterBar
	Rate     float64
	Rows     []nodeView
	Suspects int
	Total    int
}

type nodeView struct {
	corpus.NodeRow
	Link   string // to its failures that are not the user's fault
	Reason string // the most frequent category, by its title
}

const mostNodes = 100

// nodesPage shows which nodes fail more than the others, with what that is based on.
func (s *Server) nodesPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "range")...)
	v := nodesView{layout: s.layout("Nodes", "nodes")}
	f := q.filter()
	v.Bar = s.bar(&v.layout, q, "/nodes", q.timeRange("/nodes", "30d"))
	f.Window = v.Bar.Time.window
	if q.err != nil {
		return nil, q.err
	}
	report, err := s.corpus.Nodes(c.Request.Context(), f)
	if err != nil {
		return nil, err
	}
	v.Rate, v.Total = report.Rate, len(report.Nodes)
	taxonomy := s.classifier.Load().Rules().Taxonomy()
	for _, n := range report.Nodes {
		if n.Suspect {
			v.Suspects++
		}
		if len(v.Rows) == mostNodes || n.Charged == 0 {
			continue
		}
		row := nodeView{NodeRow: n, Link: v.to("/attempts", "node", n.Node, "fault", "infrastructure")}
		if len(n.Reasons) > 0 {
			row.Reason = n.Reasons[0].Category
			for _, category := range taxonomy.Categories {
				if category.ID == row.Reason {
					row.Reason = category.Title
				}
			}
		}
		v.Rows = append(v.Rows, row)
	}
	return v, nil
}
