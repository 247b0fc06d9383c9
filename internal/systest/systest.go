// Package systest is what tests of several packages ask of the system: processes that end with the test and are killed by
// it, small disks, and what happens to a directory. Only tests import it.
//
// What it returns is given back by the test's cleanup. What the system does not permit, to mount a file system for one, skips the
// test.
package systest

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// Start starts a process which the system ends when this one does, however that comes about. On systems that cannot do that it
// is started all the same.
//
// On Linux the process ends with the thread that has started it. A goroutine's thread ends with any other goroutine that was
// locked to it, as event loops are, so all processes are started by a thread that does nothing else.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = endWithParent()
	failed := make(chan error)
	starter() <- func() { failed <- cmd.Start() }
	return <-failed
}

var starter = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

// KillAfter runs the test binary with these variables in its environment, kills it once it has said n lines, wherever it is
// then, and returns all complete lines it said. A victim that ends by itself before that fails the test.
func KillAfter(t testing.TB, n int, environment ...string) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), environment...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	var lines []string
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // a line cut off was not acknowledged
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
		if len(lines) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd.Wait() //nolint:errcheck // says it was killed, as it should
	if len(lines) < n {
		t.Fatalf("the victim ended by itself after %d lines: %s", len(lines), stderr.String())
	}
	return lines
}
