package corpus

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	_ "github.com/mattn/go-sqlite3"
)

// Corpus is an open folder of jobs, attempts, logs and verdicts. Its methods are safe for concurrent use.
type Corpus struct {
	dir    string
	log    *slog.Logger
	opened time.Time

	write  *sql.DB // one connection; nil when open for reading only
	read   *sql.DB
	lock   *os.File // held while this process may write
	codec  *codec
	facts  facts
	saving atomic.Bool // of the facts, in the background
	index  *index      // nil: without one

	queue    chan *addition  // to the goroutine that writes
	rev      atomic.Int64    // the newest that is committed
	life     context.Context // ends with Close: of what runs in the background
	end      context.CancelFunc
	once     sync.Once
	queueing sync.RWMutex // held for reading while something is begun that Close must wait for
	renames  sync.Mutex   // held while a log is renamed into place or swept
	workers  sync.WaitGroup
	pass     passControl // the pass over kept logs that is at work
}

// Options are what Open can be told. The zero value writes, indexes and logs nothing.
type Options struct {
	Log      *slog.Logger // nil: silent
	ReadOnly bool         // for reading beside a process that writes; the folder must exist. Search sees the index of this moment
	NoIndex  bool         // neither build nor ask the text index: Search is an error
	MaxLag   int          // changed attempts that the index may be behind before Add waits for it; 0 is 10,000
}

// Open opens the corpus in a folder and makes it where there is none. One process at a time can open it for writing;
// an error says so to the second. What a crash has left half-written is removed; an index that is missing, damaged or
// of another version is built in the background.
func Open(ctx context.Context, dir string, opt Options) (*Corpus, error) {
	c := &Corpus{dir: dir, log: opt.Log, opened: time.Now(), queue: make(chan *addition, 256)}
	c.life, c.end = context.WithCancel(context.Background())
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if err := c.open(ctx, opt); err != nil {
		c.Close()
		return nil, fmt.Errorf("corpus %s: %w", dir, err)
	}
	return c, nil
}

func (c *Corpus) open(ctx context.Context, opt Options) (err error) {
	if c.codec, err = newCodec(); err != nil {
		return err
	}
	if opt.ReadOnly {
		if err := c.openReadOnly(ctx); err != nil {
			return err
		}
	} else if err := c.openWriting(ctx); err != nil {
		return err
	}
	rev, err := newestRev(ctx, c.read)
	if err != nil {
		return err
	}
	c.rev.Store(rev)
	if c.write != nil {
		if err := c.dropNewerFacts(); err != nil {
			return err
		}
	}
	if !opt.NoIndex {
		if c.index, err = c.openIndex(ctx, opt); err != nil {
			return err
		}
	}
	if c.write == nil {
		return nil
	}
	conn, err := c.newWriteConn(ctx)
	if err != nil {
		return err
	}
	c.workers.Go(func() { c.writeLoop(conn) })
	c.workers.Go(c.sweepLogs)
	if !opt.NoIndex { // an import asks nothing, and would hold the facts of a million attempts for it
		c.workers.Go(c.readAhead)
	}
	return nil
}

// readAhead reads the facts before somebody waits for them.
func (c *Corpus) readAhead() {
	if f, err := c.current(c.life); err == nil {
		f.mu.RUnlock()
	} else if c.life.Err() == nil {
		c.log.Warn("could not read the facts ahead", "err", err)
	}
}

func (c *Corpus) openWriting(ctx context.Context) (err error) {
	if err := c.makeFolders(); err != nil {
		return full(err)
	}
	if c.lock, err = lockFolder(c.path("lock")); err != nil {
		return err
	}
	if c.write, err = c.openDatabase("_journal_mode=WAL&_synchronous=FULL&_foreign_keys=1&_busy_timeout=10000&_txlock=immediate&_cache_size=-65536"); err != nil {
		return err
	}
	c.write.SetMaxOpenConns(1)
	if err := migrate(ctx, c.write); err != nil {
		return full(err)
	}
	if c.read, err = c.openDatabase(readOptions); err != nil {
		return err
	}
	return emptyFolder(c.path("staging"))
}

const readOptions = "mode=ro&_query_only=1&_busy_timeout=10000&_cache_size=-16384"

func (c *Corpus) openReadOnly(ctx context.Context) (err error) {
	if _, err := os.Stat(c.path("corpus.db")); err != nil {
		return fmt.Errorf("there is no corpus: %w", err)
	}
	if c.read, err = c.openDatabase(readOptions); err != nil {
		return err
	}
	steps, err := migrations()
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, c.read, len(steps))
	if err == nil && have < len(steps) {
		err = fmt.Errorf("the database is of version %d, this program's is %d: start the server once to bring it up to date", have, len(steps))
	}
	return err
}

func (c *Corpus) openDatabase(options string) (*sql.DB, error) {
	name := &url.URL{Path: c.path("corpus.db")}
	db, err := sql.Open("sqlite3", "file:"+name.EscapedPath()+"?"+options)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db, nil
}

// Close ends what the corpus does in the background and closes it. Calls that are under way end with an error.
func (c *Corpus) Close() error {
	var err error
	c.once.Do(func() {
		c.queueing.Lock()
		c.end()
		c.queueing.Unlock()
		c.workers.Wait()
		if c.write != nil {
			c.saveFacts(saveAtClose)
		}
		if c.index != nil {
			err = errors.Join(err, c.index.close())
		}
		for _, db := range []*sql.DB{c.read, c.write} {
			if db != nil {
				err = errors.Join(err, db.Close())
			}
		}
		if c.codec != nil {
			c.codec.close()
		}
		if c.lock != nil {
			err = errors.Join(err, c.lock.Close())
		}
	})
	return err
}

// path returns a path below the corpus's folder.
func (c *Corpus) path(name string) string { return filepath.Join(c.dir, name) }

// makeFolders makes the folders where there are none, and makes their names durable.
func (c *Corpus) makeFolders() error {
	if _, err := os.Stat(c.path("logs")); err == nil {
		return os.MkdirAll(c.path("staging"), 0o750)
	}
	for _, name := range []string{"staging", "logs"} {
		if err := os.MkdirAll(c.path(name), 0o750); err != nil {
			return err
		}
	}
	_ = syncFolder(c.path("..")) // what is above may be somebody else's
	return syncFolder(c.dir)
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return full(d.Sync())
}

func emptyFolder(path string) error {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(path, e.Name())))
	}
	return err
}

// lockFolder takes the lock that one process can have. The kernel gives it back when the process ends, however it ends.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, full(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 20))
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another process (%s) has it open for writing: stop that one first, or read only", strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid()) // for people only: a full disk may leave it empty
	}
	return f, nil
}

// sweepLogs removes the logs that no attempt has: a crash between renaming a log and committing its row leaves one.
// Files that this process has written are never looked at.
func (c *Corpus) sweepLogs() {
	folders, err := os.ReadDir(c.path("logs"))
	for _, f := range folders {
		if err == nil {
			err = c.sweepFolder(c.life, c.path("logs/"+f.Name()))
		}
	}
	if err != nil && c.life.Err() == nil {
		c.log.Warn("could not sweep logs", "err", err)
	}
}

func (c *Corpus) sweepFolder(ctx context.Context, folder string) error {
	first, err := hex.DecodeString(filepath.Base(folder))
	if err != nil || len(first) != 1 {
		return nil // not ours
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	kept, err := queryStrings(ctx, c.read, `SELECT lower(hex(digest)) || '.zst' FROM log WHERE digest >= ? AND digest <= ?`,
		first, append(first, bytes.Repeat([]byte{0xff}, 32)...))
	if err != nil {
		return err
	}
	has := make(map[string]bool, len(kept))
	for _, name := range kept {
		has[name] = true
	}
	for _, e := range entries {
		if has[e.Name()] {
			continue
		}
		if err := c.sweepLog(folder, e); err != nil {
			return err
		}
	}
	return nil
}

// sweepLog removes a file that has no row, unless it has been written since Open: its row is about to come. A file of
// the same content that Add renames in meanwhile is as new, and the lock keeps it from coming between look and removal.
func (c *Corpus) sweepLog(folder string, e fs.DirEntry) error {
	c.renames.Lock()
	defer c.renames.Unlock()
	info, err := os.Stat(filepath.Join(folder, e.Name()))
	if err != nil || info.ModTime().After(c.opened.Add(-time.Second)) {
		return nil
	}
	c.log.Info("removed a log that no attempt has", "log", e.Name())
	return os.Remove(filepath.Join(folder, e.Name()))
}

// newestRev returns the rev of the last change.
func newestRev(ctx context.Context, db *sql.DB) (rev int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(rev), 0) FROM attempt").Scan(&rev)
	return rev, err
}

func queryStrings(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}
