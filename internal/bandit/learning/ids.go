package learning

import (
	"net/netip"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/bandit/arms"
)

// eventIDs remembers ids of events for at least a day and at most two, by when they came. It is for one
// goroutine at a time.
type eventIDs struct {
	today, yesterday map[arms.Key]struct{}
	began            int64 // of today, Unix microseconds
	limit            int

	perClient int               // of limit
	clients   [2]map[uint64]int // by who
}

const day = int64(24 * time.Hour / time.Microsecond)

func newEventIDs(limit, perClient int) eventIDs {
	s := eventIDs{limit: limit, perClient: perClient}
	s.reset(0)
	return s
}

// reset forgets all.
func (s *eventIDs) reset(now int64) {
	s.today, s.yesterday, s.began = make(map[arms.Key]struct{}), make(map[arms.Key]struct{}), now
	s.clients = [2]map[uint64]int{{}, {}}
}

// turn forgets what is old enough at now. A day that begins later than now is one of a clock that was ahead.
func (s *eventIDs) turn(now int64) {
	switch age := now - s.began; {
	case s.began == 0 || age >= 2*day:
		s.reset(now)
	case age >= day:
		s.today, s.yesterday, s.began = make(map[arms.Key]struct{}), s.today, s.began+day
		s.clients[0], s.clients[1] = make(map[uint64]int), s.clients[0]
	case age < 0:
		s.began = now
	}
}

func (s *eventIDs) len() int { return len(s.today) + len(s.yesterday) }

func (s *eventIDs) has(id arms.Key) bool {
	if _, ok := s.today[id]; ok {
		return true
	}
	_, ok := s.yesterday[id]
	return ok
}

// room returns nil if a client may add one.
func (s *eventIDs) room(client uint64) error {
	switch {
	case s.len() >= s.limit:
		return ErrIDs
	case client != 0 && s.clients[0][client]+s.clients[1][client] >= s.perClient:
		return ErrClientID
	}
	return nil
}

// who is what a client is known by, 0 for nobody: a hash of its network, since one that has an address of
// IPv6 has 2^64 of them.
func who(a netip.Addr) uint64 {
	if !a.IsValid() {
		return 0
	}
	b := a.Unmap().AsSlice()
	return xxh3.Hash(b[:min(8, len(b))])
}

func (s *eventIDs) add(id arms.Key, client uint64) {
	s.today[id] = struct{}{}
	if client != 0 {
		s.clients[0][client]++
	}
}

func (s *eventIDs) remove(id arms.Key, client uint64) {
	delete(s.today, id)
	if client != 0 {
		s.clients[0][client]--
	}
}
