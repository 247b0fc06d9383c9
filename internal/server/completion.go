package server

import (
	"bytes"
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Completion is the handle to a request whose handler has returned Pending: its holder completes the request
// later, once, from any goroutine. Until then the connection waits, for as long as its client does.
type Completion struct {
	ctx    context.Context
	cancel context.CancelFunc
	s      *Server
	route  *route
	head   bool // the request is a HEAD
	since  time.Time

	claimed atomic.Bool // somebody completes it

	mu        sync.Mutex
	abandoned bool      // nobody waits any more
	answer    *Response // what it was completed with
	notify    func()    // tells the lane that answer is there; nil until the handler has returned
}

// Pend returns the handle by which the request is completed after its handler has returned Pending. Nothing
// of the Response or the Request may be used after that; the handler copies what it needs.
func (r *Request) Pend() *Completion {
	if r.completion != nil {
		panic("BUG: a handler called Pend twice")
	}
	base := r.ctx
	if base == nil {
		base = context.Background()
	}
	c := &Completion{s: r.s, route: r.route, head: r.Method == http.MethodHead, since: time.Now()}
	c.ctx, c.cancel = context.WithCancel(base)
	r.completion = c
	return c
}

// Context ends when the request is completed, when its client has gone, and when the server gives it up to
// stop.
func (c *Completion) Context() context.Context { return c.ctx }

// Complete answers the request with what fill makes of the response. Only the first call counts, and fill is
// not called when the client has gone. A panic of fill is the request's 500, as that of a handler is.
func (c *Completion) Complete(fill func(w *Response)) {
	if !c.claimed.Swap(true) {
		c.finish(fill)
	}
}

// Go runs work in a goroutine of its own and completes the request with what it makes of the response. Work
// is run even if the client has gone already; it should end soon after its context has.
func (c *Completion) Go(work func(ctx context.Context, w *Response)) {
	if c.claimed.Swap(true) {
		panic("BUG: Go of a request that is completed")
	}
	go c.finish(func(w *Response) { work(c.ctx, w) })
}

func (c *Completion) finish(fill func(*Response)) {
	w := new(Response)
	w.reset()
	c.fill(w, fill)
	c.mu.Lock()
	abandoned, notify := c.abandoned, c.notify
	if !abandoned {
		c.answer = w
	}
	c.mu.Unlock()
	switch {
	case abandoned:
		w.drop()
	case notify != nil:
		notify()
	}
	c.cancel()
}

// fill calls a function that fills in a response, and answers for its panic.
func (c *Completion) fill(w *Response, fill func(*Response)) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			c.s.answerPanic(c.route, w, p)
		}
	}()
	fill(w)
}

// deliver has notify called once the answer is there.
func (c *Completion) deliver(notify func()) {
	c.mu.Lock()
	c.notify = notify
	there := c.answer != nil
	c.mu.Unlock()
	if there {
		notify()
	}
}

// abandon ends the wait: nobody is there to be answered.
func (c *Completion) abandon() {
	c.claimed.Store(true)
	c.mu.Lock()
	c.abandoned = true
	answer := c.answer
	c.answer, c.notify = nil, nil
	c.mu.Unlock()
	c.cancel()
	if answer != nil {
		answer.drop()
	}
}

// take returns the answer, nil when it is not there yet.
func (c *Completion) take() *Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.answer
	c.answer = nil
	return w
}

// Answer calls a handler as a worker does and waits for its answer, pieces joined: for tests of handlers.
func Answer(h Handler, r *Request) (*Response, Outcome) {
	w := new(Response)
	w.reset()
	r.inline, r.completion = false, nil
	outcome := h(w, r)
	if outcome == Pending {
		there := make(chan struct{})
		r.completion.deliver(func() { close(there) })
		<-there
		w = r.completion.take()
	}
	w.Body = append(w.Body, bytes.Join(w.pieces, nil)...)
	w.drop()
	return w, outcome
}
