// Package load finds where a box breaks: it makes requests by a plan, measures what comes of them, and
// steers by that.
//
// A Run is a loop of windows of a tenth of a second. In each of them a generator - an engine in this
// process, or a fleet of them on other machines - tells what it measured, a controller decides how much
// load comes next, and a recorder keeps what the result needs.
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"weir/internal/load/agent"
	"weir/internal/load/client"
	"weir/internal/load/control"
	"weir/internal/load/measure"
	"weir/internal/load/report"
	"weir/internal/load/scenario"
)

// Interval is how long a window is.
const Interval = 100 * time.Millisecond

// Run is one run of a plan. Its methods may be called by any goroutine.
type Run struct {
	plan      Plan
	scenario  *scenario.Scenario
	engine    client.Options
	control   control.Controller
	fail      []control.Condition
	target    *watcher
	token     string
	observe   func(*measure.Window, report.Point)
	start     func(context.Context) (agent.Engine, error)
	rateAsked chan rateAsked
	ended     chan struct{} // closed once the load is over

	points chan report.Point // for Watch

	recorder *report.Recorder
}

// rateAsked is a person's wish for another rate, and where its answer goes.
type rateAsked struct {
	rate  float64
	reply chan error
}

// Options are what a run needs besides its plan.
type Options struct {
	// Token is what agents want to see.
	Token string
	// Observe is told of every window, if it is not nil. It must not keep the window.
	Observe func(*measure.Window, report.Point)
}

// PlanError is about a plan that cannot be: nothing was asked of the target yet.
type PlanError struct{ err error }

func (e *PlanError) Error() string { return e.err.Error() }
func (e *PlanError) Unwrap() error { return e.err }

// ErrNotOwned is wrapped by the error about a plan whose load would go to a host that is not named as one's
// own.
var ErrNotOwned = client.ErrNotOwned

// New checks all of a plan: it reads its files, looks its targets up, and asks each of them and of its
// agents once. There is no load before Do. Errors say what to change; those that the plan itself is the
// reason of are PlanErrors.
func New(ctx context.Context, p Plan, o Options) (*Run, error) {
	if err := p.check(); err != nil {
		return nil, &PlanError{err}
	}
	spec, err := p.spec()
	if err != nil {
		return nil, &PlanError{err}
	}
	r := &Run{
		plan: p, token: o.Token, observe: o.Observe, rateAsked: make(chan rateAsked),
		ended: make(chan struct{}), points: make(chan report.Point, 64),
	}
	if r.scenario, err = scenario.Open(ctx, spec, p.Own); err != nil {
		if _, lookup := errors.AsType[*net.DNSError](err); lookup {
			return nil, err // the plan may be right, and the network not
		}
		return nil, &PlanError{err}
	}
	if r.control, err = p.controller(r.scenario.Rate()); err != nil {
		return nil, &PlanError{err}
	}
	if r.fail, err = p.verdicts(); err != nil {
		return nil, &PlanError{err}
	}
	r.engine = p.client(r.scenario.Targets())
	r.engine.Whole = r.scenario.Judges()
	if p.TargetMetrics != "" {
		if r.target, err = watchTarget(ctx, p.TargetMetrics); err != nil {
			return nil, err
		}
	}
	if len(p.Agents) > 0 {
		if err := agent.Ask(ctx, p.Agents, o.Token); err != nil {
			return nil, err
		}
	}
	if !p.NoCheck {
		if err := r.scenario.Check(ctx); err != nil {
			if ctx.Err() == nil {
				err = withoutCheck(err, len(p.Agents) > 0)
			}
			return nil, err
		}
	}
	r.start = r.generate
	_, search := r.control.(control.Searcher)
	r.recorder = report.NewRecorder(report.RecorderOptions{
		Name: p.Name, Plan: p, Started: time.Now(), Runners: max(1, len(p.Agents)),
		Natural: r.scenario.Rate(), Parts: r.scenario.Parts(), Search: search && p.Mode == "adaptive",
		TargetMetrics: r.target != nil,
	})
	return r, nil
}

// withoutCheck adds how to do without the check that found err, where that helps: engines have to connect
// too, but agents do that where they are.
func withoutCheck(err error, agents bool) error {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		if !agents {
			return err
		}
		return fmt.Errorf("%w (asked from here; --no-check leaves that to the agents)", err)
	}
	return fmt.Errorf("%w (--no-check begins without asking)", err)
}

// String says in a line what the run asks for.
func (r *Run) String() string { return r.scenario.String() }

// Load is what its plan sets: requests a second or connections of a constant load, 0 where nothing is set.
func (r *Run) Load() float64 {
	if r.plan.Mode != "constant" {
		return 0
	}
	if r.plan.Connections > 0 {
		return float64(r.plan.Connections)
	}
	rate, _ := r.plan.rate(r.scenario.Rate()) // New has refused what cannot be
	return rate
}

// Do makes the load, until the plan's time is over, a condition ends it, or ctx is done; then the result
// has what there is. It may be called once. An error, which a search also ends with when its target is
// gone, comes with what was measured until then, or with nil before the first window.
func (r *Run) Do(ctx context.Context) (*report.Result, error) {
	defer close(r.points)
	load, err := r.start(ctx)
	if err != nil {
		close(r.ended)
		return nil, err
	}
	if r.target != nil {
		r.target.begin(ctx)
	}
	d := r.control.Begin()
	began := time.Now()
	if !r.engine.Closed {
		err = load.SetEnd(r.plan.Whole())
	}
	if err == nil {
		err = steer(load, control.Decision{}, d)
	}
	if err == nil {
		d, err = r.loop(ctx, load, d, began)
	}
	close(r.ended)
	target := r.target.end(context.WithoutCancel(ctx))
	// What is on its way is awaited, and counts.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.engine.Timeout+time.Second)
	defer cancel()
	err = errors.Join(err, load.Close(closing))
	last := measure.NewWindow()
	if load.Collect(last) == nil {
		r.recorder.Drain(last)
	}
	result, resultErr := r.recorder.Result()
	if resultErr != nil {
		return nil, errors.Join(err, resultErr)
	}
	result.Reason = d.Reason
	switch {
	case err != nil:
		result.Reason = err.Error()
	case !d.Done:
		result.Reason = "it was stopped"
	}
	r.judge(result, target)
	return result, err
}

// generate starts the generator: here, or on the plan's agents.
func (r *Run) generate(ctx context.Context) (agent.Engine, error) {
	if len(r.plan.Agents) > 0 {
		return agent.Dial(ctx, r.plan.Agents, r.token, r.scenario.Spec(), r.engine)
	}
	return client.Start(ctx, r.engine, r.scenario.Source)
}

// loop goes from window to window until the load, which began at a time, is to end, and returns the last
// decision. The last window ends when the plan does, even if this program is late. No window is much
// shorter than an interval, as those between a late tick and the next one would be.
func (r *Run) loop(ctx context.Context, load agent.Engine, d control.Decision,
	began time.Time) (control.Decision, error) {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	whole := r.plan.Whole()
	end := time.NewTimer(whole - time.Since(began))
	defer end.Stop()
	stop, stopped, over, last := ctx.Done(), false, false, began
	var limit time.Duration // the end by the windows' clock
	w := measure.NewWindow()
	for {
		select {
		case <-stop:
			stop, stopped = nil, true // what is sent until the window ends counts, and so its time has to
			continue
		case asked := <-r.rateAsked:
			err := r.control.SetRate(asked.rate)
			if err == nil {
				r.recorder.Changed(time.Since(began).Seconds(), asked.rate)
			}
			asked.reply <- err
			continue
		case <-end.C:
			over = true
		case <-tick.C:
			if time.Since(last) < Interval/2 || whole-time.Since(began) < Interval/2 {
				continue
			}
		}
		w.Reset()
		if err := load.Collect(w); err != nil {
			return d, err
		}
		last = time.Now()
		if limit == 0 {
			limit = w.Start + whole
		}
		w.End = min(w.End, limit)
		w.Target = r.target.target()
		next := r.control.Next(w)
		r.publish(w, d)
		if next.Done || over {
			d.Done, d.Reason = true, next.Reason
			if next.Failed {
				return d, errors.New(next.Reason)
			}
			return d, nil
		}
		if err := steer(load, d, next); err != nil {
			return d, err
		}
		d = next
		if stopped {
			return d, nil
		}
	}
}

func steer(load agent.Engine, from, to control.Decision) error {
	if to.Connections != from.Connections {
		if err := load.SetConnections(to.Connections); err != nil {
			return err
		}
	}
	if to.Rate != from.Rate {
		return load.SetRate(to.Rate)
	}
	return nil
}

// publish records a window that d was the decision for, and shows it to whoever watches.
func (r *Run) publish(w *measure.Window, d control.Decision) {
	point := r.recorder.Add(w, d, r.ceiling())
	if r.observe != nil {
		r.observe(w, point)
	}
	select {
	case r.points <- point:
	default: // who watches is slow, and misses some
	}
}

// ceiling returns what is known of the ceiling, nil for nothing.
func (r *Run) ceiling() *control.Ceiling {
	s, searches := r.control.(control.Searcher)
	if !searches {
		return nil
	}
	c, known := s.Ceiling()
	if !known {
		return nil
	}
	return &c
}

// judge writes what only the whole run shows into its result. target is what was read of it last.
func (r *Run) judge(result *report.Result, target measure.Target) {
	result.Ceiling = r.ceiling()
	total := measure.NewWindow()
	r.recorder.Total(total)
	if math.IsNaN(total.Target.CPU) {
		total.Target.CPU = target.CPU
	}
	if math.IsNaN(total.Target.Memory) {
		total.Target.Memory = target.Memory
	}
	for i := range r.fail {
		c := &r.fail[i]
		v := c.Judge(total)
		got := "not known: nothing was to be sent"
		if c.OfTarget() {
			got = "not known: the target's metrics did not say"
		}
		if v.Known {
			got = c.Say(v.Value)
		}
		result.Verdicts = append(result.Verdicts, report.Verdict{Condition: c.String(), Value: v.Value,
			Got: got, Failed: v.Holds || !v.Known})
	}
}

// ErrNoLoad says that a run has not begun, or is over.
var ErrNoLoad = errors.New("there is no load now whose rate could be changed")

// SetRate changes the load of a run under way, in requests a second; of the closed model, in connections.
// It waits until the controller has agreed, or ctx is done.
func (r *Run) SetRate(ctx context.Context, rate float64) error {
	asked := rateAsked{rate, make(chan error, 1)}
	select {
	case r.rateAsked <- asked:
		return <-asked.reply
	case <-r.ended:
		return ErrNoLoad
	case <-ctx.Done():
		return ErrNoLoad
	}
}

// Watch returns the points as they come, for one reader, until the run ends, which closes them. Who is slow
// misses some.
func (r *Run) Watch() <-chan report.Point { return r.points }

// Latency is that of all that was measured so far.
func (r *Run) Latency() report.Latency { return r.recorder.Latency() }

// Points returns the points so far; where a run was long, neighbours are merged.
func (r *Run) Points() []report.Point { return r.recorder.Points() }
