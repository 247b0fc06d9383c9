package server

import (
	"net/http"

	"golang.org/x/sys/unix"
)

// conn is a connection on an event loop. It belongs to the loop's thread, except that out and call belong
// to the worker while it is offloaded, and sending on fd to net/http while it is handed off. The first
// size bytes of in, which either of them reads, are left as they are meanwhile.
type conn struct {
	loop       *loop
	fd         int // -1 once closed
	slot       uint32
	generation int32
	phase      phase
	more       bool // there may be more to read than was read: see attend
	ended      bool // the client sends no more
	blocked    bool // net/http waits for the socket to take more
	timed      timed
	idleSince  int64 // when timed was put into the idle queue

	in      []byte // what has come and is not answered yet; nil when all is
	scanned int    // how much of in has been searched for the end of the head
	need    int    // how long in must become before it is worth parsing again
	out     []byte // answers the socket did not take yet
	pieces  [][]byte
	release func() // of pieces, which are behind out

	chunks    chunkedBody // the chunked body that comes into in
	size      int         // of the request under way in in, while offloaded, pending or handed off
	bodyEnd   int         // where its body ends there: before size, if it was chunked
	call      *call       // while offloaded
	pending   *Completion // while pending
	keepAlive bool        // its answer is to say that the connection stays open
	empty     uint8       // empty lines before the next request
	told      bool        // to go on and send the body of the request that comes into in
	closing   bool        // close once out is sent
	rejected  bool        // a request was: to be paused once that is sent
	gone      bool        // the client has gone, while offloaded or handed off
	handedOff *handedOff
}

// maxEmptyLines is how many empty lines may come before a request.
const maxEmptyLines = 8

// phase is what a connection waits for.
type phase uint8

const (
	phaseReading   phase = iota // for its client's next bytes
	phaseDraining               // for its client to take out; nothing is read or parsed meanwhile
	phaseOffloaded              // for a worker
	phasePending                // for a Completion
	phaseHandedOff              // for net/http
	phaseLinger                 // for its client's end, discarding what comes
	phasePaused                 // for a time to pass, without being read
	phaseWaiting                // for a turn that has the time to read what has come
)

// accepted takes a new connection.
func (l *loop) accepted(fd int) {
	var c *conn
	if n := len(l.freeConns); n > 0 {
		c, l.freeConns = l.freeConns[n-1], l.freeConns[:n-1]
		*c = conn{loop: l, fd: fd, generation: c.generation + 1, slot: c.slot}
		l.conns[c.slot] = c
	} else {
		c = &conn{loop: l, fd: fd, slot: uint32(len(l.conns))}
		l.conns = append(l.conns, c)
	}
	c.timed.owner = c
	l.open++
	if err := epollControl(l.epoll, unix.EPOLL_CTL_ADD, c); err != nil {
		l.s.cfg.Log.Error("a connection could not be watched", "error", err)
		l.close(c)
		return
	}
	l.rest(c)
	if l.stopping {
		l.dismiss(c)
		return
	}
	if l.shed.mayRead() {
		l.addToBatch(c) // its request is mostly there
	}
}

// Epoll is edge-triggered: it reports once that something has come, or that the socket takes more again. So a
// connection that is not read for now costs no system call, and who stops reading before the socket is empty
// has to remember it: that is conn.more.

// receive reads once into p.
func (c *conn) receive(p []byte) (int, error) {
	n, err := receive(c.fd, p)
	c.more = n == len(p) || n > 0 && c.ended
	return n, err
}

// attend has what may be left to read from c reported again.
func (l *loop) attend(c *conn) {
	if c.more {
		l.rearm(c)
	}
}

// rearm has epoll report c again if there is something to read or to write.
func (l *loop) rearm(c *conn) {
	if err := epollControl(l.epoll, unix.EPOLL_CTL_MOD, c); err != nil {
		panic("BUG: epoll_ctl: " + err.Error())
	}
}

// close ends a connection at once.
func (l *loop) close(c *conn) {
	if c.fd < 0 {
		return
	}
	switch c.phase {
	case phasePaused:
		l.unpause(c)
	case phaseWaiting:
		l.shed.waitingNow--
		l.unpause(c)
	}
	c.timed.stop()
	if c.pending != nil {
		l.s.detached.Add(-1)
		c.pending.abandon()
		c.pending = nil
	}
	if c.phase == phaseHandedOff || c.phase == phaseOffloaded {
		// Somebody else holds it: its end is told to them, the descriptor goes when it
		// comes back.
		if !c.gone {
			c.gone = true
			unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, c.fd, nil) //nolint:errcheck // it is there
			if c.handedOff != nil {
				c.handedOff.lose()
			}
		}
		return
	}
	unix.Close(c.fd)
	l.forget(c)
	l.s.connectionClosed()
}

// forget drops all there is of c but its descriptor.
func (l *loop) forget(c *conn) {
	c.fd = -1
	l.keep(c, nil)
	c.out = nil
	c.drop()
	l.conns[c.slot] = nil
	l.freeConns = append(l.freeConns, c)
	l.open--
}

// rest puts c among the idle. The queue is touched 64 times a timeout at most: between, a
// connection that answers thousands of requests only compares two numbers.
func (l *loop) rest(c *conn) {
	if c.timed.queue == &l.idle && l.now-c.idleSince < int64(l.idle.timeout)/64 {
		return
	}
	c.idleSince = l.now
	l.idle.start(&c.timed, l.now)
}

// readable reads once and answers what has wholly arrived.
func (l *loop) readable(c *conn) {
	if len(c.in) == 0 {
		n, err := c.receive(l.read[:readSize])
		if n > 0 {
			l.answer(c, l.read[:n])
		} else if err != unix.EAGAIN {
			l.close(c)
		}
		return
	}
	if len(c.in) == cap(c.in) && !l.grow(c, min(max(c.need, len(c.in)+1), 2*len(c.in)), c.in) {
		return
	}
	n, err := c.receive(c.in[len(c.in):cap(c.in)])
	if n > 0 {
		c.in = c.in[:len(c.in)+n]
		if len(c.in) >= c.need {
			l.answer(c, c.in)
		} else {
			l.attend(c)
		}
	} else if err == nil {
		l.out = l.out[:0]
		l.refuse(c, c.in, errEnd) // the client may only have ended its own side
	} else if err != unix.EAGAIN {
		l.close(c)
	}
}

// answer answers the requests in data, which is either what was just read or c.in, in their
// order, with one send for all of them; it keeps what is not wholly there or must wait.
func (l *loop) answer(c *conn, data []byte) {
	l.out = l.out[:0]
	data = l.parse(c, data)
	if c.fd < 0 || c.phase == phaseHandedOff || c.phase == phaseOffloaded || c.pending != nil {
		return
	}
	l.keep(c, data)
	l.flush(c)
	l.observe()
	if c.fd < 0 {
		return
	}
	switch {
	case c.phase == phaseDraining:
	case c.closing:
		l.hangUp(c)
	case c.rejected && l.pause(c):
	case len(c.in) > 0:
		if c.timed.queue != &l.request {
			l.request.start(&c.timed, l.now)
		}
		l.attend(c)
	case l.stopping:
		l.hangUp(c)
	default:
		if c.empty == 0 || c.timed.queue != &l.idle { // an empty line is no request
			l.rest(c)
		}
		l.attend(c)
	}
}

// resume goes on with a connection whose answers are all sent.
func (l *loop) resume(c *conn) {
	c.phase = phaseReading
	c.timed.stop()
	if c.closing {
		l.hangUp(c)
		return
	}
	if l.stopping && len(c.in) == 0 {
		l.dismiss(c)
		return
	}
	l.answer(c, c.in)
}

// hangUp ends a connection whose answers are sent so that none is lost: it says that nothing
// more will come and discards what the client still sends until its end, or for a while. Closed
// with unread bytes, the kernel would reset the connection, answers in flight included.
func (l *loop) hangUp(c *conn) {
	if c.fd < 0 || c.phase == phaseLinger {
		return
	}
	if err := unix.Shutdown(c.fd, unix.SHUT_WR); err != nil {
		l.close(c)
		return
	}
	l.keep(c, nil)
	c.phase = phaseLinger
	l.attend(c)
	l.linger.start(&c.timed, l.now)
}

// discard reads and forgets.
func (l *loop) discard(c *conn) {
	n, err := c.receive(l.read)
	if n == 0 && err != unix.EAGAIN {
		l.close(c)
		return
	}
	l.attend(c)
}

// busyEvent handles an event of a connection that somebody else works on: its client has gone, takes more,
// or sends more, which must wait.
func (l *loop) busyEvent(c *conn, events uint32) {
	switch {
	case c.gone: // it was closed after the event had been collected, and epoll does not know it any more
	case events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
		l.close(c)
	case c.blocked && events&unix.EPOLLOUT != 0:
		c.blocked = false
		c.timed.stop()
		c.handedOff.unblock()
	case c.more:
		l.readAhead(c)
	}
}

// readAhead reads what waits for the answer to the request before it into the room there is. An answer from
// net/http is sent by another thread, so that its client's next request often comes before the loop has
// been told. A client that sends no more gets its answer all the same; one that has gone is reported by
// EPOLLHUP or EPOLLERR.
func (l *loop) readAhead(c *conn) {
	room := c.in[len(c.in):cap(c.in)]
	if len(room) == 0 {
		return
	}
	switch n, err := c.receive(room); {
	case n > 0:
		c.in = c.in[:len(c.in)+n]
	case err == unix.EAGAIN:
	case err != nil:
		l.close(c)
	default:
		probe(c.fd)
		c.more = true // the end, which is seen again when the answer is sent
	}
}

// keep makes rest, a part of either c.in or what was just read, c's unanswered input.
func (l *loop) keep(c *conn, rest []byte) {
	if len(rest) == 0 {
		if c.in != nil {
			l.s.input.Add(-int64(cap(c.in)))
			l.buffers.give(c.in)
			c.in = nil
		}
		return
	}
	if c.in != nil {
		if &rest[0] != &c.in[0] {
			copy(c.in, rest)
		}
		c.in = c.in[:len(rest)]
		return
	}
	if l.grow(c, len(rest), rest) {
		c.in = append(c.in, rest...)
	}
}

// grow makes room in c.in for at least n bytes. Beyond the bound on all input the request, at the start of
// data, is answered 503 and false returned.
func (l *loop) grow(c *conn, n int, data []byte) bool {
	size := l.buffers.size(n)
	if l.s.input.Add(int64(size-cap(c.in))) > l.s.live.Load().MaxInput {
		l.s.input.Add(-int64(size - cap(c.in)))
		l.s.closed[closedInput].Add(l.stripe, 1)
		l.refuse(c, data, errInput)
		return false
	}
	c.in = append(l.buffers.take(size), c.in...)
	return true
}

var errInput = &parseError{http.StatusServiceUnavailable,
	"too many unfinished requests are held in memory; try again"}
