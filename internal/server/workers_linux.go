package server

import (
	"net/http"
	"runtime/debug"
	"time"
)

// job is a deferred request: its connection, its bytes there, and when it came.
type job struct {
	conn    *conn
	request []byte
	since   time.Time
}

// enqueue hands the request at the start of data to a worker and returns nil, or, when the queue
// is full, returns the data, which has moved.
func (l *loop) enqueue(c *conn, data []byte, outcome Outcome) []byte {
	if !l.detach(c, data, phaseDeferred) {
		return nil
	}
	c.out = l.spare.take(l.latest) // the worker's to fill
	j := job{c, c.in[:c.bodyEnd], time.Now()}
	if outcome == WhenIdle && l.s.cfg.Processors <= l.s.cfg.Loops && len(l.later) < l.s.cfg.WorkerQueue {
		l.later = append(l.later, j)
		return nil
	}
	select {
	case l.lane.jobs <- j:
		return nil
	default:
		l.spare.give(c.out)
		c.out = nil
		c.phase = phaseReading
		l.s.away.Add(-1)
		l.s.refused.Add(l.stripe, 1)
		return c.in
	}
}

// detach makes c wait for somebody else to answer the request at the start of data, whose size c has: the input becomes c's own memory, and no deadline runs. It returns false when there was
// no memory for that, and c has been refused.
func (l *loop) detach(c *conn, data []byte, phase phase) bool {
	l.keep(c, data)
	if c.in == nil {
		return false
	}
	l.observe()
	c.timed.stop()
	c.phase = phase
	l.s.away.Add(1)
	return true
}

// reattach takes c back from a worker or from net/http. It returns false when the client has gone
// meanwhile, and c is closed.
func (l *loop) reattach(c *conn) bool {
	c.phase = phaseReading
	c.timed.stop()
	l.s.away.Add(-1)
	if c.gone {
		l.close(c)
		return false
	}
	l.out = l.out[:0]
	l.keep(c, c.in[c.size:])
	return true
}

// answered sends the answer a worker has left in c.out and goes on with c.
func (l *loop) answered(c *conn) {
	l.latest = min(len(c.out), largeSize)
	if !l.reattach(c) {
		return
	}
	n, err := send(c.fd, c.out)
	switch {
	case err != nil:
		l.close(c)
	case n < len(c.out):
		c.out = c.out[n:]
		l.drain(c)
	default:
		l.spare.give(c.out)
		c.out = nil
		l.resume(c)
	}
}

// lendDeferred lends a request that a worker would not answer.
func (l *loop) lendDeferred(c *conn) {
	c.phase = phaseReading
	l.s.away.Add(-1)
	if c.gone {
		l.close(c)
		return
	}
	l.out = l.out[:0]
	if err := parseHead(c.in[:headEnd(c.in, 0)], &l.head); err != nil {
		panic("BUG: a request that was parsed does not parse: " + err.detail)
	}
	l.lend(c, c.in)
}

// worker is what runs deferred requests, and its memory.
type worker struct {
	s     *Server
	r     Request
	w     Response
	h     head
	heads heads
}

// work runs deferred requests until there are no more.
func (f *fastLane) work(stripe int) {
	debug.SetPanicOnFault(true)
	k := worker{s: f.s, r: Request{Stripe: stripe}}
	for j := range f.jobs {
		kind := msgLend
		if k.run(j) {
			kind = msgAnswered
		}
		j.conn.loop.post(message{kind: kind, conn: j.conn})
	}
}

// run runs a request and leaves its answer in conn.out, or returns false: it is to be lent.
func (k *worker) run(j job) (answered bool) {
	c, request, r, w, h := j.conn, j.request, &k.r, &k.w, &k.h
	size := headEnd(request, 0)
	if err := parseHead(request[:size], h); err != nil {
		panic("BUG: a request that was parsed does not parse: " + err.detail)
	}
	r.Method, r.Path, r.Query, r.header, r.Body = h.method, h.path, h.query, h.header, request[size:]
	r.params = [maxParams][]byte{}
	r.decoded = r.decoded[:0]
	w.reset()
	route, _ := k.s.routes.find(h.method, h.path, &r.params)
	r.decodeParams()
	if k.s.run(route, w, r) == NetHTTP {
		return false
	}
	now := time.Now()
	k.heads.tick(now)
	c.closing = h.flags&connClose != 0
	h.answerKeepAlive(w)
	c.out = k.heads.append(c.out[:0], w, h.method == http.MethodHead, c.closing)
	k.s.count(route, r.Stripe, w.Status, now.Sub(j.since))
	return true
}
