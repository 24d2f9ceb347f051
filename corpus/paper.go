package corpus

import (
	"context"

	"culprit/rules"
)

// Paper is the report in the tables of "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads"
// (arXiv 1901.05758), with the paper's own figures beside ours.
type Paper struct {
	Outcomes []OutcomeRow `json:"table_6"` // passed, killed, unsuccessful, total
	Reasons  []ReasonRow  `json:"table_7"` // in the paper's order
	Total    ReasonRow    `json:"table_7_total"`
}

// OutcomeRow is a row of Table 6: jobs by how they ended. Shares are 0 to 1.
type OutcomeRow struct {
	Outcome       string  `json:"outcome"`
	Jobs          int     `json:"jobs"`
	JobShare      float64 `json:"job_share"`
	GPUSeconds    float64 `json:"gpu_s"` // of all attempts of these jobs
	GPUShare      float64 `json:"gpu_share"`
	PaperJobs     int     `json:"paper_jobs"`
	PaperJobShare float64 `json:"paper_job_share"`
	PaperGPUShare float64 `json:"paper_gpu_share"`
}

// ReasonRow is a row of Table 7: failed attempts by reason. What the paper did not have is counted under the reason that the
// taxonomy names; attempts that their users cancelled are none of them.
type ReasonRow struct {
	WasteRow
	Sources       []string       `json:"sources"`            // who can cause it: IF, AE, U
	Share         float64        `json:"share"`              // of failed attempts, 0 to 1
	Includes      map[string]int `json:"includes,omitempty"` // attempts of other categories that are counted here
	PaperTrials   int            `json:"paper_trials"`
	PaperShare    float64        `json:"paper_share"`
	PaperRTFShare *float64       `json:"paper_rtf_share,omitempty"` // 0 to 1
}

// The outcomes of Table 6.
const (
	outcomePassed = iota
	outcomeKilled
	outcomeUnsuccessful
)

func paperOutcomes() []OutcomeRow {
	return []OutcomeRow{
		{Outcome: "passed", PaperJobs: 66696, PaperJobShare: 0.693, PaperGPUShare: 0.445},
		{Outcome: "killed", PaperJobs: 12996, PaperJobShare: 0.135, PaperGPUShare: 0.377},
		{Outcome: "unsuccessful", PaperJobs: 16568, PaperJobShare: 0.172, PaperGPUShare: 0.178},
		{Outcome: "total", PaperJobs: 96260, PaperJobShare: 1, PaperGPUShare: 1},
	}
}

// categoryCancelled is how an attempt ends that its user stopped.
const categoryCancelled = "cancelled"

// Paper returns the paper's tables over the attempts that pass the filter, whose Outcome and Limit do not count. A job's
// outcome is that of its last attempt among them.
func (c *Corpus) Paper(ctx context.Context, filter Filter) (Paper, error) {
	taxonomy, err := rules.DefaultTaxonomy()
	if err != nil {
		return Paper{}, err
	}
	jobs, err := c.jobsOf(ctx, &filter)
	if err != nil {
		return Paper{}, err
	}
	f, err := c.current(ctx)
	if err != nil {
		return Paper{}, err
	}
	defer f.mu.RUnlock()
	var list []*fact
	matches := f.matcher(&filter, jobs, OutcomeAll)
	for i := range f.list {
		if matches(&f.list[i]) {
			list = append(list, &f.list[i])
		}
	}
	p := Paper{Outcomes: f.outcomes(list)}
	p.Reasons, p.Total = f.reasons(list, taxonomy)
	return p, nil
}

// jobEnd is what is known of a job so far.
type jobEnd struct {
	last *fact
	gpu  int64
}

func (f *facts) outcomes(list []*fact) []OutcomeRow {
	jobs := map[uint32]*jobEnd{}
	for _, r := range list {
		j := jobs[r.job]
		if j == nil {
			j = &jobEnd{last: r}
			jobs[r.job] = j
		}
		j.gpu += r.gpuTime()
		if r.ended > j.last.ended || r.ended == j.last.ended && r.id > j.last.id {
			j.last = r
		}
	}
	rows := paperOutcomes()
	total := len(rows) - 1
	var gpu [4]int64
	for _, j := range jobs {
		at := outcomeUnsuccessful
		switch f.text[j.last.category] {
		case rules.CategoryNone:
			at = outcomePassed
		case categoryCancelled:
			at = outcomeKilled
		}
		for _, at := range []int{at, total} {
			rows[at].Jobs++
			gpu[at] += j.gpu
		}
	}
	for i := range rows {
		rows[i].GPUSeconds = seconds(gpu[i])
		rows[i].JobShare = share(int64(rows[i].Jobs), int64(rows[total].Jobs))
		rows[i].GPUShare = share(gpu[i], gpu[total])
	}
	return rows
}

// reasons sums up failed attempts by the paper's reasons.
func (f *facts) reasons(list []*fact, taxonomy *rules.Taxonomy) ([]ReasonRow, ReasonRow) {
	reasons, of := paperReasons(taxonomy)
	g := &groups{users: len(f.text), tallies: make([]tally, len(reasons))}
	for i := range reasons {
		g.keys = append(g.keys, reasons[i].Key)
	}
	side := f.sideOf()
	for _, r := range list {
		category := f.text[r.category]
		at, ok := of[category]
		if !ok {
			continue
		}
		reasons[at].include(category)
		g.all, g.of = append(g.all, sample{r.rtf, r.job, r.user}), append(g.of, uint32(at))
		g.jobs = max(g.jobs, r.job+1)
		g.total.add(r, r.gpuTime(), side(r.fault))
		g.tallies[at].add(r, r.gpuTime(), side(r.fault))
	}
	g.samples = g.all
	rows, sum := g.rows(ByCategory)
	total := ReasonRow{WasteRow: sum, Sources: []string{}, PaperShare: 1}
	for _, r := range rows {
		reasons[of[r.Key]].fill(r.WasteRow, sum.Attempts)
		total.PaperTrials += reasons[of[r.Key]].PaperTrials
	}
	for i := range reasons {
		reasons[i].PaperShare = share(int64(reasons[i].PaperTrials), int64(total.PaperTrials))
	}
	total.Fault, total.Share = "", share(int64(sum.Attempts), int64(sum.Attempts))
	return reasons, total
}

// include counts an attempt of a category that the paper did not have.
func (r *ReasonRow) include(category string) {
	if category == r.Key {
		return
	}
	if r.Includes == nil {
		r.Includes = map[string]int{}
	}
	r.Includes[category]++
}

// fill takes over what was counted of the row.
func (r *ReasonRow) fill(counted WasteRow, attempts int) {
	counted.Key, counted.Title, counted.Fault = r.Key, r.Title, "" // the table has no column for a side
	r.WasteRow, r.Share = counted, share(int64(counted.Attempts), int64(attempts))
}

// paperReasons returns a row for each reason of the paper's table, and which row a category is counted in.
func paperReasons(taxonomy *rules.Taxonomy) (rows []ReasonRow, of map[string]int) {
	of = map[string]int{}
	for _, c := range taxonomy.Categories {
		if c.Trials == 0 {
			continue
		}
		of[c.ID] = len(rows)
		row := ReasonRow{WasteRow: WasteRow{Key: c.ID, Title: c.Title}, Sources: c.Sources, PaperTrials: c.Trials}
		if row.Sources == nil {
			row.Sources = []string{}
		}
		if c.RTFShare != nil {
			row.PaperRTFShare = new(*c.RTFShare / 100)
		}
		rows = append(rows, row)
	}
	for _, c := range taxonomy.Categories {
		if c.Trials == 0 && c.Philly != nil {
			if at, ok := of[*c.Philly]; ok {
				of[c.ID] = at
			}
		}
	}
	return rows, of
}
