package control

import (
	"math"
	"time"
)

// evidence is what a search knows of the ceiling: a load that was borne, one that was not, and how much was
// served of loads that were too much.
type evidence struct {
	lo, hi  side
	samples []sample // of goodput, the latest last
	// measured says that what is served of too much was looked at once more.
	measured bool
	downs    int     // loads in a row that were too much while none is known that is borne
	proven   float64 // a load above the goodput that was borne for long: the target serves less of too much
	saves    bool    // a load above it was borne at first only: the target saves up for bursts
	first    Ceiling // as it was found first
	random   bool    // requests come at random times
}

// side is one bound of the ceiling. No lower one is 0, no upper one is infinite or 0.
type side struct {
	rate  float64
	limit string
	at    time.Duration
}

type sample struct{ rate, weight float64 }

// keptSamples are averaged: enough to even out noise, few enough to follow.
const keptSamples = 5

func (e *evidence) forget() { *e = evidence{first: e.first, random: e.random} }

// good notes that rate was borne.
func (e *evidence) good(rate float64, at time.Duration) {
	e.downs = 0
	if rate > e.lo.rate {
		e.lo = side{rate: rate, at: at}
	}
	if rate >= e.upper() {
		// What was too much no longer is.
		e.hi = side{rate: math.Inf(1)}
		e.samples = nil
	}
}

// contested is how far above the goodput a load may be borne without one of the two being doubted.
const contested = 1.03

// doubtful returns a load that was borne and that is more than what was served of too much: either the target serves
// less when it is overloaded, or it has saved up, as a token bucket does, and would not bear the load for long.
func (e *evidence) doubtful() (float64, bool) {
	g, ok := e.served()
	return e.lo.rate, ok && e.lo.rate > g*contested && e.lo.rate > e.proven
}

// bursts notes that a load above the goodput was not borne for long: the goodput is the ceiling.
func (e *evidence) bursts(at time.Duration) {
	g, _ := e.served()
	if g < e.proven {
		return // more than that was borne for long: too much makes it serve less
	}
	e.saves = true
	e.lo = side{rate: g * (1 - e.near()), at: at}
	e.hi = side{rate: g * (1 + above*e.near()), limit: e.hi.limit, at: at}
}

// bad notes that rate was too much.
func (e *evidence) bad(rate float64, o opinion, at time.Duration) {
	if g, ok := e.served(); ok && o.goodput > 0 && math.Abs(o.goodput/g-1) > 0.05 {
		e.samples, e.measured = nil, false // of another time
		if o.goodput < 0.93*g && o.goodput < 0.93*e.lo.rate {
			e.lo = side{} // this, too
		}
	}
	e.hi = side{rate: rate, limit: o.limit, at: at}
	if e.lo.rate >= rate {
		// One of the two is wrong, and this one is newer.
		e.lo = side{rate: 0.94 * rate, at: at}
	}
	if e.lo.rate == 0 {
		e.downs++
	}
	if o.goodput > 0 {
		e.samples = append(e.samples, sample{o.goodput, o.weight})
		if len(e.samples) > keptSamples {
			e.samples = e.samples[1:]
		}
	} else if g, ok := e.served(); ok && g >= rate {
		e.samples = nil
	}
}

// upper is the least load that was too much.
func (e *evidence) upper() float64 {
	if e.hi.rate == 0 {
		return math.Inf(1)
	}
	return e.hi.rate
}

// goodput is what the target serves of more than it can, as far as that agrees with the bounds. A target that serves less
// when it is overloaded has its ceiling elsewhere.
func (e *evidence) goodput() (float64, bool) {
	g, ok := e.served()
	return g, ok && g > e.lo.rate*0.97 && g < e.upper()*1.01
}

// served is the goodput whatever the bounds say.
func (e *evidence) served() (float64, bool) {
	var sum, weight float64
	for _, s := range e.samples {
		sum += s.rate * s.weight
		weight += s.weight
	}
	if weight == 0 {
		return 0, false
	}
	return sum / weight, true
}

// near is how far from the ceiling its two sides are looked for.
func (e *evidence) near() float64 {
	switch rate := max(e.lo.rate, min(e.upper(), MaxRate)/2); {
	case e.random && rate < 1000:
		return nearRandom
	case rate < fewRequests:
		return nearFew
	}
	return near
}

// pick returns the load that says most about where the ceiling is, or false when it is known.
func (e *evidence) pick() (float64, bool) {
	lo, hi, near := e.lo.rate, e.upper(), e.near()
	if g, ok := e.goodput(); ok {
		below, beyond := g*(1-near), g*(1+above*near)
		missing := func(rate float64) bool { return rate > lo*1.002 && rate < hi*0.998 }
		switch {
		case lo < g*(1-1.4*near) && missing(below):
			return below, true
		case hi > g*(1+1.4*above*near) && missing(beyond):
			return beyond, true
		case lo >= g*(1-1.4*near) && hi <= g*(1+1.4*above*near):
			return 0, false
		}
	}
	switch {
	case math.IsInf(hi, 1):
		return lo * (1 + above*near), true
	case lo == 0:
		return hi * math.Pow(0.8, float64(min(e.downs, 6))), true
	case hi > lo*(1+3*near):
		return math.Sqrt(lo * hi), true
	}
	return 0, false
}

// Ceiling returns what is known of the ceiling, once a load was too much.
func (a *adaptive) Ceiling() (Ceiling, bool) {
	if a.silent() && a.lately.ok {
		return a.lately.ceiling, true // that nothing is answered at all says nothing of how much could be
	}
	if a.found {
		_, doubtful := a.doubtful()
		beside := a.state == holding || a.state == checking || a.state == cooling && (a.after == checking || a.after == holding)
		// What a target that saves up bears for a moment says little, and so do few requests at random times.
		if beside || doubtful || a.atRandom(a.rate) || a.saves && a.lo.rate > 0 {
			return a.ceiling, true
		}
	}
	return a.estimate()
}

// estimate makes up the ceiling of the evidence.
func (a *adaptive) estimate() (Ceiling, bool) {
	lo, hi := a.lo.rate, a.upper()
	if math.IsInf(hi, 1) {
		if !a.found {
			return Ceiling{}, false
		}
		hi = lo * (1 + a.near())
	}
	c := Ceiling{Low: lo, High: hi, Limit: a.hi.limit, Converged: a.found, Seconds: a.foundAt.Seconds()}
	c.Rate = math.Sqrt(max(lo, hi/4) * hi)
	if g, ok := a.goodput(); ok {
		c.Rate = min(g, hi)
		spread := a.spread(g)
		c.Low, c.High = min(lo, c.Rate-spread), max(hi, c.Rate+spread)
	}
	if a.atRandom(c.Rate) {
		c.Low, c.High = min(c.Low, c.Rate*(1-spreadRandom)), max(c.High, c.Rate*(1+spreadRandom))
	}
	if a.hi.limit == "max" {
		c.Rate, c.Low, c.High = hi, hi, hi
	}
	return c, true
}

// spreadRandom is how far from the truth what is found of few requests at random times may be, by simulation: the p99 of 1000 that
// depend on each other is that uncertain.
const spreadRandom = 0.15

// spread is 1.96 times the standard error of the goodput, and half a per cent at least.
func (e *evidence) spread(g float64) float64 {
	var squares, weight float64
	for _, s := range e.samples {
		squares += s.weight * (s.rate - g) * (s.rate - g)
		weight += s.weight
	}
	n := float64(len(e.samples))
	if n < 2 {
		return 0.02 * g
	}
	return max(0.005*g, 1.96*math.Sqrt(squares/weight/(n-1)))
}
