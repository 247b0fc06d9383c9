package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/config"
	"weir/internal/metrics"
)

// Limits are what a service's requests may take of what all services share, so that one that waits for
// somebody slow, or is asked for too much, runs short of its own share. Only requests that have left the loop
// count: those that are offloaded or pending. 0 is no limit.
type Limits struct {
	Requests int           // under way at once
	Bytes    config.Bytes  // of these requests, and of what the service reserves
	Time     time.Duration // from when one has left the loop until it is answered 503
}

// AddFlags adds --NAME-max-requests, --NAME-max-memory and --NAME-timeout for a service; their defaults are
// what l holds.
func (l *Limits) AddFlags(f *pflag.FlagSet, service string) {
	f.IntVar(&l.Requests, service+"-max-requests", l.Requests,
		"requests under way at once that are not answered from memory; one more is answered 503")
	f.Var(&l.Bytes, service+"-max-memory", "memory that these requests, and what is fetched for them, may "+
		"hold; one that needs more is answered 503")
	f.DurationVar(&l.Time, service+"-timeout", l.Time,
		"how long one of these requests may take before it is answered 503")
}

// Limiter holds a service to its Limits. A route with one (Route.Limits) has its requests counted and timed
// by the kernel; the service reserves memory beyond them by itself. It may be used from any goroutine.
type Limiter struct {
	service  string
	limits   atomic.Pointer[Limits]
	requests atomic.Int64
	bytes    atomic.Int64
	reached  [limitKinds]*metrics.Counter
	after    func(time.Duration, func()) *time.Timer // time.AfterFunc; a test's own clock
}

// The limits.
const (
	limitRequests = iota
	limitBytes
	limitTime
	limitKinds
)

// Limiter returns what holds a service to limits.
func (e Env) Limiter(service string, l Limits) *Limiter {
	own := &Limiter{service: service, after: time.AfterFunc}
	own.SetLimits(l)
	for kind, name := range [limitKinds]string{"requests", "memory", "time"} {
		own.reached[kind] = e.Metrics.Counter("weir_service_limit_reached_total",
			"Requests answered 503, and reservations refused, because a limit of their service was reached.",
			"service", service, "limit", name)
	}
	e.Metrics.Gauge("weir_service_requests", "Requests under way that count for their service's limits.",
		func() float64 { return float64(own.requests.Load()) }, "service", service)
	e.Metrics.Gauge("weir_service_held_bytes", "Memory that counts for a service's limit.",
		func() float64 { return float64(own.bytes.Load()) }, "service", service)
	return own
}

// SetLimits changes the limits, for requests that come.
func (l *Limiter) SetLimits(limits Limits) {
	limits.Requests = cmp.Or(limits.Requests, math.MaxInt)
	limits.Bytes = cmp.Or(limits.Bytes, math.MaxInt64)
	l.limits.Store(&limits)
}

// Reserve takes n bytes of the service's share, which the caller gives back by Release. It returns false,
// and has taken nothing, when there is not that much left.
func (l *Limiter) Reserve(n int) bool {
	if l.bytes.Add(int64(n)) <= int64(l.limits.Load().Bytes) {
		return true
	}
	l.bytes.Add(-int64(n))
	l.reach(limitBytes)
	return false
}

// Release gives back n bytes that Reserve has taken.
func (l *Limiter) Release(n int) { l.bytes.Add(-int64(n)) }

// enter counts a request of n bytes. Beyond a limit it returns false, and the detail of the 503.
func (l *Limiter) enter(n int) (refusal string, ok bool) {
	if l.requests.Add(1) > int64(l.limits.Load().Requests) {
		l.requests.Add(-1)
		l.reach(limitRequests)
		return fmt.Sprintf("%s has as many requests under way as it may; raise --%[1]s-max-requests "+
			"if the machine has room", l.service), false
	}
	if !l.Reserve(n) {
		l.requests.Add(-1)
		return fmt.Sprintf("%s holds as much memory as it may; raise --%[1]s-max-memory "+
			"if the machine has it", l.service), false
	}
	return "", true
}

// leave takes back enter.
func (l *Limiter) leave(n int) {
	l.Release(n)
	l.requests.Add(-1)
}

func (l *Limiter) reach(kind int) { l.reached[kind].Add(0, 1) }

// overdue fills in the answer to a request whose time is over.
func (l *Limiter) overdue(w *Response) {
	l.reach(limitTime)
	w.Problem(503, fmt.Sprintf("%s did not answer within %v; try again, or raise --%[1]s-timeout",
		l.service, l.limits.Load().Time))
}

// boundedCall is a request of a route with Limits, called again by a worker. It has a copy of the request, so
// that its client is answered in time even if the worker is not done.
type boundedCall struct {
	Request
	by *Completion
}

// bound counts the request r and returns it for a worker. Beyond a limit it fills in the answer and returns
// nil.
func (s *Server) bound(w *Response, r *Request) *boundedCall {
	b := &boundedCall{by: r.newCompletion(true)}
	if b.by == nil {
		w.Problem(503, r.refusal)
		return nil
	}
	b.Request = Request{
		Method: r.Method, Path: bytes.Clone(r.Path), Query: bytes.Clone(r.Query), Body: bytes.Clone(r.Body),
		s: s, route: r.route, class: r.class, ctx: b.by.ctx, counted: true, fd: r.fd, remote: r.remote,
		header: bytes.Clone(r.header),
	}
	for i, p := range r.params {
		b.params[i] = bytes.Clone(p)
	}
	return b
}

// run calls the handler again and completes the request.
func (b *boundedCall) run(stripe int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if b.ctx.Err() != nil { // nobody waits for it any more
		b.by.leave()
		return
	}
	b.Stripe = stripe
	w := new(Response)
	w.reset()
	if b.s.run(w, &b.Request) != Pending {
		b.by.settle(w)
		b.by.leave()
		return
	}
	inner := b.completion
	inner.deliver(func() { b.by.settle(inner.take()) })
	context.AfterFunc(b.ctx, func() {
		inner.abandon()
		b.by.leave()
	})
}

// drop gives up a request that no worker will get.
func (b *boundedCall) drop() {
	b.by.abandon()
	b.by.leave()
}
