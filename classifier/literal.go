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
// Each literal is represented by the words of 4 bytes in its rarest window of 8. The scan looks at one word in each step
// of 5 bytes: whatever the alignment, one such word lies inside each window. A literal of 6 or 7 bytes has too few words
// inside; those that stick out of it by one byte stand in with every value of that byte (for still shorter ones the step
// shrinks). A word is folded to lower case, hashed, and looked up in a bitmap that stays in the cache; only where the bit
// is set are the word and then the whole literal compared.
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
	shortest := widest
	for _, g := range gates {
		shortest = min(shortest, len(g.Literal))
	}
	step := min(shortest-wordBytes+1+2, widest-wordBytes+1) // two more words than lie inside: see partial
	byWord := map[uint32][]candidate{}
	for i, g := range gates {
		c := candidate{literal: int32(i), text: g.Literal, fold: g.Fold}
		if g.Fold {
			c.text = lower(c.text)
		}
		inside := min(len(c.text)-wordBytes+1, step)
		at := rarest(c.text, inside, common)
		for k := range inside {
			c.back = int32(at + k)
			word := binary.LittleEndian.Uint32([]byte(c.text[at+k:at+k+wordBytes])) | caseBits
			byWord[word] = append(byWord[word], c)
		}
		before, after := sticking(c.text, -1), sticking(c.text, inside)
		switch {
		case inside == step:
		case inside+1 < step:
			addAll(byWord, c, -1, before)
			addAll(byWord, c, inside, after)
		case total(before, common) <= total(after, common):
			addAll(byWord, c, -1, before)
		default:
			addAll(byWord, c, inside, after)
		}
	}
	return layOut(step, byWord)
}

// sticking are the folded words at back bytes from the start of text that stick out of it by one byte: one for each value
// that the byte outside can have. So a literal with fewer words inside than the step has bytes is still met by one.
func sticking(text string, back int) []uint32 {
	var word [wordBytes]byte
	outside := 0
	if back < 0 {
		copy(word[1:], text)
	} else {
		copy(word[:], text[min(back, len(text)):])
		outside = wordBytes - 1
	}
	var words []uint32
	for value := range 256 {
		if byte(value)|0x20 == byte(value) { // folded, the others are the same words
			word[outside] = byte(value)
			words = append(words, binary.LittleEndian.Uint32(word[:])|caseBits)
		}
	}
	return words
}

func addAll(byWord map[uint32][]candidate, c candidate, back int, words []uint32) {
	c.back = int32(back)
	for _, word := range words {
		byWord[word] = append(byWord[word], c)
	}
}

// total is how common words are together.
func total(words []uint32, common func(uint32) int) int {
	sum := 0
	for _, w := range words {
		sum += common(w)
	}
	return sum
}

// layOut makes the bitmap and the table of the scan.
func layOut(step int, byWord map[uint32][]candidate) *filter {
	logBits := max(15, bits.Len(uint(len(byWord)*16))) // one bit in 16 set, or fewer
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

// rarest is where the n words in a row stand in text that are least common together.
func rarest(text string, n int, common func(uint32) int) int {
	best, least := 0, -1
	for at := 0; at+n+wordBytes-1 <= len(text); at++ {
		sum := 0
		for k := range n {
			sum += common(binary.LittleEndian.Uint32([]byte(text[at+k:at+k+wordBytes])) | caseBits)
		}
		if least < 0 || sum < least {
			best, least = at, sum
		}
	}
	return best
}

// scan appends the occurrences of the literals in b to hits, ordered by position.
func (f *filter) scan(b []byte, hits []hit) []hit {
	from := len(hits)
	hits = f.sample(b, hits)
	// A short literal at the very end may have only a word that sticks out of the buffer at the place looked at.
	sampled := len(hits)
	for i := max(0, len(b)-wordBytes-f.step); i+wordBytes <= len(b); i++ {
		hits = f.verify(b, i, hits)
	}
	if found := hits[from:]; len(hits) > sampled || !slices.IsSortedFunc(found, byPosition) {
		slices.SortFunc(found, byPosition)
		hits = hits[:from+len(slices.Compact(found))]
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
