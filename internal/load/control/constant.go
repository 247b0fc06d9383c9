package control

import (
	"fmt"
	"math"
	"time"

	"weir/internal/load/measure"
)

// ConstantOptions say how much a constant load is. Rate is for the open model, Connections for the closed
// one; one of them is 0. The load first rises evenly for Ramp, then stays for Warmup, neither of which is
// measured, then for Duration, which is; Duration 0 has no end. The run ends when one of StopWhen holds.
type ConstantOptions struct {
	Rate                   float64
	Connections            int
	Ramp, Warmup, Duration time.Duration
	StopWhen               []Condition
	Limits                 Limits
}

// Constant returns a Controller of a load that stays the same.
func Constant(o ConstantOptions) Controller {
	return &constant{o: o, watch: NewWatch(o.StopWhen)}
}

type constant struct {
	o     ConstantOptions
	watch *Watch
	clock clock
}

func (c *constant) Begin() Decision { return c.at(usualWindow / 2) }

func (c *constant) Next(w *measure.Window) Decision {
	before := c.at(max(c.clock.now, usualWindow/2))
	c.clock.see(w)
	d := c.at(c.clock.now)
	d.Done = c.o.Duration > 0 && c.clock.over(c.o.Ramp+c.o.Warmup+c.o.Duration)
	if before.Measured {
		if held, v := c.watch.Next(w); held != nil {
			return d.stop(held, v)
		}
	}
	return d
}

// at returns the load from the time t of the run on.
func (c *constant) at(t time.Duration) Decision {
	d := Decision{Rate: c.o.Rate, Connections: c.o.Connections, Phase: "steady", Measured: true}
	switch {
	case t < c.o.Ramp:
		share := t.Seconds() / c.o.Ramp.Seconds()
		d.Rate *= share
		d.Connections = int(math.Ceil(float64(d.Connections) * share))
		d.Phase, d.Measured = "ramp", false
	case t < c.o.Ramp+c.o.Warmup:
		d.Phase, d.Measured = "warmup", false
	}
	return d.within(c.o.Limits)
}

func (c *constant) SetRate(rate float64) error {
	if err := checkRate(rate, c.o.Limits); err != nil {
		return err
	}
	if c.o.Connections > 0 {
		if rate > MaxConnections {
			return fmt.Errorf("a load is at most %d connections, got %s", MaxConnections, number(rate))
		}
		c.o.Connections = max(1, int(math.Round(rate)))
		return nil
	}
	c.o.Rate = rate
	return nil
}

// checkRate says what is wrong with a rate that a person wishes.
func checkRate(rate float64, l Limits) error {
	if !(rate > 0) || rate > MaxRate {
		return fmt.Errorf("a load is above 0 and at most %s, got %s", number(MaxRate), number(rate))
	}
	if l.Max > 0 && rate > l.Max {
		return fmt.Errorf("%s/s is above the most that this run may make, %s/s", number(rate), number(l.Max))
	}
	return nil
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

// over says whether a run that is so long is over.
func (c *clock) over(length time.Duration) bool { return c.lasts >= length }

// usualWindow is how long windows are before one was seen.
const usualWindow = 100 * time.Millisecond

// within keeps a decision's rate within the limits.
func (d Decision) within(l Limits) Decision {
	if d.Rate > 0 && l.Max > 0 {
		d.Rate = min(d.Rate, l.Max)
	}
	if d.Rate > 0 {
		d.Rate = max(d.Rate, l.Min)
	}
	return d
}

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
