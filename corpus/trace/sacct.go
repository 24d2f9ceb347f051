package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Slurm reads what sacct prints: with -P (--parsable2) and its header, or with --json. Times without a zone are those of
// the machine that ran sacct; by default that is this one. Steps are not attempts and are passed over.
//
// Fields to ask for: JobIDRaw,JobID,JobName,User,UID,Account,Partition,QOS,Cluster,State,ExitCode,DerivedExitCode,
// ElapsedRaw,Submit,Start,End,AllocTRES,ReqTRES,NodeList,FailedNode,Restarts,SLUID,Reason,StdErr,WorkDir. Without -D
// (--duplicates) sacct hides the runs of requeued jobs.
func Slurm(r io.Reader, opt Options) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		in := bufio.NewReaderSize(r, 256<<10)
		y := newYielder(opt, yield)
		first, err := firstByte(in)
		switch {
		case err == io.EOF:
		case err != nil:
			yield(Record{}, err)
		case first == '{':
			sacctJSON(in, y)
		default:
			sacctText(in, y)
		}
	}
}

// firstByte is the first byte that is no white space; it stays unread.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n\ufeff", rune(c)) && c != 0xef && c != 0xbb && c != 0xbf {
			return c, r.UnreadByte()
		}
	}
}

const maxLine = 4 << 20

func sacctText(r io.Reader, y *yielder) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var column map[string]int
	for n := 1; lines.Scan(); n++ {
		fields := strings.Split(strings.TrimRight(lines.Text(), "\r"), "|")
		if column == nil {
			var err error
			if column, err = sacctHeader(fields); err != nil {
				y.yield(Record{}, err)
				return
			}
			continue
		}
		if len(fields) == 1 && fields[0] == "" {
			continue
		}
		run, step, err := sacctRun(column, fields)
		if step {
			continue
		}
		var rec Record
		if err == nil {
			rec, err = run.record(y.opt.zone(time.Local))
		}
		if !y.give(where("line", n), rec, err) {
			return
		}
	}
	if err := lines.Err(); err != nil {
		y.yield(Record{}, err)
	}
}

func sacctHeader(fields []string) (map[string]int, error) {
	column := map[string]int{}
	for i, f := range fields {
		column[strings.ToLower(f)] = i
	}
	_, raw := column["jobidraw"]
	_, id := column["jobid"]
	_, state := column["state"]
	if !(raw || id) || !state {
		return nil, fmt.Errorf("the first line is not sacct's header with JobIDRaw and State: run sacct with -P and without -n")
	}
	return column, nil
}

func sacctRun(column map[string]int, fields []string) (run slurmRun, step bool, err error) {
	get := func(name string) string {
		if i, ok := column[name]; ok && i < len(fields) {
			return fields[i]
		}
		return ""
	}
	id, shown := get("jobidraw"), get("jobid")
	if id == "" {
		id = shown
	}
	if strings.Contains(id, ".") {
		return run, true, nil
	}
	run = slurmRun{id: id, name: get("jobname"), user: get("user"), uid: get("uid"), account: get("account"), partition: get("partition"),
		qos: get("qos"), cluster: get("cluster"), nodes: get("nodelist"), failedNode: get("failednode"), state: get("state"),
		exit: get("exitcode"), derived: get("derivedexitcode"), reason: get("reason"), submit: get("submit"), start: get("start"),
		end: get("end"), elapsed: get("elapsedraw"), allocated: get("alloctres"), requested: get("reqtres"), restarts: get("restarts"),
		sluid: get("sluid"), stderr: get("stderr"), stdout: get("stdout"), dir: get("workdir")}
	run.arrayJob, run.arrayTask, _ = strings.Cut(shown, "_")
	if run.arrayTask == "" {
		run.arrayJob = ""
	}
	if len(fields) != len(column) {
		err = &Skip{Job: id, Reason: "it has other fields than the header, as where a | stands in a name", Err: fmt.Errorf("%d fields, not %d", len(fields), len(column))}
	}
	return run, false, err
}

// sacctJob is a job of sacct --json, of the versions of Slurm since 21.08. What changed its shape is loose.
type sacctJob struct {
	JobID      loose  `json:"job_id"`
	Name       string `json:"name"`
	User       string `json:"user"`
	Account    string `json:"account"`
	Partition  string `json:"partition"`
	QOS        string `json:"qos"`
	Cluster    string `json:"cluster"`
	Nodes      string `json:"nodes"`
	FailedNode string `json:"failed_node"`
	Restarts   loose  `json:"restart_cnt"`
	SLUID      loose  `json:"sluid"`
	StdErr     string `json:"stderr"`
	StdOut     string `json:"stdout"`
	ErrPath    string `json:"stderr_expanded"`
	OutPath    string `json:"stdout_expanded"`
	Dir        string `json:"working_directory"`
	Array      struct {
		Job  loose `json:"job_id"`
		Task loose `json:"task_id"`
	} `json:"array"`
	Association struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
		Account string `json:"account"`
	} `json:"association"`
	State struct {
		Current loose  `json:"current"`
		Reason  string `json:"reason"`
	} `json:"state"`
	Exit    sacctExit `json:"exit_code"`
	Derived sacctExit `json:"derived_exit_code"`
	Time    struct {
		Elapsed    loose `json:"elapsed"`
		Start      loose `json:"start"`
		End        loose `json:"end"`
		Submission loose `json:"submission"`
	} `json:"time"`
	TRES struct {
		Allocated []sacctTRES `json:"allocated"`
		Requested []sacctTRES `json:"requested"`
	} `json:"tres"`
}

type sacctExit struct {
	Code   loose `json:"return_code"`
	Signal struct {
		ID    loose `json:"id"`
		OldID loose `json:"signal_id"`
	} `json:"signal"`
}

type sacctTRES struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// loose is a value that versions of Slurm write as a number, a string, a list, or an object with set and number. It
// holds the value or the first of them as text.
type loose string

func (l *loose) UnmarshalJSON(b []byte) error {
	*l = ""
	switch b[0] {
	case '{':
		var v struct {
			Set    *bool       `json:"set"`
			Number json.Number `json:"number"`
		}
		if err := json.Unmarshal(b, &v); err != nil {
			return err
		}
		if v.Set == nil || *v.Set {
			*l = loose(v.Number)
		}
	case '[':
		var list []loose
		if err := json.Unmarshal(b, &list); err != nil {
			return err
		}
		if len(list) > 0 {
			*l = list[0]
		}
	case '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*l = loose(s)
	case 'n': // null
	default:
		*l = loose(b)
	}
	return nil
}

func sacctJSON(r io.Reader, y *yielder) {
	d := json.NewDecoder(r)
	n := 0
	err := eachOf(d, "jobs", func() (bool, error) {
		var body json.RawMessage
		if err := d.Decode(&body); err != nil {
			return false, err
		}
		n++
		var job sacctJob
		if err := json.Unmarshal(body, &job); err != nil {
			return y.give(where("job", n), Record{}, err), nil
		}
		rec, err := job.run().record(y.opt.zone(time.Local))
		return y.give(where("job", n), rec, err), nil
	})
	if err != nil {
		y.yield(Record{}, fmt.Errorf("sacct --json after job %d: %w", n, err))
	}
}

func (j *sacctJob) run() *slurmRun {
	run := &slurmRun{id: string(j.JobID), name: j.Name, user: either(j.User, j.Association.User), account: either(j.Account, j.Association.Account),
		partition: j.Partition, qos: j.QOS, cluster: either(j.Cluster, j.Association.Cluster), nodes: j.Nodes, failedNode: j.FailedNode,
		state: string(j.State.Current), reason: j.State.Reason, exit: j.Exit.text(), derived: j.Derived.text(), submit: string(j.Time.Submission),
		start: string(j.Time.Start), end: string(j.Time.End), elapsed: string(j.Time.Elapsed), allocated: tresText(j.TRES.Allocated),
		requested: tresText(j.TRES.Requested), restarts: string(j.Restarts), sluid: string(j.SLUID), stderr: j.StdErr, stdout: j.StdOut, dir: j.Dir}
	if j.ErrPath != "" || j.OutPath != "" {
		run.stderr, run.stdout, run.expanded = j.ErrPath, j.OutPath, true
	}
	if job := string(j.Array.Job); job != "" && job != "0" {
		run.arrayJob, run.arrayTask = job, string(j.Array.Task)
	}
	return run
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (e sacctExit) text() string {
	if e.Code == "" && e.Signal.ID == "" && e.Signal.OldID == "" {
		return ""
	}
	return either(string(e.Code), "0") + ":" + either(either(string(e.Signal.ID), string(e.Signal.OldID)), "0")
}

func tresText(list []sacctTRES) string {
	var b bytes.Buffer
	for _, t := range list {
		if t.Type != "gres" {
			continue
		}
		b.WriteString(t.Type + "/" + t.Name + "=" + strconv.FormatInt(t.Count, 10) + ",")
	}
	return b.String()
}

// eachOf walks an object to the list under name and calls visit for each of its values, until it returns false. Other
// members are passed over.
func eachOf(d *json.Decoder, name string, visit func() (bool, error)) error {
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key != name {
			if err := pass(d); err != nil {
				return err
			}
			continue
		}
		if err := expect(d, '['); err != nil {
			return err
		}
		for d.More() {
			if more, err := visit(); err != nil || !more {
				return err
			}
		}
		if err := expect(d, ']'); err != nil {
			return err
		}
	}
	return expect(d, '}')
}

func expect(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("byte %d: %v where %v is wanted", d.InputOffset(), t, want)
	}
	return nil
}

// pass reads over one value without holding it.
func pass(d *json.Decoder) error {
	depth := 0
	for {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
