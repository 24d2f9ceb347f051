package corpus

import (
	"bytes"

	"culprit/classifier"
)

// Of a log only salient lines are indexed: first the evidence of the verdict with what stands around it, then the last
// lines, then the first few and the last line of each shape in the log's head and tail, lines of one shape being those
// that differ in numbers and ids only. A log that repeats itself gives little, whatever its length.
const (
	salientBytes    = 32 << 10  // of an attempt with one log
	salientMore     = 2 << 10   // for each log more
	salientMost     = 128 << 10 // of an attempt
	regionBytes     = 256 << 10 // head and tail of a log that are looked through
	regionsBytes    = 4 << 20   // heads of all logs of an attempt; a head has regionLeast in any case
	regionLeast     = 8 << 10
	maxSalientLogs  = 512
	tailLines       = 40
	linesBefore     = 6 // around evidence
	linesAfter      = 10
	firstOfShape    = 3
	lastOfShape     = 2
	maxEvidence     = 24
	maxIndexedLine  = 1 << 10
	maxEvidenceLine = 4 << 10
)

// textLine is a line of a log as a reader sees it.
type textLine struct {
	file  string
	line  int64
	text  []byte
	shape uint64 // of lines of a head or tail
}

// picker collects salient lines within a budget of bytes.
type picker struct {
	budget int
	lines  []textLine
	taken  map[lineKey]struct{}
	first  map[uint64]int // lines of a shape taken from the front
	last   map[uint64]int // and from the back
}

type lineKey struct {
	file string
	line int64
}

// salient returns the salient lines of logs of an attempt, the most important first. Logs whose files are missing or
// damaged are left out and said in the error; the lines of the others are right.
func (c *Corpus) salient(a *Attempt, files []LogFile) (lines []textLine, failed error) {
	if len(files) == 0 {
		return nil, nil
	}
	files = files[:min(len(files), maxSalientLogs)]
	region := max(min(regionBytes, regionsBytes/len(files)), regionLeast)
	var logs []*logRegions
	for _, f := range files {
		l, err := c.openRegions(f, evidenceOf(&a.Verdict, f.Name, len(a.Logs) == 1), region)
		if err != nil {
			failed = err
			continue
		}
		logs = append(logs, l)
	}
	p := &picker{
		budget: min(salientBytes+salientMore*(len(files)-1), salientMost),
		taken:  map[lineKey]struct{}{}, first: map[uint64]int{}, last: map[uint64]int{},
	}
	p.pick(logs, p.budget/len(files))
	return p.lines, failed
}

// pick takes lines of all logs, each of which has a share of the budget beside its evidence.
func (p *picker) pick(logs []*logRegions, share int) {
	for _, l := range logs {
		for _, line := range l.evidence {
			p.take(line)
		}
	}
	for _, l := range logs {
		p.within(share/4, func() { p.takeBack(l.tail, tailLines) })
	}
	for _, l := range logs {
		p.within(share/2, func() { p.takeShapes(l.head) })
	}
	for _, l := range logs {
		p.within(share, func() { p.takeBack(l.tail, len(l.tail)) })
	}
}

// evidenceOf returns the lines of a log that the verdict names, the root cause's first.
func evidenceOf(v *classifier.Verdict, file string, only bool) []int64 {
	var lines []int64
	take := func(e *classifier.Evidence) {
		if (e.File == file || only) && e.Line > 0 && len(lines) < maxEvidence {
			lines = append(lines, e.Line)
		}
	}
	if v.Root != nil {
		take(v.Root)
	}
	for i := range v.Others {
		take(&v.Others[i])
	}
	for i := range v.Cascade {
		take(&v.Cascade[i])
	}
	return lines
}

// within runs f with at most n bytes of the budget.
func (p *picker) within(n int, f func()) {
	rest := p.budget - min(n, p.budget)
	p.budget -= rest
	f()
	p.budget += rest
}

// take takes a line unless it is taken already or the budget is spent.
func (p *picker) take(l textLine) {
	key := lineKey{l.file, l.line}
	if _, taken := p.taken[key]; taken || len(l.text) == 0 || len(l.text) >= p.budget {
		return
	}
	p.taken[key] = struct{}{}
	p.budget -= len(l.text) + 1
	p.lines = append(p.lines, l)
}

// takeShapes takes the first lines of each shape.
func (p *picker) takeShapes(lines []textLine) {
	for _, l := range lines {
		if p.first[l.shape] < firstOfShape {
			p.first[l.shape]++
			p.take(l)
		}
	}
}

// takeBack takes the last lines of each shape in the last n lines, from the end.
func (p *picker) takeBack(lines []textLine, n int) {
	for i := len(lines) - 1; i >= max(0, len(lines)-n); i-- {
		if s := lines[i].shape; p.last[s] < lastOfShape {
			p.last[s]++
			p.take(lines[i])
		}
	}
}

// logRegions are the lines of a log that can be salient. Head and tail overlap in a short log.
type logRegions struct {
	evidence, head, tail []textLine
}

// openRegions reads from a log what salient lines are taken from: the frames of its head and tail, and those that the
// evidence is in.
func (c *Corpus) openRegions(f LogFile, evidence []int64, region int) (*logRegions, error) {
	r, err := c.openDigest(f.Digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	l := &logRegions{}
	for i, line := range evidence {
		if err := l.readAround(r, f.Name, line, i == 0); err != nil {
			return nil, err
		}
	}
	head, err := r.readAt(nil, 0, region)
	if err != nil {
		return nil, err
	}
	l.head = splitLines(f.Name, 1, head)
	l.tail = l.head
	if r.size() > int64(region) {
		l.tail, err = readTail(r, f.Name, region)
	}
	return l, err
}

// readAround reads the lines around evidence. The evidence comes first: it must not fall to the budget.
func (l *logRegions) readAround(r *logReader, file string, line int64, root bool) error {
	from := max(1, line-linesBefore)
	list, err := r.lines(from, line+linesAfter)
	if err != nil {
		return err
	}
	for i, text := range list {
		limit := maxIndexedLine
		if from+int64(i) == line {
			limit = maxEvidenceLine
		}
		t := textLine{file: file, line: from + int64(i), text: indexed([]byte(text), limit)}
		if t.line == line && root {
			l.evidence = append([]textLine{t}, l.evidence...)
		} else {
			l.evidence = append(l.evidence, t)
		}
	}
	return nil
}

// readTail reads the last lines of a log, from the first that begins in its last region bytes on.
func readTail(r *logReader, file string, region int) ([]textLine, error) {
	tail, err := r.readAt(nil, r.size()-int64(region), region)
	if err != nil {
		return nil, err
	}
	first := r.newlines() - int64(bytes.Count(tail, newline)) + 1
	if cut := bytes.IndexByte(tail, '\n'); cut >= 0 && cut < len(tail)-1 {
		return splitLines(file, first+1, tail[cut+1:]), nil
	}
	return splitLines(file, first, tail), nil // the end of one very long line
}

// splitLines returns the lines of a text that begins with line number first. It changes the text.
func splitLines(file string, first int64, text []byte) []textLine {
	lines := make([]textLine, 0, bytes.Count(text, newline)+1)
	for n := first; len(text) > 0; n++ {
		line, rest, _ := bytes.Cut(text, newline)
		line = indexed(line, maxIndexedLine)
		lines = append(lines, textLine{file, n, line, shape(line)})
		text = rest
	}
	return lines
}

// indexed returns what is indexed of a line.
func indexed(line []byte, limit int) []byte {
	line = plain(line)
	return line[:min(len(line), limit)]
}
