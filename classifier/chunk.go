package classifier

import (
	"bytes"
	"context"
	"io"
	"sync"
)

const (
	chunkSize    = 256 << 10 // a log is read in pieces of this size
	overlap      = 8 << 10   // what is seen again of a line that is longer than a piece
	parallelFrom = 16 << 20  // bytes after which the pieces of a log are scanned on all cores
)

// chunk is a piece of a log: whole lines, but for a line that is longer than a piece.
type chunk struct {
	data      []byte
	offset    int64 // of data in the log
	continued bool  // data starts inside of a line
	seen      int   // bytes of data that the piece before had too
	unended   bool  // data ends inside of a line
	hits      []hit

	buf     []byte
	scanned chan struct{} // closed when hits are there
}

var newline = []byte{'\n'}

// chunks holds pieces that are not in use, so that reading many logs makes no garbage.
var chunks = sync.Pool{New: func() any { return &chunk{buf: make([]byte, chunkSize+overlap)} }}

// cutter cuts a stream into pieces.
type cutter struct {
	r         io.Reader
	carry     []byte // the start of the next piece
	seen      int    // bytes of carry that the piece before had too
	continued bool
	eof       bool
	ended     bool // the last byte read was a \n
	total     int64
	lines     int64
}

// next reads the next piece; nil at the end of the stream. The caller gives it back to the pool.
func (u *cutter) next() (*chunk, error) {
	for !u.eof {
		ch := chunks.Get().(*chunk)
		n := copy(ch.buf, u.carry)
		m, err := io.ReadFull(u.r, ch.buf[n:])
		u.total += int64(m)
		u.eof = err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !u.eof {
			chunks.Put(ch)
			return nil, err
		}
		u.lines += int64(bytes.Count(ch.buf[n:n+m], newline))
		if n += m; n > u.seen {
			u.ended = ch.buf[n-1] == '\n'
		}
		if u.cut(ch, n) {
			return ch, nil
		}
		chunks.Put(ch)
	}
	return nil, nil
}

// cut makes the first n bytes of a piece's buffer the piece, but for a last line that is not whole, which starts the next
// one. It reports whether there is anything new in it.
func (u *cutter) cut(ch *chunk, n int) bool {
	end := n
	if !u.eof {
		if i := bytes.LastIndexByte(ch.buf[u.seen:n], '\n'); i >= 0 {
			end = u.seen + i + 1
		}
	}
	fresh := end > u.seen
	if fresh {
		ch.data, ch.offset, ch.hits = ch.buf[:end], u.total-int64(n), ch.hits[:0]
		ch.continued, ch.seen, ch.unended = u.continued, u.seen, ch.buf[end-1] != '\n'
	}
	switch {
	case u.eof || end == 0:
	case ch.buf[end-1] == '\n':
		u.carry, u.seen, u.continued = append(u.carry[:0], ch.buf[end:n]...), 0, false
	default: // a line longer than a piece: its end is seen again
		u.carry = append(u.carry[:0], ch.buf[end-overlap:end]...)
		u.seen, u.continued = len(u.carry), true
	}
	return fresh
}

// count is how many bytes and lines there were; a last line without \n counts.
func (u *cutter) count() (bytes, lines int64) {
	if u.total > 0 && !u.ended {
		return u.total, u.lines + 1
	}
	return u.total, u.lines
}

// readChunks reads r to its end, scans each piece for literals and hands the pieces to consume in their order. It
// returns how many bytes and lines there were.
func (c *Classifier) readChunks(ctx context.Context, r io.Reader, consume func(*chunk)) (total, lines int64, err error) {
	u := &cutter{r: r}
	for u.total < parallelFrom || cap(c.cores) < 2 {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		ch, err := u.next()
		if err != nil {
			return 0, 0, err
		}
		if ch == nil {
			total, lines = u.count()
			return total, lines, nil
		}
		c.scanChunk(ch)
		consume(ch)
		chunks.Put(ch)
	}
	if err := c.readParallel(ctx, u, consume); err != nil {
		return 0, 0, err
	}
	total, lines = u.count()
	return total, lines, nil
}

// readParallel reads on from u: the pieces are scanned as cores are free, which all logs share, and consumed in order.
func (c *Classifier) readParallel(ctx context.Context, u *cutter, consume func(*chunk)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	order := make(chan *chunk, 2*cap(c.cores))
	failed := make(chan error, 1)
	go func() {
		defer close(order)
		for ctx.Err() == nil {
			ch, err := u.next()
			if err != nil {
				failed <- err
				return
			}
			if ch == nil {
				return
			}
			ch.scanned = make(chan struct{})
			c.cores <- struct{}{}
			go func() {
				c.scanChunk(ch)
				<-c.cores
				close(ch.scanned)
			}()
			select {
			case order <- ch:
			case <-ctx.Done():
				<-ch.scanned
				return
			}
		}
	}()
	for ch := range order {
		<-ch.scanned
		if ctx.Err() == nil {
			consume(ch)
		}
		chunks.Put(ch)
	}
	select {
	case err := <-failed:
		return err
	default:
	}
	return context.Cause(ctx)
}
