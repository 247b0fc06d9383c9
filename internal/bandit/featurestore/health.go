package featurestore

// Health is how a store is. Counts are since the start.
type Health struct {
	Ready   bool              `json:"ready"`
	Reason  string            `json:"reason,omitempty"` // why it is not
	Fetches int               `json:"fetches"`          // under way
	P50     float64           `json:"p50Seconds"`       // of a fetch
	P99     float64           `json:"p99Seconds"`
	Items   Entities          `json:"items"`
	Users   *Entities         `json:"users"`  // null where users have no segments
	Errors  map[string]uint64 `json:"errors"` // fetches that failed, by the kind of failure
}

// Entities is what became of the looks at one kind of entities.
type Entities struct {
	Cached  int    `json:"cached"`  // in memory now
	Hits    uint64 `json:"hits"`    // answered from memory
	Misses  uint64 `json:"misses"`  // not
	Stale   uint64 `json:"stale"`   // answered from memory since the store failed
	Skipped uint64 `json:"skipped"` // not asked for since it hangs
	Fetched uint64 `json:"fetched"`
	Unknown uint64 `json:"unknown"` // of the fetched
}

// Health returns how the store is.
func (s *Store) Health() *Health {
	h := &Health{Ready: true, Fetches: s.fetches.Running(), P50: s.metrics.duration.Quantile(0.5).Seconds(),
		P99: s.metrics.duration.Quantile(0.99).Seconds(), Items: s.entities("item", s.items.Len()),
		Errors: make(map[string]uint64)}
	if s.users != nil {
		users := s.entities("user", s.users.Len())
		h.Users = &users
	}
	if err := s.Ready(); err != nil {
		h.Ready, h.Reason = false, Reason(err)
	}
	for kind, c := range s.metrics.errors {
		if n := c.Value(); n > 0 {
			h.Errors[faultKind(kind).String()] = n
		}
	}
	return h
}

func (s *Store) entities(kind string, cached int) Entities {
	c := s.counters[kind]
	return Entities{Cached: cached, Hits: c.Hits.Value(), Misses: c.Misses.Value(), Stale: c.Stale.Value(),
		Skipped: c.Skipped.Value(), Fetched: s.metrics.fetched[kind].Value(),
		Unknown: s.metrics.unknown[kind].Value()}
}
