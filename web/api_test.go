package web

import (
	"encoding/csv"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"culprit/corpus"
)

// someAttempts keeps three: an out-of-memory of alice's, a node's fault for bob, and a success.
func someAttempts(c client) {
	c.keep("job=1&user=alice&vc=vision&gpus=8&exit_code=1&node=gpu-01,gpu-02&start=2026-12-01T08:00:00Z&end=2026-12-01T10:30:00Z", oomLog)
	c.keep("job=2&user=bob&vc=speech&gpus=2&exit_code=1&node=gpu-02&start=2026-12-01T09:00:00Z&end=2026-12-01T10:00:00Z",
		"step 7\nNVRM: Xid (PCI:0000:9b:00): 79, pid=1234, GPU has fallen off the bus.\n")
	c.keep("job=3&user=bob&gpus=1&exit_code=0&start=2026-12-01T09:00:00Z&end=2026-12-01T09:30:00Z", "step 1\nTraining finished\n")
}

func jobsOf(list []corpus.Attempt) (jobs []string) {
	for _, a := range list {
		jobs = append(jobs, a.Job)
	}
	return jobs
}

func TestListAttempts(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	for _, test := range []struct {
		query string
		want  []string
	}{
		{"", []string{"1", "2", "3"}},
		{"user=bob", []string{"2", "3"}},
		{"user=bob&outcome=failed", []string{"2"}},
		{"user=alice&user=bob", []string{"1", "2", "3"}},
		{"category=gpu-oom,gpu-hardware&sort=end", []string{"2", "1"}},
		{"fault=infrastructure", []string{"2"}},
		{"retry=never&outcome=failed", []string{"1"}},
		{"node=gpu-02&vc=vision", []string{"1"}},
		{"min_gpus=2&job=2", []string{"2"}},
		{"rule=xid-79", []string{"2"}},
		{"from=2026-12-01T09:45:00Z&to=2026-12-01T10:30:00Z", []string{"2"}},
		{"to=2026-12-01", nil},
		{"from=2026-12-01&sort=-gpu_s", []string{"1", "2", "3"}},
	} {
		w := c.get("/api/v1/attempts?" + test.query)
		wantStatus(t, w, 200)
		var page corpus.Page
		decode(t, w, &page)
		if diff := cmp.Diff(test.want, jobsOf(page.Attempts)); diff != "" || page.Total != int64(len(test.want)) {
			t.Errorf("?%s: total %d (-want +got):\n%s", test.query, page.Total, diff)
		}
	}
}

func TestListIsPaged(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	var got []string
	for cursor := "start"; cursor != ""; {
		var page corpus.Page
		decode(t, c.get("/api/v1/attempts?limit=1&cursor="+strings.TrimPrefix(cursor, "start")), &page)
		got, cursor = append(got, jobsOf(page.Attempts)...), url.QueryEscape(page.Next)
	}
	if diff := cmp.Diff([]string{"1", "2", "3"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBadQueries(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	for _, test := range []struct {
		path         string
		status       int
		field, words string
	}{
		{"/api/v1/attempts?usr=x", 400, "usr", "did you mean user?"},
		{"/api/v1/attempts?fault=mine", 400, "fault", `"mine" is none of user, infrastructure, unknown`},
		{"/api/v1/attempts?outcome=odd", 400, "outcome", "none of"},
		{"/api/v1/attempts?limit=0", 400, "limit", "from 1 to 1000"},
		{"/api/v1/attempts?limit=1&limit=2", 400, "limit", "given 2 times"},
		{"/api/v1/attempts?from=tomorrow", 400, "from", "a date is fine too"},
		{"/api/v1/attempts?from=2026-12-02&to=2026-12-01", 400, "to", "before from"},
		{"/api/v1/attempts?cursor=%00x", 400, "cursor", ""},
		{"/api/v1/attempts?sort=colour", 400, "sort", ""},
		{"/api/v1/attempts?a=%zz", 400, "", "cannot be read"},
		{"/api/v1/attempts/99", 404, "", "not found"},
		{"/api/v1/attempts/first", 404, "", "whole numbers"},
		{"/api/v1/attempts/1?x=1", 400, "x", "unknown"},
		{"/api/v1/attempts/1/log?from=0", 400, "from", "from 1 to"},
		{"/api/v1/attempts/1/log?from=3&to=2", 400, "to", "before from"},
		{"/api/v1/attempts/1/log?from=1&to=10001", 400, "to", "at most 10000 lines"},
		{"/api/v1/attempts/1/log?format=xml", 400, "format", "none of json, text"},
		{"/api/v1/attempts/1/log?file=rank9", 404, "file", "its first is"},
		{"/api/v1/jobs/77", 404, "", "not found"},
		{"/api/v1/search", 400, "q", "missing"},
		{"/api/v1/search?q=%22no+end", 400, "q", ""},
		{"/api/v1/search?q=a&limit=1000", 400, "limit", "from 1 to 200"},
		{"/api/v1/report?by=colour", 400, "by", "none of category, fault"},
		{"/api/v1/report?format=xml", 400, "format", "none of json, csv"},
		{"/api/v1/rules/none", 404, "", "not found"},
		{"/api/v1/rules?role=king", 400, "role", "none of cause"},
	} {
		t.Run(test.path, func(t *testing.T) {
			wantProblem(t, c.get(test.path), test.status, test.field, test.words)
		})
	}
}

func TestLogLines(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	var got logLines
	decode(t, c.get("/api/v1/attempts/1/log?from=2&to=3"), &got)
	text := strings.Split(oomLog, "\n")
	want := logLines{From: 2, To: 3, Total: 4, Lines: []logLine{{2, text[1]}, {3, text[2]}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	decode(t, c.get("/api/v1/attempts/1/log?from=4&to=900"), &got)
	if got.To != 4 || len(got.Lines) != 1 {
		t.Errorf("over the end: %+v", got)
	}
	decode(t, c.get("/api/v1/attempts/1/log"), &got)
	if len(got.Lines) != 4 {
		t.Errorf("without a span: %+v", got)
	}
	if got := c.get("/api/v1/attempts/1/log?from=2&to=3&format=text").Body.String(); got != text[1]+"\n"+text[2]+"\n" {
		t.Errorf("text is %q", got)
	}
	w := c.get("/api/v1/attempts/1/log", "Accept", "text/plain")
	if w.Body.String() != oomLog || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("Content-Length") != strconv.Itoa(len(oomLog)) ||
		!strings.Contains(w.Header().Get("Content-Disposition"), `attempt-1-log.txt`) {
		t.Errorf("whole log: %v\n%q", w.Header(), w.Body)
	}
}

func TestJobWithSlash(t *testing.T) {
	c := newClient(t)
	c.keep("job=ns/train%2B1&user=alice&cluster=k8s", oomLog)
	c.keep("job=ns/train%2B1&user=alice&cluster=k8s&attempt=2", "another end\n")
	var job jobView
	w := c.get("/api/v1/jobs/ns%2Ftrain+1?cluster=k8s")
	wantStatus(t, w, 200)
	decode(t, w, &job)
	if job.Job != "ns/train+1" || job.User != "alice" || len(job.Attempts) != 2 || job.Attempts[1].Number != 2 {
		t.Errorf("got %+v", job)
	}
}

// eventually asks again until the index has caught up.
func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for range 1000 {
		if done() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("it did not happen within 20 s")
}

func TestSearch(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	var hits corpus.Hits
	eventually(t, func() bool {
		decode(t, c.get("/api/v1/search?q=fallen+bus"), &hits)
		return hits.Total == 1
	})
	hit := hits.Hits[0]
	if hit.Attempt.Job != "2" || len(hit.Excerpts) == 0 || hit.Excerpts[0].Line != 2 || len(hit.Excerpts[0].Marks) == 0 {
		t.Errorf("got %+v", hit)
	}
	decode(t, c.get("/api/v1/search?q=user:alice+category:gpu-oom"), &hits)
	if hits.Total != 1 || hits.Hits[0].Attempt.Job != "1" {
		t.Errorf("by fields: %+v", hits)
	}
	if text := c.get("/api/v1/search?q=nosuchword").Body.String(); !strings.Contains(text, `"hits":[]`) {
		t.Errorf("no hits come as %s", text)
	}
}

func TestReport(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	var r corpus.Report
	decode(t, c.get("/api/v1/report?by=fault"), &r)
	if len(r.Rows) != 2 || r.Rows[0].Key != "user" || r.Rows[0].GPUSeconds != 8*9000 || r.Rows[1].GPUSeconds != 2*3600 || r.Total.Attempts != 2 {
		t.Errorf("got %+v", r)
	}
	if text := c.get("/api/v1/report?by=fault&from=2030-01-01").Body.String(); !strings.Contains(text, `"rows":[]`) {
		t.Errorf("no rows come as %s", text)
	}
}

// TestReportCSV: the CSV has the numbers of the JSON, and a user's name does not become a formula.
func TestReportCSV(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	c.keep("job=9&user="+url.QueryEscape(`=HYPERLINK("http://evil.example","x")`)+"&gpus=1&exit_code=1&start=2026-12-01T09:00:00Z&end=2026-12-01T09:00:07.5Z", oomLog)
	var r corpus.Report
	decode(t, c.get("/api/v1/report?by=user"), &r)
	for _, w := range []string{"&format=csv", ""} {
		reply := c.get("/api/v1/report?by=user"+w, "Accept", "text/csv")
		if got := reply.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/csv") {
			t.Fatalf("Content-Type is %q", got)
		}
		records, err := csv.NewReader(reply.Body).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		columns := records[0]
		if len(columns) != 17 || columns[1] != "key" || columns[15] != "gpu_s" || len(records) != len(r.Rows)+2 {
			t.Fatalf("%d records; columns %v", len(records), columns)
		}
		for i, row := range append(r.Rows, r.Total) {
			got := records[i+1]
			want := []any{row.Attempts, row.Jobs, row.Users, row.RTFp50, row.RTFp90, row.RTFp95, row.RTFTotal, row.RTFShare, row.GPU1, row.GPU2to4, row.GPUOver4, row.GPUSeconds, row.GPUShare}
			for j, w := range want {
				n, err := strconv.ParseFloat(got[j+4], 64)
				if err != nil || fmt.Sprint(n) != fmt.Sprint(asFloat(w)) {
					t.Errorf("row %d, %s: CSV %q, JSON %v", i, columns[j+4], got[j+4], w)
				}
			}
			if strings.HasPrefix(row.Key, "=") && got[1] != "'"+row.Key {
				t.Errorf("the formula comes as %q", got[1])
			}
		}
	}
}

func asFloat(v any) float64 {
	if n, ok := v.(int); ok {
		return float64(n)
	}
	return v.(float64)
}

func TestRulesAndTaxonomy(t *testing.T) {
	c := newClient(t)
	var list ruleList
	decode(t, c.get("/api/v1/rules"), &list)
	if len(list.Rules) != 3 || list.Version == "" {
		t.Errorf("got %+v", list)
	}
	decode(t, c.get("/api/v1/rules?category=collective-timeout&role=symptom"), &list)
	if len(list.Rules) != 1 || list.Rules[0].ID != "nccl-watchdog-timeout" {
		t.Errorf("narrowed: %+v", list)
	}
	var rule ruleView
	decode(t, c.get("/api/v1/rules/torch-cuda-oom"), &rule)
	if rule.Category != "gpu-oom" || rule.Pattern == "" || len(rule.Literals) != 1 || rule.Source == "" || rule.Line == 0 {
		t.Errorf("got %+v", rule)
	}
	var taxonomy taxonomyView
	decode(t, c.get("/api/v1/taxonomy"), &taxonomy)
	if len(taxonomy.Categories) < 22 || taxonomy.Categories[0].ID != "cpu-oom" {
		t.Errorf("got %+v", taxonomy)
	}
}
