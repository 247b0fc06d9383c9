package shed

import (
	"math"
	"testing"
	"time"
)

// usual returns a queue whose requests take 10 us each.
func usual() *Queue {
	q := new(Queue)
	for range 100 {
		q.Passed(1000, 10*time.Millisecond)
	}
	return q
}

func wantDelay(t *testing.T, what string, q *Queue, want time.Duration) {
	t.Helper()
	if got := q.Delay(1000); math.Abs(float64(got-want)) > float64(want)/100 {
		t.Errorf("%s: 1000 requests are expected to take %v, want %v", what, got, want)
	}
}

// A turn that took much longer than usual was interrupted, which says little about the next one.
func TestAnInterruptedTurnCountsAsOneOfFourTimesTheUsual(t *testing.T) {
	q := usual()
	wantDelay(t, "as usual", q, 10*time.Millisecond)
	q.Passed(1000, time.Second)
	wantDelay(t, "after a second", q, 13750*time.Microsecond)
	q = usual()
	q.Passed(1000, 20*time.Millisecond)
	wantDelay(t, "after twice the usual", q, 11250*time.Microsecond)
	q = new(Queue)
	q.Passed(1000, time.Second)
	wantDelay(t, "the first turn", q, time.Second)
}

// What one of few requests takes is mostly what a turn takes.
func TestATurnWithFewRequestsDoesNotSayWhatOneTakes(t *testing.T) {
	q := usual()
	for range 1000 {
		q.Passed(fewReady-1, 20*time.Millisecond)
		q.Passed(0, time.Millisecond)
	}
	wantDelay(t, "after turns with few", q, 10*time.Millisecond)
	for range 1000 {
		q.Passed(fewReady, fewReady*20*time.Microsecond)
	}
	wantDelay(t, "after turns with enough", q, 20*time.Millisecond)
}
