package corpus

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/analysis"

	"culprit/classifier"
)

// A text is indexed as words: runs of letters, in lower case, and numbers of up to maxDigits digits. Letters and digits
// are words of their own, so that "rank 3", rank3 and [rank3] are the same. What differs from run to run is not
// indexed: longer numbers, decimals of as many digits, hex, UUIDs, times of day, random ids. It leaves a gap, which in a
// phrase stands for anything.
const (
	maxDigits = 4
	maxWord   = 40 // bytes; what is longer is data
)

// word is a word of a text, or a gap if its text is empty.
type word struct {
	text       string
	start, end int // bytes of the text it was in
}

// words calls visit for every word and gap of a line, in order.
func words(line []byte, visit func(word)) {
	for i := 0; i < len(line); {
		r, size := rune(line[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(line[i:])
		}
		switch {
		case r < utf8.RuneSelf && isAlnum(byte(r)):
			i += alnum(line, i, visit)
		case r >= utf8.RuneSelf && unicode.IsLetter(r):
			n := letters(line[i:])
			visit(word{strings.ToLower(string(line[i : i+n])), i, i + n})
			i += n
		default:
			i += size
		}
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isAlnum(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// letters returns the length of the word of letters beyond ASCII that b begins with. Scripts that put no space between
// words have a word for every letter; a phrase of them is found all the same.
func letters(b []byte) int {
	n := 0
	for n < len(b) && n < maxWord {
		r, size := utf8.DecodeRune(b[n:])
		if !unicode.IsLetter(r) && !unicode.Is(unicode.Mn, r) {
			break
		}
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) {
			if n == 0 {
				n = size
			}
			break
		}
		n += size
	}
	return n
}

// alnum visits what the run of ASCII letters and digits at i is, and returns its length with all that belongs to it.
func alnum(line []byte, i int, visit func(word)) int {
	n := clockLength(line[i:])
	if n == 0 {
		n = uuidLength(line[i:])
	}
	if n > 0 {
		visit(word{"", i, i + n})
		return n
	}
	for n < len(line)-i && isAlnum(line[i+n]) {
		n++
	}
	run := line[i : i+n]
	if i+n < len(line) && line[i+n] >= utf8.RuneSelf && !bytes.ContainsFunc(run, unicode.IsDigit) {
		if more := letters(line[i:]); more > n { // a word with letters of its language
			visit(word{strings.ToLower(string(line[i : i+more])), i, i + more})
			return more
		}
	}
	if isNumber(run) {
		return number(line, i, n, visit)
	}
	if isData(run) {
		visit(word{"", i, i + n})
		return n
	}
	for at := 0; at < n; {
		end := at + 1
		for end < n && isDigit(run[end]) == isDigit(run[at]) {
			end++
		}
		visit(masked(run[at:end], i+at))
		at = end
	}
	return n
}

func isNumber(run []byte) bool {
	for _, c := range run {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// masked returns a run of letters or of digits as a word, or as a gap where it is too long to be one.
func masked(run []byte, at int) word {
	w := word{"", at, at + len(run)}
	if limit := maxWord; len(run) <= limit && (!isDigit(run[0]) || len(run) <= maxDigits) {
		w.text = string(bytes.ToLower(run))
	}
	return w
}

// number visits the number of n digits at i, with its decimals: "2.50" is two words, "0.43217" is a gap.
func number(line []byte, i, n int, visit func(word)) int {
	rest := line[i+n:]
	fraction := 0
	if len(rest) > 1 && rest[0] == '.' {
		for 1+fraction < len(rest) && isDigit(rest[1+fraction]) {
			fraction++
		}
	}
	if fraction == 0 || n+fraction <= maxDigits {
		visit(masked(line[i:i+n], i))
		return n
	}
	visit(word{"", i, i + n + 1 + fraction})
	return n + 1 + fraction
}

// isData says that a run of letters and digits is no word: hex of 8 and more digits or after 0x, or a random id, in
// which letters and digits alternate.
func isData(run []byte) bool {
	if len(run) > maxWord {
		return true
	}
	hex, digits, changes := true, 0, 0
	for i, c := range run {
		if isDigit(c) {
			digits++
		}
		hex = hex && (isHex(c) || i == 1 && c|0x20 == 'x' && run[0] == '0')
		if i > 0 && isDigit(c) != isDigit(run[i-1]) {
			changes++
		}
	}
	switch {
	case digits == 0:
		return false
	case hex && (len(run) >= 8 || run[0] == '0' && len(run) > 4 && run[1]|0x20 == 'x'):
		return true
	}
	return len(run) >= 10 && changes >= 4
}

// like says whether b begins as a pattern does, in which 0 is a digit, x is a hex digit, and all else itself.
func like(b []byte, pattern string) bool {
	if len(b) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		switch p := pattern[i]; {
		case p == '0' && !isDigit(b[i]), p == 'x' && !isHex(b[i]), p != '0' && p != 'x' && p != b[i]:
			return false
		}
	}
	return true
}

func uuidLength(b []byte) int {
	const uuid = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if like(b, uuid) {
		return len(uuid)
	}
	return 0
}

// clockLength returns the length of the date, time of day or both that b begins with, with fraction and zone.
func clockLength(b []byte) int {
	n := 0
	if like(b, "0000-00-00") || like(b, "0000/00/00") {
		n = len("0000-00-00")
		if n+1 < len(b) && (b[n] == 'T' || b[n] == ' ' || b[n] == ':') && like(b[n+1:], "00:00:00") {
			n++
		}
	}
	if !like(b[n:], "00:00:00") {
		return n
	}
	n += len("00:00:00")
	if n+1 < len(b) && (b[n] == '.' || b[n] == ',') && isDigit(b[n+1]) {
		for n++; n < len(b) && isDigit(b[n]); n++ {
		}
	}
	switch {
	case n < len(b) && b[n] == 'Z':
		n++
	case n < len(b) && (b[n] == '+' || b[n] == '-') && like(b[n+1:], "00:00"):
		n += len("+00:00")
	}
	return n
}

// wordsAnalyzer is words for bleve. Between two lines lies a gap, so that no phrase reaches over the end of a line.
type wordsAnalyzer struct{}

func (wordsAnalyzer) Analyze(text []byte) analysis.TokenStream {
	var tokens analysis.TokenStream
	position := 0
	for start := 0; start < len(text); {
		line := text[start:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		words(line, func(w word) {
			position++
			if w.text != "" {
				tokens = append(tokens, &analysis.Token{Term: []byte(w.text), Start: start + w.start, End: start + w.end,
					Position: position, Type: analysis.AlphaNumeric})
			}
		})
		position++
		start += len(line) + 1
	}
	return tokens
}

// exactAnalyzer indexes a field's value as it is.
type exactAnalyzer struct{}

func (exactAnalyzer) Analyze(value []byte) analysis.TokenStream {
	return analysis.TokenStream{{Term: value, Start: 0, End: len(value), Position: 1, Type: analysis.AlphaNumeric}}
}

// plain returns a line as a reader sees it: what is left on screen of one rewritten with \r, without ANSI codes. It
// changes line.
func plain(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	if at := bytes.LastIndexByte(line, '\r'); at >= 0 {
		line = line[at+1:]
	}
	at := bytes.IndexByte(line, 0x1b)
	if at < 0 {
		return line
	}
	out := line[:at]
	for i := at; i < len(line); {
		if line[i] == 0x1b {
			i += classifier.EscapeLen(line[i:])
			continue
		}
		out = append(out, line[i])
		i++
	}
	return out
}

// classes are what shape tells apart: the digits, the letters that are hex digits, the other letters, and the rest as 0.
const (
	digitClass = 1 << iota
	hexClass
	letterClass
)

var classes = func() (table [256]byte) {
	for c := range table {
		switch b := byte(c); {
		case isDigit(b):
			table[c] = digitClass
		case isHex(b):
			table[c] = hexClass
		case isAlnum(b):
			table[c] = letterClass
		}
	}
	return table
}()

// shape returns a hash that lines share which differ in their numbers and ids only: a run of digits counts as one, and
// so does one of hex digits among which are digits.
func shape(line []byte) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := 0; i < len(line); {
		if classes[line[i]] == 0 {
			h = (h ^ uint64(line[i])) * prime
			i++
			continue
		}
		end, seen := i, byte(0)
		if line[i] == '0' && i+1 < len(line) && line[i+1]|0x20 == 'x' {
			end, seen = i+2, digitClass
		}
		for end < len(line) && classes[line[end]] != 0 {
			seen |= classes[line[end]]
			end++
		}
		if seen&digitClass != 0 && seen&letterClass == 0 {
			h = (h ^ '0') * prime
			i = end
			continue
		}
		for before := byte(0); i < end; i++ {
			c := line[i]
			if classes[c] == digitClass {
				c = '0'
			}
			if c != '0' || before != '0' {
				h = (h ^ uint64(c)) * prime
			}
			before = c
		}
	}
	return h
}
