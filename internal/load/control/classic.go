package control

import (
	"errors"
	"math"
	"time"

	"weir/internal/load/measure"
)

// ClassicOptions say which loads follow each other. Without Stages there are two: evenly from nothing to
// Rate or Connections for Ramp, then that for Duration. Warmup comes before, at the load that the first
// stage begins with (a tenth of what it leads to, if that is nothing), and is not measured; the stages are.
type ClassicOptions struct {
	Rate                   float64
	Connections            int
	Ramp, Warmup, Duration time.Duration
	Stages                 []Stage
	StopWhen               []Condition
	Limits                 Limits
}

// Classic returns a Controller that goes through stages and stops where a condition says so. That is a
// ceiling of sorts: Low is the load before the condition began to hold, High the one when it did, Rate is
// Low.
func Classic(o ClassicOptions) Searcher {
	stages := o.Stages
	if len(stages) == 0 {
		load, connections := o.Rate, false
		if o.Connections > 0 {
			load, connections = float64(o.Connections), true
		}
		if o.Ramp > 0 {
			stages = append(stages, Stage{To: load, Connections: connections, For: o.Ramp})
		}
		if o.Duration > 0 || o.Ramp == 0 {
			stages = append(stages, Stage{From: load, To: load, Connections: connections, For: o.Duration})
		}
	}
	c := &classic{o: o, stages: stages, watch: NewWatch(o.StopWhen)}
	if stages[len(stages)-1].For > 0 {
		c.length = o.Warmup
		for _, s := range stages {
			c.length += s.For
		}
	}
	return c
}

type classic struct {
	o       ClassicOptions
	stages  []Stage
	length  time.Duration // with the warm-up; 0 has no end
	watch   *Watch
	clock   clock
	loads   []passed // of the open model, every one that differs from the one before
	served  []passed // of the closed model, each window of late
	ceiling *Ceiling
}

// passed is a load that began at a time, in requests a second.
type passed struct {
	start time.Duration
	load  float64
}

func (c *classic) Begin() Decision { return c.at(usualWindow / 2) }

func (c *classic) Next(w *measure.Window) Decision {
	before := c.at(max(c.clock.now, usualWindow/2))
	c.clock.see(w)
	d := c.at(c.clock.now)
	d.Done = c.length > 0 && c.clock.over(c.length)
	if !before.Measured {
		return d
	}
	c.remember(w, before.Rate)
	held, v := c.watch.Next(w)
	if held == nil {
		return d
	}
	c.stopped(w.End, held)
	return d.stop(held, v)
}

func (c *classic) remember(w *measure.Window, rate float64) {
	if !c.stages[0].Connections {
		if n := len(c.loads); n == 0 || c.loads[n-1].load != rate {
			c.loads = append(c.loads, passed{w.Start, rate})
		}
		return
	}
	keep := time.Minute
	for _, s := range c.o.StopWhen {
		keep = max(keep, s.For+time.Minute)
	}
	c.served = append(c.served, passed{w.Start, float64(w.Served) / (w.End - w.Start).Seconds()})
	for c.served[0].start < w.End-keep {
		c.served = c.served[1:]
	}
}

// stopped notes the ceiling. A condition's figure is that of a second: what was sustained is the load of
// before the second in which the condition began to hold, and if that was the same load, the one before it.
func (c *classic) stopped(now time.Duration, held *Condition) {
	began, ok := c.watch.Began()
	if !ok {
		began = now
	}
	ceiling := Ceiling{Seconds: (now - c.clock.begin).Seconds(), Converged: true, Limit: held.Signal()}
	if c.stages[0].Connections {
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

// at returns the load from the time t of the run on.
func (c *classic) at(t time.Duration) Decision {
	if t < c.o.Warmup {
		s := c.stages[0]
		load := s.From
		if load == 0 {
			load = s.To / 10
		}
		return c.decide(s, load, "warmup", false)
	}
	t -= c.o.Warmup
	for i, s := range c.stages {
		endless := s.For == 0 && i == len(c.stages)-1
		if t < s.For || endless {
			load, phase := s.To, "steady"
			if s.From != s.To {
				load = s.From + (s.To-s.From)*min(1, t.Seconds()/s.For.Seconds())
				phase = "ramp"
			}
			return c.decide(s, load, phase, true)
		}
		t -= s.For
	}
	last := c.stages[len(c.stages)-1]
	return c.decide(last, last.To, "steady", true)
}

func (c *classic) decide(s Stage, load float64, phase string, measured bool) Decision {
	d := Decision{Phase: phase, Measured: measured}
	if s.Connections {
		d.Connections = max(1, int(math.Round(load)))
	} else {
		d.Rate = load
	}
	return d.within(c.o.Limits)
}

// SetRate refuses: the stages say what the load is.
func (c *classic) SetRate(float64) error {
	return errors.New("a classic run follows its stages; change the rate of a constant or an adaptive one")
}

// Ceiling is known once a condition has stopped the run.
func (c *classic) Ceiling() (Ceiling, bool) {
	if c.ceiling == nil {
		return Ceiling{}, false
	}
	return *c.ceiling, true
}
