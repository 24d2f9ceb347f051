package rules

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// oneRule loads a pack of one rule from its fields after summary, advice and source.
func oneRule(t testing.TB, fields string) *Rule {
	t.Helper()
	pack := "- id: r\n  category: network-error\n  advice: a\n  source: s\n" + fields
	set, err := Load(fstest.MapFS{"pack.yaml": {Data: []byte(pack)}})
	if err != nil {
		t.Fatalf("%v\n%s", err, pack)
	}
	return set.Rules()[0]
}

func TestMatch(t *testing.T) {
	const port = "  summary: s\n  pattern: 'down on (?<host>[^: ]*):(?<port>\\d+)(?<why>, .*)?'\n"
	tests := []struct {
		name, fields, line, want string // want is the text matched, "" for no match
		captures                 map[string]string
	}{
		{"captures that took part", port, "it is down on a-1:80", "down on a-1:80", map[string]string{"host": "a-1", "port": "80"}},
		{"an empty capture took part", port, "down on :80, so", "down on :80, so", map[string]string{"host": "", "port": "80", "why": ", so"}},
		{"no match", port, "down on port 80", "", nil},
		{"offsets after wide characters", port, "größe→ down on köln:80", "down on köln:80", map[string]string{"host": "köln", "port": "80"}},
		{"offsets after broken UTF-8", port, "\xff\xc3 \xf0\x9f down on a\xffb:80", "down on a\xffb:80", map[string]string{"host": "a\xffb", "port": "80"}},
		{"literals are the pattern", "  summary: s\n  literals: [went away, server went]\n", "the server went away", "server went", nil},
		{"of literals at one place the longest", "  summary: s\n  literals: [server, server went]\n", "the server went away", "server went", nil},
		{"literals without case", "  summary: s\n  ignore_case: true\n  literals: [Went Away]\n", "ä SERVER WENT AWAY", "WENT AWAY", nil},
		{"pattern without case", "  summary: s\n  ignore_case: true\n  pattern: 'kiosk (?<n>\\d)'\n", "KioSK 7", "KioSK 7", map[string]string{"n": "7"}},
		{"case counts", "  summary: s\n  literals: [went away]\n", "Went Away", "", nil},
		{"a letter that only folds to k", "  summary: s\n  ignore_case: true\n  pattern: 'kiosk'\n", "\u212Aiosk", "", nil},
		{"groups without a name are no captures", "  summary: s\n  pattern: 'server (went|gone) away'\n", "server gone away", "server gone away", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := oneRule(t, test.fields)
			m, ok, err := r.Match(test.line)
			if err != nil {
				t.Fatal(err)
			}
			if got := test.line[m.Start:m.End]; got != test.want || ok != (test.want != "") {
				t.Errorf("Match(%q) = %q %v, want %q", test.line, got, ok, test.want)
			}
			if diff := cmp.Diff(test.captures, m.Captures); diff != "" {
				t.Errorf("captures of %q (-want +got):\n%s", test.line, diff)
			}
		})
	}
}

func TestMatchGivesUp(t *testing.T) {
	r := oneRule(t, "  summary: s\n  pattern: 'service(?: \\w+|\\w| )*!'\n")
	start := time.Now()
	_, ok, err := r.Match("service " + strings.Repeat("a ", 4000))
	if ok || !errors.Is(err, ErrMatchLimit) {
		t.Errorf("Match = %v, %v, want ErrMatchLimit", ok, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("gave up after %v", took)
	}
}

func TestMatchSeesMaxLine(t *testing.T) {
	r := oneRule(t, "  summary: s\n  literals: [service down]\n")
	line := strings.Repeat("x", MaxLine) + "service down"
	if m, ok, _ := r.Match(line); ok {
		t.Errorf("matched at %d of a line of which %d bytes count", m.Start, MaxLine)
	}
	if _, ok, _ := r.Match(line[12:]); !ok {
		t.Error("did not match at the end of what counts")
	}
}

func TestSentence(t *testing.T) {
	const summary = "  pattern: 'ran out(?<size> \\d+)?(?<gpu> \\d)?(?<of> \\d)?'\n  summary: 'ran out[ of {size}[ on {gpu}/{of}]'\n"
	r := oneRule(t, strings.Replace(summary, "{size}[", "{size}][", 1))
	long := strings.Repeat("ä", 300)
	tests := []struct {
		captures map[string]string
		want     string
	}{
		{nil, "ran out"},
		{map[string]string{"size": "2 GiB"}, "ran out of 2 GiB"},
		{map[string]string{"size": "2 GiB", "gpu": "3"}, "ran out of 2 GiB"},
		{map[string]string{"gpu": "3", "of": "8"}, "ran out on 3/8"},
		{map[string]string{"size": "  "}, "ran out"},
		{map[string]string{"size": "2\x1b[31m\nGiB\x00\u202e"}, "ran out of 2[31mGiB"},
		{map[string]string{"size": "a\tb\xff"}, "ran out of a b"},
		{map[string]string{"size": "{gpu}", "gpu": "x", "of": "[y]"}, "ran out of {gpu} on x/[y]"},
		{map[string]string{"size": long}, "ran out of " + strings.Repeat("ä", 98) + "…"},
	}
	for _, test := range tests {
		if got := r.Sentence(test.captures); got != test.want {
			t.Errorf("Sentence(%q) = %q, want %q", test.captures, got, test.want)
		}
	}
	if got := r.Sentence(map[string]string{"size": long}); len(got) > len("ran out of ")+maxCapture || !utf8.ValidString(got) {
		t.Errorf("a capture of %d bytes became %q", len(long), got)
	}
}
