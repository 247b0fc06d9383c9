package mock

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// epoch is step 0, the same in every run: else a restart would change all feeds.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// lastSecond bounds dates, in seconds after the epoch: RFC 3339 ends with the year 9999.
const lastSecond = 250_000_000_000

// clock counts steps. It is safe for concurrent use.
type clock struct {
	now     func() time.Time
	length  time.Duration // of a step
	stepped bool
	at      atomic.Int64 // of a stepped clock
}

func newClock(now func() time.Time, length time.Duration, stepped bool) *clock {
	return &clock{now: now, length: length, stepped: stepped}
}

// step returns the step that it is, at least 0.
func (c *clock) step() int64 {
	if c.stepped {
		return c.at.Load()
	}
	return max(0, int64(c.now().Sub(epoch)/c.length))
}

// most is the largest step that a date can be given for.
func (c *clock) most() int64 { return int64(lastSecond / c.length.Seconds()) }

var errRealClock = errors.New("the clock is real and cannot be moved; start with --clock stepped")

// set moves a stepped clock to a step, back as well.
func (c *clock) set(to int64) error {
	if !c.stepped {
		return errRealClock
	}
	if to < 0 || to > c.most() {
		return fmt.Errorf("step must be a whole number from 0 to %d, got %d", c.most(), to)
	}
	c.at.Store(to)
	return nil
}

// advance moves a stepped clock on.
func (c *clock) advance(by int64) error {
	if !c.stepped {
		return errRealClock
	}
	for {
		at := c.at.Load()
		if by < 0 || by > c.most()-at {
			return fmt.Errorf("advance must be a whole number from 0 to %d, got %d", c.most()-at, by)
		}
		if c.at.CompareAndSwap(at, at+by) {
			return nil
		}
	}
}

// row is a feed's endless row of items: how many have come by a step, and when each did. Items up to 0 are
// older than the epoch.
type row struct {
	seed  uint64
	churn float64 // items a step
	step  float64 // seconds
}

// phase moves the moments at which feeds get items apart, so that not all of them change at once. It is
// below 1.
func (r row) phase() float64 { return float64(mix(r.seed^0x7068617365)>>11) / (1 << 53) }

// newest returns the number of the last item that has come by a step.
func (r row) newest(step int64) int64 {
	if r.churn == 0 {
		return 0
	}
	return int64(math.Floor(float64(step)*r.churn + r.phase()))
}

// came returns when an item came, to the second; it grows with the number.
func (r row) came(item int64) time.Time {
	if item > 0 && r.churn > 0 {
		// A time.Duration would overflow after 292 years.
		return time.Unix(epoch.Unix()+int64((float64(item)-r.phase())/r.churn*r.step), 0).UTC()
	}
	// One an hour, not on the hour.
	return epoch.Add(time.Duration(item) * time.Hour).Add(
		-time.Duration(mix(r.seed^uint64(item))%3000) * time.Second)
}
