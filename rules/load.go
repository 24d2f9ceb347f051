package rules

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

const (
	maxPackBytes = 4 << 20 // of a file of rules or cases
	maxProblems  = 1000    // after so many, the rest of a file is not looked at
)

// Error is a mistake in a pack or its cases. Errors of Load and LoadCases are joined; errors.As finds the first.
type Error struct {
	File string
	Line int    // from 1; 0 where the whole file is meant
	Rule string // id; empty where the mistake belongs to no rule
	Err  error
}

// Error is `packs/nccl.yaml:41: nccl-watchdog-timeout: unknown category "nccl"`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Rule != "" {
		b.WriteString(": " + e.Rule)
	}
	return b.String() + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

//go:embed packs/*.yaml
var embedded embed.FS

// proved is the digest of the built-in packs for which a test has proved the literals and compiled the patterns. Packs
// with that digest are not proved again, and their patterns are compiled when they are first needed: a start takes a
// fifth of the time. Packs of any other digest, and those of a user, go the long way.
//
//go:embed proved.txt
var proved string

// packsDigest is the SHA-256 of the files of the built-in packs, in hexadecimal.
func packsDigest(fsys fs.FS) string {
	h := sha256.New()
	files, err := yamlFiles(fsys, "packs")
	for _, file := range files {
		if isCaseFile(file) {
			continue
		}
		data, readErr := fs.ReadFile(fsys, file)
		err = errors.Join(err, readErr)
		fmt.Fprintf(h, "%s %d\n%s", file, len(data), data)
	}
	if err != nil {
		return "" // equals no digest: loading tells the error
	}
	return hex.EncodeToString(h.Sum(nil))
}

var (
	defaultSet = sync.OnceValues(func() (*Set, error) {
		return load(embedded, "packs", packsDigest(embedded) == strings.TrimSpace(proved))
	})
	defaultCases = sync.OnceValues(func() (Cases, error) { return loadCases(embedded, "packs") })
)

// Default is the set of the built-in packs, loaded once.
func Default() (*Set, error) { return defaultSet() }

// DefaultCases are the cases of the built-in packs, loaded once.
func DefaultCases() (Cases, error) { return defaultCases() }

// Load reads the packs in the root of fsys: *.yaml without *_test.yaml. It either returns a set that is sound in every
// rule, or all mistakes of all files, joined, each an *Error.
func Load(fsys fs.FS) (*Set, error) { return load(fsys, ".", false) }

// load reads the packs in dir; trusted ones have been loaded and proved before.
func load(fsys fs.FS, dir string, trusted bool) (*Set, error) {
	t, err := defaultTaxonomy()
	if err != nil {
		return nil, err
	}
	files, err := yamlFiles(fsys, dir)
	if err != nil {
		return nil, err
	}
	l := loader{taxonomy: t, trusted: trusted, byID: make(map[string]*Rule), byBlock: make(map[string]*Rule)}
	packs := 0
	for _, file := range files {
		if !isCaseFile(file) {
			l.pack(fsys, file)
			packs++
		}
	}
	if packs == 0 {
		return nil, fmt.Errorf("no rule packs (*.yaml) in %s", dir)
	}
	if err := l.problems.join(); err != nil {
		return nil, err
	}
	return newSet(t, l.rules), nil
}

func isCaseFile(file string) bool { return strings.HasSuffix(file, "_test.yaml") }

// yamlFiles lists dir's own *.yaml files by name.
func yamlFiles(fsys fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("read rule packs: %w", err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".yaml") {
			files = append(files, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

// readFile reads a file of at most maxPackBytes.
func readFile(fsys fs.FS, file string) ([]byte, error) {
	f, err := fsys.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPackBytes+1))
	if err == nil && len(data) > maxPackBytes {
		err = fmt.Errorf("larger than %d MiB", maxPackBytes>>20)
	}
	return data, err
}

// problems collects mistakes.
type problems []*Error

func (p *problems) add(file string, line int, rule string, err error) {
	*p = append(*p, &Error{File: file, Line: line, Rule: rule, Err: err})
}

// tooMany says so, once for a file, when the rest of it is not worth reading.
func (p *problems) tooMany(file string, line int) bool {
	if len(*p) < maxProblems {
		return false
	}
	p.add(file, line, "", errors.New("too many mistakes: from here on the file was not read"))
	return true
}

// join orders them by file and line.
func (p problems) join() error {
	slices.SortStableFunc(p, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	errs := make([]error, len(p))
	for i, e := range p {
		errs[i] = e
	}
	return errors.Join(errs...)
}
