package corpus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"culprit/classifier"
	"culprit/rules"
)

func TestWords(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"NCCL WARN Timeout", "nccl warn timeout"},
		{"[rank3]: Xid 79, pid=1234567", "rank 3 xid 79 pid _"},
		{"torch.cuda.OutOfMemoryError: CUDA out of memory.", "torch cuda outofmemoryerror cuda out of memory"},
		{"2026-12-01 18:37:04,123 INFO x", "_ info x"},
		{"2026-12-01T18:37:04.123456Z x", "_ x"},
		{"[18:37:04+01:00] x", "_ x"},
		{"Tried to allocate 2.50 GiB", "tried to allocate 2 50 gib"},
		{"loss=0.4321987 lr 1e-05", "loss _ lr 1 e 05"},
		{"at 0x7ffe12ab in deadbeef01", "at _ in _"},
		{"id 550e8400-e29b-41d4-a716-446655440000 end", "id _ end"},
		{"deadline facade", "deadline facade"},
		{"libcudart.so.11.0: cannot open", "libcudart so 11 0 cannot open"},
		{"key aB3dE5fG7hJ9", "key _"},
		{strings.Repeat("QUJD", 20), "_"},
		{"Größe ÜBER", "größe über"},
		{"显存不足 error", "显 存 不 足 error"},
		{"\xff\xfe broken \xc3", "broken"},
		{"", ""},
	} {
		var got []string
		words([]byte(tt.line), func(w word) {
			text := w.text
			if text == "" {
				text = "_"
			} else if low := strings.ToLower(tt.line[w.start:w.end]); low != text {
				t.Errorf("words(%q): %q stands at %q", tt.line, text, low)
			}
			got = append(got, text)
		})
		if strings.Join(got, " ") != tt.want {
			t.Errorf("words(%q) = %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestPlain(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"\x1b[31mred\x1b[0m text", "red text"},
		{"10%\r50%\r100% done\r", "100% done"},
		{"\x1b]0;title\x07x", "x"},
		{"\x1b]8;;http://a\x1b\\link", "link"},
		{"cut \x1b[3", "cut "},
		{"cut \x1b", "cut "},
		{"\x1b(Bx", "Bx"},
	} {
		if got := string(plain([]byte(tt.line))); got != tt.want {
			t.Errorf("plain(%q) = %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestShape(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"step 1 loss 0.5", "step 20000 loss 1.25", true},
		{"at 0x7ffe12ab", "at 0x00ff", true},
		{"id a1b2c3d4", "id 99ee", true},
		{"rank3 failed", "rank12 failed", true},
		{"step 1", "step x", false},
		{"deadline", "facade", false},
		{"a b", "a  b", false},
		{"exit code 1", "exit code: 1", false},
	} {
		if got := shape([]byte(tt.a)) == shape([]byte(tt.b)); got != tt.same {
			t.Errorf("%q and %q have the same shape: %v, want %v", tt.a, tt.b, got, tt.same)
		}
	}
}

func TestParseQueryErrors(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{"", "nothing to search for"},
		{"  --- ::: ", "nothing to search for"},
		{`NCCL "not closed`, "the quote is not closed (at character 6)"},
		{"é user: x", "user: needs a value right after the colon; quote it to search for the word (at character 3)"},
		{`user:""`, "user: needs a value"},
		{"catgory:gpu-oom", "there is no field catgory: write category:"},
		{"nodes:a", "write node:"},
		{"OR a", "OR stands between two terms (at character 1)"},
		{"a OR", "OR stands between two terms (at character 5)"},
		{"a OR OR b", "OR stands between two terms (at character 6)"},
		{"123456789", "numbers of more than 4 digits"},
		{"sort:worst", "write sort:best or sort:newest (at character 1)"},
		{"\xff", "is not UTF-8"},
		{strings.Repeat("a ", maxTerms+1), "more than 100 terms"},
		{strings.Repeat("a", maxQuery+1), "more than 4096 bytes"},
	} {
		_, err := parseQuery(tt.query)
		var field *FieldError
		if !errors.As(err, &field) || field.Field != "q" || !strings.Contains(field.Problem, tt.want) {
			t.Errorf("parseQuery(%.40q): %v, want %q", tt.query, err, tt.want)
		}
	}
}

// searchCorpus is a corpus with a few attempts whose logs differ; job names are what the tests name.
func searchCorpus(t *testing.T, dir string) *Corpus {
	c := open(t, dir, Options{})
	nccl := classifier.Verdict{Category: "collective-timeout", Fault: rules.FaultUnknown, Retry: rules.RetryOnce, Rule: "nccl-watchdog-timeout", Fingerprint: "aaaaaaaaaaaa"}
	hw := classifier.Verdict{Category: "gpu-hardware", Fault: rules.FaultInfrastructure, Retry: rules.RetryElsewhere, Rule: "xid", Fingerprint: "bbbbbbbbbbbb"}
	add(t, c, Attempt{Job: "oom", User: "alice", VC: "vision", GPUs: 8, GPUType: "H100", Nodes: []string{"gpu-1", "gpu-17"}, Cluster: "west", Verdict: oom(3)},
		"", "2026-12-01 10:00:00 starting\nstep 1\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\nsrun: error: task 3: Exited\n")
	add(t, c, Attempt{Job: "xid79", User: "bob", VC: "speech", GPUs: 1, Nodes: []string{"gpu-17"}, Verdict: hw},
		"", "NVRM: Xid (PCI:0000:9b:00): 79, pid=4711, GPU has fallen off the bus.\nXid 79 was seen\n")
	add(t, c, Attempt{Job: "xid31", User: "bob", VC: "speech", GPUs: 1, Nodes: []string{"gpu-2"}, Verdict: hw},
		"", "Xid 31 was seen\nand 79 others\n")
	add(t, c, Attempt{Job: "nccl", User: "alice", VC: "vision", GPUs: 16, Verdict: nccl},
		"rank0", "\x1b[31mWatchdog caught collective operation timeout\x1b[0m: WorkNCCL(SeqNum=82)\n", "rank1", "retry 1\nretry 2\nConnection closed by peer at 0x7ffe12abcdef, giving up\n")
	add(t, c, Attempt{Job: "record", User: "carol smith", VC: "vision", Verdict: oom(0)})
	waitIndexed(t, c)
	return c
}

// found returns the jobs that a query finds.
func found(t *testing.T, c *Corpus, query string) string {
	t.Helper()
	h, err := c.Search(t.Context(), query, 0, "")
	if err != nil {
		t.Fatalf("search %q: %v", query, err)
	}
	var jobs []string
	for _, hit := range h.Hits {
		jobs = append(jobs, hit.Attempt.Job)
	}
	if h.Total != int64(len(jobs)) {
		t.Errorf("search %q: total %d, %d hits", query, h.Total, len(jobs))
	}
	return strings.Join(jobs, " ")
}

var searches = []struct{ query, want string }{
	{"memory", "record oom"},
	{"MEMORY cuda", "oom"},
	{`"out of memory"`, "oom"},
	{`"memory of out"`, ""},
	{`"Xid 79"`, "xid79"},
	{"Xid 79", "xid31 xid79"},
	{"Xid -79", ""},
	{"Xid -fallen", "xid31"},
	{`"rank 3"`, "record oom"},
	{"rank3", "record oom"},
	{"[rank3]:", "record oom"},
	{"torch.OutOfMemoryError:", "oom"},
	{`"2.50 GiB"`, "oom"},
	{`"seen and"`, ""}, // over the end of a line
	{`"peer at 0x1234567890 giving up"`, "nccl"},
	{"timeout OR bus", "nccl xid79"},
	{"timeout OR bus user:bob", "xid79"},
	{"user:alice", "nccl oom"},
	{`user:"carol smith"`, "record"},
	{"user:Alice", ""},
	{"vc:vision -user:alice", "record"},
	{"node:gpu-17", "xid79 oom"},
	{"node:gpu-17 node:gpu-1", "oom"},
	{"node:gpu-1 OR node:gpu-2", "xid31 oom"},
	{"job:nccl", "nccl"},
	{"fault:infrastructure", "xid31 xid79"},
	{"retry:never memory", "record oom"},
	{"retry", "nccl"},
	{"-retry", "record xid31 xid79 oom"},
	{"rule:xid", "xid31 xid79"},
	{"fingerprint:aaaaaaaaaaaa", "nccl"},
	{"cluster:west", "oom"},
	{"gpu_type:H100", "oom"},
	{"category:gpu-oom", "record oom"},
	{"-category:gpu-oom -user:bob", "nccl"},
	{"user:bob OR -category:gpu-oom", "nccl xid31 xid79"},
	{"31m", ""}, // of an ANSI code
	{"srun: error: task", "oom"},
	{"nothinglikeit", ""},
}

func TestSearch(t *testing.T) {
	c := searchCorpus(t, t.TempDir())
	for _, tt := range searches {
		if got := found(t, c, tt.query); got != tt.want {
			t.Errorf("search %q = %q, want %q", tt.query, got, tt.want)
		}
	}
}

func TestExcerpts(t *testing.T) {
	c := searchCorpus(t, t.TempDir())
	h, err := c.Search(t.Context(), `memory "rank 3" srun`, 0, "")
	if err != nil || len(h.Hits) != 1 {
		t.Fatalf("%d hits, %v", len(h.Hits), err)
	}
	want := []Excerpt{
		{Line: 3, Text: "torch.OutOfMemoryError: CUDA out of memory.", Marks: [][2]int{{36, 42}}},
		{Line: 4, Text: "srun: error: task 3: Exited", Marks: [][2]int{{0, 4}}},
	}
	if diff := cmp.Diff(want, h.Hits[0].Excerpts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h, err = c.Search(t.Context(), `watchdog OR "giving up"`, 0, "")
	if err != nil || len(h.Hits) != 1 {
		t.Fatalf("%d hits, %v", len(h.Hits), err)
	}
	want = []Excerpt{
		{File: "rank0", Line: 1, Text: "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=82)", Marks: [][2]int{{0, 8}}},
		{File: "rank1", Line: 3, Text: "Connection closed by peer at 0x7ffe12abcdef, giving up", Marks: [][2]int{{45, 54}}},
	}
	if diff := cmp.Diff(want, h.Hits[0].Excerpts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExcerptOfLongLine(t *testing.T) {
	for _, tt := range []struct {
		line   string
		wanted string
	}{
		{strings.Repeat("ü", 400) + " needle in " + strings.Repeat("ß", 400), "needle"},
		{"needle " + strings.Repeat("x ", 4000), "needle"},
		{strings.Repeat("x ", 4000) + "needle", "needle"},
		{"\xff\xfe needle \xff needle", "needle"},
		{strings.Repeat("x", 4000), "needle"},
	} {
		marks, count := mark([]byte(tt.line), [][]string{phrase(tt.wanted)})
		e := excerpt(lineKey{"f", 7}, []byte(tt.line), marks)
		if len(e.Text) > excerptBytes+50 || strings.ContainsRune(e.Text, 0) || e.Line != 7 {
			t.Errorf("excerpt of %.20q: %d bytes, line %d", tt.line, len(e.Text), e.Line)
		}
		if count > 0 && len(e.Marks) == 0 {
			t.Errorf("excerpt of %.20q has no mark: %q", tt.line, e.Text)
		}
		for _, m := range e.Marks {
			if e.Text[m[0]:m[1]] != tt.wanted {
				t.Errorf("excerpt of %.20q marks %q", tt.line, e.Text[m[0]:m[1]])
			}
		}
	}
}

func TestSearchPages(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	for i := range 25 {
		add(t, c, Attempt{Job: fmt.Sprintf("%02d", i)}, "", strings.Repeat(fmt.Sprintf("word %s\n", strings.Repeat("y", i)), 1+i%5))
	}
	waitIndexed(t, c)
	for _, query := range []string{"word", "word sort:best"} {
		var jobs []string
		cursor := ""
		for page := 0; page == 0 || cursor != ""; page++ {
			h, err := c.Search(t.Context(), query, 10, cursor)
			if err != nil || h.Total != 25 || page > 2 {
				t.Fatalf("page %d: total %d, %v", page, h.Total, err)
			}
			for _, hit := range h.Hits {
				jobs = append(jobs, hit.Attempt.Job)
			}
			cursor = h.Next
			if page == 0 && query == "word" { // must not shift the pages that follow
				add(t, c, Attempt{Job: "new " + query}, "", "other")
				waitIndexed(t, c)
			}
		}
		if slices.Sort(jobs); len(slices.Compact(jobs)) != 25 {
			t.Errorf("%s: the pages hold %d different jobs, want 25: %v", query, len(slices.Compact(jobs)), jobs)
		}
	}
	var field *FieldError
	if _, err := c.Search(t.Context(), "word", 10, "nonsense"); !errors.As(err, &field) || field.Field != "cursor" {
		t.Errorf("a bad cursor: %v", err)
	}
	if _, err := c.Search(t.Context(), "word", 1000, ""); !errors.As(err, &field) || field.Field != "limit" {
		t.Errorf("a limit of 1000: %v", err)
	}
}

// hits is what all searches find.
func hits(t *testing.T, c *Corpus) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, s := range searches {
		all[s.query] = found(t, c, s.query)
	}
	return all
}

func TestReindex(t *testing.T) {
	dir := t.TempDir()
	c := searchCorpus(t, dir)
	before := hits(t, c)
	var said []int64
	if err := c.Reindex(t.Context(), func(done, total int64) { said = append(said, done, total) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, hits(t, c)); diff != "" {
		t.Errorf("reindexing changed hits (-before +after):\n%s", diff)
	}
	if n := len(said); n < 2 || said[n-2] != 5 || said[n-1] != 5 {
		t.Errorf("progress said %v, want 5 of 5 at the end", said)
	}

	for _, damage := range []struct {
		name string
		do   func() error
	}{
		{"deleted", func() error { return os.RemoveAll(filepath.Join(dir, indexName())) }},
		{"without its meta file", func() error { return os.Remove(filepath.Join(dir, indexName(), "index_meta.json")) }},
		{"with an empty root", func() error { return os.Truncate(filepath.Join(dir, indexName(), "store", "root.bolt"), 0) }},
		{"with a root of rubbish", func() error {
			return os.WriteFile(filepath.Join(dir, indexName(), "store", "root.bolt"), []byte(strings.Repeat("rubbish ", 5000)), 0o600)
		}},
		{"with segments cut", func() error { return eachSegment(dir, func(p string) error { return os.Truncate(p, 10) }) }},
		{"with segments gone", func() error { return eachSegment(dir, os.Remove) }},
		{"of another version", func() error {
			return os.Rename(filepath.Join(dir, indexName()), filepath.Join(dir, "index-0"))
		}},
	} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := damage.do(); err != nil {
			t.Fatal(err)
		}
		c = open(t, dir, Options{})
		waitIndexed(t, c)
		if diff := cmp.Diff(before, hits(t, c)); diff != "" {
			t.Errorf("an index %s: other hits (-before +after):\n%s", damage.name, diff)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "index-0")); err == nil {
		t.Error("the index of another version is still there")
	}
}

func eachSegment(dir string, do func(string) error) error {
	paths, err := filepath.Glob(filepath.Join(dir, indexName(), "store", "*.zap"))
	if len(paths) == 0 {
		err = errors.New("there are no segments")
	}
	for _, p := range paths {
		err = errors.Join(err, do(p))
	}
	return err
}

// The database has more than the index when the process dies between the two.
func TestCrashBeforeIndex(t *testing.T) {
	dir := t.TempDir()
	c := searchCorpus(t, dir)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir, Options{NoIndex: true})
	a := add(t, c, Attempt{Job: "late"}, "", "never seen before\n")
	if err := c.SetVerdict(t.Context(), 1, classifier.Verdict{Category: "cpu-oom"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir, Options{})
	waitIndexed(t, c)
	if got := found(t, c, "seen before"); got != a.Job {
		t.Errorf("found %q, want %q", got, a.Job)
	}
	if got := found(t, c, "category:cpu-oom"); got != "oom" {
		t.Errorf("the changed attempt: found %q, want oom", got)
	}
	if got := found(t, c, "category:gpu-oom"); got != "late record" {
		t.Errorf("under the old category: %q, want late record", got)
	}
}

// A database that was put back from a backup is older than its index, which must not hide what comes next.
func TestOlderDatabase(t *testing.T) {
	dir, backup := t.TempDir(), t.TempDir()
	c := open(t, backup, Options{NoIndex: true})
	add(t, c, Attempt{Job: "first"}, "", "from the backup\n")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = searchCorpus(t, dir)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"corpus.db", "logs"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(backup, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c = open(t, dir, Options{})
	waitIndexed(t, c)
	if got := found(t, c, "backup"); got != "first" {
		t.Errorf("found %q, want first", got)
	}
	if got := found(t, c, "-category:none"); got != "first" {
		t.Errorf("all there is: %q, want first", got)
	}
}

func TestReadOnlyBesideWriter(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), dir, Options{ReadOnly: true}); err == nil {
		t.Error("an empty folder was opened for reading")
	}
	c := searchCorpus(t, dir)
	if _, err := Open(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("opened for writing a second time: %v; want an error that names the process", err)
	}
	r := open(t, dir, Options{ReadOnly: true})
	for deadline := time.Now().Add(10 * time.Second); r.index.done.Load() < c.rev.Load() && time.Now().Before(deadline); {
		r.Close() // the writer's last batch is on its way to the disk
		time.Sleep(20 * time.Millisecond)
		r = open(t, dir, Options{ReadOnly: true})
	}
	if diff := cmp.Diff(hits(t, c), hits(t, r)); diff != "" {
		t.Errorf("a reader finds something else (-writer +reader):\n%s", diff)
	}
	if _, err := r.Waste(t.Context(), Filter{}, ByCategory); err != nil {
		t.Error(err)
	}
	add(t, c, Attempt{Job: "later"}, "", "later\n")
	p, err := r.Attempts(t.Context(), Filter{})
	if err != nil || p.Total != 6 {
		t.Errorf("the reader sees %d attempts, %v; want 6", p.Total, err)
	}
	if h, err := r.Search(t.Context(), "user:bob", 0, ""); err != nil || h.Unindexed != 1 {
		t.Errorf("unindexed: %d, %v; want 1", h.Unindexed, err)
	}
	_, err = r.Add(t.Context(), &Attempt{Job: "x", Verdict: oom(0)}, nil)
	_, err2 := r.NewLog()
	for _, err := range []error{err, err2, r.Reindex(t.Context(), nil), r.SetVerdict(t.Context(), 1, oom(0))} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("writing into a corpus open for reading: %v, want ErrReadOnly", err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	alone := open(t, dir, Options{ReadOnly: true})
	if got := found(t, alone, "later"); got != "later" && got != "" {
		t.Errorf("a reader alone finds %q", got)
	}
}

func TestBackPressure(t *testing.T) {
	c := open(t, t.TempDir(), Options{MaxLag: 3})
	add(t, c, Attempt{Job: "0"}, "", "x\n")
	waitIndexed(t, c)
	c.index.mu.Lock() // the index cannot go on
	for i := range 3 {
		add(t, c, Attempt{Job: fmt.Sprint(i + 1)})
	}
	waited := make(chan error)
	go func() {
		_, err := c.Add(t.Context(), &Attempt{Job: "5", Verdict: oom(0)}, nil)
		waited <- err
	}()
	select {
	case err := <-waited:
		t.Errorf("Add did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if s := c.index.lag(); s < 100*time.Millisecond {
		t.Errorf("the lag is %v", s)
	}
	c.index.mu.Unlock()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	waitIndexed(t, c)
	if s := c.index.lag(); s != 0 {
		t.Errorf("the lag is %v after all is indexed", s)
	}
}

func TestSalientOfLongLog(t *testing.T) {
	c := open(t, t.TempDir(), Options{})
	var b strings.Builder
	b.WriteString("config: learning rate schedule cosine\n")
	for i := range 60_000 {
		if i == 30_000 {
			b.WriteString("middle evidence: the allocator gave up\nsurroundings follow\n")
		}
		fmt.Fprintf(&b, "step %d loss %.4f on gpu-%d\n", i, 1/float64(i+1), i%64)
	}
	b.WriteString("final words before the end\n")
	a := Attempt{Job: "1", Verdict: oom(30_002)}
	add(t, c, a, "", b.String())
	waitIndexed(t, c)
	for _, query := range []string{"cosine", `"allocator gave up"`, `"surroundings follow"`, `"final words"`, `"step 2"`} {
		if got := found(t, c, query); got != "1" {
			t.Errorf("search %q found %q, want the log", query, got)
		}
	}
	kept, err := c.Attempt(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := c.salient(&kept, kept.Logs)
	total := 0
	for _, l := range lines {
		total += len(l.text)
	}
	if err != nil || total > salientBytes || len(lines) > 200 {
		t.Errorf("%d lines of %d bytes, %v; such a log has few shapes", len(lines), total, err)
	}
}

func FuzzParseQuery(f *testing.F) {
	for _, s := range searches {
		f.Add(s.query)
	}
	f.Add(`a OR "b`)
	f.Add("-- - -a -:x:y user:\"\" sort:best")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := parseQuery(text)
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) || field.Field != "q" {
				t.Fatalf("parseQuery(%q): %v is no FieldError of q", text, err)
			}
			return
		}
		if len(q.clauses) == 0 {
			t.Fatalf("parseQuery(%q) has no clause and no error", text)
		}
		for _, c := range q.clauses {
			for _, term := range c {
				if term.field == "" && (len(term.words) == 0 || term.words[0] == "" || term.words[len(term.words)-1] == "") {
					t.Fatalf("parseQuery(%q): words %q", text, term.words)
				}
			}
		}
		q.bleve()
	})
}

func FuzzWords(f *testing.F) {
	f.Add([]byte("rank3: 0x12 2026-12-01 1.5 é显"))
	f.Fuzz(func(t *testing.T, line []byte) {
		end := 0
		words(line, func(w word) {
			if w.start < end || w.end <= w.start || w.end > len(line) {
				t.Fatalf("words(%q): %+v after %d", line, w, end)
			}
			end = w.end
		})
		marks, _ := mark(line, [][]string{{"rank", "3"}, {"é"}})
		e := excerpt(lineKey{}, line, marks)
		for _, m := range e.Marks {
			if m[0] >= m[1] || m[1] > len(e.Text) {
				t.Fatalf("excerpt(%q): mark %v of %d bytes", line, m, len(e.Text))
			}
		}
		shape(line)
		plain(line)
	})
}
