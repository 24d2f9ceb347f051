package web

import (
	"fmt"
	"slices"
	"time"

	"culprit/classifier"
)

// timeline shows which rank or node said what first. A mark's place is its time where all of them have one that is
// complete, else its line.
type timeline struct {
	ByTime     bool
	From, To   string // what the ends stand for
	Lanes      []lane
	More       int // lanes that are left out
	start, end float64
}

// lane is one who speaks.
type lane struct {
	Who   string
	Marks []mark
}

// mark is a line of the verdict. X and the rest are for SVG.
type mark struct {
	Kind  string  // root, cascade, other
	X     float64 // percent
	Title string
	Link  string
}

const maxLanes = 16

// newTimeline returns nil where there are fewer than two lines or one place for all of them.
func newTimeline(v verdictView) *timeline {
	if v.Root == nil || len(v.Cascade)+len(v.Others) == 0 {
		return nil
	}
	all := slices.Concat([]evidenceView{*v.Root}, v.Cascade, v.Others)
	t := &timeline{ByTime: !slices.ContainsFunc(all, func(e evidenceView) bool { return e.Time == nil })}
	if !t.ByTime && slices.ContainsFunc(all, func(e evidenceView) bool { return e.File != all[0].File }) {
		return nil // lines of several files have no order
	}
	t.measure(all)
	if t.end == t.start {
		if !t.ByTime {
			return nil
		}
		t.ByTime = false
		if t.measure(all); t.end == t.start {
			return nil
		}
	}
	for i, e := range all {
		kind := "cascade"
		if i == 0 {
			kind = "root"
		} else if i > len(v.Cascade) {
			kind = "other"
		}
		t.add(kind, e)
	}
	if len(t.Lanes) > maxLanes {
		t.More, t.Lanes = len(t.Lanes)-maxLanes, t.Lanes[:maxLanes]
	}
	return t
}

func (t *timeline) place(e classifier.Evidence) float64 {
	if t.ByTime {
		return float64(e.Time.UnixMilli()) / 1000
	}
	return float64(e.Line)
}

// measure finds the ends.
func (t *timeline) measure(all []evidenceView) {
	t.start, t.end = t.place(all[0].Evidence), t.place(all[0].Evidence)
	for _, e := range all {
		t.start, t.end = min(t.start, t.place(e.Evidence)), max(t.end, t.place(e.Evidence))
	}
	if t.ByTime {
		t.From, t.To = time.UnixMilli(int64(t.start*1000)).UTC().Format(time.TimeOnly), "+ "+duration(t.end-t.start)
		return
	}
	t.From, t.To = "line "+count(int64(t.start)), "line "+count(int64(t.end))
}

func (t *timeline) add(kind string, e evidenceView) {
	who := speaker(e.Evidence)
	i := slices.IndexFunc(t.Lanes, func(l lane) bool { return l.Who == who })
	if i < 0 {
		i = len(t.Lanes)
		t.Lanes = append(t.Lanes, lane{Who: who})
	}
	const edge = 2.5 // percent, so that marks at the ends are whole
	x := edge + (100-2*edge)*(t.place(e.Evidence)-t.start)/(t.end-t.start)
	title := fmt.Sprintf("line %d", e.Line)
	if e.Rule != "" {
		title += ": " + e.Rule
	}
	if e.Time != nil {
		title += ", " + e.Time.UTC().Format("15:04:05.000")
	}
	t.Lanes[i].Marks = append(t.Lanes[i].Marks, mark{kind, x, title, e.Link})
}

func speaker(e classifier.Evidence) string {
	switch {
	case e.Rank != "" && e.Node != "":
		return "rank " + e.Rank + ", " + e.Node
	case e.Rank != "":
		return "rank " + e.Rank
	case e.Node != "":
		return e.Node
	case e.File != "":
		return e.File
	}
	return "the log"
}
