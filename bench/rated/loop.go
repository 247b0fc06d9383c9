//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const readBytes = 16 << 10

var (
	answer = []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n[1]")
	no     = []byte("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
	end    = []byte("\r\n\r\n")
)

// loop is the server. rate may be changed, and the counts read, by others.
type loop struct {
	rate            atomic.Uint64 // bits of a float64
	served, refused atomic.Uint64

	pacer  pacer
	bits   uint64 // of the rate that the pacer has
	listen int
	epfd   int
	timer  int
	armed  time.Duration // when the timer goes off, 0 for never
	start  time.Time
	conns  []*conn // by descriptor
	queue  []*conn // one entry a request that waits
	head   int     // of queue
	buf    []byte
}

// conn is a client. A request that waits remembers it, and it may have gone by then.
type conn struct {
	fd   int // -1 once it is closed
	tail []byte
}

func newLoop(address string, p pacer, rate float64) (*loop, error) {
	if err := errors.Join(checkRate(rate), checkKind(p.kind)); err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddrPort(address)
	if err != nil || !addr.Addr().Is4() {
		return nil, fmt.Errorf("--listen takes an IPv4 address and a port, got %q", address)
	}
	l := &loop{pacer: p, start: time.Now(), buf: make([]byte, readBytes)}
	l.rate.Store(math.Float64bits(rate))
	flags := unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	if l.listen, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|flags, 0); err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	if err := unix.SetsockoptInt(l.listen, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, fmt.Errorf("allow the address to be used again: %w", err)
	}
	if err := unix.Bind(l.listen, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if err := unix.Listen(l.listen, 4096); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if l.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return l, errors.Join(l.watch(l.listen), l.watch(l.timer))
}

func (l *loop) address() string {
	sa, err := unix.Getsockname(l.listen)
	in, ok := sa.(*unix.SockaddrInet4)
	if err != nil || !ok {
		return ""
	}
	return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)).String()
}

func (l *loop) watch(fd int) error {
	err := unix.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	if err != nil {
		return fmt.Errorf("watch a descriptor: %w", err)
	}
	return nil
}

func (l *loop) now() time.Duration { return time.Since(l.start) }

// run serves until something is wrong.
func (l *loop) run() error {
	runtime.LockOSThread()
	events := make([]unix.EpollEvent, 512)
	for {
		n, err := unix.EpollWait(l.epfd, events, -1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("wait: %w", err)
		}
		if bits := l.rate.Load(); bits != l.bits {
			l.bits = bits
			l.pacer.set(math.Float64frombits(bits))
		}
		for _, e := range events[:max(n, 0)] {
			switch fd := int(e.Fd); fd {
			case l.listen:
				if err := l.accept(); err != nil {
					return err
				}
			case l.timer:
				unix.Read(l.timer, l.buf[:8])
				l.armed = 0
			default:
				l.serve(l.conns[fd])
			}
		}
		if err := l.release(); err != nil {
			return err
		}
	}
}

func (l *loop) accept() error {
	for range 64 {
		fd, _, err := unix.Accept4(l.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
		case unix.EAGAIN:
			return nil
		case unix.EINTR, unix.ECONNABORTED:
			continue
		default:
			return fmt.Errorf("accept: %w", err)
		}
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // best effort
		for len(l.conns) <= fd {
			l.conns = append(l.conns, nil)
		}
		l.conns[fd] = &conn{fd: fd}
		if err := l.watch(fd); err != nil {
			return err
		}
	}
	return nil
}

// serve reads requests, which have no body: an empty line ends each.
func (l *loop) serve(c *conn) {
	n, err := unix.Read(c.fd, l.buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return
	case err != nil || n == 0:
		l.close(c)
		return
	}
	data := l.buf[:n]
	if len(c.tail) > 0 {
		data = append(c.tail, data...)
	}
	for c.fd >= 0 {
		i := bytes.Index(data, end)
		if i < 0 {
			break
		}
		data = data[i+len(end):]
		l.request(c)
	}
	if len(data) > readBytes {
		l.close(c)
		return
	}
	c.tail = append(c.tail[:0], data...)
}

// request answers, refuses or keeps waiting.
func (l *loop) request(c *conn) {
	waiting := len(l.queue) - l.head
	if waiting == 0 {
		if ok, _ := l.pacer.due(l.now()); ok {
			l.send(c, answer, &l.served)
			return
		}
	}
	switch {
	case l.pacer.accepts(waiting):
		l.queue = append(l.queue, c)
	case l.pacer.kind == kindCut:
		l.refused.Add(1)
		l.close(c)
	default:
		l.send(c, no, &l.refused)
	}
}

// release serves those that wait as their time has come, and sets the timer for the next.
func (l *loop) release() error {
	for l.head < len(l.queue) {
		c := l.queue[l.head]
		if c.fd >= 0 {
			ok, at := l.pacer.due(l.now())
			if !ok {
				return l.arm(at)
			}
			l.send(c, answer, &l.served)
		}
		l.queue[l.head] = nil
		l.head++
	}
	l.queue, l.head = l.queue[:0], 0
	return nil
}

func (l *loop) arm(at time.Duration) error {
	if l.head > 4096 && 2*l.head > len(l.queue) {
		l.queue = append(l.queue[:0], l.queue[l.head:]...)
		l.head = 0
	}
	if l.armed != 0 && l.armed <= at {
		return nil
	}
	l.armed = at
	wait := unix.NsecToTimespec(int64(max(at-l.now(), time.Microsecond)))
	if err := unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Value: wait}, nil); err != nil {
		return fmt.Errorf("set the timer: %w", err)
	}
	return nil
}

// send writes an answer, which is short enough for any socket that is read; one that is not is closed.
func (l *loop) send(c *conn, what []byte, count *atomic.Uint64) {
	count.Add(1)
	if n, err := unix.Write(c.fd, what); err != nil || n < len(what) {
		l.close(c)
	}
}

func (l *loop) close(c *conn) {
	l.conns[c.fd] = nil
	unix.Close(c.fd)
	c.fd = -1
}
