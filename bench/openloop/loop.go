//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/bench/answer"
	"weir/bench/pool"
)

// drain is how long answers are waited for after the last request was due.
const drain = 10 * time.Second

// looksAt says of how many requests out of a pool one has its answer looked at, once the run is over.
const looksAt = 1009

type options struct {
	address     string // IPv4 address and port
	users       int
	pool        string // file of requests to draw from instead of users
	seed        uint64
	rate        float64 // requests a second
	duration    time.Duration
	connections int
	also        string  // path of the other connection, or empty
	alsoPool    string  // file of requests that the other connection sends in turn, instead of that
	alsoRate    float64 // its requests a second, 0 for a closed loop
}

// result is what a run found. Times are in microseconds.
type result struct {
	Requests int     `json:"requests"` // answered
	Missing  int     `json:"missing"`  // due but not answered when the run ended
	Rate     float64 `json:"rate"`     // due a second
	answer.Quantiles
	Lag int64 `json:"lag"` // 99th percentile of how late a due request was noticed
	// Window is the 99th percentile in the median of the run's windows: a single stall of the machine, which is in
	// the 99th percentile of the whole run, is not in it.
	Window int64       `json:"window_p99"`
	Also   *alsoResult `json:"also,omitempty"`
	// Not2xx counts the answers, of either kind, with another status.
	Not2xx int `json:"not2xx"`
	Looked int `json:"looked,omitempty"` // at so many answers, whose scores were right
}

type alsoResult struct {
	Requests int `json:"requests"`
	answer.Quantiles
}

type conn struct {
	fd   int
	due  time.Duration // when the request in flight was due
	in   []byte        // the part of its answer that has been read
	also bool
	look int // how many scores its answer has to hold, 0 when nobody will look
}

// kept is an answer that will be looked at.
type kept struct {
	bytes  []byte
	scores int
}

type loop struct {
	o       options
	rng     *rand.Rand
	start   time.Time
	epfd    int
	conns   []*conn // by descriptor
	idle    []*conn
	other   *conn           // the connection for --also, or nil
	waiting []time.Duration // due times that found no idle connection, oldest first
	request []byte
	read    []byte

	pool, alsoPool []pool.Request
	nextAlso       int // of alsoPool
	sent           int // out of either
	kept           []kept

	took, lag, alsoTook []time.Duration
	windows             []int // how many were answered by the end of each
	not2xx              int
}

// run sends the schedule of o until it is over or stop is set, and returns what became of it.
func run(o options, stop *atomic.Bool) (*result, error) {
	if o.users < 1 || o.rate <= 0 || o.connections < 1 {
		return nil, fmt.Errorf("users, rate and connections must be above 0, got %d, %g and %d", o.users, o.rate, o.connections)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Everything the loop keeps is allocated here, so there is nothing to collect later.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	expect := int(o.rate*o.duration.Seconds()) + 1
	l := &loop{
		o:    o,
		rng:  rand.New(rand.NewPCG(o.seed, 0)),
		read: make([]byte, 64<<10),
		took: make([]time.Duration, 0, expect),
		lag:  make([]time.Duration, 0, expect),

		windows: make([]int, 0, int(o.duration/window)+1),
	}
	if o.hasOther() {
		l.alsoTook = make([]time.Duration, 0, 1<<20)
	}
	if err := l.readPools(); err != nil {
		return nil, err
	}
	defer l.close()
	if err := l.connect(); err != nil {
		return nil, err
	}
	due, err := l.spin(stop)
	if err != nil {
		return nil, err
	}
	inWindow := medianP99(l.took, l.windows) // before they are sorted
	r := &result{
		Requests:  len(l.took),
		Window:    inWindow,
		Missing:   due - len(l.took),
		Rate:      o.rate,
		Quantiles: answer.QuantilesOf(l.took),
		Lag:       answer.QuantilesOf(l.lag).P99,
		Not2xx:    l.not2xx,
	}
	for _, k := range l.kept {
		if err := answer.CheckScores(k.bytes, k.scores); err != nil {
			return nil, err
		}
	}
	r.Looked = len(l.kept)
	if o.hasOther() {
		r.Also = &alsoResult{len(l.alsoTook), answer.QuantilesOf(l.alsoTook)}
	}
	return r, nil
}

// window is what a run is looked at by.
const window = 100 * time.Millisecond

// medianP99 returns the median of the windows' 99th percentiles, in microseconds; ends says how many of the times were there at the end
// of each. Windows of fewer than 100 have none.
func medianP99(times []time.Duration, ends []int) int64 {
	var p99 []int64
	from := 0
	for _, to := range ends {
		if to-from >= 100 {
			p99 = append(p99, answer.QuantilesOf(slices.Clone(times[from:to])).P99)
		}
		from = to
	}
	if len(p99) == 0 {
		return 0
	}
	slices.Sort(p99)
	return p99[len(p99)/2]
}

func (o *options) hasOther() bool { return o.also != "" || o.alsoPool != "" }

func (l *loop) readPools() (err error) {
	if l.o.pool != "" {
		if l.pool, err = pool.Read(l.o.pool); err != nil {
			return err
		}
	}
	if l.o.alsoPool != "" {
		l.alsoPool, err = pool.Read(l.o.alsoPool)
	}
	return err
}

func (l *loop) connect() error {
	address, err := netip.ParseAddrPort(l.o.address)
	if err != nil || !address.Addr().Is4() {
		return fmt.Errorf("address must be like 127.0.0.1:8080, got %q", l.o.address)
	}
	if l.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	total := l.o.connections
	if l.o.hasOther() {
		total++
	}
	for i := range total {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		c := &conn{fd: fd, in: make([]byte, 0, 64<<10), also: i == l.o.connections}
		for len(l.conns) <= fd {
			l.conns = append(l.conns, nil)
		}
		l.conns[fd] = c
		to := &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}
		if err := unix.Connect(fd, to); err != nil {
			return fmt.Errorf("connect to %s: %w", l.o.address, err)
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
		if c.also {
			l.other = c
		} else {
			l.idle = append(l.idle, c)
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

// spin runs the schedule and returns how many feed requests were due.
func (l *loop) spin(stop *atomic.Bool) (due int, err error) {
	var events [256]unix.EpollEvent
	interval := float64(time.Second) / l.o.rate
	dueAt := func(i int) time.Duration { return time.Duration(float64(i) * interval) }
	l.start = time.Now()
	if l.other != nil {
		if err := l.send(l.other, 0); err != nil {
			return 0, err
		}
	}
	end := l.o.duration
	for {
		now := time.Since(l.start)
		if stop.Load() && now < end {
			end = now
		}
		if now >= time.Duration(len(l.windows)+1)*window {
			l.windows = append(l.windows, len(l.took))
		}
		for at := dueAt(due); at <= now && at < end; at = dueAt(due) {
			due++
			l.lag = append(l.lag, now-at)
			if err := l.issue(at); err != nil {
				return due, err
			}
		}
		if now >= end && (len(l.took) == due || now >= end+drain) {
			return due, nil
		}
		n, err := unix.EpollWait(l.epfd, events[:], 0)
		if err != nil && err != unix.EINTR {
			return due, fmt.Errorf("epoll_wait: %w", err)
		}
		for _, ev := range events[:max(n, 0)] {
			if err := l.readable(l.conns[ev.Fd], now < end); err != nil {
				return due, err
			}
		}
		if err := l.pace(now, end); err != nil {
			return due, err
		}
	}
}

// issue sends the feed request that was due at at, or queues it until a connection is free.
func (l *loop) issue(at time.Duration) error {
	if len(l.idle) == 0 {
		l.waiting = append(l.waiting, at)
		return nil
	}
	c := l.idle[len(l.idle)-1]
	l.idle = l.idle[:len(l.idle)-1]
	return l.send(c, at)
}

func (l *loop) send(c *conn, due time.Duration) error {
	c.due = due
	request := l.compose(c)
	// One request of a few kilobytes at a time on a connection always fits its empty send buffer.
	if n, err := unix.Write(c.fd, request); err != nil || n < len(request) {
		return fmt.Errorf("wrote %d of %d bytes of a request: %w", n, len(request), err)
	}
	return nil
}

// compose returns what c sends next: out of a pool, or written here.
func (l *loop) compose(c *conn) []byte {
	c.look = 0
	switch {
	case c.also && l.alsoPool != nil:
		r := &l.alsoPool[l.nextAlso]
		l.nextAlso = (l.nextAlso + 1) % len(l.alsoPool)
		return l.pooled(c, r)
	case !c.also && l.pool != nil:
		return l.pooled(c, &l.pool[l.rng.IntN(len(l.pool))])
	}
	l.request = append(l.request[:0], "GET "...)
	if c.also {
		l.request = append(l.request, l.o.also...)
	} else {
		l.request = append(l.request, "/feed/"...)
		l.request = strconv.AppendInt(l.request, int64(l.rng.IntN(l.o.users)), 10)
	}
	l.request = append(l.request, " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"...)
	return l.request
}

func (l *loop) pooled(c *conn, r *pool.Request) []byte {
	if l.sent%looksAt == 0 {
		c.look = r.Scores
	}
	l.sent++
	return r.Bytes
}
