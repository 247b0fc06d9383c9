// Package systest is what tests of several packages share: waiting for a condition, what a short run leaves
// out, processes that end with the test and are killed by it, small disks, and what happens to a directory.
// Only tests import it.
//
// What it returns is given back by the test's cleanup. What the system does not permit, to mount a file
// system for one, skips the test.
package systest

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"
)

// patience is how long a condition may take to hold: far longer than it does on a machine that is busy with
// other tests.
const patience = time.Minute

// Eventually waits until a condition holds that no channel tells of.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// DialReset dials a connection whose close is a reset. Without it a close looks to the server as if the
// client only sent no more.
func DialReset(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return c, c.(*net.TCPConn).SetLinger(0)
}

// LongRun skips the test under go test -short, as make check runs it. needs is what the test takes: seconds
// of a processor, root, a browser, another server.
func LongRun(t testing.TB, needs string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("make check leaves it out: it takes %s", needs)
	}
}

// Start starts a process which the system ends when this one does, however that comes about. On systems
// that cannot do that it is started all the same.
//
// On Linux the process ends with the thread that has started it. A goroutine's thread ends with any other
// goroutine that was locked to it, as event loops are, so all processes are started by a thread that does
// nothing else.
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

// KillAfter runs the test binary with these variables in its environment, kills it once it has said n
// lines, wherever it is then, and returns all complete lines it said. A victim that ends by itself before
// that fails the test.
func KillAfter(t testing.TB, n int, environment ...string) []string {
	t.Helper()
	LongRun(t, "processes to kill")
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
