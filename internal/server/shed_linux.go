package server

import (
	"sync/atomic"
	"time"

	"weir/internal/shed"
)

// A loop that has more to do than it can do in time reads no more requests in a turn than it can answer
// within the thresholds. The connections of all others wait, unread and in order of arrival, where they
// cost next to nothing. So turns stay short, and new connections are accepted and looked at in each.
//
// A rejection costs a recv and a send, nearly half of an answer. A loop that rejected all that it cannot
// answer would soon do nothing else, as clients that do not back off send the next request at once. So
// rejections get rejectShare of the loop's time. They go to what has waited too long, then to what came
// last: who is rejected learns it soon, and who is not is answered in turn. By Little's law n connections
// that insist wait for n / (answers and rejections a second) on average, whoever is chosen.
//
// Probabilities of signals other than the loop's own queue count for whatever is read. A connection whose
// request was rejected by one is not read for a while. Clients that heed Retry-After notice nothing.
type loopShed struct {
	*shed.Shedder // nil when nothing is ever rejected

	queue  shed.Queue
	reject shed.RejectProbability // of this turn
	own    shed.RejectProbability // what of it is due to this loop's queue
	draw   uint32                 // of the request at hand

	began  int64 // when the last turn began
	served int   // connections that were read in it
	left   int   // connections that may still be read in it

	waiting    deadlines // connections with something to read, by when that was seen
	late       deadlines // those of them that have waited too long
	waitingNow int
	rejecting  bool  // the connection at hand is read to have its requests rejected
	budget     int64 // nanoseconds that may be spent on rejections
	each       int64 // nanoseconds that one took lately

	paused deadlines

	answer          overloaded
	admitted, count [shed.Classes]uint64 // of requests: let in, all; since they were last published
	waited, seen    uint64               // the sums behind queued
	published       int64                // when they were last published

	shared struct { // with those who ask
		ready, waited, seen atomic.Uint64
	}
}

const (
	// rejectShare is the share of a busy loop's time in which it rejects.
	rejectShare = 0.08
	// publishEvery is how often what a loop has counted is published.
	publishEvery = int64(time.Millisecond)
)

// beginTurn begins a turn with so many events: it finds how many connections may be read in it, and the
// probabilities for their requests.
func (l *loop) beginTurn(ready int) {
	s := &l.shed
	if s.Shedder == nil {
		return
	}
	passed := l.now - s.began
	s.queue.Passed(s.served, time.Duration(passed))
	s.budget = min(s.budget+int64(rejectShare*float64(passed)), int64(time.Millisecond))
	limits, queued := s.QueueLimits(), ready+s.waitingNow
	s.left = s.queue.Capacity(limits)
	s.seen += uint64(ready)
	// A queue that has just been there for a moment is no overload, and its delay is not told.
	if s.own = s.queue.RejectProbability(queued, limits); s.own != 0 {
		s.waited += uint64(s.queue.Delay(queued).Microseconds()) * uint64(ready)
	}
	s.reject = s.RejectProbability()
	if s.budget > 0 {
		s.reject = s.reject.Max(s.own.OfLow())
	}
	s.began, s.served = l.now, 0
	if l.now-s.published >= publishEvery {
		s.shared.ready.Store(uint64(ready))
		l.publishStats()
	}
}

// rests is told before a loop waits for something to do.
func (l *loop) rests() {
	s := &l.shed
	if s.Shedder == nil {
		return
	}
	s.served, s.own, s.reject = 0, 0, s.RejectProbability()
	s.shared.ready.Store(0)
	l.publishStats()
}

// publishStats publishes what the loop has counted.
func (l *loop) publishStats() {
	s := &l.shed
	s.published = l.now
	for c := range shed.Classes {
		if s.count[c] > 0 {
			s.Count(l.stripe, c, s.admitted[c], s.count[c]-s.admitted[c])
			s.count[c], s.admitted[c] = 0, 0
		}
	}
	s.shared.waited.Store(s.waited)
	s.shared.seen.Store(s.seen)
}

// mayRead reports whether one more connection may be read in this turn, and counts it.
func (s *loopShed) mayRead() bool {
	if s.Shedder == nil {
		return true
	}
	if s.left <= 0 || s.waitingNow > 0 {
		return false
	}
	s.left--
	s.served++
	return true
}

// enqueue has c, which has something to read, wait for its turn.
func (l *loop) enqueue(c *conn) {
	c.phase = phaseWaiting
	l.shed.waiting.startAt(&c.timed, l.now)
	l.shed.waitingNow++
	l.s.paused.Add(1)
}

// dequeue makes c, which waits, one that is read.
func (l *loop) dequeue(c *conn) {
	l.shed.waitingNow--
	l.unpause(c)
}

// readWaiting reads as many of the connections that wait as the turn still allows, the first first, and has
// some of the others rejected.
func (l *loop) readWaiting() {
	s := &l.shed
	if s.waitingNow == 0 {
		return
	}
	for longest := int64(l.s.live.Load().Shed.Wait); s.left > 0 && s.waiting.head != nil; {
		c := s.waiting.head.owner
		if l.now-c.timed.at > longest {
			s.late.startAt(&c.timed, c.timed.at)
			continue
		}
		l.dequeue(c)
		s.left--
		s.served++
		if len(c.in) == 0 {
			l.addToBatch(c)
		} else {
			l.readable(c)
		}
	}
	l.answerBatch()
	l.rejectWaiting()
}

// rejectWaiting rejects requests of those that wait while there is time to spend on it: of the late ones,
// then of those that came last, as long as they would wait beyond the threshold.
func (l *loop) rejectWaiting() {
	s := &l.shed
	hard := int(s.queue.Place(s.QueueLimits().Hard))
	began := time.Since(l.epoch)
	s.rejecting = true
	for n := 1; s.budget > 0 || s.waiting.head == nil; n++ {
		next := s.late.head
		if next == nil && s.own != 0 && s.waitingNow > hard {
			next = s.waiting.tail
		}
		if next == nil {
			break
		}
		l.dequeue(next.owner)
		l.readable(next.owner)
		if n%8 == 0 {
			now := time.Since(l.epoch)
			s.budget -= int64(now - began)
			s.each += (int64(now-began)/8 - s.each) / 8
			s.began += int64(now - began) // it is no time that answers took
			began = now
		}
	}
	s.rejecting = false
}

// admits begins with a request and reports whether it is admitted.
func (s *loopShed) admits(c shed.Class) bool {
	if s.reject != 0 {
		s.draw = shed.Draw()
	}
	return !s.rejects(c)
}

// rejects reports whether the request at hand is rejected, also again when it turns out to be of another
// class.
func (s *loopShed) rejects(c shed.Class) bool {
	return s.reject.Rejects(c, s.draw) || s.rejecting && c != shed.Critical
}

// rejects implements lane.
func (l *loop) rejects(c shed.Class) bool { return l.sheds && l.shed.rejects(c) }

// counts counts the request at hand, whose fate is settled.
func (s *loopShed) counts(c shed.Class, refused bool) {
	s.count[c]++
	if !refused {
		s.admitted[c]++
	}
}

// reject appends the answer to a rejected request of c.
func (l *loop) reject(c *conn, route *route, class shed.Class, headOnly bool) {
	s := &l.shed
	reason, probability := s.Dominant(), s.RejectProbability()
	c.rejected = !s.rejecting && probability.Rejects(class, s.draw)
	if !c.rejected {
		reason, probability = shed.LoopDelay, s.own
		if !s.rejecting {
			s.budget -= s.each
		}
	}
	l.out = s.answer.append(l.out, &l.heads, reason, shed.RetryAfter(probability.Of(class)), headOnly,
		c.closing)
	l.s.counter(route, 503).Add(l.stripe, 1)
}

// pause stops reading a connection whose request was rejected, for a while. It returns false when it is not
// to be.
func (l *loop) pause(c *conn) bool {
	s := &l.shed
	c.rejected = false
	most := l.s.live.Load().Shed.Pause
	if most <= 0 || l.stopping {
		return false
	}
	c.phase = phasePaused
	s.paused.startAt(&c.timed, l.now+int64(shed.PauseFor(s.RejectProbability().Of(shed.Normal), most)))
	l.s.paused.Add(1)
	return true
}

// unpause ends the pause of a connection, which is not watched yet.
func (l *loop) unpause(c *conn) {
	c.phase = phaseReading
	l.s.paused.Add(-1)
	if len(c.in) > 0 {
		l.request.start(&c.timed, l.now)
	} else {
		l.rest(c)
	}
}

// resumePaused resumes the reads of connections whose pause is over.
func (l *loop) resumePaused() {
	for c := l.shed.paused.expired(l.now); c != nil; c = l.shed.paused.expired(l.now) {
		l.unpause(c)
		l.attend(c)
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

// queued returns the sum over a loop's requests of how long those that were ready together took, in
// microseconds, and how many there were.
func (f *fastLane) queued(loop int) (waited, ready uint64) {
	s := &f.loops[loop].shed.shared
	return s.waited.Load(), s.seen.Load()
}
