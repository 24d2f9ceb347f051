package classifier

import (
	"slices"
	"strings"

	"culprit/rules"
)

// The steps of this file move the root cause from the match that was chosen to one that says better what happened: from
// an echo to the exception, from what was handled to its cause, from a complaint to what made it come up.

// uncarry goes from a line that carries an exception of another process here to the one where it was raised.
func (r *resolution) uncarry(alive []*match) {
	if r.root == nil || !r.root.carrier {
		return
	}
	for _, m := range alive {
		if m.block == r.root.block && m.seq > r.root.seq && m.rule.Role == rules.Cause && !m.carrier {
			r.root = m
			return
		}
	}
}

// preferDirectCause goes from an exception that was being handled to the one that the chain names as the direct cause of
// what follows: the first was dealt with, the second was not.
func (r *resolution) preferDirectCause(alive []*match) {
	if r.root == nil || !r.root.raised || r.root.block == nil {
		return
	}
	cause := slices.IndexFunc(r.root.block.exceptions, func(e exception) bool { return e.link == linkCause }) - 1
	if cause < 0 || r.root.raise >= cause {
		return
	}
	for _, m := range alive {
		if m.block == r.root.block && m.raised && m.raise == cause && m.rule.Role == rules.Cause && !m.rule.Generic && !m.implicit {
			r.root = m
			return
		}
	}
}

// preferRaised goes from a line of c10's logger, which prints what is about to be raised, to the exception itself.
func (r *resolution) preferRaised(alive []*match) {
	if r.root == nil || !r.root.logged {
		return
	}
	for _, m := range alive {
		if m.raised && !m.carrier && m.rule == r.root.rule && m.who == r.root.who && m.seq > r.root.seq {
			r.root = m
			return
		}
	}
}

// preferFirstSaid goes from an exact cause to an earlier one of the same category that another rule matched and that was
// only put aside because its speaker said more afterwards: it is the same failure, named first.
func (r *resolution) preferFirstSaid(alive []*match) {
	if r.root == nil || r.tier != tierExact {
		return
	}
	for _, m := range alive {
		if m.seq >= r.root.seq {
			return
		}
		if m.doubtful && m.rule.Role == rules.Cause && !m.implicit && !m.rule.Generic && m.rule != r.root.rule && m.rule.Category == r.root.rule.Category && (m.level == levelNone || m.level > levelWarning) {
			r.root = m
			return
		}
	}
}

// narrower lists the categories that say more exactly why a checkpoint could not be written.
var narrower = map[string]bool{"disk-full": true, "storage-error": true}

// preferNarrower goes from a checkpoint that could not be written to the reason, where the same chain names it.
func (r *resolution) preferNarrower(alive []*match) {
	if r.root == nil || r.root.rule.Category.ID != "model-checkpoint-error" || r.tier == tierFact {
		return
	}
	for _, m := range alive {
		if m.rule.Role == rules.Cause && !m.rule.Generic && narrower[m.rule.Category.ID] && m.block != nil && m.block == r.root.block {
			r.root, r.tier = m, tierExact
			return
		}
	}
}

// preferReason goes from a process that only says that it died, or a job that was cancelled, to what was said before it of
// a peer or the network: a watchdog that gives up ends its process with an abort.
func (r *resolution) preferReason(alive []*match) {
	if r.root == nil {
		return
	}
	id := r.root.rule.Category.ID
	switch {
	case id == "cancelled": // somebody ended what had hung
	case id == "core-dump" && (r.root.implicit || r.root.rule.Generic):
	case id == rules.CategoryTraceback && r.root.implicit: // an explicit line of its own chain says more
	default:
		return
	}
	for _, m := range alive {
		before := id != rules.CategoryTraceback && m.file == r.root.file && m.seq < r.root.seq
		inside := id == rules.CategoryTraceback && m.block != nil && m.block == r.root.block
		if (before || inside) && m.rule.Role == rules.Symptom && !m.rule.Generic && m.rule.Category.ID != rules.CategoryNoSignature && m.rule.Category.ID != "cancelled" {
			r.root, r.tier = m, tierSymptom
			return
		}
	}
}

// preferMissingGPU goes from a complaint about GPUs, by arguments or a library, to what was said before of a GPU that could
// not be used from the start: a program that goes on without one complains later, of something else.
func (r *resolution) preferMissingGPU(alive []*match) {
	if r.root == nil || r.tier == tierFact {
		return
	}
	switch r.root.rule.Category.ID {
	case "config-error", "semantic-error", "cuda-failure", rules.CategoryTraceback:
	default:
		return
	}
	text := strings.ToLower(r.root.text)
	if !slices.ContainsFunc([]string{"bf16", "fp16", "gpu", "cuda", "device", "accelerator", "nvidia"}, func(w string) bool { return strings.Contains(text, w) }) {
		return
	}
	for _, m := range alive {
		if m.seq < r.root.seq && m.rule.Role != rules.Symptom && m.rule.Category.ID == "cuda-init-failed" {
			r.explained = r.root
			r.root, r.tier = m, tierExact
			return
		}
	}
}
