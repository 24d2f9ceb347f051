package classifier

import (
	"fmt"
	"strings"

	"culprit/rules"
)

// Exit is what the scheduler knows of an attempt's end. The zero value knows nothing.
type Exit struct {
	Code   *int   `json:"exit_code,omitempty"` // 0 to 255, as a shell reports it, or 256 + signal, as PBS does; nil where unknown
	Signal int    `json:"signal,omitempty"`    // the signal that ended the job itself; 0 where none
	State  string `json:"state,omitempty"`     // the scheduler's word: FAILED, OUT_OF_MEMORY, NODE_FAIL, OOMKilled, Evicted …
	Reason string `json:"reason,omitempty"`    // the scheduler's reason: NonZeroExitCode, DisruptionTarget …
}

// exitVerdict is what an exit says by itself, where the log is silent.
type exitVerdict struct {
	category   string
	says       string // the sentence of the summary
	confidence float64
	fault      rules.Fault // empty: the category's
	retry      rules.Retry
}

// Failed reports whether the attempt is known to have failed.
func (e Exit) Failed() bool {
	switch e.state() {
	case "COMPLETED", "SUCCEEDED":
		return false
	case "", "RUNNING", "PENDING":
		return e.Code != nil && *e.Code != 0 || e.Signal != 0
	}
	return true
}

// Succeeded reports whether the attempt is known to have ended well.
func (e Exit) Succeeded() bool { return e.Code != nil && *e.Code == 0 && e.Signal == 0 && !e.Failed() }

// state is the first word of the scheduler's state, in capitals, without the mark that says it was cut.
func (e Exit) state() string {
	word, _, _ := strings.Cut(strings.TrimSpace(e.State), " ")
	return strings.ToUpper(strings.TrimRight(word, "+"))
}

// MaxExitCode is the greatest exit code that a scheduler reports: PBS adds 256 to a signal.
const MaxExitCode = 511

// signal is the signal that ended the job, also where a shell reports it as 128 + n.
func (e Exit) signal() int {
	if e.Signal != 0 {
		return e.Signal
	}
	if e.Code == nil {
		return 0
	}
	for _, base := range [...]int{128, 256} {
		if *e.Code > base && *e.Code < base+65 {
			return *e.Code - base
		}
	}
	return 0
}

// stateVerdicts are the scheduler states and reasons of Slurm and Kubernetes that name the failure.
var stateVerdicts = map[string]exitVerdict{
	"OUT_OF_MEMORY":          {category: "cpu-oom", says: "the scheduler reports that the job ran out of host memory", confidence: 0.93},
	"OOMKILLED":              {category: "cpu-oom", says: "the container was killed at its memory limit", confidence: 0.93},
	"NODE_FAIL":              {category: "node-failure", says: "the scheduler reports that a node failed", confidence: 0.93},
	"BOOT_FAIL":              {category: "node-failure", says: "the scheduler reports that a node failed to boot", confidence: 0.93},
	"NODELOST":               {category: "node-failure", says: "the node of the pod was lost", confidence: 0.93},
	"PREEMPTED":              {category: "job-preempted", says: "the scheduler preempted the job", confidence: 0.95},
	"REQUEUED":               {category: "job-preempted", says: "the job was put back into the queue while it ran", confidence: 0.8, fault: rules.FaultUnknown},
	"TIMEOUT":                {category: "time-limit", says: "the job reached its time limit", confidence: 0.93},
	"DEADLINE":               {category: "time-limit", says: "the job reached its deadline", confidence: 0.93},
	"DEADLINEEXCEEDED":       {category: "time-limit", says: "the job reached its deadline", confidence: 0.93},
	"CANCELLED":              {category: "cancelled", says: "the job was cancelled", confidence: 0.9},
	"EVICTED":                {category: "job-preempted", says: "the pod was evicted", confidence: 0.75, retry: rules.RetryOnce, fault: rules.FaultUnknown},
	"PREEMPTIONBYSCHEDULER":  {category: "job-preempted", says: "the scheduler preempted the pod", confidence: 0.95},
	"DELETIONBYTAINTMANAGER": {category: "job-preempted", says: "the pod was evicted from a tainted node", confidence: 0.9},
	"EVICTIONBYEVICTIONAPI":  {category: "job-preempted", says: "the pod was evicted, as a drained node does", confidence: 0.9},
	"DELETIONBYPODGC":        {category: "node-failure", says: "the pod was collected after its node was gone", confidence: 0.85},
	"TERMINATIONBYKUBELET":   {category: "job-preempted", says: "the kubelet ended the pod, for pressure or a shutdown of its node", confidence: 0.8},
}

// verdict is what the exit alone says; ok is false where it says nothing more than that the job failed.
func (e Exit) verdict() (v exitVerdict, ok bool) {
	if v, ok := stateVerdicts[e.state()]; ok {
		return v, true
	}
	if v, ok := stateVerdicts[strings.ToUpper(e.Reason)]; ok {
		return v, true
	}
	switch sig := e.signal(); sig {
	case 0:
	case 2, 1: // INT, HUP
		return exitVerdict{category: "cancelled", says: fmt.Sprintf("the job was ended by signal %d, as an interrupt from its owner does", sig), confidence: 0.7, retry: rules.RetryOnce}, true
	case 4, 5, 6, 7, 8, 11, 31: // ILL, TRAP, ABRT, BUS, FPE, SEGV, SYS
		return exitVerdict{category: "core-dump", says: fmt.Sprintf("the process died of signal %d (%s) and said nothing", sig, signalName(sig)), confidence: 0.75}, true
	}
	if e.Signal == 125 || e.Signal == 253 { // how Slurm writes its internal out-of-memory signal
		return stateVerdicts["OUT_OF_MEMORY"], true
	}
	if e.Code != nil && *e.Code == 124 {
		return exitVerdict{category: "time-limit", says: "the command ran into the limit of timeout(1), which exits 124", confidence: 0.6, retry: rules.RetryOnce}, true
	}
	return exitVerdict{}, false
}

// describe says how the attempt ended, for a summary.
func (e Exit) describe() string {
	switch {
	case e.State != "" && e.Code != nil:
		return fmt.Sprintf("state %s, exit code %d", e.State, *e.Code)
	case e.State != "":
		return "state " + e.State
	case e.Code != nil && e.signal() != 0:
		return fmt.Sprintf("exit code %d, signal %d (%s)", *e.Code, e.signal(), signalName(e.signal()))
	case e.Code != nil:
		return fmt.Sprintf("exit code %d", *e.Code)
	case e.Signal != 0:
		return fmt.Sprintf("signal %d (%s)", e.Signal, signalName(e.Signal))
	}
	return "exit code unknown"
}

func signalName(n int) string {
	names := map[int]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
		11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM", 24: "SIGXCPU", 31: "SIGSYS"}
	if s, ok := names[n]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", n)
}
