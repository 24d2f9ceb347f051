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
type piece struct {
	Text string
	Sign string
	Hit  bool
}

const maxShown = 2000 // bytes of a log line on a page; the raw log has all of it

// escapes are ANSI sequences: colours and cursor movements, titles of terminals, and short ones.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]|\x1b[()][0-9A-Za-z]`)

// logText makes a line of a log fit to be shown: what a terminal would show of it, with everything that is invisible,
// turns the writing direction or is no text as a visible mark.
func logText(line string) []piece { return shown(line, nil) }

// markedText is logText with the byte ranges that a search found.
func markedText(line string, hits [][2]int) []piece { return shown(line, hits) }

func shown(line string, hits [][2]int) (out []piece) {
	rest := 0
	if hits == nil {
		line, out = onScreen(line)
	}
	if len(line) > maxShown {
		cut := strings.TrimSuffix(clip(line, maxShown), "…")
		rest, line = len(line)-len(cut), cut
	}
	at := 0
	for _, h := range hits {
		from := min(max(h[0], at), len(line))
		to := min(max(h[1], from), len(line))
		out = signs(out, line[at:from], false)
		out = signs(out, line[from:to], true)
		at = to
	}
	out = signs(out, line[at:], false)
	if rest > 0 {
		out = append(out, piece{Text: "… " + size(int64(rest)) + " more", Sign: "the line is longer; the raw log has all of it"})
	}
	return out
}

// onScreen is what a terminal would show in the end of a line that is rewritten with \r, without ANSI codes.
func onScreen(line string) (string, []piece) {
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
	return escapes.ReplaceAllString(line, ""), out
}

// signs appends text, with marks for what must not reach a page as it is.
func signs(out []piece, text string, hit bool) []piece {
	start := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		mark, sign := signOf(r, n, text[i])
		if mark != "" {
			if start < i {
				out = append(out, piece{Text: text[start:i], Hit: hit})
			}
			out = append(out, piece{Text: mark, Sign: sign})
			start = i + n
		}
		i += n
	}
	if start < len(text) {
		out = append(out, piece{Text: text[start:], Hit: hit})
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
