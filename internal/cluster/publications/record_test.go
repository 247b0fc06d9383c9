package publications

import (
	"testing"
	"time"
)

func TestNumbersOnlyEverGrow(t *testing.T) {
	const imported = 1 // the version under which positions of a box are imported
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	var r Record
	last := uint64(imported)
	for _, clock := range []time.Time{time.Unix(0, 0), time.Unix(-5, 0), now, now, now.Add(-time.Hour),
		now.Add(time.Hour)} {
		number := r.Next(clock)
		if number <= last {
			t.Errorf("at %v: %x after %x", clock, number, last)
		}
		last = number
		r.Preparing = &Publication{Number: number}
		if len(r.History)%2 == 0 {
			r.Serve()
		} else {
			r.Withdraw()
		}
	}
	if want := uint64(now.Add(time.Hour).UnixMilli()) << 20; last != want {
		t.Errorf("%x, want what the clock says, %x", last, want)
	}
}
