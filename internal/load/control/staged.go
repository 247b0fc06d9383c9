package control

import (
	"errors"
	"fmt"
	"math"
	"time"

	"weir/internal/load/measure"
)

// ConstantOptions say which load is held: Rate of the open model, or Connections of the closed one, for
// Duration, after it rose evenly for Ramp and stayed for Warmup. Duration 0 has no end. The run ends when one
// of StopWhen holds.
type ConstantOptions struct {
	Rate                   float64
	Connections            int
	Ramp, Warmup, Duration time.Duration
	StopWhen               []Condition
}

// Constant returns a Controller of a load that stays the same. Neither ramp nor warm-up is measured.
func Constant(o ConstantOptions) Controller {
	load, connections := o.Rate, o.Connections > 0
	if connections {
		load = float64(o.Connections)
	}
	c := &staged{watch: NewWatch(o.StopWhen), until: o.StopWhen, constant: true}
	c.add("ramp", Stage{To: load, Connections: connections, For: o.Ramp})
	c.add("warmup", Stage{From: load, To: load, Connections: connections, For: o.Warmup})
	c.periods = append(c.periods,
		period{Stage{From: load, To: load, Connections: connections, For: o.Duration}, "steady", true})
	return c
}

// Classic returns a Controller that goes through stages and stops where a condition says so. That is a
// ceiling of sorts: Low is the load before the condition began to hold, High the one when it did, Rate is
// Low. The warm-up comes before, at the load that the first stage begins with (a tenth of what it leads to,
// if that is nothing), and is not measured; the stages are.
func Classic(stages []Stage, warmup time.Duration, stopWhen []Condition) Searcher {
	c := &staged{watch: NewWatch(stopWhen), until: stopWhen}
	first := stages[0]
	if first.From == 0 {
		first.From = first.To / 10
	}
	c.add("warmup", Stage{From: first.From, To: first.From, Connections: first.Connections, For: warmup})
	for _, s := range stages {
		phase := "steady"
		if s.From != s.To {
			phase = "ramp"
		}
		c.periods = append(c.periods, period{s, phase, true})
	}
	return c
}

type staged struct {
	periods  []period // the last one stays; without a time it has no end
	constant bool     // a person may set another load, and where a condition stops the run is no ceiling
	until    []Condition
	watch    *Watch
	clock    clock
	loads    []passed // of the open model, every one that differs from the one before
	served   []passed // of the closed model, each window of late
	ceiling  *Ceiling
}

// period is a stage and what it is called.
type period struct {
	Stage
	phase    string
	measured bool
}

// add adds a period that is not measured, if it takes some time.
func (c *staged) add(phase string, s Stage) {
	if s.For > 0 {
		c.periods = append(c.periods, period{s, phase, false})
	}
}

// passed is a load that began at a time, in requests a second.
type passed struct {
	start time.Duration
	load  float64
}

func (c *staged) Begin() Decision { return c.at(usualWindow / 2) }

func (c *staged) Next(w *measure.Window) Decision {
	before := c.at(max(c.clock.now, usualWindow/2))
	c.clock.see(w)
	d := c.at(c.clock.now)
	d.Done = c.over()
	if !before.Measured {
		return d
	}
	c.remember(w, before.Rate)
	held, v := c.watch.Next(w)
	if held == nil {
		return d
	}
	if !c.constant {
		c.stopped(w.End, held)
	}
	return d.stop(held, v)
}

func (c *staged) remember(w *measure.Window, rate float64) {
	if c.constant {
		return
	}
	if !c.periods[0].Connections {
		if n := len(c.loads); n == 0 || c.loads[n-1].load != rate {
			c.loads = append(c.loads, passed{w.Start, rate})
		}
		return
	}
	keep := time.Minute
	for _, s := range c.until {
		keep = max(keep, s.For+time.Minute)
	}
	c.served = append(c.served, passed{w.Start, float64(w.Served) / (w.End - w.Start).Seconds()})
	for c.served[0].start < w.End-keep {
		c.served = c.served[1:]
	}
}

// stopped notes the ceiling. A condition's figure is that of a second: what was sustained is the load of
// before the second in which the condition began to hold, and if that was the same load, the one before it.
func (c *staged) stopped(now time.Duration, held *Condition) {
	began, ok := c.watch.Began()
	if !ok {
		began = now
	}
	ceiling := Ceiling{Seconds: (now - c.clock.begin).Seconds(), Converged: true, Limit: held.Signal()}
	if c.periods[0].Connections {
		var n int
		for _, p := range c.served {
			if p.start >= began-2*span && p.start < began-span {
				ceiling.Rate += p.load
				n++
			}
		}
		ceiling.Rate /= float64(max(1, n))
		ceiling.Low, ceiling.High = ceiling.Rate, ceiling.Rate
	} else {
		for _, p := range c.loads {
			if p.start < began-span {
				ceiling.Low = p.load
			}
			if p.start < began {
				ceiling.High = p.load
			}
		}
		if ceiling.Low >= ceiling.High {
			ceiling.Low = 0
			for _, p := range c.loads {
				if p.start < began && p.load < ceiling.High {
					ceiling.Low = p.load
				}
			}
		}
		ceiling.Rate = ceiling.Low
	}
	c.ceiling = &ceiling
}

func (c *staged) over() bool {
	var length time.Duration
	for _, s := range c.periods {
		length += s.For
	}
	return c.periods[len(c.periods)-1].For > 0 && c.clock.lasts >= length
}

// at returns the load from the time t of the run on.
func (c *staged) at(t time.Duration) Decision {
	i := 0
	for ; i < len(c.periods)-1 && t >= c.periods[i].For; i++ {
		t -= c.periods[i].For
	}
	s := &c.periods[i]
	load := s.To
	if s.From != s.To {
		load = s.From + (s.To-s.From)*min(1, t.Seconds()/s.For.Seconds())
	}
	d := Decision{Phase: s.phase, Measured: s.measured}
	if s.Connections {
		d.Connections = max(1, int(math.Round(load)))
	} else {
		d.Rate = load
	}
	return d
}

// SetRate changes a constant load. Else the stages say what the load is.
func (c *staged) SetRate(rate float64) error {
	if !c.constant {
		return errors.New(
			"a classic run follows its stages; change the rate of a constant or an adaptive one")
	}
	if err := checkRate(rate); err != nil {
		return err
	}
	if c.periods[0].Connections {
		if rate > MaxConnections {
			return fmt.Errorf("a load is at most %d connections, got %s", MaxConnections, number(rate))
		}
		rate = max(1, math.Round(rate))
	}
	for i := range c.periods {
		if c.periods[i].From > 0 { // else it rises from nothing
			c.periods[i].From = rate
		}
		c.periods[i].To = rate
	}
	return nil
}

func checkRate(rate float64) error {
	if !(rate > 0) || rate > MaxRate {
		return fmt.Errorf("a load is above 0 and at most %s, got %s", number(MaxRate), number(rate))
	}
	return nil
}

// Ceiling is known once a condition has stopped the run.
func (c *staged) Ceiling() (Ceiling, bool) {
	if c.ceiling == nil {
		return Ceiling{}, false
	}
	return *c.ceiling, true
}

// clock tells how long a run lasts, from the windows alone.
type clock struct {
	started bool
	begin   time.Duration
	lasts   time.Duration // by the end of the last window
	now     time.Duration // the middle of the next window, for which a decision is made
}

func (c *clock) see(w *measure.Window) {
	if !c.started {
		c.started, c.begin = true, w.Start
	}
	c.lasts = w.End - c.begin
	c.now = c.lasts + (w.End-w.Start)/2
}

// usualWindow is how long windows are before one was seen.
const usualWindow = 100 * time.Millisecond

// stop ends a run for a condition.
func (d Decision) stop(c *Condition, v Verdict) Decision {
	d.Done = true
	d.Reason = fmt.Sprintf("%s: it was %s", c, c.Say(v.Value))
	return d
}

// round keeps four digits, as many as people read.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
