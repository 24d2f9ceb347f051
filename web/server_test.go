package web

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"culprit/classifier"
	"culprit/corpus"
	"culprit/rules"
)

// oomLog is an attempt of which rank 0 ran out of memory and rank 3 waited for it.
const oomLog = `step 1200 loss 2.1 lr 1e-4
step 1201 loss 2.1 lr 1e-4
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.
[rank3]:[E] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE) ran for 600029 milliseconds
`

// client sends requests to a server with a corpus of its own.
type client struct {
	tb     testing.TB
	server *Server
}

// testLimit is the most bytes of log that a test server takes.
const testLimit = 8 << 20

func newClient(tb testing.TB, change ...func(*Config)) client {
	tb.Helper()
	set, err := rules.Load(os.DirFS("testdata/packs"))
	if err != nil {
		tb.Fatal(err)
	}
	kept, err := corpus.Open(tb.Context(), tb.TempDir(), corpus.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := kept.Close(); err != nil {
			tb.Error(err)
		}
	})
	cfg := Config{Corpus: kept, Classifier: classifier.New(set), Version: "1.2.3", MaxBytes: testLimit}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return client{tb, s}
}

// send sends a request with headers given as pairs.
func (c client) send(method, url string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	c.tb.Helper()
	r := httptest.NewRequest(method, url, body)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.server.Handler().ServeHTTP(w, r)
	return w
}

func (c client) get(url string, headers ...string) *httptest.ResponseRecorder {
	c.tb.Helper()
	return c.send("GET", url, nil, headers...)
}

func (c client) post(url, body string, headers ...string) *httptest.ResponseRecorder {
	c.tb.Helper()
	return c.send("POST", url, strings.NewReader(body), headers...)
}

// page gets a page that must be there and parses it.
func (c client) page(url string) *goquery.Document {
	c.tb.Helper()
	w := c.get(url, "Accept", "text/html")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		c.tb.Fatalf("GET %s: status %d, %s\n%s", url, w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	return document(c.tb, w)
}

func document(tb testing.TB, w *httptest.ResponseRecorder) *goquery.Document {
	tb.Helper()
	doc, err := goquery.NewDocumentFromReader(w.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// keep adds an attempt and returns it.
func (c client) keep(query, log string) corpus.Attempt {
	c.tb.Helper()
	w := c.post("/api/v1/attempts?"+query, log)
	if w.Code != http.StatusCreated {
		c.tb.Fatalf("POST attempts?%s: status %d\n%s", query, w.Code, w.Body)
	}
	var a corpus.Attempt
	decode(c.tb, w, &a)
	return a
}

func decode(tb testing.TB, w *httptest.ResponseRecorder, to any) {
	tb.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
		tb.Fatalf("%v in %s", err, w.Body)
	}
}

// form writes multipart/form-data. A part is its disposition, as in `name="log"; filename="rank0"`, and its content.
func form(parts ...string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(parts); i += 2 {
		part, err := w.CreatePart(map[string][]string{"Content-Disposition": {"form-data; " + parts[i]}})
		if err == nil {
			_, err = io.WriteString(part, parts[i+1])
		}
		if err != nil {
			panic(err)
		}
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

func wantStatus(t *testing.T, w *httptest.ResponseRecorder, want int) {
	t.Helper()
	if w.Code != want {
		t.Fatalf("status %d, want %d\n%s", w.Code, want, w.Body)
	}
}

// wantProblem holds an answer to a status, a field and words of the detail.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, field, words string) {
	t.Helper()
	var p problem
	if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("status %d, %s; want %d and a problem\n%s", w.Code, w.Header().Get("Content-Type"), status, w.Body)
	}
	decode(t, w, &p)
	if p.Status != status || p.Title != http.StatusText(status) || p.Field != field || !strings.Contains(p.Detail, words) || p.RequestID == "" {
		t.Errorf("got %+v, want status %d, field %q, detail with %q and a request id", p, status, field, words)
	}
}

func TestEveryReplyIsGuarded(t *testing.T) {
	c := newClient(t)
	for _, path := range []string{"/", "/api/v1/rules", "/nothing", "/static/culprit.css", "/api/v1/attempts/x", "/metrics"} {
		h := c.get(path).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
		} {
			if !strings.Contains(h.Get(name), want) {
				t.Errorf("%s: %s is %q, want %q in it", path, name, h.Get(name), want)
			}
		}
		if strings.Contains(h.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: the policy allows %q", path, h.Get("Content-Security-Policy"))
		}
	}
}

func TestRequestID(t *testing.T) {
	c := newClient(t)
	if got := c.get("/healthz", "X-Request-Id", "proxy-17").Header().Get("X-Request-Id"); got != "proxy-17" {
		t.Errorf("a fit id became %q", got)
	}
	first, second := c.get("/healthz", "X-Request-Id", "<b>").Header().Get("X-Request-Id"), c.get("/healthz").Header().Get("X-Request-Id")
	if !aRequestID.MatchString(first) || first == second {
		t.Errorf("made ids are %q and %q", first, second)
	}
}

func TestForwardedHeadersAreNotBelieved(t *testing.T) {
	c := newClient(t)
	c.keep("job=1", oomLog)
	w := c.post("/api/v1/attempts?job=2", oomLog, "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https", "X-Forwarded-Prefix", "/evil")
	if got := w.Header().Get("Location"); got != "/api/v1/attempts/2" {
		t.Errorf("Location is %q", got)
	}
	r := httptest.NewRequest("GET", "/attempts", nil)
	r.Host = "evil.example"
	page := httptest.NewRecorder()
	c.server.Handler().ServeHTTP(page, r)
	if page.Code != http.StatusOK || strings.Contains(page.Body.String(), "evil") {
		t.Errorf("status %d; the page speaks of the Host header: %v", page.Code, strings.Contains(page.Body.String(), "evil"))
	}
}

func TestOtherSitesCannotPost(t *testing.T) {
	c := newClient(t)
	for _, test := range []struct {
		name    string
		headers []string
		want    int
	}{
		{"a program", nil, 201},
		{"this site's form", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://example.com"}, 201},
		{"another site's form", []string{"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example"}, 403},
		{"a sub-domain's form", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"an old browser, another site", []string{"Origin", "http://evil.example"}, 403},
		{"a page without an origin", []string{"Origin", "null"}, 403},
	} {
		if w := c.post("/api/v1/attempts?job="+strings.ReplaceAll(test.name, " ", "+"), oomLog, test.headers...); w.Code != test.want {
			t.Errorf("%s: status %d, want %d\n%s", test.name, w.Code, test.want, w.Body)
		}
	}
}

func TestNothingThere(t *testing.T) {
	c := newClient(t)
	wantProblem(t, c.get("/api/v1/nothing"), 404, "", "/api/v1/nothing")
	wantProblem(t, c.get("/nothing"), 404, "", "/nothing")
	w := c.send("DELETE", "/api/v1/attempts", nil)
	wantProblem(t, w, 405, "", "GET")
	if got := w.Header().Get("Allow"); !strings.Contains(got, "POST") {
		t.Errorf("Allow is %q", got)
	}
	page := c.get("/nothing", "Accept", "text/html,*/*")
	wantStatus(t, page, 404)
	if got := document(t, page).Find("main h1").Text(); got != "Not Found" {
		t.Errorf("the page for people says %q", got)
	}
}

func TestHead(t *testing.T) {
	c := newClient(t)
	for _, path := range []string{"/", "/healthz", "/openapi.yaml"} {
		wantStatus(t, c.send("HEAD", path, nil), 200)
	}
}

func TestHealth(t *testing.T) {
	c := newClient(t)
	var h health
	decode(t, c.get("/healthz"), &h)
	if h.Status != "ok" || h.Version != "1.2.3" {
		t.Errorf("/healthz: %+v", h)
	}
	c.keep("job=1", oomLog)
	decode(t, c.get("/readyz"), &h)
	if h.Status != "ready" || h.Rules != 3 || h.Corpus == nil || h.Corpus.Attempts != 1 {
		t.Errorf("/readyz: %+v", h)
	}
	if err := c.server.corpus.Close(); err != nil {
		t.Fatal(err)
	}
	w := c.get("/readyz")
	wantStatus(t, w, 503)
	if strings.Contains(w.Body.String(), "sql") {
		t.Errorf("the cause is shown: %s", w.Body)
	}
}

func TestInternalErrorsAreNotShown(t *testing.T) {
	c := newClient(t)
	if err := c.server.corpus.Close(); err != nil {
		t.Fatal(err)
	}
	w := c.get("/api/v1/attempts/1")
	wantProblem(t, w, 500, "", "internal error")
	if strings.Contains(w.Body.String(), "sql") {
		t.Errorf("the cause is shown: %s", w.Body)
	}
}

func TestMetrics(t *testing.T) {
	c := newClient(t)
	c.keep("job=1", oomLog)
	text := c.get("/metrics").Body.String()
	for _, want := range []string{
		`culprit_verdicts_total{category="gpu-oom",fault="user",retry="never"} 1`,
		`culprit_http_requests_total{method="POST",route="/api/v1/attempts",status="201"} 1`,
		`culprit_classified_bytes_total ` + strconv.Itoa(len(oomLog)),
		`culprit_attempts 1`, `culprit_corpus_up 1`, `culprit_index_lag_attempts`, `culprit_classify_duration_seconds_count 1`,
		`culprit_build_info{rules_version="` + c.server.classifier.Load().Rules().Version() + `",version="1.2.3"} 1`, `go_goroutines`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestSetClassifier(t *testing.T) {
	c := newClient(t)
	set, err := rules.Load(os.DirFS("testdata/packs"))
	if err != nil {
		t.Fatal(err)
	}
	next := classifier.New(set)
	c.server.SetClassifier(next)
	if c.server.classifier.Load() != next {
		t.Error("requests still get the old classifier")
	}
	wantStatus(t, c.post("/api/v1/classify", oomLog), 200)
}

// stuckBody never ends and never fails until it is closed.
type stuckBody struct{ closed chan struct{} }

func (b stuckBody) Read([]byte) (int, error) { <-b.closed; return 0, io.ErrUnexpectedEOF }

func TestTooManyUploads(t *testing.T) {
	c := newClient(t, func(cfg *Config) { cfg.MaxUploads = 1 })
	c.server.uploadWait = 10 * time.Millisecond
	stuck := stuckBody{make(chan struct{})}
	first := make(chan int)
	go func() { first <- c.send("POST", "/api/v1/classify", stuck).Code }()
	for len(c.server.uploads) == 0 {
		time.Sleep(time.Millisecond)
	}
	w := c.post("/api/v1/classify", oomLog)
	wantProblem(t, w, 429, "", "1 uploads are being read")
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(stuck.closed)
	if got := <-first; got != 400 {
		t.Errorf("the stuck upload ended with %d, want 400", got)
	}
	wantStatus(t, c.post("/api/v1/classify", oomLog), 200)
}
