package control

import (
	"math"
	"testing"
	"time"
)

// searching returns a search that has seen an overloaded target serve 1000/s, and sustain 1100/s for a
// moment.
func searching(bursty bool) *adaptive {
	a := Adaptive(AdaptiveOptions{}).(*adaptive)
	a.Begin()
	a.health.rememberBaseline(0.003)
	a.lo, a.hi = bound{rate: 1100, at: time.Second}, bound{rate: 1200, limit: "shed", at: time.Second}
	a.samples = []sample{{rate: 1000, seconds: 1}, {rate: 999, seconds: 1}, {rate: 1001, seconds: 1}}
	a.bursty = bursty
	a.start(narrowing, 1150)
	return a
}

// Emptying a token bucket takes long, so a search does it once. When it knows that the target has a bucket,
// an overload with the usual goodput is enough to place the ceiling, whatever was sustained for a moment.
func TestATokenBucketIsEmptiedOnce(t *testing.T) {
	for _, bursty := range []bool{false, true} {
		a := searching(bursty)
		a.overloaded(assessment{decided: true, sure: true, limit: "shed", goodput: 1002, seconds: 1})
		if a.state != cooling {
			t.Fatalf("after an overload it is in state %v", phases[a.state])
		}
		if within := a.lo.rate >= 980 && a.lo.rate < 1000 && a.hi.rate > 1000 &&
			a.hi.rate <= 1030; within != bursty {
			t.Errorf("known to be bursty: %t, the ceiling is between %.0f and %.0f", bursty, a.lo.rate,
				a.hi.rate)
		}
		a.narrow()
		if want := map[bool]state{false: confirming, true: holding}[bursty]; a.state != want {
			t.Errorf("known to be bursty: %t, it goes on with %q at %.0f", bursty, phases[a.state], a.rate)
		}
	}
}

// An overload with less goodput than others had does not tell of a bucket: the lower bound stays.
func TestLessGoodputIsNotTakenForAnEmptyBucket(t *testing.T) {
	a := searching(true)
	a.overloaded(assessment{decided: true, sure: true, limit: "shed", goodput: 960, seconds: 1})
	if a.lo.rate != 1100 || a.hi.rate != 1150 {
		t.Errorf("the ceiling is between %.0f and %.0f", a.lo.rate, a.hi.rate)
	}
}

// A load above the goodput of overload that is sustained at first, and fails when it is held, was a burst.
func TestALoadSustainedAtFirstOnlyWasABurst(t *testing.T) {
	a := searching(false)
	a.start(confirming, 1100)
	a.overloaded(assessment{decided: true, sure: true, limit: "shed", goodput: 1001, seconds: 1})
	if !a.bursty || a.lo.rate < 980 || a.lo.rate >= 1000 || a.hi.rate <= 1000 || a.hi.rate > 1030 {
		t.Errorf("known to be bursty: %t, the ceiling is between %.0f and %.0f", a.bursty,
			a.lo.rate, a.hi.rate)
	}

	// When a higher load has been confirmed, the goodput is not the ceiling: overload makes the target serve
	// less.
	a = searching(false)
	a.proven = 1050
	a.start(confirming, 1100)
	a.overloaded(assessment{decided: true, sure: true, limit: "shed", goodput: 1001, seconds: 1})
	if a.bursty || a.lo.rate < 1030 || a.hi.rate != 1100 {
		t.Errorf("known to be bursty: %t, the ceiling is between %.0f and %.0f", a.bursty,
			a.lo.rate, a.hi.rate)
	}

	// An overload without a goodput, as by latency, tells nothing of bursts.
	a = searching(false)
	a.start(confirming, 1100)
	a.overloaded(assessment{decided: true, sure: true, limit: "p99"})
	if a.bursty {
		t.Error("known to be bursty of latencies")
	}
}

// An overload is tried a second time, as it may have been the machine; not so where its goodput is the one
// that is expected: that of a known bucket, or of a load that is being confirmed.
func TestAnExpectedOverloadIsNotTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		bursty bool
		state  state
		served float64
		again  bool
	}{
		{"nothing known", false, narrowing, 1001, true},
		{"known to be bursty", true, narrowing, 1001, false},
		{"being confirmed", false, confirming, 1001, false},
		{"known to be bursty, and less served", true, narrowing, 960, true},
		{"being confirmed, and less served", false, confirming, 960, true},
	} {
		a := searching(c.bursty)
		a.start(c.state, 1150)
		a.overloaded(assessment{decided: true, limit: "shed", goodput: c.served, seconds: 1})
		if again := a.retried == 1150; a.state != cooling || again != c.again || again &&
			(a.cool.after != c.state || a.cool.next != 1150) {
			t.Errorf("%s: tried again: %t, as %q at %.0f", c.name, again, phases[a.cool.after], a.cool.next)
		}
	}
}

// A check above the ceiling that a token bucket has sustained does not move the ceiling of a target that is
// known to have a bucket.
func TestABurstDoesNotMoveTheCeiling(t *testing.T) {
	for _, c := range []struct {
		name   string
		bursty bool
		lo     float64
		stays  bool
	}{
		{"known to be bursty", true, 1029, true},
		{"not known to be", false, 1029, false},
		{"known to be bursty, and nothing is sustained any more", true, 0, false},
	} {
		a := searching(c.bursty)
		a.settled, a.foundAt, a.ceiling = true, time.Second, Ceiling{Seconds: 1, Rate: 1000, Low: 985,
			High: 1022, Converged: true, Limit: "shed"}
		a.lo, a.hi, a.samples = bound{rate: c.lo}, bound{rate: math.Inf(1)}, nil
		a.start(climbing, 1080)
		a.climb()
		if got, ok := a.Ceiling(); !ok || got.Converged != c.stays || c.stays && got != a.ceiling ||
			got.High != 0 && !c.stays && c.lo > 0 {
			t.Errorf("%s: the ceiling is %+v, and was %+v", c.name, got, a.ceiling)
		}
	}
}
