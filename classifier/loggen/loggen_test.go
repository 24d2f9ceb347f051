package loggen

import (
	"bytes"
	"strings"
	"testing"
)

// TestWrite holds that the same seed gives the same bytes, another seed others, and that a log has the size asked for.
func TestWrite(t *testing.T) {
	for _, framework := range Frameworks() {
		write := func(l Log) string {
			var b bytes.Buffer
			if err := l.Write(&b); err != nil {
				t.Fatal(err)
			}
			return b.String()
		}
		a := write(Log{Framework: framework, Seed: 1, Ranks: 2, Lines: 200})
		if b := write(Log{Framework: framework, Seed: 1, Ranks: 2, Lines: 200}); a != b {
			t.Errorf("%s: the same seed gives other bytes", framework)
		}
		if n := strings.Count(a, "\n"); n != 200 {
			t.Errorf("%s: %d lines, want 200", framework, n)
		}
		if n := len(write(Log{Framework: framework, Seed: 1, Bytes: 50_000})); n < 50_000 || n > 52_000 {
			t.Errorf("%s: %d bytes, want 50,000 and the rest of a line", framework, n)
		}
	}
	if err := (Log{Framework: "nethack", Lines: 1}).Write(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "torchrun") {
		t.Errorf("unknown framework: error %v, want one that lists the known ones", err)
	}
	if err := (Log{Framework: "keras"}).Write(&bytes.Buffer{}); err == nil {
		t.Error("a log without a size: no error")
	}
}
