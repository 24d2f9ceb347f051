package corpus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// searchQuery is a query as parsed: every clause must hold.
type searchQuery struct {
	clauses []clause
	best    bool // sort:best; else the newest first
}

// clause holds if one of its terms does.
type clause []queryTerm

// queryTerm is one word, phrase or field of a query.
type queryTerm struct {
	not   bool
	field string   // empty: words of the logs
	value string   // of the field
	words []string // to be found one after the other; an empty one is a gap. The first and the last are not
}

// searchFields are the fields that a query can name, as they stand in the index too.
var searchFields = []string{"category", "fault", "retry", "user", "vc", "node", "job", "rule", "fingerprint", "cluster", "gpu_type"}

const (
	maxTerms = 100
	maxQuery = 4096 // bytes
)

// parseQuery parses what a person typed:
//
//	NCCL timeout            both words
//	"Xid 79"                one after the other; so are the parts of a word such as libcudart.so
//	a OR b                  one of the two; OR binds closer than a space
//	-retry -user:alice      without
//	node:gpu-17 job:"a b"   a field, exactly
//	sort:best               by how well they match rather than the newest first
//
// A word with a colon whose first part is no field, as in "RuntimeError: CUDA", is words; one that is nearly a field is
// an error, since it would find nothing and not say why. Errors are FieldErrors of q that say at which character.
func parseQuery(text string) (searchQuery, error) {
	p := &queryParser{text: text}
	var q searchQuery
	switch {
	case len(text) > maxQuery:
		return q, invalid("q", "more than %d bytes", maxQuery)
	case !utf8.ValidString(text):
		return q, invalid("q", "is not UTF-8")
	}
	or := false
	for n := 0; ; n++ {
		word, ok, err := p.next()
		if err != nil {
			return q, err
		}
		if !ok {
			break
		}
		if n >= maxTerms {
			return q, p.wrong(word.at, "more than %d terms", maxTerms)
		}
		if word.text == "OR" && !word.quoted && word.field == "" && !word.not {
			if or || len(q.clauses) == 0 {
				return q, p.wrong(word.at, "OR stands between two terms")
			}
			or = true
			continue
		}
		if or, err = q.add(p, word, or); err != nil {
			return q, err
		}
	}
	if or {
		return q, p.wrong(len(text), "OR stands between two terms")
	}
	if len(q.clauses) == 0 {
		return q, invalid("q", "there is nothing to search for")
	}
	return q, nil
}

// add adds a term, to the last clause where it follows OR. It returns whether an OR still waits for its second term.
func (q *searchQuery) add(p *queryParser, w queryWord, or bool) (bool, error) {
	if w.field == "sort" {
		if w.text != "best" && w.text != "newest" || w.not || or {
			return or, p.wrong(w.at, "write sort:best or sort:newest")
		}
		q.best = w.text == "best"
		return or, nil
	}
	t := queryTerm{not: w.not, field: w.field, value: w.text}
	if w.field == "" {
		t.value, t.words = "", phrase(w.text)
		if len(t.words) == 0 {
			if !w.quoted && !strings.ContainsFunc(w.text, unicode.IsDigit) {
				return or, nil // punctuation between two words
			}
			return or, p.wrong(w.at, "%q has no word that is indexed: numbers of more than %d digits, hex and times are not", w.text, maxDigits)
		}
	}
	if or {
		last := len(q.clauses) - 1
		q.clauses[last] = append(q.clauses[last], t)
	} else {
		q.clauses = append(q.clauses, clause{t})
	}
	return false, nil
}

// phrase returns the words of a text, without the gaps at its ends.
func phrase(text string) []string {
	var list []string
	words([]byte(text), func(w word) { list = append(list, w.text) })
	for len(list) > 0 && list[0] == "" {
		list = list[1:]
	}
	for len(list) > 0 && list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}

// queryWord is a word of the query as written.
type queryWord struct {
	at     int // byte in the query
	not    bool
	field  string
	text   string
	quoted bool
}

type queryParser struct {
	text string
	at   int
}

// wrong is an error at a byte of the query; people count characters, from 1.
func (p *queryParser) wrong(at int, format string, args ...any) error {
	return invalid("q", "%s (at character %d)", fmt.Sprintf(format, args...), utf8.RuneCountInString(p.text[:at])+1)
}

// next reads the next word; false at the end.
func (p *queryParser) next() (queryWord, bool, error) {
	rest := strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace)
	p.at = len(p.text) - len(rest)
	w := queryWord{at: p.at}
	if rest == "" {
		return w, false, nil
	}
	if len(rest) > 1 && rest[0] == '-' && !unicode.IsSpace(rune(rest[1])) && rest[1] != '-' {
		w.not = true
		p.at++
	}
	if err := p.field(&w); err != nil {
		return w, false, err
	}
	return w, true, p.value(&w)
}

// field reads the field's name and colon where the word begins with one.
func (p *queryParser) field(w *queryWord) error {
	rest := p.text[p.at:]
	n := strings.IndexFunc(rest, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r == '_') })
	if n <= 0 || rest[n] != ':' {
		return nil
	}
	name := rest[:n]
	if name != "sort" && !slices.Contains(searchFields, name) {
		if near := nearField(name); near != "" && n+1 < len(rest) && !unicode.IsSpace(rune(rest[n+1])) {
			return p.wrong(p.at, "there is no field %s: write %s:, or quote the words", name, near)
		}
		return nil
	}
	if n+1 == len(rest) || unicode.IsSpace(rune(rest[n+1])) {
		return p.wrong(p.at, "%s: needs a value right after the colon; quote it to search for the word", name)
	}
	w.field = name
	p.at += n + 1
	return nil
}

// value reads a word or a quoted text.
func (p *queryParser) value(w *queryWord) error {
	rest := p.text[p.at:]
	if rest == "" || rest[0] != '"' {
		n := strings.IndexFunc(rest, unicode.IsSpace)
		if n < 0 {
			n = len(rest)
		}
		w.text = rest[:n]
		p.at += n
		return nil
	}
	n := strings.IndexByte(rest[1:], '"')
	if n < 0 {
		return p.wrong(p.at, "the quote is not closed")
	}
	w.text, w.quoted = rest[1:1+n], true
	p.at += n + 2
	if w.field != "" && w.text == "" {
		return p.wrong(w.at, "%s: needs a value", w.field)
	}
	return nil
}

// nearField returns the field that a name was probably meant to be.
func nearField(name string) string {
	best := slices.MinFunc(searchFields, func(a, b string) int { return cmp.Compare(distance(name, a), distance(name, b)) })
	if limit := 1 + len(name)/6; distance(name, best) <= limit {
		return best
	}
	return ""
}

// distance is how many letters must be put in, taken out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
