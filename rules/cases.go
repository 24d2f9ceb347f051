package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Cases are the cases of all packs, by rule.
type Cases struct {
	Rules []RuleCases // in load order
}

// RuleCases are the cases of one rule.
type RuleCases struct {
	Rule     string // id
	File     string
	Line     int
	Positive []Case // lines that the rule must match
	Negative []Case // near misses, which it must not match
}

// Case is one line and what a rule should make of it.
type Case struct {
	Text     string            // the line as it stands in a log
	Captures map[string]string // positive: what is worth checking of the captures
	Source   string            // where the line is from; empty: the rule's source
	Why      string            // negative: the reason that it must not match
	File     string
	Line     int
}

// Of finds the cases of a rule.
func (c Cases) Of(rule string) (RuleCases, bool) {
	for _, rc := range c.Rules {
		if rc.Rule == rule {
			return rc, true
		}
	}
	return RuleCases{}, false
}

// LoadCases reads the case files in the root of fsys: *_test.yaml. Its errors are all mistakes of all files, joined,
// each an *Error. It does not know the rules; Check and Lint hold cases against a set.
func LoadCases(fsys fs.FS) (Cases, error) { return loadCases(fsys, ".") }

func loadCases(fsys fs.FS, dir string) (Cases, error) {
	files, err := yamlFiles(fsys, dir)
	if err != nil {
		return Cases{}, err
	}
	l := caseLoader{seen: make(map[string]string)}
	for _, file := range files {
		if isCaseFile(file) {
			l.file(fsys, file)
		}
	}
	return l.cases, l.problems.join()
}

type caseLoader struct {
	cases    Cases
	seen     map[string]string // where the cases of a rule stand
	problems problems
}

func (l *caseLoader) file(fsys fs.FS, file string) {
	root := document(fsys, file, &l.problems)
	if root == nil {
		return
	}
	if root.Kind != yaml.MappingNode {
		l.problems.add(file, root.Line, "", fmt.Errorf("a case file maps rules to their cases (id: …), this is %s", describe(root)))
		return
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if l.problems.tooMany(file, root.Content[i].Line) {
			return
		}
		l.rule(file, root.Content[i], root.Content[i+1])
	}
}

func (l *caseLoader) rule(file string, key, value *yaml.Node) {
	id := key.Value
	if first := l.seen[id]; first != "" {
		l.problems.add(file, key.Line, id, fmt.Errorf("has cases at %s already", first))
		return
	}
	l.seen[id] = fmt.Sprintf("%s:%d", file, key.Line)
	m := newMapping(file, value, id, &l.problems, "positive", "negative")
	rc := RuleCases{Rule: id, File: file, Line: key.Line}
	for _, n := range m.list("positive") {
		rc.Positive = append(rc.Positive, l.one(file, id, n, "line", "captures", "source"))
	}
	for _, n := range m.list("negative") {
		rc.Negative = append(rc.Negative, l.one(file, id, n, "line", "why", "source"))
	}
	l.cases.Rules = append(l.cases.Rules, rc)
}

func (l *caseLoader) one(file, id string, n *yaml.Node, known ...string) Case {
	m := newMapping(file, n, id, &l.problems, known...)
	if n.Kind != yaml.MappingNode {
		return Case{}
	}
	c := Case{Text: m.required("line"), Source: m.text("source"), Why: m.text("why"), File: file, Line: n.Line}
	if strings.ContainsAny(c.Text, "\r\n") {
		m.fail(m.at("line"), errors.New("line: a case is one line"))
	}
	c.Captures = m.texts("captures")
	return c
}

// texts reads a mapping of names to scalars.
func (m mapping) texts(name string) map[string]string {
	n := m.fields[name]
	if n == nil || isNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		m.fail(n.Line, fmt.Errorf("%s: wants names and texts, has %s", name, describe(n)))
		return nil
	}
	texts := make(map[string]string)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			m.fail(value.Line, fmt.Errorf("%s: %s: wants a text, has %s", name, key.Value, describe(value)))
			continue
		}
		texts[key.Value] = value.Value
	}
	return texts
}

// Failure is a case that a rule does not meet.
type Failure struct {
	File  string
	Line  int
	Rule  string
	Input string
	Got   string
	Want  string
}

// String prints the failure with its place, over several lines.
func (f Failure) String() string {
	return fmt.Sprintf("%s:%d: %s\n  line: %s\n  got:  %s\n  want: %s", f.File, f.Line, f.Rule, f.Input, f.Got, f.Want)
}

// Check holds a set against its cases and returns those that fail, in the order of the cases.
func Check(set *Set, cases Cases) []Failure {
	var failures []Failure
	for _, rc := range cases.Rules {
		r, ok := set.Rule(rc.Rule)
		if !ok {
			failures = append(failures, Failure{rc.File, rc.Line, rc.Rule, "", "no such rule", "a rule with this id"})
			continue
		}
		for _, c := range rc.Positive {
			if got, ok := checkPositive(r, c); !ok {
				failures = append(failures, Failure{c.File, c.Line, r.ID, c.Text, got, wanted(c)})
			}
		}
		for _, c := range rc.Negative {
			if m, ok, err := r.Match(c.Text); ok || err != nil {
				failures = append(failures, Failure{c.File, c.Line, r.ID, c.Text, outcome(c.Text, m, ok, err), "no match: " + c.Why})
			}
		}
	}
	return failures
}

func checkPositive(r *Rule, c Case) (got string, ok bool) {
	m, matched, err := r.Match(c.Text)
	ok = matched && err == nil
	for name, want := range c.Captures {
		value, there := m.Captures[name]
		ok = ok && value == want && (there || want == "")
	}
	return outcome(c.Text, m, matched, err), ok
}

func wanted(c Case) string {
	if len(c.Captures) == 0 {
		return "a match"
	}
	return "a match with " + captureText(c.Captures)
}

func outcome(line string, m Match, ok bool, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case !ok:
		return "no match"
	case len(m.Captures) == 0:
		return fmt.Sprintf("a match of %q", line[m.Start:m.End])
	}
	return fmt.Sprintf("a match of %q with %s", line[m.Start:m.End], captureText(m.Captures))
}

func captureText(captures map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(captures)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, captures[name]))
	}
	return strings.Join(parts, " ")
}
