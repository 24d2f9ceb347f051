package classifier_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"culprit/classifier"
	"culprit/rules"
)

const fullPolicy = `# all there is
budgets: {never: 0, once: 2, elsewhere: 4, always: 6}
repeats: 4
backoff: {first: 1m, factor: 1.5, most: 1h}
mode: warn
enforce_never_above: 0.95
code_errors: [syntax-error]
exceptions:
  - {rule: torch-cuda-oom, vc: [debug, dev], mode: enforce, why: they are short of GPUs}
  - category: time-limit
    budget: 3
    repeats: 0
`

func TestLoadPolicy(t *testing.T) {
	got, err := classifier.LoadPolicy(strings.NewReader(fullPolicy), "policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := classifier.Policy{
		Budgets: map[rules.Retry]int{"never": 0, "once": 2, "elsewhere": 4, "always": 6}, Repeats: 4,
		Backoff: classifier.Backoff{First: time.Minute, Factor: 1.5, Most: time.Hour}, Mode: classifier.ModeWarn, EnforceNeverAbove: 0.95,
		CodeErrors: []string{"syntax-error"},
		Exceptions: []classifier.Exception{
			{Rules: []string{"torch-cuda-oom"}, VCs: []string{"debug", "dev"}, Mode: classifier.ModeEnforce, Why: "they are short of GPUs"},
			{Categories: []string{"time-limit"}, Budget: new(3), Repeats: new(0)},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, empty := range []string{"", "# nothing\n", "{}"} {
		got, err := classifier.LoadPolicy(strings.NewReader(empty), "policy.yaml")
		if diff := cmp.Diff(classifier.DefaultPolicy(), got); diff != "" || err != nil {
			t.Errorf("%q: %v (-default +got):\n%s", empty, err, diff)
		}
	}
	set, err := rules.Default()
	if err != nil {
		t.Fatal(err)
	}
	got.Exceptions[1].Rules = []string{"torch-cuda-oomph"}
	if diff := cmp.Diff([]string{"torch-cuda-oomph"}, got.UnknownRules(set)); diff != "" {
		t.Errorf("unknown rules (-want +got):\n%s", diff)
	}
}

func TestLoadPolicyMistakes(t *testing.T) {
	tests := []struct{ name, policy, want string }{
		{"not YAML", "mode: [shadow", "p.yaml:1: not YAML:"},
		{"a list", "- mode: shadow", "p.yaml:1: policy: fields are wanted here"},
		{"misspelt field", "repeats: 3\nmodes: shadow", `p.yaml:2: policy: unknown field "modes": known are backoff, budgets,`},
		{"twice", "mode: shadow\nmode: warn", "p.yaml:2: policy: mode is given twice"},
		{"mode", "mode: block", `p.yaml:1: mode: "block" is none of shadow, warn, enforce`},
		{"budget below 0", "budgets:\n  once: -1", `p.yaml:2: once: a whole number from 0 to 1000 is wanted, not "-1"`},
		{"budget of a class that is none", "budgets: {sometimes: 1}", `p.yaml:1: budgets: unknown field "sometimes": known are always, elsewhere, never, once`},
		{"repeats of 1", "repeats: 1", "p.yaml:1: repeats: 1 would stop every failure"},
		{"back-off", "backoff: {first: soon}", `p.yaml:1: first: a duration from 0s to 168h is wanted (30s, 5m), not "soon"`},
		{"factor", "backoff: {factor: 0.5}", "p.yaml:1: factor: a number from 1 to 100 is wanted"},
		{"confidence", "enforce_never_above: 0.2", "p.yaml:1: enforce_never_above: a number from 0.5 to 1 is wanted"},
		{"not a number", "enforce_never_above: .nan", "a number from 0.5 to 1"},
		{"category", "exceptions:\n  - budget: 1\n    category: [gpu-oom,\n      gpu-zoom]", `p.yaml:4: category: unknown category "gpu-zoom"`},
		{"exceptions as fields", "exceptions: {mode: warn}", "p.yaml:1: exceptions: a list is wanted here"},
		{"exception of nothing", "exceptions:\n  - {mode: warn}", "p.yaml:2: exception: says of nothing"},
		{"exception that changes nothing", "exceptions:\n  - {vc: debug}", "p.yaml:2: exception: changes nothing"},
		{"empty list", "exceptions:\n  - {vc: [], mode: warn}", "p.yaml:2: vc: the list is empty"},
		{"blank", "exceptions:\n  - {vc: , mode: warn}", "p.yaml:2: vc: text is wanted here"},
		{"alias", "code_errors: &c [syntax-error]\nexceptions: *c", "p.yaml:2: exceptions: aliases"},
		{"too long", strings.Repeat("#", 1<<20+1), "p.yaml: larger than"},
	}
	for _, tt := range tests {
		p, err := classifier.LoadPolicy(strings.NewReader(tt.policy), "p.yaml")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %.80q\n got %v\nwant %s", tt.name, tt.policy, err, tt.want)
		}
		if diff := cmp.Diff(classifier.Policy{}, p); diff != "" {
			t.Errorf("%s: a policy with mistakes is not the zero policy:\n%s", tt.name, diff)
		}
	}
	_, err := classifier.LoadPolicy(strings.NewReader("repeats: x\nmode: y"), "p.yaml")
	if n := strings.Count(err.Error(), "p.yaml:"); n != 2 {
		t.Errorf("two mistakes: %v", err)
	}
}

func FuzzLoadPolicy(f *testing.F) {
	f.Add(fullPolicy)
	f.Add("budgets: {once: 99999999999999999999}")
	f.Add("exceptions: [[{]]")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := classifier.LoadPolicy(strings.NewReader(text), "p.yaml")
		if err != nil && !strings.HasPrefix(err.Error(), "p.yaml:") {
			t.Errorf("%q: %v does not begin with the file", text, err)
		}
		d := classifier.Decide(p, classifier.Record{}, nil)
		if d.Verdict != classifier.AnswerRetry {
			t.Errorf("%q stops without a verdict", text)
		}
	})
}
