package trace

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// jobcompDoc is the document that Slurm's jobcomp/elasticsearch plugin sends for a finished job. Its times are UTC.
type jobcompDoc struct {
	JobID      loose  `json:"jobid"`
	SLUID      loose  `json:"sluid"`
	User       string `json:"username"`
	UID        loose  `json:"user_id"`
	Account    string `json:"account"`
	Partition  string `json:"partition"`
	QOS        string `json:"qos"`
	Cluster    string `json:"cluster"`
	Name       string `json:"job_name"`
	Nodes      string `json:"nodes"`
	FailedNode string `json:"failed_node"`
	Submit     string `json:"@submit"`
	Start      string `json:"@start"`
	End        string `json:"@end"`
	Elapsed    loose  `json:"elapsed"`
	State      string `json:"state"`
	Exit       loose  `json:"exit_code"`
	Derived    loose  `json:"derived_ec"`
	Allocated  string `json:"tres_alloc"`
	Requested  string `json:"tres_req"`
	Restarts   loose  `json:"restart_cnt"`
	Dir        string `json:"work_dir"`
	StdErr     string `json:"std_err"`
	StdOut     string `json:"std_out"`
	ArrayJob   loose  `json:"array_job_id"`
	ArrayTask  loose  `json:"array_task_id"`
}

// JobCompletion reads one document of Slurm's jobcomp/elasticsearch plugin. A *Skip says that it is no attempt.
func JobCompletion(doc []byte, opt Options) (Record, error) {
	var d jobcompDoc
	if err := json.Unmarshal(doc, &d); err != nil {
		return Record{}, err
	}
	if d.JobID == "" {
		return Record{}, fmt.Errorf("the document has no jobid")
	}
	run := &slurmRun{id: string(d.JobID), sluid: string(d.SLUID), user: d.User, uid: string(d.UID), account: d.Account, partition: d.Partition,
		qos: d.QOS, cluster: d.Cluster, name: d.Name, nodes: d.Nodes, failedNode: d.FailedNode, submit: d.Submit, start: d.Start, end: d.End,
		elapsed: string(d.Elapsed), state: d.State, exit: exitText(d.Exit), derived: exitText(d.Derived), allocated: d.Allocated, requested: d.Requested,
		restarts: string(d.Restarts), dir: d.Dir, stderr: d.StdErr, stdout: d.StdOut, arrayJob: string(d.ArrayJob), arrayTask: string(d.ArrayTask), utc: true}
	if slurmState(run.state) == "PENDING" && known(run.start) != "" && known(run.end) != "" {
		run.state = "REQUEUED" // Slurm says what the job is by now: it waits again
		if run.exit == "0:0" {
			run.exit = ""
		}
	}
	rec, err := run.record(time.UTC)
	var out Record
	y := newYielder(opt, func(r Record, skipped error) bool {
		out, err = r, skipped
		return true
	})
	y.give("document", rec, err)
	return out, err
}

// exitText is an exit code as code:signal. Slurm before 22.05 sends the status of wait(2) as a number.
func exitText(e loose) string {
	n, err := strconv.ParseUint(string(e), 10, 32)
	if err != nil {
		return string(e)
	}
	return fmt.Sprintf("%d:%d", n>>8&0xff, n&0x7f)
}
