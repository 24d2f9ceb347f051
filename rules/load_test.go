package rules

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// eachArchive runs f over the archives of a folder. The YAML files of an archive are a folder of packs; the file want
// holds what they should give.
func eachArchive(t *testing.T, pattern string, f func(t *testing.T, packs fs.FS, want string)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no archives (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			packs, want := fstest.MapFS{}, ""
			for _, part := range a.Files {
				if part.Name == "want" {
					want = strings.TrimSpace(string(part.Data))
				} else {
					packs[part.Name] = &fstest.MapFile{Data: part.Data}
				}
			}
			f(t, packs, want)
		})
	}
}

// One mistake an archive: the message names file, line and rule.
func TestLoadErrors(t *testing.T) {
	eachArchive(t, "testdata/load/*.txtar", func(t *testing.T, packs fs.FS, want string) {
		set, err := Load(packs)
		if err == nil {
			t.Fatalf("loaded %d rules, want error:\n%s", len(set.Rules()), want)
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
		var e *Error
		if !errors.As(err, &e) || e.File == "" || e.Line == 0 {
			t.Errorf("error %v: no *Error with file and line in it", err)
		}
	})
}

func TestLoadCasesErrors(t *testing.T) {
	eachArchive(t, "testdata/cases/*.txtar", func(t *testing.T, packs fs.FS, want string) {
		_, err := LoadCases(packs)
		if err == nil {
			t.Fatalf("loaded, want error:\n%s", want)
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
	})
}

// The examples of README.md are a pack and its cases.
func TestReadmeExamples(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("README.md has %d yaml examples, want a rule and its cases", len(blocks))
	}
	packs := fstest.MapFS{"pack.yaml": {Data: blocks[0][1]}, "pack_test.yaml": {Data: blocks[1][1]}}
	set, err := Load(packs)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := LoadCases(packs)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Check(set, cases) {
		t.Errorf("%v", f)
	}
	for _, f := range Lint(set, cases) {
		t.Errorf("%v", f)
	}
}
