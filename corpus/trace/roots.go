package trace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Roots are the folders below which logs may be read that a record names. Whoever submits a job chooses that name, so
// nothing outside is opened, neither by .. nor by a symbolic link, and nothing but a file of the job's own user.
type Roots struct{ roots []*os.Root }

// ErrOutside says that a path is not below a root.
var ErrOutside = errors.New("not below a folder that logs may be read from")

// ErrNotOwner says that a file is not that of the user who ran the job.
var ErrNotOwner = errors.New("the file is another user's than who ran the job")

// OpenRoots opens the folders. No folders make Roots below which nothing is.
func OpenRoots(folders []string) (*Roots, error) {
	r := &Roots{}
	for _, f := range folders {
		if !filepath.IsAbs(f) {
			return nil, errors.Join(fmt.Errorf("%s: a folder that logs may be read from must be named from / on", f), r.Close())
		}
		root, err := os.OpenRoot(filepath.Clean(f))
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.roots = append(r.roots, root)
	}
	return r, nil
}

// Close closes the folders; what is open below them stays open.
func (r *Roots) Close() error {
	var errs []error
	for _, root := range r.roots {
		errs = append(errs, root.Close())
	}
	return errors.Join(errs...)
}

// Empty says that there are none, so that nothing can be read.
func (r *Roots) Empty() bool { return r == nil || len(r.roots) == 0 }

// Open opens a regular file by its absolute path. owner, where not negative, must own it. ErrOutside where no root is
// above it; fs.ErrNotExist where there is no such file.
func (r *Roots) Open(path string, owner int) (*os.File, error) {
	if r.Empty() || !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s: %w", path, ErrOutside)
	}
	path = filepath.Clean(path)
	for _, root := range r.roots {
		rel, err := filepath.Rel(root.Name(), path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		// A pipe or a device would block or worse.
		f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: %w", err, ErrOutside)
		}
		if err := checkFile(f, owner); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return f, nil
	}
	return nil, fmt.Errorf("%s: %w", path, ErrOutside)
}

func checkFile(f *os.File, owner int) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && owner >= 0 && int(stat.Uid) != owner {
		return ErrNotOwner
	}
	return nil
}
