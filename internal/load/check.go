package load

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"weir/internal/load/access"
	"weir/internal/load/client"
	"weir/internal/load/control"
	"weir/internal/load/scenario"
)

// lengths are how long runs are when their plans do not say. limits is of a search with limits on latency of
// a person's, which it confirms by holding loads. A quick search ends as soon as it has found the ceiling.
var lengths = map[string]struct{ run, search, limits time.Duration }{
	"quick":   {10 * time.Second, 30 * time.Second, 60 * time.Second},
	"normal":  {30 * time.Second, 60 * time.Second, 90 * time.Second},
	"careful": {2 * time.Minute, 3 * time.Minute, 4 * time.Minute},
}

// within refuses what is outside of the field's bounds, or not among its options.
func (f *Field) within(p *Plan) error {
	var n int64
	switch v := p.member(f).(type) {
	case *int:
		n = int64(*v)
	case *uint64:
		n = int64(min(*v, math.MaxInt64))
		if *v > math.MaxInt64 && f.Most > 0 {
			return fmt.Errorf("--%s must be at most %d, got %d", f.Flag, f.Most, *v)
		}
	case *Duration:
		if *v < 0 {
			return fmt.Errorf("--%s must not be negative, got %v", f.Flag, *v)
		}
	case *string:
		among := f.Options == nil || f.Name == "scenario" || *v == "" && f.Name != "mode"
		var values []string
		for _, o := range f.Options {
			values = append(values, o[0])
			among = among || *v == o[0]
		}
		if !among {
			return fmt.Errorf("--%s takes %s, got %q", f.Flag, strings.Join(values, ", "), *v)
		}
	}
	if f.Most > 0 && n != 0 && (n < f.Least || n > f.Most) {
		return fmt.Errorf("--%s must be from %d to %d, got %d", f.Flag, f.Least, f.Most, n)
	}
	return nil
}

// check refuses what is out of bounds or contradicts itself. What depends on what is asked for is scenario's
// to check.
func (p *Plan) check() error {
	for i := range Fields {
		if err := Fields[i].within(p); err != nil {
			return err
		}
	}
	closed := p.closed()
	switch {
	case p.Timeout == 0:
		return errors.New("--timeout must be more than 0s: a request has to be given up at some time")
	case closed && client.Arrivals(p.Arrivals) == client.Poisson:
		return errors.New("--arrivals poisson is of the open model: in the closed one requests are sent " +
			"when answers come; leave it out, or give a --rate")
	case p.Rate != "" && p.Connections > 0:
		return errors.New("--rate is of the open model and --connections of the closed one: leave one of " +
			"them out; how many connections the open model may use is --max-connections")
	case p.Pipeline > 1 && !closed:
		return errors.New("--pipeline is of the closed model: give --connections")
	case (p.Stages != "") != (p.Mode == "classic"):
		return fmt.Errorf("--stages are for --mode classic, which needs them, and this is --mode %s", p.Mode)
	case p.Stages != "" && (p.Rate != "" || p.Connections > 0):
		return errors.New(
			"--stages say the rate or the connections themselves: leave --rate and --connections out")
	case p.Stages != "" && (p.Duration > 0 || p.Ramp > 0):
		return errors.New("--stages say how long each of them is: leave --duration and --ramp out")
	case p.Mode == "adaptive" && closed:
		return errors.New("--mode adaptive searches for a rate, and the closed model has none: leave " +
			"--connections out")
	case p.Mode == "adaptive" && p.Ramp > 0:
		return errors.New("--mode adaptive finds its own way up: leave --ramp out; where it begins is --rate")
	case p.Mode != "adaptive" && len(p.Healthy) > 0:
		return fmt.Errorf(
			"--healthy-when is what --mode adaptive keeps true; to end a %s run use --stop-when", p.Mode)
	case closed && p.Every > 0:
		return errors.New("--every makes a rate, and the closed model has none: leave --connections or " +
			"--every out")
	case p.Rate != "" && !strings.HasSuffix(p.Rate, "x") && p.Every > 0 && p.Mode != "adaptive":
		return errors.New("--rate and --every both say how much: leave one of them out, or give a multiple " +
			"like --rate 60x")
	}
	for _, a := range p.Agents {
		if err := access.CheckAgent(a); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) closed() bool {
	if p.Connections > 0 {
		return true
	}
	stages, err := control.ParseStages(p.Stages, 1)
	return err == nil && len(stages) > 0 && stages[0].Connections
}

// spec is the part of a plan that says what is asked for, with its files read.
func (p *Plan) spec() (scenario.Spec, error) {
	s := p.Spec
	s.Every, s.Timeout = time.Duration(p.Every), time.Duration(p.Timeout)
	return s, s.ReadFiles()
}

// client is the part of a plan that says how requests are made.
func (p *Plan) client(targets []client.Target) client.Options {
	o := client.Options{
		Targets: targets, Closed: p.closed(), Connections: p.Connections, Pipeline: p.Pipeline,
		MaxConnections: p.MaxConnections, Warm: p.Warm,
		Arrivals: client.Arrivals(p.Arrivals), Timeout: time.Duration(p.Timeout), Threads: p.Threads,
		HTTP2: p.HTTP2, Insecure: p.Insecure, Seed: p.Seed,
	}
	if o.Closed && o.Connections == 0 {
		o.Connections = 1 // the stages say how many
	}
	return o
}

// conditions reads a flag's conditions, which have to be about something that the run will know.
func (p *Plan) conditions(flag string, text []string) ([]control.Condition, error) {
	all, err := control.ParseConditions(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	for i := range all {
		if c := &all[i]; c.OfTarget() && p.TargetMetrics == "" {
			return nil, fmt.Errorf("%s: %s needs --target-metrics, the URL where the target says it: "+
				"http://127.0.0.1:8081/metrics of weir", flag, c)
		}
	}
	return all, nil
}

// verdicts reads the conditions that fail a run.
func (p *Plan) verdicts() ([]control.Condition, error) {
	const flag = "--fail-when"
	all, err := p.conditions(flag, p.FailWhen)
	for i := range all {
		if c := &all[i]; c.For > 0 {
			return nil, fmt.Errorf("%s: %s: it looks at the whole run, so leave out \"for\"; what ends a "+
				"run early is --stop-when", flag, c)
		}
	}
	return all, err
}

// rate is the rate of an open model, 0 when the plan says none. natural is what its users make by themselves.
func (p *Plan) rate(natural float64) (float64, error) {
	switch {
	case p.Rate != "":
		rate, err := control.ParseRate(p.Rate, natural)
		if err != nil {
			err = fmt.Errorf("--rate: %w", err)
		}
		return rate, err
	case p.closed():
		return 0, nil // readers of feeds come by themselves, but here as often as they are answered
	case natural > control.MaxRate:
		return 0, fmt.Errorf("--every %v is %.4g requests a second for all --users together, and at most "+
			"%.0f can be made", time.Duration(p.Every), natural, control.MaxRate)
	}
	return natural, nil
}

// controller returns what steers the run. natural is the rate that its users make by themselves, 0 for none.
func (p *Plan) controller(natural float64) (control.Controller, error) {
	stop, err := p.conditions("--stop-when", p.StopWhen)
	if err != nil {
		return nil, err
	}
	rate, err := p.rate(natural)
	if err != nil {
		return nil, err
	}
	warmup := time.Duration(p.Warmup)
	switch p.Mode {
	case "adaptive":
		healthy, err := p.conditions("--healthy-when", p.Healthy)
		if err != nil {
			return nil, err
		}
		preset := control.Preset(p.Preset)
		return control.Adaptive(control.AdaptiveOptions{
			Start: rate, Healthy: healthy, Warmup: warmup, Duration: warmup + p.Length(), StopWhen: stop,
			Preset: preset, UntilFound: preset == control.Quick && p.Duration == 0,
			Random: client.Arrivals(p.Arrivals) == client.Poisson,
		}), nil
	case "classic":
		stages, err := control.ParseStages(p.Stages, natural)
		if err != nil {
			return nil, fmt.Errorf("--stages: %w", err)
		}
		return control.Classic(stages, warmup, stop), nil
	}
	if rate == 0 && p.Connections == 0 {
		return nil, errors.New("say how much: --rate 5000/s, --connections 64, --users 5000 --every 5m, " +
			"--mode classic with --stages 1000/s:30s,2000/s:30s, or --mode adaptive to find out what the " +
			"target sustains")
	}
	return control.Constant(control.ConstantOptions{
		Rate: rate, Connections: p.Connections, Ramp: time.Duration(p.Ramp), Warmup: warmup,
		Duration: p.Length(), StopWhen: stop,
	}), nil
}

// Whole is how long the run is, with warm-up and ramp.
func (p *Plan) Whole() time.Duration { return time.Duration(p.Warmup+p.Ramp) + p.Length() }

// Length is how long the run is, warm-up and ramp not counted.
func (p *Plan) Length() time.Duration {
	if p.Stages != "" {
		stages, _ := control.ParseStages(p.Stages, 1) // an error is told elsewhere
		var sum time.Duration
		for _, s := range stages {
			sum += s.For
		}
		return sum
	}
	usual := lengths[cmp.Or(p.Preset, "normal")]
	switch {
	case p.Duration > 0:
		return time.Duration(p.Duration)
	case p.Mode == "adaptive" && len(p.Healthy) > 0:
		return usual.limits
	case p.Mode == "adaptive":
		return usual.search
	}
	return usual.run
}
