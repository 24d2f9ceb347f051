package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"culprit/corpus"
)

// slurmDoc is a document as a Slurm 22.05 sends it, of a job in dir.
func slurmDoc(job int, start, state, exit, dir string) string {
	return fmt.Sprintf(`{"jobid":%d,"container":"","username":"ada","user_id":%d,"@start":"2026-11-01T%s","@end":"2026-11-01T23:00:00","elapsed":60,"partition":"main",
		"nodes":"gpu-[01-02]","total_nodes":2,"derived_ec":"0:0","exit_code":%q,"state":%q,"@submit":"2026-11-01T00:00:00","work_dir":%q,"std_err":%q,
		"job_name":"train","tres_alloc":"cpu=1,node=2,billing=1,gres\/gpu=16","script":"#!\/bin\/bash\n"}`, job, os.Getuid(), start, exit, state, dir, dir+"/err.%j")
}

func (c client) history(job string) []corpus.Attempt {
	c.tb.Helper()
	var view jobView
	w := c.get("/api/v1/jobs/" + job)
	wantStatus(c.tb.(*testing.T), w, http.StatusOK)
	decode(c.tb, w, &view)
	return view.Attempts
}

// TestSlurm: a finished job comes with its log, a requeued one has two attempts, the same again changes nothing.
func TestSlurm(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, func(cfg *Config) { cfg.LogRoots = []string{dir} })
	if err := os.WriteFile(filepath.Join(dir, "err.7"), []byte(oomLog), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		doc    string
		status int
		result string
	}{
		{slurmDoc(7, "10:00:00", "FAILED", "1:0", dir), 201, "created"},
		{slurmDoc(7, "10:00:00", "FAILED", "1:0", dir), 200, "updated"},
		{slurmDoc(8, "10:00:00", "PENDING", "0:0", dir), 201, "created"},
		{slurmDoc(8, "22:00:00", "COMPLETED", "0:0", dir), 201, "created"},
		{slurmDoc(9, "10:00:00", "OUT_OF_MEMORY", "0:125", dir), 201, "created"},
		{slurmDoc(10, "10:00:00", "RESIZING", "0:0", dir), 200, "ignored"},
		{strings.Replace(slurmDoc(7, "10:00:00", "FAILED", "1:0", dir), "ada", "bob", 1), 200, "ignored"},
	} {
		w := c.post("/slurm/_doc", tt.doc, "Content-Type", "application/json")
		var reply slurmReply
		decode(t, w, &reply)
		if w.Code != tt.status || reply.Result != tt.result {
			t.Errorf("%s\n got %d %+v, want %d %s", tt.doc, w.Code, reply, tt.status, tt.result)
		}
	}
	runs := c.history("7")
	if len(runs) != 1 || runs[0].Verdict.Category != "gpu-oom" || len(runs[0].Logs) != 1 || runs[0].GPUs != 16 || len(runs[0].Nodes) != 2 {
		t.Errorf("job 7: %+v, want one attempt with its log that says gpu-oom", runs)
	}
	if runs := c.history("8"); len(runs) != 2 || runs[0].State != "REQUEUED" || runs[0].Verdict.Category != "job-preempted" || runs[1].Verdict.Category != "none" {
		t.Errorf("job 8: %+v, want a requeued attempt and one that ended well", runs)
	}
	if runs := c.history("9"); len(runs) != 1 || runs[0].Verdict.Category != "cpu-oom" || len(runs[0].Logs) != 0 {
		t.Errorf("job 9: %+v, want an attempt without a log that ran out of memory", runs)
	}
	wantProblem(t, c.post("/slurm/_doc", "{", "Content-Type", "application/json"), 400, "", "not a document of Slurm's")
	wantProblem(t, c.post("/slurm/_doc?jobs=1", "{}"), 400, "jobs", "unknown")
}

// TestSlurmAndLog: the record and the log of one run meet, whichever comes first.
func TestSlurmAndLog(t *testing.T) {
	c := newClient(t)
	send := func(doc string) {
		t.Helper()
		if w := c.post("/slurm/_doc", doc); w.Code >= 300 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	c.keep("job=7", oomLog)
	send(slurmDoc(7, "10:00:00", "FAILED", "1:0", "/home/ada"))

	send(slurmDoc(8, "10:00:00", "FAILED", "1:0", "/home/ada"))
	if w := c.post("/api/v1/attempts?job=8&attempt=1&exit_code=1:0", oomLog); w.Code != http.StatusOK {
		t.Fatalf("the log of a run that is known: %d %s", w.Code, w.Body)
	}

	c.keep("job=9", "nothing to see\n")
	send(slurmDoc(9, "10:00:00", "NODE_FAIL", "1:0", "/home/ada"))

	for job, want := range map[string]string{"7": "gpu-oom", "8": "gpu-oom", "9": "node-failure"} {
		runs := c.history(job)
		if len(runs) != 1 || runs[0].GPUSeconds != 13*3600*16 || len(runs[0].Logs) != 1 || runs[0].Verdict.Category != want {
			t.Errorf("job %s: %+v, want one attempt with record, log and %s", job, runs, want)
		}
	}
}

// TestSlurmCluster: the query's cluster counts, also when it is empty.
func TestSlurmCluster(t *testing.T) {
	c := newClient(t)
	doc := strings.Replace(slurmDoc(7, "10:00:00", "FAILED", "1:0", "/x"), `"partition"`, `"cluster":"prod","partition"`, 1)
	for query, want := range map[string]string{"": "prod", "?cluster=eu": "eu", "?cluster=": ""} {
		w := c.post("/slurm/_doc"+query, doc)
		wantStatus(t, w, http.StatusCreated)
		a, err := c.server.corpus.History(t.Context(), want, "7")
		if err != nil || len(a) != 1 {
			t.Errorf("POST /slurm/_doc%s: cluster %q has %d attempts of job 7, %v", query, want, len(a), err)
		}
	}
}

// TestSlurmLogOfOthers: a job cannot make the server read what is not its user's or not below a root.
func TestSlurmLogOfOthers(t *testing.T) {
	dir, secret := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(secret, "err.7"), filepath.Join(dir, "err.9")} {
		if err := os.WriteFile(name, []byte(oomLog), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(secret, "err.7"), filepath.Join(dir, "err.8")); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, func(cfg *Config) { cfg.LogRoots = []string{dir} })
	for _, doc := range []string{
		slurmDoc(7, "10:00:00", "FAILED", "1:0", secret),
		slurmDoc(7, "11:00:00", "FAILED", "1:0", dir+"/../"+filepath.Base(secret)),
		slurmDoc(8, "10:00:00", "FAILED", "1:0", dir),
		strings.Replace(slurmDoc(9, "10:00:00", "FAILED", "1:0", dir), fmt.Sprintf(`"user_id":%d`, os.Getuid()), fmt.Sprintf(`"user_id":%d`, os.Getuid()+1), 1),
	} {
		wantStatus(t, c.post("/slurm/_doc", doc), http.StatusCreated)
	}
	for _, job := range []string{"7", "8", "9"} {
		for _, a := range c.history(job) {
			if len(a.Logs) != 0 {
				t.Errorf("job %s: a log was read that is not the job's", job)
			}
		}
	}
	if _, err := New(Config{Corpus: c.server.corpus, Classifier: c.server.classifier.Load(), LogRoots: []string{dir + "/none"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a root that is not there: %v, want an error that says so", err)
	}
}

// TestRealSlurm: jobs of a real Slurm arrive by its plugin with their logs, those that ended while the server was down too.
func TestRealSlurm(t *testing.T) {
	const script = "../../shared/slurm/single-node"
	switch _, err := exec.LookPath("slurmctld"); {
	case testing.Short():
		t.Skip("-short: a real Slurm takes minutes")
	case err != nil:
		t.Skip("needs a real Slurm: apt-get install slurm-wlm slurm-wlm-elasticsearch-plugin munge")
	case os.Getuid() != 0:
		t.Skip("needs root, to start munge")
	}
	if _, err := os.Stat(script); err != nil {
		t.Skipf("needs the script that starts a Slurm of one node: %v", err)
	}
	if out, err := exec.Command("pgrep", "-x", "slurmctld").Output(); err == nil {
		t.Skipf("a Slurm is running already, as process %s", strings.TrimSpace(string(out)))
	}
	dir := t.TempDir()
	c := newClient(t, func(cfg *Config) { cfg.LogRoots = []string{dir} })
	var up atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		c.server.Handler().ServeHTTP(w, r)
	}))
	defer server.Close()
	slurm := filepath.Join(dir, "slurm")
	start := exec.Command(script, "start", slurm, server.URL+"/slurm/_doc")
	start.Stdout, start.Stderr = os.Stderr, os.Stderr
	if err := start.Run(); err != nil {
		t.Skipf("Slurm does not come up here: %v", err)
	}
	defer stopSlurm(t, script, slurm)

	submit := func(arguments ...string) string {
		t.Helper()
		cmd := exec.Command("sbatch", append([]string{"--parsable", "--chdir", dir}, arguments...)...)
		cmd.Env = append(os.Environ(), "SLURM_CONF="+filepath.Join(slurm, "slurm.conf"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("sbatch %q: %v", arguments, err)
		}
		return strings.TrimSpace(string(out))
	}
	oom := submit("-e", "err.%j", "--wrap", "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.' >&2; exit 1")
	killed := submit("--wrap", "kill -9 $$")
	fine := submit("--wrap", "echo done")
	time.Sleep(10 * time.Second)
	up.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for job, want := range map[string]string{oom: "gpu-oom", killed: "no-signature", fine: "none"} {
		a := waitForJob(ctx, t, c, job)
		if a.Verdict.Category != want || a.Start == nil || a.End == nil || len(a.Nodes) != 1 || (job == oom) != (len(a.Logs) == 1) {
			body, _ := json.Marshal(a)
			t.Errorf("job %s: %s, want %s with a log for the first only", job, body, want)
		}
	}
}

// stopSlurm ends the daemons and waits until they have written their state.
func stopSlurm(t *testing.T, script, dir string) {
	pids, _ := filepath.Glob(filepath.Join(dir, "*.pid"))
	var running []string
	for _, file := range pids {
		pid, err := os.ReadFile(file)
		if err == nil {
			running = append(running, "/proc/"+strings.TrimSpace(string(pid)))
		}
	}
	if err := exec.Command(script, "stop", dir).Run(); err != nil {
		t.Errorf("stopping Slurm: %v", err)
	}
	for range 100 {
		left := 0
		for _, proc := range running {
			if status, err := os.ReadFile(proc + "/stat"); err == nil && !strings.Contains(string(status), ") Z ") {
				left++
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func waitForJob(ctx context.Context, t *testing.T, c client, job string) corpus.Attempt {
	t.Helper()
	for {
		list, err := c.server.corpus.History(t.Context(), "", job)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 {
			return list[0]
		}
		select {
		case <-ctx.Done():
			t.Fatalf("job %s does not arrive", job)
		case <-time.After(time.Second):
		}
	}
}

// TestTables holds what the reports with fixed rows answer against the contract.
func TestTables(t *testing.T) {
	doc := loadContract(t)
	c := newClient(t)
	someAttempts(c)
	c.keep("job=again&user=ada&gpus=8&start=1796140000&end=1796140020&submitted=1796139000&node=n1", oomLog)
	c.keep("job=again&user=ada&gpus=8&start=1796140100&end=1796140200&node=n1", oomLog)
	for _, path := range []string{"/api/v1/report/paper", "/api/v1/report/nodes", "/api/v1/report/repetition"} {
		w := c.get(path + "?from=2026-01-01&user=ada")
		wantStatus(t, w, http.StatusOK)
		doc.hold(path, doc.at(doc.root, "paths", path, "get", "responses", "200", "content", "application/json", "schema"), jsonOf(t, w))
		wantProblem(t, c.get(path+"?outcome=failed"), 400, "outcome", "unknown")
	}
}
