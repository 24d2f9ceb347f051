package classifier

import (
	"context"
	"io"
	"iter"

	"culprit/rules"
)

// Log is one named stream of an attempt: the stderr of the whole job, or of one rank.
type Log struct {
	Name   string // file name or rank; empty for an attempt with one log
	Reader io.Reader
}

// Classifier reads logs with one set of rules. It is safe for concurrent use.
type Classifier struct {
	set *rules.Set
}

// New prepares a classifier for a set of rules.
func New(set *rules.Set) *Classifier { return &Classifier{set: set} }

// Rules returns the set that the classifier was made with.
func (c *Classifier) Rules() *rules.Set { return c.set }

// Classify reads the logs of one attempt, each to its end, and says why the attempt failed.
//
// It makes one pass; memory does not grow with the log. Lines count from 1 and offsets are in bytes, both in the
// log as received. Logs that no rule knows are no error: their category is no-signature, or none where the exit
// code is 0. The error is that of reading logs, or ctx's.
func (c *Classifier) Classify(ctx context.Context, exit Exit, logs iter.Seq2[Log, error]) (Verdict, error) {
	return Verdict{}, nil
}
