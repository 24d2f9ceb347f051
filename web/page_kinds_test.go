package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
)

// sendForm sends a form as a browser does.
func sendForm(c client, path string, pairs ...string) (status int, location string, body string) {
	c.tb.Helper()
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	w := c.post(path, values.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html", "Sec-Fetch-Site", "same-origin")
	return w.Code, w.Header().Get("Location"), w.Body.String()
}

func TestFingerprintPages(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	doc := c.page("/fingerprints?range=all")
	wantText(t, doc, "h1", "Kinds of failure 2")
	wantText(t, doc, ".kinds tbody tr:first-child", "GPU out of memory rank 0 ran out of GPU memory allocating 2.50 GiB")
	wantCount(t, doc, ".kinds .spark rect", 2)
	wantLinks(t, c, doc)
	wantText(t, c.page("/fingerprints?state=resolved&range=all"), ".empty", "No kind of failure fits")

	path := doc.Find(".kinds tbody a").First().AttrOr("href", "")
	doc = c.page(path)
	wantText(t, doc, ".verdict .facts", "20.0 GPU hours in 1 attempt of 1 jobs, 1 users, 2 nodes")
	wantLinks(t, c, doc)

	status, location, body := sendForm(c, path, "note", "fixed in\r\nthe image <b>7</b>", "ticket", "https://tickets.example/1", "resolved", "yes", "who", "alice")
	if status != http.StatusSeeOther || location != path {
		t.Fatalf("status %d, Location %q\n%s", status, location, body)
	}
	doc = c.page(path)
	wantText(t, doc, ".verdict h1", "resolved")
	wantText(t, doc, ".verdict .why", "fixed in the image <b>7</b>")
	if got := doc.Find(".verdict a[rel=noreferrer]").AttrOr("href", ""); got != "https://tickets.example/1" {
		t.Errorf("the ticket leads to %q", got)
	}
	wantCount(t, c.page("/fingerprints?state=resolved&range=all"), ".kinds tbody tr", 1)

	if status, _, _ := sendForm(c, path, "ticket", "javascript:alert(1)"); status != http.StatusBadRequest {
		t.Errorf("a ticket that is a script: status %d", status)
	}
	if status, _, _ := sendForm(c, "/fingerprints/000000000000", "note", "x"); status != http.StatusNotFound {
		t.Errorf("no such fingerprint: status %d", status)
	}
}

// TestCorrectAVerdict: what a person says stands beside the verdict and counts for its rule.
func TestCorrectAVerdict(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	wantText(t, c.page("/rules"), "main", "Nobody has said of a verdict yet")
	status, location, body := sendForm(c, "/attempts/1/verdict", "say", "wrong", "category", "gpu-oom", "fault", "infrastructure", "why", "another job was on the GPU", "who", "bob")
	if status != http.StatusSeeOther || location != "/attempts/1#said" {
		t.Fatalf("status %d, Location %q\n%s", status, location, body)
	}
	doc := c.page("/attempts/1")
	wantText(t, doc, ".verdict .facts", "user The job’s owner has to change something.")
	wantText(t, doc, "#said .note", "that it was GPU out of memory infrastructure. another job was on the GPU")
	wantText(t, c.page("/rules/torch-cuda-oom"), ".facts", "Right 0 % of 1")
	sendForm(c, "/attempts/1/verdict", "say", "right")
	wantText(t, c.page("/attempts/1"), "#said .note", "that it is right")
	wantText(t, c.page("/rules"), "main", "People looked at 1 verdicts and agreed with 1 of them (100 %)")
	sendForm(c, "/attempts/1/verdict", "say", "nothing")
	wantCount(t, c.page("/attempts/1"), "#said .note", 0)
	for _, pairs := range [][]string{{}, {"say", "maybe"}, {"say", "wrong", "category", "none-such", "fault", "user"}, {"say", "wrong", "category", "gpu-oom", "fault", "mine"},
		{"say", "right", "colour", "red"}, {"say", "right", "why", strings.Repeat("x", 5000)}, {"say", "right", "why", strings.Repeat("x", maxForm)}} {
		if status, _, body := sendForm(c, "/attempts/1/verdict", pairs...); status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge {
			t.Errorf("%.60v: status %d\n%s", pairs, status, body)
		}
	}
	wantCount(t, c.page("/attempts/1"), "#said .note", 0)
}

func TestGateInHistory(t *testing.T) {
	c := newClient(t)
	c.keep("job=1&attempt=1&exit_code=1", oomLog)
	c.keep("job=1&attempt=2&exit_code=1", oomLog)
	wantText(t, c.page("/attempts/2"), ".history li:first-child .gate", "gate: stop")
}

func TestFindInALog(t *testing.T) {
	c := newClient(t)
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "step %d \x1b[32mloss\x1b[0m 2.1\n", i+1)
	}
	c.keep("job=1&exit_code=1", b.String()+oomLog)
	doc := c.page("/attempts/1?find=STEP+77")
	wantText(t, doc, ".found p", "11 lines have STEP 77")
	wantText(t, doc, "#found tr:first-child", "77 step 77 loss 2.1")
	wantText(t, doc, "tr#L77 mark", "step 77")
	wantText(t, doc, "tr#L78 .fg3", "loss")
	wantLinks(t, c, doc)
	doc = c.page("/attempts/1?find=loss")
	wantText(t, doc, ".found p", "100 and more lines have loss, up to line 100 · go on from there")
	next := strings.TrimSuffix(doc.Find(".found p a").AttrOr("href", ""), "#log")
	wantText(t, c.page(next), "#found tr:first-child", "101 step 101")
	wantText(t, c.page("/attempts/1?find=nowhere"), ".found p", "No line has nowhere")
}

// TestLinesAlone: what the script asks for is the same rows, and no more of the log than asked for.
func TestLinesAlone(t *testing.T) {
	c := newClient(t)
	c.keep("job=1&exit_code=1", strings.Repeat("step 1 loss 2.1\n", 500)+oomLog)
	w := c.get("/attempts/1/lines?from=100&to=104", "Accept", "text/html")
	doc, err := goquery.NewDocumentFromReader(strings.NewReader("<table>" + w.Body.String() + "</table>"))
	if err != nil {
		t.Fatal(err)
	}
	wantCount(t, doc, "tr", 5)
	wantCount(t, doc, "tr.like", 5)
	wantText(t, doc, "tr#L104 code", "step 1 loss 2.1")
	if w := c.get("/attempts/1/lines?from=1&to=9999999", "Accept", "text/html"); strings.Count(w.Body.String(), "<tr") > linesMost {
		t.Errorf("%d lines at once", strings.Count(w.Body.String(), "<tr"))
	}
	wantStatus(t, c.get("/attempts/1/lines?from=9&to=8"), 400)
}

func TestTimelineOfRanks(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	doc := c.page("/attempts/1")
	wantText(t, doc, ".lanes tbody tr:first-child th", "rank 0")
	wantCount(t, doc, ".lanes tbody tr:first-child path.root", 1)
	wantCount(t, doc, ".lanes path.cascade", 1)
	wantText(t, doc, ".lanes tfoot", "line 3")
}

func TestNodesAndStatusPages(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	doc := c.page("/nodes?range=all")
	wantText(t, doc, "table.list tbody", "gpu-02")
	wantLinks(t, c, doc)
	doc = c.page("/status")
	wantText(t, doc, ".facts", "3 rules in")
	wantText(t, doc, ".facts", "attempts of")
	wantLinks(t, c, doc)
}

func TestAttemptsAsCSV(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	c.keep("job=9&user="+url.QueryEscape("=cmd()")+"&exit_code=1", oomLog)
	w := c.get(c.page("/attempts?category=gpu-oom&range=all").Find("a[href*='attempts.csv']").AttrOr("href", ""))
	wantStatus(t, w, 200)
	lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "id,cluster,job,attempt,user") || !strings.Contains(w.Body.String(), ",'=cmd(),") {
		t.Errorf("got\n%s", w.Body)
	}
	wantStatus(t, c.get("/attempts.csv?sort=colour"), 400)
}

// TestPagesBothWays: from the third page of a list back to the second, and the order by a column.
func TestPagesBothWays(t *testing.T) {
	c := newClient(t)
	for i := range 101 {
		c.keep(fmt.Sprintf("job=%d&exit_code=1", i), oomLog)
	}
	doc := c.page("/attempts")
	if got := doc.Find("th[aria-sort=descending]").Length(); got != 1 {
		t.Errorf("sorted by %d columns", got)
	}
	second := doc.Find("a[rel=next]").AttrOr("href", "")
	third := c.page(second).Find("a[rel=next]").AttrOr("href", "")
	doc = c.page(third)
	wantCount(t, doc, "table.list tbody tr", 1)
	if got := doc.Find("a[rel=prev]").AttrOr("href", ""); got != second {
		t.Errorf("back leads to\n%s, want\n%s", got, second)
	}
	if got := c.page(second).Find("a[rel=prev]").AttrOr("href", ""); got != "/attempts" {
		t.Errorf("back from the second page leads to %s", got)
	}
}

// TestFiltersGoAlong: what one page is narrowed by narrows the others too.
func TestFiltersGoAlong(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	doc := c.page("/?range=90d&user=alice")
	for label, want := range map[string]string{"Failures": "/attempts?range=90d&user=alice", "Fingerprints": "/fingerprints?range=90d&user=alice",
		"Nodes": "/nodes?range=90d&user=alice", "Gate": "/gate?range=90d", "Rules": "/rules"} {
		if got := doc.Find(".top nav a:contains('"+label+"')").AttrOr("href", ""); got != want {
			t.Errorf("%s leads to %s, want %s", label, got, want)
		}
	}
	wantText(t, doc, ".figures", "Failed attempts 1")
	w := c.get("/attempts?user=alice,bob&category=gpu-oom&q=memory", "Accept", "text/html")
	if got, _ := url.Parse(w.Header().Get("Location")); w.Code != http.StatusSeeOther || got.Query().Get("q") != "memory category:gpu-oom user:alice OR user:bob" {
		t.Errorf("words and filters: status %d, %v", w.Code, got)
	}
}

func TestPagesArePacked(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	plain := c.get("/attempts", "Accept", "text/html")
	packed := c.get("/attempts", "Accept", "text/html", "Accept-Encoding", "gzip, br")
	if packed.Header().Get("Content-Encoding") != "gzip" || packed.Body.Len() > plain.Body.Len()/2 {
		t.Errorf("%q: %d bytes of %d", packed.Header().Get("Content-Encoding"), packed.Body.Len(), plain.Body.Len())
	}
}
