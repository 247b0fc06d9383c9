package report

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/load/control"
	"weir/internal/load/measure"
	"weir/internal/systest"
)

// simulation makes results whose latency is log-normal, scaled, and in the course of a run drifts as real
// ones do: slowly.
type simulation struct {
	windows int
	served  int
	scale   float64
	drift   float64 // the standard deviation of the drift's logarithm
	errors  int     // of each window
	plan    map[string]any
}

func (s simulation) run(t testing.TB, seed uint64) *Result {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 99))
	r := NewRecorder(RecorderOptions{Plan: s.plan})
	w := measure.NewWindow()
	var level float64
	const memory = 0.8 // of the drift from a window to the next
	for i := range s.windows {
		w.Reset()
		w.Start, w.End = time.Duration(i)*tick, time.Duration(i+1)*tick
		level = memory*level + math.Sqrt(1-memory*memory)*s.drift*rng.NormFloat64()
		for range s.served {
			measure.Record(w.Latency, time.Duration(1e6*s.scale*math.Exp(level+0.5*rng.NormFloat64())))
		}
		w.Served, w.Failed[measure.Cut] = uint64(s.served), uint64(s.errors)
		w.Sent = w.Served + uint64(s.errors)
		w.Intended = w.Sent
		r.Add(w, steady, nil)
	}
	res, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func compare(t testing.TB, a, b *Result, o CompareOptions) *Comparison {
	t.Helper()
	c, err := Compare([]*Result{a}, []*Result{b}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func row(t testing.TB, c *Comparison, name string) Row {
	t.Helper()
	for _, r := range c.Rows {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("there is no row %q", name)
	return Row{}
}

// Two runs of the same thing differ; a comparison that takes requests for independent calls that a change.
func TestRunsOfTheSameAreTheSame(t *testing.T) {
	s := simulation{windows: 100, served: 200, scale: 1, drift: 0.2}
	const runs = 20
	alarms, naive := 0, 0
	for seed := range uint64(runs) {
		c := compare(t, s.run(t, 2*seed), s.run(t, 2*seed+1), CompareOptions{Worse: 0.001})
		for _, name := range []string{"p50", "p90", "p99", "mean"} {
			if r := row(t, c, name); r.Judgement != Same && r.Judgement != Undecided {
				alarms++
			}
		}
		// What order statistics alone would say of the median: its standard error is 1.25 sigma/sqrt(n).
		a, b := row(t, c, "p50").A.Value, row(t, c, "p50").B.Value
		if math.Abs(a/b-1) > 2*1.96*1.25*0.5/math.Sqrt(float64(s.windows*s.served)) {
			naive++
		}
	}
	t.Logf("%d false alarms of %d; independence alone would have called %d of %d medians changed", alarms,
		4*runs, naive, runs)
	if alarms > 4*runs/20 {
		t.Errorf("of %d figures that are the same, %d are judged to differ", 4*runs, alarms)
	}
	if naive < runs/2 {
		t.Errorf("the simulation is too easy: independence would have called only %d of %d medians changed",
			naive, runs)
	}
}

func TestWhatGotSlowerIsWorse(t *testing.T) {
	fast := simulation{windows: 100, served: 200, scale: 1, drift: 0.05}
	slow := fast
	slow.scale, slow.errors = 1.3, 4
	c := compare(t, fast.run(t, 1), slow.run(t, 2), CompareOptions{Worse: 0.2})
	for _, name := range []string{"mean", "p50", "p90", "p95", "p99", "errors"} {
		if r := row(t, c, name); r.Judgement != Worse || !r.Failed {
			t.Errorf("%s is %+v, expected worse and failed", name, r)
		}
	}
	if !c.Failed {
		t.Error("the comparison did not fail")
	}
	near(t, "the change of p50", math.Round(*row(t, c, "p50").Change*10)/10, 0.3)
	if r := row(t, c, "errors"); r.Change != nil || r.A.Value != 0 {
		t.Errorf("errors from none are %+v", r)
	}

	c = compare(t, slow.run(t, 3), fast.run(t, 4), CompareOptions{Worse: 0.01})
	for _, name := range []string{"mean", "p50", "p90", "p95", "p99", "errors"} {
		if r := row(t, c, name); r.Judgement != Better || r.Failed {
			t.Errorf("%s is %+v, expected better", name, r)
		}
	}
	if c.Failed {
		t.Error("what got better failed")
	}
	if c = compare(t, fast.run(t, 1), slow.run(t, 2), CompareOptions{Worse: 0.5}); row(t, c, "p50").Failed {
		t.Error("30 % fail over 50 %")
	}
	if c = compare(t, fast.run(t, 1), slow.run(t, 2), CompareOptions{}); c.Failed {
		t.Error("it fails though nobody asked")
	}
}

func TestLessGoodputIsWorse(t *testing.T) {
	s := simulation{windows: 60, served: 200, scale: 1, drift: 0.05}
	less := s
	less.served = 150
	c := compare(t, s.run(t, 1), less.run(t, 2), CompareOptions{Worse: 0.1})
	if r := row(t, c, "served"); r.Judgement != Worse || !r.Failed {
		t.Errorf("served is %+v", r)
	}
	if r := row(t, compare(t, less.run(t, 1), s.run(t, 2), CompareOptions{}),
		"served"); r.Judgement != Better {
		t.Errorf("served is %+v", r)
	}
}

// exponential returns a result of 10 s at 500/s whose latencies are exponential.
func exponential(t testing.TB, seed uint64, mean time.Duration) *Result {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	r, w := NewRecorder(RecorderOptions{}), measure.NewWindow()
	for i := range 100 {
		w.Reset()
		w.Start, w.End = time.Duration(i)*tick, time.Duration(i+1)*tick
		for range 50 {
			measure.Record(w.Latency, time.Duration(rng.ExpFloat64()*float64(mean)))
		}
		w.Intended, w.Sent, w.Served = 50, 50, 50
		r.Add(w, steady, nil)
	}
	res, err := r.Result()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// differs says whether any figure is judged to differ.
func differs(c *Comparison) bool {
	return slices.ContainsFunc(c.Rows,
		func(r Row) bool { return r.Judgement == Better || r.Judgement == Worse })
}

// Of 100 pairs of runs of the same thing 5 are called different, in any figure, and of 100 that are 5 %
// apart 60 are seen. At 500/s for 10 s no test could do much better: 68 by theory, of the mean alone.
func TestComparisonsAreSeldomWrongAndSee5PerCent(t *testing.T) {
	systest.LongRun(t, "hundreds of simulated runs")
	const pairs = 100
	alarms, seen, wrong := 0, 0, 0
	for seed := range uint64(pairs) {
		a := exponential(t, 3*seed, 10*time.Millisecond)
		if differs(compare(t, a, exponential(t, 3*seed+1, 10*time.Millisecond), CompareOptions{})) {
			alarms++
		}
		c := compare(t, a, exponential(t, 3*seed+2, 10500*time.Microsecond), CompareOptions{})
		if r := row(t, c, "mean"); r.Judgement == Worse {
			seen++
		} else if r.Judgement != Undecided || r.Decides < 0.03 || r.Decides > 0.07 {
			wrong++
		}
	}
	t.Logf("of %d pairs that are the same %d are called different, of %d that are 5 %% apart %d are seen",
		pairs, alarms, pairs, seen)
	if alarms > pairs/20 || seen < 60*pairs/100 || wrong > 0 {
		t.Errorf("%d false alarms, %d seen, %d missed and not called undecided", alarms, seen, wrong)
	}
}

// Runs that differ from each other by more than they vary within say so: one of each sees changes that
// three of each do not.
func TestSeveralRunsShowWhatDiffersBetweenRuns(t *testing.T) {
	systest.LongRun(t, "hundreds of simulated runs")
	rng := rand.New(rand.NewPCG(1, 1))
	batch := func(scale float64) (runs []*Result) {
		for range 4 {
			s := simulation{windows: 60, served: 100, scale: scale * math.Exp(0.05*rng.NormFloat64())}
			runs = append(runs, s.run(t, rng.Uint64()))
		}
		return runs
	}
	single, several := 0, 0
	for range 20 {
		a, b := batch(1), batch(1)
		if differs(compare(t, a[0], b[0], CompareOptions{})) {
			single++
		}
		c, err := Compare(a, b, CompareOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if differs(c) {
			several++
		}
		if c.A.Runs != 4 || math.Abs(c.A.Seconds-24) > 1e-6 {
			t.Fatalf("the first side is %+v", c.A)
		}
	}
	if single < 10 || several > 2 {
		t.Errorf("of 20 pairs of the same, one run each calls %d different and four runs each %d",
			single, several)
	}
	c, err := Compare(batch(1), batch(1.5), CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r := row(t, c, "mean"); r.Judgement != Worse {
		t.Errorf("half as much again is %+v", r)
	}
}

func TestTooLittleIsUnknown(t *testing.T) {
	short := simulation{windows: 5, served: 200, scale: 1}
	if r := row(t, compare(t, short.run(t, 1), short.run(t, 2), CompareOptions{}),
		"p50"); r.Judgement != Unknown {
		t.Errorf("of five windows p50 is %+v", r)
	}
	few := simulation{windows: 50, served: 5, scale: 1}
	c := compare(t, few.run(t, 1), few.run(t, 2), CompareOptions{})
	if r := row(t, c, "p99.9"); r.Judgement != Unknown {
		t.Errorf("of 250 requests p99.9 is %+v", r)
	}
	if r := row(t, c, "p50"); r.Judgement != Undecided {
		t.Errorf("of 250 requests p50 is %+v", r)
	}
}

func TestCeilingsAreJudgedByTheirIntervals(t *testing.T) {
	s := simulation{windows: 60, served: 200, scale: 1}
	for _, c := range []struct {
		a, b control.Ceiling
		want string
	}{
		{control.Ceiling{Rate: 1000, Low: 980, High: 1020, Converged: true},
			control.Ceiling{Rate: 1100, Low: 1080, High: 1120, Converged: true}, Better},
		{control.Ceiling{Rate: 1000, Low: 980, High: 1020, Converged: true},
			control.Ceiling{Rate: 900, Low: 880, High: 920, Converged: true}, Worse},
		{control.Ceiling{Rate: 1000, Low: 900, High: 1100, Converged: true},
			control.Ceiling{Rate: 1100, Low: 1080, High: 1120, Converged: true}, Undecided},
		{control.Ceiling{Rate: 1000, Low: 980, High: 1020}, control.Ceiling{Rate: 1100, Low: 1080, High: 1120,
			Converged: true}, Unknown},
		{control.Ceiling{Rate: 1000, Low: 999, High: 1001, Converged: true},
			control.Ceiling{Rate: 1005, Low: 1004, High: 1006, Converged: true}, Same},
	} {
		a, b := s.run(t, 1), s.run(t, 2)
		a.Ceiling, b.Ceiling = &c.a, &c.b
		cmp := compare(t, a, b, CompareOptions{Worse: 0.05})
		if r := row(t, cmp, "ceiling"); r.Judgement != c.want || r.Failed != (c.want == Worse) {
			t.Errorf("the ceiling is %+v, expected %q", r, c.want)
		}
		if r := row(t, cmp, "p99"); r.Judgement != NotSaid {
			t.Errorf("the latency of a search is judged: %+v", r)
		}
		if !marked(cmp.Warnings, "not judged") {
			t.Error("nobody says that a search's latencies are not judged")
		}
	}
}

func TestComparisonWarns(t *testing.T) {
	s := simulation{windows: 60, served: 200, scale: 1, plan: map[string]any{"url": "http://127.0.0.1:1/a",
		"rate": "1000/s", "name": "x", "seed": 1}}
	a, b := s.run(t, 1), s.run(t, 2)
	b.Plan = map[string]any{"url": "http://127.0.0.1:2/a", "rate": "1000/s", "name": "y", "seed": 2}
	if c := compare(t, a, b, CompareOptions{}); len(c.Warnings) != 0 {
		t.Errorf("another server is warned of: %q", c.Warnings)
	}
	b.Plan = map[string]any{"url": "http://127.0.0.1:2/b", "rate": "2000/s", "stages": "1\x1b[2J"}
	b.Marks, a.Generator.Saturated = []string{"It was late."}, true
	c := compare(t, a, b, CompareOptions{})
	for _, want := range []string{`differ in rate: "1000/s" and "2000/s"`, `differ in url: "/a" and "/b"`,
		"differ in stages: nothing and", "In the first result the generator was the limit",
		"A mark of the second result: It was late."} {
		if !marked(c.Warnings, want) {
			t.Errorf("the warnings %q lack %q", c.Warnings, want)
		}
	}
	var text bytes.Buffer
	if err := c.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "\x1b") {
		t.Error("the text sends control characters on")
	}
}

func TestComparisonAsTextAndJSON(t *testing.T) {
	s := simulation{windows: 60, served: 200, scale: 1}
	slow := s
	slow.scale = 2
	c := compare(t, s.run(t, 1), slow.run(t, 2), CompareOptions{Worse: 0.1})
	var text bytes.Buffer
	if err := c.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"p99.9", "worse, FAILED", "+100", "served", "2,000/s", "same"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	c.Rows[0].A.High = math.Inf(1)
	var raw bytes.Buffer
	if err := c.WriteJSON(&raw); err != nil {
		t.Fatal(err)
	}
	var back Comparison
	if err := json.Unmarshal(raw.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if !back.Failed || len(back.Rows) != len(c.Rows) || row(t, &back, "p50").Judgement != Worse ||
		back.Warnings == nil {
		t.Errorf("the comparison came back as %+v", back)
	}
}

func TestBrokenResultsAreNotCompared(t *testing.T) {
	good := simulation{windows: 20, served: 20, scale: 1}.run(t, 1)
	bad := *good
	bad.Histogram = "!"
	if _, err := Compare([]*Result{good}, []*Result{&bad}, CompareOptions{}); err == nil ||
		!strings.Contains(err.Error(), "second") {
		t.Errorf("the error is %v", err)
	}
	if _, err := Compare([]*Result{&bad}, []*Result{good}, CompareOptions{}); err == nil ||
		!strings.Contains(err.Error(), "first") {
		t.Errorf("the error is %v", err)
	}
	// Nothing at all compares with nothing.
	empty := result(t, NewRecorder(RecorderOptions{}))
	if c := compare(t, empty, empty, CompareOptions{Worse: 0.1}); c.Failed {
		t.Error("two empty results differ")
	}
}
