package classifier

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"culprit/rules"
)

// Answer is what the gate says of another attempt.
type Answer string

// The answers.
const (
	AnswerRetry Answer = "retry"
	AnswerStop  Answer = "stop"
)

// Turn says who has to act before the job can go on.
type Turn string

// The turns.
const (
	TurnUser     Turn = "user"
	TurnOperator Turn = "operator"
	TurnNobody   Turn = "nobody"
)

// Record is what the gate knows of one attempt. The zero value is an attempt of which nothing is known.
type Record struct {
	Number     int      `json:"attempt,omitempty"` // from 1; 0 where unknown
	VC         string   `json:"vc,omitempty"`
	Nodes      []string `json:"nodes,omitempty"`
	GPUSeconds float64  `json:"gpu_s,omitempty"` // for Replay
	Verdict    Verdict  `json:"verdict"`         // the zero verdict where there is none
}

// Passed reports whether the attempt ended well.
func (r *Record) Passed() bool { return r.Verdict.Category == rules.CategoryNone }

// Budget is how many retries of this kind a job has had since it last made progress, and may have.
type Budget struct {
	Used int `json:"used"`
	Max  int `json:"max"`
}

// Decision is the gate's answer for an attempt that failed. Its JSON is a contract with every client: fields are added,
// never changed.
type Decision struct {
	Verdict      Answer      `json:"verdict"`   // what to do
	Would        Answer      `json:"would"`     // what it would be if everything were enforced
	Mode         Mode        `json:"mode"`      // of the failure at hand
	Undecided    bool        `json:"undecided"` // nothing to decide by: the answer is retry
	Reason       string      `json:"reason"`    // one sentence
	Turn         Turn        `json:"turn"`      // nobody where a retry would do
	WouldChange  string      `json:"would_change"`
	Domain       rules.Fault `json:"domain"`
	Category     string      `json:"category"`
	Rule         string      `json:"rule,omitempty"`
	Fingerprint  string      `json:"fingerprint,omitempty"`
	Retry        rules.Retry `json:"retry,omitempty"` // the verdict's advice
	Confidence   float64     `json:"confidence"`
	RulesVersion string      `json:"rules_version,omitempty"`
	Attempt      int         `json:"attempt"` // k: which attempt of the job failed
	Budget       Budget      `json:"budget"`
	RetryAfter   int         `json:"retry_after_s"`
	ExcludeNodes []string    `json:"exclude_nodes"` // suspects, where the retry should be elsewhere
	Evidence     []Evidence  `json:"evidence"`      // the lines that prove it, the decisive one first
}

// maxExcluded bounds the nodes of a decision: a job that failed on more has another problem than its nodes.
const maxExcluded = 16

// Decide says whether a failed attempt may run again, from its verdict, the job's earlier attempts and a policy.
//
// It stops where the verdict's advice has no budget left, where the same failure came too often without progress, and
// where the log has a code error beside its root cause. It never stops where it has nothing to decide by. The earlier
// attempts may come in any order where they are numbered; those that are not before now are left out.
func Decide(p Policy, now Record, earlier []Record) Decision {
	earlier = before(now, earlier)
	v := &now.Verdict
	d := Decision{Verdict: AnswerRetry, Would: AnswerRetry, Turn: TurnNobody, Domain: v.Fault, Category: v.Category, Rule: v.Rule,
		Fingerprint: v.Fingerprint, Retry: v.Retry, Confidence: v.Confidence, RulesVersion: v.RulesVersion,
		Attempt: max(now.Number, len(earlier)+1), ExcludeNodes: []string{}, Evidence: []Evidence{}}
	if math.IsNaN(d.Confidence) {
		d.Confidence = 0 // JSON has no NaN
	}
	if d.Domain == "" {
		d.Domain = rules.FaultUnknown
	}
	if v.Root != nil {
		d.Evidence = append(d.Evidence, *v.Root)
	}
	d.Mode = p.mode(&now)
	if why := undecidable(v); why != "" {
		d.Undecided, d.Mode = true, ModeShadow
		d.Reason = why + ", so nothing speaks against a retry"
		d.WouldChange = "a log, an exit code or a scheduler state that says why it failed"
		return d
	}
	p.weigh(&d, now, sinceProgress(now, earlier))
	if d.Would == AnswerStop {
		d.Turn = turnOf(v.Fault)
		if d.Mode == ModeEnforce {
			d.Verdict = AnswerStop
		}
	}
	return d
}

// weigh fills in the answer, its reason and what would change it.
func (p *Policy) weigh(d *Decision, now Record, streak []Record) {
	v := &now.Verdict
	d.Budget = p.budget(&now, streak)
	same := sameFailure(v.Fingerprint, streak)
	repeats := p.repeats(&now)
	further := furtherThan(now, streak)
	code := p.codeError(v)
	switch {
	case v.Retry == rules.RetryNever && d.Budget.Max == 0:
		d.stop(fmt.Sprintf("%s, which fails again until something is changed", clause(v)), changeOf(v))
	case code == v.Root && code != nil:
		d.stop(clause(v)+", which no retry repairs, whatever else the log shows", "a change of the code that removes the "+v.Category)
	case code != nil:
		d.Evidence = slices.Insert(d.Evidence, 0, *code)
		d.stop(fmt.Sprintf("beside the %s the log has a code error that no retry repairs (%s, line %d)", v.Category, code.Category, code.Line),
			"a change of the code that removes the "+code.Category)
	case repeats > 0 && same >= repeats:
		d.stop(fmt.Sprintf("the same failure came %d times without progress in between: %s", same, clause(v)), further+", or another failure than this one")
	case d.Budget.Used >= d.Budget.Max:
		d.stop(fmt.Sprintf("%s, and %d of %s used up", clause(v), d.Budget.Used, countOf(d.Budget.Max, "retry is", "retries are")), further+", or a budget of more than "+fmt.Sprint(d.Budget.Max))
	default:
		p.allow(d, now, streak)
	}
}

func (d *Decision) stop(reason, change string) {
	d.Would, d.Reason, d.WouldChange = AnswerStop, reason, change
}

// allow says how to run again: when, and where not.
func (p *Policy) allow(d *Decision, now Record, streak []Record) {
	v := &now.Verdict
	left := d.Budget.Max - d.Budget.Used
	d.WouldChange = fmt.Sprintf("%s without progress", countOf(left, "more failure of this kind", "more failures of this kind"))
	switch v.Retry {
	case rules.RetryElsewhere:
		d.ExcludeNodes = suspects(now, streak)
		d.Reason = clause(v) + ", so it is worth a retry on other nodes"
		if len(d.ExcludeNodes) > 0 {
			d.Reason = fmt.Sprintf("%s, so it is worth a retry without %s", clause(v), strings.Join(d.ExcludeNodes, ", "))
		}
	case rules.RetryAlways:
		d.RetryAfter = p.Backoff.seconds(d.Budget.Used)
		d.Reason = clause(v) + ", which is likely to pass"
	case rules.RetryOnce:
		d.Reason = clause(v) + ", and one retry tells whether that comes back"
	default:
		d.Reason = clause(v) + ", and the policy grants a retry all the same"
	}
}

// undecidable says why a verdict is nothing to decide by; "" where it is.
func undecidable(v *Verdict) string {
	taxonomy, err := rules.DefaultTaxonomy()
	switch {
	case v.Category == "":
		return "there is no verdict"
	case v.Category == rules.CategoryNone:
		return "the log shows no failure"
	case v.Category == rules.CategoryNoSignature:
		return "nothing says why it failed"
	case err != nil || taxonomy.Category(v.Category) == nil:
		return fmt.Sprintf("the category %.40q is not known here", v.Category)
	case !slices.Contains(retries, v.Retry):
		return "the verdict says nothing about a retry"
	case !(v.Confidence > 0):
		return "the verdict is not sure of anything"
	}
	return ""
}

var retries = []rules.Retry{rules.RetryNever, rules.RetryOnce, rules.RetryElsewhere, rules.RetryAlways}

// before is the attempts that came before now, in order.
func before(now Record, earlier []Record) []Record {
	earlier = slices.Clone(earlier)
	for _, r := range earlier {
		if r.Number <= 0 {
			return earlier
		}
	}
	slices.SortStableFunc(earlier, func(a, b Record) int { return compare(int64(a.Number), int64(b.Number)) })
	if now.Number > 0 {
		earlier = slices.DeleteFunc(earlier, func(r Record) bool { return r.Number >= now.Number })
	}
	return earlier
}

// sinceProgress is the failed attempts since the job last got further than ever before, or passed. It is empty where now
// got further than all of them. An attempt that only comes back to where another one was has made no progress.
func sinceProgress(now Record, earlier []Record) []Record {
	start := 0
	var step, checkpoint int64 = -1, -1
	for i, r := range append(slices.Clone(earlier), now) {
		s, c := reached(&r.Verdict)
		switch {
		case r.Passed():
			start, step, checkpoint = i+1, -1, -1
			continue
		case i > 0 && (c > checkpoint && checkpoint >= 0 || s > step && step >= 0):
			start = i
		}
		step, checkpoint = max(step, s), max(checkpoint, c)
	}
	return earlier[min(start, len(earlier)):]
}

// reached is the step and the checkpoint that an attempt came to; -1 where it names none.
func reached(v *Verdict) (step, checkpoint int64) {
	step, checkpoint = -1, -1
	if s := v.Progress.Step; s != nil {
		step = *s
	}
	if c := v.Progress.CheckpointStep; c != nil {
		checkpoint = *c
	}
	return step, checkpoint
}

// furtherThan says what would be progress.
func furtherThan(now Record, streak []Record) string {
	var step int64 = -1
	for _, r := range append(slices.Clone(streak), now) {
		s, c := reached(&r.Verdict)
		step = max(step, s, c)
	}
	if step < 0 {
		return "progress: a step or a checkpoint in the log"
	}
	return fmt.Sprintf("progress beyond step %d", step)
}

// sameFailure counts the failures with a fingerprint in a streak and now.
func sameFailure(fingerprint string, streak []Record) int {
	if fingerprint == "" {
		return 0
	}
	n := 1
	for _, r := range streak {
		if r.Verdict.Fingerprint == fingerprint {
			n++
		}
	}
	return n
}

// codeErrorSure is the confidence from which the root cause of several is sure enough to be the code's own fault.
const codeErrorSure = 0.6

// codeError is the cause that is the code's own fault, where there are several. Beside the root cause the classifier names
// only explicit ones.
func (p *Policy) codeError(v *Verdict) *Evidence {
	if len(v.Others) > 0 && v.Root != nil && v.Fault == rules.FaultUser && v.Confidence >= codeErrorSure && slices.Contains(p.CodeErrors, v.Category) {
		return v.Root
	}
	for i := range v.Others {
		if slices.Contains(p.CodeErrors, v.Others[i].Category) {
			return &v.Others[i]
		}
	}
	return nil
}

// suspects are the nodes that failures of the kind elsewhere name: the root cause's, else that of an attempt on one node.
func suspects(now Record, streak []Record) []string {
	nodes := []string{}
	for _, r := range append([]Record{now}, streak...) {
		node := ""
		switch v := &r.Verdict; {
		case v.Retry != rules.RetryElsewhere:
		case v.Root != nil && v.Root.Node != "":
			node = v.Root.Node
		case len(r.Nodes) == 1:
			node = r.Nodes[0]
		}
		if node != "" && len(nodes) < maxExcluded && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func turnOf(f rules.Fault) Turn {
	if f == rules.FaultInfrastructure {
		return TurnOperator
	}
	return TurnUser
}

// clause is what happened, to begin a sentence with.
func clause(v *Verdict) string {
	what := strings.TrimRight(strings.TrimSpace(v.Summary), ".")
	if what == "" {
		what = v.Category
	}
	if len(what) > 300 {
		what = strings.ToValidUTF8(what[:300], "") + "…"
	}
	return what
}

// changeOf is what has to change before a failure that recurs goes away.
func changeOf(v *Verdict) string {
	advice, _, _ := strings.Cut(v.Advice, ". ")
	if advice = strings.TrimRight(strings.TrimSpace(advice), "."); advice != "" {
		return "a change of the job: " + advice
	}
	return "a change of the job"
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// seconds is how long to wait before retry number used + 1.
func (b Backoff) seconds(used int) int {
	s := b.First.Seconds() * math.Pow(max(b.Factor, 1), float64(min(max(used, 0), 100)))
	return int(min(s, b.Most.Seconds()))
}
