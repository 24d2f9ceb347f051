package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"
)

// phillyZone is where the traced cluster's clock was: its utilization files say PDT and PST.
var phillyZone = sync.OnceValues(func() (*time.Location, error) { return time.LoadLocation("America/Los_Angeles") })

type phillyJob struct {
	Status    string          `json:"status"`
	VC        string          `json:"vc"`
	Job       string          `json:"jobid"`
	User      string          `json:"user"`
	Submitted string          `json:"submitted_time"`
	Attempts  []phillyAttempt `json:"attempts"`
}

type phillyAttempt struct {
	Start  *string `json:"start_time"`
	End    *string `json:"end_time"`
	Detail []struct {
		IP   string   `json:"ip"`
		GPUs []string `json:"gpus"`
	} `json:"detail"`
}

// Philly reads cluster_job_log of the Philly trace. Its times are those of Los Angeles unless opt says otherwise.
//
// The trace gives a job one status and no exit codes: the last attempt has the job's status, the ones before it have
// failed, since a job that passes or is killed is not run again. A last attempt without an end was still running when the
// trace was taken.
func Philly(r io.Reader, opt Options) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		own, err := phillyZone()
		if err != nil {
			yield(Record{}, fmt.Errorf("the zone of the Philly trace: %w", err))
			return
		}
		zone := opt.zone(own)
		y := newYielder(opt, yield)
		d := json.NewDecoder(bufio.NewReaderSize(r, 256<<10))
		if err := expect(d, '['); err != nil {
			yield(Record{}, fmt.Errorf("cluster_job_log is a JSON array of jobs: %w", err))
			return
		}
		for n := 1; d.More(); n++ {
			var body json.RawMessage
			if err := d.Decode(&body); err != nil {
				yield(Record{}, fmt.Errorf("job %d: %w", n, err))
				return
			}
			var job phillyJob
			if err := json.Unmarshal(body, &job); err != nil {
				if !y.give(where("job", n), Record{}, err) {
					return
				}
				continue
			}
			if !job.give(y, zone, n) {
				return
			}
		}
		if err := expect(d, ']'); err != nil {
			yield(Record{}, fmt.Errorf("cluster_job_log is cut: %w", err))
		}
	}
}

// give yields the attempts of the n-th job.
func (j *phillyJob) give(y *yielder, zone *time.Location, n int) bool {
	if len(j.Attempts) == 0 {
		return y.give(where("job", n), Record{}, &Skip{Job: j.Job, Reason: skipNeverRan})
	}
	for i := range j.Attempts {
		rec, err := j.record(i, zone)
		if !y.give(where("job", n), rec, err) {
			return false
		}
	}
	return true
}

// phillyStates are Slurm's words for the statuses, which the classifier knows.
var phillyStates = map[string]string{"Pass": "COMPLETED", "Killed": "CANCELLED", "Failed": "FAILED"}

func (j *phillyJob) record(i int, zone *time.Location) (Record, error) {
	at := &j.Attempts[i]
	r := Record{Owner: -1}
	a := &r.Attempt
	a.Job, a.Number, a.User, a.VC = j.Job, i+1, j.User, j.VC
	last := i == len(j.Attempts)-1
	a.State = "FAILED"
	if last {
		var ok bool
		if a.State, ok = phillyStates[j.Status]; !ok {
			return r, fmt.Errorf("status %q is not Pass, Killed or Failed", j.Status)
		}
	}
	if a.State == "COMPLETED" {
		a.Code = new(0)
	}
	if last && at.Start != nil && at.End == nil {
		return r, &Skip{Job: j.Job, Reason: skipRunning}
	}
	for _, d := range at.Detail {
		a.Nodes = append(a.Nodes, d.IP)
		a.GPUs += len(d.GPUs)
	}
	submitted := ""
	if i == 0 {
		submitted = j.Submitted
	}
	return r, r.setTimes(zone, submitted, text(at.Start), text(at.End), -1)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
