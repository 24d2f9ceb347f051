package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"culprit/corpus"
)

// words is the text of a selection with one space between words and between cells.
func words(s *goquery.Selection) string {
	s = s.Clone()
	s.Find("td, th, dt, dd, li, p, div, br").AppendHtml(" ").BeforeHtml(" ")
	return strings.Join(strings.Fields(s.Text()), " ")
}

// wantText holds the text of a selection to what it contains.
func wantText(t *testing.T, doc *goquery.Document, selector, want string) {
	t.Helper()
	if got := words(doc.Find(selector)); !strings.Contains(got, want) {
		t.Errorf("%s is %q, want %q in it", selector, clip(got, 300), want)
	}
}

func wantCount(t *testing.T, doc *goquery.Document, selector string, want int) {
	t.Helper()
	if got := doc.Find(selector).Length(); got != want {
		t.Errorf("%d × %s, want %d", got, selector, want)
	}
}

// wantLinks follows every link of a page within the server.
func wantLinks(t *testing.T, c client, doc *goquery.Document) {
	t.Helper()
	ids := map[string]bool{}
	doc.Find("[id]").Each(func(_ int, s *goquery.Selection) { ids[s.AttrOr("id", "")] = true })
	doc.Find("a[href], link[href]").Each(func(_ int, s *goquery.Selection) {
		href := s.AttrOr("href", "")
		path, fragment, _ := strings.Cut(href, "#")
		switch {
		case path == "" && !ids[fragment]:
			t.Errorf("%s leads to no place on the page", href)
		case path != "" && !strings.HasPrefix(path, "/"):
			t.Errorf("%s leads away", href)
		case path != "":
			if w := c.get(path, "Accept", "text/html"); w.Code != 200 {
				t.Errorf("%s has status %d", href, w.Code)
			} else if fragment != "" && !strings.Contains(w.Body.String(), `id="`+fragment+`"`) {
				t.Errorf("%s has no such place", href)
			}
		}
	})
}

func TestOverview(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	doc := c.page("/?range=all")
	wantText(t, doc, ".figures", "GPU time lost 22.0 GPU hours, 98 % of all Failed attempts 2 Jobs 2 Users 2")
	wantCount(t, doc, ".stack rect", 2)
	wantText(t, doc, ".legend", "user 20.0 GPU hours 91 %")
	wantText(t, doc, ".legend", "infrastructure 2.00 GPU hours 9.1 %")
	wantText(t, doc, ".bars tbody tr:first-child th", "GPU out of memory")
	if got := doc.Find(".bars th a").First().AttrOr("href", ""); got != "/attempts?category=gpu-oom&range=all&sort=-gpu_s" {
		t.Errorf("the bar leads to %s", got)
	}
	wantText(t, doc, ".bars", "gpu-02")
	wantCount(t, doc, "section:last-child table.list tbody tr", 2)
	wantText(t, doc, ".kinds tbody tr:first-child", "GPU out of memory rank 0 ran out of GPU memory allocating 2.50 GiB")
	wantLinks(t, c, doc)
}

// TestOverviewWithoutGPUTime: attempts without times are counted, not lost.
func TestOverviewWithoutGPUTime(t *testing.T) {
	c := newClient(t)
	c.keep("job=1&exit_code=1", oomLog)
	doc := c.page("/")
	wantText(t, doc, ".note", "count attempts")
	wantText(t, doc, ".legend", "user 1 attempts 100 %")
}

func TestEmptyPagesSayWhatToDo(t *testing.T) {
	c := newClient(t, func(cfg *Config) { cfg.URL = "https://culprit.example/" })
	for _, path := range []string{"/", "/?range=all", "/attempts", "/report", "/report?range=24h"} {
		doc := c.page(path)
		wantText(t, doc, ".empty pre", "curl --data-binary @err.log 'https://culprit.example/api/v1/attempts?job=4711&user=alice&gpus=8&exit_code=1'")
		wantLinks(t, c, doc)
	}
	wantText(t, c.page("/attempts?user=nobody"), ".empty", "No attempt fits")
	wantText(t, c.page("/search?q=nothing"), ".empty", "Nothing found")
	wantText(t, c.page("/search"), ".help", "category:gpu-oom")
	wantText(t, c.page("/rules?filter=zzz"), ".empty", "No rule has these words")
	wantText(t, c.page("/rules/xid-79"), "section", "None yet")
}

func TestAttemptsPage(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	doc := c.page("/attempts")
	wantCount(t, doc, "table.list tbody tr", 2)
	wantText(t, doc, "table.list tbody tr:first-child", "2026-12-01 10:30 1 #1 GPU out of memory rank 0 ran out of GPU memory allocating 2.50 GiB user do not retry alice 8 2 h 30 min 20.0")
	wantLinks(t, c, doc)

	doc = c.page("/attempts?outcome=all&user=bob&range=all")
	wantCount(t, doc, "table.list tbody tr", 2)
	wantText(t, doc, ".chips", "user: bob")
	if got := doc.Find(`input[name=user]`).AttrOr("value", ""); got != "bob" {
		t.Errorf("the user's box holds %q", got)
	}
	wantText(t, doc, `[aria-label=Outcome] [aria-current]`, "all")
	if got := doc.Find(".chips a").First().AttrOr("href", ""); got != "/attempts?outcome=all&range=all" {
		t.Errorf("dropping the filter leads to %s", got)
	}
	wantLinks(t, c, doc)
}

func TestAttemptsPageIsPaged(t *testing.T) {
	c := newClient(t)
	for i := range 51 {
		c.keep(fmt.Sprintf("job=%d&exit_code=1", i), oomLog)
	}
	doc := c.page("/attempts?category=gpu-oom")
	wantCount(t, doc, "table.list tbody tr", 50)
	next := doc.Find("a[rel=next]").AttrOr("href", "")
	doc = c.page(next)
	wantCount(t, doc, "table.list tbody tr", 1)
	wantCount(t, doc, "a[rel=next]", 0)
	wantText(t, doc, ".pager a", "First page")
	wantText(t, doc, ".chips", "gpu-oom")
}

func TestAttemptPage(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	c.keep("job=1&user=alice&attempt=2&exit_code=1", oomLog)
	doc := c.page("/attempts/1")
	wantText(t, doc, ".verdict h1", "GPU out of memory")
	wantText(t, doc, ".verdict .summary", "rank 0 ran out of GPU memory allocating 2.50 GiB")
	wantText(t, doc, ".verdict .facts", "user The job’s owner has to change something.")
	wantText(t, doc, ".verdict .facts", "do not retry The same job fails again")
	wantText(t, doc, ".verdict .facts", "What to do Lower the batch size per GPU.")
	wantText(t, doc, ".verdict .facts", "rule torch-cuda-oom, line 3, rank 0")
	wantText(t, doc, "tr.root#L3 code", "CUDA out of memory")
	wantText(t, doc, "tr.cascade#L4 code", "Watchdog caught")
	wantText(t, doc, ".evidence tbody", "4 nccl-watchdog-timeout rank 3")
	wantText(t, doc, "#log h2", "lines 1 to 4 of 4")
	wantText(t, doc, ".columns .facts", "gpu-01, gpu-02")
	wantText(t, doc, ".columns .facts", "20.0 GPU hours")
	wantText(t, doc, ".history li[aria-current]", "attempt 1")
	wantCount(t, doc, ".history li", 2)
	wantText(t, doc, ".note", "1 other attempt failed in the same way")
	wantLinks(t, c, doc)
	wantText(t, c.page("/attempts/3"), ".verdict h1", "No failure")
}

func TestWalkThroughALog(t *testing.T) {
	c := newClient(t)
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "step %d loss 2.1\n", i+1)
	}
	c.keep("job=1&exit_code=1", b.String()+oomLog)
	doc := c.page("/attempts/1")
	wantText(t, doc, "#log h2", "lines 991 to 1,004 of 1,004")
	wantCount(t, doc, "tr.root#L1003", 1)
	steps := map[string]string{}
	doc.Find("#log .steps").First().Find("a").Each(func(_ int, s *goquery.Selection) { steps[s.Text()] = s.AttrOr("href", "") })
	want := map[string]string{"Start": "/attempts/1?from=1&to=200#log", "Earlier": "/attempts/1?from=791&to=990#log", "Root cause": "/attempts/1?at=1003#L1003"}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	doc = c.page("/attempts/1?from=1&to=200")
	wantText(t, doc, "tr#L200 code", "step 200 loss")
	wantCount(t, doc, ".log tr", 200)
	wantLinks(t, c, doc)
	wantText(t, c.page("/attempts/1?from=5000"), "#log h2", "lines 1,004 to 1,004 of 1,004")
	wantText(t, c.page("/attempts/1?to=10"), "#log h2", "lines 1 to 10 of 1,004")
	wantText(t, c.page("/attempts/1?from=1&to=999999999"), "#log h2", "lines 1 to 1,004 of 1,004")
}

func TestAttemptWithRankFilesPage(t *testing.T) {
	c := newClient(t)
	body, kind := form(`name="f"; filename="rank0.err"`, oomLog, `name="f"; filename="rank1 & co.err"`, "step 1\n", `name="job"`, "1")
	wantStatus(t, c.post("/api/v1/attempts", body, "Content-Type", kind), 201)
	doc := c.page("/attempts/1")
	wantText(t, doc, "#log h2", "Log rank0.err lines 1 to 4 of 4")
	wantCount(t, doc, ".files a", 2)
	wantCount(t, doc, "tr.root", 1)
	wantLinks(t, c, doc)
	doc = c.page(strings.TrimSuffix(doc.Find(".files a").Last().AttrOr("href", ""), "#log"))
	wantText(t, doc, "#log h2", "rank1 & co.err")
	wantCount(t, doc, "tr.root", 0)
	wantProblem(t, c.get("/attempts/1?file=none"), 404, "file", "its first is")
}

func TestSearchPage(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	eventually(t, func() bool { return c.page("/search?q=fallen+bus").Find(".hit").Length() == 1 })
	doc := c.page("/search?q=fallen+bus")
	wantText(t, doc, ".hit h2", "job 2 #1 · bob")
	wantText(t, doc, ".excerpts mark", "fallen")
	wantLinks(t, c, doc)
	w := c.get("/search?q=%22no+end", "Accept", "text/html")
	wantStatus(t, w, 400)
	bad := document(t, w)
	wantText(t, bad, ".wrong", "q:")
	if got := bad.Find("main input[name=q]").AttrOr("value", ""); got != `"no end` {
		t.Errorf("the box holds %q", got)
	}
}

func TestReportPage(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	for _, by := range corpus.Groupings {
		doc := c.page("/report?range=all&by=" + string(by))
		wantText(t, doc, "h1", "Report by")
		wantText(t, doc, "tfoot", "all 2 2 2")
		wantLinks(t, c, doc)
	}
	doc := c.page("/report?range=all&by=user")
	wantText(t, doc, "tbody tr:first-child", "alice user 1 1 1 2 h 30 min")
	wantText(t, doc, "tbody tr:first-child", "20.0 h 91 %")
}

func TestRulesPages(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	doc := c.page("/rules")
	wantCount(t, doc, "table.rules tbody tr", 3)
	wantLinks(t, c, doc)
	wantCount(t, c.page("/rules?filter=nccl+watchdog"), "table.rules tbody tr", 1)
	doc = c.page("/rules/torch-cuda-oom")
	wantText(t, doc, "h1", "torch-cuda-oom")
	wantText(t, doc, ".literal", "CUDA out of memory. Tried to allocate")
	wantCount(t, doc, "table.list tbody tr", 1)
	wantLinks(t, c, doc)
	wantStatus(t, c.get("/rules/none", "Accept", "text/html"), 404)
}

// submit sends the form of /submit as a browser does, in the order of its fields.
func submit(c client, fields ...string) (status int, doc *goquery.Document, location string) {
	c.tb.Helper()
	body, kind := form(fields...)
	w := c.post("/submit", body, "Content-Type", kind, "Accept", "text/html", "Sec-Fetch-Site", "same-origin")
	return w.Code, document(c.tb, w), w.Header().Get("Location")
}

func TestSubmit(t *testing.T) {
	c := newClient(t)
	doc := c.page("/submit")
	for _, name := range []string{"keep", "job", "gpus", "exit_code", "file", "log"} {
		if doc.Find(`form [name="`+name+`"]`).Length() == 0 {
			t.Errorf("the form has no field %s", name)
		}
	}
	pasted := strings.ReplaceAll(oomLog, "\n", "\r\n")

	status, doc, _ := submit(c, `name="keep"`, "no", `name="exit_code"`, "1", `name="gpus"`, "", `name="job"`, "", `name="file"; filename=""`, "", `name="log"`, pasted)
	if status != http.StatusOK {
		t.Fatalf("classify only: status %d, %s", status, words(doc.Find("main")))
	}
	wantText(t, doc, ".verdict h1", "GPU out of memory")
	wantText(t, doc, ".note", "not kept: 4 lines, "+size(int64(len(oomLog))))
	wantText(t, doc, "textarea", "CUDA out of memory")
	if total := listed(t, c); total != 0 {
		t.Errorf("%d attempts are kept", total)
	}

	status, doc, _ = submit(c, `name="keep"`, "yes", `name="user"`, "alice", `name="log"`, pasted)
	if status != http.StatusBadRequest {
		t.Errorf("without a job: status %d", status)
	}
	wantText(t, doc, ".wrong", "job: missing")
	wantText(t, doc, "textarea", "CUDA out of memory")
	wantCount(t, doc, `input[name=keep][value=yes][checked]`, 1)
	if got := doc.Find("input[name=user]").AttrOr("value", ""); got != "alice" {
		t.Errorf("the user's box holds %q", got)
	}

	status, _, location := submit(c, `name="keep"`, "yes", `name="job"`, "17", `name="file"; filename="rank0.err.gz"`, gzipped(oomLog), `name="log"`, "")
	if status != http.StatusSeeOther || location != "/attempts/1" {
		t.Fatalf("kept: status %d, Location %q", status, location)
	}
	wantText(t, c.page(location), "#log h2", "rank0.err")

	for name, fields := range map[string][]string{
		"nothing given":  {`name="keep"`, "no", `name="file"; filename=""`, "", `name="log"`, ""},
		"negative GPUs":  {`name="gpus"`, "-1", `name="log"`, "x"},
		"a binary file":  {`name="file"; filename="core"`, "\x7fELF"},
		"unknown fields": {`name="usr"`, "x", `name="log"`, "x"},
	} {
		status, doc, _ := submit(c, fields...)
		if status < 400 || status >= 500 || words(doc.Find(".wrong")) == "" {
			t.Errorf("%s: status %d, %q", name, status, words(doc.Find(".wrong")))
		}
	}
}

func listed(t *testing.T, c client) int64 {
	t.Helper()
	var page corpus.Page
	decode(t, c.get("/api/v1/attempts"), &page)
	return page.Total
}

func TestSubmitFromAnotherSite(t *testing.T) {
	c := newClient(t)
	body, kind := form(`name="keep"`, "yes", `name="job"`, "1", `name="log"`, oomLog)
	w := c.post("/submit", body, "Content-Type", kind, "Accept", "text/html", "Sec-Fetch-Site", "cross-site")
	wantStatus(t, w, http.StatusForbidden)
	if total := listed(t, c); total != 0 {
		t.Errorf("%d attempts are kept", total)
	}
}

// TestHostileText: whatever stands in a log, a name or a query, a page shows it and nothing happens.
func TestHostileText(t *testing.T) {
	c := newClient(t)
	hostile := "<script>alert(1)</script> \"'><img src=x onerror=alert(1)> {{.}} \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202egnp.exe \u2066x \x00 \xff \u200b"
	c.keep("job="+url.QueryEscape("<script>1</script>")+"&user="+url.QueryEscape(`"><script>2</script>`)+"&vc=%3Ci%3E&state=%3Cb%3E&exit_code=1",
		hostile+"\n[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. "+hostile+"\n"+hostile+strings.Repeat("A", 1<<20)+"\n")
	eventually(t, func() bool { return c.page("/search?q=allocate").Find(".hit").Length() == 1 })
	for _, path := range []string{"/", "/attempts", "/attempts/1", "/search?q=allocate", "/search?q=" + url.QueryEscape(hostile[:20]), "/report?by=user&range=all", "/rules/torch-cuda-oom",
		"/attempts?user=" + url.QueryEscape(`"><script>2</script>`)} {
		w := c.get(path, "Accept", "text/html")
		text := w.Body.String()
		doc := document(t, w)
		wantCount(t, doc, "script:not([src]), main script, img, i, iframe, [onerror], [style]", 0)
		for _, bad := range []string{"\u202e", "\u2066", "\x1b", "\x00", "\u200b", "\xff"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: %q reaches the page", path, bad)
			}
		}
		if len(text) > 100_000 {
			t.Errorf("%s: %d bytes", path, len(text))
		}
	}
	doc := c.page("/attempts/1")
	wantText(t, doc, "#L1 code", "<script>alert(1)</script>")
	wantText(t, doc, "#L1 .sign", "U+202E")
	wantText(t, doc, "#L1 .sign", `\xff`)
	wantText(t, doc, "#L1 .sign", `\x00`)
	wantText(t, doc, "#L3 .sign", "KiB more")
}

func TestPagesRefuseBadQueries(t *testing.T) {
	c := newClient(t)
	for _, path := range []string{"/?range=1y", "/attempts?fault=mine", "/attempts?usr=x", "/report?by=colour", "/attempts?cursor=zz", "/submit?x=1", "/rules?x=1", "/search?q=a&q=b"} {
		w := c.get(path, "Accept", "text/html")
		if w.Code != http.StatusBadRequest || words(document(t, w).Find("main .empty code")) == "" {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
}

func TestStatic(t *testing.T) {
	c := newClient(t)
	w := c.get(stylePath)
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/css") || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("%s: status %d, %v", stylePath, w.Code, w.Header())
	}
	for _, path := range []string{"/static/none.css", "/static/..%2fserver.go", "/static/%2e%2e"} {
		wantStatus(t, c.get(path), 404)
	}
}
