package web

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/rules"
)

// TestReclassify keeps an attempt, changes the rules, and has the server read it again.
func TestReclassify(t *testing.T) {
	c := newClient(t)
	doc := loadContract(t)
	a := c.keep("job=1&exit_code=1", oomLog)
	if a.Verdict.Category != "gpu-oom" {
		t.Fatalf("before: %s, want gpu-oom", a.Verdict.Category)
	}
	hold := func(method, path string, status int, kind string) {
		t.Helper()
		w := c.send(method, path, nil)
		wantStatus(t, w, status)
		route, _, _ := strings.Cut(path, "?")
		schema := doc.at(doc.root, "paths", route, strings.ToLower(method), "responses", map[int]string{200: "200", 201: "201", 404: "404", 409: "409"}[status])
		doc.hold(method+" "+path, doc.at(schema, "content", kind, "schema"), jsonOf(t, w))
	}
	hold("GET", "/api/v1/reclassify", 404, "application/problem+json")
	hold("POST", "/api/v1/reclassify/pause", 404, "application/problem+json")

	pack, err := os.ReadFile("testdata/packs/" + packWith(t, "torch-cuda-oom"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed := strings.Replace(string(pack), "category: gpu-oom", "category: cpu-oom", 1)
	if err := os.WriteFile(filepath.Join(dir, "changed.yaml"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	c.server.SetClassifier(classifier.New(set))
	hold("POST", "/api/v1/reclassify?dry_run=true", 201, "application/json")
	last := func() passView {
		t.Helper()
		var v passView
		eventually(t, func() bool {
			decode(t, c.get("/api/v1/reclassify"), &v)
			return v.State != corpus.PassRunning
		})
		return v
	}
	if v := last(); v.State != corpus.PassDone || !v.DryRun || v.Moved != 1 || v.Total != 1 {
		t.Errorf("dry run: %+v", v)
	}
	hold("POST", "/api/v1/reclassify", 201, "application/json")
	v := last()
	if v.State != corpus.PassDone || v.RulesVersion != set.Version() || len(v.Moves) != 1 || v.Moves[0] != (corpus.Move{From: "gpu-oom", To: "cpu-oom", Attempts: 1}) ||
		len(v.Changes) != 1 || v.Changes[0].ID != a.ID || v.Changes[0].To.Category != "cpu-oom" {
		t.Errorf("pass: %+v", v)
	}
	hold("GET", "/api/v1/reclassify?limit=1", 200, "application/json")
	hold("POST", "/api/v1/reclassify/resume", 409, "application/problem+json")
	hold("POST", "/api/v1/reclassify/cancel", 409, "application/problem+json")
	var now corpus.Attempt
	decode(t, c.get("/api/v1/attempts/1"), &now)
	if now.Verdict.Category != "cpu-oom" {
		t.Errorf("after: %s, want cpu-oom", now.Verdict.Category)
	}
	wantProblem(t, c.post("/api/v1/reclassify?all=yes", ""), 400, "all", "none of true, false")
}

// packWith is the file of the test packs that has a rule.
func packWith(t *testing.T, id string) string {
	t.Helper()
	entries, err := os.ReadDir("testdata/packs")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if data, err := os.ReadFile("testdata/packs/" + e.Name()); err == nil && strings.Contains(string(data), "id: "+id+"\n") {
			return e.Name()
		}
	}
	t.Fatalf("no pack has %s", id)
	return ""
}
