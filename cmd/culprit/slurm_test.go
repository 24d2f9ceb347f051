package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// slurmNode is the script that starts a Slurm of one node, where it is beside the repository.
const slurmNode = "../../../shared/slurm/single-node"

// TestSlurm runs the recipe under a real Slurm: a job that fails with its user's error is held, one that fails with a
// passing trouble is requeued and passes, and both say why in their comments.
func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Slurm")
	}
	slurm := startSlurm(t)
	dir := slurm.dir
	recipe, err := filepath.Abs("recipes/slurm/job.sh")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	writeScript(t, filepath.Join(dir, "culprit"), fmt.Sprintf("CULPRIT_TEST_MAIN=1 exec '%s' \"$@\"", self))
	writeScript(t, filepath.Join(dir, "python"), `echo "step 100 loss 2.1 lr 1e-4" >&2
[ "$FAILS" = passing ] && [ "${SLURM_RESTART_COUNT:-0}" -ge 1 ] && exit 0
[ "$FAILS" = passing ] && echo "requests.exceptions.ConnectionError: HTTPSConnectionPool: connection refused" >&2 && exit 1
echo "`+oomLine+`" >&2; exit 1`)
	submit := func(fails string) string {
		out := slurm.run(t, "sbatch", "--parsable", "--export=ALL,FAILS="+fails, "-o", fails+".out", "-e", fails+".err", recipe)
		return strings.TrimSpace(out)
	}
	users, passing := submit("user"), submit("passing")
	held := slurm.await(t, users, "user.err", "JobState=SPECIAL_EXIT")
	if !strings.Contains(held, "Comment=culprit: stop gpu-oom: ") || !strings.Contains(held, "Restarts=1") {
		t.Errorf("the user's error is held without its reason:\n%s", held)
	}
	again := slurm.await(t, passing, "passing.err", "Restarts=1")
	if !strings.Contains(again, "Comment=culprit: retry network-error: ") {
		t.Errorf("the passing trouble is requeued without its reason:\n%s", again)
	}
	if out, err := slurm.command("scontrol", "update", "JobId="+passing, "StartTime=now").CombinedOutput(); err != nil {
		t.Logf("not hastened, so it waits two minutes: %s", out)
	}
	slurm.await(t, passing, "passing.err", "JobState=COMPLETED")
}

func writeScript(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

type slurm struct{ dir string }

// startSlurm skips the test where Slurm cannot be had.
func startSlurm(t *testing.T) slurm {
	t.Helper()
	script, err := filepath.Abs(slurmNode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(script); err != nil {
		t.Skipf("no Slurm to test with: %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("no Slurm to test with: its daemons need root")
	}
	for _, program := range []string{"slurmctld", "slurmd", "munged", "sbatch", "scontrol"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no Slurm to test with: %v; on Debian: apt-get install slurm-wlm slurm-wlm-elasticsearch-plugin munge", err)
		}
	}
	ended := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	s := slurm{t.TempDir()}
	log, err := os.Create(filepath.Join(s.dir, "start.log")) // a file: the daemons hold it open
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop := exec.Command(script, "stop", s.dir)
		if err := stop.Run(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second) // the daemons still write into the folder that is about to be removed
		ended.Close()
	})
	start := exec.Command(script, "start", s.dir, ended.URL+"/slurm/_doc")
	start.Stdout, start.Stderr = log, log
	err = start.Run()
	log.Close()
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Skipf("no Slurm to test with: it did not start: %v\n%s", err, text)
	}
	return s
}

func (s slurm) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "SLURM_CONF="+s.dir+"/slurm.conf", "PATH="+s.dir+":"+os.Getenv("PATH"))
	return cmd
}

func (s slurm) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := s.command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(out)
}

// await waits until Slurm says something of a job, and returns all that it says.
func (s slurm) await(t *testing.T, job, log, want string) (shown string) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		out, _ := s.command("scontrol", "show", "job", job).CombinedOutput() // a mistake shows in what is waited for
		if shown = string(out); strings.Contains(shown, want) {
			return shown
		}
	}
	text, _ := os.ReadFile(filepath.Join(s.dir, log))
	t.Fatalf("job %s is not %s:\n%s\nits log:\n%s", job, want, shown, text)
	return ""
}
