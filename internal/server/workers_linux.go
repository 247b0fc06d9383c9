package server

import (
	"net/http"
	"runtime/debug"
	"time"
)

// call is a request whose handler is called again, by a worker or by the loop when it is idle. Its bytes are
// in its connection.
type call struct {
	Request
	since time.Time
}

// job is a request for a worker: that of a connection, or a bounded one.
type job struct {
	conn    *conn
	bounded *boundedCall
}

// queueFull is what a request is told for which no worker has time.
const queueFull = "too many requests wait for a worker; raise --workers or --worker-queue if the machine " +
	"has room"

// offload has the handler of the request at the start of data called again and returns nil, or, when as many
// wait as may, fills in the answer and returns the data, which has moved.
func (l *loop) offload(c *conn, data []byte, outcome Outcome) []byte {
	if outcome == Offload && l.req.route.Limits != nil {
		return l.offloadBounded(c, data)
	}
	if !l.detach(c, data, phaseOffloaded) {
		return nil
	}
	var k *call
	if n := len(l.calls); n > 0 {
		k, l.calls = l.calls[n-1], l.calls[:n-1]
	} else {
		k = new(call)
	}
	k.moveFrom(&l.req, data, c.in)
	k.since = time.Now()
	c.call = k
	c.out = l.buffers.take(l.latest) // the worker's to fill
	if outcome == WhenIdle && l.s.cfg.Processors <= l.s.cfg.Loops && len(l.whenIdle) < l.s.cfg.WorkerQueue {
		l.whenIdle = append(l.whenIdle, c)
		return nil
	}
	select {
	case l.lane.jobs[k.route.service] <- job{conn: c}:
		return nil
	default:
		l.buffers.give(c.out)
		c.out = nil
		l.freeCall(c)
		c.phase = phaseReading
		l.s.detached.Add(-1)
		l.s.refused.Add(l.stripe, 1)
		l.resp.Problem(http.StatusServiceUnavailable, queueFull)
		return c.in
	}
}

// offloadBounded is offload for a route with Limits: the request is pending, for a worker to complete.
func (l *loop) offloadBounded(c *conn, data []byte) []byte {
	b := l.s.bound(&l.resp, &l.req)
	if b == nil {
		return data
	}
	select {
	case l.lane.jobs[b.route.service] <- job{bounded: b}:
		l.pend(c, data, b.by)
		return nil
	default:
		b.drop()
		l.s.refused.Add(l.stripe, 1)
		l.resp.Problem(http.StatusServiceUnavailable, queueFull)
		return data
	}
}

// moveFrom takes over another request, whose bytes have moved from one buffer to another.
func (r *Request) moveFrom(q *Request, from, to []byte) {
	own := r.decoded
	*r = *q
	r.completion = nil
	q.decoded = own[:0] // r keeps what q's parameters may be in
	move := func(s *[]byte) {
		if at, ok := offsetIn(from, *s); ok {
			*s = to[at:][:len(*s):len(*s)]
		}
	}
	for _, s := range []*[]byte{&r.Path, &r.Query, &r.Body, &r.header} {
		move(s)
	}
	for i := range r.params {
		move(&r.params[i])
	}
}

func (l *loop) freeCall(c *conn) {
	l.calls = append(l.calls, c.call)
	c.call = nil
}

// detach makes c wait for somebody else to answer the request at the start of data, whose size c has: the
// input becomes c's own memory, and no deadline runs. It returns false when there was no memory for that, and
// c has been refused.
func (l *loop) detach(c *conn, data []byte, phase phase) bool {
	l.keep(c, data)
	if c.in == nil {
		return false
	}
	l.observe()
	c.timed.stop()
	c.phase = phase
	l.s.detached.Add(1)
	return true
}

// reattach takes c back from a worker or from net/http. It returns false when the client has gone
// meanwhile, and c is closed.
func (l *loop) reattach(c *conn) bool {
	c.phase = phaseReading
	c.timed.stop()
	l.s.detached.Add(-1)
	if c.gone {
		l.close(c)
		return false
	}
	l.out = l.out[:0]
	l.keep(c, c.in[c.size:])
	return true
}

// ran goes on with c, whose handler was called again; what it has answered is in c.out.
func (l *loop) ran(c *conn, outcome Outcome) {
	completion := c.call.completion
	l.freeCall(c)
	if outcome == Done {
		l.answered(c)
		return
	}
	c.phase = phaseReading
	l.buffers.give(c.out)
	c.out = nil
	l.s.detached.Add(-1)
	if c.gone {
		if outcome == Pending {
			completion.abandon()
		}
		l.close(c)
		return
	}
	l.out = l.out[:0]
	if outcome == Pending {
		l.pend(c, c.in, completion)
		return
	}
	if err := parseHead(c.in[:headEnd(c.in, 0)], &l.head); err != nil {
		panic("BUG: a request that was parsed does not parse: " + err.detail)
	}
	l.handOff(c, c.in)
}

// answered sends the answer a worker has left in c.out and goes on with c.
func (l *loop) answered(c *conn) {
	l.latest = min(len(c.out), largeSize)
	if !l.reattach(c) {
		return
	}
	whole := c.out
	if l.flushKept(c) {
		l.buffers.give(whole)
		c.out = nil
		l.resume(c)
	}
}

// pend makes c wait for its request at the start of data to be completed. Answers to requests before it may
// still be on their way, since what a handler has begun cannot be begun again.
func (l *loop) pend(c *conn, data []byte, by *Completion) {
	if !l.detach(c, data, c.phase) {
		by.abandon()
		return
	}
	c.pending = by
	by.deliver(func() { l.post(message{kind: msgCompleted, conn: c, by: by}) })
	if l.flush(c) {
		l.waitPending(c)
	}
}

// waitPending waits for the completion of c's request; all answers before it are sent.
func (l *loop) waitPending(c *conn) {
	c.phase = phasePending
	c.timed.stop()
}

// completed sends what a request was completed with, if it is there and its turn has come.
func (l *loop) completed(c *conn, by *Completion) {
	if c.pending != by || c.phase != phasePending {
		return
	}
	w := by.take()
	if w == nil {
		return
	}
	c.pending = nil
	l.reattach(c)
	c.closing = c.closing || l.stopping && len(c.in) == 0
	if c.keepAlive {
		w.Field("Connection", "keep-alive")
	}
	l.out = l.heads.append(l.out, w, by.head, c.closing)
	l.s.count(by.route, l.stripe, w.Status, time.Since(by.since))
	sent := l.flushPieces(c, w, by.head)
	w.recycle()
	if sent {
		l.resume(c)
	}
}

// worker is what calls handlers again, and its memory.
type worker struct {
	s      *Server
	stripe int
	w      Response
	heads  heads
}

// work calls handlers again until there are no more.
func (f *fastLane) work(jobs chan job, stripe int) {
	debug.SetPanicOnFault(true)
	k := worker{s: f.s, stripe: stripe}
	for j := range jobs {
		if j.bounded != nil {
			j.bounded.run(stripe)
			continue
		}
		j.conn.loop.post(message{kind: msgRan, conn: j.conn, outcome: k.run(j.conn)})
	}
}

// run calls the handler of c's request and leaves its answer in c.out.
func (k *worker) run(c *conn) Outcome {
	r, w := &c.call.Request, &k.w
	r.Stripe, r.inline, r.lane = k.stripe, false, nil
	w.reset()
	outcome := k.s.run(w, r)
	if outcome != Done {
		return outcome
	}
	now := time.Now()
	k.heads.tick(now)
	if c.keepAlive {
		w.Field("Connection", "keep-alive")
	}
	c.out = k.heads.append(c.out[:0], w, r.Method == http.MethodHead, c.closing)
	if r.Method == http.MethodHead {
		w.drop()
	}
	c.takePieces(w)
	k.s.count(r.route, r.Stripe, w.Status, now.Sub(c.call.since))
	return Done
}

// A handler may say that its work is long for a loop and short for a worker (WhenIdle). On a machine whose
// every processor has a loop, a worker's thread takes turns with that of the loop, which may take
// milliseconds. So the loop does them by itself, after all that is ready, and looks for what is new after
// each few: predictions for 400 items at half of what one core can do took 44 us of CPU a request in place of
// 56, and half the time to the answer. What comes meanwhile waits for idleAtOnce and one such request, no
// longer.

const (
	// idleAtOnce is for how long a loop does what was put off before it looks for what is new.
	idleAtOnce = IdleMicroseconds / 2 * time.Microsecond
	// fewIdle is how many requests may be put off at the end of a turn. What is more is done at once: it was
	// admitted, and to read new requests before would make all of them late.
	fewIdle = 16
)

// runIdle runs requests that were put off: one at least.
func (l *loop) runIdle() {
	began := time.Now()
	n := 0
	for n < len(l.whenIdle) { // which may grow by a next request of the same connection
		c := l.whenIdle[n]
		n++
		l.ran(c, l.worker.run(c))
		if len(l.whenIdle)-n <= fewIdle && time.Since(began) >= idleAtOnce {
			break
		}
	}
	left := copy(l.whenIdle, l.whenIdle[n:])
	clear(l.whenIdle[left:])
	l.whenIdle = l.whenIdle[:left]
}
