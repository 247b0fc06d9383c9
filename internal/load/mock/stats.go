package mock

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/server"
)

// stats count what was asked and answered.
type stats struct {
	since                      atomic.Int64 // Unix nanoseconds
	kinds                      [formats]atomic.Uint64
	statuses                   [600]atomic.Uint64
	codings                    [codingKinds]atomic.Uint64
	damaged                    [len(damages)]atomic.Uint64
	refused                    atomic.Uint64 // not understood
	conditional, hits          atomic.Uint64
	bytes                      atomic.Uint64 // of bodies
	errors, hung, delayed, cut atomic.Uint64
	waiting                    atomic.Int64 // now; not reset
	made                       atomic.Uint64
}

// begin sets all counts to 0.
func (s *stats) begin(now time.Time) {
	s.since.Store(now.UnixNano())
	for _, counts := range [][]atomic.Uint64{s.kinds[:], s.statuses[:], s.codings[:], s.damaged[:]} {
		for i := range counts {
			counts[i].Store(0)
		}
	}
	for _, c := range []*atomic.Uint64{&s.refused, &s.conditional, &s.hits, &s.bytes, &s.errors, &s.hung,
		&s.delayed, &s.cut, &s.made} {
		c.Store(0)
	}
}

// answered counts an answer.
func (s *stats) answered(w *server.Response, head bool) {
	s.statuses[w.Status].Add(1)
	if !head {
		s.bytes.Add(uint64(len(w.Body)))
	}
}

// feed counts an answer that is about a feed, whole or not modified.
func (s *stats) feed(q *query, p page, w *server.Response) {
	s.answered(w, q.head)
	if w.Status != http.StatusNotModified && !q.head {
		s.codings[p.coding].Add(1)
		if p.damage != undamaged {
			s.damaged[p.damage].Add(1)
		}
	}
}

// Stats are what GET /stats shows.
type Stats struct {
	Since       time.Time         `json:"since"`
	Step        int64             `json:"step"`
	Requests    uint64            `json:"requests"` // for feeds, answered or not, those refused too
	Kinds       map[string]uint64 `json:"kinds"`    // by format; those refused are under "refused"
	Statuses    map[string]uint64 `json:"statuses"` // answers; hung requests have none
	Conditional uint64            `json:"conditional"`
	NotModified uint64            `json:"not_modified"`
	Bytes       uint64            `json:"bytes"`     // of bodies, as sent
	Encodings   map[string]uint64 `json:"encodings"` // of feeds sent
	Errors      uint64            `json:"errors"`    // made up
	Malformed   map[string]uint64 `json:"malformed"`
	Hung        uint64            `json:"hung"`
	Delayed     uint64            `json:"delayed"`
	Waiting     int64             `json:"waiting"` // now, hung or delayed
	Rendered    uint64            `json:"rendered"`
	Cached      int               `json:"cached"` // pages
}

// Stats returns what was counted since the start, or since ResetStats.
func (s *Server) Stats() Stats {
	c := &s.stats
	out := Stats{
		Since: time.Unix(0, c.since.Load()).UTC(), Step: s.clock.step(),
		Kinds: make(map[string]uint64), Statuses: make(map[string]uint64), Encodings: make(map[string]uint64),
		Malformed:   make(map[string]uint64),
		Conditional: c.conditional.Load(), NotModified: c.hits.Load(), Bytes: c.bytes.Load(),
		Errors: c.errors.Load(), Hung: c.hung.Load(), Delayed: c.delayed.Load(), Waiting: c.waiting.Load(),
		Rendered: c.made.Load(), Cached: s.pages.EstimatedSize(),
	}
	for i, name := range formatNames {
		out.Kinds[name] = c.kinds[i].Load()
		out.Requests += out.Kinds[name]
	}
	out.Kinds["refused"] = c.refused.Load()
	out.Requests += out.Kinds["refused"]
	for status := range c.statuses {
		if n := c.statuses[status].Load(); n > 0 {
			out.Statuses[strconv.Itoa(status)] = n
		}
	}
	for i, name := range codingNames {
		out.Encodings[name] += c.codings[i].Load()
	}
	for i := range damages {
		if n := c.damaged[i].Load(); n > 0 {
			out.Malformed[damages[i].name] = n
		}
	}
	return out
}

// ResetStats sets all counts to 0, and the numbers of requests that chance depends on.
func (s *Server) ResetStats() {
	s.stats.begin(s.clock.now())
	s.numbers.reset()
}

// Requests returns how many requests there were for a seed, or one that is equal modulo 65536.
func (s *Server) Requests(seed uint64) uint64 { return s.numbers.of(seed).Load() }
