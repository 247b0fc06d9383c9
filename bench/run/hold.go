//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// The part of the server's core that another process takes.
const (
	holdPeriod = 300 * time.Microsecond
	holdBusy   = 200 * time.Microsecond
)

// hold has another process take the server's core for holdBusy in every holdPeriod, until release is called.
func hold(ctx context.Context) (release func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ready, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	cmd := exec.CommandContext(ctx, self, "--hold")
	cmd.Stdout, cmd.Stderr = said, os.Stderr
	err = startPinned(cmd, serverCore)
	said.Close()
	if err != nil {
		return nil, err
	}
	release = func() {
		cmd.Process.Kill()
		cmd.Wait() //nolint:errcheck // it was killed
	}
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		release()
		return nil, fmt.Errorf("the server's core could not be held (run as root): %w", err)
	}
	return release, nil
}

// holdCore takes the core that this process is on for a part of the time, ahead of all other processes, for
// ever. It tells so by a byte on standard output.
func holdCore() error {
	runtime.LockOSThread()
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO,
		Priority: 1}, 0); err != nil {
		return fmt.Errorf("real-time priority, as root: %w", err)
	}
	if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
		return err
	}
	for at := monotonic(); ; {
		for monotonic() < at+int64(holdBusy) {
		}
		at = max(at+int64(holdPeriod), monotonic())
		sleepUntil(at)
	}
}
