package server

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/shed"
)

// On the fast lane a refusal costs nearly what an answer does, recv and send, so a loop that answered
// every request beyond its ceiling with a 503 would soon do nothing else: with refusals at 0.9 of an answer, nothing at
// all is served at twice the ceiling. Therefore three things.
//
// Odds are a turn's own: see shed.Queue. A loop so admits in each turn what it can answer within the thresholds.
//
// A connection whose request was refused is deaf for a while: it is not read, by one system call more and one
// less of each other kind. Clients that heed Retry-After notice nothing. Of those that do not, the loop hears as many
// again as cost it a small share of its time; and what was said to a deaf ear is refused too. It has waited for long, and to
// answer it now would keep others waiting: of what is admitted, one in a hundred would have taken seconds.
//
// A loop that has nothing else to do hears all whose time is over at once.
type loopShed struct {
	*shed.Shedder // nil when nothing is ever refused

	queue shed.Queue
	odds  shed.Odds // of this turn
	own   shed.Odds // what of it is due to this loop's queue
	draw  uint32    // of the request at hand

	began int64 // when the last turn began
	ready int   // how many events it had
	slept bool  // between that turn and this one

	deaf    deadlines
	hearing bool // what is read now was said to a deaf ear
	deafNow int
	credit  float64 // connections that may be heard
	heard   int64   // when credit was last given for the passing of time

	answer          overloaded
	admitted, count [shed.Classes]uint64 // of requests: let in, all; since they were last made known
	waited, seen    uint64               // the sums behind queued
	known           int64                // when they were last made known

	shared struct { // with those who ask
		ready, waited, seen atomic.Uint64
		odds                atomic.Uint64
	}
}

const (
	// hearOneIn is how many answers earn one deaf connection its hearing, while the loop is busy. Each costs two refusals,
	// the one of what was said meanwhile and the one that will make it deaf again: 3 % of the loop's time.
	hearOneIn = 64
	// hearAtOnce bounds the deaf connections heard in one turn.
	hearAtOnce = 64
	// makeKnown is how often what a loop has counted is told to others.
	makeKnown = int64(time.Millisecond)
)

// weigh begins a turn with so many events: it finds the odds of the requests that will be read in it.
func (l *loop) weigh(ready int) {
	s := &l.shed
	if s.Shedder == nil {
		return
	}
	s.queue.Passed(s.ready, time.Duration(l.now-s.began))
	s.own = 0
	s.seen += uint64(ready)
	if ready >= shed.FreeQueue {
		s.own = s.queue.Odds(ready, s.QueueLimits())
		if s.own != 0 { // else it is no overload yet, or has just been there for a moment
			s.waited += uint64(s.queue.Delay(ready).Microseconds()) * uint64(ready)
		}
	}
	s.odds = s.Odds().Max(s.own)
	s.began, s.ready = l.now, ready
	if l.now-s.known >= makeKnown {
		l.makeKnown()
	}
}

// rests is told before a loop waits for something to do.
func (l *loop) rests() {
	s := &l.shed
	if s.Shedder == nil {
		return
	}
	s.slept = true
	s.ready, s.own, s.odds = 0, 0, s.Odds()
	l.makeKnown()
}

// makeKnown tells others what the loop has counted.
func (l *loop) makeKnown() {
	s := &l.shed
	s.known = l.now
	for c := range shed.Classes {
		if s.count[c] > 0 {
			s.Count(l.stripe, c, s.admitted[c], s.count[c]-s.admitted[c])
			s.count[c], s.admitted[c] = 0, 0
		}
	}
	s.shared.waited.Store(s.waited)
	s.shared.seen.Store(s.seen)
	s.shared.ready.Store(uint64(s.ready))
	s.shared.odds.Store(uint64(s.odds))
}

// judges begins with a request: it says whether it is refused.
func (s *loopShed) judges(c shed.Class) (refused bool) {
	if s.odds != 0 {
		s.draw = shed.Draw()
	}
	return s.refuses(c)
}

// refuses judges the request at hand, also again when it turns out to be of another class.
func (s *loopShed) refuses(c shed.Class) bool {
	return s.odds.Refuses(c, s.draw) || s.hearing && c != shed.Critical
}

// rejects implements lane.
func (l *loop) rejects(c shed.Class) bool { return l.judged && l.shed.refuses(c) }

// counts counts the request at hand, whose fate is settled.
func (s *loopShed) counts(c shed.Class, refused bool) {
	s.count[c]++
	if !refused {
		s.admitted[c]++
	}
}

// turnDown appends the answer to a refused request of c.
func (l *loop) turnDown(c *conn, route *route, class shed.Class, headOnly bool) {
	s := &l.shed
	reason := s.Dominant()
	if reason == "" || s.own.Probability(class) >= s.odds.Probability(class) {
		reason = shed.LoopDelay
	}
	l.out = s.answer.append(l.out, &l.heads, reason, shed.RetryAfter(s.odds.Probability(class)), headOnly, c.closing)
	l.s.counter(route, 503).Add(l.stripe, 1)
	c.refused = !s.hearing
}

// deafen stops reading a connection whose request was refused, for a while. It returns false when it is not to be.
func (l *loop) deafen(c *conn) bool {
	s := &l.shed
	c.refused = false
	most := l.s.cfg.Shed.Deaf
	if most <= 0 || l.stopping {
		return false
	}
	c.phase = phaseDeaf
	l.watch(c, 0)
	s.deaf.startAt(&c.timed, l.now+int64(shed.DeafFor(s.odds.Probability(shed.Normal), most)))
	s.deafNow++
	l.s.deaf.Add(1)
	return true
}

// hear ends the deafness of a connection and takes what was said to it.
func (l *loop) hear(c *conn) {
	l.undeafen(c)
	l.shed.hearing = true
	l.readable(c)
	l.shed.hearing = false
}

// undeafen makes c a connection that is read.
func (l *loop) undeafen(c *conn) {
	c.phase = phaseReading
	l.shed.deafNow--
	l.s.deaf.Add(-1)
	l.watch(c, unix.EPOLLIN)
	if len(c.in) > 0 {
		l.request.start(&c.timed, l.now)
	} else {
		l.rest(c)
	}
}

// hearDeaf hears those whose time is over: all of them when there is nothing else to do, as many as may be afforded when
// there is; but so many that nobody waits for much longer than the bound.
func (l *loop) hearDeaf() {
	s := &l.shed
	earned := float64(s.ready) / hearOneIn
	if s.deafNow > 0 {
		earned = max(earned, float64(l.now-s.heard)/float64(l.s.cfg.Shed.Deaf)*float64(s.deafNow))
	}
	s.heard = l.now
	s.credit = min(s.credit+earned, hearAtOnce)
	for range hearAtOnce {
		free := s.slept || s.deaf.head != nil && l.now-s.deaf.head.at > int64(l.s.cfg.Shed.Deaf)
		if !free && s.credit < 1 {
			return
		}
		c := s.deaf.expired(l.now)
		if c == nil {
			return
		}
		if !free {
			s.credit--
		}
		l.hear(c)
	}
}

// ready returns how many requests were ready for the loops at once when they last told.
func (f *fastLane) ready() int64 {
	n := int64(0)
	for _, l := range f.loops {
		n += int64(l.shed.shared.ready.Load())
	}
	return n
}

// queued returns the sum over a loop's requests of how long those that were ready together took, in microseconds,
// and how many there were.
func (f *fastLane) queued(loop int) (waited, ready uint64) {
	s := &f.loops[loop].shed.shared
	return s.waited.Load(), s.seen.Load()
}

// odds returns the largest odds of any loop.
func (f *fastLane) odds() shed.Odds {
	var o shed.Odds
	for _, l := range f.loops {
		o = o.Max(shed.Odds(l.shed.shared.odds.Load()))
	}
	return o
}

// New connections cost more than requests. While requests are refused they are accepted at a rate: the others wait in the
// listener's queue, and when that is full clients are told nothing, which makes them try again later and later.
const (
	acceptAtOnce = 64
	acceptPause  = 20 * time.Millisecond // for so many, when a quarter of all normal requests is refused, or more
)

// pace is how many connections were accepted since when.
type pace struct {
	n     int
	since time.Time
}

// pause returns how long to accept no more connections after one was.
func (f *fastLane) pause(p *pace) time.Duration {
	if f.s.shed == nil {
		return 0
	}
	if p.n++; p.n < acceptAtOnce {
		return 0
	}
	now := time.Now()
	passed := now.Sub(p.since)
	*p = pace{0, now}
	refused := f.odds().Probability(shed.Normal)
	wait := time.Duration(float64(acceptPause) * min(4*refused, 1) * (0.75 + rand.Float64()/2))
	return max(wait-passed, 0)
}
