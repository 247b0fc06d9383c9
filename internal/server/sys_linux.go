package server

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the event loop. They never block, so they are made without telling the
// scheduler (RawSyscall): entering and leaving it costs as much as the look-ups of a feed.

// epollPoll is epoll_wait without waiting.
func epollPoll(epoll int, events []unix.EpollEvent) int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// epollControl adds c to what epoll reports, or has it reported again.
func epollControl(epoll, operation int, c *conn) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd: int32(c.slot), Pad: c.generation}
	if _, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epoll), uintptr(operation), uintptr(c.fd),
		uintptr(unsafe.Pointer(&event)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// receive reads what is there, at most len(p) bytes; 0 without an error is the end.
func receive(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// probe has the system find out whether a client that sends no more still waits: one that has closed its
// socket answers probes by a reset after a minute at most (tcp_fin_timeout).
func probe(fd int) {
	for _, o := range [...][3]int{{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, {unix.IPPROTO_TCP,
		unix.TCP_KEEPIDLE, 5},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 6}} {
		unix.SetsockoptInt(fd, o[0], o[1], o[2]) //nolint:errcheck // the request is answered all the same
	}
}

// accept takes a connection that waits at a listener that does not block. It leaves the peer's address out,
// which unix.Accept4 allocates.
func accept(listener int) (fd int, err error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(listener), 0, 0,
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// appendVector appends what is not empty.
func appendVector(dst []unix.Iovec, p []byte) []unix.Iovec {
	if len(p) == 0 {
		return dst
	}
	v := unix.Iovec{Base: &p[0]}
	v.SetLen(len(p))
	return append(dst, v)
}

// sendVectors is send of several slices. The scheduler sees it, as a page of a mapped file may have to be
// read.
func sendVectors(fd int, vectors []unix.Iovec) (int, error) {
	if len(vectors) == 0 {
		return 0, nil
	}
	m := unix.Msghdr{Iov: &vectors[0]}
	m.SetIovlen(len(vectors))
	for {
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, nil
		}
		return 0, errno
	}
}

// send writes what the socket takes without waiting.
func send(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(
			p))), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, nil
		}
		return 0, errno
	}
}

// offsetIn returns where in whole part begins; ok is false when it is nil or somewhere else.
func offsetIn(whole, part []byte) (at int, ok bool) {
	offset := uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(
		unsafe.Pointer(unsafe.SliceData(whole)))
	return int(offset), part != nil && offset <= uintptr(len(whole))
}
