// Package eval scores verdicts against a labelled corpus: how often category, fault, retry and root line are right, and
// how often a retry would have been blocked wrongly.
package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"culprit/classifier"
	"culprit/rules"
)

// Label is what an expert says of one log. Unknown fields are ignored: a corpus may say more.
type Label struct {
	ID       string      `json:"id"`
	File     string      `json:"file"` // path of the log, relative to the file of labels
	Category string      `json:"category"`
	Accept   []string    `json:"accept"` // categories that are as right
	Fault    rules.Fault `json:"fault"`
	Retry    rules.Retry `json:"retry"`
	Root     string      `json:"root"`      // part of the line that proves it; empty where no line does
	RootAlso []string    `json:"root_also"` // other lines that are as right
	ExitCode *int        `json:"exit_code"`
	State    string      `json:"state"`
	Reason   string      `json:"reason"`
}

// Outcome is a label beside the verdict on its log.
type Outcome struct {
	Label   Label
	Verdict classifier.Verdict
}

// LoadLabels reads one JSON object a line. Errors name file and line.
func LoadLabels(path string) ([]Label, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var labels []Label
	in := bufio.NewScanner(f)
	in.Buffer(nil, 4<<20)
	for n := 1; in.Scan(); n++ {
		if strings.TrimSpace(in.Text()) == "" {
			continue
		}
		var l Label
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if l.File == "" || l.Category == "" {
			return nil, fmt.Errorf("%s:%d: a label needs file and category", path, n)
		}
		labels = append(labels, l)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return labels, nil
}

// Run classifies the log of each label; dir is where the labels' paths start. each is called after each log.
func Run(ctx context.Context, c *classifier.Classifier, dir string, labels []Label, each func(Outcome)) error {
	for _, l := range labels {
		v, err := classify(ctx, c, filepath.Join(dir, filepath.FromSlash(l.File)), l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.File, err)
		}
		each(Outcome{Label: l, Verdict: v})
	}
	return nil
}

func classify(ctx context.Context, c *classifier.Classifier, path string, l Label) (classifier.Verdict, error) {
	f, err := os.Open(path)
	if err != nil {
		return classifier.Verdict{}, err
	}
	defer f.Close()
	exit := classifier.Exit{Code: l.ExitCode, State: l.State, Reason: l.Reason}
	return c.Classify(ctx, exit, classifier.One(classifier.Log{Reader: io.Reader(f)}))
}

// CategoryRight reports whether the category is the label's or one that it accepts.
func (o Outcome) CategoryRight() bool {
	return o.Verdict.Category == o.Label.Category || slices.Contains(o.Label.Accept, o.Verdict.Category)
}

// CategoryExact reports whether the category is the label's own.
func (o Outcome) CategoryExact() bool { return o.Verdict.Category == o.Label.Category }

// FaultRight reports whether the fault is the label's.
func (o Outcome) FaultRight() bool { return o.Verdict.Fault == o.Label.Fault }

// RetryRight reports whether the retry advice is the label's.
func (o Outcome) RetryRight() bool { return o.Verdict.Retry == o.Label.Retry }

// FalseStop reports whether a retry would have been blocked that the label allows.
func (o Outcome) FalseStop() bool {
	return o.Verdict.Retry == rules.RetryNever && o.Label.Retry != rules.RetryNever
}

// MissedStop reports whether a retry would have been allowed that the label rules out.
func (o Outcome) MissedStop() bool {
	return o.Verdict.Retry != rules.RetryNever && o.Label.Retry == rules.RetryNever
}

// RootRight reports whether the line of the root cause is one that the label names. Where the label names none, a
// verdict without a root line is right.
func (o Outcome) RootRight() bool {
	text := ""
	if o.Verdict.Root != nil {
		text = o.Verdict.Root.Text
	}
	if o.Label.Root == "" {
		return text == ""
	}
	for _, want := range append([]string{o.Label.Root}, o.Label.RootAlso...) {
		if want != "" && strings.Contains(text, want) {
			return true
		}
	}
	return false
}

// Scores are the figures over a corpus. Shares are between 0 and 1.
type Scores struct {
	Logs          int     `json:"logs"`
	Category      float64 `json:"category"`       // right or accepted
	CategoryExact float64 `json:"category_exact"` // the label's own
	MacroF1       float64 `json:"macro_f1"`       // over the categories that occur as labels; an accepted one counts as the label's
	Fault         float64 `json:"fault"`
	Retry         float64 `json:"retry"`
	Root          float64 `json:"root_line"`
	FalseStops    int     `json:"false_stops"`
	FalseStop     float64 `json:"false_stop"` // of the logs whose label allows a retry
	MissedStops   int     `json:"missed_stops"`
	MissedStop    float64 `json:"missed_stop"` // of the logs whose label rules one out
}

// Score computes the figures.
func Score(outcomes []Outcome) Scores {
	s := Scores{Logs: len(outcomes)}
	share := func(right func(Outcome) bool) float64 { return ratio(count(outcomes, right), len(outcomes)) }
	s.Category, s.CategoryExact = share(Outcome.CategoryRight), share(Outcome.CategoryExact)
	s.Fault, s.Retry, s.Root = share(Outcome.FaultRight), share(Outcome.RetryRight), share(Outcome.RootRight)
	s.FalseStops, s.MissedStops = count(outcomes, Outcome.FalseStop), count(outcomes, Outcome.MissedStop)
	never := count(outcomes, func(o Outcome) bool { return o.Label.Retry == rules.RetryNever })
	s.FalseStop, s.MissedStop = ratio(s.FalseStops, len(outcomes)-never), ratio(s.MissedStops, never)
	s.MacroF1 = macroF1(outcomes)
	return s
}

func count(outcomes []Outcome, is func(Outcome) bool) int {
	n := 0
	for _, o := range outcomes {
		if is(o) {
			n++
		}
	}
	return n
}

func ratio(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func macroF1(outcomes []Outcome) float64 {
	type tally struct{ right, said, labelled int }
	by := map[string]*tally{}
	at := func(category string) *tally {
		if by[category] == nil {
			by[category] = &tally{}
		}
		return by[category]
	}
	for _, o := range outcomes {
		said := o.Verdict.Category
		if o.CategoryRight() {
			said = o.Label.Category
			at(said).right++
		}
		at(said).said++
		at(o.Label.Category).labelled++
	}
	sum, n := 0.0, 0
	for _, t := range by {
		if t.labelled == 0 {
			continue
		}
		n++
		sum += 2 * ratio(t.right, t.said+t.labelled)
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Bin is a range of confidence and how often verdicts in it are right.
type Bin struct {
	From, To float64 // half open, but for the last one
	Logs     int
	Right    int // category right
	Mean     float64
}

// Calibration sorts verdicts by confidence.
func Calibration(outcomes []Outcome) []Bin {
	edges := []float64{0, 0.5, 0.6, 0.7, 0.8, 0.9, 1}
	var bins []Bin
	for i := range len(edges) - 1 {
		b := Bin{From: edges[i], To: edges[i+1]}
		sum := 0.0
		for _, o := range outcomes {
			c := o.Verdict.Confidence
			if c < b.From || c >= b.To && (i < len(edges)-2 || c > b.To) {
				continue
			}
			b.Logs++
			sum += c
			if o.CategoryRight() {
				b.Right++
			}
		}
		if b.Logs > 0 {
			b.Mean = sum / float64(b.Logs)
		}
		bins = append(bins, b)
	}
	return bins
}
