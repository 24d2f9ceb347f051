package web

import (
	"strconv"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

// passView is a pass with a part of the attempts whose verdict it changed.
type passView struct {
	corpus.Pass
	Changes []corpus.Moved `json:"changes"`        // by id
	Next    string         `json:"next,omitempty"` // cursor of the next part
}

// postReclassify begins to read the kept logs again with the rules in use.
func (s *Server) postReclassify(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "all", "dry_run")
	opt := corpus.PassOptions{All: q.choice("all", "true", "false") == "true", DryRun: q.choice("dry_run", "true", "false") == "true"}
	if q.err != nil {
		return nil, q.err
	}
	p, err := s.corpus.StartPass(c.Request.Context(), s.classifier.Load(), opt)
	if err != nil {
		return nil, err
	}
	s.log.InfoContext(c.Request.Context(), "reclassifying", "pass", p.ID, "rules_version", p.RulesVersion, "all", p.All, "dry_run", p.DryRun)
	return created{"/api/v1/reclassify", p}, nil
}

// getReclassify is how far the last pass has come and what it changed.
func (s *Server) getReclassify(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "limit", "cursor")
	limit, after := int(q.number("limit", 100, 1, 1000)), q.number("cursor", 0, 1, 1<<53)
	if q.err != nil {
		return nil, q.err
	}
	p, err := s.corpus.LastPass(c.Request.Context())
	if err != nil {
		return nil, err
	}
	v := passView{Pass: p}
	if v.Changes, err = s.corpus.MovedBy(c.Request.Context(), p.ID, after, limit); err != nil {
		return nil, err
	}
	if len(v.Changes) == limit {
		v.Next = strconv.FormatInt(v.Changes[limit-1].ID, 10)
	}
	return v, nil
}

func (s *Server) pauseReclassify(c *gin.Context) (any, error) {
	if q := newQuery(c.Request); q.err != nil {
		return nil, q.err
	}
	return s.corpus.PausePass(c.Request.Context())
}

func (s *Server) resumeReclassify(c *gin.Context) (any, error) {
	if q := newQuery(c.Request); q.err != nil {
		return nil, q.err
	}
	return s.corpus.ResumePass(c.Request.Context(), s.classifier.Load())
}

func (s *Server) cancelReclassify(c *gin.Context) (any, error) {
	if q := newQuery(c.Request); q.err != nil {
		return nil, q.err
	}
	return s.corpus.CancelPass(c.Request.Context())
}
