package web

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// plain is the text of pieces, marks in brackets and hits between stars.
func plain(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		switch {
		case p.Sign != "":
			b.WriteString("[" + p.Text + "]")
		case p.Hit:
			b.WriteString("*" + p.Text + "*")
		default:
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func TestLogText(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"", ""},
		{"plain åäö 漢字 \ttab", "plain åäö 漢字 \ttab"},
		{"\x1b[1;31merror\x1b[0m: x\x1b[K", "error: x"},
		{"\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y", "xy"},
		{"10%\r20%\r30%", "[↻ 2]30%"},
		{"10%\r20%\r  ", "[↻ 2]20%"},
		{"crlf\r", "crlf"},
		{"a\x00b\x07c\x7f", `a[\x00]b[\x07]c[\x7f]`},
		{"a\xffb\xc3", `a[\xff]b[\xc3]`},
		{"abc\u202egnp\u2069", "abc[U+202E]gnp[U+2069]"},
		{"zero\u200bwidth\ufeff", "zero[U+200B]width[U+FEFF]"},
		{"\u0085\u2028", "[U+0085][U+2028]"},
		{"lone \x1b escape", `lone [\x1b] escape`},
		{strings.Repeat("a", maxShown) + strings.Repeat("b", 1024), strings.Repeat("a", maxShown) + "[… 1 KiB more]"},
		{strings.Repeat("漢", 1000), strings.Repeat("漢", maxShown/3) + "[… 1002 bytes more]"},
	} {
		if diff := cmp.Diff(test.want, plain(logText(test.in))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", clip(test.in, 80), diff)
		}
	}
}

func TestMarkedText(t *testing.T) {
	for _, test := range []struct {
		in   string
		hits [][2]int
		want string
	}{
		{"GPU has fallen off", [][2]int{{8, 14}}, "GPU has *fallen* off"},
		{"aab", [][2]int{{0, 1}, {1, 2}}, "*a**a*b"},
		{"a\u202eb", [][2]int{{0, 5}}, "*a*[U+202E]*b*"},
		{"short", [][2]int{{3, 99}, {-1, 2}, {9, 4}}, "sho*rt*"},
		{"none", [][2]int{}, "none"},
	} {
		if diff := cmp.Diff(test.want, plain(markedText(test.in, test.hits))); diff != "" {
			t.Errorf("%q %v (-want +got):\n%s", test.in, test.hits, diff)
		}
	}
}

func FuzzLogText(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff\r\x00", 1, 3)
	f.Add(strings.Repeat("漢", 1000), 5, 4000)
	f.Fuzz(func(t *testing.T, line string, from, to int) {
		for _, pieces := range [][]piece{logText(line), markedText(line, [][2]int{{from, to}})} {
			n := 0
			for _, p := range pieces {
				n += len(p.Text)
				if !utf8.ValidString(p.Text) || strings.ContainsFunc(p.Text, func(r rune) bool { return r != '\t' && hidden(r) }) {
					t.Errorf("%q becomes %q", line, p.Text)
				}
				for _, r := range p.Text {
					if unicode.Is(unicode.Bidi_Control, r) {
						t.Errorf("%q keeps %U", line, r)
					}
				}
			}
			if n > 8*maxShown {
				t.Errorf("%d bytes are shown", n)
			}
		}
	})
}

func TestNumbersForPeople(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{gpuHours(0), "0"}, {gpuHours(10), "< 0.01"}, {gpuHours(3600), "1.00"}, {gpuHours(72_000), "20.0"}, {gpuHours(3600 * 1234567), "1,234,567"},
		{duration(0), "–"}, {duration(59), "59 s"}, {duration(95), "1 min 35 s"}, {duration(7513), "2 h 5 min"}, {duration(3600), "1 h"}, {duration(50 * 3600), "2 d 2 h"},
		{percent(0), "0 %"}, {percent(0.0001), "< 0.1 %"}, {percent(0.0912), "9.1 %"}, {percent(0.91), "91 %"}, {percent(1), "100 %"},
		{size(1), "1 bytes"}, {size(316), "316 bytes"}, {size(1536), "1.5 KiB"}, {size(4 << 30), "4 GiB"},
		{count(1234567), "1,234,567"}, {count(int64(-1234)), "-1,234"}, {count(new(int64(9000))), "9,000"}, {count((*int64)(nil)), "–"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
