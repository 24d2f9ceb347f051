package corpus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/document"
	bleveindex "github.com/blevesearch/bleve_index_api"
	"golang.org/x/sync/errgroup"
)

// indexVersion is raised with every change of what is indexed and how; an index of another version is rebuilt at start.
// 1: salient lines, numbers of up to four digits, exact fields.
// 2: the verdict's summary too.
const indexVersion = 2

const (
	textField    = "text"
	idField      = "id" // the attempt's id, 8 bytes big endian, as a doc value: the order of hits
	indexBatch   = 128
	gatherFor    = 50 * time.Millisecond // what else comes meanwhile shares the batch
	defaultLag   = 10_000
	maxRetryWait = time.Minute
)

// revKey is where the index keeps the rev up to which it has read, written with the documents of that batch. So a crash
// makes it repeat work and never miss any.
var revKey = []byte("rev")

// index is the text index. It follows the database and is never asked whether an attempt exists.
type index struct {
	corpus *Corpus
	path   string
	maxLag int64

	mu    sync.RWMutex // held for writing while bleve is replaced
	bleve bleve.Index
	temp  string // the copy that a reader beside a writer has opened

	done       atomic.Int64 // the rev up to which it has read
	rebuilding atomic.Bool  // from the start; nobody waits for that
	broken     atomic.Bool  // its files are damaged: follow makes it anew
	failure    atomic.Pointer[string]
	wakeup     chan struct{}

	lagMu   sync.Mutex
	commits []commitTime // since done
}

// commitTime is when a rev became the newest.
type commitTime struct {
	rev int64
	at  time.Time
}

func indexName() string { return fmt.Sprintf("index-%d", indexVersion) }

// openIndex opens the index, or makes an empty one that a goroutine fills.
func (c *Corpus) openIndex(ctx context.Context, opt Options) (*index, error) {
	x := &index{corpus: c, path: c.path(indexName()), maxLag: int64(opt.MaxLag), wakeup: make(chan struct{}, 1)}
	if x.maxLag <= 0 {
		x.maxLag = defaultLag
	}
	if c.write == nil {
		return x, x.openCopy()
	}
	x.removeOthers()
	if err := x.openOwn(); err != nil {
		return nil, err
	}
	if behind := c.rev.Load() - x.done.Load(); behind > 0 {
		x.rebuilding.Store(behind > x.maxLag || x.done.Load() == 0)
		x.committed(c.rev.Load())
	}
	c.workers.Go(x.follow)
	return x, nil
}

// removeOthers removes indexes of other versions. They are no use to this program.
func (x *index) removeOthers() {
	others, err := filepath.Glob(x.corpus.path("index-*"))
	for _, path := range others {
		if path == x.path {
			continue
		}
		x.corpus.log.Info("removed an index of another version", "index", filepath.Base(path))
		err = errors.Join(err, os.RemoveAll(path))
	}
	if err != nil {
		x.corpus.log.Warn("could not remove an old index", "err", err)
	}
}

// openOwn opens the index for writing. One that cannot be opened, or that has read more than the database has, as after
// a backup was put back, is made anew.
func (x *index) openOwn() error {
	err := x.openPath(x.path, map[string]any{"bolt_timeout": "10s", "unsafe_batch": true})
	if err == nil && x.done.Load() > x.corpus.rev.Load() {
		err = errors.New("it has read more than the database holds")
		x.bleve.Close()
	}
	if err == nil {
		return nil
	}
	if _, missing := os.Stat(x.path); missing == nil {
		x.corpus.log.Warn("the index cannot be used and is rebuilt", "index", x.path, "err", err)
	}
	return x.create()
}

// openPath opens an index and reads how far it has come. bleve panics on some damaged files; that is an error here.
func (x *index) openPath(path string, config map[string]any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it is damaged: %v", r)
		}
	}()
	b, err := bleve.OpenUsing(path, config)
	if err != nil {
		return err
	}
	rev, err := b.GetInternal(revKey)
	if err != nil || len(rev) != 8 {
		b.Close()
		return errors.Join(errors.New("it does not say how far it has read"), err)
	}
	x.bleve = b
	x.done.Store(int64(binary.BigEndian.Uint64(rev)))
	return nil
}

// create makes an empty index in place of what is there.
func (x *index) create() error {
	if err := os.RemoveAll(x.path); err != nil {
		return err
	}
	// What the mapping says does not matter: documents are made field by field, and queries name words as indexed.
	b, err := bleve.NewUsing(x.path, bleve.NewIndexMapping(), bleve.Config.DefaultIndexType, bleve.Config.DefaultKVStore,
		map[string]any{"bolt_timeout": "10s", "unsafe_batch": true})
	if err != nil {
		return fmt.Errorf("making the index: %w", full(err))
	}
	batch := b.NewBatch()
	batch.SetInternal(revKey, make([]byte, 8))
	if err := b.Batch(batch); err != nil {
		b.Close()
		return fmt.Errorf("making the index: %w", full(err))
	}
	x.bleve = b
	x.done.Store(0)
	return nil
}

// openCopy opens the index for reading beside the process that writes it, which holds bleve's lock: a copy of the small
// file that names the segments, with links to the segments, which never change. Where the writer removes one meanwhile,
// the copy is made again. Without an index x.bleve stays nil.
func (x *index) openCopy() error {
	var err error
	for range 20 {
		if _, missing := os.Stat(filepath.Join(x.path, "store", "root.bolt")); missing != nil {
			return nil
		}
		if x.temp, err = os.MkdirTemp("", "culprit-index-"); err != nil {
			return err
		}
		if err = copyIndex(x.path, x.temp); err == nil {
			err = x.openPath(x.temp, map[string]any{"read_only": true})
		}
		if err == nil {
			return nil
		}
		os.RemoveAll(x.temp)
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("opening the index for reading: %w", err)
}

func copyIndex(from, to string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(to, "store"), 0o700); err != nil {
		return err
	}
	for _, name := range []string{"index_meta.json", "store/root.bolt"} {
		body, err := readStill(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), body, 0o600); err != nil {
			return err
		}
	}
	segments, err := filepath.Glob(filepath.Join(from, "store", "*.zap"))
	for _, path := range segments {
		err = errors.Join(err, os.Symlink(path, filepath.Join(to, "store", filepath.Base(path))))
	}
	return err
}

// readStill reads a file that somebody may be writing: until two readings are the same.
func readStill(path string) ([]byte, error) {
	before, err := os.ReadFile(path)
	for range 100 {
		if err != nil {
			return nil, err
		}
		var after []byte
		if after, err = os.ReadFile(path); string(after) == string(before) && err == nil {
			return after, nil
		}
		before = after
	}
	return nil, fmt.Errorf("%s changes all the time", path)
}

func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var err error
	if x.bleve != nil {
		x.persist()
		err = x.bleve.Close()
		x.bleve = nil
	}
	if x.temp != "" {
		err = errors.Join(err, os.RemoveAll(x.temp))
	}
	return err
}

// persist waits until what was indexed is on disk. Without it the next start repeats some work, so it does not wait long.
func (x *index) persist() {
	if x.corpus.write == nil {
		return
	}
	done := make(chan struct{})
	batch := x.bleve.NewBatch()
	batch.SetInternal(revKey, binary.BigEndian.AppendUint64(nil, uint64(x.done.Load())))
	batch.SetPersistedCallback(func(error) { close(done) })
	if err := x.bleve.Batch(batch); err != nil {
		return
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second):
	}
}

// wake tells the index that something was committed.
func (x *index) wake() {
	x.committed(x.corpus.rev.Load())
	select {
	case x.wakeup <- struct{}{}:
	default:
	}
}

// committed notes when a rev was committed.
func (x *index) committed(rev int64) {
	x.lagMu.Lock()
	defer x.lagMu.Unlock()
	if n := len(x.commits); n == 0 || x.commits[n-1].rev < rev {
		x.commits = append(x.commits, commitTime{rev, time.Now()})
	}
}

// lag returns for how long the oldest change has waited for the index.
func (x *index) lag() time.Duration {
	x.lagMu.Lock()
	defer x.lagMu.Unlock()
	done := x.done.Load()
	for len(x.commits) > 0 && x.commits[0].rev <= done {
		x.commits = x.commits[1:]
	}
	if len(x.commits) == 0 {
		return 0
	}
	return time.Since(x.commits[0].at)
}

// waitForRoom waits while the index is too far behind, so that it cannot fall behind for ever. It does not wait for an
// index that is rebuilt, which takes long, nor for one that fails: keeping comes before finding.
func (x *index) waitForRoom(ctx context.Context) error {
	for x.corpus.rev.Load()-x.done.Load() >= x.maxLag && !x.rebuilding.Load() && x.failure.Load() == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the index to catch up: %w", ctx.Err())
		case <-x.corpus.life.Done():
			return errClosed
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// follow keeps the index up to date until Close.
func (x *index) follow() {
	life := x.corpus.life
	wait := time.Second
	for life.Err() == nil {
		if x.broken.Swap(false) {
			x.corpus.log.Warn("the index is damaged and is rebuilt", "index", x.path)
			if err := x.restart(); err != nil {
				x.broken.Store(true)
				x.failed(err)
				sleep(life, wait)
				wait = min(2*wait, maxRetryWait)
				continue
			}
		}
		n, err := x.step(life)
		switch {
		case life.Err() != nil:
			return
		case err != nil:
			x.failed(err)
			sleep(life, wait)
			wait = min(2*wait, maxRetryWait)
		case n == 0:
			x.rebuilding.Store(false)
			select {
			case <-x.wakeup:
				sleep(life, gatherFor)
			case <-life.Done():
			}
		default:
			wait = time.Second
			x.failure.Store(nil)
		}
	}
}

// errIndexDamaged is what a panic of bleve becomes, and damage that it reports.
var errIndexDamaged = errors.New("the index is damaged and is rebuilt")

// recovered turns a panic of bleve, which it has for damaged files, into an error, and has the index rebuilt.
func (x *index) recovered(err *error) {
	r := recover()
	if r == nil {
		return
	}
	*err = fmt.Errorf("%w: %v", errIndexDamaged, r)
	x.broken.Store(true)
	select {
	case x.wakeup <- struct{}{}:
	default:
	}
}

func (x *index) failed(err error) {
	text := err.Error()
	if old := x.failure.Swap(&text); old == nil || *old != text {
		x.corpus.log.Error("indexing failed and is tried again", "err", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// step indexes the next attempts that have changed, and returns how many those were.
func (x *index) step(ctx context.Context) (n int, err error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	defer x.recovered(&err)
	ids, rev, err := x.next(ctx)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	list, err := readAttempts(x.corpus.reader(ctx), ids)
	if err != nil {
		return 0, err
	}
	batch := x.bleve.NewBatch()
	for _, doc := range x.documents(list) {
		if err := batch.IndexAdvanced(doc); err != nil {
			return 0, err
		}
	}
	batch.SetInternal(revKey, binary.BigEndian.AppendUint64(nil, uint64(rev)))
	if err := x.bleve.Batch(batch); err != nil {
		return 0, full(err)
	}
	x.done.Store(rev)
	x.lag()
	return len(ids), nil
}

const changedAttempts = "SELECT id, rev FROM attempt WHERE rev > ? ORDER BY rev LIMIT ?"

// next returns the attempts that changed first after what is indexed, and the rev of the last of them.
func (x *index) next(ctx context.Context) (ids []int64, rev int64, err error) {
	rows, err := x.corpus.read.QueryContext(ctx, changedAttempts, x.done.Load(), indexBatch)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id, &rev); err != nil {
			return nil, 0, err
		}
		ids = append(ids, id)
	}
	return ids, rev, rows.Err()
}

// documents reads the logs of attempts, on all cores, and returns what is indexed of each.
func (x *index) documents(list []Attempt) []*document.Document {
	docs := make([]*document.Document, len(list))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range list {
		g.Go(func() error {
			lines, err := x.corpus.salient(&list[i], list[i].Logs)
			if err != nil {
				x.corpus.log.Warn("indexed without a log", "attempt", list[i].ID, "err", err)
			}
			docs[i] = newDocument(&list[i], lines)
			return nil
		})
	}
	_ = g.Wait() // nothing there fails
	return docs
}

// newDocument returns what is indexed of an attempt. Nothing is stored: the logs are there.
func newDocument(a *Attempt, lines []textLine) *document.Document {
	id := idTerm(a.ID)
	doc := document.NewDocument(string(id))
	doc.AddField(document.NewTextFieldCustom(idField, nil, id, bleveindex.IndexField|bleveindex.DocValues|bleveindex.SkipFreqNorm, exactAnalyzer{}))
	for _, f := range searchFields {
		for i, value := range fieldValues(a, f) {
			if value == "" {
				continue
			}
			doc.AddField(document.NewTextFieldCustom(f, []uint64{uint64(i)}, []byte(value), bleveindex.IndexField|bleveindex.SkipFreqNorm, exactAnalyzer{}))
		}
	}
	if len(lines) > 0 || a.Verdict.Summary != "" {
		text := append([]byte(a.Verdict.Summary), '\n') // says "Xid 79" where the kernel's line has an address between
		for _, l := range lines {
			text = append(append(text, l.text...), '\n')
		}
		doc.AddField(document.NewTextFieldCustom(textField, nil, text, bleveindex.IndexField|bleveindex.IncludeTermVectors, wordsAnalyzer{}))
	}
	doc.AddIDField()
	return doc
}

// idTerm returns an id in the form in which it is a term and the name of the document.
func idTerm(id int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }

// fieldValues returns the values of a field of searchFields.
func fieldValues(a *Attempt, field string) []string {
	switch field {
	case "category":
		return []string{a.Verdict.Category}
	case "fault":
		return []string{string(a.Verdict.Fault)}
	case "retry":
		return []string{string(a.Verdict.Retry)}
	case "rule":
		return []string{a.Verdict.Rule}
	case "fingerprint":
		return []string{a.Verdict.Fingerprint}
	case "user":
		return []string{a.User}
	case "vc":
		return []string{a.VC}
	case "node":
		return a.Nodes
	case "job":
		return []string{a.Job}
	case "cluster":
		return []string{a.Cluster}
	case "gpu_type":
		return []string{a.GPUType}
	}
	panic("no field " + field)
}

// Reindex drops the index and builds it again from what is kept, and returns when it is done. progress, which may be
// nil, is told from time to time how many attempts of how many are indexed. Searches meanwhile find what is indexed so far.
func (c *Corpus) Reindex(ctx context.Context, progress func(done, total int64)) error {
	if c.write == nil {
		return ErrReadOnly
	}
	if c.index == nil {
		return errNoIndex
	}
	if err := c.index.restart(); err != nil {
		return err
	}
	target := c.rev.Load()
	for {
		reached := c.index.done.Load() >= target
		done, total, err := c.index.progress(ctx, target)
		if err != nil {
			return err
		}
		if progress != nil {
			progress(done, total)
		}
		if reached {
			return nil
		}
		if text := c.index.failure.Load(); text != nil {
			return fmt.Errorf("indexing: %s", *text)
		}
		sleep(ctx, 100*time.Millisecond)
		if err := errors.Join(ctx.Err(), c.life.Err()); err != nil {
			return err
		}
	}
}

// restart puts an empty index in the place of the one in use.
func (x *index) restart() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.bleve != nil {
		if err := x.bleve.Close(); err != nil {
			x.corpus.log.Warn("closing the index that is dropped", "err", err)
		}
		x.bleve = nil
	}
	if err := x.create(); err != nil {
		return err
	}
	x.rebuilding.Store(true)
	x.failure.Store(nil)
	x.wake()
	return nil
}

// progress returns how many attempts are indexed, of those whose last change is not after target.
func (x *index) progress(ctx context.Context, target int64) (done, total int64, err error) {
	err = x.corpus.read.QueryRowContext(ctx, "SELECT count(*) FILTER (WHERE rev <= ?), count(*) FROM attempt WHERE rev <= ?",
		x.done.Load(), target).Scan(&done, &total)
	return done, total, err
}

// bytes returns the size of the index on disk.
func (x *index) bytes() int64 { return folderBytes(x.path) }

func folderBytes(path string) int64 {
	var total int64
	filepath.WalkDir(path, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // what is removed meanwhile counts nothing
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

var errNoIndex = errors.New("there is no text index: start the server or run `culprit reindex`, which build it")
