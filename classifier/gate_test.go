package classifier_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"culprit/classifier"
	"culprit/rules"
)

// decisionCase is a row of testdata/gate/decisions.yaml, which says how to read it.
type decisionCase struct {
	Story   string   `yaml:"story"`
	Policy  string   `yaml:"policy"`
	Earlier []string `yaml:"earlier"`
	Now     string   `yaml:"now"`
	Want    string   `yaml:"want"`
}

func TestDecide(t *testing.T) {
	data, err := os.ReadFile("testdata/gate/decisions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []decisionCase
	if err := yaml.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 80 {
		t.Errorf("%d rows, want at least 80", len(cases))
	}
	seen := map[string]bool{}
	for _, tt := range cases {
		if seen[tt.Story] || !strings.HasSuffix(tt.Story, ".") {
			t.Errorf("%q is told twice or is no sentence", tt.Story)
		}
		seen[tt.Story] = true
		policy, err := classifier.LoadPolicy(strings.NewReader(tt.Policy), "policy.yaml")
		if err != nil {
			t.Errorf("%s: %v", tt.Story, err)
			continue
		}
		var earlier []classifier.Record
		for _, text := range tt.Earlier {
			n := 1
			if times, rest, ok := strings.Cut(text, "x "); ok && len(times) < 3 {
				if i, err := strconv.Atoi(times); err == nil {
					n, text = i, rest
				}
			}
			for range n {
				earlier = append(earlier, readRecord(t, text))
			}
		}
		d := classifier.Decide(policy, readRecord(t, tt.Now), earlier)
		if got := shortDecision(d); got != tt.Want {
			t.Errorf("%s\n    policy: %s\n   earlier: %s\n       now: %s\n       got: %s\n      want: %s\n    reason: %s",
				tt.Story, tt.Policy, strings.Join(tt.Earlier, " | "), tt.Now, got, tt.Want, d.Reason)
		}
		checkDecision(t, tt.Story, d)
	}
}

// readRecord reads an attempt as the table writes it.
func readRecord(t *testing.T, text string) (r classifier.Record) {
	t.Helper()
	words := strings.Fields(text)
	if len(words) == 0 {
		return r
	}
	r.Verdict = classifier.Verdict{Category: words[0], Title: words[0], Fault: rules.FaultUser, Confidence: 0.96, Summary: "it failed with " + words[0],
		Root: &classifier.Evidence{Line: 7, Text: "E " + words[0]}}
	for _, word := range words[1:] {
		key, value, ok := strings.Cut(word, "=")
		n, _ := strconv.ParseInt(value, 10, 64) // texts read as 0
		switch v := &r.Verdict; key {
		case "sure":
			v.Confidence, _ = strconv.ParseFloat(value, 64)
		case "fault":
			v.Fault = rules.Fault(value)
		case "fp":
			v.Fingerprint = value
		case "step":
			v.Progress.Step = &n
		case "ckpt":
			v.Progress.CheckpointStep = &n
		case "rule":
			v.Rule = value
		case "vc":
			r.VC = value
		case "on":
			r.Nodes = strings.Split(value, ",")
		case "node":
			v.Root.Node = value
		case "also":
			v.Others = append(v.Others, classifier.Evidence{Line: 3, Text: "E " + value, Category: value})
		case "no":
			r.Number = int(n)
		case "advice":
			v.Retry = rules.Retry(value)
		default:
			if ok {
				t.Fatalf("%q: what is %s?", text, word)
			}
			v.Retry = rules.Retry(word)
		}
	}
	return r
}

// shortDecision writes a decision as the table does.
func shortDecision(d classifier.Decision) string {
	words := []string{string(d.Verdict)}
	if d.Would != d.Verdict {
		words = append(words, "would-"+string(d.Would))
	}
	if d.Undecided {
		words = append(words, "undecided")
	}
	words = append(words, string(d.Mode), string(d.Turn), fmt.Sprintf("%d/%d", d.Budget.Used, d.Budget.Max))
	if d.RetryAfter != 0 {
		words = append(words, fmt.Sprintf("wait=%d", d.RetryAfter))
	}
	if len(d.ExcludeNodes) > 0 {
		words = append(words, "without="+strings.Join(d.ExcludeNodes, ","))
	}
	return strings.Join(words, " ")
}

// checkDecision holds what is true of every decision.
func checkDecision(t *testing.T, name string, d classifier.Decision) {
	t.Helper()
	body, err := json.Marshal(d)
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s\n%s", name, fmt.Sprintf(format, args...), body)
	}
	switch {
	case err != nil:
		bad("%v", err)
	case d.Reason == "" || strings.Contains(d.Reason, "\n") || d.WouldChange == "":
		bad("a reason of one sentence and what would change it are wanted")
	case d.Verdict == classifier.AnswerStop && (d.Would != classifier.AnswerStop || d.Mode != classifier.ModeEnforce):
		bad("stopped, but not enforced")
	case d.Would == classifier.AnswerStop && d.Mode == classifier.ModeEnforce && d.Verdict != classifier.AnswerStop:
		bad("enforced, but not stopped")
	case (d.Turn == classifier.TurnNobody) != (d.Would == classifier.AnswerRetry):
		bad("the turn is nobody's exactly where a retry would do")
	case d.Would == classifier.AnswerStop && (d.RetryAfter != 0 || len(d.ExcludeNodes) > 0):
		bad("a stop that says how to retry")
	case d.RetryAfter < 0 || d.RetryAfter > 7*24*3600 || d.Budget.Used < 0 || d.Attempt < 1:
		bad("a number is out of its bounds")
	case d.Undecided && d.Would != classifier.AnswerRetry:
		bad("undecided, but it would stop")
	}
}

// TestDecideNeverStopsUndecided: nothing that leaves the gate without a ground leads to a stop, whatever the history and
// the policy.
func TestDecideNeverStopsUndecided(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 75))
	grounds := []string{"", "none never", "none always", "no-signature once fp=a", "no-signature never fp=a", "made-up never fp=a", "gpu-oom perhaps fp=a",
		"gpu-oom advice= fp=a", "gpu-oom never sure=0", "gpu-oom never sure=-1", "gpu-oom never sure=NaN"}
	for i := range 5000 {
		ground := grounds[rnd.IntN(len(grounds))]
		now := readRecord(t, ground)
		now.Number = rnd.IntN(4)
		d := classifier.Decide(randomPolicy(rnd), now, randomHistory(t, rnd))
		if d.Verdict != classifier.AnswerRetry || d.Would != classifier.AnswerRetry || !d.Undecided {
			t.Fatalf("case %d, %q: %s, %s", i, ground, shortDecision(d), d.Reason)
		}
	}
}

// TestDecideIsTotal: whatever the attempts are, the decision is sound, the same twice, and leaves its input alone.
func TestDecideIsTotal(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		policy, history := randomPolicy(rnd), randomHistory(t, rnd)
		var now classifier.Record
		if len(history) > 0 {
			now, history = history[len(history)-1], history[:len(history)-1]
		}
		before := fmt.Sprint(history)
		d := classifier.Decide(policy, now, history)
		checkDecision(t, fmt.Sprintf("case %d", i), d)
		if again := classifier.Decide(policy, now, history); shortDecision(again) != shortDecision(d) {
			t.Fatalf("case %d: %s, then %s", i, shortDecision(d), shortDecision(again))
		}
		if after := fmt.Sprint(history); after != before {
			t.Fatalf("case %d: the history changed", i)
		}
		if d := classifier.Decide(classifier.Policy{}, now, history); d.Verdict != classifier.AnswerRetry {
			t.Fatalf("case %d: the zero policy stops: %s", i, d.Reason)
		}
	}
}

func pick(rnd *rand.Rand, list ...string) string { return list[rnd.IntN(len(list))] }

func randomHistory(t *testing.T, rnd *rand.Rand) (list []classifier.Record) {
	for range rnd.IntN(8) {
		text := pick(rnd, "gpu-oom", "network-error", "core-dump", "node-failure", "none", "no-signature", "made-up") + " " +
			pick(rnd, "never", "once", "always", "elsewhere", "perhaps") + " fp=" + pick(rnd, "a", "b", "") + " rule=" + pick(rnd, "r", "s") +
			" fault=" + pick(rnd, "user", "infrastructure", "unknown", "") + " sure=" + pick(rnd, "0", "0.5", "0.96", "NaN", "7")
		if rnd.IntN(2) == 0 {
			text += " step=" + strconv.Itoa(rnd.IntN(50)-10)
		}
		if rnd.IntN(3) == 0 {
			text += " ckpt=" + strconv.Itoa(rnd.IntN(50)) + " also=" + pick(rnd, "import-error", "disk-full")
		}
		r := readRecord(t, text)
		r.Number = rnd.IntN(5) * rnd.IntN(2)
		r.Nodes = strings.Split(pick(rnd, "n1", "n1,n2", "n3"), ",")
		list = append(list, r)
	}
	return list
}

func randomPolicy(rnd *rand.Rand) classifier.Policy {
	p := classifier.DefaultPolicy()
	p.Repeats = rnd.IntN(4)
	p.Mode = classifier.Mode(pick(rnd, "", "shadow", "warn", "enforce"))
	p.Budgets[rules.RetryAlways] = rnd.IntN(3)
	if rnd.IntN(2) == 0 {
		p.Exceptions = []classifier.Exception{{VCs: []string{""}, Mode: classifier.ModeEnforce, Budget: new(rnd.IntN(2)), Repeats: new(cmp.Or(rnd.IntN(3), 2))}}
	}
	return p
}

func TestDecisionSaysWhy(t *testing.T) {
	tests := []struct {
		name            string
		now             classifier.Record
		earlier         int
		reason, changes string
	}{
		{"stop", readRecord(t, "gpu-oom never"), 0, "it failed with gpu-oom, which fails again until something is changed", "a change of the job"},
		{"used up", readRecord(t, "core-dump once step=400"), 1, "it failed with core-dump, and 1 of 1 retry is used up", "progress beyond step 400, or a budget of more than 1"},
		{"repeated", readRecord(t, "network-error always fp=a"), 2, "the same failure came 3 times without progress in between: it failed with network-error", "progress: a step or a checkpoint in the log, or another failure than this one"},
		{"elsewhere", readRecord(t, "gpu-hardware elsewhere on=n7"), 0, "it failed with gpu-hardware, so it is worth a retry without n7", "3 more failures of this kind without progress"},
		{"mixed", readRecord(t, "network-error always also=import-error"), 0, "beside the network-error the log has a code error that no retry repairs (import-error, line 3)", "a change of the code that removes the import-error"},
	}
	for _, tt := range tests {
		var earlier []classifier.Record
		for range tt.earlier {
			earlier = append(earlier, tt.now)
		}
		d := classifier.Decide(classifier.DefaultPolicy(), tt.now, earlier)
		if d.Reason != tt.reason || d.WouldChange != tt.changes {
			t.Errorf("%s:\n got %q, %q\nwant %q, %q", tt.name, d.Reason, d.WouldChange, tt.reason, tt.changes)
		}
		if len(d.Evidence) == 0 || d.Attempt != tt.earlier+1 {
			t.Errorf("%s: evidence %v, attempt %d", tt.name, d.Evidence, d.Attempt)
		}
	}
}

func TestReplay(t *testing.T) {
	read := func(texts ...string) (list []classifier.Record) {
		for i, text := range texts {
			r := readRecord(t, text)
			r.Number, r.GPUSeconds = i+1, 3600
			list = append(list, r)
		}
		return list
	}
	histories := [][]classifier.Record{
		read("gpu-oom never rule=oom", "gpu-oom never rule=oom", "gpu-oom never rule=oom"), // two retries in vain
		read("gpu-oom never rule=oom", "none never"),                                       // a false block
		read("core-dump once fp=a", "core-dump once fp=a", "core-dump once fp=a"),          // the second would stop the third
		read("network-error always fp=a", "none never"),                                    // nothing to stop
		read("none never"),
		read("gpu-oom never rule=oom", "none never", "gpu-oom never rule=oom", "gpu-oom never rule=oom"), // false, then in vain
	}
	got, err := classifier.DefaultPolicy().Replay(func(yield func([]classifier.Record, error) bool) {
		for _, h := range histories {
			if !yield(h, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(got)
	want := `{"jobs":6,"attempts":15,"failed":11,"rows":[` +
		`{"rule":"oom","category":"gpu-oom","mode":"enforce","stops":4,"blocked":5,"gpu_s":10800,"false_blocks":2},` +
		`{"category":"core-dump","mode":"shadow","stops":1,"blocked":1,"gpu_s":3600,"false_blocks":0}],` +
		`"total":{"stops":5,"blocked":6,"gpu_s":14400,"false_blocks":2},` +
		`"enforced":{"stops":4,"blocked":5,"gpu_s":10800,"false_blocks":2}}`
	if string(body) != want {
		t.Errorf("\n got %s\nwant %s", body, want)
	}
}
