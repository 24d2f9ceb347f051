package corpus

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// slowFind is how finding is defined: line after line, from one on.
func slowFind(text, wanted string, from int64) (lines []int64) {
	lines = []int64{}
	for i, line := range strings.Split(text, "\n") {
		if n := int64(i + 1); n >= from && strings.Contains(strings.ToLower(line), strings.ToLower(wanted)) {
			lines = append(lines, n)
		}
	}
	return lines
}

// longText has lines of all lengths over several frames, some of them longer than one, and a word here and there.
func longText(size int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for n := 1; b.Len() < size; n++ {
		b.WriteString(strings.Repeat("x", r.IntN(400)))
		if r.IntN(3000) == 0 {
			b.WriteString(strings.Repeat("y", frameSize+r.IntN(frameSize)))
		}
		if r.IntN(500) == 0 {
			b.WriteString("Out Of Memory twice: out of memory")
		}
		fmt.Fprintf(&b, " line %d\n", n)
	}
	b.WriteString("the end is OUT OF MEMORY")
	return b.String()
}

func TestFindLines(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	text := longText(8 * frameSize)
	a := add(t, c, Attempt{Job: "1"}, "", text)
	total := a.Logs[0].Lines
	for _, test := range []struct {
		wanted string
		from   int64
	}{{"out of memory", 1}, {"OUT OF MEMORY", 2000}, {"LINE 777", 777}, {"line 777", 778}, {"the end", 1}, {"nowhere", 1}, {"out", total}, {"out", total + 9}} {
		got, err := c.FindLines(t.Context(), a.ID, "", test.wanted, test.from, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slowFind(text, test.wanted, test.from), got.Lines); diff != "" || got.More {
			t.Errorf("%q from line %d: more %v (-want +got):\n%s", test.wanted, test.from, got.More, diff)
		}
	}
}

// TestFindLinesGoesOn: parts of a search make the whole.
func TestFindLinesGoesOn(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	text := longText(4 * frameSize)
	a := add(t, c, Attempt{Job: "1"}, "", text)
	var all []int64
	for from := int64(1); ; {
		part, err := c.FindLines(t.Context(), a.ID, "", "memory", from, 3)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part.Lines...)
		if !part.More {
			break
		}
		if len(part.Lines) != 3 {
			t.Fatalf("from line %d: %d lines and more, want 3", from, len(part.Lines))
		}
		for i, n := range part.Lines {
			if want := slowLines(text, n, n)[0]; part.Texts[i] != want {
				t.Errorf("line %d is %.80q, want %.80q", n, part.Texts[i], want)
			}
		}
		from = part.To + 1
	}
	if diff := cmp.Diff(slowFind(text, "memory", 1), all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFindLinesRefuses(t *testing.T) {
	c := open(t, t.TempDir(), Options{NoIndex: true})
	a := add(t, c, Attempt{Job: "1"}, "", "x\n")
	for _, test := range []struct {
		text string
		from int64
	}{{"", 1}, {"x", 0}, {"x\n", 1}, {strings.Repeat("x", maxText+1), 1}} {
		var field *FieldError
		if _, err := c.FindLines(t.Context(), a.ID, "", test.text, test.from, 1); !errors.As(err, &field) {
			t.Errorf("%.9q from %d: %v, want a FieldError", test.text, test.from, err)
		}
	}
	if _, err := c.FindLines(t.Context(), a.ID+1, "", "x", 1, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such attempt: %v, want ErrNotFound", err)
	}
}
