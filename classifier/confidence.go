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

// confidence says how sure a resolution is: less for each cause that competes, and for a rule that only says that
// something failed.
func (r *resolution) confidence() float64 {
	if r.exit != nil {
		return r.exit.confidence
	}
	c := tierConfidence[r.tier]
	if r.root != nil && r.root.rule.Generic {
		c = min(c, 0.8)
	}
	for range min(len(r.others), 2) {
		c -= 0.18
	}
	return c
}

// retry is the advice that a confidence allows: never only where sure.
func allowedRetry(retry rules.Retry, confidence float64) rules.Retry {
	if retry == rules.RetryNever && confidence < sure {
		return rules.RetryOnce
	}
	return retry
}
