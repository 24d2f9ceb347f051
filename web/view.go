package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"culprit/corpus"
	"culprit/rules"
)

//go:embed templates/*.tmpl
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

//go:embed openapi.yaml
var openAPI []byte

// layout is what every page has around it.
type layout struct {
	Title     string
	Nav       string // the entry of the navigation that is current; "" for none
	Query     string // what the search box holds
	Version   string
	Style     string     // path of the style sheet, which changes with its content
	Script    string     // likewise
	carried   url.Values // the time and the filters of this page, for links to others
	Simulated bool       // the jobs are of no real cluster, and every page says so
	Server    string     // where clients reach the server, for command lines
}

func (s *Server) layout(title, nav string) layout {
	return layout{Title: title, Nav: nav, Version: s.version, Style: stylePath, Script: scriptPath, Server: s.url, Simulated: s.simulated}
}

type errorView struct {
	layout
	Problem *problem
}

// Browsers keep the style sheet and the script for ever: another content has another path.
var (
	stylePath  = staticPath("culprit.css")
	scriptPath = staticPath("culprit.js")
)

func staticPath(name string) string {
	text, err := staticFiles.ReadFile("static/" + name)
	if err != nil {
		panic(err) // embedded: it is there
	}
	sum := sha256.Sum256(text)
	return "/static/" + name + "?v=" + hex.EncodeToString(sum[:6])
}

var pageFuncs = template.FuncMap{
	"logtext":  logText,
	"marked":   markedText,
	"gpuhours": gpuHours,
	"count":    count,
	"duration": duration,
	"size":     size,
	"percent":  percent,
	"time":     timeText,
	"utc":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"fault":    faultWord,
	"retry":    retryWord,
	"chart":    func(title string, bars []bar, byAttempts bool) chartView { return chartView{title, bars, byAttempts} },
	"table": func(list []corpus.Attempt, columns map[string]choice) attemptTable {
		return attemptTable{list, columns}
	},
	"head":     func(text string, number bool, c choice) columnView { return columnView{c, text, number} },
	"evidence": func(title string, list []evidenceView) evidenceList { return evidenceList{title, list} },
	"sure":     func(f float64) string { return fmt.Sprintf("%.0f %%", f*100) },
	"dash":     func(s string) string { return orDash(s) },
	"join":     strings.Join,
	"failed":   failed,
	"attempt":  func(id int64) string { return fmt.Sprintf("/attempts/%d", id) },
	"kind":     func(print string) string { return "/fingerprints/" + url.PathEscape(print) },
	"rulelink": func(id string) string { return "/rules/" + url.PathEscape(id) },
	"category": func(id string) string { return link("/attempts", "category", id, "range", "all") },
}

// loadPages parses each page with the layout and the parts that pages share.
func loadPages() (map[string]*template.Template, error) {
	pages := map[string]*template.Template{}
	names, err := templateFiles.ReadDir("templates")
	if err != nil {
		return nil, err
	}
	for _, entry := range names {
		name := strings.TrimSuffix(entry.Name(), ".tmpl")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := template.New(name).Funcs(pageFuncs).ParseFS(templateFiles, "templates/layout.tmpl", "templates/parts.tmpl", "templates/"+entry.Name())
		if err != nil {
			return nil, err
		}
		pages[name] = t
	}
	return pages, nil
}

func getStatic(c *gin.Context) (any, error) {
	name := path.Base(param(c, "file"))
	f, err := staticFiles.Open("static/" + name)
	if err != nil {
		return nil, refuse(http.StatusNotFound, "there is nothing at %s", clip(c.Request.URL.Path, 200))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return file{contentType: mime.TypeByExtension(path.Ext(name)), cache: "public, max-age=31536000, immutable", length: info.Size(), body: f}, nil
}

func getOpenAPI(*gin.Context) (any, error) {
	return file{contentType: "application/yaml", length: int64(len(openAPI)), body: io.NopCloser(strings.NewReader(string(openAPI)))}, nil
}

// link is a path with a query of names and values; empty values are left out.
func link(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// with is the path with a query in which one parameter is set anew, or dropped where value is empty. A place in a list
// means nothing in another list, so cursor goes too.
func with(path string, values url.Values, name, value string) string {
	v := url.Values{}
	for n, list := range values {
		for _, item := range list {
			if item != "" && n != name && n != "cursor" {
				v.Add(n, item)
			}
		}
	}
	if value != "" {
		v.Set(name, value)
	}
	if len(v) == 0 {
		return path
	}
	return path + "?" + v.Encode()
}

// chartView is a chart of bars.
type chartView struct {
	Title      string
	Bars       []bar
	ByAttempts bool
}

// Unit is what the figures beside the bars count.
func (c chartView) Unit() string {
	if c.ByAttempts {
		return "attempts"
	}
	return "GPU hours"
}

// attemptTable is a table of attempts; where it can be sorted, with the links that do it, by key.
type attemptTable struct {
	List    []corpus.Attempt
	Columns map[string]choice
}

// columnView is the head of a column. Its Value is how the table is sorted by it.
type columnView struct {
	choice
	Head   string
	Number bool
}

// evidenceList is a titled list of lines.
type evidenceList struct {
	Title string
	List  []evidenceView
}

// choice is an entry of a row of links or of a select box.
type choice struct {
	Label, Value, Link string
	Current            bool
}

// ranges are the spans of time that a page offers; they end now.
var ranges = []struct {
	key, label string
	span       time.Duration
}{
	{"24h", "24 hours", 24 * time.Hour},
	{"7d", "7 days", 7 * 24 * time.Hour},
	{"30d", "30 days", 30 * 24 * time.Hour},
	{"90d", "90 days", 90 * 24 * time.Hour},
	{"all", "all time", 0},
}

// timeView is the span of time of a page, with the links to others.
type timeView struct {
	Path    string
	Key     string // of ranges; "" where from and to are given
	Label   string
	Choices []choice
	window  corpus.Window
}

// timeRange reads range, or from and to, which go before it.
func (q *query) timeRange(path, fallback string) timeView {
	v := timeView{Path: path, window: q.window(), Key: q.text("range")}
	if v.Key == "" {
		v.Key = fallback
	}
	if v.window != (corpus.Window{}) {
		v.Key, v.Label = "", spanText(v.window)
	}
	known := false
	for _, r := range ranges {
		current := r.key == v.Key
		if known = known || current; current {
			v.Label = r.label
			if r.span > 0 {
				v.Label = "the last " + r.label
				v.window.From = time.Now().Add(-r.span).Truncate(time.Minute)
			}
		}
		values := url.Values{}
		for n, list := range q.values {
			if n != "from" && n != "to" {
				values[n] = list
			}
		}
		v.Choices = append(v.Choices, choice{Label: r.label, Link: with(path, values, "range", r.key), Current: current})
	}
	if v.Key != "" && !known {
		q.fail(badField("range", "%s is none of 24h, 7d, 30d, 90d, all", quote(v.Key)))
	}
	return v
}

func spanText(w corpus.Window) string {
	text := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
	switch {
	case w.From.IsZero():
		return "until " + text(w.To) + " UTC"
	case w.To.IsZero():
		return "since " + text(w.From) + " UTC"
	}
	return text(w.From) + " to " + text(w.To) + " UTC"
}

// keep are the parameters that carry the span of time to another page.
func (v timeView) keep(values url.Values) []string {
	if v.Key != "" {
		return []string{"range", v.Key}
	}
	return []string{"from", values.Get("from"), "to", values.Get("to")}
}

func faultWord(f any) string {
	switch rules.Fault(fmt.Sprint(f)) {
	case rules.FaultUser:
		return "user"
	case rules.FaultInfrastructure:
		return "infrastructure"
	}
	return "unknown"
}

// retryWord is the advice as a short order.
func retryWord(r any) string {
	switch rules.Retry(fmt.Sprint(r)) {
	case rules.RetryNever:
		return "do not retry"
	case rules.RetryOnce:
		return "retry once"
	case rules.RetryAlways:
		return "retry"
	case rules.RetryElsewhere:
		return "retry on other nodes"
	}
	return "–"
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func gpuHours(seconds float64) string {
	h := seconds / 3600
	switch {
	case h == 0:
		return "0"
	case h < 0.01:
		return "< 0.01"
	case h < 10:
		return strconv.FormatFloat(h, 'f', 2, 64)
	case h < 100:
		return strconv.FormatFloat(h, 'f', 1, 64)
	}
	return thousands(strconv.FormatFloat(math.Round(h), 'f', 0, 64))
}

// count is a number, or where a pointer says so, none.
func count(n any) string {
	if p, ok := n.(*int64); ok {
		if p == nil {
			return "–"
		}
		n = *p
	}
	return thousands(fmt.Sprint(n))
}

// thousands puts commas into a number's digits.
func thousands(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func percent(share float64) string {
	switch {
	case share == 0:
		return "0 %"
	case share < 0.001:
		return "< 0.1 %"
	case share < 0.1:
		return strconv.FormatFloat(share*100, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(share*100, 'f', 0, 64) + " %"
}

// duration is a span in its two largest units, or one where the other is 0.
func duration(seconds float64) string {
	s := int64(math.Round(seconds))
	two := func(large int64, largeUnit string, small int64, smallUnit string) string {
		if small == 0 {
			return count(large) + " " + largeUnit
		}
		return fmt.Sprintf("%s %s %d %s", count(large), largeUnit, small, smallUnit)
	}
	switch {
	case s == 0:
		return "–"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return two(s/60, "min", s%60, "s")
	case s < 48*3600:
		return two(s/3600, "h", s%3600/60, "min")
	}
	return two(s/86400, "d", s%86400/3600, "h")
}

// size is a number of bytes for people.
func size(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if u == 0 || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f %s", v, units[u])
	}
	return fmt.Sprintf("%.1f %s", v, units[u])
}

func timeText(t any) string {
	switch t := t.(type) {
	case time.Time:
		return t.UTC().Format("2006-01-02 15:04")
	case *time.Time:
		if t != nil {
			return t.UTC().Format("2006-01-02 15:04")
		}
	}
	return "–"
}

func allows(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
