package web

import (
	"context"
	"fmt"

	"github.com/gin-gonic/gin"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/rules"
)

type attemptView struct {
	layout
	Attempt corpus.Attempt
	Verdict verdictView
	Log     *logView // nil where the attempt has no log
	History []corpus.Attempt
	Similar int64 // other attempts with the same fingerprint
	Alike   string
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

// attemptPage shows one attempt: its verdict, and its log around the line that proves it.
func (s *Server) attemptPage(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "file", "from", "to")
	_, named := q.values["file"]
	file, from, to := q.text("file"), q.number("from", 0, 1, 1<<53), q.number("to", 0, 1, 1<<53)
	if q.err != nil {
		return nil, q.err
	}
	ctx := c.Request.Context()
	a, err := s.attempt(c)
	if err != nil {
		return nil, err
	}
	v := attemptView{layout: s.layout(fmt.Sprintf("Job %s, attempt %d", a.Job, a.Number), "attempts"), Attempt: a}
	v.Verdict = viewVerdict(a.Verdict, func(file string, line int64) string { return lineLink(a, file, line) })
	if len(a.Logs) > 0 {
		log, err := chooseLog(a, file, named)
		if err != nil {
			return nil, err
		}
		if v.Log, err = s.viewLog(ctx, a, log, from, to); err != nil {
			return nil, err
		}
	}
	if v.History, err = s.corpus.History(ctx, a.Cluster, a.Job); err != nil {
		return nil, err
	}
	return v, s.fillSimilar(ctx, &v)
}

func (s *Server) fillSimilar(ctx context.Context, v *attemptView) error {
	fingerprint := v.Attempt.Verdict.Fingerprint
	if fingerprint == "" || v.Attempt.Verdict.Rule == "" { // silence is no likeness
		return nil
	}
	page, err := s.corpus.Attempts(ctx, corpus.Filter{Fingerprints: []string{fingerprint}, Limit: 1})
	v.Similar, v.Alike = page.Total-1, link("/attempts", "fingerprint", fingerprint, "range", "all")
	return err
}

const (
	linesBefore = 12 // of the root cause, at first
	linesAfter  = 20
	linesStep   = 200  // of a step through the log
	linesMost   = 2000 // of one page
)

// logView is a piece of a log on a page, with the ways to other pieces.
type logView struct {
	Name     string
	Files    []choice
	From, To int64
	Total    int64
	Bytes    int64
	Lines    []lineView
	Raw      string
	Steps    []choice // a step without a link is not possible here
}

type lineView struct {
	N       int64
	Pieces  []piece
	Root    bool
	Cascade bool
}

// viewLog reads lines from to to; where neither is given, those around the root cause or, without one, the last.
func (s *Server) viewLog(ctx context.Context, a corpus.Attempt, log corpus.LogFile, from, to int64) (*logView, error) {
	from, to = span(a, log, from, to)
	v := &logView{Name: log.Name, Total: log.Lines, Bytes: log.Bytes, From: from, To: to,
		Raw: link(fmt.Sprintf("/api/v1/attempts/%d/log", a.ID), "file", log.Name, "format", "text")}
	for _, l := range a.Logs {
		if len(a.Logs) > 1 {
			v.Files = append(v.Files, choice{Label: l.Name, Link: attemptLink(a, l.Name, 0, 0) + "#log", Current: l.Name == log.Name})
		}
	}
	v.Steps = steps(a, log, from, to)
	if log.Lines == 0 {
		return v, nil
	}
	lines, err := s.corpus.Lines(ctx, a.ID, log.Name, from, to)
	if err != nil {
		return nil, err
	}
	is := marksOf(a, log)
	for i, text := range lines {
		n := from + int64(i)
		v.Lines = append(v.Lines, lineView{n, logText(text), is[n] == "root", is[n] == "cascade"})
	}
	return v, nil
}

// span holds the asked lines to what the log has and a page may show.
func span(a corpus.Attempt, log corpus.LogFile, from, to int64) (int64, int64) {
	root := a.Verdict.Root
	switch {
	case from > 0 && to == 0:
		to = from + linesStep - 1
	case from == 0 && to > 0:
		from = to - linesStep + 1
	case from == 0 && root != nil && isLog(a, log, root.File):
		from, to = root.Line-linesBefore, root.Line+linesAfter
	case from == 0:
		from, to = log.Lines-linesBefore-linesAfter, log.Lines
	}
	from = max(1, min(from, log.Lines))
	to = max(from, min(to, log.Lines, from+linesMost-1))
	return from, to
}

func steps(a corpus.Attempt, log corpus.LogFile, from, to int64) []choice {
	all := []choice{{Label: "Start"}, {Label: "Earlier"}, {Label: "Root cause"}, {Label: "Later"}, {Label: "End"}}
	if from > 1 {
		all[0].Link = attemptLink(a, log.Name, 1, linesStep) + "#log"
		all[1].Link = attemptLink(a, log.Name, max(1, from-linesStep), from-1) + "#log"
	}
	if a.Verdict.Root != nil {
		all[2].Link = lineLink(a, a.Verdict.Root.File, a.Verdict.Root.Line)
	}
	if to < log.Lines {
		all[3].Link = attemptLink(a, log.Name, to+1, to+linesStep) + "#log"
		all[4].Link = attemptLink(a, log.Name, max(1, log.Lines-linesStep+1), log.Lines) + "#log"
	}
	return all
}

// attemptLink leads to lines of a log of an attempt; without lines, to those that the page chooses.
func attemptLink(a corpus.Attempt, file string, from, to int64) string {
	var pairs []string
	if len(a.Logs) > 1 {
		pairs = append(pairs, "file", file)
	}
	if from > 0 {
		pairs = append(pairs, "from", fmt.Sprint(from), "to", fmt.Sprint(to))
	}
	return link(fmt.Sprintf("/attempts/%d", a.ID), pairs...)
}

func lineLink(a corpus.Attempt, file string, line int64) string {
	if len(a.Logs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s#L%d", attemptLink(a, file, max(1, line-linesBefore), line+linesAfter), line)
}

// marksOf tells which lines of a log the verdict speaks of.
func marksOf(a corpus.Attempt, log corpus.LogFile) map[int64]string {
	is := map[int64]string{}
	for _, e := range a.Verdict.Cascade {
		if isLog(a, log, e.File) {
			is[e.Line] = "cascade"
		}
	}
	if root := a.Verdict.Root; root != nil && isLog(a, log, root.File) {
		is[root.Line] = "root"
	}
	return is
}
