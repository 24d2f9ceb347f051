package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/corpus"
)

// TestReclassify keeps two logs, reads them again with rules that know another cause, first without changing anything.
func TestReclassify(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	packs := t.TempDir()
	pack := "- id: gremlin\n  category: disk-full\n  literals: [\"a gremlin sat down\"]\n  summary: \"a gremlin sat down\"\n  advice: Lift it.\n  source: test\n"
	if err := os.WriteFile(filepath.Join(packs, "mine.yaml"), []byte(pack), 0o600); err != nil {
		t.Fatal(err)
	}
	base, stop := startServer(t, data)
	for job, log := range map[string]string{"1": "step 1\na gremlin sat down\n", "2": "step 1\nnothing to see\n"} {
		res, err := http.Post(base+"/api/v1/attempts?exit_code=1&job="+job, "text/plain", strings.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	if code, _, stderr := runCLI(t, "", "reclassify", "--data", data); code != 1 || !strings.Contains(stderr, "another process") {
		t.Errorf("beside a server: exit code %d, %q; want 1 and who has the folder", code, stderr)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args string
		want []string
	}{
		{"--dry-run --list", []string{"read 2 attempts", "1 would move", "no-signature", "→ disk-full", "job 1, attempt 1", "by gremlin"}},
		{"", []string{"read 2 attempts", "1 moved", "1  no-signature  → disk-full"}},
		{"", []string{"read 0 attempts", "0 moved"}},
		{"--all", []string{"read 2 attempts", "0 moved"}},
	} {
		args := append([]string{"reclassify", "--data", data, "--rules", packs}, strings.Fields(step.args)...)
		code, stdout, stderr := runCLI(t, "", args...)
		for _, want := range step.want {
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("reclassify %s: exit code %d, %q, %q; want 0 with %q", step.args, code, stdout, stderr, want)
			}
		}
	}
	code, stdout, stderr := runCLI(t, "", "reclassify", "--data", data, "--format", "json", "--list")
	var got struct {
		corpus.Pass
		Changes []corpus.Moved
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || got.Moved != 1 || len(got.Changes) != 1 ||
		got.Changes[0].From.Rule != "gremlin" || got.Changes[0].To.Category != "no-signature" {
		t.Errorf("back to the built-in rules: exit code %d, %v, %s, %s", code, err, stdout, stderr)
	}
	if code, _, stderr := runCLI(t, "", "reclassify", "--data", data, "--format", "xml"); code != 2 || !strings.Contains(stderr, "table or json") {
		t.Errorf("--format xml: exit code %d, %q", code, stderr)
	}
}
