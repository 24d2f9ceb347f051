package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"culprit/corpus"
)

// rect is a part of a chart; all numbers are percent.
type rect struct {
	Class               string
	X, Y, Width, Height float64
}

// spark is a spark line of bars.
func spark(counts []int) (list []rect) {
	most := slices.Max(append([]int{1}, counts...))
	width := 100 / float64(max(1, len(counts)))
	for i, n := range counts {
		if n == 0 {
			continue
		}
		height := max(8, 100*float64(n)/float64(most))
		list = append(list, rect{X: float64(i) * width, Width: width * 0.8, Y: 100 - height, Height: height})
	}
	return list
}

// overTime is a chart of what was lost over time, stacked by fault.
type overTime struct {
	Unit, Step string // of the values, and of the parts
	Most       string // what the top stands for
	From, To   string
	Columns    []column
}

// column is a part of the time.
type column struct {
	Title    string
	Link     string
	X, Width float64
	Rects    []rect
}

// newOverTime returns nil where there are not even two parts to compare.
func newOverTime(s corpus.Series, byAttempts bool, linkTo func(from, to string) string) *overTime {
	if len(s.Parts) < 2 {
		return nil
	}
	value := func(p corpus.Part, fault string) float64 {
		if byAttempts {
			return float64(p.Attempts[fault])
		}
		return p.GPUSeconds[fault]
	}
	say := func(v float64) string { return gpuHours(v) + " GPU hours" }
	v := &overTime{Unit: "GPU hours", Step: stepWord(s.Step)}
	if byAttempts {
		v.Unit = "attempts"
		say = func(v float64) string { return count(int64(v)) + " attempts" }
	}
	sum := func(p corpus.Part) (sum float64) {
		for _, fault := range faults {
			sum += value(p, fault)
		}
		return sum
	}
	var most float64
	for _, p := range s.Parts {
		most = max(most, sum(p))
	}
	width := 100 / float64(len(s.Parts))
	for i, p := range s.Parts {
		c := column{X: float64(i) * width, Width: width, Link: linkTo(p.From.Format(time.RFC3339), p.To.Format(time.RFC3339))}
		top := 100.0
		words := []string{}
		for _, fault := range faults {
			if n := value(p, fault); n > 0 {
				height := 100 * n / most
				top -= height
				c.Rects = append(c.Rects, rect{fault, c.X + width*0.1, top, width * 0.8, height})
				words = append(words, fmt.Sprintf("%s %s", fault, say(n)))
			}
		}
		c.Title = partWord(p.From, s.Step) + ": " + strings.Join(append([]string{say(sum(p))}, words...), ", ")
		v.Columns = append(v.Columns, c)
	}
	v.Most = say(most)
	v.From, v.To = partWord(s.Parts[0].From, s.Step), partWord(s.Parts[len(s.Parts)-1].From, s.Step)
	return v
}

func stepWord(step time.Duration) string {
	switch hours := int(step.Hours()); {
	case hours == 1:
		return "hour"
	case hours < 24:
		return fmt.Sprintf("%d hours", hours)
	case hours == 24:
		return "day"
	case hours == 7*24:
		return "week"
	default:
		return fmt.Sprintf("%d weeks", hours/(7*24))
	}
}

func partWord(from time.Time, step time.Duration) string {
	if step < 24*time.Hour {
		return from.Format("2006-01-02 15:04")
	}
	return from.Format(time.DateOnly)
}
