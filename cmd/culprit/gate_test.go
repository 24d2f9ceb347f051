package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"culprit/classifier"
	"culprit/corpus"
)

func writeFile(t *testing.T, name, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const crash = "Fatal Python error: Segmentation fault\n"

func TestGate(t *testing.T) {
	t.Setenv("USER", "alice")
	dir := t.TempDir()
	badPolicy := writeFile(t, "policy.yaml", "mode: block\n")
	enforce := writeFile(t, "policy.yaml", "mode: enforce\nexceptions: [{rule: no-such-rule, budget: 1}]\n")
	_, verdict, _ := runCLI(t, crash, "classify", "--json", "--exit-code", "139")
	history := writeFile(t, "history.jsonl", verdict)
	badHistory := writeFile(t, "history.jsonl", verdict+"{}\n")
	oom := writeFile(t, "a.err", oomLine+"\n")
	tests := []struct {
		name           string
		stdin          string
		args           string
		code           int
		stdout, stderr string // parts
	}{
		{"a user error", "", oom, 1, "STOP - gpu-oom, attempt 1", ""},
		{"from standard input", oomLine, "--exit-code 1", 1, "turn     user", ""},
		{"a passing trouble", "requests.exceptions.ConnectionError: connection refused\n", "--exit-code 1", 0, "RETRY - network-error", ""},
		{"nothing known", "x\n", "", 0, "RETRY - no-signature", ""},
		{"nothing known, and then stop", "x\n", "--on-error stop", 1, "STOP - no-signature", ""},
		{"an empty log", "", "", 0, "RETRY", ""},
		{"no log", "", dir + "/none.err", 0, "could not decide", "none.err"},
		{"no log, and then stop", "", "--on-error stop " + dir + "/none.err", 1, "--on-error stop", "none.err"},
		{"one of two logs is not there", "", oom + " " + dir + "/none.err", 0, "could not decide", ""},
		{"a bad policy", oomLine, "--policy " + badPolicy, 0, "could not decide", "policy.yaml:1: mode:"},
		{"no policy", oomLine, "--policy " + dir + "/none", 0, "could not decide", ""},
		{"no rules", oomLine, "--rules " + dir, 0, "could not decide", ""},
		{"no server", "", "--job 1 --server http://127.0.0.1:1", 0, "could not decide", "connection refused"},
		{"no server and a log", oomLine, "--job 1 --server http://127.0.0.1:1 -", 0, "could not decide", "connection refused"},
		{"no server, and then stop", "", "--job 1 --on-error stop --server http://127.0.0.1:1", 1, "STOP", ""},
		{"a server but no job", "", "--server http://127.0.0.1:1", 0, "could not decide", "--job"},
		{"the second crash in shadow mode", crash, "--exit-code 139 --history " + history, 0, "shadow: would stop", ""},
		{"the second crash, enforced", crash, "--exit-code 139 --history " + history + " --policy " + enforce, 1, "1 of 1 retry is used", "no such rule: no-such-rule"},
		{"a history with a mistake", oomLine, "--history " + badHistory, 0, "could not decide", "history.jsonl:2: neither a verdict nor an attempt"},
		{"no history", oomLine, "--history " + dir + "/none", 0, "could not decide", ""},
		{"wrong answer on error", "", "--on-error maybe", 2, "", `--on-error "maybe": must be retry or stop`},
		{"wrong profile", "", "--profile jenkins", 2, "", "is none of plain, gitlab"},
		{"wrong server", "", "--server culprit", 2, "", "--server"},
		{"wrong exit code", "", "--exit-code 999", 2, "", "--exit-code 999"},
	}
	for _, tt := range tests {
		code, stdout, stderr := runCLI(t, tt.stdin, append([]string{"gate"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: culprit gate %s\n got %d, %q, %q\nwant %d with %q, %q", tt.name, tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}

func TestGateJSON(t *testing.T) {
	code, stdout, stderr := runCLI(t, oomLine+"\n", "gate", "--json", "--exit-code", "1", "--attempt", "3")
	var d classifier.Decision
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || code != 1 {
		t.Fatalf("exit code %d, %v, %q, %q", code, err, stdout, stderr)
	}
	if d.Verdict != "stop" || d.Mode != "enforce" || d.Attempt != 3 || d.Evidence[0].Line != 1 || d.Evidence[0].Text != oomLine || strings.Count(stdout, "\n") != 1 {
		t.Errorf("%s", stdout)
	}
}

// TestGateServer: what a server says is the answer, whatever else it is, retry is.
func TestGateServer(t *testing.T) {
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer server.Close()
	tests := []struct {
		name   string
		status int
		body   string
		code   int
		stdout string
	}{
		{"stop", 200, `{"verdict": "stop", "would": "stop", "reason": "it says so", "attempt": 2}`, 1, "it says so"},
		{"retry", 200, `{"verdict": "retry", "would": "retry", "reason": "why not", "attempt": 2}`, 0, "why not"},
		{"not found", 404, `{"title": "Not Found", "detail": "job 1 has no such attempt"}`, 0, "job 1 has no such attempt"},
		{"an error", 500, "oops", 0, "answered 500"},
		{"a proxy's page", 200, "<html>log in</html>", 0, "no answer of culprit"},
		{"another answer", 200, `{"verdict": "perhaps"}`, 0, "no decision"},
		{"nothing", 200, "", 0, "could not decide"},
	}
	for _, tt := range tests {
		status, body = tt.status, tt.body
		code, stdout, _ := runCLI(t, "", "gate", "--server", server.URL, "--job", "1")
		if code != tt.code || !strings.Contains(stdout, tt.stdout) {
			t.Errorf("%s: %d %q\n got %d, %q\nwant %d with %q", tt.name, tt.status, tt.body, code, stdout, tt.code, tt.stdout)
		}
	}
}

// TestGateWithServe asks the real server, from a posted attempt to a stop.
func TestGateWithServe(t *testing.T) {
	url, _ := startServer(t, t.TempDir())
	flags := []string{"--server", url, "--job", "77", "--gpus", "8"}
	for range 2 {
		got := execute(t, "", nil, runJobArgs(t, flags, "err="+oomLine+"\\n", "exit=1")...)
		if got.Code != 1 || strings.Contains(got.Stderr, "not posted") || !strings.Contains(got.Stderr, "STOP - gpu-oom") {
			t.Errorf("%+v", got)
		}
	}
	if code, stdout, _ := runCLI(t, "", "gate", "--server", url, "--job", "77"); code != 1 || !strings.Contains(stdout, "attempt 2") {
		t.Errorf("the gate for the stored job: %d, %q", code, stdout)
	}
	if code, stdout, _ := runCLI(t, oomLine, "gate", "--server", url, "--job", "77", "-"); code != 1 || !strings.Contains(stdout, "attempt 3") {
		t.Errorf("the gate for another log of the job: %d, %q", code, stdout)
	}
	got := execute(t, "", nil, runJobArgs(t, append(flags, "--stdout", "--quiet"), "out=fine\\n")...)
	if got.Code != 0 || got.Stderr != "" {
		t.Errorf("a job that passes: %+v", got)
	}
	if code, stdout, _ := runCLI(t, "", "gate", "--server", url, "--job", "77", "--json"); code != 0 || !strings.Contains(stdout, `"undecided":true`) {
		t.Errorf("the gate after the job has passed: %d, %q", code, stdout)
	}
}

func TestProfiles(t *testing.T) {
	tests := []struct {
		profile              string
		own, retry, stopping int
	}{
		{"plain", 1, 75, 1}, {"gitlab", 1, 75, 1}, {"buildkite", 2, 75, 2}, {"github", 1, 75, 1}, {"argo", 137, 75, 137}, {"airflow", 99, 75, 1}, {"airflow", 3, 75, 3},
		{"kubernetes", 1, 75, 65}, {"kubeflow", 1, 138, 1}, {"kubeflow", 137, 137, 65}, {"kubeflow", 139, 139, 65}, {"metaflow", 1, 203, 202}, {"slurm", 1, 75, 65}, {"skypilot", 1, 75, 1},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		p, err := profileOf(tt.profile)
		if err != nil {
			t.Fatal(err)
		}
		seen[tt.profile] = true
		if retry, stop := p.retry(tt.own), p.stop(tt.own); retry != tt.retry || stop != tt.stopping {
			t.Errorf("%s, own code %d: retry %d, stop %d; want %d, %d", tt.profile, tt.own, retry, stop, tt.retry, tt.stopping)
		}
	}
	for _, p := range profiles {
		if !seen[p.name] {
			t.Errorf("profile %s has no row", p.name)
		}
		for own := 1; own < 256; own++ {
			if p.retry(own) == 0 || p.stop(own) == 0 || p.retry(own) > 255 || p.stop(own) > 255 || p.retry(own) == p.stop(own) && own != 75 && own != 138 {
				t.Errorf("%s, own code %d: retry %d, stop %d: a failure must stay one and both must differ", p.name, own, p.retry(own), p.stop(own))
			}
		}
		if code, stdout, _ := runCLI(t, "", "gate", "--profile", p.name, "--explain"); code != 0 || !strings.Contains(stdout, "culprit") {
			t.Errorf("culprit gate --profile %s --explain: %d, %q", p.name, code, stdout)
		}
	}
}

func TestGitHubProfile(t *testing.T) {
	output, summary := writeFile(t, "output", ""), writeFile(t, "summary", "")
	env := []string{"GITHUB_OUTPUT=" + output, "GITHUB_STEP_SUMMARY=" + summary}
	got := execute(t, "", env, runJobArgs(t, []string{"--profile", "github"}, "err=first\\n", "err="+oomLine+"\\n", "exit=1")...)
	if !strings.Contains(got.Stderr, "\n::error title=culprit stop%3A gpu-oom,line=2::ran out of GPU memory allocating 2.50 GiB") {
		t.Errorf("no annotation on the line in\n%s", got.Stderr)
	}
	data, _ := os.ReadFile(output)
	for _, line := range []string{"verdict=stop\n", "category=gpu-oom\n", "domain=user\n", "turn=user\n"} {
		if !strings.Contains(string(data), line) {
			t.Errorf("outputs lack %q:\n%s", line, data)
		}
	}
	data, _ = os.ReadFile(summary)
	if !strings.Contains(string(data), "### culprit: stop (gpu-oom)") || !strings.Contains(string(data), "    "+oomLine) {
		t.Errorf("summary:\n%s", data)
	}
}

func TestTerminationLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	long := oomLine + strings.Repeat(" \"quoted\\\\\"", 800)
	got := execute(t, "", nil, runJobArgs(t, []string{"--profile", "kubernetes", "--termination-log", path}, "err="+long+"\\n", "exit=1")...)
	data, err := os.ReadFile(path)
	var d classifier.Decision
	if err != nil || len(data) > terminationLogBytes || json.Unmarshal(data, &d) != nil || d.Verdict != "stop" || d.Category != "gpu-oom" {
		t.Errorf("exit code %d, %v, %d bytes:\n%s", got.Code, err, len(data), data)
	}
	if got.Code != exitDataErr {
		t.Errorf("exit code %d, want 65", got.Code)
	}
}

// TestShortJSON: a decision fits its limit, however long its parts are.
func TestShortJSON(t *testing.T) {
	d := classifier.Decision{Verdict: "stop", Reason: strings.Repeat("é\x00", 3000), WouldChange: strings.Repeat("<", 3000)}
	for range 16 {
		d.ExcludeNodes = append(d.ExcludeNodes, strings.Repeat("n", 1000))
		d.Evidence = append(d.Evidence, classifier.Evidence{Text: strings.Repeat("\x1b", 4000), File: strings.Repeat("f", 500)})
	}
	for _, limit := range []int{4096, 1024, 512} {
		data := shortJSON(d, limit)
		var back classifier.Decision
		if err := json.Unmarshal(data, &back); err != nil || len(data) > limit || back.Verdict != "stop" {
			t.Errorf("limit %d: %d bytes, %v", limit, len(data), err)
		}
	}
}

func TestMetadata(t *testing.T) {
	tests := []struct {
		name, env, system string
		want              string
	}{
		{"nothing", "HOME=/root", "", ""},
		{"Slurm", "SLURM_JOB_ID=42 SLURM_JOB_USER=alice SLURM_JOB_PARTITION=gpu SLURM_JOB_NAME=train SLURM_JOB_NODELIST=n[1-2] SLURM_CLUSTER_NAME=c SLURM_GPUS_ON_NODE=8 SLURM_JOB_NUM_NODES=2", "slurm",
			"attempt=1&cluster=c&gpus=16&job=42&name=train&nodes=n[1-2]&user=alice&vc=gpu"},
		{"Slurm, requeued twice", "SLURM_JOB_ID=42 SLURM_RESTART_COUNT=2", "slurm", "attempt=3&job=42"},
		{"Slurm, a task of an array", "SLURM_JOB_ID=45 SLURM_ARRAY_JOB_ID=42 SLURM_ARRAY_TASK_ID=3", "slurm array", "attempt=1&job=42_3"},
		{"GitLab", "GITLAB_CI=true CI_PROJECT_PATH=g/p CI_PIPELINE_ID=7 CI_JOB_NAME=train CI_JOB_ID=99 GITLAB_USER_LOGIN=alice CI_RUNNER_DESCRIPTION=r1", "gitlab",
			"job=g/p/7/train&name=train&node=r1&run_id=99&user=alice&vc=g/p"},
		{"GitHub", "GITHUB_ACTIONS=true GITHUB_REPOSITORY=o/r GITHUB_RUN_ID=5 GITHUB_JOB=test GITHUB_RUN_ATTEMPT=2 GITHUB_ACTOR=alice RUNNER_NAME=r", "github",
			"attempt=2&job=o/r/5/test&name=test&node=r&user=alice&vc=o/r"},
		{"Buildkite, second try", "BUILDKITE=true BUILDKITE_BUILD_ID=b BUILDKITE_STEP_ID=s BUILDKITE_JOB_ID=j BUILDKITE_RETRY_COUNT=1 BUILDKITE_PIPELINE_SLUG=p", "buildkite", "attempt=2&job=b/s&run_id=j&vc=p"},
		{"Airflow", "AIRFLOW_CTX_DAG_ID=d AIRFLOW_CTX_TASK_ID=t AIRFLOW_CTX_DAG_RUN_ID=r AIRFLOW_CTX_TRY_NUMBER=2 AIRFLOW_CTX_DAG_OWNER=alice", "airflow", "attempt=2&job=d/t/r&name=t&user=alice"},
		{"Airflow within a Slurm job", "SLURM_JOB_ID=42 AIRFLOW_CTX_DAG_ID=d AIRFLOW_CTX_TASK_ID=t AIRFLOW_CTX_DAG_RUN_ID=r", "airflow", "job=d/t/r&name=t"},
		{"Metaflow", "METAFLOW_RUN_ID=1 METAFLOW_STEP_NAME=s METAFLOW_TASK_ID=2 METAFLOW_RETRY_COUNT=0", "metaflow", "attempt=1&job=1/s/2"},
		{"SkyPilot", "SKYPILOT_TASK_ID=sky-1 SKYPILOT_NUM_GPUS_PER_NODE=8 SKYPILOT_NUM_NODES=4", "skypilot", "gpus=32&job=sky-1"},
		{"AWS Batch", "AWS_BATCH_JOB_ID=a AWS_BATCH_JOB_ATTEMPT=2 AWS_BATCH_JQ_NAME=q", "aws batch", "attempt=2&job=a&vc=q"},
		{"Argo within Kubernetes", "ARGO_NODE_ID=n KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=pod", "argo", "job=n&node=pod"},
		{"Kubernetes", "KUBERNETES_SERVICE_HOST=10.0.0.1 HOSTNAME=train-x7 JOB_NAME=train POD_NAMESPACE=ml NODE_NAME=n1", "kubernetes", "job=train&node=n1&run_id=train-x7&vc=ml"},
		{"numbers that are none", "SLURM_JOB_ID=42 SLURM_RESTART_COUNT=x SLURM_GPUS_ON_NODE=gpu:2", "slurm", "attempt=1&job=42"},
	}
	for _, tt := range tests {
		fields, system := metadata(func(name string) string {
			for _, pair := range strings.Fields(tt.env) {
				if k, v, _ := strings.Cut(pair, "="); k == name {
					return v
				}
			}
			return ""
		})
		var got []string
		for name, values := range fields {
			got = append(got, name+"="+strings.Join(values, ","))
		}
		slices.Sort(got)
		if g := strings.Join(got, "&"); g != tt.want || system != tt.system {
			t.Errorf("%s: %s\n got %s: %s\nwant %s: %s", tt.name, tt.env, system, g, tt.system, tt.want)
		}
	}
}

func TestGateReplay(t *testing.T) {
	data := t.TempDir()
	kept, err := corpus.Open(t.Context(), data, corpus.Options{NoIndex: true})
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
	add := func(job string, number int, category string, at time.Time) {
		end := at.Add(time.Hour)
		a := corpus.Attempt{Job: job, Number: number, GPUs: 8, Start: &at, End: &end,
			Verdict: classifier.Verdict{Category: category, Fault: "user", Retry: "never", Rule: "torch-cuda-oom", Confidence: 0.96, Fingerprint: "a"}}
		if _, err := kept.Add(t.Context(), &a, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		add("in-vain", i+1, "gpu-oom", day)
	}
	add("helped", 1, "gpu-oom", day)
	add("helped", 2, "none", day)
	add("before", 1, "gpu-oom", day.AddDate(0, -1, 0))
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runCLI(t, "", "gate", "replay", "--data", data, "--from", "2026-11-01", "--to", "2026-12-01", "--format", "csv")
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil || code != 0 {
		t.Fatalf("%d, %v, %s", code, err, stderr)
	}
	want := [][]string{
		{"rule", "category", "mode", "stops", "blocked", "gpu_s", "false_blocks"},
		{"torch-cuda-oom", "gpu-oom", "enforce", "2", "3", "57600", "1"},
		{"all", "", "", "2", "3", "57600", "1"},
		{"enforced", "", "", "2", "3", "57600", "1"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	shadow := writeFile(t, "policy.yaml", "exceptions: [{rule: torch-cuda-oom, mode: shadow}]")
	for _, tt := range []struct{ args, want string }{
		{"--policy " + shadow, "enforced 0 0 0.00 0"},
		{"", "3 jobs, 6 attempts, 5 of them failed"},
		{"--format json", `"jobs":3,"attempts":6`},
		{"--from 2027-01-01", "0 jobs"},
	} {
		code, stdout, stderr := runCLI(t, "", append([]string{"gate", "replay", "--data", data}, strings.Fields(tt.args)...)...)
		if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), " "), tt.want) {
			t.Errorf("gate replay %s: %d, %s\n got %s\nwant %s", tt.args, code, stderr, stdout, tt.want)
		}
	}
	for _, args := range []string{"--format xml", "--from yesterday"} {
		if code, _, _ := runCLI(t, "", append([]string{"gate", "replay", "--data", data}, strings.Fields(args)...)...); code != exitUsage {
			t.Errorf("gate replay %s: exit code %d, want 2", args, code)
		}
	}
}

// TestRecipes: the YAML of the recipes is YAML and says what its system must be told; the shell runs.
func TestRecipes(t *testing.T) {
	tests := []struct {
		file string
		path []any // to a value
		want any
	}{
		{"gitlab/culprit.gitlab-ci.yml", []any{".culprit", "retry", "exit_codes", 0}, 75},
		{"gitlab/culprit.gitlab-ci.yml", []any{".culprit", "retry", "max"}, 2},
		{"buildkite/pipeline.yml", []any{"steps", 0, "retry", "automatic", 0, "exit_status"}, 75},
		{"buildkite/pipeline.yml", []any{"steps", 0, "retry", "automatic", 1, "exit_status"}, -1},
		{"argo/workflow.yaml", []any{"spec", "templates", 0, "retryStrategy", "retryPolicy"}, "Always"},
		{"argo/workflow.yaml", []any{"spec", "templates", 0, "retryStrategy", "expression"}, `asInt(lastRetry.exitCode) == 75 || lastRetry.status == "Error"`},
		{"kubernetes/job.yaml", []any{"spec", "podFailurePolicy", "rules", 0, "action"}, "Ignore"},
		{"kubernetes/job.yaml", []any{"spec", "podFailurePolicy", "rules", 1, "onExitCodes", "values", 0}, exitDataErr},
		{"kubernetes/job.yaml", []any{"spec", "template", "spec", "restartPolicy"}, "Never"},
		{"kubeflow/pytorchjob.yaml", []any{"spec", "pytorchReplicaSpecs", "Worker", "restartPolicy"}, "ExitCode"},
		{"skypilot/task.yaml", []any{"resources", "job_recovery", "recover_on_exit_codes", 0}, 75},
		{"github/action.yml", []any{"runs", "using"}, "composite"},
		{"github/workflow.yml", []any{"jobs", "train", "steps", 1, "with", "run"}, "python train.py"},
		{"github/rerun.yml", []any{"jobs", "rerun", "permissions", "actions"}, "write"},
	}
	for _, tt := range tests {
		if got := recipeValue(t, tt.file, tt.path...); got != tt.want {
			t.Errorf("%s: %v is %v, want %v", tt.file, tt.path, got, tt.want)
		}
	}
	for _, p := range profiles {
		if _, err := recipes.ReadFile("recipes/" + p.name + "/README.md"); err != nil {
			t.Error(err)
		}
	}
}

func recipeValue(t *testing.T, file string, path ...any) any {
	t.Helper()
	data, err := recipes.ReadFile("recipes/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var node any
	if err := yaml.Unmarshal(data, &node); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, key := range path {
		switch key := key.(type) {
		case string:
			m, _ := node.(map[string]any)
			node = m[key]
		case int:
			list, _ := node.([]any)
			if key >= len(list) {
				t.Fatalf("%s: %v has no element %d", file, path, key)
			}
			node = list[key]
		}
	}
	return node
}

// scriptPath is a PATH with culprit and commands of the test's own in front.
func scriptPath(t *testing.T, commands map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	writeScript(t, filepath.Join(dir, "culprit"), fmt.Sprintf("CULPRIT_TEST_MAIN=1 exec '%s' \"$@\"", self))
	for name, body := range commands {
		writeScript(t, filepath.Join(dir, name), body)
	}
	return "PATH=" + dir + ":" + os.Getenv("PATH")
}

// runScript runs a script in a folder of its own and returns what it did.
func runScript(t *testing.T, env []string, args ...string) (code int, output string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"TMPDIR=" + os.TempDir(), "HOME=" + cmd.Dir}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // its state says how it ended
	if cmd.ProcessState == nil {
		t.Fatalf("%q did not start", args)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

const flaky = `n=$(cat tries 2>/dev/null || echo 0); n=$((n + 1)); echo $n >tries
[ "$n" -ge 3 ] && exit 0
echo "requests.exceptions.ConnectionError: try $n: connection refused" >&2; exit 1`

func TestRecipePlain(t *testing.T) {
	recipe, _ := filepath.Abs("recipes/plain/retry.sh")
	path := scriptPath(t, map[string]string{"flaky": flaky, "hopeless": "echo '" + oomLine + "' >&2; exit 9"})
	if code, out := runScript(t, []string{path, "RETRY_WAIT=0"}, "sh", recipe, "flaky"); code != 0 || strings.Count(out, "RETRY - network-error") != 2 {
		t.Errorf("two troubles that pass: %d\n%s", code, out)
	}
	if code, out := runScript(t, []string{path, "RETRY_WAIT=0"}, "sh", recipe, "hopeless"); code != 9 || strings.Count(out, "STOP") != 1 {
		t.Errorf("a user error: %d\n%s", code, out)
	}
	if code, out := runScript(t, []string{path, "RETRY_WAIT=0", "MAX_ATTEMPTS=2"}, "sh", recipe, "flaky"); code != exitTempFail {
		t.Errorf("no attempts left: %d\n%s", code, out)
	}
}

func TestRecipeGitLab(t *testing.T) {
	script := recipeValue(t, "gitlab/culprit.gitlab-ci.yml", ".culprit", "script", 0).(string)
	path := scriptPath(t, map[string]string{"hopeless": "echo '" + oomLine + "' >&2; exit 9", "flaky": flaky})
	for command, want := range map[string]int{"hopeless": 9, "flaky": 75, "true": 0} {
		if code, out := runScript(t, []string{path, "CULPRIT_PROFILE=gitlab", "COMMAND=" + command}, "sh", "-e", "-c", script); code != want {
			t.Errorf("%s: exit code %d, want %d\n%s", command, code, want, out)
		}
	}
}

func TestRecipeGitHub(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	script := recipeValue(t, "github/action.yml", "runs", "steps", 0, "run").(string)
	for command, want := range map[string]string{"echo '" + oomLine + "' >&2; exit 9": "stop", "false": "retry", "true": ""} {
		dir := t.TempDir()
		env := []string{scriptPath(t, nil), "COMMAND=" + command, "CULPRIT_SERVER=", "CULPRIT_POLICY=", "RUNNER_TEMP=" + dir,
			"GITHUB_OUTPUT=" + filepath.Join(dir, "output"), "GITHUB_STEP_SUMMARY=" + filepath.Join(dir, "summary")}
		code, out := runScript(t, env, "bash", "-e", "-o", "pipefail", "-c", script)
		verdict, _ := os.ReadFile(filepath.Join(dir, "culprit", "verdict")) // not there where it passed
		if strings.TrimSpace(string(verdict)) != want || (code == 0) != (want == "") {
			t.Errorf("%s: exit code %d, verdict %q, want %q\n%s", command, code, verdict, want, out)
		}
	}
}

// TestRecipeRerun: the companion starts the failed jobs again only where every failed job may run again.
func TestRecipeRerun(t *testing.T) {
	script := recipeValue(t, "github/rerun.yml", "jobs", "rerun", "steps", 0, "run").(string)
	for _, tt := range []struct {
		verdicts string
		failed   int
		rerun    bool
	}{{"retry", 1, true}, {"stop", 1, false}, {"retry retry", 2, true}, {"retry stop", 2, false}, {"retry", 2, false}, {"", 1, false}} {
		gh := fmt.Sprintf(`case "$*" in
*download*) [ -n "%[1]s" ] || exit 1; i=0; for v in %[1]s; do mkdir -p verdicts/$i; echo $v >verdicts/$i/verdict; i=$((i+1)); done ;;
*view*) echo %[2]d ;;
*rerun*) echo RERUN "$@" ;;
esac`, tt.verdicts, tt.failed)
		code, out := runScript(t, []string{scriptPath(t, map[string]string{"gh": gh}), "REPO=o/r", "RUN=5", "ATTEMPT=1"}, "bash", "-e", "-o", "pipefail", "-c", script)
		if code != 0 || strings.Contains(out, "RERUN run rerun 5 --repo o/r --failed") != tt.rerun {
			t.Errorf("%q of %d failed: exit code %d, %q; want a rerun: %v", tt.verdicts, tt.failed, code, out, tt.rerun)
		}
	}
}

// TestRecipeAirflow runs the policy as a task that failed would.
func TestRecipeAirflow(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	recipe, _ := filepath.Abs("recipes/airflow")
	program := `
import sys
sys.path.insert(0, sys.argv[1])
from culprit_retry import CulpritRetry
policy = CulpritRetry(server=sys.argv[3] or None)
class TI: dag_id, task_id, run_id = "d", "t", "r"
print(policy.evaluate(exception=RuntimeError(sys.argv[2]), try_number=1, max_tries=3, context={"ti": TI}).action)
`
	for _, tt := range []struct{ name, exception, server, want string }{
		{"culprit run said so", "Bash command failed. The command returned a non-zero exit code 75.", "", "retry"},
		{"a user error", oomLine, "", "fail"},
		{"nothing known", "it went wrong", "", "default"},
		{"no server", oomLine, "http://127.0.0.1:1", "default"},
	} {
		code, out := runScript(t, []string{scriptPath(t, nil), "PYTHONDONTWRITEBYTECODE=1"}, "python3", "-c", program, recipe, tt.exception, tt.server)
		if code != 0 || strings.TrimSpace(out) != tt.want {
			t.Errorf("%s: %d, %s; want %s", tt.name, code, out, tt.want)
		}
	}
}
