//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// The two cores of a run: the server has one to itself, the load generator has the other.
const (
	serverCore = 0
	clientCore = 1
)

// clockTick is the unit of the CPU times in /proc/PID/stat: USER_HZ, 100 on every Linux.
const clockTick = 10 * time.Millisecond

// process is a server that was started and is running or stopped (SIGSTOP).
type process struct {
	name   string
	addr   string
	admin  string // of weir
	data   string // directory
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process is gone
	err    error         // how it went, valid once exited is closed
	// firstAnswer is the time from exec to the first 200.
	firstAnswer time.Duration
}

// measuredNice is the nice value of servers and load generators. A thread of the kernel that looks for cold
// memory took a core here for 2 ms twice a second and for 75 ms every five: 2 % of the time, and so the p99
// of whatever waited. At this value it waits instead, alike for every server. It takes root.
const measuredNice = -20

// startPinned starts cmd on the given cores, with measuredNice where that is allowed. Both are set on this
// thread before the fork, so that a server sees the number of its cores as it starts. The kernel kills the
// child should this process die without a chance to.
func startPinned(cmd *exec.Cmd, cores ...int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, pinned unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("read the CPU affinity: %w", err)
	}
	for _, core := range cores {
		pinned.Set(core)
	}
	if err := unix.SchedSetaffinity(0, &pinned); err != nil {
		return fmt.Errorf("pin to cores %v (a run needs 0 and 1): %w", cores, err)
	}
	defer unix.SchedSetaffinity(0, &before)
	if nice, err := beNice(measuredNice); err == nil {
		defer beNice(nice) //nolint:errcheck // upwards it may
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Start()
}

// beNice sets how nice this thread is, and returns how nice it was.
func beNice(nice int) (before int, err error) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0, fmt.Errorf("read how nice this thread is: %w", err)
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		return 0, fmt.Errorf("be as nice as %d (run as root): %w", nice, err)
	}
	return 20 - raw, nil // the system call's own form, which is never negative
}

// launch starts argv on a core and waits until there returns true. What the server prints goes to logPath.
func launch(ctx context.Context, core int, name string, argv []string, there func() bool, logPath string,
	patience time.Duration) (*process, error) {
	logFile, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	p := &process{name: name, cmd: cmd, exited: make(chan struct{})}
	start := time.Now()
	if err := startPinned(cmd, core); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	for !there() {
		select {
		case <-p.exited:
			return nil, fmt.Errorf("%s ended before it answered: %v; it said:\n%s", name, p.err,
				tail(logPath))
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Microsecond):
		}
		if time.Since(start) > patience {
			p.stop()
			return nil, fmt.Errorf("%s did not answer within %v; it said:\n%s", name, patience, tail(logPath))
		}
	}
	p.firstAnswer = time.Since(start)
	return p, nil
}

// accepts reports whether a connection can be opened.
func accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// answers asks once and reports whether the answer was a 200.
func answers(addr, path string) bool {
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := c.Get("http://" + addr + path)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(0, len(b)-2000):]))
}

// stop ends the process, asleep or not: SIGTERM, and SIGKILL after ten seconds.
func (p *process) stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.exited:
		return nil
	case <-time.After(10 * time.Second):
		p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s had to be killed: SIGTERM did not end it within 10 s", p.name)
	}
}

// sleep takes the process off the machine until wake: its collector and timers cost nobody.
func (p *process) sleep() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) wake() error  { return p.cmd.Process.Signal(syscall.SIGCONT) }

// proc is where the system tells of the process.
func (p *process) proc() (procfs.Proc, error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		err = fmt.Errorf("%s is gone: %w", p.name, err)
	}
	return proc, err
}

// cpu returns the processor time, user and system, that all threads of the process have used.
func (p *process) cpu() (time.Duration, error) {
	proc, err := p.proc()
	if err != nil {
		return 0, err
	}
	stat, err := proc.Stat()
	return ticks(stat.CPUTime()), err
}

// coreBusy returns for how long a core has not been idle since the machine started.
func coreBusy(core int) (time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	stat, err := fs.Stat()
	c, ok := stat.CPU[int64(core)]
	if err == nil && !ok {
		err = fmt.Errorf("no core %d in /proc/stat", core)
	}
	return ticks(c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal), err // guests are part of user
}

// ticks rounds seconds to whole ones.
func ticks(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(clockTick)
}

// settle waits until the process has nothing left to do from its start (loading, warming,
// collecting): three quarters of a second in which it used at most one clock tick.
func (p *process) settle(ctx context.Context) error {
	deadline := time.Now().Add(2 * time.Minute)
	last, err := p.cpu()
	if err != nil {
		return err
	}
	for quiet := 0; quiet < 3; {
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return err
		}
		now, err := p.cpu()
		if err != nil {
			return err
		}
		if now-last <= clockTick {
			quiet++
		} else {
			quiet = 0
		}
		last = now
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is still busy two minutes after its start", p.name)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// freeAddr returns a loopback address that nobody listens on now.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// moveTo moves all threads of this process to one core, and with them the later ones.
func moveTo(core int) error {
	var set unix.CPUSet
	set.Set(core)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		var tid int
		if _, err := fmt.Sscan(t.Name(), &tid); err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("move to core %d (a run needs cores 0 and 1): %w", core, err)
		}
	}
	return nil
}
