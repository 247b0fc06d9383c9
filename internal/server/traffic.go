package server

import (
	"weir/internal/metrics"
	"weir/internal/shed"
)

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
