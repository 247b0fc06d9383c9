package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"weir/internal/load"
	"weir/internal/load/control"
	"weir/internal/load/measure"
	"weir/internal/load/report"
)

// fakeRun is a Runner without a target: a model of one that sustains 4000 requests a second.
type fakeRun struct {
	plan  load.Plan
	tick  time.Duration // of real time a window of 100 ms
	steps <-chan time.Time

	mu     sync.Mutex
	rate   float64
	points []report.Point
	seen   chan report.Point
}

const fakeCeiling = 4000

func newFake(plan load.Plan, tick time.Duration) *fakeRun {
	f := &fakeRun{plan: plan, tick: tick, rate: 1000, seen: make(chan report.Point, 64)}
	fmt.Sscanf(plan.Rate, "%g", &f.rate) //nolint:errcheck // then it is 1000
	return f
}

func (f *fakeRun) String() string { return "GET " + f.plan.URL }

func (f *fakeRun) Load() float64 {
	if f.plan.Mode != "constant" {
		return 0
	}
	return f.rate
}

func (f *fakeRun) SetRate(_ context.Context, rate float64) error {
	if rate > 1e6 {
		return errors.New("a rate is at most 1000000/s")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
	return nil
}

func (f *fakeRun) Watch() <-chan report.Point { return f.seen }

func (f *fakeRun) Latency() report.Latency { return report.Latency{Max: 9000, P50: 1230, P99: 4560} }

func (f *fakeRun) Points() []report.Point {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]report.Point(nil), f.points...)
}

// point is the next window's.
func (f *fakeRun) point(n int) report.Point {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := float64(n+1) / 10
	p := report.Point{At: t, Seconds: 0.1, Phase: "steady", Measured: true, Connections: 64}
	rate := f.rate
	if f.plan.Mode == "adaptive" {
		switch {
		case t < 4:
			p.Phase, rate = "climb", 500*math.Pow(2, math.Floor(t))
		case t < 8:
			p.Phase, rate = "bisect", fakeCeiling+(8000-fakeCeiling)*math.Pow(-0.6, math.Floor((t-4)*2))/2
		default:
			p.Phase, rate = "track", fakeCeiling+60*math.Sin(t)
		}
		if t > 6 {
			p.Ceiling = ptr(fakeCeiling + 300*math.Exp(6-t))
		}
	} else if t < 1 {
		p.Phase, p.Measured = "warmup", false
	}
	r := rand.New(rand.NewPCG(uint64(n), 1))
	noise := func(around float64) float64 { return around * (1 + 0.02*r.NormFloat64()) }
	p.Intended = rate
	p.Achieved = noise(rate)
	p.Served = min(p.Achieved, noise(fakeCeiling))
	p.Shed = max(0, p.Achieved-p.Served) * 0.98
	p.Errors = p.Achieved - p.Served - p.Shed
	use := p.Served / fakeCeiling
	p50 := noise(180 / max(0.08, 1.02-use))
	p.P50, p.P90, p.P99, p.Max = ptr(p50), ptr(noise(p50*1.8)), ptr(noise(p50*4)), ptr(noise(p50*9))
	p.InFlight = int(p.Served * p50 / 1e6)
	p.Busy, p.LagP99 = min(1, 0.05+rate/20000), ptr(noise(18))
	if f.plan.TargetMetrics != "" {
		p.TargetCPU, p.TargetMemory = ptr(noise(use)), ptr(noise(180e6+20e6*use))
	}
	f.points = append(f.points, p)
	select {
	case f.seen <- p:
	default:
	}
	return p
}

func ptr(v float64) *float64 { return &v }

func (f *fakeRun) Do(ctx context.Context) (*report.Result, error) {
	defer close(f.seen)
	steps := f.steps
	if steps == nil {
		t := time.NewTicker(f.tick)
		defer t.Stop()
		steps = t.C
	}
	reason := "stopped"
	started := time.Now()
	n := 0
loop:
	for ; ; n++ {
		select {
		case <-ctx.Done():
			break loop
		case <-steps:
		}
		if f.point(n).At >= time.Duration(f.plan.Duration).Seconds() {
			reason = ""
			break loop
		}
	}
	return f.result(started, reason), nil
}

func (f *fakeRun) result(started time.Time, reason string) *report.Result {
	points := f.Points()
	latencies := measure.NewHistogram()
	for _, p := range points {
		for range int(p.Served / 100) {
			measure.Record(latencies, time.Duration(*p.P50*1000))
		}
	}
	h, err := measure.Encode(latencies)
	if err != nil {
		panic(err)
	}
	r := &report.Result{Version: 1, Name: f.plan.Name, Started: started, Plan: f.plan, Reason: reason,
		Histogram: h, Trace: points,
		Failures: map[string]uint64{}, Generator: report.Generator{CPUMicros: 9.4, Busy: 0.31, LagP99: 21,
			LagMax: 230, Runners: 1}}
	for _, p := range points {
		r.Served += uint64(p.Served / 10)
		r.Shed += uint64(p.Shed / 10)
		r.Errors += uint64(p.Errors / 10)
		r.Seconds += p.Seconds
		r.Rate.Intended += p.Intended / float64(len(points))
		r.Rate.Achieved += p.Achieved / float64(len(points))
		r.Rate.Served += p.Served / float64(len(points))
		r.Latency = report.Latency{Mean: *p.P50 * 1.2, P50: *p.P50, P90: *p.P90, P95: *p.P90 * 1.3,
			P99: *p.P99, P999: *p.P99 * 1.6, Max: *p.Max}
	}
	r.Requests = r.Served + r.Shed + r.Errors
	r.Failures["timed_out"] = r.Errors
	if r.Errors > 0 {
		r.Samples = []report.Sample{{Kind: "timed_out", Request: "GET /slow <b>page</b>",
			Detail: "nothing within 10 s"}}
	}
	r.Bytes = report.Bytes{In: r.Requests * 210, Out: r.Requests * 64}
	if f.plan.Mode == "adaptive" {
		r.Ceiling = &control.Ceiling{Rate: fakeCeiling, Low: 3950, High: 4060, Seconds: 8.2, Converged: true,
			Limit: "p99"}
	}
	for _, c := range f.plan.FailWhen {
		r.Verdicts = append(r.Verdicts, report.Verdict{Condition: c, Value: 0.02, Got: "0.02%",
			Failed: r.Errors > 0})
	}
	return r
}

// fakeNew is an Options.New that makes fakes.
func fakeNew(tick time.Duration) func(context.Context, load.Plan) (Runner, error) {
	return func(_ context.Context, p load.Plan) (Runner, error) {
		if p.URL == "" && p.Scenario == "" {
			return nil, errors.New("name a URL to ask, or a --scenario")
		}
		var rate float64
		if _, err := fmt.Sscanf(p.Rate, "%g", &rate); p.Rate != "" && err != nil {
			return nil, fmt.Errorf("--rate must be like 5000/s, got %q", p.Rate)
		}
		return newFake(p, tick), nil
	}
}
