//go:build !linux

package main

import (
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func growPipe(*os.File) {}

func inForeground() bool { return false }

func dieBy(syscall.Signal) {}
