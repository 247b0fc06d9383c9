package metrics

import (
	"io"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// scrape returns what Prometheus would read.
func scrape(t *testing.T, r *Registry) string {
	t.Helper()
	rec := httptest.NewRecorder()
	r.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(rec.Result().Body)
	if err != nil || rec.Code != 200 {
		t.Fatalf("scrape: status %d, error %v\n%s", rec.Code, err, body)
	}
	return string(body)
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func TestCounterIsExactWhateverTheStripes(t *testing.T) {
	r := New(3)
	c := r.Counter("test_events_total", "Events.")
	var wg sync.WaitGroup
	for _, stripe := range []int{0, 1, 2, 2, 3, math.MaxInt, -1, math.MinInt} {
		wg.Go(func() {
			for range 10_000 {
				c.Add(stripe, 2)
			}
		})
	}
	var last uint64
	for range 100 { // read while it is written
		v := c.Value()
		if v < last {
			t.Fatalf("counter went back from %d to %d", last, v)
		}
		last = v
	}
	wg.Wait()
	if got := c.Value(); got != 8*20_000 {
		t.Errorf("Value() = %d, want %d", got, 8*20_000)
	}
}

func TestStripesAreTakenModulo(t *testing.T) {
	for _, c := range []struct{ stripe, n, want int }{{0, 3, 0}, {2, 3, 2}, {3, 3, 0},
		{301, 3, 1}, {5, 1, 0}} {
		if got := within(c.stripe, c.n); got != c.want {
			t.Errorf("within(%d, %d) = %d, want %d", c.stripe, c.n, got, c.want)
		}
	}
	for _, stripe := range []int{-1, -2, -3, math.MinInt} {
		if got := within(stripe, 3); got < 0 || got > 2 {
			t.Errorf("within(%d, 3) = %d", stripe, got)
		}
	}
}

func TestStripesDoNotShareCacheLines(t *testing.T) {
	if size := unsafe.Sizeof(cell{}); size != lineSize {
		t.Errorf("a counter's stripe takes %d bytes, want %d", size, lineSize)
	}
	if size := unsafe.Sizeof(histogramStripe{}); size%lineSize != 0 {
		t.Errorf("a histogram's stripe takes %d bytes, want a multiple of %d", size, lineSize)
	}
}

func TestExpositionShowsEveryKind(t *testing.T) {
	r := New(2)
	h := r.Handler()
	r.Counter("test_requests_total", "Requests.", "route", "feed", "code", "200").Add(0, 3)
	r.Counter("test_requests_total", "Requests.", "code", "404", "route", "feed").Add(1, 4)
	r.Gauge("test_temperature_celsius", "Heat.", func() float64 { return -1.5 })
	lat := r.Histogram("test_latency_seconds", "Latency.", "route", "feed")
	lat.Observe(0, time.Microsecond, 2)
	lat.Observe(1, 3*time.Microsecond, 5)
	lat.Observe(1, 5*time.Minute, 1)

	rec := httptest.NewRecorder() // of the handler made before the registrations
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	text := rec.Body.String()
	wantLines(t, text,
		`# TYPE test_requests_total counter`,
		`# HELP test_requests_total Requests.`,
		`test_requests_total{code="200",route="feed"} 3`,
		`test_requests_total{code="404",route="feed"} 4`,
		`# TYPE test_temperature_celsius gauge`,
		`test_temperature_celsius -1.5`,
		`# TYPE test_latency_seconds histogram`,
		`test_latency_seconds_bucket{route="feed",le="1e-06"} 2`,
		`test_latency_seconds_bucket{route="feed",le="2e-06"} 2`,
		`test_latency_seconds_bucket{route="feed",le="4e-06"} 7`,
		`test_latency_seconds_bucket{route="feed",le="67.108864"} 7`,
		`test_latency_seconds_bucket{route="feed",le="+Inf"} 8`,
		`test_latency_seconds_count{route="feed"} 8`,
		`test_latency_seconds_sum{route="feed"} 300.000017`,
	)
	for _, name := range []string{"\ngo_goroutines ", "\nprocess_start_time_seconds ", "\ngo_build_info{"} {
		if !strings.Contains(text, name) {
			t.Errorf("no %q in the exposition", name)
		}
	}
}

func TestLabelValuesAreEscaped(t *testing.T) {
	r := New(1)
	r.Counter("test_files_total", "Files.", "path", "a\"b\\c\nd é").Add(0, 1)
	wantLines(t, scrape(t, r), `test_files_total{path="a\"b\\c\nd é"} 1`)
}

func TestSnapshotCarriesLabelsAndValues(t *testing.T) {
	r := New(1)
	r.Counter("test_events_total", "Events.", "kind", "a").Add(0, 7)
	r.Gauge("test_ratio", "Ratio.", func() float64 { return 0.5 })
	r.Histogram("test_latency_seconds", "Latency.").Observe(0, time.Millisecond, 9)

	s := r.Snapshot(nil)
	if len(s) != 3 {
		t.Fatalf("%d samples, want 3", len(s))
	}
	if c := s[0]; c.Name != "test_events_total" || c.Kind != CounterKind || c.Value != 7 ||
		len(c.Labels) != 1 || c.Labels[0] != (Label{"kind", "a"}) {
		t.Errorf("counter: %+v", c)
	}
	if g := s[1]; g.Name != "test_ratio" || g.Kind != GaugeKind || g.Value != 0.5 || g.Help != "Ratio." {
		t.Errorf("gauge: %+v", g)
	}
	if h := s[2]; h.Kind != HistogramKind || h.Value != 9 || h.Distribution.Seconds() != 0.009 {
		t.Errorf("histogram: %+v", h)
	}
}

// A gauge that itself looks at the registry must not deadlock.
func TestGaugeMayUseTheRegistry(t *testing.T) {
	r := New(1)
	r.Gauge("test_lazy", "Registers another on first use.", func() float64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return float64(len(r.families))
	})
	wantLines(t, scrape(t, r), "test_lazy 1")
}

func TestInconsistentRegistrationPanics(t *testing.T) {
	gauge := func() float64 { return 0 }
	for name, register := range map[string]func(r *Registry){
		"counter without _total":     func(r *Registry) { r.Counter("test_events", "h") },
		"gauge with _total":          func(r *Registry) { r.Gauge("test_events_total", "h", gauge) },
		"histogram without _seconds": func(r *Registry) { r.Histogram("test_latency", "h") },
		"gauge without function":     func(r *Registry) { r.Gauge("test_x", "h", nil) },
		"capitals":                   func(r *Registry) { r.Counter("test_Events_total", "h") },
		"double underscore":          func(r *Registry) { r.Counter("test__events_total", "h") },
		"empty name":                 func(r *Registry) { r.Gauge("", "h", gauge) },
		"name of the Go collector":   func(r *Registry) { r.Gauge("go_goroutines", "h", gauge) },
		"no help":                    func(r *Registry) { r.Counter("test_events_total", "") },
		"odd labels":                 func(r *Registry) { r.Counter("test_events_total", "h", "key") },
		"bad label key":              func(r *Registry) { r.Counter("test_events_total", "h", "a-b", "v") },
		"reserved label key": func(r *Registry) {
			r.Counter("test_events_total", "h", "__name", "v")
		},
		"le on a histogram": func(r *Registry) { r.Histogram("test_latency_seconds", "h", "le", "v") },
		"label key twice": func(r *Registry) {
			r.Counter("test_events_total", "h", "a", "1", "a", "2")
		},
		"label value not UTF-8": func(r *Registry) { r.Counter("test_events_total", "h", "a", "\xff") },
		"same series twice": func(r *Registry) {
			r.Counter("test_events_total", "h", "a", "1", "b", "2")
			r.Counter("test_events_total", "h", "b", "2", "a", "1")
		},
		"other label keys": func(r *Registry) {
			r.Counter("test_events_total", "h", "a", "1")
			r.Counter("test_events_total", "h", "b", "1")
		},
		"fewer label keys": func(r *Registry) {
			r.Counter("test_events_total", "h", "a", "1")
			r.Counter("test_events_total", "h")
		},
		"other help": func(r *Registry) {
			r.Counter("test_events_total", "h", "a", "1")
			r.Counter("test_events_total", "other", "a", "2")
		},
		"other kind": func(r *Registry) {
			r.Gauge("test_wait_seconds", "h", gauge)
			r.Histogram("test_wait_seconds", "h")
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "BUG: metric ") {
					t.Errorf("recovered %q, want a panic that starts with BUG:", s)
				}
			}()
			register(New(1))
		})
	}
}

func TestRegistrationAndScrapesAreConcurrent(t *testing.T) {
	r := New(4)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				labels := []string{"writer", string(rune('a' + i)), "turn", string(rune('a' + j))}
				r.Counter("test_events_total", "Events.", labels...).Add(i, 1)
				r.Histogram("test_latency_seconds", "Latency.", labels...).Observe(i, time.Second, 1)
			}
		})
	}
	for range 5 {
		scrape(t, r)
	}
	wg.Wait()
	if n := len(r.Snapshot(nil)); n != 2*8*20 {
		t.Errorf("%d samples, want %d", n, 2*8*20)
	}
}

func TestAGaugeThatPanicsIsNaN(t *testing.T) {
	r := New(1)
	r.Gauge("weir_test_broken", "Help.", func() float64 { panic("mine") })
	if got := r.Snapshot(nil)[0].Value; !math.IsNaN(got) {
		t.Errorf("the gauge is %v, want NaN", got)
	}
}
