package client

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/load/measure"
)

const failMalformed = measure.Malformed

// connectAll begins the connections that Start waits for.
func (l *loop) connectAll() {
	n := l.warming
	if n == 0 {
		l.warm <- nil
		return
	}
	for i := range n {
		t := l.targets[i%len(l.targets)]
		if _, err := l.openConn(t); err != nil {
			l.warmed(fmt.Errorf("connect to %s: %w", t.addr, err))
		}
	}
}

// warmed counts a connection of those that Start waits for, or what became of it.
func (l *loop) warmed(err error) {
	if l.warming == 0 {
		return
	}
	if err != nil && l.warmErr == nil {
		l.warmErr = err
	}
	if l.warming--; l.warming == 0 {
		l.warm <- l.warmErr
	}
}

func (l *loop) send() {
	if l.held.is {
		l.place(l.held.at, l.held.Request)
		l.clock()
	}
	if l.stopping {
		return
	}
	if l.now >= l.schedule.end {
		l.miss()
	}
	for range maxSends {
		at := l.schedule.at
		if at > l.now {
			break
		}
		l.schedule.advance()
		l.issue(at)
		if l.clock(); l.held.is {
			break
		}
	}
	if l.now >= l.resume {
		l.resume = never
		n := l.parked
		l.parked = 0
		for range n {
			l.goOn()
		}
	}
}

// miss counts what is too late as intended and not sent.
func (l *loop) miss() { l.win.Intended += l.schedule.missed(l.now) }

// want sets how many requests of the closed model are to be in flight.
func (l *loop) want(n int) {
	l.wanted, l.most = n, max(n, 1)
	for l.flying.size+l.parked < n && !l.stopping {
		l.clock()
		l.issue(l.now)
	}
	l.parked = max(min(l.parked, n-l.flying.size), 0)
	for l.open > n && l.evict(nil) {
	}
}

// goOn sends the closed model's next request, if there are not enough in flight.
func (l *loop) goOn() {
	if l.flying.size+l.parked < l.wanted && !l.stopping {
		l.issue(l.now)
	}
}

// issue sends the source's next request, which was due at.
func (l *loop) issue(at int64) {
	var q Request
	l.wire, q = l.source.Next(l.wire[:0])
	l.win.Intended++
	l.batch = l.batch[:0]
	for range l.o.Pipeline - 1 {
		from := len(l.wire)
		var p pending
		l.wire, p.Request = l.source.Next(l.wire)
		p.toHEAD = bytes.HasPrefix(l.wire[from:], methodHEAD)
		l.batch = append(l.batch, p)
		l.win.Intended++
	}
	l.place(at, q)
}

// held is a request of the open model that found no idle connection. Before a new one is opened, the loop
// looks whether an answer has come by now: after a stall of this program's own, requests are sent as fast
// as they are answered, where hundreds of connections would delay them further, at 40 us each.
type held struct {
	Request
	is bool
	at int64
}

// place sends the request in l.wire, which was due at.
func (l *loop) place(at int64, q Request) {
	wire, t := l.wire, l.targets[q.Target]
	c := t.idle.front
	if c == nil && !l.o.Closed && !l.held.is {
		l.held = held{q, true, at}
		return
	}
	l.held.is = false
	if c != nil {
		c.remove()
		c.waited = true
	} else {
		var failure measure.Failure
		if c, failure = l.fresh(t); c == nil {
			if failure != measure.Dropped {
				l.win.Sent += uint64(l.o.Pipeline)
			}
			l.win.Lag.record(time.Duration(l.now - at))
			l.win.sample(failure.String(), wire, "")
			l.lost(failure, at, q)
			l.lostAll(failure, at, l.batch)
			if failure == measure.Dropped {
				l.park(firstPause)
			} else {
				l.park(max(t.retryAt-l.now, firstPause))
			}
			return
		}
	}
	l.win.Sent += uint64(l.o.Pipeline)
	c.pending = append(c.pending[:0], l.batch...)
	l.awaited += len(c.pending)
	c.out, l.wire = wire, c.out[:0]
	c.sent, c.Request, c.since, c.late = 0, q, at, l.now-at
	c.framer.begin(bytes.HasPrefix(wire, methodHEAD))
	l.flying.pushBack(c)
	if c.state == idle {
		c.state = waiting
		l.flush(c)
	}
}

var methodHEAD = []byte("HEAD ")

// fresh opens a connection to t for a request, or says why there is none.
func (l *loop) fresh(t *target) (*conn, measure.Failure) {
	if t.refusals > 0 && (t.probing || l.now < t.retryAt) {
		return nil, measure.Refused
	}
	if l.open >= l.most && !l.evict(t) {
		return nil, measure.Dropped
	}
	c, err := l.openConn(t)
	switch {
	case err == nil:
		t.probing = t.refusals > 0
		c.waited = false
		return c, 0
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) ||
		errors.Is(err, unix.ENOBUFS):
		return nil, measure.Dropped
	}
	t.refusedAt(l.now)
	return nil, measure.Refused
}

// evict closes the connection that was idle longest, of another target than t, and returns whether there
// was one.
func (l *loop) evict(t *target) bool {
	var oldest *target
	for _, other := range l.targets {
		if other != t && other.idle.size > 0 && (oldest == nil || other.idle.size > oldest.idle.size) {
			oldest = other
		}
	}
	if oldest == nil {
		return false
	}
	l.closeConn(oldest.idle.back)
	return true
}

// follows counts the whole answer that has come on c where more of a pipeline are awaited, and returns
// whether they are.
func (l *loop) follows(c *conn) bool {
	if len(c.pending) == 0 || c.framer.close {
		return false
	}
	l.count(c)
	p := c.pending[0]
	c.pending = c.pending[:copy(c.pending, c.pending[1:])]
	l.awaited--
	c.Request = p.Request
	c.framer.begin(p.toHEAD)
	return true
}

// count counts the whole answer that has come on c.
func (l *loop) count(c *conn) {
	l.clock()
	took := time.Duration(l.now - c.since)
	f := &c.framer
	l.win.count(f.status, c.Part, took)
	l.win.sampleStatus(f.status, c.out)
	// Sent late, and heard late: the answer may have come as soon as it was not there yet.
	l.win.Lag.record(min(time.Duration(c.late+l.now-l.looked), took))
	if l.listener != nil {
		l.listener.Heard(c.Ref, Answer{Status: f.status, ETag: f.etag, LastModified: f.lastModified})
	}
	c.answers++
	c.target.cuts = 0
}

// answered ends c's request with the whole answer that has come. hup says that nothing more can.
func (l *loop) answered(c *conn, hup bool) {
	l.count(c)
	f := &c.framer
	if len(c.pending) > 0 { // the server has closed before it answered them
		l.lostAll(measure.Cut, c.since, c.pending)
		hup = true
	}
	whole := c.sent == len(c.out)
	l.over(c)
	switch {
	case hup || f.close || !whole || l.stopping, l.o.Closed && l.open > l.most:
		l.closeConn(c)
	default:
		c.state = idle
		c.target.idle.pushFront(c)
	}
	if l.o.Closed {
		l.goOn()
	}
}

// over ends c's request: it is neither idle nor in flight.
func (l *loop) over(c *conn) {
	c.remove()
	l.awaited -= len(c.pending)
	c.pending = c.pending[:0]
	if c.out = c.out[:0]; cap(c.out) > keepable {
		c.out = nil
	}
	if cap(c.framer.partial) > keepable {
		c.framer.partial = nil
	}
}

// fail counts c's request as lost, and closes c.
func (l *loop) fail(c *conn, why measure.Failure) {
	at, q, t := c.since, c.Request, c.target
	l.win.sample(why.String(), c.out, "")
	l.win.Lag.record(time.Duration(c.late))
	waited := c.answers > 0
	l.lost(why, at, q)
	l.lostAll(why, at, c.pending)
	l.over(c)
	l.closeConn(c)
	switch {
	case why == measure.TimedOut:
		l.park(0)
	case why == measure.Refused:
		l.park(t.retryAt - l.now)
	case waited:
		l.park(0)
	default:
		t.cuts++
		l.park(pause(t.cuts))
	}
}

// lost counts a request that has no connection any more.
func (l *loop) lost(why measure.Failure, at int64, q Request) {
	l.win.lose(why, q.Part)
	if why == measure.TimedOut {
		l.win.Latency.record(time.Duration(l.now - at))
	}
	if l.listener != nil {
		l.listener.Heard(q.Ref, Answer{})
	}
}

// lostAll counts pipelined requests that have no connection any more.
func (l *loop) lostAll(why measure.Failure, at int64, all []pending) {
	for _, p := range all {
		l.lost(why, at, p.Request)
	}
}

// park lets the closed model wait before it replaces a request that was lost: a target that is gone would
// else be asked as fast as it can refuse.
func (l *loop) park(ns int64) {
	if !l.o.Closed {
		return
	}
	l.parked++
	at := l.now + max(ns, 0)
	if l.resume == never || at > l.resume {
		l.resume = at
	}
}

// refused ends the connecting of c without a connection.
func (l *loop) refused(c *conn) {
	l.clock()
	c.target.refusedAt(l.now)
	if c.busy() {
		l.fail(c, measure.Refused)
		return
	}
	l.warmed(fmt.Errorf("connect to %s: refused: is the target running?", c.target.addr))
	l.closeConn(c)
}

// ended is told that c has, by a reset or in order, with or without a request.
func (l *loop) ended(c *conn, reset bool) {
	switch {
	case c.state != waiting:
		l.closeConn(c)
	case !reset && c.framer.end():
		l.answered(c, true)
	case c.framer.fresh() && c.waited && l.o.Pipeline == 1 && idempotent(c.out):
		l.retry(c)
	default:
		l.clock()
		l.fail(c, measure.Cut)
	}
}

// retry sends c's request again on a new connection: the server has closed c while the request was on its
// way, and has not answered a byte. The new connection was never idle, so there is no third time.
func (l *loop) retry(c *conn) {
	l.clock()
	prev, t := c.prev, c.target
	l.wire = append(l.wire[:0], c.out...)
	at, q, late, toHEAD := c.since, c.Request, c.late, c.framer.toHEAD
	l.over(c)
	l.closeConn(c)
	n, failure := l.fresh(t)
	if n == nil {
		l.win.Lag.record(time.Duration(late))
		l.lost(failure, at, q)
		l.park(max(t.retryAt-l.now, firstPause))
		return
	}
	n.out, l.wire = l.wire, n.out[:0]
	n.sent, n.Request, n.since, n.late = 0, q, at, late
	n.framer.begin(toHEAD)
	l.flying.insertAfter(prev, n) // its deadline is the old one's
}

func idempotent(wire []byte) bool {
	method, _, _ := bytes.Cut(wire, space)
	switch string(method) {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE":
		return true
	}
	return false
}

var space = []byte{' '}

func (l *loop) expire() {
	for c := l.flying.front; c != nil && c.since+int64(l.o.Timeout) <= l.now; c = l.flying.front {
		if c.state == connecting && c.target.probing {
			c.target.refusedAt(l.now)
		}
		l.fail(c, measure.TimedOut)
	}
}
