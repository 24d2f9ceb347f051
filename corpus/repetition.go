package corpus

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"culprit/rules"
)

// Repetition says how often failures came again, when they came, and what they lost: what the paper asked for and did not
// have.
type Repetition struct {
	GPUSeconds float64         `json:"gpu_s"` // of all failed attempts
	Repeats    Cost            `json:"repeats"`
	Minute     Cost            `json:"first_minute"`
	Lost       Lost            `json:"lost"`
	ToFailure  float64         `json:"submit_to_failure_p50_s"` // from the submission of a job to its first failure; 0 where no submission is known
	Rows       []RepetitionRow `json:"categories"`              // by category, the most attempts first
	Users      []UserRow       `json:"users"`                   // users and categories with the most repeats, at most 20
}

// Cost is a number of attempts and their GPU time.
type Cost struct {
	Attempts   int     `json:"attempts"`
	GPUSeconds float64 `json:"gpu_s"`
	ms         int64
}

// Lost is the work since the last checkpoint, of attempts whose log tells how far they had come. An attempt that began
// from a checkpoint has lost more than is reckoned here, since its log need not tell where it began.
type Lost struct {
	Cost                 // GPU time between last checkpoint and failure
	OfGPUSeconds float64 `json:"of_gpu_s"` // all GPU time of these attempts
}

// RepetitionRow is a category.
type RepetitionRow struct {
	Category string  `json:"category"`
	Attempts int     `json:"attempts"`
	PerJob   float64 `json:"per_job"`  // attempts for each job that failed so
	PerUser  float64 `json:"per_user"` // and for each user: the paper's repetition factor
	Repeats  Cost    `json:"repeats"`  // attempts that failed as the one before, by their fingerprint
	Late     int     `json:"late"`     // attempts whose runtime is in the top tenth of all failed ones
	Minute   Cost    `json:"first_minute"`

	jobs  map[uint32]bool
	users map[term]bool
}

// UserRow is one user's failures of one category.
type UserRow struct {
	User     string `json:"user"`
	Category string `json:"category"`
	Attempts int    `json:"attempts"`
	Repeats  Cost   `json:"repeats"`
}

func (c *Cost) add(gpu int64) {
	c.Attempts++
	c.ms += gpu
	c.GPUSeconds = seconds(c.ms)
}

// Repetition reports on the failed attempts that pass the filter, whose Limit does not count. Attempts that their users
// cancelled are no failures here.
func (c *Corpus) Repetition(ctx context.Context, filter Filter) (Repetition, error) {
	jobs, err := c.jobsOf(ctx, &filter)
	if err != nil {
		return Repetition{}, err
	}
	f, err := c.current(ctx)
	if err != nil {
		return Repetition{}, err
	}
	matches := f.matcher(&filter, jobs, OutcomeFailed)
	cancelled := f.number[categoryCancelled]
	var list []*fact
	for i := range f.list {
		if r := &f.list[i]; matches(r) && (cancelled == 0 || r.category != cancelled) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *fact) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.ended, b.ended), cmp.Compare(a.id, b.id))
	})
	report := f.repetition(list)
	wanted := make(map[int64]*fact, len(list))
	firsts := map[int64]bool{}
	for i, r := range list {
		copied := *r
		wanted[r.id] = &copied
		firsts[r.id] = i == 0 || list[i-1].job != r.job
	}
	f.mu.RUnlock()
	if err := c.addProgress(ctx, &report, wanted, firsts); err != nil {
		return Repetition{}, err
	}
	return report, nil
}

// repetition counts failed attempts that are sorted by job and end.
func (f *facts) repetition(list []*fact) Repetition {
	report := Repetition{Rows: []RepetitionRow{}, Users: []UserRow{}}
	late := topTenth(list)
	silent := f.number[rules.CategoryNoSignature]
	rows := map[term]*RepetitionRow{}
	users := map[[2]term]*UserRow{}
	var total int64
	for i, r := range list {
		row := rows[r.category]
		if row == nil {
			row = &RepetitionRow{Category: f.text[r.category], jobs: map[uint32]bool{}, users: map[term]bool{}}
			rows[r.category] = row
		}
		user := users[[2]term{r.user, r.category}]
		if user == nil {
			user = &UserRow{User: f.text[r.user], Category: row.Category}
			users[[2]term{r.user, r.category}] = user
		}
		gpu := r.gpuTime()
		total += gpu
		row.Attempts++
		user.Attempts++
		row.jobs[r.job], row.users[r.user] = true, true
		if r.rtf >= late {
			row.Late++
		}
		if r.rtf >= 0 && r.rtf < 60_000 {
			report.Minute.add(gpu)
			row.Minute.add(gpu)
		}
		// Silence is no sign that it was the same.
		if i > 0 && list[i-1].job == r.job && r.print != 0 && list[i-1].print == r.print && r.category != silent {
			report.Repeats.add(gpu)
			row.Repeats.add(gpu)
			user.Repeats.add(gpu)
		}
	}
	report.GPUSeconds = seconds(total)
	for _, row := range rows {
		row.PerJob = float64(row.Attempts) / float64(len(row.jobs))
		row.PerUser = float64(row.Attempts) / float64(len(row.users))
		report.Rows = append(report.Rows, *row)
	}
	slices.SortFunc(report.Rows, func(a, b RepetitionRow) int {
		return cmp.Or(-cmp.Compare(a.Attempts, b.Attempts), cmp.Compare(a.Category, b.Category))
	})
	for _, u := range users {
		if u.User != "" && u.Repeats.Attempts > 0 {
			report.Users = append(report.Users, *u)
		}
	}
	slices.SortFunc(report.Users, func(a, b UserRow) int {
		return cmp.Or(-cmp.Compare(a.Repeats.Attempts, b.Repeats.Attempts), cmp.Compare(a.User, b.User), cmp.Compare(a.Category, b.Category))
	})
	report.Users = report.Users[:min(len(report.Users), 20)]
	return report
}

// topTenth is the least runtime of the longest tenth.
func topTenth(list []*fact) int64 {
	var all []int64
	for _, r := range list {
		if r.rtf >= 0 {
			all = append(all, r.rtf)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)-max(1, len(all)/10)]
}

// addProgress reckons what was lost and how long the first failures took, from what is not among the facts.
func (c *Corpus) addProgress(ctx context.Context, report *Repetition, wanted map[int64]*fact, firsts map[int64]bool) error {
	rows, err := c.read.QueryContext(ctx, `SELECT a.id, a.ended - a.submitted, json_extract(v.body, '$.progress.step'),
		json_extract(v.body, '$.progress.checkpoint_step') FROM attempt a JOIN verdict v ON v.attempt_id = a.id WHERE a.category <> ?`, rules.CategoryNone)
	if err != nil {
		return err
	}
	defer rows.Close()
	var waits []int64
	var of int64
	for rows.Next() {
		var id int64
		var wait, step, checkpoint sql.NullInt64
		if err := rows.Scan(&id, &wait, &step, &checkpoint); err != nil {
			return err
		}
		r := wanted[id]
		if r == nil {
			continue
		}
		if firsts[id] && wait.Valid && wait.Int64 >= 0 {
			waits = append(waits, wait.Int64)
		}
		if gpu := r.gpuTime(); gpu > 0 && step.Valid && step.Int64 > 0 {
			done := min(max(checkpoint.Int64, 0), step.Int64)
			report.Lost.add(int64(float64(gpu) * float64(step.Int64-done) / float64(step.Int64)))
			of += gpu
		}
	}
	report.Lost.OfGPUSeconds = seconds(of)
	slices.Sort(waits)
	report.ToFailure = percentile(waits, 50)
	return rows.Err()
}
