package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/load/control"
	"weir/internal/load/measure"
)

// tick is how long the tests' windows are.
const tick = 100 * time.Millisecond

// window is the i-th window of a run of served requests, which took the same time each.
func window(i int, served uint64, took time.Duration) *measure.Window {
	w := measure.NewWindow()
	w.Start, w.End = time.Duration(i)*tick, time.Duration(i+1)*tick
	w.Intended, w.Sent, w.Served = served, served, served
	for range served {
		measure.Record(w.Latency, took)
		measure.Record(w.Lag, 5*time.Microsecond)
	}
	w.CPU, w.Busy = time.Duration(served)*10*time.Microsecond, 0.3
	w.Connections, w.InFlight = 10, 2
	return w
}

var (
	steady = control.Decision{Phase: "steady", Measured: true}
	warmup = control.Decision{Phase: "warmup"}
)

func result(t *testing.T, r *Recorder) *Result {
	t.Helper()
	res, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.001*math.Abs(want)+1e-9 {
		t.Errorf("%s is %v, expected %v", what, got, want)
	}
}

func marked(marks []string, text string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(m, text) })
}

func TestOnlyMeasuredWindowsCount(t *testing.T) {
	r := NewRecorder(RecorderOptions{Name: "n", Plan: map[string]any{"mode": "constant"}})
	for i := range 10 {
		r.Add(window(i, 500, 9*time.Millisecond), warmup, nil)
	}
	for i := 10; i < 30; i++ {
		w := window(i, 100, time.Millisecond)
		w.Shed, w.Failed[measure.TimedOut], w.Failed[measure.Refused] = 10, 3, 1
		w.Sent, w.Intended = 114, 114
		measure.Record(w.ShedLatency, 100*time.Microsecond)
		w.In, w.Out = 1000, 50
		r.Add(w, steady, nil)
	}
	res := result(t, r)
	if res.Requests != 2280 || res.Served != 2000 || res.Shed != 200 || res.Errors != 80 {
		t.Errorf("requests %d, served %d, shed %d, errors %d", res.Requests, res.Served, res.Shed, res.Errors)
	}
	if res.Failures["timed_out"] != 60 || res.Failures["refused"] != 20 || len(res.Failures) != 2 {
		t.Errorf("failures are %v", res.Failures)
	}
	near(t, "seconds", res.Seconds, 2)
	near(t, "the intended rate", res.Rate.Intended, 1140)
	near(t, "the achieved rate", res.Rate.Achieved, 1140)
	near(t, "the served rate", res.Rate.Served, 1000)
	near(t, "p50", res.Latency.P50, 1000)
	near(t, "max", res.Latency.Max, 1000)
	near(t, "shed p99", res.ShedIn.P99, 100)
	near(t, "CPU a request", res.Generator.CPUMicros, 10*100.0/114)
	if res.Bytes != (Bytes{20000, 1000}) {
		t.Errorf("bytes are %v", res.Bytes)
	}
	if res.Generator.Saturated || len(res.Marks) != 0 {
		t.Errorf("a quiet generator is marked: %v", res.Marks)
	}
	if len(res.Trace) != 30 || res.Trace[0].Measured || !res.Trace[29].Measured {
		t.Errorf("the trace has %d points", len(res.Trace))
	}
}

func TestQuantilesAreExact(t *testing.T) {
	r := NewRecorder(RecorderOptions{})
	var all []float64
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 50 {
		w := window(i, 0, 0)
		for range 200 {
			d := time.Duration(math.Exp(rng.NormFloat64()) * float64(time.Millisecond))
			measure.Record(w.Latency, d)
			w.Served++
			all = append(all, float64(d)/1e3)
		}
		r.Add(w, steady, nil)
	}
	slices.Sort(all)
	l := result(t, r).Latency
	for q, got := range map[float64]float64{0.5: l.P50, 0.9: l.P90, 0.95: l.P95, 0.99: l.P99,
		0.999: l.P999, 1: l.Max} {
		near(t, "a quantile", got, all[int(q*float64(len(all)))-1])
	}
	var sum float64
	for _, v := range all {
		sum += v
	}
	near(t, "the mean", l.Mean, sum/float64(len(all)))
}

func TestWhatIsAnsweredAfterTheEndIsNoGoodput(t *testing.T) {
	r := NewRecorder(RecorderOptions{})
	for i := range 10 {
		r.Add(window(i, 100, time.Millisecond), steady, nil)
	}
	late := window(10, 0, 0)
	late.End += 5 * time.Second
	late.Served = 400
	for range 400 {
		measure.Record(late.Latency, 4*time.Second)
	}
	late.Busy = 1
	r.Drain(late)
	res := result(t, r)
	if res.Served != 1400 {
		t.Errorf("served are %d", res.Served)
	}
	near(t, "seconds", res.Seconds, 1)
	near(t, "the served rate", res.Rate.Served, 1000)
	near(t, "p99", res.Latency.P99, 4e6)
	var total = measure.NewWindow()
	r.Total(total)
	if total.End != time.Second || total.Served != 1400 {
		t.Errorf("the total ends at %v with %d served", total.End, total.Served)
	}
}

func TestTheTargetOfAWholeRunIsItsMeanCPUAndItsLastMemory(t *testing.T) {
	r := NewRecorder(RecorderOptions{})
	total := func() measure.Target {
		w := measure.NewWindow()
		r.Total(w)
		return w.Target
	}
	if got := total(); !math.IsNaN(got.CPU) || !math.IsNaN(got.Memory) {
		t.Errorf("before the first window it is %+v", got)
	}
	for i, told := range []measure.Target{measure.Unknown(), {CPU: 1, Memory: 5}, {CPU: 3, Memory: 7},
		measure.Unknown()} {
		w := window(i, 100, time.Millisecond)
		w.Target = told
		r.Add(w, steady, nil)
	}
	warm := window(4, 100, time.Millisecond)
	warm.Target = measure.Target{CPU: 100, Memory: 100}
	r.Add(warm, control.Decision{Phase: "warmup"}, nil)
	if got := total(); math.Abs(got.CPU-2) > 1e-9 || got.Memory != 7 {
		t.Errorf("the target is %+v, want 2 processors and 7 bytes", got)
	}
}

// A long run's trace is bounded, and its sums and maxima are those of the windows, measured or not.
func TestTraceIsBoundedAndItsSumsAreRight(t *testing.T) {
	for name, phase := range map[string]func(i int) control.Decision{
		"one phase": func(int) control.Decision { return steady },
		"warm-up": func(i int) control.Decision {
			return control.Decision{Phase: "x", Measured: i >= 277}
		},
		"a phase a window": func(i int) control.Decision {
			return control.Decision{Phase: string(rune('a' + i%7)), Measured: true}
		},
		"measured now and then": func(i int) control.Decision {
			return control.Decision{Phase: "x", Measured: i%2 == 0}
		},
		"phases of some windows": func(i int) control.Decision {
			return control.Decision{Phase: string(rune('a' + i/5%9)), Measured: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRecorder(RecorderOptions{Points: 32})
			rng := rand.New(rand.NewPCG(3, 4))
			var served, worst, end float64
			for i := range 1500 {
				p := Point{At: float64(i+1) / 10, Seconds: 0.1, Served: float64(rng.IntN(20)) * 10,
					Phase: phase(i).Phase, Measured: phase(i).Measured}
				if p.Served > 0 {
					p.Max = pointer(rng.Float64() * 1e6)
					worst = max(worst, *p.Max)
				}
				r.trace.add(p)
				served += p.Served * p.Seconds
				end = p.At
				if got := len(r.trace.points); got > 32 {
					t.Fatalf("after %d windows the trace has %d points", i+1, got)
				}
			}
			points := r.Points()
			if len(points) < 8 {
				t.Errorf("the trace has only %d points", len(points))
			}
			var gotServed, gotWorst, at float64
			for _, p := range points {
				gotServed += p.Served * p.Seconds
				if p.Max != nil {
					gotWorst = max(gotWorst, *p.Max)
				}
				near(t, "a point's beginning", p.At-p.Seconds, at)
				at = p.At
			}
			near(t, "the sum of served", gotServed, served)
			near(t, "the largest latency", gotWorst, worst)
			near(t, "the end", at, end)
		})
	}
}

func TestMergedPointsKeepWhatIsMeasuredApart(t *testing.T) {
	r := NewRecorder(RecorderOptions{Points: 32})
	for i := range 1000 {
		d := warmup
		if i >= 333 {
			d = steady
		}
		r.Add(window(i, 10, time.Millisecond), d, nil)
	}
	var measured float64
	for _, p := range r.Points() {
		if p.Measured {
			measured += p.Seconds
		}
	}
	near(t, "the measured time of the trace", measured, result(t, r).Seconds)
}

func TestMarksSayWhenTheGeneratorWasTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		o       RecorderOptions
		change  func(i int, w *measure.Window)
		ceiling *control.Ceiling
		want    string
		limit   bool
	}{
		"schedule missed": {change: func(_ int, w *measure.Window) { w.Intended *= 2 },
			want: "could not keep the schedule: it sent 50 % of the intended 2,000/s", limit: true},
		"busy": {change: func(_ int, w *measure.Window) { w.Busy = 0.97 },
			want: "its busiest thread worked 97 % of the time", limit: true},
		"busy for a tenth of the time": {change: func(i int, w *measure.Window) {
			if i%10 == 0 {
				w.Busy = 0.97
			}
		}, want: "its busiest thread worked 97 % of the time", limit: true},
		"late": {change: func(_ int, w *measure.Window) {
			for range 3 {
				measure.Record(w.Lag, 2*time.Millisecond)
			}
		}, want: "was late by 2 ms at p99", limit: true},
		"dropped": {change: func(_ int, w *measure.Window) {
			w.Intended, w.Failed[measure.Dropped] = 200, 100
		}, want: "1,000 requests were dropped, never sent"},
		"metrics never read": {o: RecorderOptions{TargetMetrics: true}, change: func(int, *measure.Window) {},
			want: "metrics could not be read"},
		"metrics lost": {o: RecorderOptions{TargetMetrics: true}, change: func(i int, w *measure.Window) {
			if i < 5 {
				w.Target = measure.Target{CPU: 1, Memory: 2}
			}
		}, want: "metrics were lost at 0.6 s and missing for 50 %"},
		"nothing found": {o: RecorderOptions{Search: true}, change: func(int, *measure.Window) {},
			want: "found no ceiling"},
		"not converged": {o: RecorderOptions{Search: true}, change: func(int, *measure.Window) {},
			ceiling: &control.Ceiling{Rate: 5, Low: 1000, High: 2000},
			want:    "somewhere from 1,000/s to 2,000/s"},
		"nobody answered": {change: func(_ int, w *measure.Window) { w.Served = 0 },
			want: "No request was answered"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRecorder(c.o)
			for i := range 10 {
				w := window(i, 100, 3*time.Millisecond)
				c.change(i, w)
				r.Add(w, steady, c.ceiling)
			}
			res := result(t, r)
			if !marked(res.Marks, c.want) {
				t.Errorf("marks are %q, expected one with %q", res.Marks, c.want)
			}
			if res.Generator.Saturated != c.limit {
				t.Errorf("saturated is %v", res.Generator.Saturated)
			}
		})
	}
}

func TestAMarkNamesTheSignalOfATargetThatIsNeverHealthy(t *testing.T) {
	r := NewRecorder(RecorderOptions{Search: true})
	d := steady
	d.Refused = "errors"
	r.Add(window(0, 100, 3*time.Millisecond), d, nil)
	if res := result(t, r); !marked(res.Marks, "healthy at no rate that was tried, by the signal errors") {
		t.Errorf("marks are %q", res.Marks)
	}
}

func TestNoMarkWhereAllIsWell(t *testing.T) {
	r := NewRecorder(RecorderOptions{Search: true, TargetMetrics: true})
	for i := range 100 {
		w := window(i, 100, 3*time.Millisecond)
		w.Target = measure.Target{CPU: 1, Memory: 1e6}
		if i == 50 {
			w.Busy = 1 // an accident
		}
		r.Add(w, steady, &control.Ceiling{Rate: 1000, Low: 990, High: 1010, Converged: true})
	}
	if res := result(t, r); len(res.Marks) != 0 || res.Generator.Saturated || res.Generator.Busy != 0.3 {
		t.Errorf("marks are %q, busy %v", res.Marks, res.Generator.Busy)
	}
}

// A generator that was late where nothing was measured has made nothing slower.
func TestLagIsNoPartOfALatencyThatThereIsNot(t *testing.T) {
	r := NewRecorder(RecorderOptions{})
	for i := range 10 {
		w := window(i, 100, 3*time.Millisecond)
		w.Served, w.Failed[measure.Refused] = 0, 100
		w.Latency.Reset()
		for range 3 {
			measure.Record(w.Lag, 20*time.Millisecond)
		}
		r.Add(w, steady, nil)
	}
	if res := result(t, r); len(res.Marks) != 0 || res.Generator.Saturated {
		t.Errorf("marks are %q, saturated is %v", res.Marks, res.Generator.Saturated)
	}
}

func TestRunThatEndsInItsWarmupSaysSo(t *testing.T) {
	r := NewRecorder(RecorderOptions{})
	r.Add(window(0, 10, time.Millisecond), warmup, nil)
	if res := result(t, r); !marked(res.Marks, "before its warm-up was over") || res.Rate != (Rate{}) {
		t.Errorf("marks are %q, rate %v", res.Marks, res.Rate)
	}
}

func TestPointOfAnEmptyWindowHasNoLatency(t *testing.T) {
	r := NewRecorder(RecorderOptions{})
	p := r.Add(window(0, 0, 0), steady, &control.Ceiling{Rate: math.NaN()})
	if p.P50 != nil || p.P99 != nil || p.Max != nil || p.TargetCPU != nil || p.TargetMemory != nil ||
		p.Ceiling != nil {
		t.Errorf("the point is %+v", p)
	}
}

// What recording costs of every window's 100 ms, in the process that makes the load.
func BenchmarkAdd(b *testing.B) {
	r, e := NewRecorder(RecorderOptions{}), NewExporter()
	w := window(0, 1000, time.Millisecond)
	for i := range 1000 {
		measure.Record(w.Latency, time.Duration(i)*20*time.Microsecond)
	}
	for b.Loop() {
		e.Add(w, r.Add(w, steady, nil))
	}
}

// A target that was there and is not any more is marked, in whatever mode; and what a search did not find
// by then is not its own fault.
func TestATargetThatIsGoneIsMarked(t *testing.T) {
	dead := func(i int, refused uint64) *measure.Window {
		w := window(i, 0, 0)
		w.Intended, w.Sent, w.Failed[measure.Refused] = refused, refused, refused
		return w
	}
	for _, c := range []struct {
		name                 string
		before, after, again int // windows
		refused              uint64
		want                 string
	}{
		{"gone", 10, 20, 0, 10, "Nothing was answered any more from 1 s on, as if the target were gone: " +
			"200 refused. What is said of the ceiling is what was known before."},
		{"gone for less than a second", 10, 9, 0, 10, ""},
		{"little asked since", 10, 20, 0, 0, ""},
		{"never there", 0, 20, 0, 10, ""},
		{"back", 10, 20, 5, 10, ""},
	} {
		r := NewRecorder(RecorderOptions{Search: true})
		i := 0
		add := func(n int, w func() *measure.Window) {
			for range n {
				r.Add(w(), steady, &control.Ceiling{Rate: 100, Low: 50, High: 200})
				i++
			}
		}
		add(c.before, func() *measure.Window { return window(i, 10, time.Millisecond) })
		add(c.after, func() *measure.Window { return dead(i, c.refused) })
		add(c.again, func() *measure.Window { return window(i, 10, time.Millisecond) })
		res := result(t, r)
		if silent := res.Trace[i-1].Silent; (silent > 0) != (c.refused > 0 && c.again == 0) {
			t.Errorf("%s: silent for %v s", c.name, silent)
		}
		marks := res.Marks
		if marked(marks, "Nothing was answered any more") != (c.want != "") || c.want != "" &&
			(marks[0] != c.want || len(marks) != 1) {
			t.Errorf("%s: it is marked %q", c.name, marks)
		}
	}
	// What was on its way at the end, and never came.
	r := NewRecorder(RecorderOptions{})
	r.Add(window(0, 10, time.Millisecond), steady, nil)
	for i := 1; i < 20; i++ {
		r.Add(window(i, 0, 0), steady, nil)
	}
	w := measure.NewWindow()
	w.Failed[measure.TimedOut] = 190
	r.Drain(w)
	if marks := result(t, r).Marks; !marked(marks,
		"from 0.1 s on, as if the target were gone: 190 timed out.") {
		t.Errorf("a target that hangs is marked %q", marks)
	}
}
