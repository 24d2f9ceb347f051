package classifier

import (
	"slices"
	"time"

	"culprit/rules"
)

// match is a line that a rule matched, or the line at the end of a block that no rule explains.
type match struct {
	seq      int64 // order over all logs of the attempt, as read
	rule     *rules.Rule
	implicit bool // the rule labels a block that nothing explains
	captures map[string]string
	at       int // where in the message it starts
	length   int // bytes that matched: of two rules on a line the longer is the more exact

	file    int // index of the log
	line    int64
	offset  int64
	text    string // the message
	said    string // the line as it stands in the log
	rank    string
	node    string
	time    time.Time
	level   level
	who     *speaker
	block   *block
	logged  bool // by c10's logger
	raised  bool // the line names the exception at the end of a traceback
	raise   int  // which exception of its block
	carrier bool // the line repeats what was raised in another process; the original follows in its block

	// What had been said before the match, so that what came after it can be told.
	progressed  int
	ordinary    int
	allProgress int
	before      Progress

	raw      []byte // not yet matched: the bytes around the literal, looked at when the log has ended
	survived bool   // the same speaker, or everybody else for long, made progress afterwards
	doubtful bool   // the speaker went on talking of other things: it may have survived
}

// explainBlock notes that a cause or a fact matched a line of the block.
func (m *match) explainBlock() {
	if m.block != nil && m.rule.Role != rules.Symptom {
		m.block.explained = true
	}
}

// speaker is whoever writes under one prefix in one log.
type speaker struct {
	name       string
	progressed int // lines of progress
	ordinary   int // lines that are neither progress nor part of a failure
	blocks     blockState
}

// bars remembers what the last progress bars of a log showed: n of total.
type bars struct {
	shown [8][2]int64
	next  int
}

// redrawn reports whether a progress bar shows what it showed before, as open bars do when an exception unwinds them, and
// remembers what it shows.
func (p *bars) redrawn(adv advance) bool {
	now := [2]int64{adv.n, adv.of}
	if adv.of == 0 {
		return false
	}
	if slices.Contains(p.shown[:], now) {
		return true
	}
	p.shown[p.next%len(p.shown)] = now
	p.next++
	return false
}

// kept is how many matches of a rule are kept from the start of a log, and how many from its end.
const kept = 32

// ruleMatches are the matches of one rule in one log: the first ones, and the last ones in a ring.
type ruleMatches struct {
	first []*match
	last  [kept]*match
	n     int   // put into the ring so far
	line  int64 // last line that the rule was tried on
	tries int   // lines that the pattern was tried on

	tried [4]tried // the last texts and what came of them: ranks say the same one after the other
	next  int
}

// tried is a text that a pattern was tried on, and the match, nil where there was none.
type tried struct {
	text  string
	found *rules.Match
}

// known finds what came of a text that was tried before.
func (m *ruleMatches) known(text string) (found *rules.Match, ok bool) {
	for i := range m.tried {
		if t := &m.tried[i]; t.text == text && text != "" {
			return t.found, true
		}
	}
	return nil, false
}

// note keeps what came of a text.
func (m *ruleMatches) note(text string, found *rules.Match) {
	m.tried[m.next%len(m.tried)] = tried{text, found}
	m.next++
}

// mostTries is how many lines of a log a pattern is tried on. Of further ones the last are kept and tried at the end.
const mostTries = 20_000

// full reports whether further lines go into the ring unseen.
func (m *ruleMatches) full() bool { return len(m.first) == kept || m.tries >= mostTries }

// slot is the ring's place for the next match; what it held is forgotten, its buffer can be used again.
func (m *ruleMatches) slot() *match {
	i := m.n % kept
	m.n++
	if m.last[i] == nil {
		m.last[i] = &match{}
	}
	raw := m.last[i].raw[:0]
	*m.last[i] = match{raw: raw}
	return m.last[i]
}

// ring is what the ring holds, oldest first.
func (m *ruleMatches) ring() []*match {
	var all []*match
	for i := range kept {
		if q := m.last[(m.n+i)%kept]; q != nil {
			all = append(all, q)
		}
	}
	return all
}
