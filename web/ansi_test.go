package web

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// styled writes pieces with their classes.
func styled(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		text := p.Text
		if p.Hit {
			text = "*" + text + "*"
		}
		if p.Class != "" {
			text = "<" + p.Class + "|" + text + ">"
		}
		b.WriteString(text)
	}
	return b.String()
}

func TestColours(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"plain", "plain"},
		{"\x1b[31mred\x1b[0m plain", "<fg2|red> plain"},
		{"\x1b[1;91mloud\x1b[22m quiet\x1b[m plain", "<fg10 bold|loud><fg10| quiet> plain"},
		{"\x1b[38;5;196mx\x1b[39my", "<fg10|x>y"},
		{"\x1b[38;2;20;220;30mx\x1b[48;5;4my\x1b[0m", "<fg11|x><fg11 bg5|y>"},
		{"\x1b[7mx\x1b[27my", "<reversed|x>y"},
		{"\x1b[38mx\x1b[999my\x1b[;;mz", "xyz"},
		{"\x1b[2K\x1b[33mwarn\x1b[0m", "<fg4|warn>"},
		{"\x1b[31m\x1b[32m", ""},
	} {
		if diff := cmp.Diff(test.want, styled(logText(test.in))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.in, diff)
		}
	}
}

func TestFoundText(t *testing.T) {
	for _, test := range []struct{ in, text, want string }{
		{"CUDA out of memory, Out Of Memory", "out of memory", "CUDA *out of memory*, *Out Of Memory*"},
		{"\x1b[31mCUDA er\x1b[32mror\x1b[0m", "error", "<fg2|CUDA ><fg2|*er*><fg3|*ror*>"},
		{"İstanbul error", "ERROR", "İstanbul *error*"},
		{"none", "x", "none"},
	} {
		if diff := cmp.Diff(test.want, styled(foundText(test.in, test.text))); diff != "" {
			t.Errorf("%q for %q (-want +got):\n%s", test.in, test.text, diff)
		}
	}
}
