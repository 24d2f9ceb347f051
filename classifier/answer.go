package classifier

import (
	"fmt"
	"math"
	"strings"

	"culprit/rules"
)

// verdict writes a resolution down.
func (c *Classifier) verdict(a *attempt, exit Exit, r resolution) Verdict {
	v := Verdict{RulesVersion: c.set.Version(), Bytes: a.bytes, Lines: a.lines, Progress: a.progress, Cascade: []Evidence{}}
	if exit.Succeeded() && (a.ended || r.tier < tierExact) || exit.Code == nil && exit.State == "" && r.root == nil && a.ended {
		v.none()
		return v
	}
	v.Confidence = math.Round(r.confidence()*100) / 100
	switch {
	case r.exit != nil:
		c.fromExit(&v, exit, r.exit)
	case r.root != nil:
		c.fromRoot(&v, a, r)
	default:
		c.silent(&v, exit)
	}
	v.Retry = v.allowedRetry()
	return v
}

// none is the verdict on a job that did not fail.
func (v *Verdict) none() {
	v.Category, v.Title = rules.CategoryNone, "No failure"
	v.Fault, v.Retry, v.Confidence = rules.FaultUnknown, rules.RetryNever, 0.95
	v.Summary, v.Advice = "the job ended well", "Nothing to do."
}

// fromRoot fills in what the root cause says.
func (c *Classifier) fromRoot(v *Verdict, a *attempt, r resolution) {
	rule := r.root.rule
	root := a.evidence(r.root)
	v.category(rule.Category)
	v.Fault, v.Retry, v.Rule, v.Advice = rule.Fault, rule.Retry, rule.ID, rule.Advice
	v.Root = &root
	v.Fingerprint = fingerprint(rule.ID, r.root.text)
	v.Summary = sentence(root, rule.Sentence(a.words(r.root, root)))
	if r.root.before.LastLine > 0 {
		v.Progress = r.root.before
	}
	for _, m := range r.cascade {
		v.Cascade = append(v.Cascade, a.evidence(m))
	}
	for _, m := range r.others {
		v.Others = append(v.Others, a.evidence(m))
	}
}

// words are the captures of a match with the rank and the node that are known of it.
func (a *attempt) words(m *match, e Evidence) map[string]string {
	w := map[string]string{"rank": e.Rank, "node": e.Node}
	for k, s := range m.captures {
		w[k] = s
	}
	return w
}

// evidence is what a verdict tells of a match.
func (a *attempt) evidence(m *match) Evidence {
	e := Evidence{Rule: m.rule.ID, Category: m.rule.Category.ID, Line: m.line, Offset: m.offset, Text: m.said,
		Rank: a.rankOf(m), Node: m.node, Captures: m.captures}
	if len(a.names) > 1 {
		e.File = a.names[m.file]
	}
	if n := m.captures["node"]; n != "" {
		e.Node = n
	}
	if !m.time.IsZero() {
		t := m.time
		e.Time = &t
	}
	return e
}

func (v *Verdict) category(c *rules.Category) {
	v.Category, v.Title, v.Fault, v.Retry = c.ID, c.Title, c.Fault, c.Retry
}

// fromExit fills in what the scheduler's word alone says.
func (c *Classifier) fromExit(v *Verdict, exit Exit, x *exitVerdict) {
	v.category(c.set.Taxonomy().Category(x.category))
	if x.fault != "" {
		v.Fault = x.fault
	}
	if x.retry != "" {
		v.Retry = x.retry
	}
	v.Summary = x.says
	v.Advice = "The log does not say more: " + exit.describe() + ". " + exitAdvice[x.category]
	v.Fingerprint = fingerprint("exit", x.category+" "+exit.state())
}

// exitAdvice is what to do about a failure of which only the scheduler tells.
var exitAdvice = map[string]string{
	"cpu-oom":       "Ask for more host memory, or load less at once: fewer DataLoader workers, smaller shards, no copies per rank.",
	"node-failure":  "Run again without the node that failed.",
	"job-preempted": "Run again from the last checkpoint; write checkpoints on SIGTERM.",
	"time-limit":    "Ask for more time, or resume from the last checkpoint.",
	"cancelled":     "Ask whoever cancelled it; nothing in the log failed before.",
	"core-dump":     "Run with PYTHONFAULTHANDLER=1 and core dumps on to see where it died.",
}

// silent is the verdict on a failure of which nothing is known.
func (c *Classifier) silent(v *Verdict, exit Exit) {
	v.category(c.set.Taxonomy().Category(rules.CategoryNoSignature))
	v.Confidence = 0.6
	if !exit.Failed() {
		v.Confidence = 0.4
	}
	v.Summary = "it failed, and nothing in the log says why (" + exit.describe() + ")"
	if exit.Code == nil && exit.State == "" && exit.Signal == 0 {
		v.Summary = "nothing in the log says that or why it failed, and its exit code is not known"
	}
	v.Advice = "Look at the logs of the other ranks and of the node (dmesg), and send the exit code and the scheduler's state along."
	if exit.signal() == 9 {
		v.Advice = "SIGKILL comes from the kernel's OOM killer, the scheduler or an operator: look at dmesg of the node and at the job's memory use."
	}
	v.Fingerprint = fingerprint("silent", fmt.Sprint(exit.signal()))
}

// sentence puts who and where before what happened.
func sentence(e Evidence, what string) string {
	who := ""
	if e.Rank != "" && !strings.Contains(what, "rank "+e.Rank) {
		who = "rank " + e.Rank
	}
	if e.Node != "" && !strings.Contains(what, e.Node) {
		if who != "" {
			who += " "
		}
		who += "on " + e.Node
	}
	switch {
	case who == "":
		return what
	case strings.HasPrefix(who, "rank ") && startsWithVerb(what):
		return who + " " + what
	}
	return who + ": " + what
}

// startsWithVerb reports whether a clause lacks only its subject.
func startsWithVerb(what string) bool {
	word, _, _ := strings.Cut(what, " ")
	switch word {
	case "ran", "died", "lost", "could", "cannot", "was", "hit", "got", "tried", "waited", "saw", "does", "did", "has", "had", "asked", "gave", "found":
		return true
	}
	return strings.HasSuffix(word, "ed") && len(word) > 4
}
