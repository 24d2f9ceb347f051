package classifier_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"culprit/classifier"
	"culprit/rules"
)

var update = flag.Bool("update", false, "rewrite the wanted verdicts and accuracy.txt")

// builtin is the classifier with the built-in rules.
var builtin = sync.OnceValues(func() (*classifier.Classifier, error) {
	set, err := rules.Default()
	if err != nil {
		return nil, err
	}
	return classifier.New(set), nil
})

func newBuiltin(t testing.TB) *classifier.Classifier {
	t.Helper()
	c, err := builtin()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// story is a golden log: a sentence, the logs, how the attempt ended, and what an expert says of it.
type story struct {
	name   string
	logs   []txtar.File // the one named log, or several, one a rank
	exit   storyExit
	wanted wanted
}

type storyExit struct {
	Code   *int   `yaml:"exit_code,omitempty"`
	Signal int    `yaml:"signal,omitempty"`
	State  string `yaml:"state,omitempty"`
	Reason string `yaml:"reason,omitempty"`
}

// wanted is the part of a verdict that a story fixes. What is left out is not compared.
type wanted struct {
	Category string      `yaml:"category"`
	Accept   []string    `yaml:"accept,omitempty"` // as right, by an expert who argues
	Fault    rules.Fault `yaml:"fault"`
	Retry    rules.Retry `yaml:"retry"`
	Root     int64       `yaml:"root,omitempty"` // line of the root cause; 0: no line
	RootAlso []int64     `yaml:"root_also,omitempty"`
	File     string      `yaml:"file,omitempty"`
	Rank     string      `yaml:"rank,omitempty"`
	Node     string      `yaml:"node,omitempty"`
	Others   *int        `yaml:"others,omitempty"` // how many independent causes are named beside
	Never    []string    `yaml:"never,omitempty"`  // rules that may not stand in the verdict
	Miss     string      `yaml:"miss,omitempty"`   // why the verdict is known to be wrong: it counts as wrong, and is no error
}

func readStories(t testing.TB) []story {
	t.Helper()
	files, err := filepath.Glob("testdata/stories/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var stories []story
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := story{name: strings.TrimSuffix(filepath.Base(file), ".txtar")}
		for _, f := range ar.Files {
			switch f.Name {
			case "verdict":
				err = strictYAML(f.Data, &s.wanted)
			case "exit":
				err = strictYAML(f.Data, &s.exit)
			default:
				s.logs = append(s.logs, f)
			}
			if err != nil {
				t.Fatalf("%s: %s: %v", file, f.Name, err)
			}
		}
		if len(s.logs) == 0 || s.wanted.Category == "" || len(bytes.TrimSpace(ar.Comment)) == 0 {
			t.Fatalf("%s: a story needs a sentence, a log and a verdict", file)
		}
		stories = append(stories, s)
	}
	return stories
}

func strictYAML(data []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	return d.Decode(into)
}

func (s story) classify(t testing.TB, c *classifier.Classifier, dress func([]byte) []byte) classifier.Verdict {
	t.Helper()
	exit := classifier.Exit{Code: s.exit.Code, Signal: s.exit.Signal, State: s.exit.State, Reason: s.exit.Reason}
	v, err := c.Classify(context.Background(), exit, s.streams(dress))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (s story) streams(dress func([]byte) []byte) iter.Seq2[classifier.Log, error] {
	return func(yield func(classifier.Log, error) bool) {
		for _, f := range s.logs {
			// A carriage return stands as ␍ in a story and an escape as ␛, so that editors leave them alone.
			data := bytes.ReplaceAll(bytes.ReplaceAll(f.Data, []byte("␍"), []byte("\r")), []byte("␛"), []byte("\x1b"))
			if dress != nil {
				data = dress(data)
			}
			if !yield(classifier.Log{Name: f.Name, Reader: bytes.NewReader(data)}, nil) {
				return
			}
		}
	}
}

// differences says how a verdict differs from the wanted one, by field.
func (w wanted) differences(v classifier.Verdict) []string {
	var d []string
	add := func(field string, got, want any) { d = append(d, fmt.Sprintf("%s: got %v, want %v", field, got, want)) }
	if v.Category != w.Category && !slices.Contains(w.Accept, v.Category) {
		add("category", v.Category, w.Category)
	}
	if v.Fault != w.Fault && v.Category == w.Category {
		add("fault", v.Fault, w.Fault)
	}
	if v.Retry != w.Retry && v.Category == w.Category {
		add("retry", v.Retry, w.Retry)
	}
	root := classifier.Evidence{}
	if v.Root != nil {
		root = *v.Root
	}
	if root.Line != w.Root && !slices.Contains(w.RootAlso, root.Line) {
		add("root", fmt.Sprintf("%d %q (%s)", root.Line, root.Text, root.Rule), w.Root)
	}
	if w.File != "" && root.File != w.File {
		add("file", root.File, w.File)
	}
	if w.Rank != "" && root.Rank != w.Rank {
		add("rank", root.Rank, w.Rank)
	}
	if w.Node != "" && root.Node != w.Node {
		add("node", root.Node, w.Node)
	}
	if w.Others != nil && len(v.Others) != *w.Others {
		add("others", len(v.Others), *w.Others)
	}
	for _, id := range w.Never {
		if v.Rule == id || slices.ContainsFunc(slices.Concat(v.Cascade, v.Others), func(e classifier.Evidence) bool { return e.Rule == id }) {
			add("rule", id, "not to match")
		}
	}
	return d
}

func TestStories(t *testing.T) {
	c := newBuiltin(t)
	stories := readStories(t)
	right := 0
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			v := s.classify(t, c, nil)
			d := s.wanted.differences(v)
			if s.wanted.Miss != "" {
				if len(d) == 0 {
					t.Errorf("%s is right now: take its miss out", s.name)
				}
				return
			}
			if len(d) > 0 {
				t.Errorf("verdict on %s:\n  %s\nsummary: %s", s.name, strings.Join(d, "\n  "), v.Summary)
				return
			}
			right++
		})
	}
	line := fmt.Sprintf("stories %d, right %d\n", len(stories), right)
	compareAccuracy(t, line)
}

// compareAccuracy holds the score over the stories against testdata/accuracy.txt.
func compareAccuracy(t *testing.T, got string) {
	t.Helper()
	const file = "testdata/accuracy.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); go test ./classifier -run TestStories -update rewrites it:\n%s", file, diff)
	}
}
