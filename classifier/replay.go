package classifier

import (
	"cmp"
	"iter"
	"slices"
)

// Replay is what a policy would have done to jobs whose end is known.
type Replay struct {
	Jobs     int         `json:"jobs"`
	Attempts int         `json:"attempts"`
	Failed   int         `json:"failed"`
	Rows     []ReplayRow `json:"rows"`     // a rule or, where none decided, a category; the most GPU time first
	Total    ReplayRow   `json:"total"`    // if everything were enforced; less than the sum of the rows where several stop one job
	Enforced ReplayRow   `json:"enforced"` // with the modes as they are
}

// ReplayRow counts stops and what followed them. Of each run of failures only the first stop counts.
type ReplayRow struct {
	Rule        string  `json:"rule,omitempty"`
	Category    string  `json:"category,omitempty"`
	Mode        Mode    `json:"mode,omitempty"`
	Stops       int     `json:"stops"`
	Blocked     int     `json:"blocked"`      // attempts that followed a stop and would not have run
	GPUSeconds  float64 `json:"gpu_s"`        // of blocked attempts, where none of them passed
	FalseBlocks int     `json:"false_blocks"` // stops after which an attempt of the job passed
}

// GPUHours is the row's GPU time as people say it.
func (r ReplayRow) GPUHours() float64 { return r.GPUSeconds / 3600 }

// Replay decides each failed attempt of each job as the gate would have when it failed. A history is one job's attempts
// in their order. The error is that of histories.
func (p Policy) Replay(histories iter.Seq2[[]Record, error]) (Replay, error) {
	r := replayer{policy: p, rows: map[replayKey]*ReplayRow{}}
	for history, err := range histories {
		if err != nil {
			return Replay{}, err
		}
		r.job(history)
	}
	r.Rows = []ReplayRow{}
	for _, row := range r.rows {
		r.Rows = append(r.Rows, *row)
	}
	slices.SortFunc(r.Rows, func(a, b ReplayRow) int {
		return cmp.Or(cmp.Compare(b.GPUSeconds, a.GPUSeconds), cmp.Compare(b.Stops, a.Stops), cmp.Compare(a.Category, b.Category),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Mode, b.Mode))
	})
	return r.Replay, nil
}

type replayKey struct {
	rule, category string
	mode           Mode
}

type replayer struct {
	Replay
	policy Policy
	rows   map[replayKey]*ReplayRow
}

// job counts a history run of failures by run of failures; a run ends with the attempt that passed.
func (r *replayer) job(history []Record) {
	r.Jobs++
	r.Attempts += len(history)
	for start := 0; start < len(history); {
		end := start
		for end < len(history) && !history[end].Passed() {
			end++
		}
		r.Failed += end - start
		r.failures(history[:min(end+1, len(history))], start, end)
		start = end + 1
	}
}

// failures counts the stops among history[start:end]. An attempt at end, where there is one, passed.
func (r *replayer) failures(history []Record, start, end int) {
	counted := map[*ReplayRow]bool{}
	count := func(row *ReplayRow, i int) {
		if counted[row] {
			return
		}
		counted[row] = true
		row.Stops++
		row.Blocked += len(history) - i - 1
		if end < len(history) {
			row.FalseBlocks++
			return
		}
		for _, later := range history[i+1:] {
			row.GPUSeconds += later.GPUSeconds
		}
	}
	for i := start; i < end; i++ {
		d := Decide(r.policy, history[i], history[:i])
		if d.Would != AnswerStop {
			continue
		}
		count(r.row(d), i)
		count(&r.Total, i)
		if d.Verdict == AnswerStop {
			count(&r.Enforced, i)
		}
	}
}

func (r *replayer) row(d Decision) *ReplayRow {
	key := replayKey{d.Rule, d.Category, d.Mode}
	if r.rows[key] == nil {
		r.rows[key] = &ReplayRow{Rule: d.Rule, Category: d.Category, Mode: d.Mode}
	}
	return r.rows[key]
}
