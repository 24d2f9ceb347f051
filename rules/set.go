package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Set is a loaded, checked collection of rules. It is read-only and safe for concurrent use.
type Set struct {
	taxonomy *Taxonomy
	rules    []*Rule
	byID     map[string]*Rule
	byBlock  map[string]*Rule
	gates    []Gate
	version  string
}

// Gate is a literal and the rules that it opens: only a line that contains one of a rule's literals can match it.
type Gate struct {
	Literal string
	Fold    bool  // the case of ASCII letters does not count; Literal is in lower case
	Rules   []int // indexes into Set.Rules, ascending
}

// Rules are the rules in load order: by file name, then as they stand in the file. The slice is the set's own.
func (s *Set) Rules() []*Rule { return s.rules }

// Rule finds a rule by its id.
func (s *Set) Rule(id string) (*Rule, bool) {
	r, ok := s.byID[id]
	return r, ok
}

// BlockRule finds the rule that labels an implicit block: python-traceback, cpp-terminate, java-exception, mpi-abort.
func (s *Set) BlockRule(kind string) (*Rule, bool) {
	r, ok := s.byBlock[kind]
	return r, ok
}

// Taxonomy is the list of categories that the rules refer to.
func (s *Set) Taxonomy() *Taxonomy { return s.taxonomy }

// Version is 12 hex digits that change with everything in the set that can change a verdict, its words included:
// rules, their order and the taxonomy, but not cases, sources, comments or the files' names.
func (s *Set) Version() string { return s.version }

// Gates are the literals of all rules, each once, in the order of the first rule that has it. The slice is the set's own.
func (s *Set) Gates() []Gate { return s.gates }

func newSet(t *Taxonomy, rules []*Rule) *Set {
	s := &Set{taxonomy: t, rules: rules, byID: make(map[string]*Rule), byBlock: make(map[string]*Rule)}
	for _, r := range rules {
		s.byID[r.ID] = r
		if r.Block != "" {
			s.byBlock[r.Block] = r
		}
	}
	s.gates = gatesOf(rules)
	s.version = versionOf(t, rules)
	return s
}

func gatesOf(rules []*Rule) []Gate {
	type key struct {
		literal string
		fold    bool
	}
	var gates []Gate
	index := make(map[key]int)
	for i, r := range rules {
		for _, lit := range r.literals {
			k := key{lit, r.ignoreCase}
			g, ok := index[k]
			if !ok {
				g = len(gates)
				index[k] = g
				gates = append(gates, Gate{Literal: lit, Fold: r.ignoreCase})
			}
			gates[g].Rules = append(gates[g].Rules, i)
		}
	}
	return gates
}

func versionOf(t *Taxonomy, rules []*Rule) string {
	h := sha256.New()
	e := json.NewEncoder(h)
	// Strings, numbers and slices of them: encoding cannot fail, and a hash does not fail to take it.
	_ = e.Encode(t.Categories)
	for _, r := range rules {
		_ = e.Encode([]any{r.ID, r.Category.ID, r.Role, r.Generic, r.Block, r.Fault, r.Retry, r.Summary, r.Advice,
			r.literals, r.ignoreCase, r.Pattern()})
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
