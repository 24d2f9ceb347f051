package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"culprit/classifier"
)

const crashLog = "step 100 loss 2.1 lr 1e-4\n[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n"

func (c client) gate(t *testing.T, query, body string) (d classifier.Decision) {
	c.tb.Helper()
	w := c.post("/api/v1/gate?"+query, body)
	wantStatus(t, w, http.StatusOK)
	decode(c.tb, w, &d)
	return d
}

func TestGate(t *testing.T) {
	c := newClient(t)
	c.keep("job=1&attempt=1&exit_code=1&gpus=8", crashLog)
	c.keep("job=1&attempt=2&exit_code=1&gpus=8", "step 100 loss 2.1 lr 1e-4\nnothing that anybody knows\n")
	tests := []struct {
		name, query, body string
		verdict           classifier.Answer
		attempt           int
		undecided         bool
	}{
		{"the last attempt of the job", "job=1", "", "retry", 2, true},
		{"the one that is asked for", "job=1&attempt=1", "", "stop", 1, false},
		{"a log that is not kept", "exit_code=1", crashLog, "stop", 1, false},
		{"a log with the job's history", "job=1&exit_code=1", crashLog, "stop", 3, false},
		{"a log of a job that nobody knows", "job=2&exit_code=1", crashLog, "stop", 1, false},
		{"a log that says nothing", "exit_code=1", "hm\n", "retry", 1, true},
		{"a job that passed", "exit_code=0", "fine\n", "retry", 1, true},
	}
	for _, tt := range tests {
		d := c.gate(t, tt.query, tt.body)
		if d.Verdict != tt.verdict || d.Attempt != tt.attempt || d.Undecided != tt.undecided || d.Reason == "" {
			t.Errorf("%s: POST gate?%s %.20q\n got %+v\nwant %s, attempt %d, undecided %v", tt.name, tt.query, tt.body, d, tt.verdict, tt.attempt, tt.undecided)
		}
	}
	if n := c.list(); n != 2 {
		t.Errorf("%d attempts are kept after asking, want 2", n)
	}
	var job struct {
		Gate     classifier.Decision
		Attempts []struct{}
	}
	decode(t, c.get("/api/v1/jobs/1"), &job)
	if job.Gate.Attempt != 2 || !job.Gate.Undecided || len(job.Attempts) != 2 {
		t.Errorf("the job's gate: %+v", job)
	}
	if text := c.get("/metrics").Body.String(); !strings.Contains(text, `culprit_gate_decisions_total{category="gpu-oom",mode="enforce",verdict="stop",would="stop"} 4`) {
		t.Errorf("decisions are not counted:\n%s", grep(text, "gate"))
	}
}

// list counts the kept attempts.
func (c client) list() int {
	c.tb.Helper()
	var page struct{ Total int }
	decode(c.tb, c.get("/api/v1/attempts"), &page)
	return page.Total
}

func grep(text, word string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func TestGateMistakes(t *testing.T) {
	c := newClient(t)
	c.keep("job=1&exit_code=1", crashLog)
	for _, tt := range []struct {
		name, query, body, field string
		status                   int
	}{
		{"neither a job nor a log", "", "", "job", 400},
		{"no such job", "job=2", "", "", 404},
		{"no such attempt", "job=1&attempt=7", "", "", 404},
		{"another cluster's job", "job=1&cluster=b", "", "", 404},
		{"a misspelt field", "jb=1", "", "jb", 400},
		{"an attempt below 1", "job=1&attempt=0", "", "attempt", 400},
	} {
		w := c.post("/api/v1/gate?"+tt.query, tt.body)
		var p problem
		decode(t, w, &p)
		if w.Code != tt.status || p.Field != tt.field {
			t.Errorf("%s: status %d, field %q; want %d, %q: %s", tt.name, w.Code, p.Field, tt.status, tt.field, w.Body)
		}
	}
}

// TestGatePolicy: another policy counts from the next request on.
func TestGatePolicy(t *testing.T) {
	c := newClient(t)
	c.keep("job="+url.QueryEscape("a/b")+"&exit_code=1", crashLog)
	policy, err := classifier.LoadPolicy(strings.NewReader("exceptions: [{category: gpu-oom, mode: shadow}]"), "policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before := c.gate(t, "job=a/b", "")
	c.server.SetPolicy(policy)
	after := c.gate(t, "job=a/b", "")
	if before.Verdict != classifier.AnswerStop || after.Verdict != classifier.AnswerRetry || after.Would != classifier.AnswerStop {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
}

func TestGatePage(t *testing.T) {
	c := newClient(t)
	if text := c.page("/gate").Find("main h2").Text(); !strings.Contains(text, "stopped nothing") {
		t.Errorf("without attempts: %q", text)
	}
	for range 3 {
		c.keep("job=1&exit_code=1&gpus=8&start=2026-12-01T08:00:00Z&end=2026-12-01T09:00:00Z", crashLog+strings.Repeat("x\n", c.list()))
	}
	doc := c.page("/gate?range=all")
	var rows []string
	doc.Find("main tr").Each(func(_ int, row *goquery.Selection) {
		rows = append(rows, strings.Join(strings.Fields(row.Text()), " "))
	})
	want := []string{"RuleCategoryModeStopsBlockedGPU hours savedFalse blocks", "torch-cuda-oomgpu-oomenforce1216.0 h0",
		"if everything were enforced1216.0 h0", "with the modes as they are1216.0 h0"}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if href, _ := doc.Find("main tbody a").Attr("href"); !strings.HasPrefix(href, "/attempts?") || !strings.Contains(href, "rule=torch-cuda-oom") {
		t.Errorf("the rule leads to %q", href)
	}
}
