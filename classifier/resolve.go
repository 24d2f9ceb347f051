package classifier

import (
	"slices"
	"strings"

	"culprit/rules"
)

// weak are the categories of failures that often follow from another one: a peer is gone, a connection broke, a process
// died and said no more. An exact cause of another category outranks them, whichever was printed first.
var weak = map[string]bool{
	"network-error": true, "collective-error": true, "collective-timeout": true, "mpi-error": true, "mpi-runtime-failure": true,
	"core-dump": true, "cancelled": true, rules.CategoryNoSignature: true, rules.CategoryTraceback: true,
}

// selfMade are the categories that no fault of machine, scheduler or network explains: the program said what is wrong
// with itself or its input.
var selfMade = map[string]bool{
	"semantic-error": true, "syntax-error": true, "import-error": true, "config-error": true, "incorrect-inputs": true,
	"permission-error": true, "access-denied": true, "output-node-error": true, "cannot-load-libs": true, "compile-error": true,
	"cuda-version-mismatch": true, "gpu-oom": true, "model-diverged": true, "disk-full": true,
}

// explainedBy lists, for facts that explain only some failures, which ones. A fact that is not listed explains all that
// is not self-made.
var explainedBy = map[string][]string{
	"cancelled":             {},
	"time-limit":            {"cancelled", "core-dump", rules.CategoryTraceback},
	"disk-full":             {"model-checkpoint-error", "storage-error", "core-dump", rules.CategoryTraceback},
	"storage-error":         {"model-checkpoint-error", "incorrect-inputs", "network-error", "core-dump", "collective-error", "collective-timeout", "invalid-memory-access", rules.CategoryTraceback},
	"invalid-memory-access": {"core-dump", "cuda-failure", "collective-error", "collective-timeout", "network-error", "mpi-error", "mpi-runtime-failure", rules.CategoryTraceback},
	"network-error":         {"collective-error", "collective-timeout", "mpi-error", "mpi-runtime-failure", "storage-error", "model-checkpoint-error", rules.CategoryTraceback},
	"config-error":          {rules.CategoryTraceback},
	"permission-error":      {rules.CategoryTraceback},
}

// explains reports whether a fact of category fact can have a failure of the other category for its consequence.
func explains(fact, other string) bool {
	if fact == other || other == rules.CategoryNoSignature {
		return fact != "cancelled"
	}
	if some, ok := explainedBy[fact]; ok {
		return slices.Contains(some, other)
	}
	return !selfMade[other]
}

// resolution is what the matches of an attempt come to.
type resolution struct {
	root      *match
	exit      *exitVerdict // decides where no line does
	cascade   []*match
	others    []*match // causes that root does not explain
	tier      tier
	explained *match // a cause that the root cause was found to explain
	failed    bool   // the exit says that the attempt failed
}

// tier is how good the evidence of a root cause is.
type tier uint8

const (
	tierNone     tier = iota
	tierSymptom       // only consequences were seen
	tierDoubtful      // a cause that may have been survived
	tierWeak          // a failure that often follows from another
	tierImplicit      // an exception that no rule explains
	tierExact         // an explicit cause
	tierFact          // said from outside by kernel, hardware or scheduler
)

// resolve weighs the matches of an attempt: what was survived is left out, facts outrank what they explain, exact causes
// outrank those that often follow, the earliest of equals is the root cause.
func (a *attempt) resolve(exit Exit) resolution {
	alive := bestOfLines(a.ordered())
	alive = slices.DeleteFunc(alive, func(m *match) bool { return m.survived })
	r := chooseCause(alive)
	r.uncarry(alive)
	r.preferDirectCause(alive)
	r.preferRaised(alive)
	r.preferReason(alive)
	r.preferMissingGPU(alive)
	chooseFact(&r, alive)
	consultExit(&r, alive, exit)
	if r.root == nil && r.exit == nil {
		chooseSymptom(&r, alive)
		r.preferRaised(alive)
	}
	r.preferFirstSaid(alive)
	r.preferNarrower(alive)
	r.failed = exit.Failed()
	r.relate(alive)
	return r
}

// ordered is the matches in the order in which they happened: by time where every log tells it, else as read, what
// ranks say of themselves before what a launcher says of them in a log of its own.
func (a *attempt) ordered() []*match {
	ms := slices.Clone(a.matches)
	slices.SortFunc(ms, func(x, y *match) int { return compare(x.seq, y.seq) })
	if len(a.names) < 2 {
		return ms
	}
	timed := !slices.ContainsFunc(ms, func(m *match) bool { return m.time.IsZero() })
	slices.SortStableFunc(ms, func(x, y *match) int {
		switch {
		case x.file == y.file:
			return compare(x.seq, y.seq)
		case timed:
			return x.time.Compare(y.time)
		case x.fromLauncher() != y.fromLauncher():
			if x.fromLauncher() {
				return 1
			}
			return -1
		}
		return 0
	})
	for i, m := range ms {
		m.seq = int64(i)
	}
	return ms
}

// fromLauncher reports whether nobody in particular says m: a line without a speaker, or of one of Open MPI's daemons.
func (m *match) fromLauncher() bool {
	return m.who.name == "" || m.rank == "" && m.who.name == m.node+":"+m.who.name[strings.LastIndexByte(m.who.name, ':')+1:]
}

func compare(x, y int64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// bestOfLines keeps one match a line, the most exact, and drops implicit ones of blocks that a rule explains.
func bestOfLines(ms []*match) []*match {
	type place struct {
		file int
		line int64
	}
	best := map[place]*match{}
	for _, m := range ms {
		if m.implicit && m.block.explained {
			continue
		}
		p := place{m.file, m.line}
		if b := best[p]; b == nil || moreExact(m, b) {
			best[p] = m
		}
	}
	return slices.DeleteFunc(slices.Clone(ms), func(m *match) bool { return best[place{m.file, m.line}] != m })
}

// moreExact reports whether m says more of its line than b does.
func moreExact(m, b *match) bool {
	if m.implicit != b.implicit {
		return b.implicit
	}
	if (m.rule.Role == rules.Fact) != (b.rule.Role == rules.Fact) {
		return m.rule.Role == rules.Fact
	}
	if m.rule.Generic != b.rule.Generic {
		return b.rule.Generic
	}
	return m.length > b.length
}

// exactness sorts a cause into its tier.
func exactness(m *match) tier {
	switch {
	case m.doubtful || m.level != levelNone && m.level <= levelWarning:
		return tierDoubtful
	case m.implicit:
		return tierImplicit
	case m.rule.Generic || weak[m.rule.Category.ID]:
		return tierWeak
	}
	return tierExact
}

// chooseCause chooses among what the processes say of themselves.
func chooseCause(alive []*match) resolution {
	var first [tierFact]*match
	for _, m := range alive {
		if m.rule.Role != rules.Cause {
			continue
		}
		if t := exactness(m); first[t] == nil {
			first[t] = m
		}
	}
	exact, weakOne, implicit := first[tierExact], first[tierWeak], first[tierImplicit]
	switch {
	case exact != nil:
		// Of a chain of exceptions the first is the cause, also where it is one that often follows.
		for _, m := range alive {
			if m.seq < exact.seq && m.block != nil && m.block == exact.block && m.rule.Role == rules.Cause && !m.implicit && !m.rule.Generic && exactness(m) == tierWeak {
				return resolution{root: m, tier: tierExact}
			}
		}
		return resolution{root: exact, tier: tierExact}
	case weakOne != nil && (implicit == nil || weakOne.seq < implicit.seq):
		return resolution{root: weakOne, tier: tierWeak}
	case implicit != nil:
		return resolution{root: implicit, tier: tierImplicit}
	}
	return resolution{root: bestDoubtful(alive), tier: tierDoubtful}
}

// bestDoubtful is the last cause of which it is not known whether it was survived: the nearest to the end.
func bestDoubtful(alive []*match) *match {
	var best *match
	for _, m := range alive {
		if m.rule.Role != rules.Cause || m.level != levelNone && m.level <= levelWarning {
			continue
		}
		if best == nil || best.implicit && !m.implicit || best.implicit == m.implicit && m.who.ordinary-m.ordinary < best.who.ordinary-best.ordinary {
			best = m
		}
	}
	return best
}

// chooseFact lets a fact outrank the cause that it explains.
func chooseFact(r *resolution, alive []*match) {
	for _, m := range alive {
		if m.rule.Role != rules.Fact {
			continue
		}
		id := m.rule.Category.ID
		if id == "cancelled" && (r.root != nil || alive[0] != m) {
			continue // an operator or the launcher cleans up after a failure
		}
		if r.tier == tierFact && r.root.rule.Generic && !m.rule.Generic {
			r.root = m // says more than the fact before it
			continue
		}
		if r.root == nil || r.tier < tierImplicit && r.tier != tierWeak || explains(id, r.root.rule.Category.ID) || r.root.rule.Generic && selfMade[r.root.rule.Category.ID] || m.seq < r.root.seq && !selfMade[r.root.rule.Category.ID] {
			if r.tier == tierFact {
				continue // the first fact stands
			}
			r.root, r.tier = m, tierFact
		}
	}
	if r.root == nil {
		r.tier = tierNone
	}
}

// consultExit lets the scheduler's word decide where the log has no better one.
func consultExit(r *resolution, alive []*match, exit Exit) {
	v, ok := exit.verdict()
	if !ok {
		return
	}
	switch {
	case r.root == nil:
		if v.category == "core-dump" && hasSymptom(alive) {
			return
		}
	case r.tier == tierFact || r.tier == tierExact:
		return
	case v.category == "cancelled" || v.category == "core-dump" || !explains(v.category, r.root.rule.Category.ID):
		return
	}
	for _, m := range alive {
		if m.rule.Category.ID == v.category {
			*r = resolution{root: m, tier: tierFact} // a line says it too
			return
		}
	}
	*r = resolution{exit: &v, tier: tierFact}
}

// hasSymptom reports whether a consequence was seen that has a category of its own.
func hasSymptom(alive []*match) bool {
	return slices.ContainsFunc(alive, func(m *match) bool {
		return m.rule.Role == rules.Symptom && m.rule.Category.ID != rules.CategoryNoSignature
	})
}

// chooseSymptom falls back on the first consequence that has a category of its own.
func chooseSymptom(r *resolution, alive []*match) {
	killed := slices.ContainsFunc(alive, reportsKill)
	for i, m := range alive {
		if m.rule.Category.ID == "cancelled" && i > 0 {
			continue // a launcher cancels the others after a failure
		}
		if killed && lostPeer[m.rule.Category.ID] {
			continue // the peer was lost because it was killed, and nothing says by whom
		}
		if m.rule.Role == rules.Symptom && m.rule.Category.ID != rules.CategoryNoSignature {
			if r.root == nil || r.root.rule.Generic && !m.rule.Generic {
				r.root, r.tier = m, tierSymptom
			}
		}
	}
}

// lostPeer are the categories of symptoms that a peer's death brings about at once, unlike a time-out.
var lostPeer = map[string]bool{"network-error": true, "mpi-error": true, "collective-error": true}

// reportsKill reports whether a launcher says that a process was ended by SIGKILL.
func reportsKill(m *match) bool {
	if m.rule.Role != rules.Symptom || m.rule.Category.ID != rules.CategoryNoSignature {
		return false
	}
	for _, s := range m.captures {
		if s == "9" || s == "SIGKILL" || s == "Killed" {
			return true
		}
	}
	return false
}

// cascadeMost is how many consequences a verdict lists, each rule once a rank.
const cascadeMost = 24

// relate sorts the other matches into consequences of the root cause and causes of their own.
func (r *resolution) relate(alive []*match) {
	if r.root == nil {
		return
	}
	seen := map[string]bool{r.root.rule.ID + "\x00" + r.root.rank: true}
	print := fingerprint(r.root.rule.ID, r.root.text)
	for _, m := range alive {
		key := m.rule.ID + "\x00" + m.rank
		if m == r.root || seen[key] {
			continue
		}
		seen[key] = true
		if r.independent(m) && fingerprint(m.rule.ID, m.text) != print {
			if len(r.others) < 8 {
				r.others = append(r.others, m)
			}
			continue
		}
		if len(r.cascade) < cascadeMost {
			r.cascade = append(r.cascade, m)
		}
	}
}

// afterAssertion are the categories of what a process reports of its GPU once an assertion in a kernel has ended the context.
var afterAssertion = map[string]bool{"cuda-failure": true, "cuda-init-failed": true, "gpu-oom": true, "collective-error": true, "invalid-memory-access": true}

// independent reports whether m is a cause that the root cause does not explain.
func (r *resolution) independent(m *match) bool {
	if strings.Contains(r.root.text, "Assertion `") && afterAssertion[m.rule.Category.ID] {
		return false
	}
	if m == r.explained || m.rule.Role == rules.Symptom || m.rule.Category == r.root.rule.Category || m.block != nil && m.block == r.root.block {
		return false
	}
	if m.rule.Role == rules.Fact {
		return m.rule.Category.ID != "cancelled" && m.rule.Category.ID != "time-limit" && r.tier != tierFact
	}
	if r.tier == tierWeak && m.implicit && m.block.kind == blockPython && m.who != r.root.who && exactness(m) == tierImplicit {
		return true
	}
	return exactness(m) == tierExact && (r.tier != tierFact || !explains(r.root.rule.Category.ID, m.rule.Category.ID))
}

// rankOf is the rank that a match tells of: the speaker's, a captured one, the one of a captured process, or the one
// that the message names in brackets.
func (a *attempt) rankOf(m *match) string {
	if m.rank != "" {
		return m.rank
	}
	if r := m.captures["rank"]; r != "" {
		return r
	}
	if r := a.ranks[m.captures["pid"]]; r != "" {
		return r
	}
	if i := strings.Index(m.text, "[Rank "); i >= 0 {
		if n := digits(m.text[i+6:]); n > 0 {
			return m.text[i+6 : i+6+n]
		}
	}
	return ""
}
