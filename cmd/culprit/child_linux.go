package main

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// childAttr lets the child die with us, as it would have if it were us that was killed.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// growPipe lets a child run ahead of whoever reads its output.
func growPipe(f *os.File) {
	const setPipeSize, size = 1031, 1 << 20
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, size) }) // smaller serves too
}

// inForeground tells whether we are in the group that the controlling terminal sends its signals to.
func inForeground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}

// dieBy ends the process by a signal as it ends one that does not know it. It returns where that does not work.
func dieBy(s syscall.Signal) {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) // the child has dumped its core already
	var asDefault [64]byte                                        // of struct sigaction: SIG_DFL, no flags, nothing masked
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&asDefault)), 0, 8, 0, 0)
	_ = syscall.Kill(syscall.Getpid(), s)
	time.Sleep(time.Second) // another thread may be the one that gets it
}
