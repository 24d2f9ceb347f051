package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"culprit/classifier"
	"culprit/corpus"
)

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func zstandard(s string, options ...zstd.EOption) string {
	w, err := zstd.NewWriter(nil, options...)
	if err != nil {
		panic(err)
	}
	return string(w.EncodeAll([]byte(s), nil))
}

func asJSON(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestWaysIn posts the same attempt in every way that is understood. Each must be kept as the first one was.
func TestWaysIn(t *testing.T) {
	const query = "job=4711&user=alice&gpus=8&exit_code=1"
	metadata := asJSON("job", "4711", "user", "alice", "gpus", 8, "exit_code", 1)
	for _, way := range []struct {
		name, query string
		send        func() (body, contentType, encoding string)
	}{
		{"curl --data-binary", query, func() (string, string, string) { return oomLog, "application/x-www-form-urlencoded", "" }},
		{"text", query, func() (string, string, string) { return oomLog, "text/plain; charset=utf-8", "" }},
		{"no type", query, func() (string, string, string) { return oomLog, "", "" }},
		{"a type that is none", query, func() (string, string, string) { return oomLog, "text/plain; charset", "" }},
		{"gzip", query, func() (string, string, string) { return gzipped(oomLog), "application/octet-stream", "gzip" }},
		{"zstd", query, func() (string, string, string) { return zstandard(oomLog), "", "zstd" }},
		{"JSON", "", func() (string, string, string) {
			return asJSON("job", "4711", "user", "alice", "gpus", 8, "exit_code", "1:0", "log", oomLog), "application/json", ""
		}},
		{"JSON, gzip", "gpus=8", func() (string, string, string) {
			return gzipped(asJSON("job", 4711, "user", "alice", "exit_code", 1, "log", oomLog)), "application/json; charset=utf-8", "gzip"
		}},
		{"form, metadata first", "", func() (string, string, string) {
			body, kind := form(`name="attempt"`, metadata, `name="log"`, oomLog)
			return body, kind, ""
		}},
		{"form, metadata last", "", func() (string, string, string) {
			body, kind := form(`name="log"`, oomLog, `name="attempt"; filename="attempt.json"`, metadata)
			return body, kind, ""
		}},
		{"form with fields", "user=alice", func() (string, string, string) {
			body, kind := form(`name="job"`, "4711", `name="gpus"`, "8", `name="log"`, oomLog, `name="exit_code"`, "1")
			return body, kind, ""
		}},
		{"form, gzip", query, func() (string, string, string) {
			body, kind := form(`name="log"`, oomLog)
			return gzipped(body), kind, "gzip"
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			c := newClient(t)
			body, kind, encoding := way.send()
			w := c.post("/api/v1/attempts?"+way.query, body, "Content-Type", kind, "Content-Encoding", encoding)
			wantStatus(t, w, 201)
			var a corpus.Attempt
			decode(t, w, &a)
			if a.Job != "4711" || a.User != "alice" || a.GPUs != 8 || a.Code == nil || *a.Code != 1 || a.Verdict.Category != "gpu-oom" || a.Verdict.Root.Line != 3 {
				t.Errorf("kept %+v", a)
			}
			raw := c.get("/api/v1/attempts/1/log?format=text")
			if diff := cmp.Diff(oomLog, raw.Body.String()); diff != "" {
				t.Errorf("the log (-sent +kept):\n%s", diff)
			}
		})
	}
}

func TestRankFiles(t *testing.T) {
	c := newClient(t)
	lines := strings.SplitAfter(oomLog, "\n")
	body, kind := form(
		`name="f"; filename="rank1.err.gz"`, gzipped(lines[0]+lines[3]),
		`name="f"; filename="../../rank0.err.zst"`, zstandard(lines[0]+lines[2]),
		`name="f"; filename="rank0.err"`, "",
		`name="rank2"`, lines[0],
		`name="attempt"`, `{"job": "7", "nodes": ["n1", "n2"], "exit_code": 1}`)
	w := c.post("/api/v1/attempts", body, "Content-Type", kind)
	wantStatus(t, w, 201)
	var a corpus.Attempt
	decode(t, w, &a)
	var names []string
	for _, l := range a.Logs {
		names = append(names, l.Name)
	}
	if diff := cmp.Diff([]string{"rank1.err", "rank0.err", "rank0.err (2)", "rank2"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if a.Verdict.Category != "gpu-oom" || a.Verdict.Root.File != "rank0.err" || a.Verdict.Root.Line != 2 {
		t.Errorf("verdict %+v", a.Verdict)
	}
	if got := c.get("/api/v1/attempts/1/log?format=text&file=rank1.err").Body.String(); got != lines[0]+lines[3] {
		t.Errorf("rank1.err is %q", got)
	}
}

// TestExitComesLast: an exit that a form gives after the log decides where the log is silent.
func TestExitComesLast(t *testing.T) {
	c := newClient(t)
	body, kind := form(`name="log"; filename="err.log"`, "step 1\n", `name="exit_code"`, "0")
	var v classifier.Verdict
	decode(t, c.post("/api/v1/classify", body, "Content-Type", kind), &v)
	if v.Category != "none" {
		t.Errorf("exit code 0 after the log: category %s, want none", v.Category)
	}
	body, kind = form(`name="log"; filename="err.log"`, "step 1\n", `name="exit_code"`, "1")
	decode(t, c.post("/api/v1/classify", body, "Content-Type", kind), &v)
	if v.Category != "no-signature" {
		t.Errorf("exit code 1 after the log: category %s, want no-signature", v.Category)
	}
}

func TestClassifyKeepsNothing(t *testing.T) {
	c := newClient(t)
	wantStatus(t, c.post("/api/v1/classify?job=1&exit_code=1", oomLog), 200)
	var page corpus.Page
	decode(t, c.get("/api/v1/attempts"), &page)
	if page.Total != 0 {
		t.Errorf("%d attempts are kept", page.Total)
	}
}

func TestAttemptWithoutLog(t *testing.T) {
	c := newClient(t)
	w := c.post("/api/v1/attempts", `{"job": "9", "state": "NODE_FAIL"}`, "Content-Type", "application/json")
	wantStatus(t, w, 201)
	wantProblem(t, c.get("/api/v1/attempts/1/log"), 404, "", "without a log")
	c.page("/attempts/1")
}

func TestFineInput(t *testing.T) {
	c := newClient(t)
	for name, body := range map[string]string{
		"invalid UTF-8":       "caf\xe9 \xff\xfe\n" + oomLog,
		"latin-1 from start":  "\xe9\xe8\xe0 d\xe9but\n" + oomLog,
		"ANSI and \\r":        "\x1b[31m10%\r20%\r\x1b[0m\n" + oomLog,
		"some NULs":           "abc\x00def\n" + oomLog,
		"no newline":          strings.TrimSuffix(oomLog, "\n"),
		"one line of 4 MiB":   strings.Repeat("x", 4<<20) + "\n" + oomLog,
		"looks like a query":  "a=b&c=d\n" + oomLog,
		"looks like JSON":     `{"job": 1}` + "\n" + oomLog,
		"begins with newline": "\n\n" + oomLog,
	} {
		w := c.post("/api/v1/classify?exit_code=1", body, "Content-Type", "application/x-www-form-urlencoded")
		var v classifier.Verdict
		if w.Code == 200 {
			decode(t, w, &v)
		}
		if w.Code != 200 || v.Category != "gpu-oom" || v.Bytes != int64(len(body)) {
			t.Errorf("%s: status %d, category %s, %d of %d bytes", name, w.Code, v.Category, v.Bytes, len(body))
		}
	}
}

func TestBadInput(t *testing.T) {
	formType := "multipart/form-data; boundary=b"
	part := func(head, body string) string {
		return "--b\r\nContent-Disposition: form-data; " + head + "\r\n\r\n" + body + "\r\n"
	}
	file := `name="log"; filename="err.log"`
	bomb := strings.Repeat("0", testLimit+1)
	for _, test := range []struct {
		name, query, body, kind, encoding string
		status                            int
		field, words                      string
	}{
		{"empty body", "job=1", "", "", "", 400, "", "the body is empty: send the log"},
		{"empty JSON", "job=1", "", "application/json", "", 400, "", "a JSON object is wanted"},
		{"empty gzip", "job=1", gzipped(""), "", "gzip", 400, "", "the body is empty"},
		{"empty form", "job=1", "--b--\r\n", formType, "", 400, "log", "no log in the form"},
		{"form with an empty file", "job=1", part(file, "") + "--b--\r\n", formType, "", 400, "log", "every log in the form is empty"},
		{"JSON without log or exit", "", `{"job": "1"}`, "application/json", "", 400, "log", "missing"},
		{"JSON with an empty log", "", `{"job": "1", "log": ""}`, "application/json", "", 400, "log", "empty"},

		{"no job", "user=alice", oomLog, "", "", 400, "job", "missing"},
		{"no job in a form", "", part(file, oomLog) + "--b--\r\n", formType, "", 400, "job", "missing"},
		{"negative GPUs", "job=1&gpus=-8", oomLog, "", "", 400, "gpus", `"-8": less than 0`},
		{"negative GPUs in JSON", "", `{"job": 1, "gpus": -8, "log": "x"}`, "application/json", "", 400, "gpus", `"-8": less than 0`},
		{"negative GPUs in a form", "job=1", part(`name="attempt"`, `{"gpus": -8}`) + part(file, oomLog) + "--b--\r\n", formType, "", 400, "gpus", `"-8": less than 0`},
		{"end before start", "job=1&start=2026-12-01T10:00:00Z&end=2026-12-01T09:00:00Z", oomLog, "", "", 400, "end", "is before start"},
		{"end before start, last in a form", "job=1", part(file, oomLog) + part(`name="attempt"`, `{"start": 1796149800, "end": 1796149799}`) + "--b--\r\n", formType, "", 400, "end", "is before start"},
		{"bad time", "job=1&end=yesterday", oomLog, "", "", 400, "end", "RFC 3339"},
		{"bad exit code", "job=1&exit_code=1000", oomLog, "", "", 400, "exit_code", "0 to 511"},
		{"unknown parameter", "job=1&usr=alice", oomLog, "", "", 400, "usr", "did you mean user?"},
		{"unknown member", "", `{"job": "1", "gpu": 8, "log": "x"}`, "application/json", "", 400, "gpu", "did you mean gpus?"},
		{"unknown member of a log", "", `{"job": "1", "logs": [{"nam": "a", "text": "x"}]}`, "application/json", "", 400, "logs", `unknown field "nam"`},
		{"unknown field in a form", "job=1", part(`name="usre"`, "alice") + "--b--\r\n", formType, "", 400, "usre", "did you mean user?"},
		{"two values", "job=1&job=2", oomLog, "", "", 400, "job", "given twice"},
		{"query and JSON differ", "job=1", `{"job": "2", "log": "x"}`, "application/json", "", 400, "job", "given twice"},
		{"a query that is none", "job=%zz", oomLog, "", "", 400, "", "the query cannot be read"},
		{"a member of the wrong type", "", `{"job": ["1"], "log": "x"}`, "application/json", "", 400, "job", "text or a number"},
		{"JSON that is none", "", `{"job": `, "application/json", "", 400, "", "not JSON: byte"},
		{"JSON that is no object", "", `["log"]`, "application/json", "", 400, "", "a JSON object is wanted"},
		{"JSON twice", "", `{"job":"1","log":"x"}{}`, "application/json", "", 400, "", "not JSON"},

		{"binary", "job=1", strings.Repeat("\x00\x01\x02\x03", 1000), "", "", 415, "", "is binary"},
		{"NULs", "job=1", strings.Repeat("\x00", 5000) + oomLog, "", "", 415, "", "most of its first bytes are NUL"},
		{"gzip without saying so", "job=1", gzipped(oomLog), "", "", 415, "", "it is gzip: send it with Content-Encoding: gzip"},
		{"zstd without saying so", "job=1", zstandard(oomLog), "", "", 415, "", "it is zstd"},
		{"zip", "job=1", "PK\x03\x04" + oomLog, "application/zip", "", 415, "", "zip archive"},
		{"UTF-16", "job=1", "\xff\xfes\x00t\x00e\x00p\x00", "", "", 415, "", "UTF-16"},
		{"binary file in a form", "job=1", part(file, oomLog) + part(`name="f"; filename="core"`, "\x7fELF\x02\x01") + "--b--\r\n", formType, "", 415, "", `file "core" is not a text log: it is a program`},

		{"not gzip", "job=1", oomLog, "", "gzip", 400, "", "not gzip data"},
		{"cut gzip", "job=1", gzipped(oomLog)[:60], "", "gzip", 400, "", "the gzip data is cut"},
		{"cut zstd", "job=1", zstandard(oomLog)[:60], "", "zstd", 400, "", "the zstd data is cut"},
		{"damaged gzip file in a form", "job=1", part(`name="f"; filename="a.gz"`, "no gzip") + "--b--\r\n", formType, "", 400, "", "gzip"},
		{"unknown encoding", "job=1", oomLog, "", "br", 415, "", "gzip, zstd or none is"},

		{"too long", "job=1", bomb, "", "", 413, "", "8 MiB of log"},
		{"gzip bomb", "job=1", gzipped(bomb), "", "gzip", 413, "", "unpacked"},
		{"zstd bomb", "job=1", zstandard(bomb), "", "zstd", 413, "", "unpacked"},
		{"gzip bomb in a form", "job=1", part(`name="f"; filename="a.gz"`, gzipped(bomb)) + "--b--\r\n", formType, "", 413, "", "unpacked"},
		{"two halves of a bomb", "job=1", part(`name="f"; filename="a.gz"`, gzipped(bomb[:testLimit/2])) + part(`name="g"; filename="b.gz"`, gzipped(bomb[:testLimit/2+1])) + "--b--\r\n", formType, "", 413, "", "unpacked"},

		{"cut form, in a file", "job=1", part(file, oomLog)[:100], formType, "", 400, "", "the multipart body is cut"},
		{"cut form, after a file", "job=1", part(file, oomLog), formType, "", 400, "", "the multipart body is cut"},
		{"cut form, in a head", "job=1", part(file, oomLog) + "--b\r\nContent-Dis", formType, "", 400, "", "the multipart body is cut"},
		{"form without boundary", "job=1", oomLog, "multipart/form-data", "", 415, "", "with a boundary"},
		{"another multipart", "job=1", oomLog, "multipart/mixed; boundary=b", "", 415, "", "multipart/mixed is not understood"},
		{"attempt that is no JSON", "job=1", part(`name="attempt"`, "{") + "--b--\r\n", formType, "", 400, "attempt", "not JSON"},
		{"a part without a name", "job=1", part(`x="y"`, oomLog) + "--b--\r\n", formType, "", 400, "", "neither name nor file name"},
		{"a field as long as a log", "job=1", part(`name="user"`, strings.Repeat("a", maxValue+1)) + "--b--\r\n", formType, "", 400, "user", "longer than 64 KiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t)
			w := c.post("/api/v1/attempts?"+test.query, test.body, "Content-Type", test.kind, "Content-Encoding", test.encoding)
			wantProblem(t, w, test.status, test.field, test.words)
			var page corpus.Page
			decode(t, c.get("/api/v1/attempts"), &page)
			if page.Total != 0 {
				t.Errorf("%d attempts are kept of a refused request", page.Total)
			}
		})
	}
}

func TestTooManyParts(t *testing.T) {
	c := newClient(t)
	part := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"err.log\"\r\n\r\nx\r\n"
	for n, want := range map[int]int{maxParts: 200, maxParts + 1: 413} {
		w := c.post("/api/v1/classify", strings.Repeat(part, n)+"--b--\r\n", "Content-Type", "multipart/form-data; boundary=b")
		if wantStatus(t, w, want); want == 413 {
			wantProblem(t, w, want, "", "more than 10000 parts")
		}
	}
}

// cutBody is a body whose connection ends early.
type cutBody struct{ text io.Reader }

func (b cutBody) Read(p []byte) (int, error) {
	n, err := b.text.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestCutBody(t *testing.T) {
	c := newClient(t)
	wantProblem(t, c.send("POST", "/api/v1/attempts?job=1", cutBody{strings.NewReader(oomLog)}), 400, "", "the body is cut")
}

func TestContentLengthOverTheLimitIsNotRead(t *testing.T) {
	c := newClient(t)
	r := httptest.NewRequest("POST", "/api/v1/attempts?job=1", iotestFail{t})
	r.ContentLength = testLimit + 1
	w := httptest.NewRecorder()
	c.server.Handler().ServeHTTP(w, r)
	wantProblem(t, w, 413, "", "8 MiB")
}

type iotestFail struct{ t *testing.T }

func (f iotestFail) Read([]byte) (int, error) {
	f.t.Error("the body is read")
	return 0, io.EOF
}

func TestAnotherUsersJob(t *testing.T) {
	c := newClient(t)
	c.keep("job=1&user=alice", oomLog)
	wantProblem(t, c.post("/api/v1/attempts?job=1&user=bob&attempt=2", "other\n"), 409, "user", "another user")
}

func TestSameAttemptAgain(t *testing.T) {
	c := newClient(t)
	first := c.keep("job=1&attempt=1&exit_code=1", oomLog)
	w := c.post("/api/v1/attempts?job=1&attempt=1&exit_code=1", oomLog)
	wantStatus(t, w, 200)
	var again corpus.Attempt
	decode(t, w, &again)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
	wantProblem(t, c.post("/api/v1/attempts?job=1&attempt=1&exit_code=1", "another log\n"), 409, "logs", "other content")
}

// lines makes a log of n bytes without holding it.
type lines struct{ n int64 }

func (l *lines) Read(p []byte) (int, error) {
	if l.n <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && int64(n) < l.n {
		n += copy(p[n:], "2026-12-01 10:00:00 INFO step 1200 loss 2.134 lr 1e-4 grad_norm 0.98 tokens/s 120,431\n")
	}
	l.n -= int64(n)
	return n, nil
}

// TestMemoryDoesNotGrowWithTheLog posts 256 MiB in one body and in a form, and looks at the heap while it is read.
func TestMemoryDoesNotGrowWithTheLog(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 512 MiB")
	}
	const size = 256 << 20
	c := newClient(t, func(cfg *Config) { cfg.MaxBytes = 1 << 30 })
	for _, way := range []string{"body", "form"} {
		body, kind := io.Reader(&lines{size}), ""
		if way == "form" {
			head := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"err.log\"\r\n\r\n"
			body, kind = io.MultiReader(strings.NewReader(head), body, strings.NewReader("\r\n--b--\r\n")), "multipart/form-data; boundary=b"
		}
		watch := &heapWatch{r: body}
		w := c.send("POST", "/api/v1/attempts?exit_code=1&job="+way, watch, "Content-Type", kind)
		wantStatus(t, w, 201)
		if watch.most > 100<<20 {
			t.Errorf("%s: the heap grew to %d MiB", way, watch.most>>20)
		}
	}
}

// heapWatch remembers the most heap in use while a body is read.
type heapWatch struct {
	r          io.Reader
	most, read uint64
}

func (h *heapWatch) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if h.read += uint64(n); h.read > 16<<20 || err != nil {
		h.read = 0
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		h.most = max(h.most, m.HeapInuse)
	}
	return n, err
}

func TestLineOf100MB(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 100 MB")
	}
	c := newClient(t, func(cfg *Config) { cfg.MaxBytes = 1 << 30 })
	long := io.LimitReader(endless('x'), 100_000_000)
	w := c.send("POST", "/api/v1/attempts?job=1&exit_code=1", io.MultiReader(long, strings.NewReader("\n"+oomLog)))
	wantStatus(t, w, 201)
	var a corpus.Attempt
	decode(t, w, &a)
	if a.Verdict.Category != "gpu-oom" || a.Verdict.Root.Line != 4 || a.Verdict.Bytes != 100_000_001+int64(len(oomLog)) {
		t.Errorf("verdict %+v", a.Verdict)
	}
	if page := c.get("/attempts/1?from=1&to=5"); page.Code != 200 || page.Body.Len() > 100_000 {
		t.Errorf("the page has status %d and %d bytes", page.Code, page.Body.Len())
	}
	if n := c.get("/api/v1/attempts/1/log?from=1&to=5").Body.Len(); n > 200_000 {
		t.Errorf("five lines come as %d bytes", n)
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func FuzzUpload(f *testing.F) {
	body, kind := form(`name="attempt"`, `{"job": "1"}`, `name="f"; filename="a.gz"`, gzipped(oomLog))
	f.Add("job=1&gpus=8", "", "", oomLog)
	f.Add("job=1", kind, "", body)
	f.Add("", "application/json", "", asJSON("job", "1", "log", oomLog))
	f.Add("job=1", "", "gzip", gzipped(oomLog))
	f.Add("job=1", "", "zstd", zstandard(oomLog))
	f.Add("node=a[1-2]&start=1796149800", "multipart/form-data; boundary=b", "zstd", "--b\r\n")
	c := newClient(f)
	n := 0
	f.Fuzz(func(t *testing.T, query, kind, encoding, body string) {
		r := httptest.NewRequest("POST", "/api/v1/classify", strings.NewReader(body))
		r.URL.RawQuery = query
		r.Header["Content-Type"], r.Header["Content-Encoding"] = []string{kind}, []string{encoding}
		if n++; n%2 == 0 { // half of them are to be kept
			r.URL.Path = "/api/v1/attempts"
		}
		w := httptest.NewRecorder()
		c.server.Handler().ServeHTTP(w, r)
		switch {
		case w.Code >= 500:
			t.Errorf("status %d\n%s", w.Code, w.Body)
		case w.Code >= 400:
			var p problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Detail == "" || p.Status != w.Code {
				t.Errorf("status %d without a reason: %s", w.Code, w.Body)
			}
		case !json.Valid(w.Body.Bytes()):
			t.Errorf("status %d with no JSON: %s", w.Code, w.Body)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	for _, size := range []int64{10 << 10, 100 << 10, 10 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			c := newClient(b, func(cfg *Config) { cfg.MaxBytes = 1 << 30 })
			log, err := io.ReadAll(&lines{size})
			if err != nil {
				b.Fatal(err)
			}
			log = append(log, oomLog...)
			b.SetBytes(int64(len(log)))
			for b.Loop() {
				if w := c.send("POST", "/api/v1/classify?exit_code=1", bytes.NewReader(log)); w.Code != 200 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
