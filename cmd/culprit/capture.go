package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"culprit/classifier"
)

// capture keeps what a stream said in a file without a name, which is gone when the process is: the first part and the
// last, where it is more than fits. It never fails the stream: after an error it only counts.
type capture struct {
	name       string
	file       *os.File
	err        error
	head, ring int64 // bytes at the start that stay, and after them the room that the newest bytes take turns in
	size       int64 // bytes that came
	newlines   int64
	last       byte
}

// newCapture keeps at most limit bytes of a stream.
func newCapture(name string, limit int64) *capture {
	c := &capture{name: name, head: limit / 4, ring: limit - limit/4}
	c.file, c.err = os.CreateTemp("", "culprit-run-")
	if c.err == nil {
		c.err = os.Remove(c.file.Name())
	}
	return c
}

func (c *capture) close() {
	if c.file != nil {
		c.file.Close() // nameless: nothing to lose
	}
}

// add takes what came next.
func (c *capture) add(p []byte) {
	if len(p) == 0 {
		return
	}
	c.newlines += int64(bytes.Count(p, []byte{'\n'}))
	c.last = p[len(p)-1]
	for len(p) > 0 && c.err == nil {
		at, room := c.place(c.size)
		n := min(int64(len(p)), room)
		if _, err := c.file.WriteAt(p[:n], at); err != nil {
			c.err = err
		}
		p, c.size = p[n:], c.size+n
	}
	c.size += int64(len(p))
}

// place is where in the file the byte at an offset of the stream is, and how many that follow it are beside it.
func (c *capture) place(offset int64) (at, room int64) {
	if offset < c.head {
		return offset, c.head - offset
	}
	at = c.head + (offset-c.head)%c.ring
	return at, c.head + c.ring - at
}

// endsInLine tells that the stream's last line has no end.
func (c *capture) endsInLine() bool { return c.size > 0 && c.last != '\n' }

// kept is the text that a capture has, with what is needed to find a line of it in the stream.
type kept struct {
	io.Reader
	size int64

	cut      bool
	line     int64 // the first line after the cut, in the text
	offset   int64 // and its offset
	skipped  int64 // lines of the stream that the text does not have there
	skippedB int64 // and bytes
}

// text is what was kept. A cut is marked by a line of its own.
func (c *capture) text() (kept, error) {
	if c.err != nil {
		return kept{}, c.err
	}
	if c.size <= c.head+c.ring {
		return kept{Reader: io.NewSectionReader(c.file, 0, c.size), size: c.size}, nil
	}
	head := make([]byte, c.head)
	if _, err := c.file.ReadAt(head, 0); err != nil {
		return kept{}, err
	}
	head = head[:bytes.LastIndexByte(head, '\n')+1]
	start := c.size - c.ring // offset in the stream where the tail begins
	at, room := c.place(start)
	tail := func() io.Reader {
		return io.MultiReader(io.NewSectionReader(c.file, at, room), io.NewSectionReader(c.file, c.head, c.ring-room))
	}
	partial, newlines, err := countLines(tail())
	if err != nil {
		return kept{}, err
	}
	before := c.newlines - newlines // newlines before the tail
	if partial < c.ring {
		before++
	} else {
		partial = 0 // one line that does not end: it is shown from where it is
	}
	headLines := int64(bytes.Count(head, []byte{'\n'}))
	mark := fmt.Sprintf("[culprit run: %d lines left out here]\n", before-headLines)
	rest := tail()
	if _, err := io.CopyN(io.Discard, rest, partial); err != nil {
		return kept{}, err
	}
	k := kept{Reader: io.MultiReader(bytes.NewReader(head), bytes.NewReader([]byte(mark)), rest), cut: true}
	k.size = int64(len(head)+len(mark)) + c.ring - partial
	k.line, k.offset = headLines+2, int64(len(head)+len(mark))
	k.skipped = before + 1 - k.line
	k.skippedB = start + partial - k.offset
	return k, nil
}

// countLines counts newlines, and the bytes to the end of the first line.
func countLines(r io.Reader) (first, newlines int64, err error) {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if newlines == 0 {
			if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
				first += int64(i) + 1
			} else {
				first += int64(n)
			}
		}
		newlines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		if err == io.EOF {
			return first, newlines, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}

// place puts the lines of a verdict on the text where they stood in the stream.
func (k *kept) place(list []classifier.Evidence, file string) {
	for i := range list {
		if e := &list[i]; k.cut && e.File == file && e.Line >= k.line {
			e.Line += k.skipped
			e.Offset += k.skippedB
		}
	}
}
