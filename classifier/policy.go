package classifier

import (
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"culprit/rules"
)

// Mode says what becomes of a stop.
type Mode string

// The modes.
const (
	ModeShadow  Mode = "shadow"  // recorded; the retry is allowed
	ModeWarn    Mode = "warn"    // said in the output; the retry is allowed
	ModeEnforce Mode = "enforce" // the retry is refused
)

var modes = []Mode{ModeShadow, ModeWarn, ModeEnforce}

// Policy is what an operator decides about retries. The zero policy stops nothing.
type Policy struct {
	Budgets    map[rules.Retry]int // retries since the last progress, by the verdict's advice
	Repeats    int                 // the same failure so often without progress is a stop; 0 for never
	Backoff    Backoff             // for the advice always
	Mode       Mode                // of what no exception and not EnforceNeverAbove names; empty is shadow
	CodeErrors []string            // categories that are a stop also beside another root cause

	// EnforceNeverAbove is the confidence above which the advice never is enforced; 0 for not at all.
	EnforceNeverAbove float64
	// Exceptions are tried in order; of each field the first one that sets it and matches counts.
	Exceptions []Exception
}

// Backoff is how long to wait before a retry: First, then Factor times as long each time, at most Most.
type Backoff struct {
	First, Most time.Duration
	Factor      float64
}

// Exception changes a policy for some failures. Values of one list are alternatives, the lists are all required; an
// empty list matches everything.
type Exception struct {
	Rules, Categories, VCs []string
	Why                    string // for the reader of the file

	Budget, Repeats *int // nil: as without the exception
	Mode            Mode // empty: as without the exception
}

// DefaultPolicy enforces what is surely in vain and only records what else it would stop.
func DefaultPolicy() Policy {
	return Policy{
		Budgets:           map[rules.Retry]int{rules.RetryNever: 0, rules.RetryOnce: 1, rules.RetryElsewhere: 3, rules.RetryAlways: 5},
		Repeats:           3,
		Backoff:           Backoff{First: 30 * time.Second, Factor: 2, Most: 30 * time.Minute},
		Mode:              ModeShadow,
		EnforceNeverAbove: 0.9,
		CodeErrors: []string{"syntax-error", "import-error", "semantic-error", "config-error", "compile-error", "output-node-error",
			"cannot-load-libs", "cuda-version-mismatch"},
	}
}

func (e *Exception) matches(r *Record) bool {
	has := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return has(e.Rules, r.Verdict.Rule) && has(e.Categories, r.Verdict.Category) && has(e.VCs, r.VC)
}

// mode is the mode for a failure.
func (p *Policy) mode(r *Record) Mode {
	for i := range p.Exceptions {
		if e := &p.Exceptions[i]; e.Mode != "" && e.matches(r) {
			return e.Mode
		}
	}
	if v := &r.Verdict; v.Retry == rules.RetryNever && p.EnforceNeverAbove > 0 && v.Confidence > p.EnforceNeverAbove {
		return ModeEnforce
	}
	if p.Mode == "" {
		return ModeShadow
	}
	return p.Mode
}

// budget counts the retries that earlier failures of the same kind have used up: those that the same exception is
// about, else those with the same advice.
func (p *Policy) budget(now *Record, streak []Record) Budget {
	same := func(r *Record) bool { return r.Verdict.Retry == now.Verdict.Retry }
	b := Budget{Max: p.Budgets[now.Verdict.Retry]}
	for i := range p.Exceptions {
		if e := &p.Exceptions[i]; e.Budget != nil && e.matches(now) {
			b.Max = *e.Budget
			if len(e.Rules) > 0 || len(e.Categories) > 0 {
				same = e.matches
			}
			break
		}
	}
	for i := range streak {
		if undecidable(&streak[i].Verdict) == "" && same(&streak[i]) {
			b.Used++
		}
	}
	return b
}

func (p *Policy) repeats(r *Record) int {
	for i := range p.Exceptions {
		if e := &p.Exceptions[i]; e.Repeats != nil && e.matches(r) {
			return *e.Repeats
		}
	}
	return p.Repeats
}

// UnknownRules are the rules that exceptions name and a set does not have: misspelt ones, or those of other packs.
func (p *Policy) UnknownRules(set *rules.Set) (unknown []string) {
	for _, e := range p.Exceptions {
		for _, id := range e.Rules {
			if _, ok := set.Rule(id); !ok && !slices.Contains(unknown, id) {
				unknown = append(unknown, id)
			}
		}
	}
	return unknown
}

// maxPolicyBytes bounds a policy file.
const maxPolicyBytes = 1 << 20

// LoadPolicy reads a policy file in YAML; what it leaves out is as in DefaultPolicy. name is the file's, for messages.
// The error joins all mistakes, each an error that begins with file and line; then the policy is the zero policy.
func LoadPolicy(r io.Reader, name string) (Policy, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPolicyBytes+1))
	if err != nil {
		return Policy{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > maxPolicyBytes {
		return Policy{}, fmt.Errorf("%s: larger than %d bytes", name, maxPolicyBytes)
	}
	l := policyLoader{name: name}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		l.syntax(err)
	}
	p := DefaultPolicy()
	if len(doc.Content) > 0 {
		l.policy(doc.Content[0], &p)
	}
	if len(l.errs) > 0 {
		return Policy{}, errors.Join(l.errs...)
	}
	return p, nil
}

// policyLoader walks the nodes of a policy file and collects what is wrong with it.
type policyLoader struct {
	name string
	errs []error
}

func (l *policyLoader) fail(n *yaml.Node, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s:%d: %s", l.name, n.Line, fmt.Sprintf(format, args...)))
}

var policyLine = regexp.MustCompile(`^yaml: line (\d+): `)

// syntax names the line that the parser names.
func (l *policyLoader) syntax(err error) {
	n, text := &yaml.Node{Line: 1}, err.Error()
	if m := policyLine.FindStringSubmatch(text); m != nil {
		n.Line, _ = strconv.Atoi(m[1]) // digits
		text = text[len(m[0]):]
	}
	l.fail(n, "not YAML: %s", strings.TrimPrefix(text, "yaml: "))
}

// fields calls the reader of each field of a mapping.
func (l *policyLoader) fields(n *yaml.Node, what string, readers map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		l.fail(n, "%s: fields are wanted here", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := readers[key.Value]
		switch {
		case read == nil:
			known := make([]string, 0, len(readers))
			for name := range readers {
				known = append(known, name)
			}
			slices.Sort(known)
			l.fail(key, "%s: unknown field %.40q: known are %s", what, key.Value, strings.Join(known, ", "))
		case seen[key.Value]:
			l.fail(key, "%s: %s is given twice", what, key.Value)
		case value.Kind == yaml.AliasNode:
			l.fail(value, "%s: aliases (*name) are not allowed: write the value out", key.Value)
		default:
			read(value)
		}
		seen[key.Value] = true
	}
}

func (l *policyLoader) policy(n *yaml.Node, p *Policy) {
	budgets := map[string]func(*yaml.Node){}
	for _, r := range retries {
		budgets[string(r)] = func(n *yaml.Node) { p.Budgets[r] = l.count(n, string(r)) }
	}
	l.fields(n, "policy", map[string]func(*yaml.Node){
		"budgets": func(n *yaml.Node) { l.fields(n, "budgets", budgets) },
		"repeats": func(n *yaml.Node) { p.Repeats = l.repeats(n) },
		"backoff": func(n *yaml.Node) {
			l.fields(n, "backoff", map[string]func(*yaml.Node){
				"first":  func(n *yaml.Node) { p.Backoff.First = l.duration(n, "first") },
				"most":   func(n *yaml.Node) { p.Backoff.Most = l.duration(n, "most") },
				"factor": func(n *yaml.Node) { p.Backoff.Factor = l.number(n, "factor", 1, 100) },
			})
		},
		"mode":                func(n *yaml.Node) { p.Mode = l.mode(n) },
		"enforce_never_above": func(n *yaml.Node) { p.EnforceNeverAbove = l.number(n, "enforce_never_above", 0.5, 1) },
		"code_errors":         func(n *yaml.Node) { p.CodeErrors = l.categories(n, "code_errors") },
		"exceptions": func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				l.fail(n, "exceptions: a list is wanted here")
				return
			}
			for _, item := range n.Content {
				p.Exceptions = append(p.Exceptions, l.exception(item))
			}
		},
	})
}

func (l *policyLoader) exception(n *yaml.Node) (e Exception) {
	mistakes := len(l.errs)
	l.fields(n, "exception", map[string]func(*yaml.Node){
		"rule":     func(n *yaml.Node) { e.Rules = l.list(n, "rule") },
		"category": func(n *yaml.Node) { e.Categories = l.categories(n, "category") },
		"vc":       func(n *yaml.Node) { e.VCs = l.list(n, "vc") },
		"why":      func(n *yaml.Node) { e.Why = l.text(n, "why") },
		"budget":   func(n *yaml.Node) { b := l.count(n, "budget"); e.Budget = &b },
		"repeats":  func(n *yaml.Node) { r := l.repeats(n); e.Repeats = &r },
		"mode":     func(n *yaml.Node) { e.Mode = l.mode(n) },
	})
	switch {
	case len(l.errs) > mistakes:
	case len(e.Rules)+len(e.Categories)+len(e.VCs) == 0:
		l.fail(n, "exception: says of nothing: give rule, category or vc")
	case e.Budget == nil && e.Repeats == nil && e.Mode == "":
		l.fail(n, "exception: changes nothing: give budget, repeats or mode")
	}
	return e
}

func (l *policyLoader) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" || n.ShortTag() == "!!null" {
		l.fail(n, "%s: text is wanted here", what)
		return ""
	}
	return n.Value
}

// list is one text or several.
func (l *policyLoader) list(n *yaml.Node, what string) (list []string) {
	if n.Kind != yaml.SequenceNode {
		return []string{l.text(n, what)}
	}
	if len(n.Content) == 0 && what != "code_errors" {
		l.fail(n, "%s: the list is empty", what)
	}
	for _, item := range n.Content {
		list = append(list, l.text(item, what))
	}
	return list
}

// categories is a list of ids of the taxonomy.
func (l *policyLoader) categories(n *yaml.Node, what string) []string {
	list := l.list(n, what)
	taxonomy, err := rules.DefaultTaxonomy()
	if err != nil {
		l.fail(n, "%s: %v", what, err)
		return nil
	}
	for i, id := range list {
		if id != "" && taxonomy.Category(id) == nil {
			at := n
			if n.Kind == yaml.SequenceNode {
				at = n.Content[i]
			}
			l.fail(at, "%s: unknown category %.40q", what, id)
		}
	}
	return list
}

func (l *policyLoader) mode(n *yaml.Node) Mode {
	if m := Mode(n.Value); n.Kind == yaml.ScalarNode && slices.Contains(modes, m) {
		return m
	}
	l.fail(n, "mode: %.40q is none of shadow, warn, enforce", n.Value)
	return ""
}

func (l *policyLoader) number(n *yaml.Node, what string, least, most float64) float64 {
	f, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(f) || f < least || f > most {
		l.fail(n, "%s: a number from %g to %g is wanted, not %.40q", what, least, most, n.Value)
	}
	return f
}

func (l *policyLoader) count(n *yaml.Node, what string) int {
	i, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || i < 0 || i > 1000 {
		l.fail(n, "%s: a whole number from 0 to 1000 is wanted, not %.40q", what, n.Value)
	}
	return i
}

// repeats is 0 for never: once is how every failure begins, and would stop all of them.
func (l *policyLoader) repeats(n *yaml.Node) int {
	i := l.count(n, "repeats")
	if i == 1 {
		l.fail(n, "repeats: 1 would stop every failure: give 0 for never, or 2 and more")
	}
	return i
}

func (l *policyLoader) duration(n *yaml.Node, what string) time.Duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < 0 || d > 7*24*time.Hour {
		l.fail(n, "%s: a duration from 0s to 168h is wanted (30s, 5m), not %.40q", what, n.Value)
	}
	return d
}
