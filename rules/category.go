package rules

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
