package rules

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	packOne = `
- {id: one, category: gpu-oom, literals: [shared text], summary: one, advice: a, source: s}
- {id: two, category: gpu-oom, ignore_case: true, literals: [Shared Text, other text], summary: two, advice: a, source: s}
`
	packTwo = `
- {id: three, category: cpu-oom, fault: unknown, retry: once, literals: [shared text], summary: three, advice: a, source: s}
- {id: trace, category: traceback, block: python-traceback, summary: "{type}", advice: a, source: s}
`
)

func loadTexts(t *testing.T, packs map[string]string) *Set {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range packs {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	set, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestSet(t *testing.T) {
	set := loadTexts(t, map[string]string{"b.yaml": packTwo, "a.yaml": packOne, "a_test.yaml": "not a pack", "c.txt": "neither"})
	var ids []string
	for _, r := range set.Rules() {
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{"one", "two", "three", "trace"}, ids); diff != "" {
		t.Errorf("rules in load order (-want +got):\n%s", diff)
	}
	want := []Gate{
		{"shared text", false, []int{0, 2}},
		{"shared text", true, []int{1}},
		{"other text", true, []int{1}},
	}
	if diff := cmp.Diff(want, set.Gates()); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	r, _ := set.Rule("three")
	if r.Fault != FaultUnknown || r.Retry != RetryOnce || r.Category.ID != "cpu-oom" || r.Role != Cause {
		t.Errorf("three: got %s %s %s %s, want its own fault and retry", r.Category.ID, r.Fault, r.Retry, r.Role)
	}
	if r, ok := set.BlockRule("python-traceback"); !ok || r.ID != "trace" || r.Fault != FaultUser {
		t.Errorf("python-traceback: got %v, want trace with the category's fault", r)
	}
	if r, ok := set.BlockRule("mpi-abort"); ok {
		t.Errorf("mpi-abort: got %v, want none", r.ID)
	}
}

func TestVersion(t *testing.T) {
	base := loadTexts(t, map[string]string{"a.yaml": packOne, "b.yaml": packTwo}).Version()
	if len(base) != 12 || strings.Trim(base, "0123456789abcdef") != "" {
		t.Errorf("version %q, want 12 hex digits", base)
	}
	for _, same := range []map[string]string{
		{"a.yaml": packOne, "b.yaml": packTwo, "a_test.yaml": "one: {}"},
		{"x.yaml": packOne + "# a comment\n" + packTwo},
		{"a.yaml": strings.ReplaceAll(packOne, "source: s", "source: elsewhere"), "b.yaml": packTwo},
	} {
		if got := loadTexts(t, same).Version(); got != base {
			t.Errorf("version %s of %v, want %s as before", got, same, base)
		}
	}
	for _, change := range [][2]string{
		{"advice: a", "advice: b"}, {"summary: one", "summary: uno"}, {"gpu-oom, literals", "gpu-oom, role: fact, literals"},
		{"[shared text]", "[shared texts]"}, {"ignore_case: true", "generic: true"}, {"id: one", "id: uno"},
		{"gpu-oom, literals", "gpu-oom, retry: once, literals"}, {"[shared text]", "[shared text], pattern: 'shared text\\b'"},
	} {
		changed := strings.Replace(packOne, change[0], change[1], 1)
		if got := loadTexts(t, map[string]string{"a.yaml": changed, "b.yaml": packTwo}).Version(); got == base {
			t.Errorf("version stays %s when %q becomes %q", base, change[0], change[1])
		}
	}
	if got := loadTexts(t, map[string]string{"a.yaml": packTwo, "b.yaml": packOne}).Version(); got == base {
		t.Errorf("version stays %s when the order changes", base)
	}
}

func TestLoadWithoutPacks(t *testing.T) {
	set, err := Load(fstest.MapFS{"x_test.yaml": {}, "sub/pack.yaml": {Data: []byte(packOne)}})
	if err == nil || !strings.Contains(err.Error(), "no rule packs") {
		t.Errorf("Load = %v, %v, want an error that says that there are no packs", set, err)
	}
}

func TestLoadHugeFile(t *testing.T) {
	_, err := Load(fstest.MapFS{"a.yaml": {Data: []byte(strings.Repeat("# comment\n", 500_000))}})
	if want := "a.yaml: larger than 4 MiB"; err == nil || err.Error() != want {
		t.Errorf("Load = %v, want %q", err, want)
	}
}

func TestLoadManyMistakes(t *testing.T) {
	_, err := Load(fstest.MapFS{"a.yaml": {Data: []byte(strings.Repeat("- {}\n", 800_000))}})
	if err == nil {
		t.Fatal("Load took a pack of empty rules")
	}
	lines := strings.Split(err.Error(), "\n")
	if n := len(lines); n > maxProblems+20 || !strings.Contains(lines[n-1], "the file was not read") {
		t.Errorf("Load told %d mistakes, the last %q: want about %d and a word on the rest", n, lines[n-1], maxProblems)
	}
}

// A few hundred bytes that would be gigabytes, were aliases followed.
func TestLoadAliasBomb(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'z'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+",", 9) + "]\n"
	}
	_, err := Load(fstest.MapFS{"a.yaml": {Data: []byte(bomb)}})
	if err == nil || !strings.Contains(err.Error(), "a.yaml:2: aliases") {
		t.Errorf("Load = %v, want a.yaml:2 and a word on aliases", err)
	}
}

func TestTaxonomy(t *testing.T) {
	tax, err := defaultTaxonomy()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tax.Categories); n < 22 || tax.Categories[0].ID != "cpu-oom" || tax.Categories[0].Trials != 12076 {
		t.Errorf("%d categories, the first %+v: want the paper's 22 in its order, then later ones", n, tax.Categories[0])
	}
	if c := tax.Category("gpu-oom"); c == nil || c.Retry != RetryNever || c.Title != "GPU out of memory" {
		t.Errorf("gpu-oom: got %+v", c)
	}
	if c := tax.Category("no-such"); c != nil {
		t.Errorf("no-such: got %+v, want nil", c)
	}
}

func TestTaxonomyErrors(t *testing.T) {
	const rest = `
  - {id: no-signature, title: t, sources: [], fault: unknown, retry: once, means: m}
  - {id: traceback, title: t, sources: [U], fault: user, retry: once, means: m}`
	tests := []struct{ entry, want string }{
		{"{id: Bad Id, title: t, fault: user, retry: once, means: m}", "Bad Id: not a category id"},
		{"{id: none, title: t, fault: user, retry: once, means: m}", "none: not a category id"},
		{"{id: x, title: t, fault: nobody, retry: once, means: m}", `x: unknown fault "nobody"`},
		{"{id: x, title: t, fault: user, retry: soon, means: m}", `x: unknown retry "soon"`},
		{"{id: x, fault: user, retry: once, means: m}", "x: title and means are required"},
		{"{id: x, title: t, sources: [XX], fault: user, retry: once, means: m}", `x: unknown source "XX"`},
		{"{id: x, title: t, fault: user, retry: once, means: m, philly: y}", `x: philly names the unknown category "y"`},
		{"{id: traceback, title: t, fault: user, retry: once, means: m}", "traceback: listed twice"},
		{"{id: x, title: t, fault: user, retry: once, means: m, extra: 1}", "field extra not found"},
	}
	for _, test := range tests {
		_, err := parseTaxonomy([]byte("categories:\n  - " + test.entry + rest))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.entry, err, test.want)
		}
	}
	if _, err := parseTaxonomy([]byte("categories: []")); err == nil || !strings.Contains(err.Error(), "no-signature: missing") {
		t.Errorf("an empty taxonomy: got %v", err)
	}
}
