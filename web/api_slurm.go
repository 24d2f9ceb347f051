package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/corpus/trace"
)

// slurmReply says what became of a document. Slurm reads the status alone, people who look into a proxy's log the rest.
type slurmReply struct {
	Result  string `json:"result"` // created, updated or ignored
	Reason  string `json:"reason,omitempty"`
	Attempt int64  `json:"attempt,omitempty"`
}

// postSlurm keeps the run of a job that Slurm's jobcomp/elasticsearch plugin tells of.
//
// Slurm sends a document again and again until it is answered 200 or 201, and those that follow wait behind it. So what
// can never be kept is answered 200 and logged; only what may be kept another time is an error.
func (s *Server) postSlurm(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "cluster")
	cluster, named := q.text("cluster"), q.values.Has("cluster")
	if q.err != nil {
		return nil, q.err
	}
	leave, err := s.takePlace(c.Request.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	body, err := s.openBody(c)
	if err != nil {
		return nil, err
	}
	doc, err := io.ReadAll(io.LimitReader(body, maxJSON+1))
	if err != nil {
		return nil, err
	}
	if len(doc) > maxJSON {
		return nil, refuse(http.StatusRequestEntityTooLarge, "a document of more than %s: set JobCompParams without send_script", size(maxJSON))
	}
	rec, err := trace.JobCompletion(doc, trace.Options{Cluster: cluster})
	var skip *trace.Skip
	switch {
	case errors.As(err, &skip) && skip.Err == nil:
		return slurmReply{Result: "ignored", Reason: skip.Reason}, nil
	case err != nil:
		return nil, badField("", "not a document of Slurm's jobcomp/elasticsearch: %v", err)
	}
	if named {
		rec.Attempt.Cluster = cluster
	}
	return s.keepSlurm(c.Request.Context(), rec)
}

func (s *Server) keepSlurm(ctx context.Context, rec trace.Record) (any, error) {
	a := &rec.Attempt
	existed, err := s.keepRun(ctx, rec)
	var field *corpus.FieldError
	if errors.Is(err, corpus.ErrConflict) || errors.As(err, &field) {
		s.log.WarnContext(ctx, "ignored", "job", a.Job, "run", a.RunID, "from", "slurm", "err", err)
		return slurmReply{Result: "ignored", Reason: err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	s.log.InfoContext(ctx, "kept", "job", a.Job, "attempt", a.ID, "existed", existed, "category", a.Verdict.Category, "rule", a.Verdict.Rule, "from", "slurm")
	if existed {
		return slurmReply{Result: "updated", Attempt: a.ID}, nil
	}
	return created{fmt.Sprintf("/api/v1/attempts/%d", a.ID), slurmReply{Result: "created", Attempt: a.ID}}, nil
}

// keepRun adds a run, with its log where it failed and its log can be read. A log that is kept already stays, and is
// judged again with what is known of the run's end now.
func (s *Server) keepRun(ctx context.Context, rec trace.Record) (existed bool, err error) {
	a := rec.Attempt
	if log := s.openRunLog(ctx, rec); log != nil {
		existed, err = s.keep(ctx, upload{&a, one("", log)})
		log.Close()
		if err == nil {
			rec.Attempt = a
			return existed, nil
		}
		if !logTrouble(err) {
			return existed, err
		}
		s.log.WarnContext(ctx, "kept without its log", "job", a.Job, "log", rec.Log, "err", err)
		a = rec.Attempt
	}
	if a.Verdict, err = s.classify(ctx, &a, func(func(classifier.Log, error) bool) {}); err != nil {
		return false, err
	}
	if existed, err = s.corpus.Add(ctx, &a, nil); err != nil {
		return false, err
	}
	if existed && len(a.Logs) > 0 {
		err = s.judgeAgain(ctx, &a)
	}
	return existed, err
}

// logTrouble tells what is wrong with a log from what is wrong with the run or the server.
func logTrouble(err error) bool {
	var conflict *corpus.ConflictError
	var path *fs.PathError
	return errors.As(err, &conflict) && conflict.Field == "logs" || errors.As(err, &path)
}

// openRunLog opens the stderr of a run that failed, or its last part where it is longer than an upload may be. It is nil
// where there is none to be read.
func (s *Server) openRunLog(ctx context.Context, rec trace.Record) *os.File {
	if rec.Log == "" || s.logRoots.Empty() || rec.Attempt.Succeeded() {
		return nil
	}
	f, err := s.logRoots.Open(rec.Log, rec.Owner)
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() > s.maxBytes {
			_, err = f.Seek(info.Size()-s.maxBytes, io.SeekStart)
		}
		if err == nil && info.Size() > 0 {
			return f
		}
		f.Close()
	}
	if err != nil {
		s.log.InfoContext(ctx, "no log read", "job", rec.Attempt.Job, "log", rec.Log, "err", err)
	}
	return nil
}

// judgeAgain classifies the kept logs of an attempt anew.
func (s *Server) judgeAgain(ctx context.Context, a *corpus.Attempt) error {
	v, err := s.classify(ctx, a, func(yield func(classifier.Log, error) bool) {
		for _, l := range a.Logs {
			r, _, err := s.corpus.OpenLog(ctx, a.ID, l.Name)
			if err != nil {
				yield(classifier.Log{}, err)
				return
			}
			more := yield(classifier.Log{Name: l.Name, Reader: r}, nil)
			r.Close()
			if !more {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	a.Verdict = v
	return s.corpus.SetVerdict(ctx, a.ID, v)
}
