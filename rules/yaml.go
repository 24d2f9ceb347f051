package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document reads one file into its root node; nil for a file without one. Aliases, which can make a small file a
// huge one, are refused.
func document(fsys fs.FS, file string, problems *problems) *yaml.Node {
	data, err := readFile(fsys, file)
	if err != nil {
		problems.add(file, 0, "", err)
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		line, text := yamlError(err)
		problems.add(file, line, "", errors.New(text))
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	if alias := findAlias(&doc); alias != nil {
		problems.add(file, alias.Line, "", errors.New("aliases (*name) are not allowed: write the value out"))
		return nil
	}
	return doc.Content[0]
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlError takes the line out of an error of the parser.
func yamlError(err error) (line int, text string) {
	text = err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // absent: 0
		text = text[len(m[0]):]
	}
	return line, "not YAML: " + text
}

func findAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n
	}
	for _, c := range n.Content {
		if a := findAlias(c); a != nil {
			return a
		}
	}
	return nil
}

// mapping reads a node's fields one by one and collects what is wrong with them.
type mapping struct {
	file     string
	rule     string // for messages
	line     int
	problems *problems
	fields   map[string]*yaml.Node
}

// newMapping checks that a node is a mapping of known fields, each there once. Its problems are reported without a
// rule's id until rule is set.
func newMapping(file string, n *yaml.Node, rule string, problems *problems, known ...string) mapping {
	m := mapping{file: file, rule: rule, line: n.Line, problems: problems, fields: make(map[string]*yaml.Node)}
	if n.Kind != yaml.MappingNode {
		m.fail(n.Line, fmt.Errorf("wants fields (%s …), has %s", known[0], describe(n)))
		return m
	}
	if m.rule == "" {
		m.rule = peekID(n)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case m.fields[key.Value] != nil:
			m.fail(key.Line, fmt.Errorf("field %s is given twice", key.Value))
		case !slices.Contains(known, key.Value):
			m.fail(key.Line, fmt.Errorf("unknown field %q: known are %s", key.Value, strings.Join(known, ", ")))
		default:
			m.fields[key.Value] = value
		}
	}
	return m
}

// peekID finds a mapping's id before its fields are checked, so that each message can name it.
func peekID(n *yaml.Node) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "id" && n.Content[i+1].Kind == yaml.ScalarNode {
			return n.Content[i+1].Value
		}
	}
	return ""
}

func (m mapping) fail(line int, err error) { m.problems.add(m.file, line, m.rule, err) }

// at is the line of a field, or of the mapping where it is absent.
func (m mapping) at(name string) int {
	if n := m.fields[name]; n != nil {
		return n.Line
	}
	return m.line
}

// text reads a scalar as it is written: 1 is "1". Absent and null are "".
func (m mapping) text(name string) string {
	n := m.fields[name]
	if n == nil || isNull(n) {
		return ""
	}
	if n.Kind != yaml.ScalarNode {
		m.fail(n.Line, fmt.Errorf("%s: wants a text, has %s", name, describe(n)))
		return ""
	}
	return n.Value
}

// required is text that must be there. The line tells a blank field from an absent one.
func (m mapping) required(name string) string {
	n := m.fields[name]
	s := m.text(name)
	if strings.TrimSpace(s) == "" && (n == nil || n.Kind == yaml.ScalarNode) {
		m.fail(m.at(name), fmt.Errorf("%s is missing", name))
	}
	return s
}

func (m mapping) flag(name string) bool {
	n := m.fields[name]
	if n == nil {
		return false
	}
	var b bool
	if n.Kind != yaml.ScalarNode || n.Decode(&b) != nil {
		m.fail(n.Line, fmt.Errorf("%s: wants true or false, has %s", name, describe(n)))
	}
	return b
}

// list reads the elements of a list of texts, with their nodes for messages.
func (m mapping) list(name string) []*yaml.Node {
	n := m.fields[name]
	if n == nil || isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		m.fail(n.Line, fmt.Errorf("%s: wants a list, has %s", name, describe(n)))
		return nil
	}
	return n.Content
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "fields"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return fmt.Sprintf("%.40q", n.Value)
}
