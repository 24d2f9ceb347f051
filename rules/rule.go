package rules

import (
	"slices"
	"strings"
)

// Role is what a match can be in a failure.
type Role string

// The roles of a rule.
const (
	// Cause can have started the failure.
	Cause Role = "cause"
	// Symptom follows from another failure: a peer's timeout, a launcher's summary. It is the root cause only
	// where nothing else is found.
	Symptom Role = "symptom"
	// Fact is said by kernel, hardware, scheduler or container runtime about the job from outside. It outranks
	// what a process says about itself where it explains it, also when it is printed later.
	Fact Role = "fact"
)

// MaxLine is how much of a line Match looks at. A caller that has a longer one clips it around the literal.
const MaxLine = 8 << 10

// Rule is one signature: a failure message, what it means and what to do about it. It is read-only and safe for
// concurrent use.
type Rule struct {
	ID       string
	Category *Category
	Role     Role
	Generic  bool   // says that something failed but not why: gives way to any exact cause of the same episode
	Block    string // the block kind that this rule labels when no signature explains it; such a rule has no pattern
	Fault    Fault  // the rule's own or the category's
	Retry    Retry  // the rule's own or the category's
	Summary  string // one sentence as written in the pack; Sentence fills it
	Advice   string
	Source   string // where the message is printed: project, file or document
	File     string // pack, for messages
	Line     int    // line of the rule in its pack

	literals   []string
	ignoreCase bool
	pattern    *pattern // nil: the literals are the pattern
	sentence   sentence
}

// Match is where a rule matched a line, in bytes: line[Start:End]. Captures holds the named groups that took part,
// and is nil where none did.
type Match struct {
	Start, End int
	Captures   map[string]string
}

// Literals are the strings of which each matching line contains at least one, hand-written or derived from the
// pattern; where IgnoreCase, in lower case. The slice is the rule's own.
func (r *Rule) Literals() []string { return r.literals }

// IgnoreCase tells whether literals and pattern ignore the case of ASCII letters.
func (r *Rule) IgnoreCase() bool { return r.ignoreCase }

// Pattern is the pattern as written in the pack; "" where the literals are the pattern.
func (r *Rule) Pattern() string {
	if r.pattern == nil {
		return ""
	}
	return r.pattern.source
}

// Match finds the leftmost match in the first MaxLine bytes of an undressed line. It does not ask for the literals
// to be found first. The error wraps ErrMatchLimit: the pattern gave up.
func (r *Rule) Match(line string) (Match, bool, error) {
	line = line[:min(len(line), MaxLine)]
	if r.pattern == nil {
		m, ok := r.matchLiterals(line)
		return m, ok, nil
	}
	// The engine folds two letters beyond ASCII (K as in kelvin and the long s), which the gate does not.
	if r.ignoreCase && !r.Gated(line) {
		return Match{}, false, nil
	}
	return r.pattern.match(line)
}

// Gated tells whether the line contains one of the literals.
func (r *Rule) Gated(line string) bool {
	_, ok := r.matchLiterals(line)
	return ok
}

// matchLiterals finds the leftmost literal, of those that start there the longest.
func (r *Rule) matchLiterals(line string) (m Match, ok bool) {
	if r.ignoreCase {
		line = lowerASCII(line)
	}
	for _, lit := range r.literals {
		at := strings.Index(line, lit)
		if at < 0 {
			continue
		}
		if !ok || at < m.Start || at == m.Start && at+len(lit) > m.End {
			m, ok = Match{Start: at, End: at + len(lit)}, true
		}
	}
	return m, ok
}

// lowerASCII leaves all but the letters A to Z as it is, so that offsets and bytes hold.
func lowerASCII(s string) string {
	if !slices.ContainsFunc([]byte(s), isUpper) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if isUpper(c) {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
