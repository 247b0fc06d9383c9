//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"weir/bench/answer"
	"weir/bench/pool"
)

const (
	readBytes = 256 << 10
	headBytes = 8 << 10 // longest head of an answer
	drain     = 10 * time.Second
	// An answer to one of so many requests out of a pool is looked at, once the run is over.
	looksAt = 1009
)

type options struct {
	address     string // IPv4 address and port
	paths       []string
	pool        string // file of requests to send in turn instead of asking for paths
	connections int
	duration    time.Duration
	requests    int // in all, 0 for no limit
}

// result is what a run found. Times are in microseconds.
type result struct {
	Requests int   `json:"requests"` // answered
	Micros   int64 `json:"micros"`   // from the first request to the last answer
	Missing  int   `json:"missing"`  // sent but not answered
	answer.Quantiles
	Not2xx int `json:"not2xx"`
	Looked int `json:"looked,omitempty"` // at so many answers, whose scores were right
}

type conn struct {
	fd    int
	since time.Duration // when the request in flight was sent
	head  []byte        // of the answer, as long as it is incomplete
	rest  int           // bytes of the answer that are still to come once its head is there
	keep  *kept         // where the answer goes, nil when nobody will look at it
}

// kept is an answer that will be looked at.
type kept struct {
	bytes  []byte
	scores int // that it has to hold
}

type loop struct {
	epfd     int
	conns    []*conn // by descriptor
	requests []pool.Request
	next     int // of requests
	sent     int
	start    time.Time
	read     []byte

	took     []time.Duration
	inFlight int
	left     int // requests that may still be sent, negative when there is no limit
	not2xx   int
	kept     []*kept
}

// run asks for o.paths until the time is over and then awaits the answers that are on their way.
func run(o options) (*result, error) {
	if (len(o.paths) == 0) == (o.pool == "") || o.connections < 1 {
		return nil, errors.New("say what to ask for, PATH... or --pool, on 1 connection or more")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Everything the loop keeps is allocated here, so there is nothing to collect later.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	l := &loop{
		read: make([]byte, readBytes),
		took: make([]time.Duration, 0, min(int(300_000*o.duration.Seconds()), 10_000_000)),
		left: -1,
	}
	if o.requests > 0 {
		l.left = o.requests
	}
	for _, path := range o.paths {
		l.requests = append(l.requests, pool.Request{Bytes: []byte("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")})
	}
	if o.pool != "" {
		var err error
		if l.requests, err = pool.Read(o.pool); err != nil {
			return nil, err
		}
	}
	defer l.close()
	if err := l.connect(o.address, o.connections); err != nil {
		return nil, err
	}
	if err := l.spin(o.duration); err != nil {
		return nil, err
	}
	took := time.Since(l.start)
	looked := 0
	for _, k := range l.kept {
		if len(k.bytes) == 0 {
			continue // missing
		}
		if err := answer.CheckScores(k.bytes, k.scores); err != nil {
			return nil, err
		}
		looked++
	}
	return &result{
		Requests:  len(l.took),
		Micros:    took.Microseconds(),
		Missing:   l.inFlight,
		Quantiles: answer.QuantilesOf(l.took),
		Not2xx:    l.not2xx,
		Looked:    looked,
	}, nil
}

func (l *loop) connect(to string, connections int) error {
	address, err := netip.ParseAddrPort(to)
	if err != nil || !address.Addr().Is4() {
		return fmt.Errorf("address must be like 127.0.0.1:8080, got %q", to)
	}
	if l.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	for range connections {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		for len(l.conns) <= fd {
			l.conns = append(l.conns, nil)
		}
		l.conns[fd] = &conn{fd: fd, head: make([]byte, 0, headBytes)}
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}); err != nil {
			return fmt.Errorf("connect to %s: %w", to, err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return fmt.Errorf("set TCP_NODELAY: %w", err)
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return fmt.Errorf("set non-blocking: %w", err)
		}
		if err := unix.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return fmt.Errorf("epoll_ctl: %w", err)
		}
	}
	return nil
}

func (l *loop) close() {
	for _, c := range l.conns {
		if c != nil {
			unix.Close(c.fd)
		}
	}
	if l.epfd > 0 {
		unix.Close(l.epfd)
	}
}

func (l *loop) spin(d time.Duration) error {
	var events [256]unix.EpollEvent
	l.start = time.Now()
	for _, c := range l.conns {
		if c == nil {
			continue
		}
		if err := l.send(c, 0); err != nil {
			return err
		}
	}
	for l.inFlight > 0 {
		n, err := unix.EpollWait(l.epfd, events[:], 100)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		if time.Since(l.start) > d+drain {
			return nil
		}
		for _, ev := range events[:max(n, 0)] {
			if err := l.readable(l.conns[ev.Fd], d); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends the next request, if there is one left.
func (l *loop) send(c *conn, now time.Duration) error {
	if l.left == 0 {
		return nil
	}
	l.left--
	request := l.requests[l.next]
	if l.next++; l.next == len(l.requests) {
		l.next = 0
	}
	if c.keep = nil; request.Scores > 0 && l.sent%looksAt == 0 {
		c.keep = &kept{scores: request.Scores}
		l.kept = append(l.kept, c.keep)
	}
	l.sent++
	c.since = now
	l.inFlight++
	// One request of a few kilobytes at a time on a connection always fits its empty send buffer.
	if n, err := unix.Write(c.fd, request.Bytes); err != nil || n < len(request.Bytes) {
		return fmt.Errorf("wrote %d of %d bytes of a request: %w", n, len(request.Bytes), err)
	}
	return nil
}

// readable takes in what has arrived on c and, if that ends an answer, sends the next request, until end.
func (l *loop) readable(c *conn, end time.Duration) error {
	n, err := unix.Read(c.fd, l.read)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("read an answer: %w", err)
	case n == 0:
		return errors.New("the server closed a connection")
	}
	if c.keep != nil {
		c.keep.bytes = append(c.keep.bytes, l.read[:n]...)
	}
	if c.rest == 0 {
		head := l.read[:n]
		if len(c.head) > 0 {
			head = append(c.head, head...)
		}
		status, length, err := answer.Parse(head)
		if err != nil {
			return err
		}
		if length == 0 {
			if len(head) > headBytes {
				return fmt.Errorf("the head of an answer is longer than %d bytes", headBytes)
			}
			c.head = append(c.head[:0], head...)
			return nil
		}
		if status/100 != 2 {
			l.not2xx++
		}
		c.rest, n, c.head = length, len(head), c.head[:0]
	}
	if c.rest -= n; c.rest > 0 {
		return nil
	}
	if c.rest < 0 {
		return fmt.Errorf("%d bytes came after an answer that nothing was asked after", -c.rest)
	}
	l.inFlight--
	now := time.Since(l.start)
	l.took = append(l.took, now-c.since)
	if now >= end {
		return nil
	}
	return l.send(c, now)
}
