package classifier

import (
	"context"
	"io"
	"iter"
	"runtime"

	"culprit/rules"
)

// Log is one named stream of an attempt: the stderr of the whole job, or of one rank.
type Log struct {
	Name   string // file name or rank; empty for an attempt with one log
	Reader io.Reader
}

// Classifier reads logs with one set of rules. It is safe for concurrent use.
type Classifier struct {
	set    *rules.Set
	filter *filter
	cores  chan struct{} // a place for each core that scans pieces of large logs
	gates  int           // how many of the filter's literals are the rules'; "checkpoint" follows, then what opens a block
}

// New prepares a classifier for a set of rules.
func New(set *rules.Set) *Classifier {
	gates := append([]rules.Gate{}, set.Gates()...)
	n := len(gates)
	gates = append(gates, rules.Gate{Literal: "checkpoint", Fold: true})
	for _, text := range blockOpeners {
		gates = append(gates, rules.Gate{Literal: text})
	}
	return &Classifier{set: set, filter: newFilter(gates, commonWord), gates: n, cores: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// Rules returns the set that the classifier was made with.
func (c *Classifier) Rules() *rules.Set { return c.set }

// Classify reads the logs of one attempt, each to its end, and says why the attempt failed.
//
// It makes one pass; memory does not grow with the log. Lines count from 1 and offsets are in bytes, both in the
// log as received. Logs that no rule knows are no error: their category is no-signature, or none where the exit
// code is 0. The error is that of reading logs, or ctx's.
func (c *Classifier) Classify(ctx context.Context, exit Exit, logs iter.Seq2[Log, error]) (Verdict, error) {
	return c.ClassifyLate(ctx, func() Exit { return exit }, logs)
}

// ClassifyLate is Classify where the exit may arrive with the logs: it is asked for once, when they have been read.
func (c *Classifier) ClassifyLate(ctx context.Context, exit func() Exit, logs iter.Seq2[Log, error]) (Verdict, error) {
	a := &attempt{}
	for log, err := range logs {
		if err != nil {
			return Verdict{}, err
		}
		if err := c.scan(ctx, a, log); err != nil {
			return Verdict{}, err
		}
	}
	known := exit()
	return c.verdict(a, known, a.resolve(known)), nil
}

// One makes the sequence of a single log, as Classify takes it.
func One(log Log) iter.Seq2[Log, error] {
	return func(yield func(Log, error) bool) { yield(log, nil) }
}
