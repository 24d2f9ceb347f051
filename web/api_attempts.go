package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"culprit/classifier"
	"culprit/corpus"
)

// postClassify gives a verdict for the logs in the body and keeps nothing.
func (s *Server) postClassify(c *gin.Context) (any, error) {
	leave, err := s.takePlace(c.Request.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	up, err := s.readUpload(c, uploadRules{})
	if err != nil {
		return nil, err
	}
	return s.classify(c.Request.Context(), up.attempt, up.logs)
}

// postAttempt keeps an attempt with its logs and its verdict.
func (s *Server) postAttempt(c *gin.Context) (any, error) {
	leave, err := s.takePlace(c.Request.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	up, err := s.readUpload(c, uploadRules{needJob: true})
	if err != nil {
		return nil, err
	}
	existed, err := s.keep(c.Request.Context(), up)
	if err != nil || existed {
		return up.attempt, err
	}
	return created{fmt.Sprintf("/api/v1/attempts/%d", up.attempt.ID), up.attempt}, nil
}

// keep classifies an upload and adds it to the corpus. Nobody sees any of it before Add.
func (s *Server) keep(ctx context.Context, up upload) (existed bool, err error) {
	kept, err := s.corpus.NewLog()
	if err != nil {
		return false, err
	}
	defer kept.Discard() // does nothing after Add
	a := up.attempt
	a.Verdict, err = s.classify(ctx, a, kept.Tee(up.logs))
	if err != nil {
		return false, err
	}
	if existed, err = s.corpus.Add(ctx, a, kept); err != nil {
		return false, err
	}
	s.log.InfoContext(ctx, "kept", "job", a.Job, "attempt", a.ID, "existed", existed, "category", a.Verdict.Category, "rule", a.Verdict.Rule, "bytes", a.Verdict.Bytes)
	return existed, nil
}

// classify reads logs to their end. The attempt's exit is read after them, because a form may give it last.
func (s *Server) classify(ctx context.Context, a *corpus.Attempt, l logs) (classifier.Verdict, error) {
	start := time.Now()
	v, err := s.classifier.Load().ClassifyLate(ctx, func() classifier.Exit { return a.Exit }, l)
	if err != nil {
		return v, err
	}
	s.metrics.classifyTime.Observe(time.Since(start).Seconds())
	s.metrics.logBytes.Add(float64(v.Bytes))
	s.metrics.verdicts.WithLabelValues(v.Category, string(v.Fault), string(v.Retry)).Inc()
	return v, nil
}

// getAttempts lists attempts, the last to end first.
func (s *Server) getAttempts(c *gin.Context) (any, error) {
	q := newQuery(c.Request, append(filterNames, "sort", "limit", "cursor")...)
	f := q.filter()
	f.Sort, f.Limit, f.Cursor = q.text("sort"), int(q.number("limit", 50, 1, 1000)), q.text("cursor")
	if q.err != nil {
		return nil, q.err
	}
	page, err := s.corpus.Attempts(c.Request.Context(), f)
	if page.Attempts == nil {
		page.Attempts = []corpus.Attempt{}
	}
	return page, err
}

func (s *Server) getAttempt(c *gin.Context) (any, error) {
	if q := newQuery(c.Request); q.err != nil {
		return nil, q.err
	}
	return s.attempt(c)
}

// attempt is the one that the path names.
func (s *Server) attempt(c *gin.Context) (corpus.Attempt, error) {
	id, err := strconv.ParseInt(param(c, "id"), 10, 64)
	if err != nil || id < 1 {
		return corpus.Attempt{}, refuse(http.StatusNotFound, "attempt %s: not found; ids are whole numbers", quote(param(c, "id")))
	}
	return s.corpus.Attempt(c.Request.Context(), id)
}

const (
	maxLines     = 10_000
	defaultLines = 500
)

// logLines is a piece of a log.
type logLines struct {
	File  string    `json:"file"`
	From  int64     `json:"from"`
	To    int64     `json:"to"`    // less than asked for where the log ends or the lines are very long
	Total int64     `json:"total"` // lines of the whole log
	Lines []logLine `json:"lines"`
}

type logLine struct {
	Line int64  `json:"line"`
	Text string `json:"text"` // bytes that are no UTF-8 are replaced; a line of over 16 KiB is cut, with a mark
}

// getLog answers lines of a kept log as JSON, or its text as it is.
func (s *Server) getLog(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "file", "from", "to", "format")
	_, hasFile := q.values["file"]
	file, format := q.text("file"), q.choice("format", "json", "text")
	from, to := q.number("from", 0, 1, 1<<53), q.number("to", 0, 1, 1<<53)
	if q.err != nil {
		return nil, q.err
	}
	a, err := s.attempt(c)
	if err != nil {
		return nil, err
	}
	log, err := chooseLog(a, file, hasFile)
	if err != nil {
		return nil, err
	}
	text := format == "text" || format == "" && prefers(c, "text/plain")
	if text && from == 0 && to == 0 {
		return s.wholeLog(c, a, log)
	}
	if from == 0 {
		from = 1
	}
	if to == 0 {
		to = min(from+defaultLines-1, max(log.Lines, from))
	}
	switch {
	case to < from:
		return nil, badField("to", "it is before from")
	case to-from >= maxLines:
		return nil, badField("to", "at most %d lines at once; the whole log comes with format=text and neither from nor to", maxLines)
	}
	lines, err := s.corpus.Lines(c.Request.Context(), a.ID, log.Name, from, to)
	if err != nil {
		return nil, err
	}
	if text {
		return textFile(strings.Join(lines, "\n") + "\n"), nil
	}
	return numbered(log, from, lines), nil
}

// chooseLog is the log that is named, else the one with the root cause, else the first.
func chooseLog(a corpus.Attempt, name string, named bool) (corpus.LogFile, error) {
	if !named && a.Verdict.Root != nil {
		name, named = a.Verdict.Root.File, true
	}
	for _, l := range a.Logs {
		if !named || isLog(a, l, name) {
			return l, nil
		}
	}
	if len(a.Logs) == 0 {
		return corpus.LogFile{}, refuse(http.StatusNotFound, "attempt %d was kept without a log", a.ID)
	}
	return corpus.LogFile{}, &problem{Status: http.StatusNotFound, Field: "file", Detail: fmt.Sprintf("attempt %d has no log %s; its first is %s", a.ID, quote(name), quote(a.Logs[0].Name))}
}

// isLog tells whether a name in a request or a verdict means this log. The only log of an attempt may go unnamed.
func isLog(a corpus.Attempt, l corpus.LogFile, name string) bool {
	return l.Name == name || name == "" && len(a.Logs) == 1
}

func (s *Server) wholeLog(c *gin.Context, a corpus.Attempt, log corpus.LogFile) (any, error) {
	body, log, err := s.corpus.OpenLog(c.Request.Context(), a.ID, log.Name)
	if err != nil {
		return nil, err
	}
	return file{contentType: "text/plain; charset=utf-8", download: downloadName(a.ID, log.Name), length: log.Bytes, body: body}, nil
}

func downloadName(id int64, name string) string {
	if name == "" {
		name = "log"
	}
	return fmt.Sprintf("attempt-%d-%s.txt", id, strings.TrimSuffix(name, ".txt"))
}

func numbered(log corpus.LogFile, from int64, lines []string) logLines {
	out := logLines{File: log.Name, From: from, To: from + int64(len(lines)) - 1, Total: log.Lines, Lines: make([]logLine, len(lines))}
	for i, text := range lines {
		out.Lines[i] = logLine{from + int64(i), strings.ToValidUTF8(text, "\uFFFD")}
	}
	return out
}

// prefers tells whether the client names a media type before JSON in its Accept header.
func prefers(c *gin.Context, mediaType string) bool {
	accept := c.GetHeader("Accept")
	i, j := strings.Index(accept, mediaType), strings.Index(accept, "application/json")
	return i >= 0 && (j < 0 || i < j)
}

// jobView is a job with its attempts and what the gate says of the last one now.
type jobView struct {
	Job      string              `json:"job"`
	Cluster  string              `json:"cluster,omitempty"`
	User     string              `json:"user,omitempty"`
	Attempts []corpus.Attempt    `json:"attempts"` // the oldest first
	Gate     classifier.Decision `json:"gate"`
}

func (s *Server) getJob(c *gin.Context) (any, error) {
	q := newQuery(c.Request, "cluster")
	cluster := q.text("cluster")
	if q.err != nil {
		return nil, q.err
	}
	job := param(c, "job")
	attempts, err := s.corpus.History(c.Request.Context(), cluster, job)
	if err != nil {
		return nil, err
	}
	if len(attempts) == 0 {
		return nil, refuse(http.StatusNotFound, "job %s: not found; if it ran on a named cluster, say ?cluster=", quote(job))
	}
	last := len(attempts) - 1
	gate := classifier.Decide(*s.policy.Load(), attempts[last].Record(), corpus.Records(attempts[:last]))
	return jobView{job, cluster, attempts[last].User, attempts, gate}, nil
}
