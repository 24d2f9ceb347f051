package classifier

import "bytes"

// Whether a failure was survived is told by what came after it, so the reader notes progress as it goes, and looks back
// for it where it had only counted lines.

// noteProgress notes a line of progress and reports whether the line is one.
func (s *scanner) noteProgress(sp *speaker, text string) bool {
	if sp.blocks.phase == frames || sp.blocks.phase == box {
		return false
	}
	adv, ok := progressOf(text)
	if !ok {
		return false
	}
	if s.bars.redrawn(adv) {
		return true
	}
	sp.progressed++
	s.advances++
	s.advance(adv, s.line)
	s.finished, s.ended = adv.finish, s.ended || adv.finish
	return true
}

// advance notes how far the job has come.
func (s *scanner) advance(adv advance, line int64) {
	s.progress.LastLine = line
	if adv.step >= 0 && (adv.isStep || s.progress.Step == nil) {
		step := adv.step
		s.progress.Step = &step
	}
}

func (s *scanner) noteCheckpoint(text string) {
	if step, ok := checkpointOf(text); ok {
		s.progress.CheckpointStep = &step
	}
}

// findProgress looks for the last line of progress in what stands before the line at hand. before ends with the line
// before it; the end of the piece before is looked at too.
func (s *scanner) findProgress(before []byte) {
	n := s.searchBack(before, 0)
	if n >= 0 && n < lookBack && len(before) < overlap {
		s.searchBack(s.tail, n)
	}
}

// barsBefore is how many lines of progress before the line at hand are remembered as bars that may be drawn again.
const barsBefore = 4

// searchBack reads the lines of b from its end, done lines having been read before, until some are progress. It returns how
// many lines were read, or -1 where the last progress was found.
func (s *scanner) searchBack(b []byte, done int) int {
	found := 0
	n := done
	for ; n < lookBack && found < barsBefore; n++ {
		b = bytes.TrimSuffix(b, newline)
		if len(b) == 0 {
			break
		}
		i := bytes.LastIndexByte(b, '\n')
		if adv, ok := progressOf(undress(window(b[i+1:], 0, 0)).text); ok {
			found++
			s.bars.redrawn(adv)
			if line := s.line - int64(n) - 1; found == 1 && line > s.progress.LastLine {
				s.advance(adv, line)
				s.finished, s.ended = adv.finish, s.ended || adv.finish
			}
		} else if found > 0 {
			break
		}
		b = b[:i+1]
	}
	if found > 0 {
		return -1
	}
	return n
}

// othersGoOn is how many lines of progress by others say that a failure was survived: peers of a dead rank stop within a
// step or two, and what they had printed before may still come.
const othersGoOn = 12

// doubtAfter is how many ordinary lines by the same speaker put a failure in doubt.
const doubtAfter = 4

// settle decides whether a match was survived.
func (s *scanner) settle(m *match) {
	own := m.who.progressed - m.progressed
	others := s.advances - m.allProgress
	m.survived = m.block != nil && m.block.ignored || own >= 2 || own == 1 && s.finished || others >= othersGoOn || own+others > 0 && s.finished
	m.doubtful = m.who.ordinary-m.ordinary >= doubtAfter
}

// later reports whether p came further than q.
func later(p, q Progress) bool {
	if p.Step == nil || q.Step == nil {
		return p.Step != nil
	}
	return *p.Step > *q.Step
}
