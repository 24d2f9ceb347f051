package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/corpus"
)

// kubeObject is what is read of a pod, job or event; the members of other kinds are empty.
type kubeObject struct {
	Kind     string       `json:"kind"`
	Items    []kubeObject `json:"items"` // of a list
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Created     *time.Time        `json:"creationTimestamp"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Owners      []struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		NodeName     string            `json:"nodeName"`
		NodeSelector map[string]string `json:"nodeSelector"`
		Priority     string            `json:"priorityClassName"`
		Containers   []kubeContainer   `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase      string     `json:"phase"`
		Reason     string     `json:"reason"`
		Message    string     `json:"message"`
		StartTime  *time.Time `json:"startTime"`
		Conditions []struct {
			Type   string     `json:"type"`
			Status string     `json:"status"`
			Reason string     `json:"reason"`
			Time   *time.Time `json:"lastTransitionTime"`
		} `json:"conditions"`
		Init       []kubeStatus `json:"initContainerStatuses"`
		Containers []kubeStatus `json:"containerStatuses"`
	} `json:"status"`

	// of an event
	Involved struct {
		Kind string `json:"kind"`
		UID  string `json:"uid"`
	} `json:"involvedObject"`
	Reason string `json:"reason"`
}

type kubeContainer struct {
	Name      string `json:"name"`
	Resources struct {
		Limits   map[string]any `json:"limits"`
		Requests map[string]any `json:"requests"`
	} `json:"resources"`
}

type kubeStatus struct {
	Name      string    `json:"name"`
	Restarts  int       `json:"restartCount"`
	State     kubeState `json:"state"`
	LastState kubeState `json:"lastState"`
}

type kubeState struct {
	Waiting *struct {
		Reason string `json:"reason"`
	} `json:"waiting"`
	Running    *struct{}   `json:"running"`
	Terminated *kubeFinish `json:"terminated"`
}

type kubeFinish struct {
	Code     int        `json:"exitCode"`
	Signal   int        `json:"signal"`
	Reason   string     `json:"reason"`
	Started  *time.Time `json:"startedAt"`
	Finished *time.Time `json:"finishedAt"`
}

// Kubernetes reads what kubectl get pods,jobs,events -o json prints, one list or several behind one another. The pods of
// one job that ran at the same time are one attempt, as of a PyTorchJob's workers; each restart of a container is one.
//
// Events may stand behind the pods that they are about, so records come when all has been read; what is held of a pod
// until then is a record.
func Kubernetes(r io.Reader, opt Options) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		y := newYielder(opt, yield)
		k := kubeReader{y: y, events: map[string]string{}}
		d := json.NewDecoder(bufio.NewReaderSize(r, 256<<10))
		for {
			more, err := k.document(d)
			if err == io.EOF {
				break
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("kubectl's JSON after object %d: %w", k.objects, err))
				return
			}
			if !more {
				return
			}
		}
		for _, p := range k.attempts() {
			if !y.give("pod "+p.pod, p.rec, nil) {
				return
			}
		}
	}
}

type kubeReader struct {
	y       *yielder
	objects int
	runs    []kubeRun
	events  map[string]string // reason that explains an end, by pod uid
}

// kubeRun is one run of a pod's containers.
type kubeRun struct {
	rec   Record
	pod   string
	uid   string
	index string // which of the job's pods it is; empty where the job has one at a time
}

// document reads an object or a list, item by item.
func (k *kubeReader) document(d *json.Decoder) (more bool, err error) {
	if err := expect(d, '{'); err != nil {
		return false, err
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false, err
		}
		if key != "items" {
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				return false, err
			}
			members[fmt.Sprint(key)] = value
			continue
		}
		if more, err := k.items(d); err != nil || !more {
			return more, err
		}
	}
	if err := expect(d, '}'); err != nil {
		return false, err
	}
	if bytes.HasSuffix(members["kind"], []byte(`List"`)) {
		return true, nil
	}
	body, err := json.Marshal(members)
	if err != nil {
		return false, err
	}
	return k.object(body), nil
}

func (k *kubeReader) items(d *json.Decoder) (more bool, err error) {
	if err := expect(d, '['); err != nil {
		return false, err
	}
	for d.More() {
		var body json.RawMessage
		if err := d.Decode(&body); err != nil {
			return false, err
		}
		if !k.object(body) {
			return false, nil
		}
	}
	return true, expect(d, ']')
}

// object takes one object and says whether more is wanted.
func (k *kubeReader) object(body []byte) bool {
	k.objects++
	var o kubeObject
	if err := json.Unmarshal(body, &o); err != nil {
		return k.y.give(where("object", k.objects), Record{}, err)
	}
	switch o.Kind {
	case "Event":
		if state := eventStates[o.Reason]; state != "" && o.Involved.Kind == "Pod" {
			k.events[o.Involved.UID] = state
		}
	case "Pod":
		return k.pod(&o)
	}
	return true
}

// eventStates are the events that say what ended a pod.
var eventStates = map[string]string{"Preempted": "PreemptionByScheduler", "Preempting": "PreemptionByScheduler", "Evicted": "Evicted",
	"TaintManagerEviction": "DeletionByTaintManager", "NodeNotReady": "NodeLost", "OOMKilling": "OOMKilled", "Shutdown": "TerminationByKubelet"}

func (k *kubeReader) pod(o *kubeObject) bool {
	runs := podRuns(o)
	ended := o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed"
	if len(runs) == 0 {
		reason := skipRunning
		if ended {
			reason = skipNeverRan
		}
		return k.y.give("pod "+o.Metadata.Name, Record{}, &Skip{Job: podJob(o), Reason: reason})
	}
	k.runs = append(k.runs, runs...)
	return true
}

// podRuns are the runs of a pod that have ended: that which a restart left behind and the present one.
func podRuns(o *kubeObject) (runs []kubeRun) {
	main := mainStatus(o)
	if main == nil {
		if o.Status.Phase == "Failed" { // evicted or rejected before a container ran: only the pod tells
			runs = append(runs, podRun(o, &kubeFinish{Code: -1, Started: o.Status.StartTime, Finished: conditionTime(o)}, 0))
		}
		return runs
	}
	if last := main.LastState.Terminated; last != nil && main.Restarts > 0 {
		runs = append(runs, podRun(o, last, main.Restarts-1))
	}
	if end := main.State.Terminated; end != nil {
		runs = append(runs, podRun(o, end, main.Restarts))
	}
	return runs
}

func conditionTime(o *kubeObject) (latest *time.Time) {
	for _, c := range o.Status.Conditions {
		if c.Time != nil && (latest == nil || c.Time.After(*latest)) {
			latest = c.Time
		}
	}
	return latest
}

// mainStatus is the status of the container that the pod is for: the first that failed of those with a GPU, else of all,
// init containers included; else the first that has run.
func mainStatus(o *kubeObject) *kubeStatus {
	withGPU := map[string]bool{}
	for i := range o.Spec.Containers {
		n, _ := containerGPUs(&o.Spec.Containers[i])
		withGPU[o.Spec.Containers[i].Name] = n > 0
	}
	var best *kubeStatus
	rank := -1
	consider := func(list []kubeStatus, init bool) {
		for i := range list {
			s := &list[i]
			t := cmp.Or(s.State.Terminated, s.LastState.Terminated)
			if t == nil || init && t.Code == 0 {
				continue
			}
			score := 0
			if withGPU[s.Name] {
				score += 2
			}
			if t.Code != 0 {
				score++
			}
			if score > rank {
				best, rank = s, score
			}
		}
	}
	consider(o.Status.Containers, false)
	consider(o.Status.Init, true)
	return best
}

func podRun(o *kubeObject, end *kubeFinish, restart int) kubeRun {
	run := kubeRun{pod: o.Metadata.Name, uid: o.Metadata.UID, index: podIndex(o.Metadata.Labels)}
	run.rec.Owner = -1
	a := &run.rec.Attempt
	a.Job, a.Name, a.VC = podJob(o), o.Metadata.Name, o.Metadata.Namespace
	for _, l := range []string{"user", "owner", "username", "created-by"} {
		a.User = cmp.Or(a.User, o.Metadata.Labels[l], o.Metadata.Annotations[l])
	}
	a.RunID = o.Metadata.UID
	if restart > 0 {
		a.RunID += "/" + strconv.Itoa(restart)
	}
	a.CostClass = o.Spec.Priority
	a.Submitted, a.Start, a.End = o.Metadata.Created, end.Started, end.Finished
	if restart > 0 {
		a.Submitted = nil
	}
	if o.Spec.NodeName != "" {
		a.Nodes = []string{o.Spec.NodeName}
	}
	for i := range o.Spec.Containers {
		n, kind := containerGPUs(&o.Spec.Containers[i])
		a.GPUs += n
		a.GPUType = cmp.Or(a.GPUType, kind)
	}
	for _, l := range []string{"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"} {
		a.GPUType = cmp.Or(o.Spec.NodeSelector[l], a.GPUType)
	}
	setPodEnd(a, o, end, restart)
	return run
}

// setPodEnd reads how a run ended. Exit code 137 says nothing by itself: the pod's reason and its condition
// DisruptionTarget tell a preemption from an eviction from an OOM kill.
func setPodEnd(a *corpus.Attempt, o *kubeObject, end *kubeFinish, restart int) {
	a.State = end.Reason
	switch {
	case end.Signal > 0:
		setSignal(&a.Exit, end.Signal)
	case end.Code >= 0:
		a.Code = new(end.Code)
	}
	if restart > 0 && end.Reason != "" && o.Status.Phase == "Running" {
		return // the pod itself goes on
	}
	if o.Status.Reason != "" && a.State != "OOMKilled" && a.State != "Completed" {
		a.State, a.Reason = o.Status.Reason, o.Status.Message
	}
	for _, c := range o.Status.Conditions {
		if c.Type == "DisruptionTarget" && c.Status == "True" && c.Reason != "" && a.State != "OOMKilled" && a.State != "Completed" {
			a.Reason = c.Reason
		}
	}
}

// podJob is the job that a pod belongs to, by its labels or its owner.
func podJob(o *kubeObject) string {
	l := o.Metadata.Labels
	name := cmp.Or(l["jobset.sigs.k8s.io/jobset-name"], l["training.kubeflow.org/job-name"], l["volcano.sh/job-name"], l["ray.io/cluster"],
		l["batch.kubernetes.io/job-name"], l["job-name"])
	for _, owner := range o.Metadata.Owners {
		if name == "" && owner.Kind != "ReplicaSet" && owner.Kind != "Node" {
			name = owner.Name
		}
	}
	return cmp.Or(name, o.Metadata.Name)
}

// podIndex tells the pods of one attempt apart.
func podIndex(l map[string]string) string {
	for _, parts := range [][]string{
		{"jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index", "batch.kubernetes.io/job-completion-index"},
		{"training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"},
		{"volcano.sh/task-spec", "volcano.sh/task-index"},
		{"batch.kubernetes.io/job-completion-index"},
	} {
		var values []string
		for _, p := range parts {
			values = append(values, l[p])
		}
		if values[len(values)-1] != "" {
			return strings.Join(values, "/")
		}
	}
	return ""
}

// containerGPUs are the GPUs that a container may use, of any vendor, and a word for their type where the resource says.
func containerGPUs(c *kubeContainer) (n int, kind string) {
	for _, list := range []map[string]any{c.Resources.Limits, c.Resources.Requests} {
		for name, value := range list {
			count, err := strconv.Atoi(fmt.Sprint(value))
			vendor, what, _ := strings.Cut(name, "/")
			mig, isMIG := strings.CutPrefix(what, "mig-")
			if err != nil || !(what == "gpu" || isMIG || what == "gaudi" || vendor == "gpu.intel.com" || name == "huawei.com/Ascend910") {
				continue
			}
			n += count
			if isMIG {
				kind = mig
			}
		}
		if n > 0 {
			return n, kind
		}
	}
	return 0, ""
}

// attempts joins the runs of pods that were one attempt, in the order of job and start.
func (k *kubeReader) attempts() []kubeRun {
	for i := range k.runs {
		a := &k.runs[i].rec.Attempt
		if state := k.events[k.runs[i].uid]; state != "" && a.Reason == "" && a.State != "Completed" && a.State != "OOMKilled" {
			a.Reason = state
		}
	}
	slices.SortStableFunc(k.runs, func(a, b kubeRun) int {
		x, y := &a.rec.Attempt, &b.rec.Attempt
		return cmp.Or(cmp.Compare(x.VC, y.VC), cmp.Compare(x.Job, y.Job), compareTimes(x.Start, y.Start), cmp.Compare(a.pod, b.pod))
	})
	var list []kubeRun
	var indexes map[string]bool
	for _, run := range k.runs {
		if len(list) > 0 && run.joins(&list[len(list)-1], indexes) {
			list[len(list)-1].join(&run)
		} else {
			list = append(list, run)
			indexes = map[string]bool{}
		}
		indexes[run.index] = true
	}
	for i := range list {
		if a := &list[i].rec.Attempt; a.VC != "" {
			a.Job = a.VC + "/" + a.Job
		}
	}
	return list
}

func compareTimes(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Compare(*b)
}

// joins says that a run belongs to the attempt: it is another pod of the same job, which started before the attempt ended.
func (r *kubeRun) joins(to *kubeRun, indexes map[string]bool) bool {
	a, b := &to.rec.Attempt, &r.rec.Attempt
	return r.index != "" && !indexes[r.index] && a.VC == b.VC && a.Job == b.Job && a.End != nil && b.Start != nil && b.Start.Before(*a.End)
}

// join adds a pod to an attempt. The pod that failed first says how the attempt ended.
func (r *kubeRun) join(other *kubeRun) {
	a, b := &r.rec.Attempt, &other.rec.Attempt
	failed := func(e *corpus.Attempt) bool { return e.Code == nil || *e.Code != 0 }
	if failed(b) && (!failed(a) || b.End != nil && a.End != nil && b.End.Before(*a.End)) {
		a.Exit = b.Exit
	}
	a.GPUs += b.GPUs
	a.Nodes = append(a.Nodes, b.Nodes...)
	a.GPUType = cmp.Or(a.GPUType, b.GPUType)
	if compareTimes(a.End, b.End) < 0 {
		a.End = b.End
	}
	if compareTimes(a.Submitted, b.Submitted) > 0 {
		a.Submitted = b.Submitted
	}
}
