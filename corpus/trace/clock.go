package trace

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// unknownWords are how sources say that they do not know.
var unknownWords = []string{"", "unknown", "none", "null", "(null)", "n/a", "na", "nan", "nat", "-", "none assigned", "0"}

func unknown(s string) bool {
	return slices.Contains(unknownWords, strings.ToLower(strings.TrimSpace(s)))
}

var zonedLayouts = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 -0700",
	"2006-01-02T15:04:05-0700", "2006-01-02 15:04:05-0700"}

var localLayouts = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006/01/02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// moments returns what a time can mean: nothing for an unknown one, one moment as a rule, two where the zone's clock
// shows it twice. Numbers are seconds since 1970, or milliseconds where they are too large for that. gap says that the
// zone's clock never shows it.
func moments(s string, zone *time.Location) (list []time.Time, gap bool, err error) {
	if unknown(s) {
		return nil, false, nil
	}
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseFloat(s, 64); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) {
		if n > 1e11 {
			n /= 1000
		}
		if n < 0 || n > 1e11 {
			return nil, false, fmt.Errorf("%q is no time", s)
		}
		return []time.Time{time.UnixMilli(int64(math.Round(n * 1000))).UTC()}, false, nil
	}
	for _, layout := range zonedLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return []time.Time{t.UTC()}, false, nil
		}
	}
	for _, layout := range localLayouts {
		if wall, err := time.Parse(layout, s); err == nil {
			list, gap = inZone(wall, zone)
			return list, gap, nil
		}
	}
	return nil, false, fmt.Errorf("%q is no time", s)
}

// inZone returns the moments at which the zone's clock shows wall, the earlier one first.
func inZone(wall time.Time, zone *time.Location) (list []time.Time, gap bool) {
	_, before := wall.Add(-25 * time.Hour).In(zone).Zone()
	_, after := wall.Add(25 * time.Hour).In(zone).Zone()
	for _, offset := range []int{max(before, after), min(before, after)} {
		t := wall.Add(-time.Duration(offset) * time.Second)
		if _, is := t.In(zone).Zone(); is == offset && !(len(list) == 1 && list[0].Equal(t)) {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return []time.Time{wall.Add(-time.Duration(before) * time.Second)}, true
	}
	return list, false
}

// setTimes reads when an attempt was submitted, started and ended. elapsed, where not negative, is the source's own word
// for its runtime and decides between two meanings of a time.
func (r *Record) setTimes(zone *time.Location, submitted, start, end string, elapsed time.Duration) error {
	subs, gap1, err := moments(submitted, zone)
	if err != nil {
		return err
	}
	starts, gap2, err := moments(start, zone)
	if err != nil {
		return err
	}
	ends, gap3, err := moments(end, zone)
	if err != nil {
		return err
	}
	if gap1 || gap2 || gap3 {
		r.note(noteSkippedHour)
	}
	if len(subs) > 1 || len(starts) > 1 || len(ends) > 1 {
		r.note(noteAmbiguous)
	}
	a := &r.Attempt
	a.Start, a.End = span(starts, ends, elapsed)
	for _, t := range subs { // the latest that is not after the start
		if a.Submitted == nil || a.Start != nil && !t.After(*a.Start) {
			a.Submitted = &t
		}
	}
	return nil
}

// span chooses start and end: as far apart as elapsed, else the least that is not negative, the earliest of equals.
func span(starts, ends []time.Time, elapsed time.Duration) (start, end *time.Time) {
	if len(starts) > 0 {
		start = &starts[0]
	}
	if len(ends) > 0 {
		end = &ends[0]
	}
	if start == nil || end == nil {
		return start, end
	}
	best := misfit(end.Sub(*start), elapsed)
	for i := range starts {
		for j := range ends {
			if m := misfit(ends[j].Sub(starts[i]), elapsed); m < best {
				best, start, end = m, &starts[i], &ends[j]
			}
		}
	}
	return start, end
}

// misfit says how badly a runtime fits: less is better, negative runtimes are worst.
func misfit(runtime, elapsed time.Duration) time.Duration {
	switch {
	case runtime < 0:
		return math.MaxInt64/2 - runtime
	case elapsed >= 0:
		return (runtime - elapsed).Abs()
	}
	return runtime
}
