//go:build linux

package main

import "time"

// pacer decides when requests are served. Time counts from anywhere.
type pacer struct {
	kind    string
	burst   time.Duration // how far in the past a moment may be that is still used
	longest time.Duration // wait, of the kind both

	interval time.Duration // between two answers, and
	rest     float64       // what of a nanosecond is missing in it
	owed     float64
	next     time.Duration // when the next one may be served
}

// set changes the rate from the next answer on.
func (p *pacer) set(rate float64) {
	exact := float64(time.Second) / rate
	p.interval = time.Duration(exact)
	p.rest = exact - float64(p.interval)
}

// due reports whether a request may be served now, which takes the moment; if not, when the next one may.
func (p *pacer) due(now time.Duration) (bool, time.Duration) {
	at := max(p.next, now-p.burst)
	if at > now {
		return false, at
	}
	p.owed += p.rest
	whole := time.Duration(p.owed)
	p.owed -= float64(whole)
	p.next = at + p.interval + whole
	return true, at
}

// accepts reports whether a request that cannot be served now may wait behind others.
func (p *pacer) accepts(waiting int) bool {
	switch p.kind {
	case kindQueue:
		return true
	case kindBoth:
		return time.Duration(waiting)*p.interval < p.longest
	}
	return false
}
