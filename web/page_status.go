package web

import (
	"errors"
	"runtime"
	"time"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

type statusView struct {
	layout
	Go           string
	Up           time.Duration
	RulesVersion string
	Rules        int
	Packs        int
	Stats        corpus.Stats
	Pass         *corpus.Pass // the last one over kept logs; nil for none
}

// statusPage tells how the server is.
func (s *Server) statusPage(c *gin.Context) (any, error) {
	if q := newQuery(c.Request); q.err != nil {
		return nil, q.err
	}
	ctx := c.Request.Context()
	set := s.classifier.Load().Rules()
	v := statusView{layout: s.layout("Status", ""), Go: runtime.Version(), Up: time.Since(s.started).Round(time.Second), RulesVersion: set.Version(), Rules: len(set.Rules())}
	packs := map[string]bool{}
	for _, r := range set.Rules() {
		packs[viewRule(r).Pack] = true
	}
	v.Packs = len(packs)
	var err error
	if v.Stats, err = s.corpus.Stats(ctx); err != nil {
		return nil, err
	}
	pass, err := s.corpus.LastPass(ctx)
	if err == nil {
		v.Pass = &pass
	} else if errors.Is(err, corpus.ErrNotFound) {
		err = nil
	}
	return v, err
}
