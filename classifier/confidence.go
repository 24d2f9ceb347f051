package classifier

import "culprit/rules"

// sure is the confidence from which a verdict may say never.
const sure = 0.8

// tierConfidence is how often verdicts of a tier are right, as measured over the labelled corpus and rounded down.
var tierConfidence = [...]float64{
	tierNone:     0.5,
	tierSymptom:  0.65,
	tierDoubtful: 0.5,
	tierWeak:     0.85,
	tierImplicit: 0.75,
	tierExact:    0.96,
	tierFact:     0.97,
}

// lastWords is how many ordinary lines may follow the message of a process that is going down: hints, an epilogue.
const lastWords = 12

// confidence says how sure a resolution is: less for each cause that competes, and for a rule that only says that
// something failed.
func (r *resolution) confidence() float64 {
	if r.exit != nil {
		return r.exit.confidence
	}
	c := tierConfidence[r.tier]
	if r.tier == tierDoubtful && r.failed && r.root != nil && !r.root.implicit && r.root.who.ordinary-r.root.ordinary <= lastWords {
		c = 0.82 // the only cause, near the end of a job that did fail
	}
	if r.root != nil && r.root.rule.Generic {
		c = min(c, 0.8)
	}
	for range min(len(r.others), 2) {
		c -= 0.18
	}
	return c
}

// allowedRetry is the advice that a verdict may give: never only where it is sure, and no more than once where causes that
// have nothing to do with each other were found.
func (v *Verdict) allowedRetry() rules.Retry {
	if len(v.Others) > 0 || v.Retry == rules.RetryNever && v.Confidence < sure {
		return rules.RetryOnce
	}
	return v.Retry
}
