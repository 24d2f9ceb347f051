package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
)

const (
	linesBefore = 12 // of the line that is looked at
	linesAfter  = 20
	linesStep   = 200  // of a step through the log
	linesMost   = 2000 // of one page
	foundMost   = 100  // lines of a search on one page
)

// logQuery is which part of which log is asked for.
type logQuery struct {
	query
	file      string
	named     bool // file is given, be it empty
	at        int64
	from, to  int64
	find      string
	findAfter int64
}

func askLog(c *gin.Context) logQuery {
	q := newQuery(c.Request, "file", "at", "from", "to", "find", "after")
	ask := logQuery{file: q.text("file"), at: q.number("at", 0, 1, 1<<53), from: q.number("from", 0, 1, 1<<53), to: q.number("to", 0, 1, 1<<53),
		find: q.text("find"), findAfter: q.number("after", 0, 0, 1<<53)}
	_, ask.named = q.values["file"]
	if ask.to > 0 && ask.from > ask.to {
		q.fail(badField("to", "it is before from"))
	}
	ask.query = *q
	return ask
}

// logView is a piece of a log on a page, with the ways to other pieces.
type logView struct {
	Name     string
	Files    []choice
	From, To int64
	Total    int64
	Bytes    int64
	Lines    []lineView
	Raw      string
	More     string   // path of lines alone, for the script; it appends from and to
	Steps    []choice // a step without a link is not possible here
	Stops    []stop   // the lines that the verdict speaks of, in the order of the log
	Find     string
	Hidden   []choice // what the form of the search carries on
	Found    *foundLines
}

// stop is a line that a reader wants to see.
type stop struct {
	Line int64
	Kind string // root, cascade, other
	Rule string
	Rank string
	Link string
}

// foundLines are the lines in which a search found its text.
type foundLines struct {
	List []foundLine
	To   int64  // the last line that was looked at
	Next string // link to those after it
}

type foundLine struct {
	N      int64
	Link   string
	Pieces []piece
}

type lineView struct {
	N      int64
	Pieces []piece
	Kind   string // root, cascade, other
	Like   bool   // the line before, but for its numbers
}

// Class is what the style sheet and the script know the line by.
func (l lineView) Class() string {
	if l.Like {
		return l.Kind + " like"
	}
	return l.Kind
}

// linesPage is lines of a log alone, for the script that shows more of them.
func (s *Server) linesPage(c *gin.Context) (any, error) {
	ask := askLog(c)
	if ask.err != nil {
		return nil, ask.err
	}
	a, err := s.attempt(c)
	if err != nil {
		return nil, err
	}
	log, err := chooseLog(a, ask.file, ask.named)
	if err != nil {
		return nil, err
	}
	ask.from, ask.to = span(a, log, ask)
	return s.lines(c.Request.Context(), a, log, ask)
}

// viewLog reads the lines that are asked for; without a question those around the root cause or, without one, the last.
func (s *Server) viewLog(ctx context.Context, a corpus.Attempt, ask logQuery) (*logView, error) {
	log, err := chooseLog(a, ask.file, ask.named)
	if err != nil {
		return nil, err
	}
	v := &logView{Name: log.Name, Total: log.Lines, Bytes: log.Bytes, Find: ask.find, Stops: stopsOf(a, log),
		Raw:  link(fmt.Sprintf("/api/v1/attempts/%d/log", a.ID), "file", log.Name, "format", "text"),
		More: link(fmt.Sprintf("/attempts/%d/lines", a.ID), "file", log.Name, "find", ask.find)}
	for _, l := range a.Logs {
		if len(a.Logs) > 1 {
			v.Files = append(v.Files, choice{Label: l.Name, Link: attemptLink(a, l.Name, 0, 0) + "#log", Current: l.Name == log.Name})
		}
	}
	if len(a.Logs) > 1 {
		v.Hidden = append(v.Hidden, choice{Label: "file", Value: log.Name})
	}
	if ask.find != "" && log.Lines > 0 {
		if v.Found, err = s.find(ctx, a, log, ask); err != nil {
			return nil, err
		}
		if ask.at+ask.from+ask.to == 0 && len(v.Found.List) > 0 {
			ask.at = v.Found.List[0].N
		}
	}
	ask.from, ask.to = span(a, log, ask)
	v.From, v.To = ask.from, ask.to
	v.Steps = steps(a, log, ask)
	v.Lines, err = s.lines(ctx, a, log, ask)
	return v, err
}

// lines reads the lines from ask.from to ask.to.
func (s *Server) lines(ctx context.Context, a corpus.Attempt, log corpus.LogFile, ask logQuery) ([]lineView, error) {
	if log.Lines == 0 {
		return nil, nil
	}
	first := max(1, ask.from-1) // the line before tells whether the first one repeats it
	texts, err := s.corpus.Lines(ctx, a.ID, log.Name, first, ask.to)
	if err != nil {
		return nil, err
	}
	kinds := map[int64]string{}
	for _, s := range stopsOf(a, log) {
		kinds[s.Line] = s.Kind
	}
	var list []lineView
	shape := ""
	for i, text := range texts {
		n, before := first+int64(i), shape
		shape = shapeOf(text)
		if n >= ask.from {
			like := i > 0 && kinds[n] == "" && shape == before
			list = append(list, lineView{N: n, Kind: kinds[n], Pieces: foundText(text, ask.find), Like: like})
		}
	}
	return list, nil
}

// shapeOf is a line without its numbers: lines of one shape one after the other say the same again.
func shapeOf(text string) string {
	text = clip(text, maxShown)
	b := make([]byte, 0, len(text))
	for _, c := range []byte(text) {
		switch {
		case '0' <= c && c <= '9':
			if n := len(b); n == 0 || b[n-1] != '0' {
				b = append(b, '0')
			}
		case c == '.' && len(b) > 0 && b[len(b)-1] == '0': // of a fraction
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

func (s *Server) find(ctx context.Context, a corpus.Attempt, log corpus.LogFile, ask logQuery) (*foundLines, error) {
	found, err := s.corpus.FindLines(ctx, a.ID, log.Name, ask.find, ask.findAfter+1, foundMost)
	if err != nil {
		return nil, err
	}
	v := &foundLines{To: found.To}
	for i, n := range found.Lines {
		v.List = append(v.List, foundLine{n, logLink(a, log.Name, n, ask), foundText(around(found.Texts[i], ask.find), ask.find)})
	}
	if found.More {
		v.Next = link(fmt.Sprintf("/attempts/%d", a.ID), append(fileOf(a, log.Name), "find", ask.find, "after", fmt.Sprint(found.To))...) + "#log"
	}
	return v, nil
}

// around is the part of a long line in which a text stands.
func around(line, text string) string {
	const before, most = 60, 400
	if len(line) <= most {
		return line
	}
	at := 0
	if hits := places(line, text); len(hits) > 0 {
		at = hits[0][0]
	}
	from := max(0, at-before)
	part := line[from:min(len(line), from+most)]
	if from > 0 {
		part = "…" + part
	}
	return part
}

// span holds the asked lines to what the log has and a page may show.
func span(a corpus.Attempt, log corpus.LogFile, ask logQuery) (int64, int64) {
	from, to, root := ask.from, ask.to, a.Verdict.Root
	switch {
	case from > 0 && to == 0:
		to = from + linesStep - 1
	case from == 0 && to > 0:
		from = to - linesStep + 1
	case from == 0 && ask.at > 0:
		from, to = ask.at-linesBefore, ask.at+linesAfter
	case from == 0 && root != nil && isLog(a, log, root.File):
		from, to = root.Line-linesBefore, root.Line+linesAfter
	case from == 0:
		from, to = log.Lines-linesBefore-linesAfter, log.Lines
	}
	from = max(1, min(from, log.Lines))
	to = max(from, min(to, log.Lines, from+linesMost-1))
	return from, to
}

func steps(a corpus.Attempt, log corpus.LogFile, ask logQuery) []choice {
	all := []choice{{Label: "Start"}, {Label: "Earlier"}, {Label: "Root cause"}, {Label: "Later"}, {Label: "End"}}
	if ask.from > 1 {
		all[0].Link = attemptLink(a, log.Name, 1, linesStep) + "#log"
		all[1].Link = attemptLink(a, log.Name, max(1, ask.from-linesStep), ask.from-1) + "#log"
	}
	if a.Verdict.Root != nil {
		all[2].Link = lineLink(a, a.Verdict.Root.File, a.Verdict.Root.Line)
	}
	if ask.to < log.Lines {
		all[3].Link = attemptLink(a, log.Name, ask.to+1, ask.to+linesStep) + "#log"
		all[4].Link = attemptLink(a, log.Name, max(1, log.Lines-linesStep+1), log.Lines) + "#log"
	}
	return all
}

// fileOf are the parameters that name a log, which the only one does not need.
func fileOf(a corpus.Attempt, file string) []string {
	if len(a.Logs) > 1 {
		return []string{"file", file}
	}
	return nil
}

// attemptLink leads to lines of a log of an attempt; without lines, to those that the page chooses.
func attemptLink(a corpus.Attempt, file string, from, to int64) string {
	pairs := fileOf(a, file)
	if from > 0 {
		pairs = append(pairs, "from", fmt.Sprint(from), "to", fmt.Sprint(to))
	}
	return link(fmt.Sprintf("/attempts/%d", a.ID), pairs...)
}

// lineLink leads to a line of a log of an attempt.
func lineLink(a corpus.Attempt, file string, line int64) string {
	return logLink(a, file, line, logQuery{})
}

// logLink is lineLink with the search that is going on.
func logLink(a corpus.Attempt, file string, line int64, ask logQuery) string {
	if len(a.Logs) == 0 {
		return ""
	}
	pairs := append(fileOf(a, file), "at", fmt.Sprint(line), "find", ask.find)
	if ask.findAfter > 0 {
		pairs = append(pairs, "after", fmt.Sprint(ask.findAfter))
	}
	return fmt.Sprintf("%s#L%d", link(fmt.Sprintf("/attempts/%d", a.ID), pairs...), line)
}

// stopsOf are the lines of a log that the verdict speaks of. A line is one of them once.
func stopsOf(a corpus.Attempt, log corpus.LogFile) (list []stop) {
	v := a.Verdict
	add := func(kind string, line int64, file, rule, rank string) {
		known := slices.ContainsFunc(list, func(s stop) bool { return s.Line == line })
		if !known && isLog(a, log, file) {
			list = append(list, stop{line, kind, rule, rank, lineLink(a, log.Name, line)})
		}
	}
	if v.Root != nil {
		add("root", v.Root.Line, v.Root.File, v.Root.Rule, v.Root.Rank)
	}
	for _, e := range v.Cascade {
		add("cascade", e.Line, e.File, e.Rule, e.Rank)
	}
	for _, e := range v.Others {
		add("other", e.Line, e.File, e.Rule, e.Rank)
	}
	slices.SortFunc(list, func(a, b stop) int { return cmp.Compare(a.Line, b.Line) })
	return list
}
