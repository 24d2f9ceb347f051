package corpus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"
	bleveindex "github.com/blevesearch/bleve_index_api"
	"golang.org/x/sync/errgroup"
)

// Search finds attempts by words of their logs and by fields; parseQuery tells the syntax. It returns at most limit
// hits (0 for 20, at most 200), the newest first, or best first with sort:best in the query. What it says about an
// attempt may be a little older than the attempt; see Hits.Unindexed. A query or cursor that is none is a FieldError.
func (c *Corpus) Search(ctx context.Context, text string, limit int, cursor string) (Hits, error) {
	if c.index == nil {
		return Hits{}, errNoIndex
	}
	q, err := parseQuery(text)
	if err != nil {
		return Hits{}, err
	}
	o, err := newSearchOrder(&q, limit, cursor)
	if err != nil {
		return Hits{}, err
	}
	places, total, err := c.index.search(ctx, q.bleve(), o)
	if err != nil {
		return Hits{}, fmt.Errorf("searching: %w", err)
	}
	hits := Hits{Hits: []Hit{}, Total: total}
	hits.Next, places = o.cut(places)
	if hits.Unindexed, err = c.unindexed(ctx); err != nil {
		return Hits{}, err
	}
	hits.Hits, err = c.hits(ctx, &q, places)
	return hits, err
}

// unindexed counts the attempts that have changed since the index last read them.
func (c *Corpus) unindexed(ctx context.Context) (n int64, err error) {
	err = c.read.QueryRowContext(ctx, "SELECT count(*) FROM attempt WHERE rev > ?", c.index.done.Load()).Scan(&n)
	return n, err
}

const (
	defaultHits = 20
	maxHits     = 200
)

// searchOrder is how hits are sorted and which part of them is wanted. The newest first go on after an attempt, so that
// pages stay in step; the best first go on after a number of hits, since every new attempt changes all scores a little.
type searchOrder struct {
	best  bool
	limit int
	skip  int
	order // of what is collected
}

const maxSkip = 10_000

func newSearchOrder(q *searchQuery, limit int, cursor string) (*searchOrder, error) {
	o := &searchOrder{best: q.best, limit: limit, order: order{name: "newest"}}
	if o.best {
		o.name = "best"
	}
	switch {
	case limit == 0:
		o.limit = defaultHits
	case limit < 0 || limit > maxHits:
		return nil, invalid("limit", "%d is not from 1 to %d", limit, maxHits)
	}
	if cursor != "" {
		var at place
		if !readCursor(cursor, o.name, &at.key, &at.id) || o.best && (at.key < 0 || at.key > maxSkip) {
			return nil, invalid("cursor", "%q is none of this search", cursor)
		}
		if o.best {
			o.skip = int(at.key)
		} else {
			o.after = &at
		}
	}
	o.order.limit = o.limit + o.skip
	return o, nil
}

// cut returns the page that was wanted of what was collected, and the cursor of the next.
func (o *searchOrder) cut(places []place) (next string, page []place) {
	places = places[min(o.skip, len(places)):]
	switch {
	case len(places) <= o.limit:
		return "", places
	case o.best:
		next = o.cursor(place{key: int64(o.skip + o.limit)})
	default:
		next = o.cursor(places[o.limit-1])
	}
	return next, places[:o.limit]
}

// bleve returns the query in bleve's terms.
func (q *searchQuery) bleve() query.Query {
	var must, not []query.Query
	for _, c := range q.clauses {
		if len(c) == 1 && c[0].not {
			not = append(not, c[0].bleve())
			continue
		}
		var any []query.Query
		for _, t := range c {
			if t.not {
				any = append(any, query.NewBooleanQuery([]query.Query{query.NewMatchAllQuery()}, nil, []query.Query{t.bleve()}))
			} else {
				any = append(any, t.bleve())
			}
		}
		if len(any) == 1 {
			must = append(must, any[0])
		} else {
			must = append(must, query.NewDisjunctionQuery(any))
		}
	}
	if len(must) == 0 {
		must = []query.Query{query.NewMatchAllQuery()}
	}
	if len(must) == 1 && len(not) == 0 {
		return must[0]
	}
	if len(not) == 0 {
		return query.NewConjunctionQuery(must)
	}
	return query.NewBooleanQuery(must, nil, not)
}

func (t *queryTerm) bleve() query.Query {
	switch {
	case t.field != "":
		return termQuery(t.value, t.field)
	case len(t.words) == 1:
		return termQuery(t.words[0], textField)
	}
	return query.NewPhraseQuery(t.words, textField)
}

func termQuery(term, field string) query.Query {
	q := query.NewTermQuery(term)
	q.SetField(field)
	return q
}

// search returns the first places after the cursor, one more than the limit where there are as many, and the number of
// hits in all.
func (x *index) search(ctx context.Context, q query.Query, o *searchOrder) (first []place, total int64, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.bleve == nil {
		return nil, 0, errNoIndex
	}
	defer x.recovered(&err)
	advanced, err := x.bleve.Advanced()
	if err != nil {
		return nil, 0, err
	}
	reader, err := advanced.Reader()
	if err != nil {
		return nil, 0, err
	}
	defer reader.Close()
	options := search.SearcherOptions{Score: "none"}
	if o.best {
		options.Score = ""
	}
	searcher, err := q.Searcher(ctx, reader, bleve.NewIndexMapping(), options)
	if err != nil {
		return nil, 0, err
	}
	defer searcher.Close()
	return collect(ctx, searcher, reader, o)
}

// collect goes through all that a searcher finds and keeps the best places.
func collect(ctx context.Context, searcher search.Searcher, reader bleveindex.IndexReader, o *searchOrder) ([]place, int64, error) {
	sc := &search.SearchContext{DocumentMatchPool: search.NewDocumentMatchPool(searcher.DocumentMatchPoolSize()+1, 0), IndexReader: reader}
	values, err := reader.DocValueReader([]string{idField})
	if err != nil {
		return nil, 0, err
	}
	best := &worstFirst{}
	total := int64(0)
	for {
		match, err := searcher.Next(sc)
		if err != nil || match == nil {
			slices.SortFunc(*best, place.compare)
			return *best, total, err
		}
		if total++; total%1024 == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		var id int64
		err = values.VisitDocValues(match.IndexInternalID, func(_ string, term []byte) {
			if len(term) == 8 {
				id = int64(binary.BigEndian.Uint64(term))
			}
		})
		if err != nil {
			return nil, 0, err
		}
		best.offer(&o.order, place{scoreKey(o, match.Score), -id})
		sc.DocumentMatchPool.Put(match)
	}
}

// scoreKey is what hits are sorted by before their ids: nothing, or the score, the best of which comes first.
func scoreKey(o *searchOrder, score float64) int64 {
	if !o.best {
		return 0
	}
	return -int64(math.Round(score * 1e9))
}

// hits reads the attempts that were found, with excerpts of their logs.
func (c *Corpus) hits(ctx context.Context, q *searchQuery, places []place) ([]Hit, error) {
	ids := make([]int64, len(places))
	for i, p := range places {
		ids[i] = -p.id
	}
	list, err := readAttempts(c.reader(ctx), ids)
	if err != nil {
		return nil, err
	}
	hits := make([]Hit, len(list))
	wanted := q.phrases()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		g.Go(func() error {
			hits[i] = Hit{list[i], c.excerpts(&list[i], wanted)}
			return ctx.Err()
		})
	}
	return hits, g.Wait()
}

// phrases returns the words and phrases that a hit may contain.
func (q *searchQuery) phrases() [][]string {
	var list [][]string
	for _, c := range q.clauses {
		for _, t := range c {
			if !t.not && len(t.words) > 0 {
				list = append(list, t.words)
			}
		}
	}
	return list
}

const (
	maxExcerpts    = 5
	excerptBytes   = 300
	excerptContext = 80 // bytes before the first mark of a long line
)

// excerptUnpacks bounds how much text is looked through for the excerpts of one hit: an attempt can have thousands of logs.
const excerptUnpacks = 16 << 20

// excerpts returns the root cause's line and the lines that have the most of the words. They are looked for in the log
// of the root cause first, then in the others, until there are enough of them or excerptUnpacks is spent.
func (c *Corpus) excerpts(a *Attempt, wanted [][]string) []Excerpt {
	list := []Excerpt{}
	var root lineKey
	if r := a.Verdict.Root; r != nil && r.Line > 0 && len(a.Logs) > 0 {
		root = lineKey{rootFile(a), r.Line}
		text := []byte(r.Text)
		marks, _ := mark(text, wanted)
		list = append(list, excerpt(root, text, marks))
	}
	if len(wanted) == 0 {
		return list
	}
	files := rootFirst(a.Logs, root.file)
	var best []foundLine
	for spent := int64(0); len(files) > 0 && spent < excerptUnpacks && len(best) < maxExcerpts-1; files = files[1:] {
		spent += min(files[0].Bytes, 2*frameSize)
		lines, err := c.salient(a, files[:1])
		if err != nil {
			c.log.Warn("a hit is shown without a log", "attempt", a.ID, "err", err)
		}
		best = append(best, bestLines(lines, wanted, root)...)
	}
	return append(list, chosen(best)...)
}

// rootFirst returns logs with the one of that name first.
func rootFirst(logs []LogFile, name string) []LogFile {
	files := slices.Clone(logs)
	if i := slices.IndexFunc(files, func(f LogFile) bool { return f.Name == name }); i > 0 {
		files[0], files[i] = files[i], files[0]
	}
	return files
}

// rootFile returns the name of the log that the root cause is in.
func rootFile(a *Attempt) string {
	if len(a.Logs) == 1 {
		return a.Logs[0].Name
	}
	return a.Verdict.Root.File
}

// foundLine is a line with some of the wanted phrases.
type foundLine struct {
	line  textLine
	marks [][2]int
	count int // of different phrases
}

// bestLines returns the lines that have one of the phrases, but for the root cause's.
func bestLines(lines []textLine, wanted [][]string, but lineKey) []foundLine {
	var list []foundLine
	for _, l := range lines {
		if (lineKey{l.file, l.line}) == but || !mayHave(l.text, wanted) {
			continue
		}
		if marks, count := mark(l.text, wanted); count > 0 {
			list = append(list, foundLine{l, marks, count})
		}
	}
	return list
}

// chosen returns the excerpts of the lines with the most phrases, in the order of the logs, one of each shape.
func chosen(list []foundLine) []Excerpt {
	seen := map[uint64]bool{}
	list = slices.DeleteFunc(list, func(f foundLine) bool {
		s := shape(f.line.text)
		defer func() { seen[s] = true }()
		return seen[s]
	})
	slices.SortStableFunc(list, func(a, b foundLine) int { return cmp.Compare(b.count, a.count) })
	list = list[:min(len(list), maxExcerpts-1)]
	slices.SortStableFunc(list, func(a, b foundLine) int {
		return cmp.Or(strings.Compare(a.line.file, b.line.file), cmp.Compare(a.line.line, b.line.line))
	})
	var excerpts []Excerpt
	for _, f := range list {
		excerpts = append(excerpts, excerpt(lineKey{f.line.file, f.line.line}, f.line.text, f.marks))
	}
	return excerpts
}

// mayHave says quickly whether one of the phrases can be in a line: whether its first word's bytes are.
func mayHave(line []byte, wanted [][]string) bool {
	lower := bytes.ToLower(line)
	for _, words := range wanted {
		if bytes.Contains(lower, []byte(words[0])) {
			return true
		}
	}
	return false
}

// mark returns where in a line the wanted phrases are, in ascending ranges that do not overlap, and how many of the
// phrases are there.
func mark(line []byte, wanted [][]string) (marks [][2]int, count int) {
	var list []word
	words(line, func(w word) { list = append(list, w) })
	for _, phrase := range wanted {
		found := false
		for i := range list {
			if n := len(phrase); i+n <= len(list) && matches(list[i:i+n], phrase) {
				marks = append(marks, [2]int{list[i].start, list[i+n-1].end})
				found = true
			}
		}
		if found {
			count++
		}
	}
	slices.SortFunc(marks, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(b[1], a[1])) })
	return joinMarks(marks), count
}

// matches says whether words are those of a phrase, in which an empty one stands for any.
func matches(list []word, phrase []string) bool {
	for i, want := range phrase {
		if want != "" && list[i].text != want {
			return false
		}
	}
	return true
}

func joinMarks(marks [][2]int) [][2]int {
	joined := [][2]int{}
	for _, m := range marks {
		if last := len(joined) - 1; last >= 0 && m[0] < joined[last][1] {
			joined[last][1] = max(joined[last][1], m[1])
		} else {
			joined = append(joined, m)
		}
	}
	return joined
}

// excerpt returns the part of a line that is shown: around the first mark where the line is long. Bytes that are no
// UTF-8 become U+FFFD, and the marks move with that.
func excerpt(at lineKey, line []byte, marks [][2]int) Excerpt {
	start := 0
	if len(line) > excerptBytes && len(marks) > 0 {
		start = max(0, min(marks[0][0]-excerptContext, len(line)-excerptBytes))
	}
	for start > 0 && start < len(line) && !utf8.RuneStart(line[start]) {
		start++
	}
	end := min(len(line), start+excerptBytes)
	for end < len(line) && end > start && !utf8.RuneStart(line[end]) {
		end--
	}
	e := Excerpt{File: at.file, Line: at.line, Marks: [][2]int{}}
	var text strings.Builder
	position := start
	to := func(i int) int { // copies up to i and returns where that is in the text
		text.Write(bytes.ToValidUTF8(line[position:i], []byte("\uFFFD")))
		position = i
		return text.Len()
	}
	for _, m := range marks {
		if m[0] >= position && m[1] <= end {
			from := to(m[0])
			e.Marks = append(e.Marks, [2]int{from, to(m[1])})
		}
	}
	to(end)
	e.Text = text.String()
	return e
}
