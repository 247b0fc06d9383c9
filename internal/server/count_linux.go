package server

import "time"

// countInline counts a request answered inline. Latencies are observed together, once the answers of
// an event are sent: see observe.
func (l *loop) countInline(route *route, status int) {
	l.s.counter(route, status).Add(l.stripe, 1)
	if l.timing.route != route && l.timing.n > 0 {
		l.observe()
	}
	l.timing.route = route
	l.timing.n++
}

// timing is the run of requests for one route whose latency is not observed yet.
type timing struct {
	route *route
	n     uint64
}

// observe records the latency of the requests counted since the last call: from the wake-up that
// found them to now, when their answers have been sent. It so includes the time an answer waited
// behind those of other connections.
func (l *loop) observe() {
	if l.timing.n == 0 {
		return
	}
	l.timing.route.latency.Observe(l.stripe, time.Since(l.epoch)-time.Duration(l.now), l.timing.n)
	l.timing.n = 0
}
