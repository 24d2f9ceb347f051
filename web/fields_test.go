package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"culprit/corpus"
)

func TestFields(t *testing.T) {
	for _, test := range []struct{ field, value, want string }{
		{"exit_code", "1", `{"exit_code":1}`},
		{"exit_code", "0:9", `{"exit_code":137,"signal":9}`},
		{"exit_code", "1:0", `{"exit_code":1}`},
		{"exit_code", "-9", `{"exit_code":137,"signal":9}`},
		{"exit_code", "0:125", `{"signal":125}`},
		{"signal", "SIGSEGV", `{"exit_code":139,"signal":11}`},
		{"signal", "term", `{"exit_code":143,"signal":15}`},
		{"nodes", "gpu-[01-03,7],cpu1, cpu1", `{"nodes":["gpu-01","gpu-02","gpu-03","gpu-7","cpu1"]}`},
		{"node", "r[1-2]n[1-2]", `{"nodes":["r1n1","r1n2","r2n1","r2n2"]}`},
		{"start", "2026-12-01T08:00:00+01:00", `{"start":"2026-12-01T08:00:00+01:00"}`},
		{"end", "1796149800", `{"end":"2026-12-01T18:30:00Z"}`},
		{"end", "1796149800.25", `{"end":"2026-12-01T18:30:00.25Z"}`},
		{"user", "", `{}`},
		{"user", " åsa ", `{"user":"åsa"}`},
	} {
		m := newMetadata()
		if err := m.set(test.field, test.value); err != nil {
			t.Errorf("%s=%q: %v", test.field, test.value, err)
			continue
		}
		if diff := cmp.Diff(test.want, given(t, m.attempt)); diff != "" {
			t.Errorf("%s=%q (-want +got):\n%s", test.field, test.value, diff)
		}
	}
}

// given is what was set of an attempt, as JSON.
func given(t *testing.T, a *corpus.Attempt) string {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"id", "job", "attempt", "gpus", "rtf_s", "gpu_s", "logs", "verdict", "created"} {
		delete(all, name)
	}
	data, err = json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestExitInAnyOrder(t *testing.T) {
	for _, order := range [][]string{{"exit_code", "0", "signal", "9"}, {"signal", "9", "exit_code", "0"}} {
		m := newMetadata()
		for i := 0; i < len(order); i += 2 {
			if err := m.set(order[i], order[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if got := given(t, m.attempt); got != `{"exit_code":137,"signal":9}` {
			t.Errorf("%v gives %s", order, got)
		}
	}
}

func TestBadFields(t *testing.T) {
	for _, test := range []struct{ field, value, want string }{
		{"gpus", "-8", "less than 0"},
		{"gpus", "eight", "not a whole number"},
		{"gpus", "99999999999", "not a whole number"},
		{"attempt", "0", "less than 1"},
		{"exit_code", "512", "exit codes are 0 to 511"},
		{"exit_code", "failed", "not an exit code"},
		{"signal", "SIGNOPE", "not a signal"},
		{"signal", "-1", "not a signal"},
		{"start", "2026-12-01 08:00:00", "RFC 3339 with a zone"},
		{"start", "2026-12-01T08:00:00", "RFC 3339 with a zone"},
		{"end", "1796149800000", "not a time in seconds"},
		{"end", "NaN", "not a time in seconds"},
		{"end", "0001-01-01T00:00:00Z", "the year is 1"},
		{"user", "a\u202eb", "direction characters"},
		{"user", "a\nb", "control"},
		{"user", "a\xff", "not valid UTF-8"},
		{"user", strings.Repeat("a", maxText+1), "longer than 1024 bytes"},
		{"node", "gpu-[1-99999999]", "not a range"},
		{"node", "gpu-[1-", "a bracket is not closed"},
		{"node", "a[1-9]b[1-9]c[1-9]d[1-99]e[1-99]", "more than 4 brackets"},
		{"node", "a[1-100]b[1-100]c[1-100]d[1-100]", "more than 10000 nodes"},
		{"usr", "alice", "did you mean user?"},
		{"jbo", "1", "did you mean job?"},
		{"exit-code", "1", "did you mean exit_code?"},
		{"colour", "red", "known are attempt, cluster"},
	} {
		err := newMetadata().set(test.field, test.value)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), test.field+": ") {
			t.Errorf("%s=%s: got %v, want %q", test.field, clip(test.value, 40), err, test.want)
		}
	}
}

func TestFieldGivenTwice(t *testing.T) {
	m := newMetadata()
	for _, v := range []string{"a", "a", ""} {
		if err := m.set("user", v); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.set("user", "b"); err == nil || !strings.Contains(err.Error(), `given twice, as "a" and as "b"`) {
		t.Errorf("got %v", err)
	}
}
