package corpus

import (
	"context"
	"iter"
	"time"

	"culprit/classifier"
)

// historyJobs is how many jobs Histories reads at once.
const historyJobs = 500

// Record is what the gate needs to know of an attempt.
func (a *Attempt) Record() classifier.Record {
	return classifier.Record{Number: a.Number, VC: a.VC, Nodes: a.Nodes, GPUSeconds: a.GPUSeconds, Verdict: a.Verdict}
}

// Records are those of a job's attempts.
func Records(attempts []Attempt) []classifier.Record {
	list := make([]classifier.Record, len(attempts))
	for i := range attempts {
		list[i] = attempts[i].Record()
	}
	return list
}

// Histories are all attempts of each job that has one whose end, or where it has none whose keeping, is in the window:
// job by job, each in the order of its attempts. A job that is added to meanwhile may come as it was or as it is.
func (c *Corpus) Histories(ctx context.Context, w Window) iter.Seq2[[]classifier.Record, error] {
	return func(yield func([]classifier.Record, error) bool) {
		for last := int64(0); ; {
			jobs, err := c.jobsIn(ctx, w, last)
			if err == nil && len(jobs) == 0 {
				return
			}
			var histories [][]classifier.Record
			if err == nil {
				last = jobs[len(jobs)-1]
				histories, err = c.historiesOf(ctx, jobs)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, h := range histories {
				if !yield(h, nil) {
					return
				}
			}
		}
	}
}

// jobsIn are the next jobs after one, by their row's id.
func (c *Corpus) jobsIn(ctx context.Context, w Window, after int64) ([]int64, error) {
	from, to := int64(-1<<62), int64(1<<62)
	if !w.From.IsZero() {
		from = w.From.UnixMilli()
	}
	if !w.To.IsZero() {
		to = w.To.Add(time.Millisecond - 1).UnixMilli()
	}
	return c.readIDs(ctx, `SELECT id FROM job j WHERE id > ? AND EXISTS (SELECT 1 FROM attempt WHERE job_id = j.id
		AND coalesce(ended, created) >= ? AND coalesce(ended, created) < ?) ORDER BY id LIMIT ?`, after, from, to, historyJobs)
}

func (c *Corpus) historiesOf(ctx context.Context, jobs []int64) (list [][]classifier.Record, err error) {
	for _, job := range jobs {
		ids, err := c.readIDs(ctx, "SELECT id FROM attempt WHERE job_id = ? ORDER BY number", job)
		if err != nil {
			return nil, err
		}
		attempts, err := readAttempts(c.reader(ctx), ids)
		if err != nil {
			return nil, err
		}
		list = append(list, Records(attempts))
	}
	return list, nil
}

func (c *Corpus) readIDs(ctx context.Context, query string, args ...any) (ids []int64, err error) {
	rows, err := c.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
