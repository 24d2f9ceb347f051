package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxCapture bounds what a capture adds to a sentence, in bytes.
const maxCapture = 200

// sentence is a parsed summary: text with places for captures, some of it optional.
type sentence []part

// part is a run of a summary. A part in square brackets is left out when one of its captures is empty.
type part struct {
	optional bool
	pieces   []piece
}

// piece is text, or the place of a capture.
type piece struct{ text, capture string }

// Sentence fills the summary. Captures may also hold what the caller knows of the speaker (rank, node). Control
// characters are taken out of captures and each is cut to 200 bytes, so the result is one printable line.
func (r *Rule) Sentence(captures map[string]string) string {
	clean := make(map[string]string, len(captures))
	for name, value := range captures {
		clean[name] = cleanCapture(value)
	}
	var b strings.Builder
	for _, p := range r.sentence {
		if !p.optional || p.filled(clean) {
			p.write(&b, clean)
		}
	}
	return b.String()
}

func (p part) filled(captures map[string]string) bool {
	return !slices.ContainsFunc(p.pieces, func(q piece) bool { return q.capture != "" && captures[q.capture] == "" })
}

func (p part) write(b *strings.Builder, captures map[string]string) {
	for _, q := range p.pieces {
		b.WriteString(q.text)
		b.WriteString(captures[q.capture])
	}
}

func cleanCapture(s string) string {
	s = s[:min(len(s), 4*maxCapture)] // bounds the work
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError || r == '\u2028' || r == '\u2029':
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if len(s) <= maxCapture {
		return s
	}
	cut := maxCapture - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// parseSentence reads a summary and says which names stand in it.
func parseSentence(summary string) (s sentence, names []string, err error) {
	if strings.ContainsFunc(summary, unicode.IsControl) {
		return nil, nil, errors.New("more than one line")
	}
	rest := summary
	for rest != "" {
		if !strings.HasPrefix(rest, "[") {
			text, after, _ := cutBefore(rest, "[")
			p, err := parsePart(text)
			if err != nil {
				return nil, nil, err
			}
			s, rest = append(s, p), after
			continue
		}
		text, after, ok := strings.Cut(rest[1:], "]")
		if !ok || strings.Contains(text, "[") {
			return nil, nil, fmt.Errorf("%q: brackets do not pair", rest)
		}
		p, err := parsePart(text)
		if err != nil {
			return nil, nil, err
		}
		p.optional = true
		if !slices.ContainsFunc(p.pieces, func(q piece) bool { return q.capture != "" }) {
			return nil, nil, fmt.Errorf("[%s]: an optional part without a {name} would never be left out", text)
		}
		s, rest = append(s, p), after
	}
	for _, p := range s {
		for _, q := range p.pieces {
			if q.capture != "" {
				names = append(names, q.capture)
			}
		}
	}
	return s, names, nil
}

// cutBefore is strings.Cut that leaves the separator to the second half.
func cutBefore(s, sep string) (before, after string, found bool) {
	if i := strings.Index(s, sep); i >= 0 {
		return s[:i], s[i:], true
	}
	return s, "", false
}

func parsePart(text string) (p part, err error) {
	if strings.Contains(text, "]") {
		return p, fmt.Errorf("%q: brackets do not pair", text)
	}
	for text != "" {
		plain, rest, found := strings.Cut(text, "{")
		if strings.Contains(plain, "}") {
			return p, fmt.Errorf("%q: braces do not pair", plain)
		}
		if plain != "" {
			p.pieces = append(p.pieces, piece{text: plain})
		}
		if !found {
			break
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok || !isName(name) {
			return p, fmt.Errorf("{%s: not a {name}", rest)
		}
		p.pieces = append(p.pieces, piece{capture: name})
		text = after
	}
	return p, nil
}

// isName tells whether s can be the name of a capture.
func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isLetter(s[i]) && s[i] != '_' && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}
