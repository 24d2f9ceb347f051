// Package trace reads what schedulers and published traces tell of jobs: sacct and Slurm's job completion plugin, kubectl,
// the Philly and Acme traces, and tables of any kind whose columns are named.
//
// Every reader is a stream: it yields a Record for each attempt, and for what it leaves out a Skip that says why. What a
// source does not say stays unknown, and what cannot be right is taken out with a note; nothing is made up. Keeping the
// records is left to package corpus, judging them to package classifier.
package trace

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"culprit/corpus"
)

// Record is one attempt as a source tells it.
type Record struct {
	Attempt corpus.Attempt // without a verdict
	Notes   []string       // what was missing or could not be right, and what was made of it, in words that repeat
	Log     string         // path of its stderr on the machine that ran it; empty where unknown
	Owner   int            // user id of who ran it; -1 unknown. Whose file Log must be
}

// Skip is an entry that is left out. Reading goes on after it.
type Skip struct {
	Job    string // empty where the entry does not even say that
	Where  string // "line 12", "job 3"
	Reason string // in words that repeat, so that skips can be counted by it
	Err    error  // what is wrong in detail; may be nil
}

func (s *Skip) Error() string {
	text := s.Where
	if s.Job != "" {
		text += " (" + s.Job + ")"
	}
	text += ": " + s.Reason
	if s.Err != nil {
		text += ": " + s.Err.Error()
	}
	return text
}

// Unwrap returns what is wrong in detail.
func (s *Skip) Unwrap() error { return s.Err }

// The reasons of skips.
const (
	skipRunning   = "it has not ended; import again when it has"
	skipNeverRan  = "it never ran"
	skipNoJob     = "it names no job"
	skipMalformed = "it cannot be read"
)

// Options are what a source does not say of itself.
type Options struct {
	Zone    *time.Location    // of times without a zone; nil: the source's own, as each reader says
	Cluster string            // the cluster of all records, over what the source says
	Columns map[string]string // Table only: the source's column by our field; see Fields
	Now     time.Time         // ends after it are noted as clock skew; zero: the current time
}

func (o Options) zone(own *time.Location) *time.Location {
	if o.Zone != nil {
		return o.Zone
	}
	return own
}

// Reader reads one source to its end. An error that is no *Skip is the last.
type Reader func(r io.Reader, opt Options) iter.Seq2[Record, error]

// yielder hands out what a reader finds, each record put in order first.
type yielder struct {
	opt   Options
	now   time.Time
	yield func(Record, error) bool
}

func newYielder(opt Options, yield func(Record, error) bool) *yielder {
	now := opt.Now
	if now.IsZero() {
		now = time.Now()
	}
	return &yielder{opt, now, yield}
}

// give yields a record or the error instead of it, and says whether more is wanted.
func (y *yielder) give(where string, r Record, err error) bool {
	var skip *Skip
	switch {
	case errors.As(err, &skip):
		skip.Where = where
		return y.yield(Record{}, skip)
	case err != nil:
		return y.yield(Record{}, &Skip{Job: r.Attempt.Job, Where: where, Reason: skipMalformed, Err: err})
	}
	if r.Attempt.Job == "" {
		return y.yield(Record{}, &Skip{Where: where, Reason: skipNoJob})
	}
	if y.opt.Cluster != "" {
		r.Attempt.Cluster = y.opt.Cluster
	}
	r.tidy(y.now)
	return y.yield(r, nil)
}

func (r *Record) note(text string) { r.Notes = append(r.Notes, text) }

// The notes.
const (
	noteNoStart     = "no start: its runtime is unknown"
	noteNoEnd       = "no end: its runtime is unknown"
	noteEndFirst    = "it ends before it starts: its runtime is unknown"
	noteSubmitLate  = "it was submitted after it started, says the clock: the time of submission is left out"
	noteFuture      = "it ends in the future, says the clock"
	noteOldTime     = "a time before 1980 or after 2200 is left out"
	noteCode        = "its exit code is none: left out"
	noteNegative    = "a negative number of GPUs: left out"
	noteText        = "control characters, bytes that are no UTF-8 or what is over 1,024 bytes is left out of a text"
	noteAmbiguous   = "a time of the hour that the clock shows twice: read as the order of start and end has it, else as the first"
	noteSkippedHour = "a time of the hour that the clock leaves out: read as if it had not been moved"
	noteDuration    = "the source's duration is not end minus start: reckoned from start and end"
	noteAsked       = "GPUs as asked for: the source does not say what it got"
)

// tidy takes out what cannot be right, so that the corpus takes the rest.
func (r *Record) tidy(now time.Time) {
	a := &r.Attempt
	if a.GPUs < 0 {
		a.GPUs = 0
		r.note(noteNegative)
	}
	if a.Code != nil && (*a.Code < 0 || *a.Code > 255) {
		a.Code = nil
		r.note(noteCode)
	}
	r.tidyTexts()
	r.tidyTimes(now)
}

const maxText = 1024

func (r *Record) tidyTexts() {
	a := &r.Attempt
	changed := false
	for _, s := range []*string{&a.Cluster, &a.Job, &a.RunID, &a.Name, &a.User, &a.VC, &a.GPUType, &a.State, &a.Reason, &a.CostClass} {
		changed = tidyText(s) || changed
	}
	nodes := a.Nodes[:0]
	seen := map[string]bool{}
	for _, n := range a.Nodes {
		changed = tidyText(&n) || changed
		if n != "" && !seen[n] {
			nodes = append(nodes, n)
			seen[n] = true
		}
	}
	if a.Nodes = nodes; len(nodes) == 0 {
		a.Nodes = nil
	}
	if changed {
		r.note(noteText)
	}
}

// tidyText makes s a text that the corpus takes, and says whether it had to.
func tidyText(s *string) bool {
	clean := strings.TrimSpace(*s)
	clean = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || c == utf8.RuneError {
			return -1
		}
		return c
	}, clean)
	if len(clean) > maxText {
		clean = strings.ToValidUTF8(clean[:maxText], "")
	}
	changed := clean != strings.TrimSpace(*s)
	*s = clean
	return changed
}

func (r *Record) tidyTimes(now time.Time) {
	a := &r.Attempt
	for _, t := range []**time.Time{&a.Submitted, &a.Start, &a.End} {
		if *t != nil && ((*t).Year() < 1980 || (*t).Year() > 2200) {
			*t = nil
			r.note(noteOldTime)
		}
	}
	switch {
	case a.Start == nil:
		r.note(noteNoStart)
	case a.End == nil:
		r.note(noteNoEnd)
	case a.End.Before(*a.Start):
		a.Start = nil
		r.note(noteEndFirst)
	}
	if a.Submitted != nil && a.Start != nil && a.Submitted.After(*a.Start) {
		a.Submitted = nil
		r.note(noteSubmitLate)
	}
	if a.End != nil && a.End.After(now.Add(time.Minute)) {
		r.note(noteFuture)
	}
}

// where says which entry of a source is meant.
func where(kind string, n int) string { return fmt.Sprintf("%s %d", kind, n) }
