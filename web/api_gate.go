package web

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"culprit/classifier"
	"culprit/corpus"
)

// SetPolicy makes the gate decide by another policy from now on.
func (s *Server) SetPolicy(p classifier.Policy) { s.policy.Store(&p) }

// postGate decides retry or stop for the logs in the body, which are not kept, or without a body for the attempt that
// the query names. The job's kept attempts before it are its history.
func (s *Server) postGate(c *gin.Context) (any, error) {
	if c.Request.ContentLength == 0 {
		m := newMetadata()
		if err := m.setQuery(c.Request); err != nil {
			return nil, err
		}
		return s.decideKept(c.Request.Context(), m.attempt)
	}
	leave, err := s.takePlace(c.Request.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	up, err := s.readUpload(c, uploadRules{})
	if err != nil {
		return nil, err
	}
	if up.attempt.Verdict, err = s.classify(c.Request.Context(), up.attempt, up.logs); err != nil {
		return nil, err
	}
	var history []corpus.Attempt
	if up.attempt.Job != "" {
		if history, err = s.corpus.History(c.Request.Context(), up.attempt.Cluster, up.attempt.Job); err != nil {
			return nil, err
		}
	}
	return s.decide(c.Request.Context(), *up.attempt, history), nil
}

// decideKept decides for a kept attempt: the one of that number, else the job's last.
func (s *Server) decideKept(ctx context.Context, asked *corpus.Attempt) (any, error) {
	if asked.Job == "" {
		return nil, badField("job", "missing: say which job is meant, as in ?job=4711, or send a log as the body")
	}
	history, err := s.corpus.History(ctx, asked.Cluster, asked.Job)
	if err != nil {
		return nil, err
	}
	for i, a := range history {
		if asked.Number == 0 && i == len(history)-1 || asked.Number > 0 && a.Number == asked.Number {
			return s.decide(ctx, a, history[:i]), nil
		}
	}
	return nil, refuse(http.StatusNotFound, "job %s has no such attempt here; if it ran on a named cluster, say &cluster=", quote(asked.Job))
}

// decide is the gate's decision by the policy in use. It is logged, so that shadow mode leaves a record.
func (s *Server) decide(ctx context.Context, a corpus.Attempt, earlier []corpus.Attempt) classifier.Decision {
	d := classifier.Decide(*s.policy.Load(), a.Record(), corpus.Records(earlier))
	s.metrics.decisions.WithLabelValues(string(d.Verdict), string(d.Would), string(d.Mode), d.Category).Inc()
	s.log.InfoContext(ctx, "decided", "job", a.Job, "attempt", a.Number, "verdict", d.Verdict, "would", d.Would, "mode", d.Mode,
		"category", d.Category, "rule", d.Rule)
	return d
}
