package corpus

import (
	"cmp"
	"context"
	"time"
)

// Series is what was lost over time, in parts of equal length.
type Series struct {
	From  time.Time     // when the first part begins
	Step  time.Duration // a whole number of hours or of days
	Parts []Part
}

// Part is what ended in one part of the time.
type Part struct {
	From, To   time.Time
	GPUSeconds map[string]float64 // by fault
	Attempts   map[string]int     // by fault
}

// steps are the lengths that a part can have.
var steps = []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 364 * 24 * time.Hour}

// OverTime counts the attempts that pass the filter over time, in at most most parts. Parts begin at whole steps in UTC.
func (c *Corpus) OverTime(ctx context.Context, filter Filter, most int) (Series, error) {
	jobs, err := c.jobsOf(ctx, &filter)
	if err != nil {
		return Series{}, err
	}
	f, err := c.current(ctx)
	if err != nil {
		return Series{}, err
	}
	defer f.mu.RUnlock()
	matches := f.matcher(&filter, jobs, cmp.Or(filter.Outcome, OutcomeFailed))
	var list []*fact
	var first, last int64
	for i := range f.list {
		r := &f.list[i]
		if !matches(r) {
			continue
		}
		if list = append(list, r); len(list) == 1 || r.ended < first {
			first = r.ended
		}
		last = max(last, r.ended)
	}
	if len(list) == 0 {
		return Series{}, nil
	}
	if !filter.Window.From.IsZero() {
		first = min(first, filter.Window.From.UnixMilli())
	}
	s := newSeries(time.UnixMilli(first), time.UnixMilli(last), most)
	side := f.sideOf()
	for _, r := range list {
		p := &s.Parts[time.UnixMilli(r.ended).Sub(s.From)/s.Step]
		p.GPUSeconds[sides[side(r.fault)]] += seconds(r.gpuTime())
		p.Attempts[sides[side(r.fault)]]++
	}
	return s, nil
}

// newSeries makes the parts from the one that holds first to the one that holds last.
func newSeries(first, last time.Time, most int) Series {
	s := Series{}
	for _, s.Step = range steps {
		s.From = first.UTC().Truncate(s.Step)
		if int(last.Sub(s.From)/s.Step)+1 <= most {
			break
		}
	}
	for at := s.From; !at.After(last); at = at.Add(s.Step) {
		s.Parts = append(s.Parts, Part{at, at.Add(s.Step), map[string]float64{}, map[string]int{}})
	}
	return s
}
