package classifier

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// fingerprint is 12 hex digits that are the same for the same failure in two jobs: a hash of the rule and of the root
// line with what differs between runs masked.
func fingerprint(rule, text string) string {
	h := sha256.Sum256([]byte(rule + "\x00" + mask(text)))
	return hex.EncodeToString(h[:])[:12]
}

// mask takes numbers, addresses, paths and ids out of a message. Codes that tell one failure from another stay: an HTTP
// status, an errno, the number of an Xid, an exit code.
func mask(text string) string {
	var b strings.Builder
	text = text[:min(len(text), mostQuoted)]
	for i := 0; i < len(text); {
		j := i
		for j < len(text) && !maskBreak(text[j]) {
			j++
		}
		if j == i {
			b.WriteByte(text[i])
			i++
			continue
		}
		b.WriteString(maskWord(text[i:j], text[:i]))
		i = j
	}
	return b.String()
}

func maskBreak(c byte) bool {
	switch c {
	case ' ', '\t', '\'', '"', '`', '(', ')', '[', ']', '{', '}', '<', '>', ',', ';', '=', '|', '*':
		return true
	}
	return false
}

// maskWord masks one word; before is what precedes it.
func maskWord(word, before string) string {
	core := strings.TrimRight(word, ".:!?")
	tail := word[len(core):]
	if core == "" {
		return word
	}
	if strings.Contains(core, "/") && len(core) > 1 {
		return "PATH" + tail
	}
	if allDigits := digits(core) == len(core); allDigits && len(core) <= 3 && keepsNumber(before) {
		return word
	}
	digit, letter := false, false
	for i := range len(core) {
		switch {
		case isDigit(core[i]):
			digit = true
		case isLetter(core[i]):
			letter = true
		}
	}
	switch {
	case !digit:
		return word
	case !letter, strings.HasPrefix(core, "0x"), idLike(core):
		return "N" + tail
	}
	return maskDigits(core) + tail
}

// keepsNumber reports whether the words before a number make it a code.
func keepsNumber(before string) bool {
	before = strings.ToLower(strings.TrimRight(before, " :=[(#"))
	for _, w := range [...]string{"errno", "error", "status", "code", "http", "response", "signal", "failure", "status_code"} {
		if strings.HasSuffix(before, w) {
			return true
		}
	}
	return strings.Contains(before, "xid (") // NVRM: Xid (PCI:0000:9b:00): 79
}

// idLike reports whether a word with digits is an id: hexadecimal or a UUID, at least 6 characters long.
func idLike(s string) bool {
	if len(s) < 6 {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c == '-'|0x20) {
			return false
		}
	}
	return true
}

// maskDigits replaces each run of digits in a word.
func maskDigits(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if n := digits(s[i:]); n > 0 {
			b.WriteByte('N')
			i += n
			continue
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}
