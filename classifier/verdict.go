package classifier

import (
	"time"

	"culprit/rules"
)

// Verdict says why an attempt failed. Its JSON is a contract with every client: fields are added, never changed.
type Verdict struct {
	File         string      `json:"file,omitempty"` // set by `culprit classify` only
	Category     string      `json:"category"`       // an id of the taxonomy, or none
	Title        string      `json:"title"`
	Fault        rules.Fault `json:"fault"`
	Retry        rules.Retry `json:"retry"`
	Rule         string      `json:"rule,omitempty"` // the rule of the root cause; empty where exit or silence decided
	Confidence   float64     `json:"confidence"`     // 0 to 1
	Summary      string      `json:"summary"`
	Advice       string      `json:"advice"`
	Root         *Evidence   `json:"root,omitempty"`        // nil where no line proves the verdict
	Cascade      []Evidence  `json:"cascade"`               // what followed from the root cause, in order of the log; capped
	Others       []Evidence  `json:"others,omitempty"`      // causes that the root cause does not explain
	Fingerprint  string      `json:"fingerprint,omitempty"` // 12 hex digits
	Progress     Progress    `json:"progress"`
	RulesVersion string      `json:"rules_version"`
	Bytes        int64       `json:"bytes"` // of all logs as received
	Lines        int64       `json:"lines"`
}

// Evidence is a line of a log that a rule matched.
type Evidence struct {
	Rule     string            `json:"rule,omitempty"`
	Category string            `json:"category,omitempty"`
	File     string            `json:"file,omitempty"` // the log's name where an attempt has several
	Line     int64             `json:"line"`           // from 1, as an editor counts
	Offset   int64             `json:"offset"`         // bytes from the start of the log as received to the start of the line
	Text     string            `json:"text"`           // the line as it stands in the log, ANSI codes removed, at most 4 KB
	Rank     string            `json:"rank,omitempty"`
	Node     string            `json:"node,omitempty"`
	Time     *time.Time        `json:"time,omitempty"` // nil where the line carries none that is complete
	Captures map[string]string `json:"captures,omitempty"`
}

// Progress is how far the attempt had come before it failed.
type Progress struct {
	LastLine       int64  `json:"last_line"` // the last line of progress before the root cause; 0 where there is none
	Step           *int64 `json:"step,omitempty"`
	CheckpointStep *int64 `json:"checkpoint_step,omitempty"`
}
