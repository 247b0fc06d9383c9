package control

import (
	"math"
	"time"
)

// evidence is what a search knows of the ceiling: the highest load that was sustained, the lowest that
// overloaded the target, and the goodput of overload.
type evidence struct {
	lo, hi  bound
	samples []sample // of goodput under overload, the latest last
	// remeasured says that goodput was measured a second time, in case the machine was busy the first time.
	remeasured bool
	downs      int     // overloads in a row while no sustained load is known
	proven     float64 // a load above the goodput that was sustained for long: overload lowers the goodput
	bursty     bool    // a load above the goodput was sustained at first only: the target has a token bucket
	character
}

// bound is one end of the range the ceiling is in. An unknown lower bound is 0; an unknown upper one is 0
// or infinite.
type bound struct {
	rate  float64
	limit string // the signal that was violated, of an upper bound
	at    time.Duration
}

// sample is the goodput under an offered load, measured for some seconds. Where errors were the limit it
// may be that of a target that fails a share of the requests, and not its capacity.
type sample struct {
	rate, seconds, offered float64
	errors                 bool
}

const (
	// keptSamples are averaged: enough to even out noise, few enough to follow a ceiling that moves.
	keptSamples = 5
	// contested is how far above the goodput a load may be sustained before one of the two is doubted.
	contested = 1.03
	// saturatedShare is the share of an offered load below which one sample of goodput alone is taken for
	// the target's capacity. Above it a few errors explain the difference as well.
	saturatedShare = 0.9
	// farApart is the ratio of two offered loads from which on their goodputs tell saturation from errors:
	// of a target that is saturated the goodput stays, of one that fails some requests the share does.
	farApart = 1.03
	// moved is by how much goodput differs from that of the samples when the ceiling has moved since they
	// were taken, and fallen the share of what was sustained that it falls to when that is no longer.
	moved  = 0.05
	fallen = 0.93
	// newer is the share of a load that overloads the target, though more was sustained before, that may be
	// sustained still.
	newer = 0.94
	// Goodput agrees with the bounds when it is at least agreesBelow of the lower and at most agreesAbove of
	// the upper one: it is measured to about a hundredth.
	agreesBelow = 0.97
	agreesAbove = 1.01
	// untried is how far a load is from those that were tried for there to be something to learn, and near
	// the factor of the distances at which a bound is as close to the goodput as is looked for.
	untried = 0.002
	near    = 1.4
	// Without a load that was sustained the next one is lower by downStep, mostDowns times at most.
	downStep  = 0.8
	mostDowns = 6
	// oneSample is the standard error of a single sample of goodput, leastError that of the mean of many:
	// what the ends of windows make uncertain.
	oneSample  = 0.01
	leastError = 0.0025
)

// strictDoubt is how far above a load that was not confirmed the ceiling may be: it may have met its limits,
// by less than confirmMargin asks for.
const strictDoubt = 0.04

// profile is the one for loads near the ceiling.
func (e *evidence) profile() profile {
	return e.profileAt(max(e.lo.rate, min(e.upper(), MaxRate)/2))
}

func (e *evidence) noteSustained(rate float64, at time.Duration) {
	e.downs = 0
	if rate > e.lo.rate {
		e.lo = bound{rate: rate, at: at}
	}
	if rate >= e.upper() { // the ceiling has risen
		e.hi = bound{rate: math.Inf(1)}
		e.samples = nil
	}
}

func (e *evidence) noteOverload(rate float64, v assessment, at time.Duration) {
	if g, ok := e.served(); ok && v.goodput > 0 && math.Abs(v.goodput/g-1) > moved {
		// The ceiling has moved since the samples were taken, or they were no capacity.
		if e.saturated(append(e.samples[:len(e.samples):len(e.samples)], sampleOf(rate, v))) {
			e.samples, e.remeasured = nil, false
		}
		if v.goodput < fallen*g && v.goodput < fallen*e.lo.rate {
			e.lo = bound{} // so has the lower bound
		}
	}
	e.hi = bound{rate: rate, limit: v.limit, at: at}
	if e.lo.rate >= rate { // one of the two is wrong, and this one is newer
		e.lo = bound{rate: newer * rate, at: at}
	}
	if e.lo.rate == 0 {
		e.downs++
	}
	if v.goodput > 0 {
		e.samples = append(e.samples, sampleOf(rate, v))
		if len(e.samples) > keptSamples {
			e.samples = e.samples[1:]
		}
	} else if g, ok := e.served(); ok && g >= rate {
		e.samples = nil
	}
}

func sampleOf(rate float64, v assessment) sample {
	return sample{v.goodput, v.seconds, rate, v.limit == "errors" || v.limit == "success"}
}

// noteBurst notes that a load above the goodput was not sustained for long: the goodput is the ceiling.
func (e *evidence) noteBurst(at time.Duration) {
	g, _ := e.served()
	if g < e.proven {
		return // more than that was sustained for long: overload lowers the goodput
	}
	e.bursty = true
	e.lo = bound{rate: g * (1 - e.profile().below), at: at}
	e.hi = bound{rate: g * (1 + e.profile().above), limit: e.hi.limit, at: at}
}

// upper is the lowest load that overloaded the target, infinite for none.
func (e *evidence) upper() float64 {
	if e.hi.rate == 0 {
		return math.Inf(1)
	}
	return e.hi.rate
}

// served is the goodput of overload whatever the bounds are, if it is the target's capacity.
func (e *evidence) served() (float64, bool) {
	if e.strict || !e.saturated(e.samples) {
		return 0, false
	}
	var sum, seconds float64
	for _, s := range e.samples {
		sum += s.rate * s.seconds
		seconds += s.seconds
	}
	return sum / seconds, true
}

// saturated reports whether samples are of a target that serves as much as it can, and not of one that
// fails a share of the requests whatever the load is.
func (e *evidence) saturated(samples []sample) bool {
	if last := len(samples) - 1; last < 0 || !samples[last].errors {
		return last >= 0
	}
	least, most := samples[0], samples[0]
	for _, s := range samples {
		if s.offered < least.offered {
			least = s
		}
		if s.offered > most.offered {
			most = s
		}
	}
	if most.offered < farApart*least.offered {
		return e.bursty || most.rate < saturatedShare*most.offered
	}
	goodput := math.Abs(math.Log(most.rate / least.rate))
	share := math.Abs(math.Log(most.rate / most.offered / (least.rate / least.offered)))
	return goodput < share
}

// goodput is served as far as it agrees with the bounds. Overload lowers that of some targets, whose
// ceiling is above it.
func (e *evidence) goodput() (float64, bool) {
	g, ok := e.served()
	return g, ok && g > e.lo.rate*agreesBelow && g < e.upper()*agreesAbove
}

// doubtful returns a sustained load above the goodput: either overload lowers the goodput, or the target
// has a token bucket and would not sustain the load for long.
func (e *evidence) doubtful() (float64, bool) {
	g, ok := e.served()
	return e.lo.rate, ok && e.lo.rate > g*contested && e.lo.rate > e.proven
}

// pick returns the load that tells most about where the ceiling is; false when both bounds are close to it.
func (e *evidence) pick() (float64, bool) {
	lo, hi, p := e.lo.rate, e.upper(), e.profile()
	if g, ok := e.goodput(); ok {
		below, above := g*(1-p.below), g*(1+p.above)
		isNew := func(rate float64) bool { return rate > lo*(1+untried) && rate < hi*(1-untried) }
		closeBelow, closeAbove := lo >= g*(1-near*p.below), hi <= g*(1+near*p.above)
		switch {
		case !closeBelow && isNew(below):
			return below, true
		case !closeAbove && isNew(above):
			return above, true
		case closeBelow && closeAbove:
			return 0, false
		}
	}
	switch {
	case math.IsInf(hi, 1):
		return lo * (1 + p.above), true
	case lo == 0:
		return hi * math.Pow(downStep, float64(min(e.downs, mostDowns))), true
	case hi > lo*(1+3*p.below):
		return math.Sqrt(lo * hi), true
	}
	return 0, false
}

// interval makes a Ceiling of the evidence; false when no load is known to overload it. It is not converged.
func (e *evidence) interval() (Ceiling, bool) {
	lo, hi := e.lo.rate, e.upper()
	if math.IsInf(hi, 1) {
		return Ceiling{Rate: lo, Low: lo}, lo > 0
	}
	c := Ceiling{Rate: math.Sqrt(max(lo, hi/4) * hi), Low: lo, High: hi, Limit: e.hi.limit}
	switch g, ok := e.goodput(); {
	case e.hi.limit == limitMax:
		c.Rate, c.Low, c.High = hi, hi, hi
	case ok:
		c.Rate = min(g, hi)
		half := 1.96 * e.standardError(g)
		c.Low, c.High = min(lo, c.Rate-half), max(hi, c.Rate+half)
	case e.hi.limit == "errors" || e.hi.limit == "success":
		c.Rate = max(lo, hi/2) // more than that fails
	case e.strict:
		// What has met the conditions, and may nearly have met them.
		c.Rate, c.High = max(lo, hi/2), hi*(1+strictDoubt)
	}
	if s := e.profile().spread; s > 0 {
		c.Low, c.High = min(c.Low, c.Rate*(1-s)), max(c.High, c.Rate*(1+s))
	}
	return c, true
}

// standardError is that of the goodput's mean; of a single sample, a guess.
func (e *evidence) standardError(g float64) float64 {
	var squares, seconds float64
	for _, s := range e.samples {
		squares += s.seconds * (s.rate - g) * (s.rate - g)
		seconds += s.seconds
	}
	n := float64(len(e.samples))
	if n < 2 {
		return oneSample * g
	}
	return max(leastError*g, math.Sqrt(squares/seconds/(n-1)))
}
