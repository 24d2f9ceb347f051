package classifier

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"culprit/rules"
)

const (
	watchLines  = 300  // how many lines after a match are read one by one
	sampleLines = 24   // how many lines of each piece are, while it is open whether a match was survived
	lookBack    = 120  // how many lines before a match are searched for progress
	maxSpeakers = 4096 // further ones share a name
)

// scanner reads one log of an attempt.
type scanner struct {
	c    *Classifier
	a    *attempt
	file int

	line      int64 // number of the line that comes next, or that goes on
	lineStart int64 // offset of the line that goes on
	watch     int   // lines still to be read one by one
	unsettled bool  // a match waits to be survived
	progress  Progress
	advances  int  // lines of progress, of everybody
	finished  bool // the last progress was the job's end, and nothing failed since
	ended     bool // the job said at some time that it came to its end
	speakers  map[string]*speaker
	matches   map[int]*ruleMatches    // by index of the rule
	implicit  map[string]*ruleMatches // by kind of block
	tail      []byte                  // end of the piece before
	bars      bars
	pids      map[string]string // process id → rank
	summary   launcherSummary
}

// attempt collects what the logs of one attempt say.
type attempt struct {
	names    []string
	seq      int64
	blocks   int
	bytes    int64
	lines    int64
	matches  []*match
	progress Progress          // of the log that went furthest
	ended    bool              // a log says that the job came to its end
	ranks    map[string]string // process id → rank, from a launcher's summary
	timeouts int               // patterns given up on
}

// scan reads a log to its end and adds what it says to the attempt.
func (c *Classifier) scan(ctx context.Context, a *attempt, log Log) error {
	s := &scanner{c: c, a: a, file: len(a.names), line: 1, speakers: map[string]*speaker{}, matches: map[int]*ruleMatches{}, implicit: map[string]*ruleMatches{}}
	a.names = append(a.names, log.Name)
	total, lines, err := c.readChunks(ctx, log.Reader, s.consume)
	if err != nil {
		if log.Name != "" {
			return fmt.Errorf("log %s: %w", log.Name, err)
		}
		return err
	}
	a.bytes += total
	a.lines += lines
	s.finish()
	return nil
}

// scanChunk finds the literals in a piece. Lines with escape sequences are searched as they read without them.
func (c *Classifier) scanChunk(ch *chunk) {
	ch.hits = c.filter.scan(ch.data, ch.hits)
	if bytes.IndexByte(ch.data, 0x1b) >= 0 {
		ch.hits = c.scanColoured(ch.data, ch.hits)
	}
}

// scanColoured replaces the hits in lines with escape sequences by those in the same lines without them.
func (c *Classifier) scanColoured(data []byte, plain []hit) []hit {
	var all, found []hit
	var stripped []byte
	at := 0
	for at < len(data) {
		esc := bytes.IndexByte(data[at:], 0x1b)
		if esc < 0 {
			break
		}
		from := at + bytes.LastIndexByte(data[at:at+esc], '\n') + 1
		to := len(data)
		if i := bytes.IndexByte(data[at+esc:], '\n'); i >= 0 {
			to = at + esc + i
		}
		for len(plain) > 0 && int(plain[0].pos) < from {
			all, plain = append(all, plain[0]), plain[1:]
		}
		for len(plain) > 0 && int(plain[0].pos) < to {
			plain = plain[1:]
		}
		stripped = stripANSI(stripped[:0], data[from:to])
		found = c.filter.scan(stripped, found[:0])
		all = append(all, unstrip(data[from:to], found, from)...)
		at = to
	}
	return append(all, plain...)
}

// unstrip turns positions in a line without its escape sequences into positions in the line itself.
func unstrip(raw []byte, hits []hit, base int) []hit {
	at, plain := 0, 0
	for i := range hits {
		for at < len(raw) {
			if raw[at] == 0x1b {
				at += EscapeLen(raw[at:])
				continue
			}
			if plain == int(hits[i].pos) {
				break
			}
			at++
			plain++
		}
		hits[i].pos = int32(base + at)
	}
	return hits
}

// consume reads one piece: the lines with hits, the lines after them, and of the rest only how many there are.
func (s *scanner) consume(ch *chunk) {
	data, hits, pos := ch.data, ch.hits, 0
	if s.unsettled && s.watch == 0 {
		s.watch = sampleLines
	}
	if ch.continued {
		pos = s.resume(ch)
		for len(hits) > 0 && int(hits[0].pos) < pos {
			hits = hits[1:]
		}
	}
	for pos < len(data) {
		if s.watch == 0 {
			if len(hits) == 0 {
				s.line += int64(bytes.Count(data[pos:], newline))
				break
			}
			start := pos + bytes.LastIndexByte(data[pos:hits[0].pos], '\n') + 1
			s.line += int64(bytes.Count(data[pos:start], newline))
			s.findProgress(data[:start])
			pos = start
		}
		end := len(data)
		if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
			end = pos + i
		}
		n := 0
		for n < len(hits) && int(hits[n].pos) < end {
			n++
		}
		s.lineStart = ch.offset + int64(pos)
		s.readLine(data[pos:end], pos, hits[:n])
		hits = hits[n:]
		if s.watch > 0 {
			s.watch--
		}
		if end < len(data) {
			s.line++
		}
		pos = end + 1
	}
	if i := bytes.LastIndexByte(data, '\n'); ch.unended && (i >= 0 || !ch.continued) {
		s.lineStart = ch.offset + int64(i) + 1 // it goes on in the next piece
	}
	if !ch.unended {
		s.tail = append(s.tail[:0], data[max(0, len(data)-overlap):]...)
	}
}

// resume reads on in a line that began in a piece before, and returns where the line after it starts.
func (s *scanner) resume(ch *chunk) int {
	end := len(ch.data)
	if i := bytes.IndexByte(ch.data, '\n'); i >= 0 {
		end = i
	}
	raw := bytes.TrimRight(ch.data[:end], "\r")
	if lastRewrite(raw[min(ch.seen, len(raw)):]) >= 0 {
		s.forgetLine() // what stood there before was overwritten
	}
	var l line
	for _, h := range ch.hits {
		if int(h.pos) >= end {
			break
		}
		s.tryGate(h, raw, &l)
	}
	if end < len(ch.data) {
		s.line++
		return end + 1
	}
	return end
}

// forgetLine drops the matches of the line at hand.
func (s *scanner) forgetLine() {
	for _, m := range s.matches {
		for len(m.first) > 0 && m.first[len(m.first)-1].line == s.line {
			m.first = m.first[:len(m.first)-1]
		}
		for i, q := range m.last {
			if q != nil && q.line == s.line {
				m.last[i] = nil
			}
		}
		m.line = 0
	}
}

// readLine reads one line: what it is part of, what rules match it, whether it is progress. hits are those in the line,
// base is where the line starts in the buffer that their positions count from.
func (s *scanner) readLine(raw []byte, base int, hits []hit) {
	if len(hits) > 0 && s.onlyCheckpoints(hits) && s.watch == 0 {
		s.noteCheckpoint(undress(window(raw, 0, 0)).text)
		return
	}
	l := undress(window(raw, 0, 0))
	sp := s.speaker(l.who)
	echo, names := sp.blocks.follow(l.text, s.newBlock)
	l.raised, l.carrier = names, names && sp.blocks.block.carries()
	matched := false
	if !echo {
		for _, h := range hits {
			matched = s.tryGate(hit{literal: h.literal, pos: h.pos - int32(base)}, raw, &l) || matched
		}
	}
	if matched || names || sp.blocks.phase != outside {
		s.watch = max(s.watch, watchLines)
	}
	if names {
		s.nameException(sp, &l)
	}
	s.summary.read(l.text, s)
	switch {
	case echo || matched || names:
	case s.noteProgress(sp, l.text):
	case sp.blocks.phase == outside && l.text != "" && !chatter(l.text):
		sp.ordinary++
	}
}

// onlyCheckpoints reports whether nothing but the mention of a checkpoint was found in a line.
func (s *scanner) onlyCheckpoints(hits []hit) bool {
	for _, h := range hits {
		if int(h.literal) != s.c.gates {
			return false
		}
	}
	return true
}

// window is the part of a line that is looked at: all of it where it is short, else 4 KB on either side of pos.
func window(raw []byte, pos, length int) []byte {
	if len(raw) <= maxLine {
		return raw
	}
	from := max(0, pos-maxLine/2)
	to := min(len(raw), max(pos+length+maxLine/2, from+maxLine))
	return raw[from:to]
}

// tryGate tries the rules that a literal opens on its line. l is the line, undressed where it was so already.
func (s *scanner) tryGate(h hit, raw []byte, l *line) bool {
	if int(h.literal) >= s.c.gates {
		if int(h.literal) == s.c.gates {
			s.noteCheckpoint(l.text)
		}
		return false
	}
	gate := &s.c.set.Gates()[h.literal]
	view := l
	if len(raw) > maxLine || l.said == "" {
		if lastRewrite(bytes.TrimRight(raw[h.pos:], "\r")) >= 0 {
			return false // overwritten later in the line
		}
		seen, around := undress(window(raw, int(h.pos), len(gate.Literal))), *l
		around.text, around.said = seen.text, seen.said // who speaks, and how, the head of the line says
		view = &around
	}
	matched := false
	for _, i := range gate.Rules {
		matched = s.tryRule(i, view, raw, int(h.pos)) || matched
	}
	return matched
}

// tryRule tries one rule on a line, once a line. A rule that has matched often keeps the line for later.
func (s *scanner) tryRule(i int, l *line, raw []byte, pos int) bool {
	rm := s.matches[i]
	if rm == nil {
		rm = &ruleMatches{}
		s.matches[i] = rm
	}
	if rm.line == s.line {
		return false
	}
	rule := s.c.set.Rules()[i]
	if rm.full() {
		rm.line = s.line
		q := rm.slot()
		around := window(raw, pos, 0)
		if len(around) > 2<<10 {
			from := max(0, min(pos, len(raw))-1<<10)
			around = raw[from:min(len(raw), from+2<<10)]
		}
		q.raw = append(q.raw, around...)
		s.fill(q, rule, l)
		if len(rm.first) < kept {
			return false // nothing tells yet that it matches
		}
		q.explainBlock()
		return true
	}
	rm.tries++
	m, ok := s.try(rm, rule, l)
	if !ok || l.raised && rule.Category.ID == "incorrect-inputs" && s.writing(l) {
		return false
	}
	rm.line = s.line
	s.fill(m, rule, l)
	m.explainBlock()
	rm.first = append(rm.first, m)
	return true
}

// writing reports whether the exception on a line was raised by code that writes, renames or deletes files.
func (s *scanner) writing(l *line) bool {
	b := s.speaker(l.who).blocks.block
	return b != nil && b.writes
}

// try matches a rule against the message of a line, or, where its author counted a prefix in, against the whole line.
func (s *scanner) try(rm *ruleMatches, rule *rules.Rule, l *line) (*match, bool) {
	found, known := rm.known(l.text)
	if !known {
		found = s.search(rule, l.text)
		rm.note(l.text, found)
	}
	if found == nil && len(l.text) != len(l.said) {
		found = s.search(rule, l.said)
	}
	if found == nil || quoted(l.text, rule) {
		return nil, false
	}
	return &match{captures: found.Captures, at: found.Start, length: found.End - found.Start}, true
}

// search runs the rule's pattern. It returns nil where it does not match or takes too long.
func (s *scanner) search(rule *rules.Rule, text string) *rules.Match {
	found, ok, err := rule.Match(text)
	if err != nil {
		s.a.timeouts++
	}
	if !ok || err != nil {
		return nil
	}
	return &found
}

// fill notes where and by whom a match was said.
func (s *scanner) fill(m *match, rule *rules.Rule, l *line) {
	sp := s.speaker(l.who)
	s.a.seq++
	m.seq, m.rule, m.file, m.line, m.offset = s.a.seq, rule, s.file, s.line, s.lineStart
	m.text, m.said, m.rank, m.node, m.time, m.level = l.text, quote(l.said, len(l.said)-len(l.text)+m.at), l.rank, l.node, l.time, l.level
	m.logged, m.raised, m.carrier = l.logged, l.raised, l.carrier
	m.who, m.progressed, m.ordinary, m.allProgress, m.before = sp, sp.progressed, sp.ordinary, s.advances, s.progress
	if b := sp.blocks.block; b != nil {
		m.block, m.raise = b, len(b.exceptions)-1
	}
	if rule.Role != rules.Symptom {
		s.unsettled, s.finished = true, false
	}
}

// nameException notes the line that names an exception, as the evidence of its block should no rule explain it.
func (s *scanner) nameException(sp *speaker, l *line) {
	b := sp.blocks.block
	rule, ok := s.c.set.BlockRule(b.label())
	if !ok || b.root() != len(b.exceptions)-1 {
		return
	}
	e := b.exceptions[len(b.exceptions)-1]
	m := s.implicitMatch(b)
	before := *m
	*m = match{implicit: true, captures: map[string]string{"type": e.typ, "message": e.text}}
	s.fill(m, rule, l)
	if before.block == b { // the chain goes on: what came after its first exception still counts
		m.progressed, m.ordinary, m.allProgress = before.progressed, before.ordinary, before.allProgress
	}
}

// implicitMatch is the place of a block's implicit match: the one that it has, or a new one.
func (s *scanner) implicitMatch(b *block) *match {
	if b.at != nil && b.at.block == b {
		return b.at
	}
	rm := s.implicit[b.kind]
	if rm == nil {
		rm = &ruleMatches{}
		s.implicit[b.kind] = rm
	}
	if rm.full() {
		b.at = rm.slot()
	} else {
		b.at = &match{}
		rm.first = append(rm.first, b.at)
	}
	return b.at
}

func (s *scanner) newBlock(kind string) *block {
	s.a.blocks++
	return &block{id: s.a.blocks, kind: kind}
}

func (s *scanner) speaker(name string) *speaker {
	sp := s.speakers[name]
	if sp == nil {
		if len(s.speakers) >= maxSpeakers {
			name = ""
			if sp = s.speakers[name]; sp != nil {
				return sp
			}
		}
		sp = &speaker{name: name}
		s.speakers[name] = sp
	}
	return sp
}

// finish confirms what was kept for later and hands the matches over to the attempt.
func (s *scanner) finish() {
	s.findProgress(nil)
	for _, m := range s.matches {
		for _, q := range m.first {
			s.settle(q)
			s.a.matches = append(s.a.matches, q)
		}
		for _, q := range m.ring() {
			l := undress(q.raw)
			found, ok := s.try(m, q.rule, &l)
			if !ok {
				continue
			}
			q.captures, q.at, q.length, q.raw = found.captures, found.at, found.length, nil
			q.text, q.said = l.text, quote(l.said, len(l.said)-len(l.text)+q.at)
			q.explainBlock()
			s.settle(q)
			s.a.matches = append(s.a.matches, q)
		}
	}
	for _, m := range s.implicit {
		for _, q := range slices.Concat(m.first, m.ring()) {
			s.settle(q)
			s.a.matches = append(s.a.matches, q)
		}
	}
	s.a.ended = s.a.ended || s.ended
	if s.progress.LastLine > 0 && (s.a.progress.LastLine == 0 || later(s.progress, s.a.progress)) {
		s.a.progress = s.progress
	}
	for pid, rank := range s.pids {
		if s.a.ranks == nil {
			s.a.ranks = map[string]string{}
		}
		s.a.ranks[pid] = rank
	}
}

// mostQuoted is how many bytes of a line a verdict quotes.
const mostQuoted = 4 << 10

// quote is a line of a log as a verdict quotes it: all of it, or of a long line what stands around the match at at.
func quote(said string, at int) string {
	if len(said) <= mostQuoted {
		return said
	}
	from := max(0, min(at-mostQuoted/4, len(said)-mostQuoted))
	q := strings.ToValidUTF8(said[from:min(len(said), from+mostQuoted)], "")
	if from > 0 {
		q = "…" + q
	}
	if from+mostQuoted < len(said) {
		q += "…"
	}
	return q
}
