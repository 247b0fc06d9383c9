package control

import (
	"fmt"
	"math"
	"time"

	"weir/internal/load/measure"
)

// AdaptiveOptions say how the most that a target bears is looked for.
type AdaptiveOptions struct {
	// Start is the first load, in requests a second; 50 by default.
	Start float64
	// Healthy are the conditions that say that the target bears a load. For what they do not speak of, the usual hold:
	// at least 99 % without errors, at most 1 % shed, 97 % of the intended requests sent, a p99 at most 25 ms above
	// that of a low load (or twice that, if that is more), and a queue that does not grow.
	Healthy []Condition
	// Warmup is spent at Start before anything is judged.
	Warmup time.Duration
	// Random says that requests come at random times. They wait for each other then, long before the ceiling of what is
	// served, and it takes many of them to know how often.
	Random bool
	// Duration is how long the run is, warm-up included. 0 ends it Hold after the ceiling was found, or once Patience
	// is over without.
	Duration       time.Duration
	Hold, Patience time.Duration // 10 s and 5 min by default
	StopWhen       []Condition
	Limits         Limits
}

// The steps of a search. Each is a number of its own: how far to go up says nothing about how far to stay below.
const (
	climbStep = 2.0  // from load to load while nothing is known
	floorPart = 0.96 // of the ceiling, the load between the probes
	// floorRandom is that where few requests come at random times, as the ceiling is known less well.
	floorRandom = 0.9
	// near is how far from the ceiling the two loads are that have to be borne and not; nearFew that where there are
	// few requests.
	near, nearFew = 0.015, 0.02
	// nearRandom is that where few requests come at random times.
	nearRandom = 0.03
	// above is how much farther the upper one is: a bucket that fills while nobody asks for more hides a small excess.
	above       = 1.5
	fewRequests = 200.0 // a second
)

// provingTime empties what a target has saved up for bursts, if that is not very much.
const provingTime = 12 * time.Second

// again are the steps up once a load is borne that was too much before.
var again = []float64{1.08, 1.4, climbStep}

// Adaptive returns a Searcher: it climbs exponentially until a load is too much, narrows down what is between that and the
// last one that was not, and then stays below the ceiling, with a look at both its sides every few seconds, so that it
// follows when the ceiling moves. See docs/load.md.
func Adaptive(o AdaptiveOptions) Searcher {
	if o.Start <= 0 {
		o.Start = 50
	}
	if o.Limits.Min <= 0 {
		o.Limits.Min = min(1, o.Start)
	}
	if o.Limits.Max <= 0 {
		o.Limits.Max = MaxRate
	}
	if o.Hold <= 0 {
		o.Hold = 10 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 5 * time.Minute
	}
	o.Start = min(max(o.Start, o.Limits.Min), o.Limits.Max)
	a := &adaptive{o: o, health: newHealth(o.Healthy), watch: NewWatch(o.StopWhen), state: warming, rate: o.Start}
	a.random = o.Random
	return a
}

// state is what a search does now.
type state int

const (
	warming   state = iota
	climbing        // up from a load that is borne
	cooling         // at a low load, until the target has recovered
	narrowing       // between a load that is borne and one that is not
	holding         // just below the ceiling
	checking        // beside the ceiling, on one of its sides
	proving         // for long what is borne and more than the goodput
)

var phases = [...]string{warming: "warmup", climbing: "climb", cooling: "cool", narrowing: "bisect", holding: "track", checking: "track", proving: "bisect"}

type adaptive struct {
	o      AdaptiveOptions
	health *health
	watch  *Watch
	clock  clock
	pulse  pulse
	lately known // of the ceiling, when the target last answered

	state    state
	rate     float64
	judge    *judge
	inFlight int

	evidence
	step     int           // how often it climbed of late; -1 on the first climb
	doubted  float64       // a load that was perhaps too much and is looked at again
	after    state         // what follows the cooling
	next     float64       // and its load; 0 to pick one
	calm     int           // good blocks in a row while cooling
	cooled   time.Duration // when cooling began,
	lowered  time.Duration // and when its load did,
	waiting  int           // with so many in flight
	rounds   int           // how often it held, which alternates the side to check
	found    bool
	ceiling  Ceiling // as it was when the search last settled
	foundAt  time.Duration
	wish     float64
	healthy  bool   // a load was borne
	refused  string // the signal that said no last
	hopeless string
}

// known is what is known of the ceiling at some time, if anything is, and why.
type known struct {
	ceiling  Ceiling
	ok       bool
	evidence evidence
}

func (a *adaptive) Begin() Decision {
	a.step = -1
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
	return d.within(a.o.Limits)
}

// Next judges a window and says how the search goes on.
func (a *adaptive) Next(w *measure.Window) Decision {
	warm := a.state == warming
	a.clock.see(w)
	away := a.silent()
	answered := a.pulse.see(w)
	if away && answered && a.found {
		// That it was away says nothing of how much it bears.
		a.evidence = a.lately.evidence
		a.rest(holding, a.floor())
	}
	a.advance(w)
	a.inFlight = w.InFlight
	if answered {
		c, ok := a.Ceiling()
		a.lately = known{c, ok, a.evidence}
	}
	d := a.decision()
	switch t := a.clock.now; {
	case a.pulse.gone() || a.hopeless != "" && a.silent():
		d.Done, d.Failed = true, true
		d.Reason = fmt.Sprintf("the target is gone: it has answered nothing since %.1f s", a.pulse.last.Seconds())
	case a.hopeless != "":
		d.Done, d.Reason = true, a.hopeless
	case a.o.Duration > 0:
		d.Done = a.clock.over(a.o.Duration)
	case a.found && t >= a.foundAt+a.o.Hold:
		d.Done = true
	case t >= a.o.Patience:
		d.Done, d.Reason = true, fmt.Sprintf("no ceiling was found within %v", a.o.Patience)
	}
	if !warm && !d.Done {
		if held, v := a.watch.Next(w); held != nil {
			return d.stop(held, v)
		}
	}
	return d
}

func (a *adaptive) advance(w *measure.Window) {
	if a.wish > 0 {
		rate := a.wish
		a.wish = 0
		a.forget()
		a.found, a.step = false, 0
		a.start(climbing, rate)
		return
	}
	switch a.state {
	case warming:
		if a.clock.now >= a.o.Warmup {
			a.start(climbing, a.o.Start)
		}
		return
	case cooling:
		a.cool(w)
		return
	}
	o := a.judge.see(w)
	switch {
	case !o.decided:
	case o.healthy:
		a.borne(o)
	default:
		a.tooMuch(o)
	}
}

// borne goes on from a load that was healthy.
func (a *adaptive) borne(o opinion) {
	a.doubted, a.healthy = 0, true
	borne := a.rate
	if a.state == climbing && a.atRandom(a.rate) {
		borne /= 1.5 // it was borne for a moment
	} else if a.state == climbing {
		borne /= 1 + 1.5*slack.Seconds()/a.judge.need.Seconds() // a little more would not have been noticed
	}
	if a.hi.limit != "max" {
		a.good(borne, a.clock.now)
	}
	switch a.state {
	case climbing:
		if a.step < 0 && o.p99 > 0 {
			a.health.remember(o.p99)
		}
		a.climb()
	case narrowing:
		if math.IsInf(a.upper(), 1) { // it was too much a moment ago
			a.step = 0
			a.climb()
			return
		}
		a.narrow()
	case proving:
		a.proven = a.rate
		a.samples = nil
		a.narrow()
	case holding:
		a.check()
	case checking:
		if math.IsInf(a.hi.rate, 1) {
			a.climb() // it was too much before
			return
		}
		a.settle()
	}
}

// climb goes a step up.
func (a *adaptive) climb() {
	if a.rate >= a.o.Limits.Max {
		a.atMost()
		return
	}
	step := climbStep
	if a.step >= 0 {
		step = again[min(a.step, len(again)-1)]
		a.step++
	}
	a.start(climbing, a.rate*step)
}

// atMost ends the search at the most that may be asked.
func (a *adaptive) atMost() {
	a.hi = side{rate: a.o.Limits.Max, limit: "max", at: a.clock.now}
	a.settle()
}

// tooMuch goes on from a load that was not healthy.
func (a *adaptive) tooMuch(o opinion) {
	a.refused = o.limit
	if !o.sure && a.doubted != a.rate && !a.expected(o) {
		// Once more, after a rest: it may have been the machine.
		a.doubted = a.rate
		a.rest(a.state, a.rate)
		return
	}
	a.doubted = 0
	dropped, proved := a.state == holding, a.state == proving
	repeated := a.saves && a.expected(o)
	a.bad(a.rate, o, a.clock.now)
	if dropped {
		a.lo = side{}
	}
	if repeated || proved && o.goodput > 0 {
		a.bursts(a.clock.now)
	}
	if a.rate <= a.o.Limits.Min {
		a.hopeless = fmt.Sprintf("the target is not healthy at %s requests a second either: %s", number(a.rate), o.limit)
		return
	}
	if dropped {
		a.step = 0
	}
	a.rest(narrowing, 0)
}

// expected reports whether a load that was too much is no surprise: as much was served of it as of others.
func (a *adaptive) expected(o opinion) bool {
	g, ok := a.goodput()
	if a.saves || a.state == proving {
		g, ok = a.served()
	}
	return ok && a.rate > g && o.goodput > 0 && math.Abs(o.goodput/g-1) < a.near()
}

// rest lowers the load until the target has recovered, and then goes on with a state and load.
func (a *adaptive) rest(after state, next float64) {
	a.after, a.next = after, next
	low := min(a.rate, a.upper()) / 2
	if a.lo.rate > 0 {
		low = min(low, 0.7*a.lo.rate)
	}
	if g, ok := a.served(); ok {
		low = min(low, g/2)
	}
	a.state, a.cooled = cooling, a.clock.now
	a.coolAt(low)
}

func (a *adaptive) coolAt(rate float64) {
	a.rate, a.calm, a.lowered = max(rate, a.o.Limits.Min), 0, a.clock.now
	a.judge = newJudge(a.health, a.rate, time.Hour, a.inFlight)
	a.waiting = a.inFlight
}

// A target that has not recovered after lowerAfter, or does not get rid of its queue, gets half of the load; after coolFor the load that it was to recover
// at was too much, too.
const (
	lowerAfter = 4 * time.Second
	coolFor    = 20 * time.Second
)

// cool waits for three good blocks in a row. A block is shorter than those that judge a load.
func (a *adaptive) cool(w *measure.Window) {
	switch recovered, known := a.judge.recovered(w); {
	case recovered:
		a.calm++
	case known:
		a.calm = 0
	}
	switch {
	case a.calm >= 3:
		if len(a.health.calm) < 3 && a.judge.p99 > 0 {
			a.health.remember(a.judge.p99) // the first load may have been close to the ceiling
		}
		if a.next > 0 {
			a.start(a.after, a.next)
			return
		}
		a.narrow()
	case a.clock.now-a.cooled > coolFor+4*a.slowness():
		if a.rate <= a.o.Limits.Min {
			a.hopeless = "the target does not recover from the load, though almost none is left"
			return
		}
		a.bad(a.rate, opinion{limit: a.hi.limit}, a.clock.now)
		a.rest(narrowing, 0)
	case a.clock.now-a.lowered > lowerAfter+2*a.slowness(), a.clock.now-a.lowered > sureTime+a.slowness() && 10*w.InFlight > 9*a.waiting+20:
		a.coolAt(a.rate / 2)
	}
}

// narrow goes on between what is borne and what is not.
func (a *adaptive) narrow() {
	if rate, ok := a.doubtful(); ok {
		if len(a.samples) == 1 && !a.measured && !math.IsInf(a.upper(), 1) {
			// What was served of too much was measured once, perhaps while the machine was busy: that is known sooner.
			a.measured = true
			a.start(narrowing, a.upper())
			return
		}
		a.start(proving, rate)
		return
	}
	next, ok := a.pick()
	if !ok {
		a.settle()
		return
	}
	a.start(narrowing, next)
}

// settle holds a load below the ceiling that was found.
func (a *adaptive) settle() {
	if !a.found {
		a.found, a.foundAt = true, a.clock.now
	}
	a.step = 0
	a.ceiling, _ = a.estimate()
	rate := a.floor()
	if a.hi.limit == "max" {
		rate = a.o.Limits.Max
	}
	a.start(holding, rate)
}

// floor is the load between the probes.
func (a *adaptive) floor() float64 {
	if a.atRandom(a.ceiling.Rate) {
		return a.ceiling.Rate * floorRandom
	}
	return a.ceiling.Rate * floorPart
}

// check looks whether the ceiling still is where it was, above and below it in turn.
func (a *adaptive) check() {
	if a.hi.limit == "max" {
		a.start(holding, a.rate)
		return
	}
	c := a.ceiling
	a.rounds++
	if a.rounds%3 == 0 {
		a.lo = side{rate: a.rate, at: a.clock.now} // which was just held
		a.start(checking, c.Rate*(1-a.near()))
		return
	}
	a.hi = side{rate: math.Inf(1)}
	a.start(checking, c.Rate*(1+above*a.near()))
}

// start judges a load.
func (a *adaptive) start(s state, rate float64) {
	rate = min(max(rate, a.o.Limits.Min), a.o.Limits.Max)
	a.state, a.rate = s, rate
	a.judge = newJudge(a.health, rate, a.needed(s, rate), a.inFlight)
	if a.judge.random = a.atRandom(rate); a.judge.random && s != climbing {
		a.judge.settle = max(a.judge.settle, a.judge.need/5) // a queue takes its time to be as long as it mostly is
	}
	if a.found {
		a.judge.quorum = 5 // it takes more to doubt what is known
	}
}

// needed is how long a load has to be healthy: a climb's steps are so large that little tells; close to the ceiling a
// queue takes its time to be noticed.
func (a *adaptive) needed(s state, rate float64) time.Duration {
	requests := func(n float64) time.Duration { return time.Duration(n / rate * float64(time.Second)) }
	if a.atRandom(rate) {
		switch s {
		case climbing:
			return min(max(400*time.Millisecond, requests(100), a.slowness()), 10*time.Second)
		case proving:
			return max(provingTime, min(requests(randomRequests), time.Minute))
		}
		return min(max(2*time.Second, requests(randomRequests)), time.Minute)
	}
	switch s {
	case climbing:
		if a.step == 0 { // the next one is a small step
			return a.needed(narrowing, rate)
		}
		return min(max(400*time.Millisecond, requests(30), a.slowness()), 2*time.Second)
	case holding:
		return 2 * time.Second
	case proving:
		return provingTime
	}
	sure := time.Duration(1.2 * slack.Seconds() / a.near() * float64(time.Second))
	return min(max(sure, requests(150)), 5*time.Second)
}

// atRandom says that so few requests come at random times that they are judged by their number. Of many, a window has
// enough.
func (a *adaptive) atRandom(rate float64) bool { return a.random && rate < 1000 }

// slowness is how long it takes until an answer tells of a load.
func (a *adaptive) slowness() time.Duration {
	return min(time.Duration(1.2*a.health.usual()*float64(time.Second)), mostSettle)
}

// silent says that the target answers nothing now.
func (a *adaptive) silent() bool { return a.pulse.silent(a.slowness()) }

// SetRate makes the search start anew from a load.
func (a *adaptive) SetRate(rate float64) error {
	if err := checkRate(rate, a.o.Limits); err != nil {
		return err
	}
	a.wish = rate
	return nil
}
