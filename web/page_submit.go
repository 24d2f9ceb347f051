package web

import (
	"io"
	"strconv"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

type submitView struct {
	layout
	Err     *problem
	Keep    bool
	Pasted  string
	Attempt corpus.Attempt
	Exit    string
	Verdict *verdictView // of a log that was classified and not kept
}

func (s *Server) submitPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request)
	return submitView{layout: s.layout("Submit a log", "submit")}, q.err
}

// postSubmit takes the form: a pasted log or files, to be classified only or kept as an attempt.
func (s *Server) postSubmit(c *gin.Context) (any, error) {
	v := submitView{layout: s.layout("Submit a log", "submit")}
	a, err := s.submit(c, &v)
	if a != nil {
		v.Attempt = *a
		if a.Exit.Code != nil {
			v.Exit = strconv.Itoa(*a.Exit.Code)
		}
	}
	if err != nil {
		// A browser shows the answer only when it got rid of what it sends.
		_, _ = io.CopyN(io.Discard, c.Request.Body, 64<<20)
		v.Err = s.problem(c, err)
		if v.Err.Status >= 500 {
			return nil, err
		}
		return rejected{err, v}, nil
	}
	if v.Keep {
		return seeOther(attemptLink(*a, "", 0, 0)), nil
	}
	verdict := viewVerdict(a.Verdict, func(string, int64) string { return "" })
	v.Verdict = &verdict
	return v, nil
}

// submit reads the form to its end. What it says about keeping may come after the log, so the log is staged either way.
func (s *Server) submit(c *gin.Context, v *submitView) (*corpus.Attempt, error) {
	leave, err := s.takePlace(c.Request.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	var keep string
	up, err := s.readUpload(c, uploadRules{form: map[string]*string{"keep": &keep}, pasted: &v.Pasted})
	if err != nil {
		return up.attempt, err
	}
	kept, err := s.corpus.NewLog()
	if err != nil {
		return up.attempt, err
	}
	defer kept.Discard()
	up.attempt.Verdict, err = s.classify(c.Request.Context(), up.attempt, kept.Tee(up.logs))
	v.Keep = keep == "yes"
	if err != nil || !v.Keep {
		return up.attempt, err
	}
	if up.attempt.Job == "" {
		return up.attempt, badField("job", "missing: an attempt is kept under its job’s id")
	}
	_, err = s.corpus.Add(c.Request.Context(), up.attempt, kept)
	return up.attempt, err
}
