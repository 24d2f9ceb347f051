package web

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text from a log. A piece with a Sign stands for bytes that would not be seen or would do
// something: a page shows Text as a mark, with Sign to explain it. A piece with Hit is what a search found.
// Class is how a terminal would colour it.
type piece struct {
	Text  string
	Sign  string
	Hit   bool
	Class string
}

const maxShown = 2000 // bytes of a log line on a page; the raw log has all of it

// escapes are ANSI sequences: colours and cursor movements, titles of terminals, and short ones.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\x1b[()][0-9A-Za-z]`)

// logText makes a line of a log fit to be shown: what a terminal would show of it, with everything that is invisible,
// turns the writing direction or is no text as a visible mark.
func logText(line string) []piece {
	line, styles, out := onScreen(line)
	return shown(out, line, styles, nil)
}

// foundText is logText with the places marked where a text stands, ASCII letters in either case.
func foundText(line, text string) []piece {
	line, styles, out := onScreen(line)
	return shown(out, line, styles, places(line, text))
}

// markedText is logText with the byte ranges that a search found, of a text without ANSI codes.
func markedText(line string, hits [][2]int) []piece { return shown(nil, line, nil, hits) }

// maxPlaces bounds the marks of a line.
const maxPlaces = 100

func places(line, text string) (hits [][2]int) {
	line, text = asciiLower(line), asciiLower(text)
	for at := 0; text != "" && len(hits) < maxPlaces; {
		i := strings.Index(line[at:], text)
		if i < 0 {
			break
		}
		hits = append(hits, [2]int{at + i, at + i + len(text)})
		at += i + len(text)
	}
	return hits
}

// asciiLower keeps the length of a text, which strings.ToLower does not.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// shown appends the pieces of a line, cut where a style or a hit begins or ends.
func shown(out []piece, line string, styles []style, hits [][2]int) []piece {
	rest := 0
	if len(line) > maxShown {
		cut := strings.TrimSuffix(clip(line, maxShown), "…")
		rest, line = len(line)-len(cut), cut
	}
	s := styler{styles: styles}
	at := 0
	for _, h := range hits {
		from := min(max(h[0], at), len(line))
		to := min(max(h[1], from), len(line))
		out = s.append(out, line, at, from, false)
		out = s.append(out, line, from, to, true)
		at = to
	}
	out = s.append(out, line, at, len(line), false)
	if rest > 0 {
		out = append(out, piece{Text: "… " + size(int64(rest)) + " more", Sign: "the line is longer; the raw log has all of it"})
	}
	return out
}

// onScreen is what a terminal would show in the end of a line that is rewritten with \r: its text without ANSI codes and
// how they colour it.
func onScreen(line string) (string, []style, []piece) {
	line = strings.TrimSuffix(line, "\r")
	var out []piece
	if rewrites := strings.Count(line, "\r"); rewrites > 0 {
		states := strings.Split(line, "\r")
		slices.Reverse(states)
		for _, state := range states {
			if strings.TrimSpace(state) != "" {
				line = state
				break
			}
		}
		out = append(out, piece{Text: fmt.Sprintf("↻ %d", rewrites), Sign: fmt.Sprintf("the line was rewritten %d times; this is its last state", rewrites)})
	}
	if !strings.Contains(line, "\x1b") {
		return line, nil, out
	}
	text, styles := coloured(line)
	return text, styles, out
}

// signs appends text, with marks for what must not reach a page as it is.
func signs(out []piece, text string, hit bool, class string) []piece {
	start := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		mark, sign := signOf(r, n, text[i])
		if mark != "" {
			if start < i {
				out = append(out, piece{Text: text[start:i], Hit: hit, Class: class})
			}
			out = append(out, piece{Text: mark, Sign: sign})
			start = i + n
		}
		i += n
	}
	if start < len(text) {
		out = append(out, piece{Text: text[start:], Hit: hit, Class: class})
	}
	return out
}

func signOf(r rune, n int, first byte) (mark, sign string) {
	switch {
	case r == utf8.RuneError && n == 1:
		return fmt.Sprintf(`\x%02x`, first), "a byte that is not UTF-8"
	case r == '\t':
		return "", ""
	case r < 0x20, r == 0x7f:
		return fmt.Sprintf(`\x%02x`, first), "a control character"
	case unicode.IsControl(r):
		return fmt.Sprintf("U+%04X", r), "a control character"
	case unicode.Is(unicode.Bidi_Control, r):
		return fmt.Sprintf("U+%04X", r), "turns the writing direction"
	case unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
		return fmt.Sprintf("U+%04X", r), "an invisible character"
	}
	return "", ""
}
