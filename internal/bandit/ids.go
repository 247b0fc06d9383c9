package bandit

import (
	"time"

	"weir/internal/bandit/arms"
)

// eventIDs remembers ids of events for at least a day and at most two. It is for one goroutine at a time.
type eventIDs struct {
	today, yesterday map[arms.Key]struct{}
	began            int64 // of today, Unix microseconds
	limit            int
}

const day = int64(24 * time.Hour / time.Microsecond)

func newEventIDs(limit int) eventIDs {
	return eventIDs{today: make(map[arms.Key]struct{}), yesterday: make(map[arms.Key]struct{}), limit: limit}
}

// turn forgets what is old enough at now.
func (s *eventIDs) turn(now int64) {
	switch age := now - s.began; {
	case s.began == 0 || age >= 2*day:
		s.today, s.yesterday, s.began = make(map[arms.Key]struct{}), make(map[arms.Key]struct{}), now
	case age >= day:
		s.today, s.yesterday, s.began = make(map[arms.Key]struct{}), s.today, s.began+day
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

func (s *eventIDs) add(id arms.Key)    { s.today[id] = struct{}{} }
func (s *eventIDs) remove(id arms.Key) { delete(s.today, id) }
