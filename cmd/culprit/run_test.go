package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestMain lets the test's program be culprit, and the job that culprit runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "test-child" {
		os.Exit(testChild(os.Args[2:]))
	}
	if os.Getenv("CULPRIT_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// testChild is a job: it does what its arguments say, in order, and returns its exit code.
func testChild(steps []string) int {
	for _, step := range steps {
		what, arg, _ := strings.Cut(step, "=")
		n, _ := strconv.Atoi(arg) // texts read as 0
		switch what {
		case "err":
			fmt.Fprint(os.Stderr, unquote(arg))
		case "out":
			fmt.Fprint(os.Stdout, unquote(arg))
		case "noise": // n bytes of random lines on stderr, the same each time
			writeNoise(os.Stderr, n)
		case "big": // n megabytes, in pieces as buffered output has them
			line := []byte(strings.Repeat("step 12000 loss 2.31 lr 0.0001 all is well ", 24))
			block := append(line[:1023], '\n')
			block = bytes.Repeat(block, 8)
			for range n * (1 << 20) / len(block) {
				os.Stderr.Write(block)
			}
		case "cat":
			io.Copy(os.Stdout, os.Stdin)
		case "close-stderr":
			os.Stderr.Close()
		case "ignore":
			signal.Ignore(syscall.Signal(n))
		case "default":
			signal.Reset(syscall.Signal(n))
		case "await": // a signal, and say so
			c := make(chan os.Signal, 1)
			signal.Notify(c, syscall.Signal(n))
			fmt.Fprintln(os.Stdout, "ready")
			<-c
			fmt.Fprintf(os.Stderr, "got %d\n", n)
		case "sleep":
			fmt.Fprintln(os.Stdout, "ready")
			time.Sleep(time.Duration(n) * time.Millisecond)
		case "fork": // a grandchild that speaks after n milliseconds
			self, _ := os.Executable()
			c := exec.Command(self, "test-child", "quiet-sleep="+arg, "err=from the grandchild\\n")
			c.Stderr = os.Stderr
			c.Start()
		case "quiet-sleep":
			time.Sleep(time.Duration(n) * time.Millisecond)
		case "pgrp":
			fmt.Fprintln(os.Stdout, syscall.Getpgrp())
		case "signal":
			dieBy(syscall.Signal(n))
		case "exit":
			return n
		}
	}
	return 0
}

func unquote(s string) string {
	return strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\0`, "\x00").Replace(s)
}

func writeNoise(w io.Writer, n int) {
	rnd := rand.New(rand.NewPCG(uint64(n), 3))
	for n > 0 {
		piece := make([]byte, min(n, 1+rnd.IntN(9000)))
		for i := range piece {
			if piece[i] = byte(rnd.IntN(256)); rnd.IntN(60) == 0 {
				piece[i] = '\n'
			}
		}
		w.Write(piece)
		n -= len(piece)
	}
}

// outcome is what can be seen of a process from outside.
type outcome struct {
	Code, Signal   int
	Stdout, Stderr string
}

// execute runs this test's program with arguments, as culprit or as the job alone.
func execute(t testing.TB, stdin string, env []string, args ...string) outcome {
	t.Helper()
	cmd := program(t, env, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	return finished(t, cmd, cmd.Run(), &out, &errs)
}

func program(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append([]string{"CULPRIT_TEST_MAIN=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "USER=alice", "GORACE=atexit_sleep_ms=0"}, env...)
	return cmd
}

func finished(t testing.TB, cmd *exec.Cmd, err error, out, errs *bytes.Buffer) outcome {
	t.Helper()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	o := outcome{Code: status.ExitStatus(), Stdout: out.String(), Stderr: errs.String()}
	if status.Signaled() {
		o.Signal = int(status.Signal())
	}
	return o
}

// job are the arguments that make culprit run a job of testChild, with flags before.
func runJobArgs(t testing.TB, flags []string, steps ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append(append(append([]string{"run"}, flags...), "--", self, "test-child"), steps...)
}

const oomLine = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."

// TestRunIsTransparent: with --quiet nothing of a job changes but the exit code of one that may run again.
func TestRunIsTransparent(t *testing.T) {
	tests := []struct {
		name  string
		stdin string
		steps []string
	}{
		{"nothing", "", nil},
		{"passes with words on both", "", []string{"out=hello\\n", "err=warning\\n"}},
		{"no newline at the end", "", []string{"out=a", "err=b", "exit=3"}},
		{"standard input goes through", strings.Repeat("line\n", 100000), []string{"cat"}},
		{"bytes that are no text", "", []string{"noise=300000", "exit=1"}},
		{"zeros and carriage returns", "", []string{"err=a\\0b\\rc\\n", "exit=1"}},
		{"a killer line", "", []string{"err=" + oomLine + "\\n", "exit=1"}},
		{"closes stderr early", "", []string{"err=last\\n", "close-stderr", "out=still here\\n", "exit=4"}},
		{"100 MB", "", []string{"big=100"}},
		{"more than is kept", "", []string{"big=5", "err=" + oomLine, "exit=9"}},
		{"forks away", "", []string{"fork=300", "err=bye\\n", "exit=5"}},
		{"forks away for longer than is waited", "", []string{"fork=3500", "err=bye\\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && slices.Contains(tt.steps, "big=100") {
				t.Skip("prints 100 MB")
			}
			t.Parallel()
			want := execute(t, tt.stdin, nil, append([]string{"test-child"}, tt.steps...)...)
			got := execute(t, tt.stdin, nil, runJobArgs(t, []string{"--quiet", "--keep-mb", "2"}, tt.steps...)...)
			if want.Code != 0 && got.Code == exitTempFail {
				got.Code = want.Code
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("steps %q (-alone +run):\n%.2000s", tt.steps, diff)
			}
		})
	}
}

// TestRunExitCodes: without a verdict, here for want of rules, every exit code stays what it was.
func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	for code := range 256 {
		if testing.Short() && code%17 != 0 {
			continue
		}
		got := execute(t, "", nil, runJobArgs(t, []string{"--quiet", "--rules", t.TempDir()}, "exit="+strconv.Itoa(code))...)
		if got.Code != code || got.Stderr != "" {
			t.Errorf("exit %d: culprit run exits with %d, %q", code, got.Code, got.Stderr)
		}
	}
}

// TestRunOwnCode: a sure user error keeps each exit code.
func TestRunOwnCode(t *testing.T) {
	for _, code := range []int{1, 2, 42, 75, 99, 126, 127, 128, 137, 143, 255} {
		got := execute(t, "", nil, runJobArgs(t, nil, "err="+oomLine+"\\n", "exit="+strconv.Itoa(code))...)
		if got.Code != code || !strings.Contains(got.Stderr, "culprit: STOP - gpu-oom") {
			t.Errorf("exit %d after running out of memory: culprit run exits with %d\n%s", code, got.Code, got.Stderr)
		}
	}
}

func TestRunSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 31} {
		steps := []string{"err=" + oomLine + "\\n", "signal=" + strconv.Itoa(int(sig))}
		got := execute(t, "", nil, runJobArgs(t, []string{"--quiet"}, steps...)...)
		if got.Code != 128+int(sig) || got.Stderr != oomLine+"\n" {
			t.Errorf("%v: culprit run exits with %d, %q; want %d", sig, got.Code, got.Stderr, 128+int(sig))
		}
		// Slurm tells a job that was killed from one that exits.
		got = execute(t, "", nil, runJobArgs(t, []string{"--quiet", "--profile", "slurm", "--stop-exit", strconv.Itoa(128 + int(sig))}, steps...)...)
		if got.Signal != int(sig) {
			t.Errorf("%v under --profile slurm: ended by %v, code %d", sig, syscall.Signal(got.Signal), got.Code)
		}
	}
}

// TestRunPassesSignalsOn: what is sent to culprit reaches the job, and the job's answer is culprit's.
func TestRunPassesSignalsOn(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGCONT} {
		got := sendTo(t, []syscall.Signal{sig}, nil, "await="+strconv.Itoa(int(sig)), "exit=7")
		if got.Code != 7 && got.Code != exitTempFail || got.Stderr != fmt.Sprintf("got %d\n", sig) {
			t.Errorf("%v: %+v", sig, got)
		}
	}
	got := sendTo(t, []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, nil, "ignore=15", "sleep=500", "err=done\\n", "exit=3")
	if got.Code != 3 && got.Code != exitTempFail || got.Stderr != "done\n" {
		t.Errorf("a job that ignores SIGTERM: %+v", got)
	}
	start := time.Now()
	got = sendTo(t, []syscall.Signal{syscall.SIGTERM}, nil, "sleep=60000")
	if got.Code != 143 && got.Code != exitTempFail || time.Since(start) > 20*time.Second {
		t.Errorf("a job that dies of SIGTERM: %+v after %v", got, time.Since(start))
	}
}

// sendTo runs a job, sends culprit signals when the job says that it is ready, and waits for the end.
func sendTo(t *testing.T, signals []syscall.Signal, flags []string, steps ...string) outcome {
	t.Helper()
	cmd := program(t, nil, runJobArgs(t, append([]string{"--quiet"}, flags...), steps...)...)
	var out, errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 6)
	if _, err := io.ReadFull(stdout, ready); err != nil {
		t.Fatalf("%q: %v", ready, err)
	}
	for _, s := range signals {
		time.Sleep(30 * time.Millisecond)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	io.Copy(&out, stdout)
	return finished(t, cmd, cmd.Wait(), &out, &errs)
}

func TestRunProcessGroup(t *testing.T) {
	got := execute(t, "", nil, runJobArgs(t, nil, "pgrp")...)
	if strings.TrimSpace(got.Stdout) != strconv.Itoa(syscall.Getpgrp()) {
		t.Errorf("the job is in process group %s, want ours, %d", got.Stdout, syscall.Getpgrp())
	}
}

// TestRunJobDiesWithCulprit: killed as no process can help, culprit takes the job along, as if it had been the job.
func TestRunJobDiesWithCulprit(t *testing.T) {
	cmd := program(t, nil, runJobArgs(t, nil, "sleep=30000", "out=survived\\n")...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 6)
	if _, err := io.ReadFull(stdout, ready); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	cmd.Process.Kill()
	rest, _ := io.ReadAll(stdout) // ends when the job has ended too
	cmd.Wait()
	if len(rest) > 0 || time.Since(start) > 10*time.Second {
		t.Errorf("the job went on for %v: %q", time.Since(start), rest)
	}
}

// TestRunOneFile: with both streams in one file their order stays.
func TestRunOneFile(t *testing.T) {
	steps := []string{}
	want := ""
	for i := range 200 {
		steps = append(steps, fmt.Sprintf("out=%d out\\n", i), fmt.Sprintf("err=%d err\\n", i))
		want += fmt.Sprintf("%d out\n%d err\n", i, i)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := program(t, nil, runJobArgs(t, nil, steps...)...)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file.Name())
	if err != nil || string(got) != want {
		t.Errorf("%v: order changed:\n%.300s", err, got)
	}
}

// TestRunReaderLeaves: where nobody reads our stderr any more, the job is told so and is not kept waiting.
func TestRunReaderLeaves(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd := program(t, nil, runJobArgs(t, nil, "big=8", "out=survived\\n")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, w
	err = cmd.Run()
	w.Close()
	if code := cmd.ProcessState.ExitCode(); code != 128+13 && code != exitTempFail || out.String() != "" {
		t.Errorf("%v, exit code %d, %q; want the job to die of SIGPIPE", err, code, out.String())
	}
}

func TestRunCannotStart(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{"plain.txt": "no program", "script": "echo from a script without a first line\nexit 3\n"} {
		mode := os.FileMode(0o644)
		if name == "script" {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), mode); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, command  string
		code           int
		stdout, stderr string
	}{
		{"not there", "no-such-command-here", 127, "", "not found"},
		{"not there by path", dir + "/none", 127, "", "no such file"},
		{"not executable", dir + "/plain.txt", 126, "", "permission denied"},
		{"a folder", dir, 126, "", "permission denied"},
		{"a script for the shell", dir + "/script", exitTempFail, "from a script", ""},
	}
	for _, tt := range tests {
		got := execute(t, "", nil, "run", "--", tt.command)
		if got.Code != tt.code || !strings.Contains(got.Stdout, tt.stdout) || !strings.Contains(got.Stderr, tt.stderr) {
			t.Errorf("%s: %+v, want %d with %q, %q", tt.name, got, tt.code, tt.stdout, tt.stderr)
		}
	}
}

// TestRunTrouble: whatever is wrong with culprit, the job runs and its exit code is its own.
func TestRunTrouble(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(bad, []byte("mode: block\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name        string
		env, flags  []string
		stderr      string
		ownCodeOnly bool // else it may also be 75
	}{
		{"no folder for the copy", []string{"TMPDIR=" + dir + "/none"}, nil, "no verdict", true},
		{"no rules", nil, []string{"--rules", dir + "/none"}, "no verdict", true},
		{"a bad policy", nil, []string{"--policy", bad}, "policy.yaml:1: mode:", true},
		{"a variable that is wrong", []string{"CULPRIT_GPUS=many"}, nil, "ignored: environment variable CULPRIT_GPUS", false},
		{"a server that is away", nil, []string{"--server", "http://127.0.0.1:1", "--job", "1"}, "not posted", false},
		{"no job for the server", nil, []string{"--server", "http://127.0.0.1:1"}, "say it with --job", false},
		{"a history in a folder that is none", nil, []string{"--history", dir + "/none/h.jsonl"}, "not added to the history", false},
	}
	for _, tt := range tests {
		for _, code := range []int{0, 3} {
			got := execute(t, "", tt.env, runJobArgs(t, tt.flags, "err=it went wrong\\n", "exit="+strconv.Itoa(code))...)
			if got.Code != code && (code == 0 || tt.ownCodeOnly || got.Code != exitTempFail) || !strings.HasPrefix(strings.TrimPrefix(got.Stderr, "culprit: ignored"), cmp.Or(ignoredPrefix(tt.stderr), "it went wrong\n")) {
				t.Errorf("%s: exit %d becomes %+v", tt.name, code, got)
			}
			if code != 0 && !strings.Contains(got.Stderr, tt.stderr) {
				t.Errorf("%s: %q lacks %q", tt.name, got.Stderr, tt.stderr)
			}
		}
	}
}

// ignoredPrefix is what stands before the job's own words where a variable was ignored.
func ignoredPrefix(stderr string) string {
	if strings.HasPrefix(stderr, "ignored") {
		return ":"
	}
	return ""
}

func TestRunUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--retry-exit", "300", "--", "true"}, {"--keep-mb", "0", "--", "true"}, {"--profile", "jenkins", "--", "true"}, {"--server", "culprit:80", "--", "true"},
		{"--spool", "x", "--", "true"}, {"--gpus", "-1", "--", "true"}, {"--no-such-flag", "--", "true"}} {
		if code, _, stderr := runCLI(t, "", append([]string{"run"}, args...)...); code != exitUsage {
			t.Errorf("culprit run %q: exit code %d, %q; want 2", args, code, stderr)
		}
	}
}

// TestRunFindsTheLine: the proof has the number that it has in the job's own log, also where the middle was left out.
func TestRunFindsTheLine(t *testing.T) {
	whole := execute(t, "", nil, "test-child", "big=5")
	want := fmt.Sprintf("line %d: %s", strings.Count(whole.Stderr, "\n")+2, oomLine)
	got := execute(t, "", nil, runJobArgs(t, []string{"--keep-mb", "1"}, "big=5", "err=the last one before\\n", "err="+oomLine+"\\n", "big=0", "err=bye\\n", "exit=1")...)
	if !strings.Contains(got.Stderr, want) {
		t.Errorf("want %s in\n%s", want, got.Stderr[len(whole.Stderr):])
	}
}

// TestRunHistory: without a server a file remembers the attempts, and the second crash of a kind is told so.
func TestRunHistory(t *testing.T) {
	history := filepath.Join(t.TempDir(), "attempts.jsonl")
	steps := []string{"err=Fatal Python error: Segmentation fault\\n", "signal=11"}
	var texts []string
	for range 3 {
		texts = append(texts, execute(t, "", nil, runJobArgs(t, []string{"--history", history}, steps...)...).Stderr)
	}
	if !strings.Contains(texts[0], "RETRY -") || !strings.Contains(texts[1], "(shadow: would stop)") || !strings.Contains(texts[2], "came 3 times") {
		t.Errorf("three crashes:\n%s", strings.Join(texts, "\n"))
	}
}

// FuzzRun runs jobs of random steps with and without culprit.
func FuzzRun(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		var steps []string
		for range rnd.IntN(6) {
			steps = append(steps, []string{"out=to stdout\\n", "err=without a newline", "err=Traceback (most recent call last):\\n", "noise=" + strconv.Itoa(rnd.IntN(100000)),
				"big=1", "close-stderr", "ignore=15", "err=" + oomLine + "\\n", "err=\\r\\n", "cat", "fork=200"}[rnd.IntN(11)])
		}
		if rnd.IntN(4) == 0 {
			steps = append(steps, "signal="+strconv.Itoa([]int{1, 2, 3, 6, 9, 11, 13, 15}[rnd.IntN(8)]))
		} else {
			steps = append(steps, "exit="+strconv.Itoa(rnd.IntN(256)*rnd.IntN(2)))
		}
		want := execute(t, "input\n", nil, append([]string{"test-child"}, steps...)...)
		got := execute(t, "input\n", nil, runJobArgs(t, []string{"--quiet", "--keep-mb", "1"}, steps...)...)
		if want.Signal != 0 {
			want.Code, want.Signal = 128+want.Signal, 0
		}
		if want.Code != 0 && got.Code == exitTempFail {
			got.Code = want.Code
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("steps %q (-alone +run):\n%.2000s", steps, diff)
		}
	})
}

// attempts is a server that keeps what it is sent.
type attemptsServer struct {
	*httptest.Server
	queries []url.Values
	bodies  []string
	status  int
}

func newAttemptsServer(t *testing.T, status int) *attemptsServer {
	s := &attemptsServer{status: status}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/api/v1/attempts" {
			s.queries, s.bodies = append(s.queries, r.URL.Query()), append(s.bodies, string(body))
			w.WriteHeader(s.status)
			fmt.Fprint(w, `{"id": 1, "job": "4711", "attempt": 2}`)
			return
		}
		fmt.Fprint(w, `{"verdict": "stop", "would": "stop", "mode": "enforce", "reason": "the server says so", "turn": "user", "category": "gpu-oom", "attempt": 2, "budget": {"used": 1, "max": 1}}`)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestRunPosts(t *testing.T) {
	s := newAttemptsServer(t, 201)
	flags := []string{"--server", s.URL, "--job", "4711", "--gpus", "8", "--vc", "research"}
	got := execute(t, "", nil, runJobArgs(t, flags, "err=connection refused\\n", "exit=4")...)
	if got.Code != 4 || !strings.Contains(got.Stderr, "the server says so") {
		t.Errorf("the server's stop is not taken: %+v", got)
	}
	if len(s.queries) != 1 {
		t.Fatalf("%d attempts posted, want 1", len(s.queries))
	}
	q := s.queries[0]
	for name, want := range map[string]string{"job": "4711", "gpus": "8", "vc": "research", "exit_code": "4", "user": "alice"} {
		if q.Get(name) != want {
			t.Errorf("%s=%q, want %q in %v", name, q.Get(name), want, q)
		}
	}
	execute(t, "", nil, runJobArgs(t, flags, "err=fine\\n")...)
	if len(s.bodies) != 2 || s.bodies[1] != `{"exit_code":0}` {
		t.Errorf("a job that passed: %q", s.bodies[1:])
	}
}

// TestRunSpools: what a server that is away did not get, it gets with the next run; what it refuses is dropped.
func TestRunSpools(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	away := newAttemptsServer(t, 503)
	for i := range 3 {
		flags := []string{"--server", away.URL, "--spool", dir, "--job", strconv.Itoa(i)}
		got := execute(t, "", nil, runJobArgs(t, flags, "err=connection refused\\n", "exit=4")...)
		if !strings.Contains(got.Stderr, "for later") {
			t.Errorf("%+v", got)
		}
	}
	entries, err := (spool{dir}).entries()
	if len(entries) != 3 || err != nil {
		t.Fatalf("%d spooled, %v; want 3", len(entries), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "0"+spooled), []byte("not an attempt"), 0o600); err != nil {
		t.Fatal(err)
	}
	back := newAttemptsServer(t, 201)
	execute(t, "", nil, runJobArgs(t, []string{"--server", back.URL, "--spool", dir, "--job", "4"}, "err=x\\n", "exit=1")...)
	var jobs []string
	for _, q := range back.queries {
		jobs = append(jobs, q.Get("job"))
	}
	if diff := gocmp.Diff([]string{"4", "0", "1", "2"}, jobs); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if entries, _ := (spool{dir}).entries(); len(entries) != 0 {
		t.Errorf("left in the spool: %v", entries)
	}
	refuses := newAttemptsServer(t, 400)
	execute(t, "", nil, runJobArgs(t, []string{"--server", refuses.URL, "--spool", dir, "--job", "5"}, "err=x\\n", "exit=1")...)
	if entries, _ := (spool{dir}).entries(); len(entries) != 0 {
		t.Errorf("what the server refuses for good is spooled: %v", entries)
	}
}

// TestRunSlowServer: a server that does not answer costs no more than --post-timeout.
func TestRunSlowServer(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer slow.Close()
	defer close(release)
	start := time.Now()
	got := execute(t, "", nil, runJobArgs(t, []string{"--server", slow.URL, "--job", "1", "--post-timeout", "300ms"}, "err="+oomLine+"\\n", "exit=6")...)
	if took := time.Since(start); got.Code != 6 || took > 15*time.Second {
		t.Errorf("%v: %+v", took, got)
	}
}

// BenchmarkRun is what culprit costs beside tee, side by side: a job that prints 200 MB to stderr. It reports the ratio.
func BenchmarkRun(b *testing.B) {
	if _, err := exec.LookPath("bash"); err != nil {
		b.Skip("bash is not there, whose process substitution is compared with")
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	size := 200
	if testing.Short() {
		size = 20
	}
	measure := func(args ...string) time.Duration {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CULPRIT_TEST_MAIN=1", "TMPDIR="+dir)
		sink := exec.Command("cat")
		sink.Stdin, _ = cmd.StderrPipe()
		if err := sink.Start(); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatalf("%q: %v", args, err)
		}
		sink.Wait()
		return time.Since(start)
	}
	job := fmt.Sprintf("'%s' test-child big=%d", self, size)
	var tee, run time.Duration
	for b.Loop() {
		tee += measure("bash", "-c", job+" 2> >(tee '"+dir+"/copy' >&2)")
		run += measure(append([]string{self}, runJobArgs(b, nil, "big="+strconv.Itoa(size))...)...)
	}
	b.SetBytes(int64(size) << 20)
	b.ReportMetric(run.Seconds()/tee.Seconds(), "run/tee")
	b.ReportMetric(tee.Seconds()/float64(b.N), "tee-s/op")
	b.ReportMetric(run.Seconds()/float64(b.N), "run-s/op")
}
