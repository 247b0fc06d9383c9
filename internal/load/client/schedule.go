package client

import (
	"math"
	"math/rand/v2"
	"time"
)

// never is a time that does not come, in nanoseconds since the engine's start.
const never = math.MaxInt64

// change is a rate from a moment on. By that moment the engine's schedule had come to count, a real number
// of requests that grows by rate a second: a change of the rate keeps what was there of the next request.
type change struct {
	at    int64 // nanoseconds since the engine's start
	count float64
	rate  float64 // requests a second
}

// then returns the change to another rate at a moment after c.
func (c change) then(at int64, rate float64) change {
	return change{at, c.count + c.rate*float64(at-c.at)/float64(time.Second), rate}
}

// schedule says when one of an engine's threads is to send. With even spacing thread i of n sends when the
// count passes i, i+n, i+2n and so on, so that all threads together are as even as one would be. At random,
// each thread's counts are a Poisson process of its own, of which the sum is one again. Threads of the other
// parts are counted among the n, so that the schedules of several machines interleave, too.
type schedule struct {
	change
	at      int64   // of the next request, or never
	next    float64 // the count of the next request
	threads float64
	random  *rand.Rand // nil for even spacing
	waiting []change   // changes whose time has come, or nearly, oldest first
	end     int64      // nothing is due from then on
}

func newSchedule(o *Options, thread, threads int) *schedule {
	parts := max(o.Parts, 1)
	thread, threads = o.Part+parts*thread, parts*threads
	s := &schedule{at: never, next: float64(thread), threads: float64(threads), end: never}
	if o.Arrivals == Poisson {
		s.random = rand.New(rand.NewPCG(o.Seed, uint64(thread)))
		s.next = s.threads * s.random.ExpFloat64()
	}
	return s
}

// set adds a change, which comes after those before it. What was due before it is still to be sent when it
// was due.
func (s *schedule) set(c change) {
	s.waiting = append(s.waiting, c)
	s.settle()
}

// advance goes on from the request that was due at s.at to the one after it.
func (s *schedule) advance() {
	if s.random != nil {
		s.next += s.threads * s.random.ExpFloat64()
	} else {
		s.next += s.threads
	}
	s.at = s.when()
	s.settle()
}

// until lets nothing be due at the end of the load or later.
func (s *schedule) until(end int64) {
	s.end = end
	if s.at >= end {
		s.at = never
	}
}

// justDue is how late a request may be that a load which ends before its time does without.
const justDue = int64(100 * time.Millisecond)

// missed goes past the requests that it is too late to send now that the load ends, and returns how many
// those are.
func (s *schedule) missed(now int64) (n uint64) {
	before := now - justDue
	if now >= s.end {
		before = s.end
	}
	for ; s.at < before; s.advance() {
		n++
	}
	return n
}

// settle lets changes happen that come before the next request.
func (s *schedule) settle() {
	n := 0
	for n < len(s.waiting) && s.waiting[n].at <= s.at {
		s.change = s.waiting[n]
		s.at = s.when()
		n++
	}
	s.waiting = s.waiting[:copy(s.waiting, s.waiting[n:])]
}

func (s *schedule) when() int64 {
	if s.rate == 0 {
		return never
	}
	after := math.Ceil((s.next - s.count) / s.rate * float64(time.Second))
	if after >= float64(s.end-s.change.at) {
		return never
	}
	return s.change.at + max(int64(after), 0)
}
