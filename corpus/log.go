package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"path/filepath"
	"syscall"

	"culprit/classifier"
)

// StagedLog is the logs of one attempt on their way into the corpus: written, but seen by nobody before Add. It is for
// one goroutine at a time.
type StagedLog struct {
	corpus  *Corpus
	files   []stagedFile
	current *logWriter // the log that is being read
	err     error      // the first failure: nothing of it can be kept
	added   bool
}

// stagedFile is one log, whole and synced, in the staging folder.
type stagedFile struct {
	LogFile
	sum    [sha256.Size]byte
	path   string
	stored int64 // bytes of the file
}

// NewLog stages the logs of one attempt. The caller must call Discard, also after Add.
func (c *Corpus) NewLog() (*StagedLog, error) {
	if c.write == nil {
		return nil, ErrReadOnly
	}
	return &StagedLog{corpus: c}, nil
}

// Tee passes logs through and keeps what is read of them. A log is complete when the next one is asked for or the
// loop ends; if reading one failed, or keeping it (a full disk: ErrFull), the reader of the log gets the error and so
// does Add. Names must differ.
func (l *StagedLog) Tee(logs iter.Seq2[classifier.Log, error]) iter.Seq2[classifier.Log, error] {
	return func(yield func(classifier.Log, error) bool) {
		defer l.finish()
		for log, err := range logs {
			l.finish()
			if err == nil {
				err = l.start(log.Name)
			}
			if err != nil {
				l.fail(err)
				yield(classifier.Log{}, err)
				return
			}
			log.Reader = &teeReader{log.Reader, l, l.current}
			if !yield(log, nil) {
				return
			}
		}
	}
}

func (l *StagedLog) start(name string) error {
	if err := checkText("logs", name); err != nil {
		return err
	}
	for _, f := range l.files {
		if f.Name == name {
			return invalid("logs", "two logs are named %q", name)
		}
	}
	w, err := l.corpus.newLogWriter(name)
	l.current = w
	return err
}

// finish completes the log that is being read.
func (l *StagedLog) finish() {
	if l.current == nil {
		return
	}
	file, err := l.current.finish()
	l.current = nil
	if err != nil {
		l.fail(err)
		return
	}
	l.files = append(l.files, file)
}

func (l *StagedLog) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// Discard removes what was staged. It does nothing after Add.
func (l *StagedLog) Discard() {
	l.finish()
	l.remove()
	l.fail(errors.New("the staged logs were discarded"))
}

// remove deletes the staged files that are still there: all before Add, after it those whose content was kept already.
func (l *StagedLog) remove() {
	for _, f := range l.files {
		os.Remove(f.path)
	}
	l.files = nil
}

// teeReader reads a log and writes what it read into w.
type teeReader struct {
	log    io.Reader
	staged *StagedLog
	w      *logWriter
}

func (t *teeReader) Read(p []byte) (int, error) {
	n, err := t.log.Read(p)
	if n > 0 {
		if werr := t.w.write(p[:n]); werr != nil {
			t.staged.fail(werr)
			return 0, werr
		}
	}
	if err != nil && err != io.EOF {
		t.staged.fail(err)
	}
	return n, err
}

// logWriter writes the text of one log into a file of the staging folder.
type logWriter struct {
	codec  *codec
	file   io.WriteCloser
	sync   func() error
	path   string
	name   string
	sum    hash.Hash
	text   []byte // of the frame that is being filled
	queue  []*packing
	frames []frame
	stored int64
	last   byte // of the text so far
	err    error
}

// packing is a frame on its way from text to file.
type packing struct {
	text, packed []byte
	newlines     int
	done         chan struct{}
}

func (c *Corpus) newLogWriter(name string) (*logWriter, error) {
	f, err := os.CreateTemp(c.path("staging"), "log-*")
	if err != nil {
		return nil, fmt.Errorf("staging a log: %w", full(err))
	}
	return &logWriter{codec: c.codec, file: f, sync: f.Sync, path: f.Name(), name: name, sum: sha256.New()}, nil
}

// write appends to the log's text.
func (w *logWriter) write(p []byte) error {
	if w.err != nil {
		return w.err
	}
	w.sum.Write(p)
	w.last = p[len(p)-1]
	for len(p) > 0 {
		if len(w.text) > frameSize/4 && cap(w.text) < frameSize {
			w.text = append(w.codec.texts.get(frameSize), w.text...)
		}
		n := min(len(p), frameSize-len(w.text))
		w.text = append(w.text, p[:n]...)
		p = p[n:]
		if len(w.text) == frameSize {
			w.flush(w.codec.texts.get(frameSize))
		}
	}
	return w.err
}

// flush packs the text so far as a frame, on another core where one is free, and goes on with the buffer next.
func (w *logWriter) flush(next []byte) {
	p := &packing{text: w.text, done: make(chan struct{})}
	w.text = next
	w.queue = append(w.queue, p)
	select {
	case w.codec.spare <- struct{}{}:
		go func() {
			p.pack(w.codec)
			<-w.codec.spare
		}()
	default:
		p.pack(w.codec)
	}
	w.drain(cap(w.codec.spare))
}

func (p *packing) finished() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *packing) pack(c *codec) {
	p.packed = c.encoder.EncodeAll(p.text, c.packed.get(0))
	p.newlines = bytes.Count(p.text, newline)
	close(p.done)
}

// drain writes frames in their order: all that are packed, and as many more that at most keep are left.
func (w *logWriter) drain(keep int) {
	for len(w.queue) > 0 && (len(w.queue) > keep || w.queue[0].finished()) {
		p := w.queue[0]
		w.queue = w.queue[1:]
		<-p.done
		w.put(p.packed)
		w.frames = append(w.frames, frame{packed: len(p.packed), text: len(p.text), newlines: p.newlines})
		if cap(p.text) >= frameSize {
			w.codec.texts.put(p.text)
		}
		w.codec.packed.put(p.packed)
	}
}

func (w *logWriter) put(b []byte) {
	if w.err != nil {
		return
	}
	if _, err := w.file.Write(b); err != nil {
		w.err = fmt.Errorf("staging log %q: %w", w.name, full(err))
	}
	w.stored += int64(len(b))
}

// finish writes what is left and the table, and syncs the file. If that fails the file is gone.
func (w *logWriter) finish() (stagedFile, error) {
	if len(w.text) > 0 {
		w.flush(nil)
	}
	w.drain(0)
	w.put(appendTable(nil, w.frames))
	if w.err == nil {
		w.err = full(w.sync())
	}
	if err := w.file.Close(); w.err == nil {
		w.err = full(err)
	}
	if w.err != nil {
		os.Remove(w.path)
		return stagedFile{}, w.err
	}
	return w.staged(), nil
}

func (w *logWriter) staged() stagedFile {
	f := stagedFile{path: w.path, stored: w.stored}
	w.sum.Sum(f.sum[:0])
	f.Name, f.Digest = w.name, hex.EncodeToString(f.sum[:])
	for _, fr := range w.frames {
		f.Bytes += int64(fr.text)
		f.Lines += int64(fr.newlines)
	}
	if f.Bytes > 0 && w.last != '\n' {
		f.Lines++
	}
	return f
}

// full makes an error that says that there is no space left an ErrFull too.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return errors.Join(ErrFull, err)
	}
	return err
}

// logPath returns where a log of this content is kept.
func (c *Corpus) logPath(digest string) string {
	return filepath.Join(c.dir, "logs", digest[:2], digest+".zst")
}

// openDigest opens a kept log. The row that names it promises that it is there, so its absence is damage.
func (c *Corpus) openDigest(digest string) (*logReader, error) {
	r, err := c.codec.openLogFile(c.logPath(digest))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("log %s: its file is missing from the folder logs: restore it from a backup", digest)
	}
	return r, err
}
