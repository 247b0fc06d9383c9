package server

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"weir/internal/shed"
)

// addShedder makes the shedder, which watches the box and what the kernel knows of its own queues.
func (s *Server) addShedder() error {
	if s.cfg.Shed == nil {
		return nil
	}
	signals := append(shed.System(s.cfg.Shed.StallsOf),
		shed.Signal{Name: shed.InFlight, Unit: shed.Number, Read: func() (float64, error) {
			return float64(s.inFlight()), nil
		}}, shed.Signal{Name: shed.LoopDelay, Unit: shed.Seconds, Read: s.loopDelay()},
	)
	var err error
	if s.shed, err = shed.New(*s.cfg.Shed, s.cfg.Metrics, s.cfg.Log, signals...); err != nil {
		return err
	}
	s.cfg.Metrics.Gauge("weir_shed_paused_connections", "Connections that are not "+
		"read for a while: they wait for a busy loop, or their last request was rejected.",
		func() float64 { return float64(s.paused.Load()) })
	return nil
}

// shedDetail is what a refused client is told; %s is the signal's name.
const shedDetail = "the server is overloaded (%s) and refuses some requests; come again after as many " +
	"seconds as Retry-After says"

// reject fills in the answer to a request of net/http's that is rejected, and counts it.
func (s *Server) reject(w *Response, r *Request) {
	s.shed.Count(r.Stripe, r.class, 0, 1)
	s.counter(r.route, http.StatusServiceUnavailable).Add(r.Stripe, 1)
	w.problem(http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable),
		fmt.Sprintf(shedDetail, s.shed.Dominant()), shed.RetryAfter(s.shed.RejectProbability().Of(r.class)))
}

// Reject decides about a piece of work of class Low: see Env.Reject. It may be called at any time.
func (s *Server) Reject() bool {
	if s == nil || s.shed == nil {
		return false
	}
	if s.shed.RejectProbability().Rejects(shed.Low, shed.Draw()) {
		s.shed.Count(0, shed.Low, 0, 1)
		return true
	}
	s.shed.Count(0, shed.Low, 1, 0)
	return false
}

// overloaded renders the answers to refused requests of a loop. All of it but Retry-After is kept rendered,
// and made again when the second or the reason changes.
type overloaded struct {
	second     int64
	reason     string
	head, body []byte
}

// append appends a refusal to dst.
func (r *overloaded) append(dst []byte, h *heads, reason string, retryAfter int, headOnly,
	closing bool) []byte {
	const status = http.StatusServiceUnavailable
	if r.reason != reason {
		r.second, r.reason = 0, reason
		r.body = AppendProblem(r.body[:0], status, http.StatusText(status), fmt.Sprintf(shedDetail, reason))
	}
	if r.second != h.second {
		r.second = h.second
		r.head = append(r.head[:0], "HTTP/1.1 503 Service Unavailable\r\n"...)
		r.head = append(r.head, h.date...)
		r.head = append(r.head, "Content-Type: "+problemType+
			"\r\nCache-Control: no-store\r\nContent-Length: "...)
		r.head = strconv.AppendInt(r.head, int64(len(r.body)), 10)
		r.head = append(r.head, "\r\nRetry-After: "...)
	}
	dst = append(dst, r.head...)
	dst = strconv.AppendInt(dst, int64(retryAfter), 10)
	dst = append(dst, "\r\n"...)
	dst = appendEnd(dst, closing)
	if headOnly {
		return dst
	}
	return append(dst, r.body...)
}

// inFlight is how many requests are somewhere between their arrival and their answer: ready for a loop,
// with a worker, or with net/http.
func (s *Server) inFlight() int64 {
	n := s.detached.Load()
	if s.fast != nil {
		n += s.fast.ready()
	}
	return n
}

// loopDelay returns a function that reads how long what was ready together took a loop, the mean over the
// requests since its last call, of the slowest loop. Queues that are short enough to be free count as none.
func (s *Server) loopDelay() func() (float64, error) {
	type reading struct{ waited, ready uint64 }
	var last []reading
	return func() (float64, error) {
		if s.fast == nil {
			return 0, errors.ErrUnsupported
		}
		worst := 0.0
		for i := range s.cfg.Loops {
			waited, ready := s.fast.queued(i)
			if i == len(last) {
				last = append(last, reading{waited, ready})
			}
			if n := ready - last[i].ready; n > 0 {
				worst = max(worst, float64(waited-last[i].waited)/float64(n)*float64(
					time.Microsecond)/float64(time.Second))
			}
			last[i] = reading{waited, ready}
		}
		return worst, nil
	}
}

// getShed answers GET /admin/shed.
func (s *Server) getShed(w *Response, _ *Request) Outcome {
	w.Field("Cache-Control", "no-store")
	w.JSON(s.shed.Status())
	return Done
}
