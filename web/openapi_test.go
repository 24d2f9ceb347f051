package web

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// contract is openapi.yaml, with references resolved on the way down.
type contract struct {
	t    *testing.T
	root map[string]any
}

func loadContract(t *testing.T) contract {
	t.Helper()
	var root map[string]any
	if err := yaml.Unmarshal(openAPI, &root); err != nil {
		t.Fatal(err)
	}
	return contract{t, root}
}

// at follows keys from a node; $ref is followed wherever it stands.
func (c contract) at(node any, keys ...string) any {
	c.t.Helper()
	node = c.resolve(node)
	for _, key := range keys {
		m, ok := node.(map[string]any)
		if !ok || m[key] == nil {
			return nil
		}
		node = c.resolve(m[key])
	}
	return node
}

func (c contract) resolve(node any) any {
	m, ok := node.(map[string]any)
	if !ok {
		return node
	}
	ref, ok := m["$ref"].(string)
	if !ok {
		return node
	}
	target := c.at(c.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	if target == nil {
		c.t.Fatalf("%s leads nowhere", ref)
	}
	return target
}

var ginParam = regexp.MustCompile(`:(\w+)`)

// TestContractAndRoutes: what is routed is described, what is described is routed.
func TestContractAndRoutes(t *testing.T) {
	doc := loadContract(t)
	var described, routed []string
	for path, item := range doc.at(doc.root, "paths").(map[string]any) {
		for method := range item.(map[string]any) {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	for _, r := range newClient(t).server.engine.Routes() {
		root := slices.Contains([]string{"/healthz", "/readyz", "/metrics", "/openapi.yaml", "/slurm/_doc"}, r.Path)
		if r.Method != "HEAD" && (strings.HasPrefix(r.Path, "/api/") || root) {
			routed = append(routed, r.Method+" "+ginParam.ReplaceAllString(r.Path, "{$1}"))
		}
	}
	slices.Sort(described)
	slices.Sort(routed)
	if diff := cmp.Diff(described, routed); diff != "" {
		t.Errorf("(-described +routed):\n%s", diff)
	}
}

// TestContractRefs: every reference leads somewhere, and everything that can be referred to is.
func TestContractRefs(t *testing.T) {
	doc := loadContract(t)
	used := map[string]bool{}
	var walk func(any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			if ref, ok := node["$ref"].(string); ok {
				used[ref] = true
				doc.resolve(node)
			}
			for _, v := range node {
				walk(v)
			}
		case []any:
			for _, v := range node {
				walk(v)
			}
		}
	}
	walk(doc.root)
	for kind, list := range doc.at(doc.root, "components").(map[string]any) {
		for name := range list.(map[string]any) {
			if ref := "#/components/" + kind + "/" + name; !used[ref] {
				t.Errorf("%s is never used", ref)
			}
		}
	}
}

// TestContractParameters: the parameters that a route takes are those that are described.
func TestContractParameters(t *testing.T) {
	doc := loadContract(t)
	c := newClient(t)
	for path, item := range doc.at(doc.root, "paths").(map[string]any) {
		for method, operation := range item.(map[string]any) {
			described := []string{}
			parameters, _ := doc.at(operation, "parameters").([]any)
			for _, p := range parameters {
				if doc.at(p, "in") == "query" {
					described = append(described, doc.at(p, "name").(string))
				}
			}
			if !strings.HasPrefix(path, "/api/") || path == "/api/v1/rules/{id}" || path == "/api/v1/taxonomy" {
				continue
			}
			url := strings.NewReplacer("{id}", "1", "{job}", "1").Replace(path)
			w := c.send(strings.ToUpper(method), url+"?nosuchparameter=1", strings.NewReader("x"))
			var p problem
			decode(t, w, &p)
			taken := []string{}
			if _, list, ok := strings.Cut(p.Detail, "known are "); ok {
				taken = strings.Split(list, ", ")
			}
			slices.Sort(described)
			if diff := cmp.Diff(described, taken); diff != "" {
				t.Errorf("%s %s (-described +taken):\n%s", method, path, diff)
			}
		}
	}
}

// TestContractReplies sends real requests and holds the JSON that comes back against its schema.
func TestContractReplies(t *testing.T) {
	doc := loadContract(t)
	c := newClient(t)
	someAttempts(c)
	body, kind := form(`name="f"; filename="a"`, oomLog, `name="f"; filename="b"`, "x\n", `name="attempt"`, `{"job": "20", "run_id": "r", "name": "n", "cluster": "c", "user": "u",
		"vc": "v", "gpus": 4, "gpu_type": "H100", "nodes": ["n1"], "submitted": 1796140000, "start": 1796140001, "end": 1796140002, "exit_code": "0:9", "state": "FAILED", "reason": "r", "cost_class": "spot"}`)
	eventually(t, func() bool { return strings.Contains(c.get("/api/v1/search?q=bus").Body.String(), `"total":1`) })
	for _, call := range []struct {
		method, url, path string
		body, kind        string
		status            int
	}{
		{"POST", "/api/v1/attempts", "/api/v1/attempts", body, kind, 201},
		{"POST", "/api/v1/attempts", "/api/v1/attempts", body, kind, 200},
		{"POST", "/api/v1/classify", "/api/v1/classify", oomLog, "", 200},
		{"POST", "/api/v1/classify", "/api/v1/classify", "", "", 400},
		{"GET", "/api/v1/attempts?limit=1", "/api/v1/attempts", "", "", 200},
		{"GET", "/api/v1/attempts?limit=x", "/api/v1/attempts", "", "", 400},
		{"GET", "/api/v1/attempts/1", "/api/v1/attempts/{id}", "", "", 200},
		{"GET", "/api/v1/attempts/99", "/api/v1/attempts/{id}", "", "", 404},
		{"GET", "/api/v1/attempts/1/log", "/api/v1/attempts/{id}/log", "", "", 200},
		{"GET", "/api/v1/jobs/1", "/api/v1/jobs/{job}", "", "", 200},
		{"POST", "/api/v1/gate", "/api/v1/gate", oomLog, "", 200},
		{"POST", "/api/v1/gate?job=1", "/api/v1/gate", "", "", 200},
		{"POST", "/api/v1/gate?job=none", "/api/v1/gate", "", "", 404},
		{"POST", "/api/v1/gate", "/api/v1/gate", "", "", 400},
		{"GET", "/api/v1/search?q=bus", "/api/v1/search", "", "", 200},
		{"GET", "/api/v1/report?by=category&from=2026-01-01&to=2027-01-01", "/api/v1/report", "", "", 200},
		{"GET", "/api/v1/rules", "/api/v1/rules", "", "", 200},
		{"GET", "/api/v1/rules/torch-cuda-oom", "/api/v1/rules/{id}", "", "", 200},
		{"GET", "/api/v1/taxonomy", "/api/v1/taxonomy", "", "", 200},
		{"GET", "/healthz", "/healthz", "", "", 200},
		{"GET", "/readyz", "/readyz", "", "", 200},
	} {
		name := fmt.Sprintf("%s %s %d", call.method, call.url, call.status)
		w := c.send(call.method, call.url, strings.NewReader(call.body), "Content-Type", call.kind)
		wantStatus(t, w, call.status)
		schema := doc.at(doc.root, "paths", call.path, strings.ToLower(call.method), "responses", fmt.Sprint(call.status), "content", w.Header().Get("Content-Type"), "schema")
		if schema == nil {
			t.Errorf("%s: %s is not described", name, w.Header().Get("Content-Type"))
			continue
		}
		doc.hold(name, schema, jsonOf(t, w))
	}
}

func jsonOf(t *testing.T, w *httptest.ResponseRecorder) (v any) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// hold checks type, enum, required and unknown members of a value, and all below it.
func (c contract) hold(path string, schema, value any) {
	c.t.Helper()
	kind, _ := c.at(schema, "type").(string)
	switch value := value.(type) {
	case map[string]any:
		c.is(path, kind, "object")
		properties, _ := c.at(schema, "properties").(map[string]any)
		extra := c.at(schema, "additionalProperties")
		for name, v := range value {
			if properties[name] == nil && extra == nil {
				c.t.Errorf("%s.%s is not described", path, name)
			} else if properties[name] != nil {
				c.hold(path+"."+name, properties[name], v)
			}
		}
		required, _ := c.at(schema, "required").([]any)
		for _, name := range required {
			if _, ok := value[name.(string)]; !ok {
				c.t.Errorf("%s.%s is required and missing", path, name)
			}
		}
	case []any:
		c.is(path, kind, "array")
		for i, v := range value {
			c.hold(fmt.Sprintf("%s[%d]", path, i), c.at(schema, "items"), v)
		}
	case string:
		c.is(path, kind, "string")
		if enum, ok := c.at(schema, "enum").([]any); ok && !slices.Contains(enum, any(value)) {
			c.t.Errorf("%s: %q is none of %v", path, value, enum)
		}
	case float64:
		if kind != "number" {
			c.is(path, kind, "integer")
		}
	case bool:
		c.is(path, kind, "boolean")
	case nil:
		c.t.Errorf("%s is null", path)
	}
}

func (c contract) is(path, described, got string) {
	c.t.Helper()
	if described != got {
		c.t.Errorf("%s is %s, described as %q", path, got, described)
	}
}

// TestContractIsServed: the document at /openapi.yaml is the one that is tested.
func TestContractIsServed(t *testing.T) {
	w := newClient(t).get("/openapi.yaml")
	if w.Code != 200 || w.Body.String() != string(openAPI) || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("status %d, %s, %d bytes", w.Code, w.Header().Get("Content-Type"), w.Body.Len())
	}
}
