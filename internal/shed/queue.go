package shed

import "time"

// FreeQueue is how many requests may wait for an event loop without any of them being refused, however long each
// takes. So a few hundred connections that are always busy, or a burst from idle, are never overload.
const FreeQueue = 256

// QueueOdds returns the odds for the requests that wait for an event loop: ready of them, each of which takes it
// about each.
//
// Served one after the other, the request at place i is answered after i times each, and would be refused by the pressure of
// that delay. In this way a queue is never longer, after one pass, than the hard threshold, and the loop never runs dry,
// however far the load is beyond what it can do: no probability has to be found first. But places are unequal:
// who was answered in the last pass stands in front again. So the share that would be refused is what everybody's
// probability is.
func QueueOdds(ready int, each time.Duration, l Limits) Odds {
	if !l.On || ready < FreeQueue || each <= 0 {
		return 0
	}
	place := func(delay float64) float64 { return max(delay/each.Seconds(), FreeQueue) }
	soft, middle, hard := place(l.Soft), place((l.Soft+l.Hard)/2), place(l.Hard)
	return odds(shareBeyond(float64(ready), middle, hard), shareBeyond(float64(ready), soft, middle))
}

// shareBeyond returns the mean, over n places, of a probability that is 0 up to place from, 1 from place to on, and
// linear between.
func shareBeyond(n, from, to float64) float64 {
	switch {
	case n <= from:
		return 0
	case n <= to:
		return (n - from) * (n - from) / (2 * (to - from)) / n
	}
	return (n - (from+to)/2) / n
}
