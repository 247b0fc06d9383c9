package server

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/shed"
)

// On a loop a rejection costs nearly what an answer does, recv and send, so a loop that answered every
// request beyond its ceiling with a 503 would soon do nothing else: with rejections at 0.9 of an answer,
// nothing at all is served at twice the ceiling. Therefore:
//
// Probabilities are a turn's own: see shed.Queue. A loop so admits in each turn what it can answer within
// the thresholds.
//
// What has waited for longer than the hard threshold is rejected when it is read, on whatever connection,
// so that what is admitted is answered soon. TCP_INFO says how long that is; it is asked only while
// requests are rejected.
//
// A connection whose request was rejected is not read for a while. Clients that heed Retry-After notice
// nothing. Connections of those that do not are resumed at a rate that costs a small share of the loop's
// time, so the more are paused the longer a pause is, and no longer than that. What was sent meanwhile is
// nearly always too old, and so likely as anything else to have its connection paused again. A loop that
// has nothing else to do resumes all whose time is over.
type loopShed struct {
	*shed.Shedder // nil when nothing is ever rejected

	queue  shed.Queue
	reject shed.RejectProbability // of this turn
	own    shed.RejectProbability // what of it is due to this loop's queue
	draw   uint32                 // of the request at hand

	began int64 // when the last turn began
	ready int   // how many events it had
	slept bool  // between that turn and this one

	late bool                                           // the request at hand has waited too long
	age  func(fd int, info *unix.TCPInfo) time.Duration // dataAge, unless a test has a clock of its own
	info unix.TCPInfo

	paused    deadlines
	resuming  bool // the connection at hand
	pausedNow int
	credit    float64 // connections that may be resumed
	resumed   int64   // when credit was last given

	answer          overloaded
	admitted, count [shed.Classes]uint64 // of requests: let in, all; since they were last published
	waited, seen    uint64               // the sums behind queued
	published       int64                // when they were last published

	shared struct { // with those who ask
		ready, waited, seen atomic.Uint64
	}
}

const (
	// resumeEvery is the time of a busy loop that earns the resumption of one connection: about 10 % of it
	// is spent on the rejection of what was sent meanwhile, and on the one that pauses the connection
	// again.
	resumeEvery = 96 * time.Microsecond
	// resumeAtOnce bounds the connections resumed in one turn.
	resumeAtOnce = 512
	// publishEvery is how often what a loop has counted is published.
	publishEvery = int64(time.Millisecond)
)

// beginTurn begins a turn with so many events: it finds the probabilities for the requests that will be
// read in it.
func (l *loop) beginTurn(ready int) {
	s := &l.shed
	if s.Shedder == nil {
		return
	}
	s.queue.Passed(s.ready, time.Duration(l.now-s.began))
	s.own = 0
	s.seen += uint64(ready)
	if ready >= shed.FreeQueue {
		s.own = s.queue.RejectProbability(ready, s.QueueLimits())
		if s.own != 0 { // else it is no overload yet, or has just been there for a moment
			s.waited += uint64(s.queue.Delay(ready).Microseconds()) * uint64(ready)
		}
	}
	s.reject = s.RejectProbability().Max(s.own)
	s.began, s.ready = l.now, ready
	if l.now-s.published >= publishEvery {
		l.publishStats()
	}
}

// rests is told before a loop waits for something to do.
func (l *loop) rests() {
	s := &l.shed
	if s.Shedder == nil {
		return
	}
	s.slept = true
	s.ready, s.own, s.reject = 0, 0, s.RejectProbability()
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
	s.shared.ready.Store(uint64(s.ready))
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
	return s.reject.Rejects(c, s.draw) || s.late && c != shed.Critical
}

// checkLate finds out whether what was just read of c has waited too long.
func (l *loop) checkLate(c *conn) {
	s := &l.shed
	if s.late = false; s.own == 0 && !s.resuming {
		return
	}
	limits := s.QueueLimits()
	s.late = limits.On && s.age(c.fd, &s.info).Seconds() > limits.Hard
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
	reason := s.Dominant()
	if reason == "" || s.own.Of(class) >= s.reject.Of(class) {
		reason = shed.LoopDelay
	}
	l.out = s.answer.append(l.out, &l.heads, reason, shed.RetryAfter(s.reject.Of(class)), headOnly, c.closing)
	l.s.counter(route, 503).Add(l.stripe, 1)
	// Resumed, nearly all that was sent meanwhile is too old. What comes next on the connection is to be
	// admitted as often as on others.
	c.rejected = !s.resuming || s.reject.Rejects(shed.Normal, shed.Draw())
}

// pause stops reading a connection whose request was rejected, for a while. It returns false when it is not
// to be.
func (l *loop) pause(c *conn) bool {
	s := &l.shed
	c.rejected = false
	most := l.s.cfg.Shed.Pause
	if most <= 0 || l.stopping {
		return false
	}
	c.phase = phasePaused
	l.watch(c, 0)
	// Of its own queue the loop takes care by the rate at which it resumes.
	s.paused.startAt(&c.timed, l.now+int64(shed.PauseFor(s.RejectProbability().Of(shed.Normal), most)))
	s.pausedNow++
	l.s.paused.Add(1)
	return true
}

// unpause ends the pause of a connection, which is not watched yet.
func (l *loop) unpause(c *conn) {
	c.phase = phaseReading
	l.shed.pausedNow--
	l.s.paused.Add(-1)
	if len(c.in) > 0 {
		l.request.start(&c.timed, l.now)
	} else {
		l.rest(c)
	}
}

// resumePaused resumes the reads of connections whose pause is over: of all when there is nothing else to
// do, of as many as may be afforded when there is; but of so many that no pause is much longer than the
// bound.
func (l *loop) resumePaused() {
	s := &l.shed
	if s.pausedNow > 0 {
		passed := time.Duration(l.now - s.resumed)
		s.credit += max(float64(passed)/float64(resumeEvery), float64(passed)/float64(l.s.cfg.Shed.Pause)*float64(s.pausedNow))
	}
	s.resumed, s.credit = l.now, min(s.credit, resumeAtOnce)
	for range resumeAtOnce {
		if !s.slept && s.credit < 1 {
			return
		}
		c := s.paused.expired(l.now)
		if c == nil {
			return
		}
		s.credit = max(s.credit-1, 0)
		l.unpause(c)
		s.resuming = true
		l.readable(c)
		s.resuming = false
		// Only now, as it may be paused again.
		switch c.phase {
		case phaseReading, phaseOffloaded, phasePending, phaseHandedOff:
			if c.fd >= 0 {
				l.watch(c, unix.EPOLLIN)
			}
		}
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
