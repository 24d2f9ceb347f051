package rules

import (
	"bytes"
	_ "embed" // for taxonomy.yaml
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Fault is the side that a failure is charged to.
type Fault string

// The sides of a fault.
const (
	FaultUser           Fault = "user"
	FaultInfrastructure Fault = "infrastructure"
	FaultUnknown        Fault = "unknown"
)

// Retry says whether running the same job again can help.
type Retry string

// The retry classes, from DESIGN.md and taxonomy.yaml.
const (
	RetryNever     Retry = "never"     // deterministic: it fails again until somebody changes something
	RetryOnce      Retry = "once"      // ambiguous: one retry confirms it
	RetryAlways    Retry = "always"    // transient: retry with back-off
	RetryElsewhere Retry = "elsewhere" // retry on other nodes
)

// Categories that the classifier names itself, because they stand for the absence of a signature.
const (
	CategoryNone        = "none"         // the job did not fail; not part of the taxonomy
	CategoryNoSignature = "no-signature" // it failed and nothing says why
	CategoryTraceback   = "traceback"    // an exception that no explicit signature explains
)

// Category is a failure reason of the taxonomy.
type Category struct {
	ID       string   `yaml:"id" json:"id"`
	Title    string   `yaml:"title" json:"title"`
	Sources  []string `yaml:"sources" json:"sources"`               // who can cause it: IF infrastructure, AE AI engine, U user
	Fault    Fault    `yaml:"fault" json:"fault"`                   // default; a rule can narrow it
	Retry    Retry    `yaml:"retry" json:"retry"`                   // default; a rule can narrow it
	Trials   int      `yaml:"trials" json:"trials,omitempty"`       // failed trials in the paper's Table 7
	RTFShare *float64 `yaml:"rtf_share" json:"rtf_share,omitempty"` // percent of total RTF in the paper's Table 7
	Implicit bool     `yaml:"implicit" json:"implicit,omitempty"`
	Philly   *string  `yaml:"philly" json:"philly,omitempty"` // the paper's reason that an extension is counted under
	Means    string   `yaml:"means" json:"means"`
}

// Taxonomy is the list of failure reasons, in the order of the paper's Table 7, later ones after it.
type Taxonomy struct {
	Categories []*Category
	byID       map[string]*Category
}

//go:embed taxonomy.yaml
var taxonomyYAML []byte

// defaultTaxonomy is the taxonomy that every Set refers to.
var defaultTaxonomy = sync.OnceValues(func() (*Taxonomy, error) { return parseTaxonomy(taxonomyYAML) })

// DefaultTaxonomy is the taxonomy that every Set refers to, without its rules.
func DefaultTaxonomy() (*Taxonomy, error) { return defaultTaxonomy() }

// Category finds a category by its id; nil where there is none.
func (t *Taxonomy) Category(id string) *Category { return t.byID[id] }

func parseTaxonomy(data []byte) (*Taxonomy, error) {
	var file struct {
		Categories []*Category `yaml:"categories"`
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("taxonomy.yaml: %w", err)
	}
	t := &Taxonomy{Categories: file.Categories, byID: make(map[string]*Category)}
	var errs []error
	for i, c := range t.Categories {
		if c == nil {
			return nil, fmt.Errorf("taxonomy.yaml: category %d is empty", i+1)
		}
		if t.byID[c.ID] != nil {
			errs = append(errs, fmt.Errorf("taxonomy.yaml: %s: listed twice", c.ID))
		}
		t.byID[c.ID] = c
	}
	for _, c := range t.Categories {
		if err := t.check(c); err != nil {
			errs = append(errs, fmt.Errorf("taxonomy.yaml: %s: %w", c.ID, err))
		}
	}
	for _, id := range []string{CategoryNoSignature, CategoryTraceback} {
		if t.byID[id] == nil {
			errs = append(errs, fmt.Errorf("taxonomy.yaml: %s: missing, the classifier needs it", id))
		}
	}
	return t, errors.Join(errs...)
}

func (t *Taxonomy) check(c *Category) error {
	switch {
	case !kebab(c.ID) || c.ID == CategoryNone:
		return errors.New("not a category id: lower-case words joined by hyphens, other than none")
	case c.Title == "" || c.Means == "":
		return errors.New("title and means are required")
	case !c.Fault.valid():
		return fmt.Errorf("unknown fault %q", c.Fault)
	case !c.Retry.valid():
		return fmt.Errorf("unknown retry %q", c.Retry)
	case c.Philly != nil && t.byID[*c.Philly] == nil:
		return fmt.Errorf("philly names the unknown category %q", *c.Philly)
	case c.Trials < 0 || c.RTFShare != nil && (*c.RTFShare < 0 || *c.RTFShare > 100):
		return errors.New("trials or rtf_share out of range")
	}
	for _, s := range c.Sources {
		if s != "IF" && s != "AE" && s != "U" {
			return fmt.Errorf("unknown source %q: IF, AE or U", s)
		}
	}
	return nil
}

func (f Fault) valid() bool {
	return f == FaultUser || f == FaultInfrastructure || f == FaultUnknown
}

func (r Retry) valid() bool {
	return r == RetryNever || r == RetryOnce || r == RetryAlways || r == RetryElsewhere
}

// kebab tells whether s is lower-case words and numbers joined by single hyphens.
func kebab(s string) bool {
	for word := range strings.SplitSeq(s, "-") {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			return false
		}
	}
	return true
}
