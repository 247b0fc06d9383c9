package shed

import (
	"math"
	"time"
)

const (
	// FreeQueue is how many requests may wait for an event loop without any of them being rejected, however
	// long each takes. So a few hundred connections that are always busy, or a burst from idle, are never
	// overload.
	FreeQueue = 256
	// settling is how long, about, a queue must be there to be taken for one. A machine that stops for 50
	// ms leaves a queue that is gone 50 ms later.
	settling = 200 * time.Millisecond
	// fewReady is how many requests must have been ready at once to tell what one takes.
	fewReady = 32
)

// Queue is the queue in front of an event loop, as the loop sees it: in each of its turns it is told what
// is ready. It is the loop's own; the zero value has seen nothing yet.
type Queue struct {
	each float64 // seconds that one request takes
	long float64 // the share of the recent time in which the queue was long
}

// Passed says that ready requests have taken the loop so long; nothing to do counts as none.
func (q *Queue) Passed(ready int, took time.Duration) {
	if ready >= fewReady {
		// What took much longer than usual was interrupted, by another process or another machine. That
		// says little about the next requests.
		each := took.Seconds() / float64(ready)
		if q.each > 0 {
			each = q.each + (min(each, 4*q.each)-q.each)/8
		}
		q.each = each
	}
	weight := float64(took) / float64(took+settling)
	if q.long -= weight * q.long; ready >= FreeQueue/2 {
		q.long += weight
	}
}

// Delay returns how long ready requests will take the loop.
func (q *Queue) Delay(ready int) time.Duration {
	return time.Duration(float64(ready) * q.each * float64(time.Second))
}

// RejectProbability returns the probability for ready requests that wait for the loop.
//
// Served one after the other, the request at place i is answered after i times what each takes, and would
// be rejected by the pressure of that delay. So a queue is never longer, after one pass, than the hard
// threshold, and the loop never runs dry, however far the load is beyond what it can do: no probability has
// to be found first. But places are unequal: who was answered in the last pass stands in front again. So
// the share that would be rejected is everybody's probability. It counts as far as the queue has been long
// lately.
func (q *Queue) RejectProbability(ready int, l Limits) RejectProbability {
	lasting := 2*q.long - 1
	if ready < FreeQueue || lasting <= 0 || q.each <= 0 || !l.On {
		return 0
	}
	soft, middle, hard := q.Place(l.Soft), q.Place((l.Soft+l.Hard)/2), q.Place(l.Hard)
	n := float64(ready)
	return probability(lasting*shareBeyond(n, middle, hard), lasting*shareBeyond(n, soft, middle))
}

// Place returns how many requests the loop answers within so many seconds, FreeQueue at least.
func (q *Queue) Place(seconds float64) float64 {
	if q.each <= 0 {
		return math.MaxInt32
	}
	return max(seconds/q.each, FreeQueue)
}

// Capacity returns how many requests may be read in one turn so that it ends within the thresholds.
func (q *Queue) Capacity(l Limits) int {
	if !l.On {
		return math.MaxInt32
	}
	return int(q.Place((l.Soft + l.Hard) / 2))
}

// shareBeyond returns the mean, over n places, of a probability that is 0 up to place from, 1 from place to
// on, and linear between.
func shareBeyond(n, from, to float64) float64 {
	switch {
	case n <= from:
		return 0
	case n <= to:
		return (n - from) * (n - from) / (2 * (to - from)) / n
	}
	return (n - (from+to)/2) / n
}
