package rules

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/dlclark/regexp2/v2/syntax"
)

const (
	// maxPattern bounds a pattern's length in bytes, and with it what parsing and proving it can cost.
	maxPattern = 4 << 10
	// matchTimeout ends a match that backtracks without end. The engine's clock ticks every 100 ms, so it ends
	// between 100 and 300 ms.
	matchTimeout = 100 * time.Millisecond
)

// pattern is a compiled .NET-style expression. Only named groups capture.
type pattern struct {
	source     string
	ignoreCase bool
	once       sync.Once // compiles what is not yet
	re         *regexp2.Regexp
	groups     []group // the named ones
}

type group struct {
	name   string
	number int
}

// compile makes a pattern that always has a time-out and never runs from right to left.
func compile(source string, ignoreCase bool) (p *pattern, err error) {
	if len(source) > maxPattern {
		return nil, fmt.Errorf("longer than %d bytes", maxPattern)
	}
	if opt := inlineOption(source); opt != "" {
		return nil, fmt.Errorf("inline option %s: use the rule's ignore_case; the other options do nothing for one line", opt)
	}
	p = &pattern{source: source, ignoreCase: ignoreCase}
	if err := p.compile(); err != nil {
		return nil, err
	}
	return p, nil
}

// compile makes the engine's form of the pattern.
func (p *pattern) compile() error {
	re, err := regexp2.Compile(p.source, patternOptions(p.ignoreCase))
	if err != nil {
		return err
	}
	re.MatchTimeout = matchTimeout
	for _, n := range re.GetGroupNumbers() {
		if name := re.GroupNameFromNumber(n); name != "" && (name[0] < '0' || name[0] > '9') {
			p.groups = append(p.groups, group{name, n})
		}
	}
	p.re = re
	return nil
}

// compiled compiles a trusted pattern when it is first needed. That it compiles was proved before.
func (p *pattern) compiled() *pattern {
	p.once.Do(func() {
		if p.re != nil {
			return
		}
		if err := p.compile(); err != nil {
			panic(fmt.Sprintf("pattern %q was proved and does not compile: %v", p.source, err))
		}
	})
	return p
}

func patternOptions(ignoreCase bool) regexp2.RegexOptions {
	if ignoreCase {
		return regexp2.ExplicitCapture | regexp2.IgnoreCase
	}
	return regexp2.ExplicitCapture
}

// tree parses the pattern the way that the engine does.
func (p *pattern) tree() (*syntax.RegexTree, error) {
	return syntax.Parse(p.source, syntax.ParseOptions{RegexOptions: syntax.RegexOptions(patternOptions(p.ignoreCase))})
}

// match finds the leftmost match. Offsets are in bytes of line; invalid UTF-8 counts as one character a byte. The
// error is a match that took too long or too much memory.
func (p *pattern) match(line string) (Match, bool, error) {
	found, err := p.compiled().re.FindStringMatch(line)
	if errors.Is(err, regexp2.ErrBacktrackingStackLimit) {
		return Match{}, false, fmt.Errorf("%w: too deep a search", ErrMatchLimit)
	}
	if err != nil { // its text would quote the line
		return Match{}, false, fmt.Errorf("%w: more than %v", ErrMatchLimit, matchTimeout)
	}
	if found == nil {
		return Match{}, false, nil
	}
	start, length := found.ByteRange()
	m := Match{Start: start, End: start + length}
	for _, g := range p.groups {
		if got := found.GroupByNumber(g.number); got != nil && len(got.Captures) > 0 {
			if m.Captures == nil {
				m.Captures = make(map[string]string, len(p.groups))
			}
			m.Captures[g.name] = got.String()
		}
	}
	return m, true, nil
}

// ErrMatchLimit says that a pattern gave up on a line: too long or too deep a search.
var ErrMatchLimit = errors.New("match limit exceeded")

// inlineOption finds the first group that switches options inside a pattern, as (?i) or (?i:…); "" where there is none.
func inlineOption(source string) string {
	inClass := false
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\\':
			i++
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
			// A bracket that closes nothing stands first: []…] or [^]…].
			if i+1 < len(source) && source[i+1] == '^' {
				i++
			}
			if i+1 < len(source) && source[i+1] == ']' {
				i++
			}
		case c == '(' && i+2 < len(source) && source[i+1] == '?':
			end := i + 2
			for end < len(source) && (isLetter(source[end]) || source[end] == '-' || source[end] == '+') {
				end++
			}
			if end > i+2 && end < len(source) && (source[end] == ')' || source[end] == ':') {
				return source[i : end+1]
			}
		}
	}
	return ""
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
