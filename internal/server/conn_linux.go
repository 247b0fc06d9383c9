package server

import (
	"bytes"
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
	kept      *handedOff // by which requests were handed off before, for the next one
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
	l.dropKept(c)
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

// parse answers requests into l.out until data holds no whole one, and returns what is left. The connection
// may have been handed off, offloaded or closed, or be pending, when it returns: data is not valid then.
func (l *loop) parse(c *conn, data []byte) []byte {
	h := &l.head
	for len(data) > 0 && !c.closing {
		if len(l.out) >= l.s.cfg.MaxOutput && !l.flush(c) {
			return data
		}
		if len(data) >= 2 && data[0] == '\r' && data[1] == '\n' {
			if c.empty++; c.empty > maxEmptyLines {
				l.refuse(c, data, errEmptyLines)
				return nil
			}
			data, c.scanned = data[2:], 0 // an empty line before a request: RFC 9112, 2.2
			continue
		}
		size := headEnd(data, c.scanned)
		if size == 0 && len(data) <= l.s.cfg.MaxHeader {
			if err := checkPartial(data, c.scanned); err != nil {
				l.refuse(c, data, err)
				return nil
			}
			c.scanned = len(data)
			return data
		}
		if size == 0 || size > l.s.cfg.MaxHeader {
			l.refuse(c, data, headTooLong(data, l.s.cfg.MaxHeader))
			return nil
		}
		if err := parseHead(data[:size], h); err != nil {
			l.refuse(c, data, err)
			return nil
		}
		r := &l.req
		r.begin()
		r.fd = c.fd
		route, at := l.s.routes.find(h.method, h.path, &r.params)
		body, total, err := l.body(c, data, route)
		if err != nil {
			l.refuse(c, data, err)
			return nil
		}
		if total == 0 {
			return data[:size+len(body)]
		}
		if c.timed.queue == &l.request {
			c.timed.stop() // it is whole; what follows has a deadline of its own
		}

		r.Method, r.Path, r.Query, r.header, r.Body = h.method, h.path, h.query, h.header, body
		l.resp.reset()
		l.sheds = l.shed.Shedder != nil && route != nil
		refused, outcome := false, Done
		if route != nil {
			r.route, r.class = route, route.Class
		}
		if l.sheds {
			refused = !l.shed.admits(r.class)
		}
		switch {
		case refused:
		case route == nil:
			route = l.s.unrouted
			l.s.routes.noRoute(&l.resp, h.method, at)
		case !r.decodeParams():
			l.resp.Problem(http.StatusBadRequest, errEscape.detail)
		case h.flags&coded != 0 && len(body) > 0:
			refuseCoding(&l.resp)
		case l.s.isDown(&l.resp, route):
		default:
			outcome = l.s.run(&l.resp, r)
			refused = r.rejected
		}
		if !refused && outcome != Done && outcome != Pending && !l.flush(c) {
			return data // it is parsed, and admitted or rejected, again
		}
		c.scanned, c.need, c.chunks, c.empty, c.told = 0, 0, chunkedBody{}, 0, false
		c.size, c.bodyEnd = total, size+len(body)
		if l.sheds {
			l.shed.counts(r.class, refused)
		}
		c.closing, c.keepAlive = h.flags&connClose != 0, h.flags&keepAlive != 0
		switch {
		case refused || outcome == Done:
		case outcome == Pending:
			l.pend(c, data, r.completion)
			return nil
		case outcome == NetHTTP:
			l.handOff(c, data)
			return nil
		default:
			moved := l.offload(c, data, outcome)
			if moved == nil {
				return nil
			}
			data = moved
		}
		c.closing = c.closing || l.stopping && len(data) == total || refused && c.keepAlive
		if refused {
			l.reject(c, route, r.class, h.method == http.MethodHead)
		} else {
			h.answerKeepAlive(&l.resp)
			l.out = l.heads.append(l.out, &l.resp, h.method == http.MethodHead, c.closing)
			l.countInline(route, l.resp.Status)
			if l.resp.pieces != nil && !l.flushPieces(c, &l.resp, h.method == http.MethodHead) {
				return data[total:]
			}
		}
		data = data[total:]
	}
	return data
}

// body returns the body of the request at the start of data, whose head is parsed, and where the request
// ends; 0 when that has not come yet. A chunked body is decoded in place.
func (l *loop) body(c *conn, data []byte, route *route) (body []byte, end int, err *parseError) {
	h, limit := &l.head, l.s.maxBody(route)
	if h.flags&chunked == 0 {
		if h.contentLength > limit {
			return nil, 0, l.s.tooLong(route)
		}
		end = h.size + h.contentLength
		if len(data) >= end {
			return data[h.size:end], end, nil
		}
		body, c.need = data[h.size:], end
	} else {
		if err := c.chunks.decode(data[h.size:], limit); err == errContentTooLong {
			return nil, 0, l.s.tooLong(route)
		} else if err != nil {
			return nil, 0, err
		}
		body = data[h.size : h.size+c.chunks.size]
		if c.chunks.done() {
			return body, h.size + c.chunks.end, nil
		}
		c.need = h.size + len(body) + 1
	}
	c.scanned = h.size - 1 // where the head ends must be found again
	if h.flags&expects != 0 && !c.told {
		c.told = true
		if len(data) == h.size {
			l.out = append(l.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
		}
	}
	return body, 0, nil
}

// refuse answers the request at the start of data, which breaks the protocol or came too late, and closes.
func (l *loop) refuse(c *conn, data []byte, err *parseError) {
	l.resp.reset()
	l.resp.Problem(err.status, err.detail)
	l.out = l.heads.append(l.out, &l.resp, bytes.HasPrefix(data, []byte("HEAD ")), true)
	l.s.count(l.s.unrouted, l.stripe, err.status, 0)
	c.closing = true
	l.keep(c, nil)
	if l.flush(c) {
		l.hangUp(c)
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
