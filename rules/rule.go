package rules

// Role is what a match can be in a failure.
type Role string

// The roles of a rule.
const (
	// Cause can have started the failure.
	Cause Role = "cause"
	// Symptom follows from another failure: a peer's timeout, a launcher's summary. It is the root cause only
	// where nothing else is found.
	Symptom Role = "symptom"
	// Fact is said by kernel, hardware, scheduler or container runtime about the job from outside. It outranks
	// what a process says about itself where it explains it, also when it is printed later.
	Fact Role = "fact"
)

// Rule is one signature: a failure message, what it means and what to do about it.
type Rule struct {
	ID       string
	Category *Category
	Role     Role
	Generic  bool   // says that something failed but not why: gives way to any exact cause of the same episode
	Block    string // the block kind that this rule labels when no signature explains it; such a rule has no pattern
	Fault    Fault  // the rule's own or the category's
	Retry    Retry  // the rule's own or the category's
	Summary  string // one sentence, {name} stands for a capture, {rank} and {node} for the speaker
	Advice   string
	Source   string // where the message is printed: project, file or document
	File     string // pack, for messages
	Line     int    // line of the rule in its pack

	literals   []string
	ignoreCase bool
	pattern    *pattern // nil: the literals are the pattern
}
