package web

import (
	"context"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

// tableNames are the parameters of reports whose rows are fixed.
var tableNames = []string{"cluster", "user", "vc", "gpu_type", "node", "min_gpus", "from", "to"}

func (s *Server) getPaper(c *gin.Context) (any, error) { return answerTable(c, s.corpus.Paper) }
func (s *Server) getNodes(c *gin.Context) (any, error) { return answerTable(c, s.corpus.Nodes) }
func (s *Server) getRepetition(c *gin.Context) (any, error) {
	return answerTable(c, s.corpus.Repetition)
}

// answerTable answers one of these reports.
func answerTable[T any](c *gin.Context, report func(context.Context, corpus.Filter) (T, error)) (any, error) {
	q := newQuery(c.Request, tableNames...)
	f := q.filter()
	if q.err != nil {
		return nil, q.err
	}
	return report(c.Request.Context(), f)
}
