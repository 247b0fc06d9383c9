package client

import (
	"bytes"
	"math"
	"net/netip"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the event loop. Those that never block are made without telling the scheduler
// (RawSyscall), as in the server's loop.

func poll(epoll int, events []unix.EpollEvent) int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// doze waits for events without the scheduler's knowledge, which must not be long: until it
// returns, a garbage collection cannot begin.
func doze(epoll int, events []unix.EpollEvent, ns int64) (int, unix.Errno) {
	ts := unix.Timespec{Nsec: ns}
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(unsafe.Pointer(&ts)),
		0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// sleep waits for events for ns nanoseconds, or without a limit when ns is never.
func sleep(epoll int, events []unix.EpollEvent, ns int64) (int, unix.Errno) {
	var limit *unix.Timespec
	if ns != never {
		ts := unix.NsecToTimespec(ns)
		limit = &ts
	}
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)),
		uintptr(unsafe.Pointer(limit)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// receive reads what is there, at most len(p) bytes; 0 without an error is the end.
func receive(fd int, p []byte) (int, unix.Errno) { return recv(fd, p, len(p), 0) }

// discard takes at most n bytes off the socket without copying them. p is not written to.
func discard(fd int, p []byte, n int) (int, unix.Errno) { return recv(fd, p, n, unix.MSG_TRUNC) }

func recv(fd int, p []byte, n int, flags uintptr) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(n), unix.MSG_DONTWAIT|flags, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// transmit writes what the socket takes without waiting.
func transmit(fd int, p []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, 0
		}
		return 0, errno
	}
}

// dial begins to connect a new socket; nil says that it has begun or is done.
func dial(to netip.AddrPort) (fd int, err error) {
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, err
	}
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY,
		1) //nolint:errcheck // slower without, not wrong
	if to.Addr().Is6() {
		err = unix.Connect(fd, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	} else {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	}
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// lockedThread binds the goroutine to its thread, for good, and lets it wake from sleep when it wants to
// and not up to 50 us later.
func lockedThread() {
	runtime.LockOSThread()
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) //nolint:errcheck // later wake-ups without, and Lag tells
}

// threadCPU is the processor time of the calling thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// openRunDelay opens what says how long the calling thread could have run and another did; -1 where the
// system does not say.
func openRunDelay() int {
	fd, err := unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// runDelay reads it, in nanoseconds.
func runDelay(fd int, buf []byte) (int64, bool) {
	n, err := unix.Pread(fd, buf, 0) // "running waiting times"
	if err != nil {
		return 0, false
	}
	fields := buf[:n]
	_, fields, _ = bytes.Cut(fields, space)
	waiting, _, _ := bytes.Cut(fields, space)
	ns, err := decimal(waiting)
	return ns, err == nil
}

// processCPU is the processor time of the process, user and system.
func processCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mostFiles returns how many files this process may have open.
func mostFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
