package measure

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// random returns a window with something in every field, and the latencies it has recorded.
func random(r *rand.Rand) (*Window, []int64) {
	w := NewWindow()
	w.Start = time.Duration(r.IntN(1000)) * time.Millisecond
	w.End = w.Start + 100*time.Millisecond
	w.Intended, w.Sent = r.Uint64N(1000), r.Uint64N(1000)
	w.Served, w.Shed = r.Uint64N(1000), r.Uint64N(1000)
	for i := range w.Failed {
		w.Failed[i] = r.Uint64N(10)
	}
	w.In, w.Out = r.Uint64N(1e6), r.Uint64N(1e6)
	w.CPU, w.Busy = time.Duration(r.Uint64N(1e8)), r.Float64()
	var latencies []int64
	for range 1000 {
		d := time.Duration(math.Exp(r.Float64()*20) + 100)
		Record(w.Latency, d)
		Record(w.Lag, d/10)
		Record(w.ShedLatency, d/2)
		latencies = append(latencies, int64(d))
	}
	return w, latencies
}

// Adding windows must give what one window would have that all of it was recorded in.
func TestSumsOfWindowsLoseNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sum, whole := NewWindow(), NewWindow()
	var all []int64
	var served, errors uint64
	start, end := time.Duration(math.MaxInt64), time.Duration(0)
	for range 8 {
		w, latencies := random(r)
		all = append(all, latencies...)
		for _, l := range latencies {
			Record(whole.Latency, time.Duration(l))
		}
		served += w.Served
		errors += w.Errors()
		start, end = min(start, w.Start), max(end, w.End)
		sum.Add(w)
	}
	if sum.Served != served || sum.Errors() != errors || sum.Done() != sum.Served+sum.Shed+errors {
		t.Errorf("served %d, errors %d, done %d of windows with %d and %d", sum.Served, sum.Errors(),
			sum.Done(), served, errors)
	}
	if sum.Start != start || sum.End != end {
		t.Errorf("from %v to %v, the windows were from %v to %v", sum.Start, sum.End, start, end)
	}
	if !sum.Latency.Equals(whole.Latency) {
		t.Error("the sum's histogram is not that of all latencies")
	}
	slices.Sort(all)
	for _, q := range []float64{50, 90, 99, 99.9} {
		exact := float64(all[int(math.Ceil(q/100*float64(len(all))))-1])
		if got := float64(sum.Latency.ValueAtQuantile(q)); math.Abs(got-exact) > exact/1000+
			float64(Shortest) {
			t.Errorf("p%v is %v ns, exactly it is %v", q, got, exact)
		}
	}
}

func TestLatenciesBeyondTheLimitsCountAsTheLimit(t *testing.T) {
	h := NewHistogram()
	Record(h, -time.Second)
	Record(h, 24*time.Hour)
	if h.TotalCount() != 2 {
		t.Fatalf("%d latencies counted, expected 2", h.TotalCount())
	}
	if got := time.Duration(h.Min()); got > 2*Shortest {
		t.Errorf("a negative latency counts as %v", got)
	}
	if got := time.Duration(h.Max()); got < Longest*999/1000 || got > Longest*1001/1000 {
		t.Errorf("a day counts as %v, expected %v", got, Longest)
	}
}

func TestResetLeavesNothing(t *testing.T) {
	w, _ := random(rand.New(rand.NewPCG(3, 4)))
	w.Connections, w.InFlight = 3, 2
	w.Detail.Count(404, 2, time.Second)
	w.Detail.AddSample(Sample{Kind: "404"})
	w.Target = Target{CPU: 1, Memory: 2}
	w.Reset()
	if w.Latency.TotalCount()+w.Lag.TotalCount()+w.ShedLatency.TotalCount() != 0 {
		t.Error("latencies are left")
	}
	if !math.IsNaN(w.Target.CPU) || !math.IsNaN(w.Target.Memory) {
		t.Errorf("the target is %+v, expected unknown", w.Target)
	}
	if w.Detail.Statuses != [Statuses]uint64{} || len(w.Detail.Samples) > 0 ||
		slices.ContainsFunc(w.Detail.Parts, func(p Part) bool { return p != Part{} }) {
		t.Errorf("left: %+v", w.Detail)
	}
	w.Target, w.Detail = Target{}, nil
	w.Latency, w.ShedLatency, w.Lag = nil, nil, nil
	if !reflect.DeepEqual(*w, Window{}) {
		t.Errorf("left: %+v", *w)
	}
}

func TestFailuresHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for f := range Failures {
		if f.String() == "" || seen[f.String()] {
			t.Errorf("failure %d has the name %q", f, f)
		}
		seen[f.String()] = true
	}
}

func TestASumHasEveryFigureOfItsWindows(t *testing.T) {
	a, b := NewWindow(), NewWindow()
	a.End, a.In, a.Out, a.CPU, a.Busy = time.Second, 1, 2, 3, 0.9
	b.End, b.In, b.Out, b.CPU, b.Busy = time.Second, 10, 20, 30, 0.5
	a.Add(b)
	if a.In != 11 || a.Out != 22 || a.CPU != 33 || a.Busy != 0.9 {
		t.Errorf("the sum is %+v", a)
	}
}

func TestEveryKindOfAnswerIsOne(t *testing.T) {
	for f, want := range map[Failure]bool{Refused: false, Cut: false, TimedOut: false, Malformed: true,
		Status: true, Dropped: false} {
		var w Window
		w.Failed[f] = 1
		if w.Answered() != want {
			t.Errorf("%s: answered is %v", f, !want)
		}
	}
}
