package client

import (
	"golang.org/x/sys/unix"
)

// conn is a connection and the request that is out on it, if there is one. It belongs to its loop's thread.
type conn struct {
	fd         int
	slot       int32
	generation int32 // of the slot; events carry it, so that those of a closed connection are known
	target     *target
	state      connState
	answers    int // that have come on this connection

	// The request.
	out  []byte
	sent int // bytes of out
	Request
	since  int64 // when it was to be sent, or was in the closed model
	late   int64 // how much later it was
	waited bool  // the connection was idle before it

	framer framer
	// pending are the requests whose answers come after the one that is awaited, in this order.
	pending []pending

	// The connection's place in one list: the target's idle ones, or the loop's requests in flight.
	prev, next *conn
	list       *list
}

type pending struct {
	Request
	toHEAD bool
}

type connState uint8

const (
	connecting connState = iota // with a request or without, see busy
	idle
	waiting // for an answer
	closed
)

// list is a queue of connections. Idle ones are taken from its front, where the latest are, and closed at
// its back; those in flight have the earliest deadline in front.
type list struct {
	front, back *conn
	size        int
}

func (l *list) pushFront(c *conn) {
	c.list, c.prev, c.next = l, nil, l.front
	if l.front != nil {
		l.front.prev = c
	} else {
		l.back = c
	}
	l.front = c
	l.size++
}

func (l *list) pushBack(c *conn) { l.insertAfter(l.back, c) }

// insertAfter puts c behind at, or in front when at is nil.
func (l *list) insertAfter(at, c *conn) {
	if at == nil {
		l.pushFront(c)
		return
	}
	c.list, c.prev, c.next = l, at, at.next
	if at.next != nil {
		at.next.prev = c
	} else {
		l.back = c
	}
	at.next = c
	l.size++
}

// remove takes c out of the list that it is in, if it is.
func (c *conn) remove() {
	l := c.list
	if l == nil {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.front = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.back = c.prev
	}
	c.list, c.prev, c.next = nil, nil, nil
	l.size--
}

func (c *conn) busy() bool { return len(c.out) > 0 }

// keepable is how long a connection's buffer may be between requests.
const keepable = 64 << 10

// open begins a connection to t, without a request. An error is the system's.
func (l *loop) openConn(t *target) (*conn, error) {
	fd, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	var c *conn
	if n := len(l.retired); n > 0 {
		c, l.retired = l.retired[n-1], l.retired[:n-1]
	} else {
		c = &conn{slot: int32(len(l.conns))}
		c.framer.cache = &l.heads
		c.framer.keep = l.listener != nil
		l.conns = append(l.conns, c)
	}
	c.fd, c.target, c.state, c.answers = fd, t, connecting, 0
	// Edges, so that a connection is registered once and asked about once an event: nothing is said twice.
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd: c.slot, Pad: c.generation}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		unix.Close(fd)
		c.state = closed
		c.generation++
		l.retired = append(l.retired, c)
		return nil, err
	}
	l.open++
	return c, nil
}

// closeConn closes c, which has no request.
func (l *loop) closeConn(c *conn) {
	unix.Close(c.fd)
	c.remove()
	c.fd, c.state = -1, closed
	c.generation++
	l.retired = append(l.retired, c)
	l.open--
}

func (l *loop) dispatch(e *unix.EpollEvent) {
	if e.Fd < 0 {
		var buf [8]byte
		unix.Read(l.wakeFD, buf[:]) //nolint:errcheck // only resets the counter
		return
	}
	c := l.conns[e.Fd]
	if c.generation != e.Pad {
		return
	}
	const ended = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	if c.state == connecting && !l.connected(c) {
		return
	}
	if e.Events&unix.EPOLLOUT != 0 && c.sent < len(c.out) && !l.flush(c) {
		return
	}
	if e.Events&(unix.EPOLLIN|ended) != 0 {
		l.readable(c, e.Events&ended != 0)
	}
}

// connected ends the connecting of c, and returns whether it is still open.
func (l *loop) connected(c *conn) bool {
	errno, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || errno != 0 {
		l.refused(c)
		return false
	}
	c.target.reached()
	l.warmed(nil)
	if c.busy() {
		c.state = waiting
		return true // flush sends the request, as the socket can be written to
	}
	c.state = idle
	c.target.idle.pushFront(c)
	return true
}

// flush sends what is left of c's request, and returns whether c is still open.
func (l *loop) flush(c *conn) bool {
	for c.sent < len(c.out) {
		n, errno := transmit(c.fd, c.out[c.sent:])
		if errno != 0 {
			l.ended(c, true)
			return false
		}
		if n == 0 {
			return true // the next edge says when there is room
		}
		c.sent += n
		l.win.Out += uint64(n)
	}
	return true
}

const (
	// readSize is what is read at once, of which the body's part is copied for nothing, where discard
	// copies none.
	readSize = 16 << 10
	// discardAt is the length of a body's rest from which on another system call is cheaper than copying.
	discardAt = 4 << 10
	// maxReads is how much one connection may keep the loop at once.
	maxReads = 16
	// maxDiscard bounds what one of these takes.
	maxDiscard = 1 << 20
)

// readable takes in what has come on c. hup says that the other end has said that no more will.
func (l *loop) readable(c *conn, hup bool) {
	for range maxReads {
		if rest := c.framer.skippable(); rest >= discardAt && c.state == waiting {
			want := int(min(rest, maxDiscard))
			if len(c.pending) == 0 {
				want = int(min(rest+1, maxDiscard)) // one byte more would show what nobody asked for
			}
			n, errno := discard(c.fd, l.read, want)
			if !l.came(c, n, errno) {
				return
			}
			if int64(n) > rest {
				l.fail(c, failMalformed)
				return
			}
			if c.framer.skip(int64(n)) {
				if l.follows(c) {
					continue
				}
				l.answered(c, hup)
				return
			}
			if n < want && !hup {
				return
			}
			continue
		}
		n, errno := receive(c.fd, l.read)
		if !l.came(c, n, errno) {
			return
		}
		if c.state == idle {
			l.closeConn(c) // it speaks without being asked, so nothing it says can be told apart
			return
		}
		left := l.read[:n]
		used, done, err := c.framer.feed(left)
		for left = left[used:]; err == nil && done && l.follows(c); left = left[used:] {
			used, done, err = c.framer.feed(left)
		}
		if err != nil || len(left) > 0 {
			l.fail(c, failMalformed)
			return
		}
		if done {
			if n == len(l.read) && !l.drained(c, &hup) {
				return
			}
			l.answered(c, hup)
			return
		}
		if n < len(l.read) && !hup {
			return
		}
	}
	l.again = append(l.again, unix.EpollEvent{Events: unix.EPOLLIN, Fd: c.slot, Pad: c.generation})
	if hup {
		l.again[len(l.again)-1].Events |= unix.EPOLLRDHUP
	}
}

// came looks at the outcome of a read, and returns whether there is something to look at.
func (l *loop) came(c *conn, n int, errno unix.Errno) bool {
	switch {
	case errno == unix.EAGAIN:
		return false
	case errno != 0:
		l.ended(c, true)
		return false
	case n == 0:
		l.ended(c, false)
		return false
	}
	l.win.In += uint64(n)
	return true
}

// drained makes sure that nothing follows an answer that ended where the buffer did: no further edge would
// say so. It returns whether the answer may count, and sets hup if the connection has ended.
func (l *loop) drained(c *conn, hup *bool) bool {
	n, errno := receive(c.fd, l.read)
	switch {
	case errno == unix.EAGAIN:
		return true
	case errno != 0 || n == 0:
		*hup = true
		return true
	}
	l.fail(c, failMalformed)
	return false
}
