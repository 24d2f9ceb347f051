package web

import (
	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

// getSearch finds attempts by the words of their logs and by their fields.
func (s *Server) getSearch(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "q", "limit", "cursor")
	text, limit, cursor := q.text("q"), int(q.number("limit", 20, 1, 200)), q.text("cursor")
	if text == "" {
		q.fail(badField("q", `missing: words, "phrases" and fields, as in q=category:gpu-oom user:alice -retry`))
	}
	if q.err != nil {
		return nil, q.err
	}
	hits, err := s.corpus.Search(c.Request.Context(), text, limit, cursor)
	if hits.Hits == nil {
		hits.Hits = []corpus.Hit{}
	}
	return hits, err
}
