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
	limits *Limiter    // that the request counts for, or nil
	size   int         // of the request, for limits
	timer  *time.Timer // of limits, or nil

	claimed atomic.Bool // somebody completes it, who has it leave its limits when that is done

	mu      sync.Mutex
	settled bool      // it has been answered, or nobody waits any more
	answer  *Response // what it was completed with, until it is taken
	notify  func()    // tells the lane that answer is there; nil until the handler has returned
}

// Pend returns the handle by which the request is completed after its handler has returned Pending. Nothing
// of the Response or the Request may be used after that; the handler copies what it needs. On a route with
// Limits, and only there, it returns nil when one of them is reached: the handler returns Done, and the
// kernel answers 503.
func (r *Request) Pend() *Completion {
	if r.completion != nil {
		panic("BUG: a handler called Pend twice")
	}
	r.completion = r.newCompletion(false)
	return r.completion
}

// newCompletion returns a completion, which is claimed if the caller is who completes it. When a limit is
// reached it sets r.refusal and returns nil.
func (r *Request) newCompletion(claimed bool) *Completion {
	c := &Completion{s: r.s, route: r.route, head: r.Method == http.MethodHead, since: time.Now()}
	c.claimed.Store(claimed)
	if r.route != nil && r.route.Limits != nil && !r.counted {
		size := len(r.Path) + len(r.Query) + len(r.header) + len(r.Body)
		refusal, ok := r.route.Limits.enter(size)
		if !ok {
			r.refusal = refusal
			return nil
		}
		c.limits, c.size = r.route.Limits, size
	}
	c.ctx, c.cancel = context.WithCancel(r.Context())
	if c.limits != nil && c.limits.limits.Load().Time > 0 {
		c.mu.Lock() // expire may be at once
		c.timer = c.limits.after(c.limits.limits.Load().Time, c.expire)
		c.mu.Unlock()
	}
	return c
}

// Context ends when the request is completed, when its client has gone, when its time is over, and when the
// server gives it up to stop.
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

// responses are those of completions, whose memory is used again.
var responses = sync.Pool{New: func() any { return new(Response) }}

func newResponse() *Response {
	w := responses.Get().(*Response)
	w.reset()
	return w
}

// recycle gives back a response of newResponse that was sent. What is large is left to the collector.
func (w *Response) recycle() {
	if cap(w.Body) <= InlineBytes {
		responses.Put(w)
	}
}

func (c *Completion) finish(fill func(*Response)) {
	w := newResponse()
	c.fill(w, fill)
	c.settle(w)
	c.leave()
}

// settle makes w the answer, unless there is one or nobody waits. A nil w is none.
func (c *Completion) settle(w *Response) {
	if w == nil {
		return
	}
	c.mu.Lock()
	late, notify := c.settled, c.notify
	if !late {
		c.settled, c.answer = true, w
	}
	c.mu.Unlock()
	switch {
	case late:
		w.drop()
	case notify != nil:
		notify()
	}
	c.end()
}

// end ends the context, and the time that runs.
func (c *Completion) end() {
	c.cancel()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// expire answers the request because its time is over.
func (c *Completion) expire() {
	unclaimed := !c.claimed.Swap(true)
	w := new(Response)
	w.reset()
	c.limits.overdue(w)
	c.settle(w)
	if unclaimed {
		c.leave()
	}
}

// leave has the request no longer count for its limits. It is called once, by who has set claimed.
func (c *Completion) leave() {
	if c.limits != nil {
		c.limits.leave(c.size)
	}
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
	unclaimed := !c.claimed.Swap(true)
	c.mu.Lock()
	answer := c.answer
	c.settled, c.answer, c.notify = true, nil, nil
	c.mu.Unlock()
	c.end()
	if answer != nil {
		answer.drop()
	}
	if unclaimed {
		c.leave()
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
