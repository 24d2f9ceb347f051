package corpus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// maxBatch is how many requests share a transaction at most.
const maxBatch = 256

// addition is a request to the goroutine that writes: do, in a transaction that it may share with others.
type addition struct {
	ctx  context.Context
	do   func(*batch) error
	err  error
	done chan struct{}
}

// batch is a transaction under way on the only connection that writes, and what must happen to files before its end.
type batch struct {
	conn    *writeConn
	rev     int64               // the last one given out
	folders map[string]struct{} // whose names must be durable before the commit
}

// nextRev returns the rev of a change.
func (b *batch) nextRev() int64 {
	b.rev++
	return b.rev
}

// commit has do run by the goroutine that writes and returns when its changes are durable. If do fails its changes are
// undone, and those of requests in the same transaction are not.
func (c *Corpus) commit(ctx context.Context, do func(*batch) error) error {
	a := &addition{ctx: ctx, do: do, done: make(chan struct{})}
	if err := c.enqueue(a); err != nil {
		return err
	}
	<-a.done // not given up for ctx: files of the request may be on their way
	return a.err
}

func (c *Corpus) enqueue(a *addition) error {
	if c.write == nil {
		return ErrReadOnly
	}
	c.queueing.RLock() // Close waits for it, so that everything queued is answered
	defer c.queueing.RUnlock()
	if c.life.Err() != nil {
		return errClosed
	}
	select {
	case c.queue <- a:
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

var errClosed = errors.New("the corpus is closed")

// writeLoop commits requests until Close; those that wait together share a transaction.
func (c *Corpus) writeLoop(conn *writeConn) {
	defer conn.close()
	for {
		select {
		case a := <-c.queue:
			c.commitBatch(conn, c.gather(a))
		case <-c.life.Done():
			for _, a := range c.gather(nil) {
				a.err = errClosed
				close(a.done)
			}
			return
		}
	}
}

// gather takes what else waits, after first up to maxBatch.
func (c *Corpus) gather(first *addition) []*addition {
	var list []*addition
	if first != nil {
		list = append(list, first)
	}
	for first == nil || len(list) < maxBatch {
		select {
		case a := <-c.queue:
			list = append(list, a)
		default:
			return list
		}
	}
	return list
}

// commitBatch runs requests in one transaction and answers them.
func (c *Corpus) commitBatch(conn *writeConn, list []*addition) {
	b := &batch{conn: conn, rev: c.rev.Load(), folders: map[string]struct{}{}}
	err := c.runBatch(b, list)
	if err == nil {
		c.rev.Store(b.rev)
	}
	for _, a := range list {
		if a.err == nil {
			a.err = err
		}
		close(a.done)
	}
	if err == nil && c.index != nil {
		c.index.wake()
	}
}

func (c *Corpus) runBatch(b *batch, list []*addition) (err error) {
	if _, err := b.exec("BEGIN IMMEDIATE"); err != nil {
		return noSpace(err)
	}
	defer func() {
		if err != nil {
			b.exec("ROLLBACK") // fails where SQLite has done so itself, as it does on a full disk
		}
	}()
	for _, a := range list {
		if a.err = a.ctx.Err(); a.err != nil {
			continue
		}
		if err := b.run(a); err != nil {
			return noSpace(err)
		}
	}
	for folder := range b.folders {
		if err := syncFolder(folder); err != nil {
			return err
		}
	}
	_, err = b.exec("COMMIT")
	return noSpace(err)
}

// run runs one request under a savepoint. Its own error is in a.err; the one returned ends the whole transaction.
func (b *batch) run(a *addition) error {
	if _, err := b.exec("SAVEPOINT request"); err != nil {
		return err
	}
	rev := b.rev
	if a.err = noSpace(a.do(b)); a.err != nil {
		b.rev = rev
		if _, err := b.exec("ROLLBACK TO request"); err != nil {
			return errors.Join(a.err, err)
		}
	}
	_, err := b.exec("RELEASE request")
	return err
}

// noSpace makes SQLite's ways to say that the disk is full an ErrFull too.
func noSpace(err error) error {
	var e sqlite3.Error
	if errors.As(err, &e) && !errors.Is(err, ErrFull) &&
		(e.Code == sqlite3.ErrFull || e.SystemErrno == syscall.ENOSPC || e.SystemErrno == syscall.EDQUOT) {
		return errors.Join(ErrFull, err)
	}
	return full(err)
}

// writeConn is the only connection that writes, with its statements prepared.
type writeConn struct {
	*sql.Conn
	prepared map[string]*sql.Stmt
}

func (c *Corpus) newWriteConn(ctx context.Context) (*writeConn, error) {
	conn, err := c.write.Conn(ctx)
	return &writeConn{conn, map[string]*sql.Stmt{}}, err
}

func (w *writeConn) close() {
	for _, stmt := range w.prepared {
		stmt.Close()
	}
	w.Conn.Close()
}

func (b *batch) stmt(query string) (*sql.Stmt, error) {
	s := b.conn.prepared[query]
	if s == nil {
		var err error
		if s, err = b.conn.PrepareContext(context.Background(), query); err != nil {
			return nil, err
		}
		b.conn.prepared[query] = s
	}
	return s, nil
}

func (b *batch) exec(query string, args ...any) (sql.Result, error) {
	s, err := b.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.Exec(args...)
}

// row reads one row; it returns false where there is none.
func (b *batch) row(query string, args []any, dest ...any) (bool, error) {
	s, err := b.stmt(query)
	if err != nil {
		return false, err
	}
	err = s.QueryRow(args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// place renames a staged log to where logs are kept. That its content is there already changes nothing: the new file
// replaces it, which mends one that was damaged.
func (c *Corpus) place(b *batch, f stagedFile) error {
	c.renames.Lock()
	defer c.renames.Unlock()
	path := c.logPath(f.Digest)
	folder := filepath.Dir(path)
	err := os.Rename(f.path, path)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.Mkdir(folder, 0o750); err == nil {
			b.folders[filepath.Dir(folder)] = struct{}{}
			err = os.Rename(f.path, path)
		}
	}
	if err != nil {
		return fmt.Errorf("keeping log %q: %w", f.Name, full(err))
	}
	b.folders[folder] = struct{}{}
	return nil
}
