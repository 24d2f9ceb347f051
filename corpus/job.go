package corpus

import (
	"errors"
	"fmt"
	"time"

	"culprit/classifier"
)

// Errors that callers tell apart. They are wrapped; use errors.Is.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("conflicts with what is kept") // every ConflictError is one
	ErrFull     = errors.New("the disk is full")            // nothing of the request was kept
	ErrReadOnly = errors.New("the corpus is open for reading only")
)

// FieldError says that a field that was sent cannot be right. Field is its name in JSON.
type FieldError struct{ Field, Problem string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// ConflictError says which field of an attempt contradicts what is kept under the same identity. It is an ErrConflict.
type ConflictError struct{ Field, Problem string }

func (e *ConflictError) Error() string { return e.Field + ": " + e.Problem }

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Attempt is one run of a job, with its verdict.
//
// It is identified by cluster, job and run id where the scheduler gives one, else by cluster, job and number. Strings
// that are empty, numbers that are 0 and times that are nil are unknown. Times are kept to the millisecond.
type Attempt struct {
	ID              int64      `json:"id"`
	Cluster         string     `json:"cluster,omitempty"`
	Job             string     `json:"job"`              // the scheduler's id of the job
	Number          int        `json:"attempt"`          // from 1: which run of the job; 0 on Add: see Add
	RunID           string     `json:"run_id,omitempty"` // the scheduler's unique id of this run, such as Slurm's SLUID
	Name            string     `json:"name,omitempty"`
	User            string     `json:"user,omitempty"` // of the job: all its attempts have the same
	VC              string     `json:"vc,omitempty"`   // virtual cluster: account, queue, namespace
	GPUs            int        `json:"gpus"`
	GPUType         string     `json:"gpu_type,omitempty"`
	Nodes           []string   `json:"nodes,omitempty"`
	Submitted       *time.Time `json:"submitted,omitempty"`
	Start           *time.Time `json:"start,omitempty"`
	End             *time.Time `json:"end,omitempty"`
	classifier.Exit            // exit_code, signal, state, reason
	CostClass       string     `json:"cost_class,omitempty"`

	// What follows is the corpus's own: Add ignores it in what it is given, except Verdict.

	RTFSeconds float64            `json:"rtf_s"` // end - start; 0 where either is unknown
	GPUSeconds float64            `json:"gpu_s"` // RTF × GPUs
	Logs       []LogFile          `json:"logs"`
	Verdict    classifier.Verdict `json:"verdict"`
	Created    time.Time          `json:"created"`
}

// LogFile is one kept log of an attempt.
type LogFile struct {
	Name   string `json:"name"`   // as sent: a file name or rank; empty for an attempt with one log without a name
	Digest string `json:"digest"` // sha-256 of the text, in hex
	Bytes  int64  `json:"bytes"`  // of the text
	Lines  int64  `json:"lines"`  // a last line without \n counts
}

// Window is half open: From ≤ t < To. A zero time is no bound.
type Window struct{ From, To time.Time }

// Outcome says which attempts a filter lets through.
type Outcome string

// The outcomes. The empty one is all of them in Attempts and failed in Waste.
const (
	OutcomeAll    Outcome = "all"
	OutcomeFailed Outcome = "failed" // the verdict's category is not none
	OutcomePassed Outcome = "passed"
)

// Filter chooses attempts. Values of one list are alternatives, the lists are all required; an empty list lets
// everything through.
type Filter struct {
	Categories, Faults, Retries, Rules, Fingerprints []string
	Clusters, Jobs, Users, VCs, GPUTypes, Nodes      []string

	Window  Window // by the attempt's end, or the time it was kept where it has none
	MinGPUs int
	Outcome Outcome

	// Sort is a key of sorts: end, id, rtf_s or gpu_s, with - before it for descending. Empty: -end. Attempts only.
	Sort string
	// Limit is the most attempts of a page, 0 for 50, at most 1,000. In Waste the most rows, 0 for all of them.
	Limit int
	// Cursor is Page.Next of the page before, with the same filter. Attempts only.
	Cursor string
	// Zone is where hours, days, weeks and months begin; nil is UTC. Waste only.
	Zone *time.Location
}

// Page is a part of a list of attempts.
type Page struct {
	Attempts []Attempt `json:"attempts"`
	Next     string    `json:"next,omitempty"` // cursor of the next page; empty on the last
	Total    int64     `json:"total"`          // of the whole list
}

// Hits is a part of the attempts that a search found.
type Hits struct {
	Hits  []Hit  `json:"hits"`
	Next  string `json:"next,omitempty"` // cursor of the next page; empty on the last
	Total int64  `json:"total"`
	// Unindexed is how many attempts the index has not read yet: they cannot be among the hits.
	Unindexed int64 `json:"unindexed"`
}

// Hit is an attempt that a search found.
type Hit struct {
	Attempt  Attempt   `json:"attempt"`
	Excerpts []Excerpt `json:"excerpts"` // the root cause's line first, then lines that the words are in; at most 5
}

// Excerpt is a line of a kept log, or the part of it around the first mark.
type Excerpt struct {
	File  string   `json:"file"`
	Line  int64    `json:"line"`
	Text  string   `json:"text"`  // valid UTF-8, without ANSI codes, at most 300 bytes or so
	Marks [][2]int `json:"marks"` // byte ranges of Text that the query's words matched, ascending
}

// Grouping is what the rows of a report stand for.
type Grouping string

// The groupings.
const (
	ByCategory    Grouping = "category"
	ByFault       Grouping = "fault"
	ByRetry       Grouping = "retry"
	ByUser        Grouping = "user"
	ByVC          Grouping = "vc"
	ByNode        Grouping = "node"
	ByGPUType     Grouping = "gpu_type"
	ByRule        Grouping = "rule"
	ByFingerprint Grouping = "fingerprint"
	ByCluster     Grouping = "cluster"
	ByHour        Grouping = "hour"
	ByDay         Grouping = "day"
	ByWeek        Grouping = "week"
	ByMonth       Grouping = "month"
)

// Groupings are all of them, in the order in which a choice shows them.
var Groupings = []Grouping{ByCategory, ByFault, ByRetry, ByUser, ByVC, ByNode, ByGPUType, ByRule, ByFingerprint, ByCluster,
	ByHour, ByDay, ByWeek, ByMonth}

// Report is where the GPU time went.
type Report struct {
	By     Grouping   `json:"by"`
	From   *time.Time `json:"from,omitempty"`
	To     *time.Time `json:"to,omitempty"`
	Rows   []WasteRow `json:"rows"`
	Groups int        `json:"groups"` // rows there are; more than len(Rows) where Filter.Limit cut them
	Total  WasteRow   `json:"total"`  // over all groups; its Key is empty
}

// WasteRow is one group of a report. Percentiles are exact, by nearest rank, over the attempts whose RTF is known.
type WasteRow struct {
	Key        string  `json:"key"`             // empty: the attempts that have no value
	Title      string  `json:"title,omitempty"` // the category's title, a fingerprint's latest summary
	Fault      string  `json:"fault,omitempty"` // of most of the group's attempts
	Attempts   int     `json:"attempts"`
	Jobs       int     `json:"jobs"`
	Users      int     `json:"users"`
	RTFp50     float64 `json:"rtf_p50_s"`
	RTFp90     float64 `json:"rtf_p90_s"`
	RTFp95     float64 `json:"rtf_p95_s"`
	RTFTotal   float64 `json:"rtf_total_s"`
	RTFShare   float64 `json:"rtf_share"` // 0 to 1, of the report's total
	GPU1       int     `json:"gpus_1"`    // attempts that asked for at most one GPU
	GPU2to4    int     `json:"gpus_2_4"`
	GPUOver4   int     `json:"gpus_over_4"`
	GPUSeconds float64 `json:"gpu_s"`
	GPUShare   float64 `json:"gpu_share"` // 0 to 1, of the report's total
}

// GPUHours is the row's GPU time as people say it.
func (r WasteRow) GPUHours() float64 { return r.GPUSeconds / 3600 }

// Stats is the state of a corpus, for metrics, readiness and the status page.
type Stats struct {
	Attempts      int64 `json:"attempts"`
	Jobs          int64 `json:"jobs"`
	Logs          int64 `json:"logs"`           // distinct by content
	LogBytes      int64 `json:"log_bytes"`      // of their text
	StoredBytes   int64 `json:"stored_bytes"`   // of their compressed files
	DatabaseBytes int64 `json:"database_bytes"` // with its write-ahead log
	IndexBytes    int64 `json:"index_bytes"`

	IndexLagAttempts int64   `json:"index_lag_attempts"` // kept and not in the index yet
	IndexLagSeconds  float64 `json:"index_lag_s"`        // age of the oldest of them
	Rebuilding       bool    `json:"rebuilding"`         // the index is being built from the start
	IndexError       string  `json:"index_error,omitempty"`
}

func conflict(field, format string, args ...any) error {
	return &ConflictError{field, fmt.Sprintf(format, args...)}
}

func invalid(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}
