package server

import (
	"strconv"
	"strings"
	"time"

	"weir/internal/metrics"
	"weir/internal/shed"
)

func (s *Server) registerMetrics() {
	m := s.cfg.Metrics
	s.panics = m.Counter("weir_http_handler_panics_total", "Requests whose handler panicked.")
	s.refused = m.Counter("weir_http_queue_full_total",
		"Requests and connections turned away because a queue was full.")
	s.acceptErrors = m.Counter("weir_http_accept_errors_total", "Failed attempts to accept connections.")
	s.accepted = m.Counter("weir_http_connections_total", "Connections accepted.")
	for reason, name := range [closedReasons]string{
		closedIdle:    "idle",
		closedRequest: "request_timeout",
		closedWrite:   "write_timeout",
		closedInput:   "input_bound",
		closedFull:    "connection_bound",
	} {
		s.closed[reason] = m.Counter("weir_http_connections_closed_total", "Connections closed by a bound.",
			"reason", name)
	}
	m.Gauge("weir_http_connections", "Open connections.",
		func() float64 { return float64(s.connections.Load()) })
	m.Gauge("weir_http_buffered_input_bytes", "Memory held by requests that have not wholly arrived.",
		func() float64 { return float64(s.input.Load()) })
}

func (s *Server) newRoute(r Route) *route {
	_, path, ok := strings.Cut(r.Pattern, " ")
	if !ok {
		path = r.Pattern
	}
	if r.Admin { // nor are its requests counted: who looks at the metrics must not change them
		return &route{Route: r, path: path}
	}
	return &route{
		Route: r,
		path:  path,
		latency: s.cfg.Metrics.Histogram("weir_http_request_duration_seconds", "Time from the wake-up that "+
			"found a request to its answer being sent, by route.", "route", r.Pattern),
	}
}

// counter returns the counter of a route's answers with a status.
func (s *Server) counter(r *route, status int) *metrics.Counter {
	if uint(status) >= uint(len(r.requests)) {
		status = 0
	}
	if c := r.requests[status].Load(); c != nil {
		return c
	}
	s.counters.Lock()
	defer s.counters.Unlock()
	if c := r.requests[status].Load(); c != nil {
		return c
	}
	c := s.cfg.Metrics.Counter("weir_http_requests_total", "Requests answered, by route and status.",
		"route", r.Pattern, "code", strconv.Itoa(status))
	r.requests[status].Store(c)
	return c
}

// count counts one request and its latency.
func (s *Server) count(r *route, stripe, status int, took time.Duration) {
	if !r.Admin {
		s.counter(r, status).Add(stripe, 1)
		r.latency.Observe(stripe, took, 1)
	}
}

// Traffic is what a service has answered so far on the public ports, and how it is.
type Traffic struct {
	Service string
	Health  Health
	// Answers counts answers by the class of their status: Answers[2] those with 2xx.
	Answers [6]uint64
	// Latency is of all answers, from the wake-up that found a request to its answer being sent.
	Latency metrics.Distribution
}

// Traffic appends the traffic of each service to dst, in the order of the services, and last that of what
// belongs to none, which has no name. It may be called at any time.
func (s *Server) Traffic(dst []Traffic) []Traffic {
	at := len(dst)
	for _, st := range s.states {
		dst = append(dst, Traffic{Service: st.Name(), Health: st.look()})
	}
	dst = append(dst, Traffic{})
	count(&dst[len(dst)-1], s.unrouted)
	for _, r := range s.routes.table {
		if r.state != nil {
			count(&dst[at+r.service], r)
		} else {
			count(&dst[len(dst)-1], r)
		}
	}
	return dst
}

func count(t *Traffic, r *route) {
	for status := range r.requests {
		if c := r.requests[status].Load(); c != nil {
			t.Answers[min(status/100, 5)] += c.Value()
		}
	}
	r.latency.AddTo(&t.Latency)
}

// Shed returns how the shedder is, nil when nothing is ever refused.
func (s *Server) Shed() *shed.Status {
	if s.shed == nil {
		return nil
	}
	status := s.shed.Status()
	return &status
}
