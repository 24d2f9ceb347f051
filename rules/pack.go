package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// loader gathers the rules of several packs and all that is wrong with them.
type loader struct {
	taxonomy *Taxonomy
	trusted  bool // the packs were proved before: neither compile nor prove their patterns
	rules    []*Rule
	byID     map[string]*Rule
	byBlock  map[string]*Rule
	problems problems
}

// blockKinds are the blocks that the classifier recognises and a rule can label.
var blockKinds = []string{"checkpoint-write", "cpp-terminate", "java-exception", "mpi-abort", "python-traceback"}

// blockCaptures are the names that the classifier fills in the summary of such a rule: an exception's type and text.
var blockCaptures = []string{"type", "message"}

// speaker are the names that the classifier adds to the captures of every match, where it knows them.
var speaker = []string{"rank", "node"}

func (l *loader) pack(fsys fs.FS, file string) {
	root := document(fsys, file, &l.problems)
	if root == nil {
		return
	}
	if root.Kind != yaml.SequenceNode {
		l.problems.add(file, root.Line, "", fmt.Errorf("a pack is a list of rules (- id: …), this is %s", describe(root)))
		return
	}
	for _, n := range root.Content {
		if l.problems.tooMany(file, n.Line) {
			return
		}
		l.rule(file, n)
	}
}

func (l *loader) rule(file string, n *yaml.Node) {
	m := newMapping(file, n, "", &l.problems, "id", "category", "role", "generic", "fault", "retry", "ignore_case",
		"literals", "pattern", "summary", "advice", "source", "block")
	if n.Kind != yaml.MappingNode {
		return
	}
	r := &Rule{ID: l.id(m), File: file, Line: n.Line, Generic: m.flag("generic"), ignoreCase: m.flag("ignore_case")}
	r.Advice = strings.TrimSpace(m.required("advice"))
	r.Source = m.required("source")
	l.meaning(m, r)
	if block := m.text("block"); block != "" {
		l.block(m, r, block)
	} else if m.fields["block"] != nil {
		m.fail(m.at("block"), errors.New("block is missing"))
	} else {
		signature(m, r, l.trusted)
	}
	summary(m, r)
	l.add(m, r)
}

func (l *loader) id(m mapping) string {
	id := m.required("id")
	if id != "" && !kebab(id) {
		m.fail(m.at("id"), fmt.Errorf("id %q: lower-case words joined by single hyphens", id))
	}
	return id
}

func (l *loader) add(m mapping, r *Rule) {
	if first := l.byID[r.ID]; first != nil && r.ID != "" {
		m.fail(m.at("id"), fmt.Errorf("id is taken by the rule at %s:%d", first.File, first.Line))
		return
	}
	l.byID[r.ID] = r
	l.rules = append(l.rules, r)
}

// meaning reads category, role, fault and retry, with their defaults.
func (l *loader) meaning(m mapping, r *Rule) {
	if id := m.required("category"); id != "" {
		if r.Category = l.taxonomy.Category(id); r.Category == nil {
			m.fail(m.at("category"), fmt.Errorf("unknown category %q", id))
		} else {
			r.Fault, r.Retry = r.Category.Fault, r.Category.Retry
		}
	}
	r.Role = Role(m.text("role"))
	switch r.Role {
	case "":
		r.Role = Cause
	case Cause, Symptom, Fact:
	default:
		m.fail(m.at("role"), fmt.Errorf("unknown role %q: cause, symptom or fact", r.Role))
	}
	if f := Fault(m.text("fault")); f != "" {
		if r.Fault = f; !f.valid() {
			m.fail(m.at("fault"), fmt.Errorf("unknown fault %q: user, infrastructure or unknown", f))
		}
	}
	if t := Retry(m.text("retry")); t != "" {
		if r.Retry = t; !t.valid() {
			m.fail(m.at("retry"), fmt.Errorf("unknown retry %q: never, once, always or elsewhere", t))
		}
	}
}

func (l *loader) block(m mapping, r *Rule, kind string) {
	r.Block = kind
	if !slices.Contains(blockKinds, kind) {
		m.fail(m.at("block"), fmt.Errorf("unknown block %q: %s", kind, strings.Join(blockKinds, ", ")))
		return
	}
	for _, name := range []string{"literals", "pattern", "ignore_case"} {
		if m.fields[name] != nil {
			m.fail(m.at(name), fmt.Errorf("%s: a rule for a block has none", name))
		}
	}
	if first := l.byBlock[kind]; first != nil {
		m.fail(m.at("block"), fmt.Errorf("block %s is labelled by %s at %s:%d already", kind, first.ID, first.File, first.Line))
		return
	}
	l.byBlock[kind] = r
}

// signature reads pattern and literals, and proves or derives the literals.
func signature(m mapping, r *Rule, trusted bool) {
	literals, sound := readLiterals(m, r)
	source := m.text("pattern")
	if source == "" {
		if m.fields["pattern"] != nil {
			m.fail(m.at("pattern"), errors.New("pattern is empty: leave it out where the literals are the pattern"))
		} else if m.fields["literals"] == nil {
			m.fail(m.line, errors.New("a rule needs a pattern or literals"))
		}
		r.literals = literals
		return
	}
	if trusted && len(literals) > 0 {
		r.pattern, r.literals = &pattern{source: source, ignoreCase: r.ignoreCase}, literals
		return
	}
	p, err := compile(source, r.ignoreCase)
	if err != nil {
		m.fail(m.at("pattern"), fmt.Errorf("pattern: %w", err))
		return
	}
	r.pattern = p
	if !sound {
		return
	}
	if m.fields["literals"] == nil {
		if r.literals, err = deriveLiterals(p); err != nil {
			m.fail(m.at("pattern"), fmt.Errorf("pattern: %w", err))
		}
		return
	}
	if r.literals = literals; len(literals) > 0 {
		if err := proveLiterals(p, literals); err != nil {
			m.fail(m.at("literals"), err)
		}
	}
}

// readLiterals reports whether they can be put to proof.
func readLiterals(m mapping, r *Rule) (literals []string, sound bool) {
	sound = true
	bad := func(line int, format string, args ...any) {
		m.fail(line, fmt.Errorf(format, args...))
		sound = false
	}
	nodes := m.list("literals")
	if f := m.fields["literals"]; f != nil && len(nodes) == 0 {
		sound = false
		if f.Kind != yaml.SequenceNode && !isNull(f) {
			return nil, sound // list has told
		}
		bad(f.Line, "literals is empty: leave it out where the pattern has them")
	}
	if len(nodes) > maxAlts {
		bad(m.at("literals"), "%d literals: at most %d", len(nodes), maxAlts)
		return nil, false
	}
	for _, n := range nodes {
		lit := n.Value
		if r.ignoreCase {
			lit = lowerASCII(lit)
		}
		switch {
		case n.Kind != yaml.ScalarNode:
			bad(n.Line, "literals: wants texts, has %s", describe(n))
		case len(lit) < minLiteral:
			bad(n.Line, "literal %q: shorter than %d bytes", lit, minLiteral)
		case len(lit) > maxLiteral:
			bad(n.Line, "literal %.40q…: longer than %d bytes", lit, maxLiteral)
		case strings.ContainsAny(lit, "\r\n\x00") || strings.ContainsRune(lit, utf8.RuneError):
			bad(n.Line, "literal %q: has a line break, a NUL or a replacement character", lit)
		case slices.Contains(literals, lit):
			bad(n.Line, "literal %q: given twice", lit)
		default:
			literals = append(literals, lit)
		}
	}
	return literals, sound
}

// summary checks that each {name} can be filled.
func summary(m mapping, r *Rule) {
	r.Summary = strings.TrimSpace(m.required("summary"))
	s, names, err := parseSentence(r.Summary)
	if err != nil {
		m.fail(m.at("summary"), fmt.Errorf("summary: %w", err))
		return
	}
	r.sentence = s
	if r.pattern == nil && m.fields["pattern"] != nil {
		return // it did not compile: its names are not known
	}
	if r.pattern != nil && r.pattern.re == nil {
		return // trusted: proved before
	}
	for _, name := range names {
		if !slices.Contains(speaker, name) && !r.captures(name) {
			m.fail(m.at("summary"), fmt.Errorf("summary: {%s} is not a capture of the pattern", name))
		}
	}
}
