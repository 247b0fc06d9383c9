//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A core that has nothing to do goes into an idle state and has to be woken up. On real machines that costs
// microseconds; a virtual core is given up to the host, which brings it back within 40 us half of the time
// and after 2 to 20 ms once in a hundred times. That would be the p99 of every server that ever waits. So
// everything is measured with idle states off, as cyclictest and tuned's latency-performance profile do it,
// and wake-ups are measured with and without.

const (
	wakeEvery = 200 * time.Microsecond
	wakeFor   = 2 * time.Second
)

// wakeups are how late a process of a real-time class that has slept is woken up, in microseconds. Nil means
// unknown.
type wakeups struct {
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	Max float64 `json:"max_us"`
}

// stayAwake keeps all cores out of idle states until the file is closed, which the end of this process does
// as well.
func stayAwake() (*os.File, error) {
	f, err := os.OpenFile("/dev/cpu_dma_latency", os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("idle states of the cores could not be switched off (run as root): %w", err)
	}
	var longest [4]byte // microseconds that a core may take to wake up
	binary.NativeEndian.PutUint32(longest[:], 0)
	if _, err := f.Write(longest[:]); err != nil {
		f.Close()
		return nil, fmt.Errorf("idle states of the cores could not be switched off: %w", err)
	}
	return f, nil
}

// probe measures the server's core. Where it may not, it says so.
func probe() *wakeups {
	w, err := wakeupsOn(serverCore)
	if err != nil {
		log.Printf("how late the cores wake up is not known: %v", err)
	}
	return w
}

// wakeupsOn sleeps on a core, by absolute time, and returns how late it woke up.
func wakeupsOn(core int) (*wakeups, error) {
	type result struct {
		w   *wakeups
		err error
	}
	done := make(chan result)
	go func() {
		// It is not unlocked: the thread ends with the goroutine, and its priority with it.
		runtime.LockOSThread()
		w, err := sleepOn(core)
		done <- result{w, err}
	}()
	r := <-done
	return r.w, r.err
}

// sleepOn does it with the calling thread, which it changes for good.
func sleepOn(core int) (*wakeups, error) {
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("move to core %d: %w", core, err)
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO,
		Priority: 1}, 0); err != nil {
		return nil, fmt.Errorf("real-time priority, as root: %w", err)
	}
	late := make([]int64, 0, int(wakeFor/wakeEvery))
	for at := monotonic(); len(late) < cap(late); {
		at += int64(wakeEvery)
		sleepUntil(at)
		late = append(late, monotonic()-at)
	}
	slices.Sort(late)
	us := func(share float64) float64 { return float64(late[int(share*float64(len(late)-1))]) / 1000 }
	return &wakeups{P50: us(0.5), P99: us(0.99), Max: us(1)}, nil
}

// monotonic and sleepUntil are system calls that the Go scheduler does not see, as it would put other
// threads in between.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) //nolint:errcheck // it has this clock
	return t.Nano()
}

// sleepUntil returns at a time of monotonic or later. Signals of the scheduler do not end it.
func sleepUntil(at int64) {
	until := unix.NsecToTimespec(at)
	for monotonic() < at {
		unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&until)), 0, 0, 0)
	}
}
