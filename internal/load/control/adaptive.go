package control

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"weir/internal/load/measure"
)

// AdaptiveOptions say how the most that a target sustains is searched for.
type AdaptiveOptions struct {
	// Start is the first load, in requests a second; 50 by default.
	Start float64
	// Healthy are the conditions of a sustained load. For what they do not speak of, the defaults hold: at
	// least 99 % without errors, at most 1 % shed, 97 % of the intended requests sent, a p99 at most 25 ms
	// above that of a low load (or twice that, if that is more), and a queue that does not grow.
	Healthy []Condition
	// Warmup is spent at Start before anything is judged.
	Warmup time.Duration
	// Random says that requests come at random times: they queue long before as many come as could be
	// served, and it takes many of them to know how often.
	Random bool
	// Preset says how close the search looks; default Normal.
	Preset Preset
	// Duration is how long the run is, warm-up included. UntilFound ends it as soon as the ceiling is found.
	Duration   time.Duration
	UntilFound bool
	StopWhen   []Condition
}

const defaultStart = 50.0

// climbStep is the factor between loads while the target sustains them. climbAgain are the first ones once
// a load is sustained that overloaded it before: a ceiling that has risen has mostly risen a little.
const climbStep = 2.0

var climbAgain = []float64{1.08, 1.4, climbStep}

// A target that has not recovered from overload after lowerAfter gets half of the load, and after coolFor
// that load counts as an overload as well.
const (
	lowerAfter = 4 * time.Second
	coolFor    = 20 * time.Second
)

const (
	// A target rests at restShare of what overloaded it and of its goodput, and at restBelow of what it
	// sustained: low enough that a queue of seconds drains in as many.
	restShare = 0.5
	restBelow = 0.7
	// A queue is stuck while it is longer than stuckShare of what it was when the rest began, stuckSlack
	// requests aside.
	stuckShare = 0.9
	stuckSlack = 2
	// momentary is by how much a load that was sustained for a climb's step alone may exceed the ceiling
	// where requests queue at random.
	momentary = 1.5
)

// foundQuorum is how many bad blocks in a row it takes to doubt a load that was sustained before;
// defaultQuorum else.
const foundQuorum = 5

// holdTime is how long the ceiling's floor is held between two checks.
const holdTime = 2 * time.Second

// wideRange is the ratio of the bounds from which on, judged by all its requests, a rough look at a load
// between them will do.
const wideRange = 1.25

var roughly = sampling{time.Second, 300, 20 * time.Second}

// A p99 of 12 s varies by a tenth where requests queue at random. So a load that is to keep a limit for good
// is confirmed only with a latency of confirmMargin of the limit or less, and one that was confirmed is given
// up only for a latency of holdMargin of it in one hold, or beyond it in all holds together.
const (
	confirmMargin = 0.9
	holdMargin    = 1.2
)

// The load that is confirmed after another one was not is lower by stepSlope times what latency was beyond
// confirmMargin, at most mostStep: the latency of a queue at nine tenths of its capacity grows by a twelfth
// with each hundredth of load.
const (
	stepSlope = 0.08
	mostStep  = 0.06
)

// limitMax is the limit of a search that reached the highest rate it may try.
const limitMax = "max"

// Adaptive returns a Searcher. The package comment describes the search.
func Adaptive(o AdaptiveOptions) Searcher {
	if o.Start <= 0 {
		o.Start = defaultStart
	}
	o.Start = min(o.Start, MaxRate)
	a := &adaptive{o: o, health: newHealth(o.Healthy), watch: NewWatch(o.StopWhen),
		state: warming, rate: o.Start}
	a.character = character{cmp.Or(o.Preset, Normal), o.Random, !a.health.relative}
	return a
}

// state is what a search does now.
type state int

const (
	warming    state = iota
	climbing         // up from a sustained load
	cooling          // at a low load, until the target has recovered
	narrowing        // between a load that is sustained and one that is not
	confirming       // a load, for long
	holding          // at or just below the ceiling
	checking         // beside the ceiling, above or below
)

var phases = [...]string{
	warming: "warmup", climbing: "climb", cooling: "cool", narrowing: "bisect", confirming: "confirm",
	holding: "track", checking: "track",
}

type adaptive struct {
	o         AdaptiveOptions
	health    *health
	watch     *Watch
	clock     clock
	liveness  liveness
	lastAlive known // of the ceiling, when the target last answered

	state    state
	rate     float64
	judge    *judge
	inFlight int

	evidence
	climbed int           // steps since the climb began again; -1 on the first climb
	retried float64       // a load that was perhaps an overload and is tried a second time
	checks  int           // so far, which alternate between above and below
	cool    cooldown      // while cooling
	foundAt time.Duration // when the ceiling was first known; 0 is not yet
	ceiling Ceiling       // as it was when the search last settled
	held    *judge        // of a strict search: all that was held at the ceiling
	settled bool          // nothing has contradicted the ceiling since

	requested float64 // by a person
	healthy   bool    // some load was sustained
	refused   string  // the signal that was violated last
	failure   string  // why there is nothing left to try
}

// known is what is known of the ceiling at some time, if anything is, and why.
type known struct {
	ceiling  Ceiling
	ok       bool
	evidence evidence
	settled  bool
}

// cooldown is the way back from overload, and where the search goes on.
type cooldown struct {
	after   state
	next    float64       // the load then; 0 to pick one
	good    int           // blocks in a row
	began   time.Duration // when cooling did
	lowered time.Duration // when its load was
	waiting int           // requests that were in flight then
}

// cooledBlocks is how many good blocks in a row say that the target has recovered.
const cooledBlocks = 3

func (a *adaptive) Begin() Decision {
	a.climbed = -1
	if a.o.Warmup <= 0 {
		a.start(climbing, a.o.Start)
	}
	return a.decision()
}

func (a *adaptive) decision() Decision {
	d := Decision{Rate: a.rate, Phase: phases[a.state], Measured: a.state != warming}
	if !a.healthy {
		d.Refused = a.refused
	}
	return d
}

// Next judges a window and says how the search goes on.
func (a *adaptive) Next(w *measure.Window) Decision {
	warm := a.state == warming
	a.clock.see(w)
	away := a.silent()
	answered := a.liveness.see(w)
	if away && answered && a.foundAt > 0 {
		// That it was away says nothing of how much it sustains.
		a.evidence, a.settled = a.lastAlive.evidence, a.lastAlive.settled
		a.rest(holding, a.floor())
	}
	a.advance(w)
	a.inFlight = w.InFlight
	if answered {
		c, ok := a.Ceiling()
		a.lastAlive = known{c, ok, a.evidence, a.settled}
	}
	d := a.decision()
	switch {
	case a.liveness.gone() || a.failure != "" && a.silent():
		d.Done, d.Failed = true, true
		d.Reason = fmt.Sprintf("the target is gone: it has answered nothing since %.1f s",
			a.liveness.Last.Seconds())
	case a.failure != "":
		d.Done, d.Reason = true, a.failure
	default:
		d.Done = a.clock.lasts >= a.o.Duration || a.o.UntilFound && a.settled
	}
	if !warm && !d.Done {
		if held, v := a.watch.Next(w); held != nil {
			return d.stop(held, v)
		}
	}
	return d
}

// advance gives a window to what the search does now.
func (a *adaptive) advance(w *measure.Window) {
	switch {
	case a.requested > 0:
		rate := a.requested
		a.evidence = evidence{character: a.character}
		a.requested, a.foundAt, a.settled, a.climbed = 0, 0, false, 0
		a.start(climbing, rate)
	case a.state == warming:
		if a.clock.now >= a.o.Warmup {
			a.start(climbing, a.o.Start)
		}
	case a.state == cooling:
		a.coolDown(w)
	default:
		switch v := a.judge.see(w); {
		case !v.decided:
		case v.healthy:
			a.sustained(v)
		default:
			a.overloaded(v)
		}
	}
}

// sustained goes on from a healthy load.
func (a *adaptive) sustained(v assessment) {
	a.retried, a.healthy = 0, true
	rate := a.rate
	if a.state == climbing && a.profileAt(a.rate).overall {
		rate /= momentary
	} else if a.state == climbing {
		rate /= 1 + 1.5*slack.Seconds()/a.judge.need.Seconds() // a little more would not have been noticed
	}
	if a.hi.limit != limitMax {
		a.noteSustained(rate, a.clock.now)
	}
	switch a.state {
	case climbing:
		if a.climbed < 0 && v.p99 > 0 {
			a.health.rememberBaseline(v.p99)
		}
		a.climb()
	case narrowing:
		if math.IsInf(a.upper(), 1) { // it was an overload a moment ago
			a.climbed = 0
			a.climb()
			return
		}
		a.narrow()
	case confirming:
		if a.strict {
			a.held = a.judge
			a.settle()
			return
		}
		a.proven = a.rate
		a.samples = nil
		a.narrow()
	case holding:
		if a.strict {
			a.held.all.Add(a.judge.all)
			if limit := a.held.violatedOverall(1); limit != "" {
				a.overloaded(assessment{limit: limit, sure: true})
				return
			}
		}
		a.check()
	case checking:
		if math.IsInf(a.hi.rate, 1) { // above
			a.climb()
			return
		}
		a.settle()
	}
}

func (a *adaptive) climb() {
	// Not by a check alone, nor by what a bucket lets through.
	if a.state == climbing && !(a.bursty && a.lo.rate > 0) {
		a.settled = false
	}
	if a.rate >= MaxRate {
		a.hi = bound{rate: MaxRate, limit: limitMax, at: a.clock.now}
		a.settle()
		return
	}
	factor := climbStep
	if a.climbed >= 0 {
		factor = climbAgain[min(a.climbed, len(climbAgain)-1)]
		a.climbed++
	}
	a.start(climbing, a.rate*factor)
}

// overloaded goes on from a load that was not healthy.
func (a *adaptive) overloaded(v assessment) {
	a.refused = v.limit
	if !v.sure && a.retried != a.rate && !a.expected(v) {
		// Once more, after a rest: it may have been the machine.
		a.retried = a.rate
		a.rest(a.state, a.rate)
		return
	}
	a.retried = 0
	dropped := a.state == holding || a.state == confirming && a.strict
	repeated := a.bursty && a.expected(v)
	a.noteOverload(a.rate, v, a.clock.now)
	if repeated || a.state == confirming && !a.strict && v.goodput > 0 {
		a.noteBurst(a.clock.now)
	}
	if a.rate <= a.least() {
		a.failure = fmt.Sprintf("the target is not healthy at %s requests a second either: %s",
			number(a.rate), v.limit)
		return
	}
	if dropped {
		a.lo, a.climbed, a.settled = bound{}, 0, false
		if a.strict { // the ceiling is not far, and the next load to be confirmed is a step below
			a.lo = bound{rate: a.rate * (1 - a.stepDown()), at: a.clock.now}
			a.rest(confirming, a.lo.rate)
			return
		}
	}
	a.rest(narrowing, 0)
}

// stepDown is how much lower than a load that was not confirmed the next one is, as a share of it.
func (a *adaptive) stepDown() float64 {
	held, below := a.judge, a.profileAt(a.rate).below
	if a.state == holding {
		held = a.held
	}
	if excess := held.excess(); excess > confirmMargin {
		return min(max(stepSlope*(excess/confirmMargin-1), below), mostStep)
	}
	return 2 * below // it was no latency that said no
}

// expected reports whether an overload is no surprise: the goodput is that of others.
func (a *adaptive) expected(v assessment) bool {
	g, ok := a.goodput()
	if a.bursty || a.state == confirming {
		g, ok = a.served()
	}
	return ok && a.rate > g && v.goodput > 0 && math.Abs(v.goodput/g-1) < a.profile().below
}

// rest lowers the load until the target has recovered, and then goes on with a state and load.
func (a *adaptive) rest(after state, next float64) {
	a.cool = cooldown{after: after, next: next, began: a.clock.now}
	low := restShare * min(a.rate, a.upper())
	if a.lo.rate > 0 {
		low = min(low, restBelow*a.lo.rate)
	}
	if g, ok := a.served(); ok {
		low = min(low, restShare*g)
	}
	a.state = cooling
	a.coolAt(low)
}

func (a *adaptive) coolAt(rate float64) {
	a.rate, a.cool.good, a.cool.lowered = max(rate, a.least()), 0, a.clock.now
	a.judge = newJudge(a.health, a.rate, time.Hour, a.inFlight)
	a.cool.waiting = a.inFlight
}

// coolDown waits for good blocks in a row. A block is shorter than those that judge a load.
func (a *adaptive) coolDown(w *measure.Window) {
	switch recovered, known := a.judge.recovered(w); {
	case recovered:
		a.cool.good++
	case known:
		a.cool.good = 0
	}
	t := a.clock.now
	stuck := t-a.cool.lowered > sureTime+a.slowness() &&
		float64(w.InFlight) > stuckShare*float64(a.cool.waiting)+stuckSlack
	switch {
	case a.cool.good >= cooledBlocks:
		if len(a.health.baselines) < 3 && a.judge.p99 > 0 {
			a.health.rememberBaseline(a.judge.p99) // the first load may have been close to the ceiling
		}
		if a.cool.next > 0 {
			a.start(a.cool.after, a.cool.next)
			return
		}
		a.narrow()
	case t-a.cool.began > coolFor+4*a.slowness():
		if a.rate <= a.least() {
			a.failure = "the target does not recover from the load, though almost none is left"
			return
		}
		a.noteOverload(a.rate, assessment{limit: a.hi.limit}, t)
		a.rest(narrowing, 0)
	case stuck, t-a.cool.lowered > lowerAfter+2*a.slowness():
		a.coolAt(a.rate / 2)
	}
}

// narrow goes on between what is sustained and what is not.
func (a *adaptive) narrow() {
	if rate, ok := a.doubtful(); ok {
		if len(a.samples) == 1 && !a.remeasured && !math.IsInf(a.upper(), 1) {
			// The goodput was measured once, perhaps while the machine was busy: that is known sooner.
			a.remeasured = true
			a.start(narrowing, a.upper())
			return
		}
		a.start(confirming, rate)
		return
	}
	next, ok := a.pick()
	switch {
	case ok:
		a.start(narrowing, next)
	case a.strict:
		a.start(confirming, a.lo.rate)
	default:
		a.settle()
	}
}

// settle holds a load at or below the ceiling that was found.
func (a *adaptive) settle() {
	if a.foundAt == 0 {
		a.foundAt = a.clock.now
	}
	a.climbed, a.settled = 0, true
	a.ceiling, _ = a.interval()
	a.start(holding, a.floor())
}

// floor is the load between the checks.
func (a *adaptive) floor() float64 {
	if a.hi.limit == limitMax {
		return MaxRate
	}
	return a.ceiling.Rate * a.profileAt(a.ceiling.Rate).floor
}

// check looks whether the ceiling still is where it was: twice above it and once below, where it is not
// held anyway.
func (a *adaptive) check() {
	a.checks++
	switch p, rate := a.profileAt(a.ceiling.Rate), a.ceiling.Rate; {
	case a.hi.limit == limitMax:
		a.start(holding, a.rate)
	case a.checks%3 != 0:
		a.hi = bound{rate: math.Inf(1)}
		a.start(checking, rate*(1+p.above))
	case a.strict:
		a.start(holding, a.rate)
	default:
		a.lo = bound{rate: a.rate, at: a.clock.now} // which was just held
		a.start(checking, rate*(1-p.below))
	}
}

func (a *adaptive) start(s state, rate float64) {
	rate = min(max(rate, a.least()), MaxRate)
	a.state, a.rate = s, rate
	a.judge = newJudge(a.health, rate, a.needed(s, rate), a.inFlight)
	if a.judge.overall = a.profileAt(rate).overall; a.judge.overall && s != climbing {
		// A queue takes its time to get as long as it mostly is.
		a.judge.settle = max(a.judge.settle, min(a.judge.need/5, mostSettle))
	}
	if a.foundAt > 0 {
		a.judge.quorum = foundQuorum
	}
	switch {
	case a.strict && s == holding:
		a.judge.margin = holdMargin
	case a.strict && s != climbing:
		a.judge.margin = confirmMargin
	}
}

// needed is how long a load has to be healthy: a climb's steps are so large that little tells; close to the
// ceiling a queue takes its time to be noticed.
func (a *adaptive) needed(s state, rate float64) time.Duration {
	p := a.profileAt(rate)
	switch {
	// The first step of a climb that begins again is small.
	case s == climbing && (p.overall || a.climbed != 0):
		return max(p.climb.at(rate), min(a.slowness(), p.climb.most))
	case s == narrowing && p.overall && a.upper() > wideRange*a.lo.rate:
		return roughly.at(rate)
	case s == confirming, a.strict && (s == holding || s == checking):
		return p.confirm.at(rate)
	case s == holding && !p.overall:
		return holdTime
	}
	return p.judge.at(rate)
}

func (a *adaptive) least() float64 { return min(1, a.o.Start) }

// slowness is how long it takes until an answer tells of a load.
func (a *adaptive) slowness() time.Duration {
	return min(time.Duration(1.2*a.health.baseline()*float64(time.Second)), mostSettle)
}

// silent says that the target answers nothing now.
func (a *adaptive) silent() bool { return a.liveness.silent(a.slowness()) }

// SetRate makes the search start anew from a load.
func (a *adaptive) SetRate(rate float64) error {
	if err := checkRate(rate); err != nil {
		return err
	}
	a.requested = rate
	return nil
}

// Ceiling returns what is known of the ceiling, once a load was an overload.
func (a *adaptive) Ceiling() (Ceiling, bool) {
	if a.silent() && a.lastAlive.ok {
		return a.lastAlive.ceiling, true // that nothing is answered at all says nothing of how much could be
	}
	if a.foundAt == 0 {
		if a.hi.rate == 0 || math.IsInf(a.hi.rate, 1) {
			return Ceiling{}, false
		}
		return a.interval()
	}
	c := a.ceiling
	if !a.settled {
		// A load sustained for a moment says little where the goodput is another, or requests queue at
		// random.
		_, doubtful := a.doubtful()
		now, ok := a.interval()
		if a.strict && ok && now.Rate < c.Rate {
			c = now
		}
		if ok && !a.profileAt(a.rate).overall && (!doubtful || now.High == 0) {
			c = now
		}
	}
	c.Converged, c.Seconds = a.settled, a.foundAt.Seconds()
	return c, true
}
