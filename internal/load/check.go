package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/load/access"
	"weir/internal/load/client"
	"weir/internal/load/control"
	"weir/internal/load/scenario"
)

// How long a run is when its plan does not say.
const (
	usualDuration = 30 * time.Second
	usualSearch   = 60 * time.Second // of a search
	strictSearch  = 90 * time.Second // of one with limits of a person's, which it confirms by holding loads
)

// check refuses what contradicts itself. What is asked for is scenario's to check.
func (p *Plan) check() error {
	if !slices.Contains(Modes, p.Mode) {
		return fmt.Errorf("--mode takes %s, got %q", strings.Join(Modes, ", "), p.Mode)
	}
	for _, d := range []struct {
		flag  string
		value Duration
	}{
		{"--duration", p.Duration}, {"--warmup", p.Warmup}, {"--ramp", p.Ramp}, {"--timeout", p.Timeout},
		{"--every", p.Every},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s must not be negative, got %v", d.flag, time.Duration(d.value))
		}
	}
	if a := client.Arrivals(p.Arrivals); a != "" && a != client.Constant && a != client.Poisson {
		return fmt.Errorf("--arrivals takes %s or %s, got %q", client.Constant, client.Poisson, p.Arrivals)
	}
	for _, n := range []struct {
		flag  string
		value int
	}{
		{"--connections", p.Connections}, {"--pipeline", p.Pipeline}, {"--max-connections", p.MaxConnections},
		{"--warm", p.Warm}, {"--threads", p.Threads},
	} {
		if n.value < 0 {
			return fmt.Errorf("%s must not be negative, got %d", n.flag, n.value)
		}
	}
	closed := p.closed()
	switch {
	case p.Timeout == 0:
		return errors.New("--timeout must be more than 0s: a request has to be given up at some time")
	case closed && client.Arrivals(p.Arrivals) == client.Poisson:
		return errors.New("--arrivals poisson is of the open model: in the closed one requests are sent " +
			"when answers come; leave it out, or give a --rate")
	case p.Connections > control.MaxConnections:
		return fmt.Errorf("--connections must be at most %d, got %d", control.MaxConnections, p.Connections)
	case p.Rate != "" && p.Connections > 0:
		return errors.New("--rate is of the open model and --connections of the closed one: leave one of " +
			"them out; how many connections the open model may use is --max-connections")
	case p.Pipeline > 1 && !closed:
		return errors.New("--pipeline is of the closed model: give --connections")
	case p.Stages != "" && p.Mode != "classic":
		return fmt.Errorf("--stages are for --mode classic, not %s", p.Mode)
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

// closed says whether the plan is of the closed model.
func (p *Plan) closed() bool {
	if p.Connections > 0 {
		return true
	}
	stages, err := control.ParseStages(p.Stages, 1)
	return err == nil && len(stages) > 0 && stages[0].Connections
}

// spec is the part of a plan that says what is asked for, with its files read.
func (p *Plan) spec() (scenario.Spec, error) {
	s := scenario.Spec{
		URL: p.URL, Method: p.Method, Body: p.Body, Headers: p.Headers, Scenario: p.Scenario,
		Target: p.Target,
		Users:  p.Users, FirstUser: p.FirstUser, Every: time.Duration(p.Every),
		Items: p.Items, MaxItem: p.MaxItem, MaxIndex: p.MaxIndex,
		Feeds: p.Feeds, FeedPool: p.FeedPool, FeedURL: p.FeedURL, FeedURLs: p.FeedURLs,
		Requests: p.Requests, Vars: p.Vars, VarsOrder: p.VarsOrder,
		Seed: p.Seed, Insecure: p.Insecure, HTTP2: p.HTTP2, Timeout: time.Duration(p.Timeout),
	}
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
	warmup, ramp := time.Duration(p.Warmup), time.Duration(p.Ramp)
	if p.Mode == "adaptive" {
		healthy, err := p.conditions("--healthy-when", p.Healthy)
		if err != nil {
			return nil, err
		}
		return control.Adaptive(control.AdaptiveOptions{
			Start: rate, Healthy: healthy, Warmup: warmup, Duration: warmup + p.Length(), StopWhen: stop,
			Random: client.Arrivals(p.Arrivals) == client.Poisson,
		}), nil
	}
	if rate == 0 && p.Connections == 0 && p.Stages == "" {
		return nil, errors.New("say how much: --rate 5000/s, --connections 64, --users 5000 --every 5m, " +
			"--mode classic with --stages 1000/s:30s,2000/s:30s, or --mode adaptive to find out what the " +
			"target sustains")
	}
	o := control.StagedOptions{
		Rate: rate, Connections: p.Connections, Ramp: ramp, Warmup: warmup, Duration: p.Length(),
		StopWhen: stop,
	}
	if p.Mode == "constant" {
		return control.Constant(o), nil
	}
	if p.Stages != "" {
		if o.Stages, err = control.ParseStages(p.Stages, natural); err != nil {
			return nil, fmt.Errorf("--stages: %w", err)
		}
	}
	return control.Classic(o), nil
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
	switch {
	case p.Duration > 0:
		return time.Duration(p.Duration)
	case p.Mode == "adaptive" && len(p.Healthy) > 0:
		return strictSearch
	case p.Mode == "adaptive":
		return usualSearch
	}
	return usualDuration
}
