package bandit

import (
	"math"
	"strconv"
	"time"
)

// event is what a user made of an item. Its slices point into the body it was read from.
type event struct {
	user, segment []byte // nil when absent
	item          []byte
	id            []byte  // nil when absent
	reward        float64 // from 0 to 1
	at            int64   // Unix microseconds, 0 when absent
}

var eventMembers = []string{"user", "item", "reward", "ts", "id", "segment"}

// parseEvents appends the events of a body to dst: one object, an array of them, or several one after
// the other, as in lines of JSON.
func parseEvents(s *scanner, dst []event, most int) ([]event, error) {
	s.list = "events"
	if err := s.something("an event, an array of events, or lines of events"); err != nil {
		return dst, err
	}
	if s.Space() == '[' {
		s.I++
		more := s.First(']')
		for more {
			var err error
			if dst, err = s.event(dst, most); err != nil {
				return dst, err
			}
			if more, err = s.Next(']'); err != nil {
				return dst, err
			}
		}
		s.listed = -1
		return dst, s.End()
	}
	for {
		var err error
		if dst, err = s.event(dst, most); err != nil {
			return dst, err
		}
		if s.Space() == 0 && s.I == len(s.B) {
			return dst, nil
		}
	}
}

// event reads one event.
func (s *scanner) event(dst []event, most int) ([]event, error) {
	if len(dst) == most {
		return dst, &badRequest{422, "more than " + strconv.Itoa(most) +
			" events (--bandit-max-events): send them in several requests"}
	}
	s.listed, s.field = len(dst), ""
	var e event
	var seen uint
	err := s.object(func(key []byte) (err error) {
		if err := s.member(key, eventMembers, &seen); err != nil {
			return err
		}
		switch s.field {
		case "user":
			_, e.user, err = s.optionalID()
		case "item":
			_, e.item, err = s.id(idWanted)
		case "reward":
			const want = "a number from 0 to 1"
			if e.reward, err = s.float(want); err == nil && !(e.reward >= 0 && e.reward <= 1) {
				err = s.wrong(want)
			}
		case "ts":
			e.at, err = s.time()
		case "id":
			_, e.id, err = s.optionalID()
		case "segment":
			_, e.segment, err = s.optionalID()
		}
		return err
	})
	if err != nil {
		return dst, err
	}
	for i, want := range []string{1: idWanted, 2: "a number from 0 to 1"} { // what must be there
		if want != "" && seen&(1<<i) == 0 {
			s.field = eventMembers[i]
			return dst, s.wrong("there: " + want)
		}
	}
	return append(dst, e), nil
}

const timeWanted = "seconds since 1970 as a number, or a time as in 2026-01-31T12:00:00Z"

// time reads a time, or null.
func (s *scanner) time() (int64, error) {
	switch c := s.Space(); {
	case c == 'n':
		_, err := s.Null()
		return 0, err
	case c == '"':
		text, err := s.Text()
		if err != nil {
			return 0, err
		}
		at, err := time.Parse(time.RFC3339Nano, string(text))
		if err != nil || at.Year() < 1970 || at.Year() > 9999 {
			return 0, s.wrong(timeWanted)
		}
		return max(1, at.UnixMicro()), nil
	}
	seconds, err := s.float(timeWanted)
	if err != nil {
		return 0, err
	}
	const most = 253402300800 // the year 10000
	switch {
	case seconds >= most:
		return 0, s.wrong(timeWanted + "; it is seconds, not milliseconds")
	case !(seconds >= 0):
		return 0, s.wrong(timeWanted)
	}
	return max(1, int64(math.Round(seconds*1e6))), nil
}
