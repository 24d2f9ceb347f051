package web

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

type searchView struct {
	layout
	Asked bool
	Err   *problem
	Hits  corpus.Hits
	Found []foundView
	Next  string
}

// foundView is a hit with links to its lines.
type foundView struct {
	corpus.Hit
	Excerpts []excerptView
}

type excerptView struct {
	corpus.Excerpt
	Link string
}

// searchPage finds attempts. A question that cannot be understood is answered beside the box it came from.
func (s *Server) searchPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "q", "cursor")
	v := searchView{layout: s.layout("Search", "search")}
	v.Query = q.text("q")
	v.Asked = v.Query != ""
	cursor := q.text("cursor")
	if q.err != nil || !v.Asked {
		return v, q.err
	}
	hits, err := s.corpus.Search(c.Request.Context(), v.Query, 20, cursor)
	if err != nil {
		if v.Err = problemOf(err); v.Err.Status == http.StatusBadRequest {
			return rejected{err, v}, nil
		}
		return nil, err
	}
	v.Hits = hits
	for _, h := range hits.Hits {
		found := foundView{Hit: h}
		for _, e := range h.Excerpts {
			found.Excerpts = append(found.Excerpts, excerptView{e, lineLink(h.Attempt, e.File, e.Line)})
		}
		v.Found = append(v.Found, found)
	}
	if hits.Next != "" {
		v.Next = link("/search", "q", v.Query, "cursor", hits.Next)
	}
	return v, nil
}
