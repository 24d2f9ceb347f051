package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// ended is how a child came to its end.
type ended struct {
	code       int            // as a shell reports it: 128 + signal where one ended it
	signal     syscall.Signal // 0 where it exited by itself
	start, end time.Time
}

// lingering is how long a stream is awaited that grandchildren hold open after the child's end.
const lingering = 2 * time.Second

// passed are the signals that are passed on to the child; kill and stop cannot be, and those of a crash are ours.
var passed = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGXCPU}

// runChild runs a command in our process group with our streams. What comes through the pipes of the pumps goes on and
// is kept. Signals that come in the meantime are passed on; later ones call interrupted.
//
// An error is that the command could not be started; its code is what a shell would exit with.
func runChild(args []string, stdin io.Reader, stdout, stderr io.Writer, pumps []*pump, interrupted func()) (ended, error) {
	runtime.LockOSThread() // the child dies with the thread that started it
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, unignored(append(passed, syscall.SIGPIPE))...)

	e := ended{start: time.Now()}
	cmd, err := startChild(args, stdin, stdout, stderr, pumps)
	if err != nil {
		e.end, e.code = time.Now(), startCode(err)
		go watch(signals, interrupted)
		return e, err
	}
	over := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		passOn(signals, cmd.Process, over)
	}()
	err = cmd.Wait()
	e.end = time.Now()
	close(over)
	<-stopped
	go watch(signals, interrupted)
	for _, p := range pumps {
		p.finish()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		// Its streams are not ours to fail for: the state is there all the same.
		err = nil
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		e.signal, e.code = status.Signal(), 128+int(status.Signal())
	default:
		e.code = cmd.ProcessState.ExitCode()
	}
	return e, nil
}

// unignored leaves out the signals that whoever started us wants ignored, so that the child ignores them too.
func unignored(list []os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(list), signal.Ignored)
}

// startChild starts the command; a script without a first line that names its interpreter is the shell's, as execvp has it.
func startChild(args []string, stdin io.Reader, stdout, stderr io.Writer, pumps []*pump) (*exec.Cmd, error) {
	cmd, err := start(args, stdin, stdout, stderr, pumps)
	if errors.Is(err, syscall.ENOEXEC) {
		path, lookErr := exec.LookPath(args[0])
		if lookErr == nil {
			cmd, err = start(append([]string{"/bin/sh", path}, args[1:]...), stdin, stdout, stderr, pumps)
		}
	}
	for _, p := range pumps {
		p.opened(err == nil)
	}
	return cmd, err
}

func start(args []string, stdin io.Reader, stdout, stderr io.Writer, pumps []*pump) (*exec.Cmd, error) {
	cmd := exec.Command(args[0], args[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // a shell runs what PATH finds here
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	for _, p := range pumps {
		if p.stdout {
			cmd.Stdout = p.in
		}
		if p.stderr {
			cmd.Stderr = p.in
		}
	}
	cmd.SysProcAttr = childAttr()
	return cmd, cmd.Start()
}

// startCode is what a shell exits with where a command cannot be started.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

// passOn sends the child what was sent to us, until over. The terminal sends its own signals to the child itself.
func passOn(signals <-chan os.Signal, child *os.Process, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case s := <-signals:
			fromTerminal := (s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGTSTP) && inForeground()
			if s != syscall.SIGPIPE && !fromTerminal {
				_ = child.Signal(s) // it may have ended by now
			}
			if s == syscall.SIGTSTP {
				_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
			}
		}
	}
}

// watch calls interrupted for signals that want us to end, once the child has.
func watch(signals <-chan os.Signal, interrupted func()) {
	for s := range signals {
		if s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP || s == syscall.SIGQUIT {
			interrupted()
		}
	}
}

// pump is a pipe that the child writes to: what comes out goes on at once, then is kept.
type pump struct {
	stdout, stderr bool // which streams of the child it is
	to             io.Writer
	kept           *capture

	in, out *os.File
	done    chan struct{}
}

func newPump(stdout, stderr bool, to io.Writer, kept *capture) (*pump, error) {
	p := &pump{stdout: stdout, stderr: stderr, to: to, kept: kept, done: make(chan struct{})}
	var err error
	p.out, p.in, err = os.Pipe()
	if err == nil {
		growPipe(p.out)
	}
	return p, err
}

// opened is called when the child has its end of the pipe, or there is none.
func (p *pump) opened(started bool) {
	p.in.Close()
	if !started {
		p.out.Close()
		close(p.done)
		return
	}
	go p.copy()
}

// copy ends with the stream. A reader of ours that has gone away is gone for the child too; what cannot be written for
// another reason is lost, as it would be without us.
func (p *pump) copy() {
	defer close(p.done)
	buf := make([]byte, 1<<20)
	for {
		n, err := p.out.Read(buf)
		if n > 0 {
			if _, err := p.to.Write(buf[:n]); errors.Is(err, syscall.EPIPE) {
				p.out.Close()
				return
			}
			p.kept.add(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// finish waits for the end of the stream. Where grandchildren hold it open, a process of its own carries on what they
// will say.
func (p *pump) finish() {
	timer := time.NewTimer(lingering)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.out.SetReadDeadline(time.Now()) // a pipe can; where not, copy goes on until we exit
		select {
		case <-p.done:
			p.handOver()
		case <-time.After(time.Second):
		}
	}
}

// handOver starts a process that copies the rest of the stream.
func (p *pump) handOver() {
	self, err := os.Executable()
	to, ok := p.to.(*os.File)
	if err != nil || !ok {
		return
	}
	cmd := exec.Command(self, "relay")
	cmd.Stdin, cmd.Stdout = p.out, to
	if cmd.Start() == nil {
		_ = cmd.Process.Release() // it outlives us
	}
}
