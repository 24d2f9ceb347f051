package corpus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"sort"

	"github.com/klauspost/compress/zstd"
)

// A kept log is a zstd file that any zstd tool can unpack: frames of frameSize bytes of text each, the last one shorter,
// then a skippable frame with the table of the frames. The table is 12 bytes a frame and a trailer of fixed size:
//
//	for each frame: compressed bytes, text bytes, newlines, each 4 bytes
//	trailer:        text bytes (8), newlines (8), number of frames (4), CRC-32 of the table before it (4), "culprit1"
//
// All numbers are little endian. A line is found by counting newlines, so a reader unpacks only the frames that its
// lines begin and end in, however long they are.
const (
	frameSize     = 1 << 20
	skippable     = 0x184D2A5C // one of the 16 magic numbers that zstd decoders skip
	entrySize     = 12
	trailerSize   = 8 + 8 + 4 + 4 + 8
	trailerMagic  = "culprit1"
	maxPackedSize = frameSize + frameSize/64 + 1024 // what incompressible text can grow to
)

var errDamaged = errors.New("the file is damaged")

// frame is one frame of a log: where it stands in the file and which text it holds.
type frame struct {
	packedAt int64 // in the file
	packed   int   // compressed bytes
	textAt   int64 // in the text
	text     int   // bytes of text
	newlines int   // in this frame
	before   int64 // newlines in all frames before it
}

// codec packs and unpacks frames. Its encoders and decoders are as many as there are cores, so that the memory of
// any number of uploads stays that of their buffers.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	spare   chan struct{} // tokens for packing beside the reader of an upload; shared by all uploads
	texts   buffers       // of frameSize
	packed  buffers
}

// buffers keeps a few byte slices for their next use.
type buffers chan []byte

func (b buffers) get(size int) []byte {
	select {
	case s := <-b:
		return s[:0]
	default:
		return make([]byte, 0, size)
	}
}

func (b buffers) put(s []byte) {
	select {
	case b <- s:
	default:
	}
}

func newCodec() (*codec, error) {
	cores := runtime.GOMAXPROCS(0)
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(cores),
		zstd.WithWindowSize(frameSize), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(cores), zstd.WithDecoderMaxMemory(frameSize), zstd.WithDecoderMaxWindow(frameSize))
	if err != nil {
		return nil, err
	}
	return &codec{enc, dec, make(chan struct{}, cores), make(buffers, 4*cores), make(buffers, 4*cores)}, nil
}

func (c *codec) close() {
	c.encoder.Close()
	c.decoder.Close()
}

// appendTable appends the skippable frame with the table of frames.
func appendTable(b []byte, frames []frame) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, skippable)
	b = le.AppendUint32(b, uint32(len(frames)*entrySize+trailerSize))
	table := len(b)
	var text, newlines int64
	for _, f := range frames {
		b = le.AppendUint32(b, uint32(f.packed))
		b = le.AppendUint32(b, uint32(f.text))
		b = le.AppendUint32(b, uint32(f.newlines))
		text += int64(f.text)
		newlines += int64(f.newlines)
	}
	sum := crc32.ChecksumIEEE(b[table:])
	b = le.AppendUint64(b, uint64(text))
	b = le.AppendUint64(b, uint64(newlines))
	b = le.AppendUint32(b, uint32(len(frames)))
	b = le.AppendUint32(b, sum)
	return append(b, trailerMagic...)
}

// readTable reads the table at the end of a log file of size bytes, and checks that it describes that file.
func readTable(r io.ReaderAt, size int64) ([]frame, error) {
	var trailer [trailerSize]byte
	if size < trailerSize+8 {
		return nil, errDamaged
	}
	if _, err := r.ReadAt(trailer[:], size-trailerSize); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	n := int64(le.Uint32(trailer[16:]))
	start := size - trailerSize - n*entrySize
	if string(trailer[24:]) != trailerMagic || start < 8 {
		return nil, errDamaged
	}
	table := make([]byte, n*entrySize)
	if _, err := r.ReadAt(table, start); err != nil {
		return nil, err
	}
	if crc32.ChecksumIEEE(table) != le.Uint32(trailer[20:]) {
		return nil, errDamaged
	}
	frames := make([]frame, n)
	var at frame
	for i := range frames {
		e := table[i*entrySize:]
		at.packed, at.text, at.newlines = int(le.Uint32(e)), int(le.Uint32(e[4:])), int(le.Uint32(e[8:]))
		if at.packed > maxPackedSize || at.text > frameSize || at.newlines > at.text || at.text == 0 {
			return nil, errDamaged
		}
		frames[i] = at
		at.packedAt += int64(at.packed)
		at.textAt += int64(at.text)
		at.before += int64(at.newlines)
	}
	if at.packedAt != start-8 || at.textAt != int64(le.Uint64(trailer[:])) || at.before != int64(le.Uint64(trailer[8:])) {
		return nil, errDamaged
	}
	return frames, nil
}

// logReader reads the text of a kept log. It is not safe for concurrent use.
type logReader struct {
	codec  *codec
	file   io.ReaderAt
	closer io.Closer
	name   string // for errors
	frames []frame

	packed []byte // scratch
	text   []byte // of frame cached
	cached int    // -1: none

	next int    // frame that Read continues with
	rest []byte // what Read has not returned of the frame before
}

// openLogFile opens a kept log by its path.
func (c *codec) openLogFile(path string) (*logReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		var r *logReader
		if r, err = c.newLogReader(f, info.Size(), path); err == nil {
			r.closer = f
			return r, nil
		}
	}
	f.Close()
	return nil, err
}

func (c *codec) newLogReader(file io.ReaderAt, size int64, name string) (*logReader, error) {
	frames, err := readTable(file, size)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", name, err)
	}
	return &logReader{codec: c, file: file, name: name, frames: frames, cached: -1}, nil
}

// Close closes the file.
func (r *logReader) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// size returns the bytes of the text.
func (r *logReader) size() int64 {
	if len(r.frames) == 0 {
		return 0
	}
	last := r.frames[len(r.frames)-1]
	return last.textAt + int64(last.text)
}

// newlines returns how many newlines the text has.
func (r *logReader) newlines() int64 {
	if len(r.frames) == 0 {
		return 0
	}
	last := r.frames[len(r.frames)-1]
	return last.before + int64(last.newlines)
}

// unpack returns the text of frame i. It is valid until the next call.
func (r *logReader) unpack(i int) ([]byte, error) {
	if r.cached == i {
		return r.text, nil
	}
	r.cached = -1
	f := r.frames[i]
	if cap(r.packed) < f.packed {
		r.packed = make([]byte, f.packed)
	}
	r.packed = r.packed[:f.packed]
	if _, err := r.file.ReadAt(r.packed, f.packedAt); err != nil {
		return nil, fmt.Errorf("log %s: %w", r.name, err)
	}
	if cap(r.text) < f.text {
		r.text = make([]byte, 0, f.text)
	}
	text, err := r.codec.decoder.DecodeAll(r.packed, r.text[:0])
	if err != nil || len(text) != f.text || bytes.Count(text, newline) != f.newlines {
		return nil, fmt.Errorf("log %s: frame %d: %w", r.name, i, errors.Join(errDamaged, err))
	}
	r.text, r.cached = text, i
	return text, nil
}

var newline = []byte{'\n'}

// Read reads the whole text from its start.
func (r *logReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.next == len(r.frames) {
			return 0, io.EOF
		}
		text, err := r.unpack(r.next)
		if err != nil {
			return 0, err
		}
		r.rest = text
		r.next++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// lineAt returns the offset in the text at which a line begins, and false where there is no such line.
func (r *logReader) lineAt(line int64) (int64, bool, error) {
	switch {
	case line < 1 || r.size() == 0:
		return 0, false, nil
	case line == 1:
		return 0, true, nil
	case line-1 > r.newlines():
		return r.size(), false, nil
	}
	// It begins after newline number line-1, which is in the last frame with fewer newlines before it.
	i := sort.Search(len(r.frames), func(i int) bool { return r.frames[i].before >= line-1 }) - 1
	text, err := r.unpack(i)
	if err != nil {
		return 0, false, err
	}
	at := nthNewline(text, int(line-1-r.frames[i].before)) + 1
	offset := r.frames[i].textAt + int64(at)
	return offset, offset < r.size(), nil
}

// nthNewline returns the index of the n-th newline in text, from 1. There must be as many.
func nthNewline(text []byte, n int) int {
	at := -1
	for ; n > 0; n-- {
		at += 1 + bytes.IndexByte(text[at+1:], '\n')
	}
	return at
}

// frameOf returns the frame that holds an offset of the text.
func (r *logReader) frameOf(offset int64) int {
	return sort.Search(len(r.frames), func(i int) bool { return r.frames[i].textAt > offset }) - 1
}

// readAt appends to b the text from offset on, at most n bytes of it.
func (r *logReader) readAt(b []byte, offset int64, n int) ([]byte, error) {
	for n > 0 && offset < r.size() {
		i := r.frameOf(offset)
		text, err := r.unpack(i)
		if err != nil {
			return nil, err
		}
		text = text[offset-r.frames[i].textAt:]
		text = text[:min(len(text), n)]
		b = append(b, text...)
		n -= len(text)
		offset += int64(len(text))
	}
	return b, nil
}

// lineEnd returns the offset of the newline that ends the line that starts at offset, or the end of the text.
func (r *logReader) lineEnd(line, offset int64) (int64, error) {
	i := r.frameOf(offset)
	text, err := r.unpack(i)
	if err != nil {
		return 0, err
	}
	start := r.frames[i].textAt
	if at := bytes.IndexByte(text[offset-start:], '\n'); at >= 0 {
		return offset + int64(at), nil
	}
	if line > r.newlines() {
		return r.size(), nil
	}
	next, _, err := r.lineAt(line + 1)
	return next - 1, err
}

// A log's line can be of any length: what is shown of one, and of all that one call returns.
const (
	maxLineBytes  = 16 << 10
	maxLinesBytes = 8 << 20
)

// lines returns the lines from and to, both included; fewer where the log ends, or where they reach maxLinesBytes.
func (r *logReader) lines(from, to int64) ([]string, error) {
	lines := []string{}
	offset, ok, err := r.lineAt(from)
	var line []byte
	total := 0
	for n := from; ok && err == nil && n <= to && total < maxLinesBytes; n++ {
		var end int64
		if end, err = r.lineEnd(n, offset); err != nil {
			break
		}
		length := end - offset
		if line, err = r.readAt(line[:0], offset, int(min(length, maxLineBytes))); err != nil {
			break
		}
		lines = append(lines, clipped(line, length))
		total += len(line)
		offset = end + 1
		ok = offset < r.size()
	}
	return lines, err
}

// clipped returns a line of length bytes of which line is the start: without a \r at its end, and with a mark that
// says how much is missing.
func clipped(line []byte, length int64) string {
	if int64(len(line)) == length {
		return string(bytes.TrimSuffix(line, []byte{'\r'}))
	}
	line = cutRune(line)
	return fmt.Sprintf("%s … [%d bytes more]", line, length-int64(len(line)))
}

// cutRune takes off the rune at the end of b that a cut has left incomplete.
func cutRune(b []byte) []byte {
	for i := 1; i <= min(3, len(b)); i++ {
		switch c := b[len(b)-i]; {
		case c < 0x80:
			return b
		case c >= 0xC0:
			if need := runeLength(c); need > i {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

func runeLength(first byte) int {
	switch {
	case first >= 0xF0:
		return 4
	case first >= 0xE0:
		return 3
	}
	return 2
}
