//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A core that has nothing to do goes into an idle state and has to be woken up. On real machines that costs
// microseconds; a virtual core is given up to the host, which brings it back within 40 us half of the time
// and after 2 to 20 ms once in a hundred times. That would be the p99 of every server that ever waits. So
// everything is measured with idle states off, as cyclictest and tuned's latency-performance profile do it.

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
