package classifier

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"

	"culprit/rules"
)

// hit is an occurrence of a literal in a buffer.
type hit struct {
	literal int32 // index into the gates that the filter was made of
	pos     int32 // where it starts
}

// filter finds the occurrences of many literals in one pass over a buffer, at a rate near that of reading memory.
//
// Each literal is represented by its rarest window, of 8 bytes or, where a literal is shorter, of as many as the shortest
// has. The scan looks at one 4-byte word in each step of 5 bytes (fewer for shorter windows): whatever the alignment, one
// such word lies inside each window. The word is folded to lower case, hashed, and looked up in a bitmap that stays in
// the cache; only where the bit is set are the word and then the whole literal compared.
//
// An automaton looks at each byte and waits for the table entry that the byte before it selected; here the words are
// independent of each other, so that several are under way at once, and most bytes are never looked at.
type filter struct {
	step    int // distance of the words looked at
	shift   uint
	bitmap  []uint64
	mask    uint32
	slots   []slot      // open addressing by word
	windows []candidate // grouped by word
}

// slot holds where the windows with this word stand.
type slot struct {
	word        uint32
	first, last int32 // windows[first:last]; empty where equal
}

// candidate says that the word at a position may belong to a literal.
type candidate struct {
	literal int32
	back    int32  // from the word to the start of the literal
	text    string // the literal, folded where it ignores case
	fold    bool
}

const (
	widest    = 8 // bytes of a window
	wordBytes = 4
	caseBits  = 0x20202020
)

// newFilter prepares a filter for the literals of gates, each at least 4 bytes long. common gives how often a folded
// word of 4 bytes occurs in logs; windows of rare words make the scan fast.
func newFilter(gates []rules.Gate, common func(word uint32) int) *filter {
	size := widest
	for _, g := range gates {
		size = min(size, len(g.Literal))
	}
	step := size - wordBytes + 1
	byWord := map[uint32][]candidate{}
	for i, g := range gates {
		text := g.Literal
		if g.Fold {
			text = lower(text)
		}
		at := rarest(text, size, step, common)
		for k := range step {
			word := binary.LittleEndian.Uint32([]byte(text[at+k:at+k+wordBytes])) | caseBits
			byWord[word] = append(byWord[word], candidate{literal: int32(i), back: int32(at + k), text: text, fold: g.Fold})
		}
	}
	return layOut(step, byWord)
}

// layOut makes the bitmap and the table of the scan.
func layOut(step int, byWord map[uint32][]candidate) *filter {
	logBits := max(15, bits.Len(uint(len(byWord)*64))) // one bit in 64 set, or fewer
	logSlots := max(6, bits.Len(uint(len(byWord)*4)))
	f := &filter{step: step, shift: uint(32 - min(logBits, 21)), bitmap: make([]uint64, 1<<min(logBits, 21)/64),
		mask: 1<<logSlots - 1, slots: make([]slot, 1<<logSlots)}
	words := make([]uint32, 0, len(byWord))
	for w := range byWord {
		words = append(words, w)
	}
	slices.Sort(words)
	for _, w := range words {
		x := w * hashFactor >> f.shift
		f.bitmap[x>>6] |= 1 << (x & 63)
		i := w * hashFactor >> 7 & f.mask
		for f.slots[i].first != f.slots[i].last {
			i = (i + 1) & f.mask
		}
		first := int32(len(f.windows))
		f.windows = append(f.windows, byWord[w]...)
		f.slots[i] = slot{word: w, first: first, last: int32(len(f.windows))}
	}
	return f
}

const hashFactor = 0x9E3779B1

// rarest is where the window of size bytes stands in text whose words are least common.
func rarest(text string, size, step int, common func(uint32) int) int {
	best, least := 0, -1
	for at := 0; at+size <= len(text); at++ {
		n := 0
		for k := range step {
			n += common(binary.LittleEndian.Uint32([]byte(text[at+k:at+k+wordBytes])) | caseBits)
		}
		if least < 0 || n < least {
			best, least = at, n
		}
	}
	return best
}

// scan appends the occurrences of the literals in b to hits, ordered by position.
func (f *filter) scan(b []byte, hits []hit) []hit {
	from := len(hits)
	hits = f.sample(b, hits)
	if found := hits[from:]; !slices.IsSortedFunc(found, byPosition) {
		slices.SortFunc(found, byPosition)
	}
	return hits
}

func byPosition(a, b hit) int {
	if a.pos != b.pos {
		return int(a.pos - b.pos)
	}
	return int(a.literal - b.literal)
}

// sample looks at the words of b, four at a time.
func (f *filter) sample(b []byte, hits []hit) []hit {
	step, shift, bitmap := f.step, f.shift, f.bitmap
	if len(b) < wordBytes || len(bitmap) == 0 {
		return hits
	}
	i, n := 0, len(b)-wordBytes
	for ; i+3*step <= n; i += 4 * step {
		x0 := (binary.LittleEndian.Uint32(b[i:]) | caseBits) * hashFactor >> shift
		x1 := (binary.LittleEndian.Uint32(b[i+step:]) | caseBits) * hashFactor >> shift
		x2 := (binary.LittleEndian.Uint32(b[i+2*step:]) | caseBits) * hashFactor >> shift
		x3 := (binary.LittleEndian.Uint32(b[i+3*step:]) | caseBits) * hashFactor >> shift
		r := bitmap[x0>>6]>>(x0&63)&1 | bitmap[x1>>6]>>(x1&63)&1<<1 | bitmap[x2>>6]>>(x2&63)&1<<2 | bitmap[x3>>6]>>(x3&63)&1<<3
		for ; r != 0; r &= r - 1 {
			hits = f.verify(b, i+bits.TrailingZeros64(r)*step, hits)
		}
	}
	for ; i <= n; i += step {
		x := (binary.LittleEndian.Uint32(b[i:]) | caseBits) * hashFactor >> shift
		if bitmap[x>>6]>>(x&63)&1 != 0 {
			hits = f.verify(b, i, hits)
		}
	}
	return hits
}

// verify appends the literals whose window has the word at pos and which stand there.
func (f *filter) verify(b []byte, pos int, hits []hit) []hit {
	word := binary.LittleEndian.Uint32(b[pos:]) | caseBits
	i := word * hashFactor >> 7 & f.mask
	for f.slots[i].first != f.slots[i].last && f.slots[i].word != word {
		i = (i + 1) & f.mask
	}
	for _, w := range f.windows[f.slots[i].first:f.slots[i].last] {
		start := pos - int(w.back)
		if start < 0 || start+len(w.text) > len(b) {
			continue
		}
		if at := b[start : start+len(w.text)]; string(at) == w.text || w.fold && equalFolded(at, w.text) {
			hits = append(hits, hit{literal: w.literal, pos: int32(start)})
		}
	}
	return hits
}

// equalFolded reports whether b is text but for ASCII case; text is in lower case.
func equalFolded(b []byte, text string) bool {
	for i := range text {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != text[i] {
			return false
		}
	}
	return true
}

// lower is s with its ASCII letters in lower case.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r | 0x20
		}
		return r
	}, s)
}
