package main

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"culprit/classifier"
)

// The exit codes of run, where a profile says nothing else.
const (
	exitTempFail = 75 // EX_TEMPFAIL of sysexits: a retry can help
	exitDataErr  = 65 // EX_DATAERR: a retry cannot, for systems that need a code of their own for that
)

//go:embed recipes
var recipes embed.FS

// profile is how culprit speaks to one scheduler or CI system.
type profile struct {
	name   string
	recipe string             // file below recipes that --explain prints
	retry  func(code int) int // exit code of run where a retry can help, from the job's own
	stop   func(code int) int // where it cannot
	raise  bool               // a job that was killed by a signal ends run by the same signal, where it is no retry
	tell   func(ctx context.Context, w io.Writer, d classifier.Decision) error
}

func own(code int) int              { return code }
func always(code int) func(int) int { return func(int) int { return code } }

var profiles = []profile{
	{name: "plain", recipe: "plain/retry.sh", retry: always(exitTempFail), stop: own},
	{name: "gitlab", recipe: "gitlab/culprit.gitlab-ci.yml", retry: always(exitTempFail), stop: own},
	{name: "buildkite", recipe: "buildkite/pipeline.yml", retry: always(exitTempFail), stop: own},
	{name: "github", recipe: "github/workflow.yml", retry: always(exitTempFail), stop: own, tell: tellGitHub},
	{name: "argo", recipe: "argo/workflow.yaml", retry: always(exitTempFail), stop: own},
	{name: "airflow", recipe: "airflow/culprit_retry.py", retry: always(exitTempFail), stop: notSkip},
	{name: "kubernetes", recipe: "kubernetes/job.yaml", retry: always(exitTempFail), stop: always(exitDataErr)},
	{name: "kubeflow", recipe: "kubeflow/pytorchjob.yaml", retry: retryKubeflow, stop: stopKubeflow},
	{name: "metaflow", recipe: "metaflow/train_flow.py", retry: always(203), stop: always(202)},
	{name: "slurm", recipe: "slurm/job.sh", retry: always(exitTempFail), stop: always(exitDataErr), raise: true, tell: tellSlurm},
	{name: "skypilot", recipe: "skypilot/task.yaml", retry: always(exitTempFail), stop: own},
}

// notSkip keeps Airflow's BashOperator from reading a failure as a skipped task.
func notSkip(code int) int {
	if code == 99 {
		return 1
	}
	return code
}

// Kubeflow's training operator runs a replica again exactly where its exit code is 128 or more.
func retryKubeflow(code int) int {
	if code >= 128 {
		return code
	}
	return 138 // 128 + SIGUSR1: the code that its documents leave to the user
}

func stopKubeflow(code int) int {
	if code < 128 {
		return code
	}
	return exitDataErr
}

func profileNames() string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func profileOf(name string) (profile, error) {
	i := slices.IndexFunc(profiles, func(p profile) bool { return p.name == name })
	if i < 0 {
		return profile{}, usagef("--profile %q is none of %s", name, profileNames())
	}
	return profiles[i], nil
}

// explain is what to paste into the system's own file.
func (p profile) explain() (string, error) {
	data, err := recipes.ReadFile("recipes/" + p.recipe)
	return string(data), err
}

// terminationLog is where Kubernetes reads a container's last words, and how many bytes of them.
const (
	terminationLog      = "/dev/termination-log"
	terminationLogBytes = 4096
)

// announce tells the system of a decision in its own way, beside the exit code. path is a file for the decision; empty
// means the profile's own, where it has one that exists.
func (p profile) announce(ctx context.Context, w io.Writer, d classifier.Decision, path string) error {
	if path == "" && p.name == "kubernetes" {
		if _, err := os.Stat(terminationLog); err == nil {
			path = terminationLog
		}
	}
	var errs []error
	if path != "" {
		errs = append(errs, os.WriteFile(path, shortJSON(d, terminationLogBytes), 0o644))
	}
	if p.tell != nil {
		errs = append(errs, p.tell(ctx, w, d))
	}
	return errors.Join(errs...)
}

// shortJSON is a decision as JSON of at most limit bytes: what is long in it is cut until it fits.
func shortJSON(d classifier.Decision, limit int) []byte {
	d.Evidence = slices.Clone(d.Evidence)
	for most := limit / 4; ; most /= 2 {
		if len(d.Evidence) > 2 {
			d.Evidence = d.Evidence[:2]
		}
		for i := range d.Evidence {
			d.Evidence[i] = classifier.Evidence{Rule: d.Evidence[i].Rule, File: clip(d.Evidence[i].File, most), Line: d.Evidence[i].Line,
				Offset: d.Evidence[i].Offset, Text: clip(d.Evidence[i].Text, most)}
		}
		d.Reason, d.WouldChange = clip(d.Reason, most), clip(d.WouldChange, most)
		for i := range d.ExcludeNodes {
			d.ExcludeNodes[i] = clip(d.ExcludeNodes[i], most)
		}
		data, err := json.Marshal(d)
		if err == nil && len(data)+1 <= limit {
			return append(data, '\n')
		}
		if most < 16 {
			return []byte(`{"verdict":"` + string(d.Verdict) + `"}` + "\n")
		}
	}
}

// clip cuts s to about n bytes, at a character's border.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// tellGitHub writes an annotation, the step's outputs and its summary.
func tellGitHub(_ context.Context, w io.Writer, d classifier.Decision) error {
	level, title := "warning", "retry: "+d.Category
	if d.Would == classifier.AnswerStop {
		level, title = "error", string(d.Verdict)+": "+d.Category
	}
	at := ""
	if e := proof(d); e != nil {
		if e.File != "" {
			at = ",file=" + workflowValue(e.File)
		}
		at += fmt.Sprintf(",line=%d", e.Line)
	}
	_, err := fmt.Fprintf(w, "::%s title=culprit %s%s::%s\n", level, workflowValue(title), at, workflowText(d.Reason))
	outputs := ""
	for _, pair := range [][2]string{{"verdict", string(d.Verdict)}, {"would", string(d.Would)}, {"category", d.Category}, {"domain", string(d.Domain)},
		{"rule", d.Rule}, {"reason", d.Reason}, {"turn", string(d.Turn)}} {
		outputs += pair[0] + "=" + oneLine(pair[1]) + "\n"
	}
	return errors.Join(err, appendTo(os.Getenv("GITHUB_OUTPUT"), outputs), appendTo(os.Getenv("GITHUB_STEP_SUMMARY"), summaryMarkdown(d)))
}

// summaryMarkdown is a decision for a page of a CI system.
func summaryMarkdown(d classifier.Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### culprit: %s (%s)\n\n%s.\n\n", d.Verdict, cmp.Or(d.Category, "no verdict"), markdownText(d.Reason))
	fmt.Fprintf(&b, "| fault | rule | attempt | retries used | next turn |\n|---|---|---|---|---|\n| %s | %s | %d | %d of %d | %s |\n", d.Domain,
		markdownText(cmp.Or(d.Rule, "–")), d.Attempt, d.Budget.Used, d.Budget.Max, d.Turn)
	if e := proof(d); e != nil {
		fmt.Fprintf(&b, "\nLine %d is the proof:\n\n    %s\n", e.Line, oneLine(clip(e.Text, 500)))
	}
	return b.String()
}

func proof(d classifier.Decision) *classifier.Evidence {
	if len(d.Evidence) == 0 {
		return nil
	}
	return &d.Evidence[0]
}

func appendTo(path, text string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

var (
	workflowTexts  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	workflowValues = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	markdowns      = strings.NewReplacer("<", "&lt;", "|", `\|`, "\n", " ", "`", "'", "*", `\*`, "_", `\_`, "[", `\[`)
)

func workflowText(s string) string  { return workflowTexts.Replace(s) }
func workflowValue(s string) string { return workflowValues.Replace(s) }
func markdownText(s string) string  { return markdowns.Replace(s) }

func oneLine(s string) string { return printable(s, 2000) }

// tellSlurm writes the decision into the job's comment, where squeue and sacct show it.
func tellSlurm(ctx context.Context, _ io.Writer, d classifier.Decision) error {
	job := os.Getenv("SLURM_JOB_ID")
	if job == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "scontrol", "update", "JobId="+job, "Comment="+slurmComment(d)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the job's comment could not be written: scontrol: %w: %s", err, oneLine(string(out)))
	}
	return nil
}

// slurmComment leaves out what separates fields in Slurm's output.
func slurmComment(d classifier.Decision) string {
	text := fmt.Sprintf("culprit: %s %s: %s", d.Verdict, cmp.Or(d.Category, "undecided"), d.Reason)
	return clip(strings.NewReplacer("|", "/", `"`, "'", "=", ":").Replace(oneLine(text)), 400)
}
