package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/gin-gonic/gin"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/rules"
)

type attemptView struct {
	layout
	Attempt    corpus.Attempt
	Verdict    verdictView
	Timeline   *timeline // nil where there is nothing to compare
	Log        *logView  // nil where the attempt has no log
	History    []historyView
	Similar    int64            // other attempts with the same fingerprint
	Others     []corpus.Attempt // the latest of them
	Alike      string
	Correction correctionView
}

// historyView is an attempt of the job with what the gate says after it.
type historyView struct {
	corpus.Attempt
	Gate *classifier.Decision // nil after an attempt that did not fail
}

// verdictView is a verdict in words, with links to its lines where the log is kept.
type verdictView struct {
	classifier.Verdict
	Failed  bool
	Turn    string // who has to do something
	Chances string // whether a retry helps, in a sentence
	Sure    string
	Root    *evidenceView
	Cascade []evidenceView
	Others  []evidenceView
}

type evidenceView struct {
	classifier.Evidence
	Link string // "" where the log is not kept
}

func viewVerdict(v classifier.Verdict, linkTo func(file string, line int64) string) verdictView {
	view := verdictView{Verdict: v, Failed: failed(v), Turn: turn(string(v.Fault)), Chances: chances(string(v.Retry)), Sure: sureness(v.Confidence)}
	show := func(e classifier.Evidence) evidenceView { return evidenceView{e, linkTo(e.File, e.Line)} }
	if v.Root != nil {
		root := show(*v.Root)
		view.Root = &root
	}
	for _, e := range v.Cascade {
		view.Cascade = append(view.Cascade, show(e))
	}
	for _, e := range v.Others {
		view.Others = append(view.Others, show(e))
	}
	return view
}

func failed(v classifier.Verdict) bool { return v.Category != rules.CategoryNone }

func turn(fault string) string {
	switch fault {
	case "user":
		return "The job’s owner has to change something."
	case "infrastructure":
		return "The platform’s operators have to look at it; the job itself is not at fault."
	}
	return "The log does not settle whose side the fault is on."
}

func chances(retry string) string {
	switch retry {
	case "never":
		return "The same job fails again until somebody changes something."
	case "once":
		return "One retry shows whether it was chance; the same failure twice means it was not."
	case "always":
		return "It can pass by itself: retry, with some time between."
	case "elsewhere":
		return "Retry on other nodes: this node or GPU is suspect."
	}
	return ""
}

func sureness(confidence float64) string {
	switch {
	case confidence >= 0.9:
		return "sure"
	case confidence >= 0.6:
		return "likely"
	}
	return "a guess"
}

// attemptPage shows the verdict of an attempt, its log where the cause is, and what else is known of the job.
func (s *Server) attemptPage(c *gin.Context) (any, error) {
	v, err := s.viewAttempt(c)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (s *Server) viewAttempt(c *gin.Context) (*attemptView, error) {
	ask := askLog(c)
	if ask.err != nil {
		return nil, ask.err
	}
	ctx := c.Request.Context()
	a, err := s.attempt(c)
	if err != nil {
		return nil, err
	}
	v := &attemptView{layout: s.layout(fmt.Sprintf("Job %s, attempt %d", a.Job, a.Number), "attempts"), Attempt: a}
	v.Verdict = viewVerdict(a.Verdict, func(file string, line int64) string { return lineLink(a, file, line) })
	v.Timeline = newTimeline(v.Verdict)
	if len(a.Logs) > 0 {
		if v.Log, err = s.viewLog(ctx, a, ask); err != nil {
			return nil, err
		}
	}
	return v, errors.Join(s.fillHistory(ctx, v), s.fillSimilar(ctx, v), s.fillCorrection(ctx, v))
}

// fillHistory adds the job's attempts, each with what the gate says from what was known then, by the policy of now.
func (s *Server) fillHistory(ctx context.Context, v *attemptView) error {
	history, err := s.corpus.History(ctx, v.Attempt.Cluster, v.Attempt.Job)
	if err != nil {
		return err
	}
	records := corpus.Records(history)
	for i, a := range history {
		h := historyView{Attempt: a}
		if failed(a.Verdict) {
			d := classifier.Decide(*s.policy.Load(), records[i], records[:i])
			h.Gate = &d
		}
		v.History = append(v.History, h)
	}
	return nil
}

const similarShown = 5

// fillSimilar adds the attempts that failed in the same way, those of other jobs first of all.
func (s *Server) fillSimilar(ctx context.Context, v *attemptView) error {
	fingerprint := v.Attempt.Verdict.Fingerprint
	if fingerprint == "" || v.Attempt.Verdict.Rule == "" { // silence is no likeness
		return nil
	}
	page, err := s.corpus.Attempts(ctx, corpus.Filter{Fingerprints: []string{fingerprint}, Limit: 50})
	v.Similar, v.Alike = page.Total-1, "/fingerprints/"+url.PathEscape(fingerprint)
	for _, a := range page.Attempts {
		if len(v.Others) < similarShown && (a.Job != v.Attempt.Job || a.Cluster != v.Attempt.Cluster) {
			v.Others = append(v.Others, a)
		}
	}
	return err
}
