package corpus

import (
	"bytes"
	"context"
	"strings"
)

// Found is where a text stands in a log.
type Found struct {
	Lines []int64  `json:"lines"` // numbers of the lines, ascending, each once
	Texts []string `json:"texts"` // the lines, as Lines returns them
	To    int64    `json:"to"`    // the last line that was looked at
	More  bool     `json:"more"`  // there are lines after To that were not looked at
}

// FindLines returns the lines, from a line on, in which a text stands as it is; ASCII letters count in either case. It
// looks at the log frame by frame and ends with limit lines, or after maxFindBytes: what it returns then says where to
// go on. The text is not a pattern.
func (c *Corpus) FindLines(ctx context.Context, id int64, file, text string, from int64, limit int) (Found, error) {
	switch {
	case from < 1:
		return Found{}, invalid("from", "%d is below 1, the first line", from)
	case text == "":
		return Found{}, invalid("find", "there is nothing to look for")
	case strings.Contains(text, "\n"):
		return Found{}, invalid("find", "no line has a newline in it")
	case len(text) > maxText:
		return Found{}, invalid("find", "longer than %d bytes", maxText)
	}
	r, log, err := c.OpenLog(ctx, id, file)
	if err != nil {
		return Found{}, err
	}
	defer r.Close()
	f := finder{reader: r.(*logReader), text: lowered(nil, []byte(text)), limit: limit}
	f.Found, f.last = Found{Lines: []int64{}, To: from - 1}, log.Lines
	if err = f.scan(ctx, from); err == nil {
		err = f.read()
	}
	return f.Found, err
}

// read reads the lines that were found.
func (f *finder) read() error {
	for _, n := range f.Lines {
		text, err := f.reader.lines(n, n)
		if err != nil {
			return err
		}
		f.Texts = append(f.Texts, text...)
	}
	return nil
}

// maxFindBytes bounds how much text one search looks at: about a second's worth.
const maxFindBytes = 1 << 30

// finder looks for a text in a log. Lines that go from one frame into the next are put together in rest.
type finder struct {
	Found
	reader *logReader
	text   []byte // in lower case
	limit  int
	last   int64 // the number of the log's last line
	rest   []byte
	lower  []byte // scratch
}

func (f *finder) scan(ctx context.Context, from int64) error {
	offset, ok, err := f.reader.lineAt(from)
	if err != nil || !ok {
		return err
	}
	line, looked := from, 0
	for i := f.reader.frameOf(offset); i < len(f.reader.frames); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := f.reader.unpack(i)
		if err != nil {
			return err
		}
		text = text[max(0, offset-f.reader.frames[i].textAt):]
		line = f.frame(text, line, i == len(f.reader.frames)-1)
		looked += len(text)
		if len(f.Lines) >= f.limit || looked >= maxFindBytes {
			f.More = f.To < f.last
			return nil
		}
	}
	return nil
}

// frame looks at the text of a frame, which begins within line, and returns the line that the next one begins within.
func (f *finder) frame(text []byte, line int64, last bool) int64 {
	f.lower = lowered(f.lower, text)
	text = f.lower
	if len(f.rest) > 0 {
		end := bytes.IndexByte(text, '\n')
		if end < 0 && !last {
			f.carry(text)
			return line
		}
		if end < 0 {
			end = len(text) - 1
		}
		f.carry(text[:end+1])
		line = f.lines(f.rest, line)
		f.rest, text = f.rest[:0], text[end+1:]
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if last {
		whole = len(text)
	}
	line = f.lines(text[:whole], line)
	f.carry(text[whole:])
	return line
}

// maxCarried bounds what is kept of a line that is longer than a frame: what is found in it is found near its start.
const maxCarried = 4 * frameSize

func (f *finder) carry(text []byte) {
	if len(f.rest) < maxCarried {
		f.rest = append(f.rest, text...)
	}
}

// lines looks at whole lines, of which the first has the number line, and returns the number after them.
func (f *finder) lines(text []byte, line int64) int64 {
	for len(text) > 0 {
		at := bytes.Index(text, f.text)
		if at < 0 || len(f.Lines) >= f.limit {
			break
		}
		line += int64(bytes.Count(text[:at], newline))
		f.Lines, f.To = append(f.Lines, line), line
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return line + 1
		}
		text = text[at+end+1:]
		line++
	}
	if len(f.Lines) >= f.limit {
		return line
	}
	line += int64(bytes.Count(text, newline))
	if n := len(text); n > 0 && text[n-1] != '\n' {
		line++
	}
	f.To = line - 1
	return line
}

// lowered returns text with its ASCII letters in lower case, in the memory of scratch.
func lowered(scratch, text []byte) []byte {
	scratch = append(scratch[:0], text...)
	for i, b := range scratch {
		if 'A' <= b && b <= 'Z' {
			scratch[i] = b + 'a' - 'A'
		}
	}
	return scratch
}
