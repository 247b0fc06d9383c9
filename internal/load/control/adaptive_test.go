package control

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// What is promised of a search: found / true.
const lowest, highest = 0.95, 1.05

// searchedFor is long enough for the bars.
const searchedFor = 40 * time.Second

// The ceiling of a target that collapses is above its goodput under overload.
func TestASearchIsNotFooledByCollapse(t *testing.T) {
	for _, rate := range []float64{333, 2000, 20000} {
		trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), newPlant(collapses, rate, 1),
			time.Minute)
		// Its queue feeds itself from a few milliseconds on, so that there is no sharp ceiling.
		if c := trace[len(trace)-1].ceiling; !c.Converged || c.Rate/rate < 0.9 || c.Rate/rate > highest {
			t.Errorf("%v/s: %+v", rate, c)
		}
	}
}

// A token bucket sustains more than its rate until it is empty.
func TestASearchIsNotFooledByBursts(t *testing.T) {
	for _, bucket := range []float64{0.1, 0.3, 1} {
		for _, rate := range []float64{700, 7500} {
			p := newPlant(sheds, rate, 1000)
			p.bucket = bucket
			trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), p, time.Minute)
			if c := trace[len(trace)-1].ceiling; !c.Converged || c.Rate/rate < lowest ||
				c.Rate/rate > highest || c.Seconds > 30 {
				t.Errorf("%v/s and %v s of it saved up: %+v", rate, bucket, c)
			}
		}
	}
}

func TestASearchKeepsWhatAPersonCallsHealthy(t *testing.T) {
	healthy, err := ParseConditions([]string{"p99<20ms", "success>=99%"})
	if err != nil {
		t.Fatal(err)
	}
	const rate = 5000.
	p := newPlant(knee, rate, 1)
	trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute, Healthy: healthy}), p, time.Minute)
	// The waiting time is exponential with a mean of 1 ms / (1 - load): its p99 is 20 ms where the mean is
	// 20 ms / ln 100.
	want := rate * (1 - math.Log(100)/20)
	c := trace[len(trace)-1].ceiling
	if !c.Converged || c.Rate < 0.95*want || c.Rate > 1.05*want || c.Limit != "p99" ||
		c.Low > want || c.High < want {
		t.Errorf("the ceiling is %+v, want %.0f", c, want)
	}
}

func TestSlowRequestsThatAlwaysWereAreHealthy(t *testing.T) {
	for _, rate := range []float64{300, 2000} {
		p := newPlant(queues, rate, 1)
		p.slow, p.slowBy = 0.1, 200*time.Millisecond
		trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), p, time.Minute)
		if c := trace[len(trace)-1].ceiling; !c.Converged || c.Rate/rate < lowest || c.Rate/rate > highest {
			t.Errorf("a tenth takes 200 ms: found %+v, true is %v", c, rate)
		}
	}
}

func TestATargetMayBeSlow(t *testing.T) {
	for _, base := range []time.Duration{150 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second} {
		p := newPlant(queues, 1500, 1)
		p.base, p.jitter = base, base/5
		trace, last := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), p, time.Minute)
		if c := trace[len(trace)-1].ceiling; !c.Converged || c.Rate/1500 < lowest || c.Rate/1500 > highest {
			t.Errorf("answers take %v: found %+v, true is 1500; %s", base, c, last.Reason)
		}
	}
}

func TestAGeneratorThatIsTheLimitIsNamed(t *testing.T) {
	p := newPlant(queues, 50000, 1)
	p.capacity = 8000
	trace, _ := drive(Adaptive(AdaptiveOptions{Duration: 40 * time.Second}), p, time.Minute)
	if c := trace[len(trace)-1].ceiling; c.Limit != "generator" || c.Rate < 0.85*8000 || c.Rate > 1.1*9000 {
		t.Errorf("the ceiling is %+v, but the generator can make 8000 to 9000/s", c)
	}
}

func TestConnectionsThatAreTheLimitAreNamed(t *testing.T) {
	p := newPlant(queues, 50000, 1)
	p.base, p.jitter, p.inFlight = 500*time.Millisecond, 50*time.Millisecond, 1000
	trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), p, time.Minute)
	// As many as can be in flight, twice a second.
	if c := trace[len(trace)-1].ceiling; !c.Converged || c.Limit != "achieved" || c.Rate < lowest*2000 ||
		c.Rate > highest*2000 {
		t.Errorf("the ceiling is %+v, but 1000 connections make 2000/s", c)
	}
}

func TestASearchBeginsAboveTheCeiling(t *testing.T) {
	for _, k := range []kind{queues, sheds} {
		trace, _ := drive(Adaptive(AdaptiveOptions{Start: 20000, Duration: time.Minute}),
			newPlant(k, 1000, 1), time.Minute)
		if c := trace[len(trace)-1].ceiling; !c.Converged || c.Rate < lowest*1000 || c.Rate > highest*1000 {
			t.Errorf("%v: from 20,000/s on it found %+v, true is 1000", k, c)
		}
	}
}

func TestASearchGivesUpOnATargetThatIsNeverHealthy(t *testing.T) {
	trace, last := drive(Adaptive(AdaptiveOptions{Duration: 10 * time.Minute}), newPlant(refuses, 1e-9, 1),
		10*time.Minute)
	if !last.Done || !strings.Contains(last.Reason, "healthy") && !strings.Contains(last.Reason, "recover") {
		t.Errorf("after %v it ended with %+v", trace[len(trace)-1].at, last)
	}
}

func TestASearchSaysBySomeSignalThatNoLoadWasHealthy(t *testing.T) {
	_, last := drive(Adaptive(AdaptiveOptions{Duration: 15 * time.Second}), newPlant(refuses, 1e-9, 1),
		time.Minute)
	if last.Refused == "" {
		t.Errorf("it ended with %+v", last)
	}
	_, last = drive(Adaptive(AdaptiveOptions{Duration: 15 * time.Second}), newPlant(refuses, 1000, 1),
		time.Minute)
	if last.Refused != "" {
		t.Errorf("low loads were healthy, and it ended with %+v", last)
	}
}

func TestASearchEndsByItself(t *testing.T) {
	trace, last := drive(Adaptive(AdaptiveOptions{Duration: time.Hour, UntilFound: true}),
		newPlant(queues, 1000, 1), time.Hour)
	m := trace[len(trace)-1]
	if !last.Done || last.Reason != "" || !m.ceiling.Converged ||
		math.Abs(m.at.Seconds()-m.ceiling.Seconds) > 0.3 {
		t.Errorf("it ended at %v with %+v", m.at, m.ceiling)
	}
	stop, err := ParseConditions([]string{"rate>500/s"})
	if err != nil {
		t.Fatal(err)
	}
	_, last = drive(Adaptive(AdaptiveOptions{StopWhen: stop, Duration: time.Hour}), newPlant(queues, 1000, 1),
		time.Hour)
	if !last.Done || !strings.HasPrefix(last.Reason, "rate > 500/s: it was ") {
		t.Errorf("it ended with %+v", last)
	}
}

func TestASearchGoesOnFromWhereAPersonWants(t *testing.T) {
	a := Adaptive(AdaptiveOptions{Duration: time.Minute, Warmup: 2 * time.Second})
	p := newPlant(queues, 3000, 1)
	if d := a.Begin(); d.Phase != "warmup" || d.Measured || d.Rate != 50 {
		t.Errorf("it begins with %+v", d)
	}
	trace, _ := drive(a, p, 3*time.Second)
	if m := at(trace, 1900*time.Millisecond); m.phase != "warmup" {
		t.Errorf("after 1.9 s it is in %+v", m)
	}
	for _, wrong := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if a.SetRate(wrong) == nil {
			t.Errorf("a rate of %v is accepted", wrong)
		}
	}
	if err := a.SetRate(2500); err != nil {
		t.Fatal(err)
	}
	w := measure.NewWindow()
	p.window(400, w)
	if d := a.Next(w); d.Rate != 2500 || d.Phase != "climb" {
		t.Errorf("then it is %+v", d)
	}
}

// aimd is how a ceiling is often looked for: up by a little while all is well, down by half when a window
// is not.
type aimd struct {
	rate, sum, n float64
}

func (a *aimd) Begin() Decision { return Decision{Rate: a.rate, Measured: true} }
func (a *aimd) Next(w *measure.Window) Decision {
	if w.Latency.ValueAtPercentile(99) > int64(25*time.Millisecond) || w.Done() == 0 ||
		float64(w.Shed) > 0.01*float64(w.Done()) {
		a.rate /= 2
	} else {
		a.rate += 0.01 * 2000
	}
	a.sum += a.rate
	a.n++
	return a.Begin()
}
func (a *aimd) SetRate(float64) error { return nil }

// The reference: what adaptive has to be better than.
func TestASearchIsTruerThanAdditiveIncrease(t *testing.T) {
	var plain, ours []float64
	for seed := range 4 {
		a := &aimd{rate: 50}
		drive(a, newPlant(queues, 2000, uint64(seed)).noisy(), searchedFor)
		plain = append(plain, math.Abs(a.sum/a.n/2000-1))
		trace, _ := drive(Adaptive(AdaptiveOptions{Duration: searchedFor}),
			newPlant(queues, 2000, uint64(seed)).noisy(), searchedFor)
		ours = append(ours, math.Abs(trace[len(trace)-1].ceiling.Rate/2000-1))
	}
	slices.Sort(plain)
	slices.Sort(ours)
	t.Logf("off by %.3f with additive increase, by %.3f with a search", plain, ours)
	if ours[len(ours)-1] > plain[0]/3 {
		t.Errorf("off by %.3f with additive increase, by %.3f with a search", plain, ours)
	}
}
