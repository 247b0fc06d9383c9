package mock

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"weir/internal/server"
)

// Stats are what GET /stats shows.
type Stats struct {
	Since       time.Time         `json:"since"`
	Step        int64             `json:"step"`
	Requests    uint64            `json:"requests"` // for feeds, answered or not, those refused too
	Kinds       map[string]uint64 `json:"kinds"`    // by format; those refused are under "refused"
	Statuses    map[int]uint64    `json:"statuses"` // answers; hung requests have none
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

type stats struct {
	mu sync.Mutex
	c  Stats
}

func (s *stats) count(change func(c *Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.c)
}

// begin sets all counts to 0, but for the requests that wait now.
func (s *stats) begin(now time.Time) {
	s.count(func(c *Stats) {
		*c = Stats{Since: now.UTC(), Waiting: c.Waiting, Kinds: map[string]uint64{"refused": 0},
			Statuses: map[int]uint64{}, Encodings: map[string]uint64{}, Malformed: map[string]uint64{}}
		for _, name := range formatNames {
			c.Kinds[name] = 0
		}
		for _, name := range codingNames {
			c.Encodings[name] = 0
		}
	})
}

// asked counts a request for a feed, by its format, or as "refused".
func (s *stats) asked(kind string) {
	s.count(func(c *Stats) {
		c.Requests++
		c.Kinds[kind]++
	})
}

func (s *stats) answered(w *server.Response, head bool) {
	s.count(func(c *Stats) {
		c.Statuses[w.Status]++
		if !head {
			c.Bytes += uint64(len(w.Body))
		}
	})
}

// feed counts an answer that is about a feed, whole or not modified.
func (s *stats) feed(q *query, p page, w *server.Response) {
	s.answered(w, q.head)
	s.count(func(c *Stats) {
		if len(q.noneMatch) > 0 || len(q.modifiedSince) > 0 {
			c.Conditional++
		}
		if w.Status == http.StatusNotModified {
			c.NotModified++
		} else if !q.head {
			c.Encodings[codingNames[p.coding]]++
			if p.damage != undamaged {
				c.Malformed[damages[p.damage].name]++
			}
		}
	})
}

// Stats returns what was counted since the start, or since ResetStats.
func (s *Server) Stats() (out Stats) {
	s.stats.count(func(c *Stats) {
		out = *c
		out.Kinds, out.Statuses = maps.Clone(c.Kinds), maps.Clone(c.Statuses)
		out.Encodings, out.Malformed = maps.Clone(c.Encodings), maps.Clone(c.Malformed)
	})
	out.Step, out.Cached = s.clock.step(), s.pages.EstimatedSize()
	return out
}

// ResetStats sets all counts to 0, and the numbers of requests that chance depends on.
func (s *Server) ResetStats() {
	s.stats.begin(s.clock.now())
	s.numbers.reset()
}

// Requests returns how many requests there were for a seed, or one that is equal modulo 65536.
func (s *Server) Requests(seed uint64) uint64 { return s.numbers.of(seed).Load() }
