package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// These tests use the pages in a real browser, and are skipped where there is none: `make browser` installs one.
// CULPRIT_SCREENSHOTS names a folder for pictures of all pages; CULPRIT_AXE the file axe.min.js of npm's axe-core, which
// then looks for what keeps people from using them.

// browser is a tab that shows pages of a server.
type browser struct {
	t      *testing.T
	ctx    context.Context
	url    string
	mu     sync.Mutex
	errors []string // what the console says is wrong
}

func newBrowser(t *testing.T, c client) *browser {
	t.Helper()
	path := findChromium()
	if path == "" {
		t.Skip("needs chromium or google-chrome on the PATH; `make browser` installs it where apt-get can")
	}
	server := httptest.NewServer(c.server.Handler())
	t.Cleanup(server.Close)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // it tells of events that are newer than it
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, url: server.URL}
	chromedp.ListenTarget(ctx, b.listen)
	b.run(cdplog.Enable(), emulation.SetTimezoneOverride("America/New_York"))
	return b
}

func findChromium() string {
	for _, name := range []string{os.Getenv("CULPRIT_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && name != "" {
			return path
		}
	}
	return ""
}

func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError {
			b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Error())
	}
}

// quiet fails the test where the console told of a mistake, of something the security policy refused for one.
func (b *browser) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		b.t.Errorf("the console says: %s", e)
	}
	b.errors = nil
}

func (b *browser) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		var text string
		_ = chromedp.Run(b.ctx, chromedp.Evaluate("location.href + ' ' + (document.querySelector('main')?.innerText || '').slice(0, 500)", &text))
		b.t.Fatalf("%v\n%s", err, text)
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.url + path))
}

// follow clicks on a link or button and waits for the page that comes.
func (b *browser) follow(selector string) {
	b.t.Helper()
	var here bool
	b.run(chromedp.Evaluate("window.before = true", &here), chromedp.Click(selector, chromedp.ByQuery))
	b.until("!window.before && document.readyState === 'complete'")
}

// eval evaluates an expression.
func (b *browser) eval(expression string) (value any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &value))
	return value
}

// until waits for an expression to be true, on whatever page comes meanwhile.
func (b *browser) until(expression string) {
	b.t.Helper()
	var value any
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		if err = chromedp.Run(b.ctx, chromedp.Evaluate(expression, &value)); err == nil && value == true {
			return
		}
	}
	b.t.Fatalf("waiting for %s: it is %v, %v\n%v", expression, value, err, b.eval("location.href + ' ' + document.querySelector('main').innerText.slice(0, 300)"))
}

func (b *browser) want(expression string, want any) {
	b.t.Helper()
	if got := b.eval(expression); got != want {
		b.t.Errorf("%s is %v, want %v", expression, got, want)
	}
}

func (b *browser) press(keys string) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(keys))
}

// inView is true when a line of the log is between the edges of its box.
func inView(line int) string {
	return fmt.Sprintf(`(() => { const r = document.getElementById("L%d"), l = document.querySelector(".log"); if (!r || r.hidden) return false;
		const a = r.getBoundingClientRect(), b = l.getBoundingClientRect(); return a.top >= b.top - 1 && a.bottom <= b.bottom + 1; })()`, line)
}

// TestBrowserStories: the shortest ways of the three people that the pages are for.
func TestBrowserStories(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	b := newBrowser(t, c)

	b.open("/?range=all")
	b.follow(".bars tbody tr:first-child a")
	b.follow(".walk tbody tr:first-child .job a")
	b.want("document.querySelector('.proof code').innerText.includes('CUDA out of memory')", true)
	b.until("document.querySelector('.log').dataset.ready === 'true'")
	b.want(inView(3), true)

	b.open("/submit")
	b.run(chromedp.SetValue("textarea[name=log]", oomLog, chromedp.ByQuery))
	b.follow("button.main")
	b.want("document.querySelector('.verdict h1').innerText", "GPU out of memory")

	b.open("/attempts?range=all")
	b.follow(".facets a[href*='user=alice']")
	b.want("document.querySelectorAll('.walk tbody tr').length", 1.0)
	b.follow(".top nav a[href^='/?']")
	b.want("document.querySelector('.figures dd').innerText.startsWith('20.0')", true)
	b.quiet()
}

// TestBrowserLargeLog: a log of half a million lines opens at its root cause, of which little travels.
func TestBrowserLargeLog(t *testing.T) {
	c := newClient(t, func(cfg *Config) { cfg.MaxBytes = 1 << 30 })
	var log strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&log, "step %d loss %d.1 lr 1e-4 throughput %d tokens/s\n", i+1, i%7, 41000+i%100)
		if i%1000 == 500 {
			log.WriteString("a checkpoint was written to /data/ckpt\n")
		}
	}
	a := c.keep("job=1&exit_code=1", log.String()+oomLog+strings.Repeat("[rank3]: waiting for the others\n", 300_000))
	root := int(a.Verdict.Root.Line)
	b := newBrowser(t, c)
	b.open("/attempts/1")
	b.until("document.querySelector('.log').dataset.ready === 'true'")
	b.want(inView(root), true)
	if got := b.eval("performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).reduce((n, e) => n + e.transferSize, 0)").(float64); got > 100_000 {
		t.Errorf("%.0f bytes travelled for a log of %d", got, a.Logs[0].Bytes)
	}

	// Scrolling brings what is above and below, and the text stays where it is.
	b.eval("document.querySelector('.log').scrollTop = 0")
	b.until(fmt.Sprintf("document.getElementById('L%d') !== null", root-400))
	b.eval("(() => { const l = document.querySelector('.log'); l.scrollTop = l.scrollHeight; })()")
	b.until(fmt.Sprintf("document.getElementById('L%d') !== null", root+200))

	// A line by its link, the lines found, and from one to the next.
	b.open("/attempts/1#L123456")
	b.until(inView(123456))
	b.run(chromedp.SetValue("#log input[name=find]", "checkpoint was", chromedp.ByQuery))
	b.follow("#log form button")
	b.until("document.querySelector('.log').dataset.ready === 'true'")
	b.want("document.querySelectorAll('#found tr').length", 100.0)
	first := int(b.eval("Number(document.querySelector('#found a').innerText)").(float64))
	b.until(inView(first))
	b.press("n")
	b.until(inView(first + 1001))
	b.press("p")
	b.until(inView(first))
	b.want("location.hash", fmt.Sprintf("#L%d", first))
	b.quiet()
}

func TestBrowserFoldsRepeats(t *testing.T) {
	c := newClient(t)
	c.keep("job=1&exit_code=1", strings.Repeat("step 1 loss 2.1\n", 100)+oomLog)
	b := newBrowser(t, c)
	b.open("/attempts/1")
	b.until("document.querySelectorAll('tr.fold').length === 1 && document.querySelector('.log').dataset.ready === 'true'")
	b.want(inView(103), true)
	b.want("document.querySelector('#L50').hidden", true)
	b.run(chromedp.Click("tr.fold button", chromedp.ByQuery))
	b.want("document.querySelector('#L50').hidden", false)
	b.run(chromedp.Click("#fold", chromedp.ByQuery))
	b.want("document.querySelectorAll('tr.fold').length", 0.0)
	b.open("/attempts/1#L50")
	b.until(inView(50))
	b.quiet()
}

func TestBrowserKeysAndTimes(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	b := newBrowser(t, c)
	b.open("/attempts?range=all")
	b.want("document.querySelector('time').innerText", "2026-12-01 05:30") // five hours behind UTC
	b.want("document.querySelector('time').title", "2026-12-01T10:30:00Z")
	b.press("?")
	b.want("document.querySelector('#keys').open", true)
	b.press(kb.Escape)
	b.want("document.querySelector('#keys').open", false)
	b.press("j")
	b.press("j")
	b.press("k")
	b.want("[...document.querySelectorAll('.walk tbody tr')].findIndex((r) => r.classList.contains('here'))", 0.0)
	b.press("/")
	b.want("document.activeElement.name", "q")
	b.press(kb.Escape)
	b.press("o")
	b.until("location.pathname === '/attempts/1' && document.readyState === 'complete'")
	b.quiet()
}

func TestBrowserSaysAndNotes(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	b := newBrowser(t, c)
	b.open("/attempts/1")
	b.run(chromedp.Click("#said summary", chromedp.ByQuery), chromedp.SetValue("#said select[name=fault]", "infrastructure", chromedp.ByQuery),
		chromedp.SetValue("#said input[name=why]", "another job was on the GPU", chromedp.ByQuery))
	b.follow("#said details button")
	b.want("document.querySelector('#said .note').innerText.includes('another job was on the GPU')", true)
	b.follow(".verdict a[href^='/fingerprints/']")
	b.run(chromedp.SetValue("textarea[name=note]", "see the image", chromedp.ByQuery), chromedp.Click("input[name=resolved]", chromedp.ByQuery))
	b.follow(".said button")
	b.want("document.querySelector('.verdict .state').innerText", "resolved")
	b.quiet()
}

// hostileLog tries to be more than text.
const hostileLog = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> \x1b]0;owned\x07\x1b[31mred\x1b[0m \u202egnp.exe\n" + oomLog

func TestBrowserHostileLog(t *testing.T) {
	c := newClient(t)
	c.keep("job=%3Cscript%3Edocument.title%3D1%3C/script%3E&user=%22%3E%3Csvg+onload%3Dalert(1)%3E&exit_code=1", hostileLog+strings.Repeat("A", 2<<20)+"\n")
	b := newBrowser(t, c)
	for _, path := range []string{"/", "/attempts", "/attempts/1", "/attempts/1?find=%3Cscript%3E", "/fingerprints"} {
		b.open(path)
		b.want("document.title.endsWith('· culprit') && !document.title.includes('owned')", true)
		b.want("document.querySelectorAll('main script, main img, main [onload], main [onerror]').length", 0.0)
	}
	b.quiet()
}

// pagesToSee are all pages, with something on them.
var pagesToSee = map[string]string{"overview": "/?range=all", "failures": "/attempts?range=all", "attempt": "/attempts/1", "found": "/attempts/1?find=rank", "fingerprints": "/fingerprints?range=all",
	"nodes": "/nodes?range=all", "report": "/report?range=all", "gate": "/gate?range=all", "rules": "/rules", "rule": "/rules/torch-cuda-oom", "submit": "/submit", "search": "/search", "status": "/status"}

// TestBrowserPages looks at every page in light, dark and at the width of a phone: nothing is wrong, nothing is wider than
// the screen.
func TestBrowserPages(t *testing.T) {
	c := newClient(t)
	someAttempts(c)
	b := newBrowser(t, c)
	pages := map[string]string{"fingerprint": "/fingerprints/" + firstFingerprint(t, c)}
	for name, path := range pagesToSee {
		pages[name] = path
	}
	for _, look := range []struct {
		name   string
		width  int64
		scheme string
	}{{"light", 1280, "light"}, {"dark", 1280, "dark"}, {"phone", 390, "light"}} {
		b.run(chromedp.EmulateViewport(look.width, 900), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}))
		for name, path := range pages {
			b.open(path)
			if got := b.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth").(float64); got > 0 {
				t.Errorf("%s, %s: %v pixels wider than the screen", path, look.name, got)
			}
			b.picture(name + "-" + look.name)
			b.axe(path + ", " + look.name)
		}
	}
	b.quiet()
}

func firstFingerprint(t *testing.T, c client) string {
	t.Helper()
	return strings.TrimPrefix(c.page("/fingerprints?range=all").Find(".kinds tbody a").First().AttrOr("href", ""), "/fingerprints/")
}

// picture keeps a screenshot where one is asked for.
func (b *browser) picture(name string) {
	dir := os.Getenv("CULPRIT_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	b.run(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Error(err)
	}
}

// axe runs axe-core where it is given, and fails for what it calls serious or critical.
func (b *browser) axe(where string) {
	path := os.Getenv("CULPRIT_AXE")
	if path == "" {
		return
	}
	script, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	var found string
	b.run(chromedp.Evaluate(string(script)+"; 0", nil), chromedp.Evaluate(`axe.run().then((r) => JSON.stringify(r.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
		.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message || "")).join(" | "))))`,
		&found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	var list []string
	if err := json.Unmarshal([]byte(cmp.Or(found, "[]")), &list); err != nil {
		b.t.Fatal(err)
	}
	for _, v := range list {
		b.t.Errorf("%s: %s", where, v)
	}
}
