package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// spool is a folder of attempts that a server has not taken yet: a file each, named so that the oldest comes first,
// with the message as a line of JSON and its body behind it. Several runs may share it.
type spool struct{ dir string }

const (
	spooled      = ".attempt"
	maxSpool     = 1 << 30 // bytes; the oldest give way
	maxSpoolLine = 64 << 10
)

// add keeps a message. Nobody sees it half-written.
func (s spool) add(m message) (err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, "writing-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = json.NewEncoder(f).Encode(m)
	if err == nil && m.body != nil {
		_, err = io.Copy(f, m.body)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	name := time.Now().UTC().Format("20060102T150405.000000000") + "-" + rand.Text()[:8] + spooled
	if err := os.Rename(f.Name(), filepath.Join(s.dir, name)); err != nil {
		return err
	}
	return s.shrink()
}

// entries are the files of the spool, the oldest first.
func (s spool) entries() ([]string, error) {
	list, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range list {
		if strings.HasSuffix(e.Name(), spooled) {
			names = append(names, filepath.Join(s.dir, e.Name()))
		}
	}
	slices.Sort(names)
	return names, err
}

// shrink removes the oldest where the spool has grown too large.
func (s spool) shrink() error {
	names, err := s.entries()
	if err != nil {
		return err
	}
	var total int64
	for _, name := range slices.Backward(names) {
		info, err := os.Stat(name)
		if err != nil {
			continue // sent by another run
		}
		if total += info.Size(); total > maxSpool {
			err = os.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// send posts what is spooled, the oldest first, until ctx ends or the server is away. What the server refuses for good
// is removed and reported. A spool that another run is sending is left to it.
func (s spool) send(ctx context.Context, c client) (sent int, err error) {
	names, err := s.entries()
	if err != nil || len(names) == 0 {
		return 0, err
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return 0, nil
	}
	var refused []error
	for _, name := range names {
		err := s.sendOne(ctx, c, name)
		var final refusal
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.As(err, &final):
			refused = append(refused, fmt.Errorf("%s: dropped: %w", name, err))
		case err != nil:
			return sent, errors.Join(append(refused, err)...)
		default:
			sent++
		}
		if err := os.Remove(name); err != nil {
			return sent, errors.Join(append(refused, err)...)
		}
	}
	return sent, errors.Join(refused...)
}

func (s spool) sendOne(ctx context.Context, c client, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, maxSpoolLine)
	line, err := r.ReadSlice('\n')
	var m message
	if err != nil || json.Unmarshal(line, &m) != nil {
		return refusal{0, "not a spooled attempt"}
	}
	m.body = r
	var reply keptAttempt
	return c.post(ctx, "/api/v1/attempts", m, &reply)
}
