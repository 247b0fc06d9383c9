package admin

import (
	"strconv"
	"testing"
	"time"

	"weir/internal/admin/history"
	"weir/internal/metrics"
	"weir/internal/server"
	"weir/internal/shed"
)

func TestOneSentenceSaysHowTheServerIs(t *testing.T) {
	shedding := func(share float64, dominant string, pressure float64) *shed.Status {
		return &shed.Status{Dominant: dominant, Pressure: pressure,
			Probability: map[string]float64{shed.Normal.String(): share}}
	}
	for _, c := range []struct {
		figures  map[string]float64
		services []serviceNow
		shed     *shed.Status
		limit    float64 // of the cgroup
		state    string
		says     string
	}{
		{state: "good", says: "all is well, and nobody asks"},
		{figures: map[string]float64{"requests": 12345},
			state: "good", says: "all is well at 12,300 requests a second"},
		{figures: map[string]float64{"requests": 999.6},
			state: "good", says: "all is well at 1,000 requests a second"},
		{figures: map[string]float64{"probability": 0.12}, shed: shedding(0.12, shed.MemoryAvailable, 0.4),
			state: "bad",
			says:  "shedding 12 %: memory"},
		{figures: map[string]float64{"probability": 0.004}, shed: shedding(0.004, shed.Load, 0.1),
			state: "bad",
			says:  "shedding under 1 %: processors"},
		{figures: map[string]float64{"rejected": 1500}, shed: shedding(0, shed.LoopDelay, 0), state: "bad",
			says: "rejecting 1,500 requests a second: event loops"},
		{figures: map[string]float64{"requests": 100, "errors": 5},
			state: "bad", says: "5 % of requests fail"},
		{figures: map[string]float64{"requests": 1000, "errors": 5}, state: "good",
			says: "all is well at 1,000 requests a second"},
		{figures: map[string]float64{"probability": 0.5},
			services: []serviceNow{{Name: "feed", State: "down"},
				{Name: "bandit", State: "ready"}}, shed: shedding(0.5, shed.Load, 1),
			state: "bad", says: "down: feed"},
		{services: []serviceNow{{Name: "feed", State: "degraded"}, {Name: "filter", State: "degraded"}},
			state: "warn",
			says:  "degraded: feed, filter"},
		{shed: shedding(0, shed.CPUPressure, 0.2), state: "warn", says: "near its limits: processors"},
		{figures: map[string]float64{"sync_lag": 12.4}, state: "warn",
			says: "the disk is slow: 12 s of changes are not synced"},
		{figures: map[string]float64{"memory": 98}, limit: 100, state: "warn", says: "running out of memory"},
		{figures: map[string]float64{"memory": 90}, limit: 100,
			state: "good", says: "all is well, and nobody asks"},
	} {
		o := overview{Figures: map[string]*history.Figure{}, Services: c.services, Shed: c.shed,
			CgroupLimit: limit(c.limit)}
		for name, v := range c.figures {
			o.Figures[name] = known(v)
		}
		if state, says := judge(&o); state != c.state || says != c.says {
			t.Errorf("%+v: %s, %q; want %s, %q", c, state, says, c.state, c.says)
		}
	}
}

// counted is a kernel whose service answers as it is told.
type counted struct {
	answers [6]uint64
	latency *metrics.Histogram
}

func (c *counted) Shed() *shed.Status { return nil }
func (c *counted) Traffic(dst []server.Traffic) []server.Traffic {
	return append(dst, server.Traffic{Service: "feed", Answers: c.answers, Latency: c.latency.Distribution()},
		server.Traffic{})
}

func TestASampleIsOfTheSecondBefore(t *testing.T) {
	o := testOptions(t, nil)
	kernel := &counted{latency: o.Metrics.Histogram("test_latency_seconds", "Latency.")}
	o.Kernel = kernel
	o.Metrics.Gauge("weir_feed_generation", "Lists.", func() float64 { return 3 })
	o.Metrics.Gauge("weir_sync_lag_seconds", "Lag.", func() float64 { return 1 }, "data", "a")
	o.Metrics.Gauge("weir_sync_lag_seconds", "Lag.", func() float64 { return 4 }, "data", "b")
	o.Metrics.Gauge("weir_filter_cache_bytes", "Sources.", func() float64 { return 4096 })
	s := newSampler(o)
	at := time.Unix(1_800_000_000, 0)
	s.at = at
	answer := func(status int, n uint64, took time.Duration) {
		kernel.answers[status] += n
		kernel.latency.Observe(0, took, n)
	}
	var last overview
	for second := range 61 { // a minute, and the first second of the next
		answer(2, 90, time.Millisecond)
		answer(5, uint64(second%2)*10, time.Second)
		at = at.Add(time.Second)
		var err error
		if last, err = s.sample(at); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]float64{"requests": 90, "errors": 0, "p99": 0.001, "sync_lag": 4} {
		if got := last.Figures[name]; got == nil || float64(*got) < want*0.9 || float64(*got) > want*1.1 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if s := last.Services; len(s) != 1 || s[0].Name != "feed" || *s[0].Requests != 90 || *s[0].Errors != 0 {
		t.Errorf("the services are %+v", s)
	}
	if g := last.Generations; len(g) != 1 || g[0] != (generation{"feed", 3}) {
		t.Errorf("the generations are %+v", g)
	}
	if z := last.Sizes; len(z) != 1 || z[0].Name != "filter cache" || *z[0].Bytes != 4096 {
		t.Errorf("the sizes are %+v", z)
	}
	// The minute's p90 is that of its requests, not a mean of its seconds'.
	p := o.History.Read("day", 1440, at.Unix())
	for name, want := range map[string]float64{"requests": 95, "p50": 0.001, "errors": 5, "p99": 1} {
		if got := p.Columns[name][0]; got == nil || float64(*got) < want*0.9 || float64(*got) > want*1.1 {
			t.Errorf("of the minute %s is %v, want %v", name, *got, want)
		}
	}
}

// A sample is taken once a second while the server serves, so it must cost little.
func BenchmarkSample(b *testing.B) {
	o := testOptions(b, nil)
	o.Metrics = metrics.New(70)
	routes := make([]server.Route, 40)
	kernel, err := server.New(server.Config{Metrics: o.Metrics, NetHTTP: true, Workers: 64},
		routed(routes))
	if err != nil {
		b.Fatal(err)
	}
	o.Kernel = kernel
	s := newSampler(o)
	at := time.Now()
	for b.Loop() {
		at = at.Add(time.Second)
		if _, err := s.sample(at); err != nil {
			b.Fatal(err)
		}
	}
}

// routed is a service with routes.
type routed []server.Route

func (r routed) Name() string          { return "routed" }
func (r routed) Health() server.Health { return server.Ready() }
func (r routed) Close() error          { return nil }
func (r routed) Routes() []server.Route {
	for i := range r {
		r[i] = server.Route{Pattern: "GET /" + strconv.Itoa(i), Handler: home}
	}
	return r
}
