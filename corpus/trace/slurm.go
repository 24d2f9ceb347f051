package trace

import (
	"path"
	"strconv"
	"strings"
	"time"
)

// slurmRun is one run of a job in Slurm's words, as sacct and the job completion plugin give them.
type slurmRun struct {
	id, arrayJob, arrayTask          string
	name, user, uid                  string
	account, partition, qos, cluster string
	nodes, failedNode                string
	state, exit, derived, reason     string
	submit, start, end, elapsed      string
	allocated, requested             string // TRES
	restarts, sluid                  string
	stdout, stderr, dir              string
	expanded                         bool // stdout and stderr are paths, not patterns
	utc                              bool // times without a zone are UTC
}

// notEnded are the states of runs that go on or have not begun.
var notEnded = map[string]bool{"PENDING": true, "RUNNING": true, "SUSPENDED": true, "COMPLETING": true, "CONFIGURING": true,
	"RESIZING": true, "STAGE_OUT": true, "STOPPED": true, "SIGNALING": true, "REQUEUE_HOLD": true, "RESV_DEL_HOLD": true, "REQUEUE_FED": true}

// slurmState is the first word of a state, without the mark that says it was cut.
func slurmState(s string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	return strings.ToUpper(strings.TrimRight(word, "+"))
}

// record makes a record of the run. A run is identified by its SLUID, else by its start, since Slurm gives a requeued job
// its old id; the count of restarts gives its number where the source has it.
func (s *slurmRun) record(zone *time.Location) (Record, error) {
	r := Record{Owner: -1}
	a := &r.Attempt
	a.Job = s.id
	a.State = slurmState(s.state)
	if notEnded[a.State] {
		return r, &Skip{Job: s.id, Reason: skipRunning}
	}
	elapsed := time.Duration(-1)
	if n, err := strconv.ParseInt(s.elapsed, 10, 64); err == nil {
		elapsed = time.Duration(n) * time.Second
	}
	if s.utc {
		zone = time.UTC
	}
	if err := r.setTimes(zone, s.submit, s.start, s.end, elapsed); err != nil {
		return r, err
	}
	if a.Start == nil && (a.State == "CANCELLED" || a.State == "REVOKED" || elapsed == 0) {
		return r, &Skip{Job: s.id, Reason: skipNeverRan}
	}
	a.Cluster, a.Name, a.User = known(s.cluster), known(s.name), known(s.user)
	a.VC, a.CostClass, a.Reason = known(s.account), known(s.qos), known(s.reason)
	if a.VC == "" {
		a.VC = known(s.partition)
	}
	if uid, err := strconv.Atoi(s.uid); err == nil {
		r.Owner = uid
	}
	s.identify(&r)
	if err := s.setEnd(&r); err != nil {
		return r, err
	}
	s.setGPUs(&r)
	var err error
	if a.Nodes, err = Hostlist(known(s.nodes)); err != nil {
		return r, err
	}
	r.Log = s.logPath()
	return r, nil
}

// known is s, or nothing where it says that it is not known.
func known(s string) string {
	if s = strings.TrimSpace(s); s != "0" && unknown(s) {
		return ""
	}
	return s
}

func (s *slurmRun) identify(r *Record) {
	a := &r.Attempt
	a.RunID = known(s.sluid)
	if a.RunID == "0" {
		a.RunID = ""
	}
	if a.RunID == "" && a.Start != nil {
		a.RunID = "start " + a.Start.UTC().Format(time.RFC3339)
	}
	if n, err := strconv.Atoi(s.restarts); err == nil && n >= 0 {
		a.Number = n + 1
	}
}

// setEnd reads how the run ended. A job whose script hides the failure of a step has it in the derived exit code.
func (s *slurmRun) setEnd(r *Record) error {
	e := &r.Attempt.Exit
	exit := s.exit
	if e.State == "FAILED" && (exit == "0:0" || exit == "0") && s.derived != "" {
		exit = s.derived
	}
	if err := setExit(e, exit); err != nil {
		return err
	}
	if node := known(s.failedNode); node != "" && (e.Reason == "" || e.State == "NODE_FAIL") {
		e.Reason = "failed node " + node
	}
	return nil
}

func (s *slurmRun) setGPUs(r *Record) {
	a := &r.Attempt
	a.GPUs, a.GPUType = gpusOf(s.allocated)
	if a.GPUs > 0 {
		return
	}
	if a.GPUs, a.GPUType = gpusOf(s.requested); a.GPUs > 0 {
		r.note(noteAsked)
	}
}

// gpusOf reads GPUs from a list of trackable resources: gres/gpu=4, beside which gres/gpu:a100=4 may name the type of the
// same ones.
func gpusOf(tres string) (n int, kind string) {
	typed := 0
	for item := range strings.SplitSeq(tres, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		name, ok := strings.CutPrefix(strings.TrimPrefix(name, "gres/"), "gpu")
		count, err := strconv.Atoi(value)
		if !ok || err != nil {
			continue
		}
		switch {
		case name == "":
			n = count
		case name[0] == ':':
			typed += count
			if kind == "" {
				kind = name[1:]
			}
		}
	}
	if n == 0 {
		n = typed
	}
	return n, kind
}

// logPath is where stderr went. Without a path of its own it goes where stdout does.
func (s *slurmRun) logPath() string {
	p := known(s.stderr)
	if p == "" {
		p = known(s.stdout)
	}
	switch {
	case p == "" && s.dir == "", p == "/dev/null":
		return ""
	case p == "" && s.arrayJob != "":
		p = "slurm-%A_%a.out"
	case p == "":
		p = "slurm-%j.out"
	}
	if !s.expanded {
		p = s.expand(p)
	}
	if !path.IsAbs(p) {
		if s.dir == "" {
			return ""
		}
		p = path.Join(s.dir, p)
	}
	return p
}

// expand fills in sbatch's filename pattern. A backslash stands for no pattern at all.
func (s *slurmRun) expand(p string) string {
	if strings.Contains(p, `\`) {
		return strings.ReplaceAll(p, `\`, "")
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if p[i] != '%' || i+1 == len(p) {
			b.WriteByte(p[i])
			continue
		}
		j := i + 1
		for j < len(p) && p[j] >= '0' && p[j] <= '9' {
			j++
		}
		if j == len(p) {
			b.WriteString(p[i:])
			break
		}
		width, _ := strconv.Atoi(p[i+1 : j])
		value, ok := s.symbol(p[j])
		if !ok {
			value = p[i : j+1]
		}
		if _, err := strconv.Atoi(value); err == nil && width <= 10 {
			value = strings.Repeat("0", max(0, width-len(value))) + value
		}
		b.WriteString(value)
		i = j
	}
	return b.String()
}

// symbol is what a letter of a filename pattern stands for in the batch script's own output.
func (s *slurmRun) symbol(c byte) (string, bool) {
	switch c {
	case '%':
		return "%", true
	case 'j', 'J':
		return s.id, true
	case 'A':
		if s.arrayJob != "" {
			return s.arrayJob, true
		}
		return s.id, true
	case 'a':
		if s.arrayTask != "" {
			return s.arrayTask, true
		}
		return "4294967294", true
	case 'x':
		return s.name, true
	case 'u':
		return s.user, true
	case 'N':
		nodes, _ := Hostlist(known(s.nodes))
		if len(nodes) == 0 {
			return "", false
		}
		host, _, _ := strings.Cut(nodes[0], ".")
		return host, true
	case 'n', 't':
		return "0", true
	case 's':
		return "batch", true
	}
	return "", false
}
