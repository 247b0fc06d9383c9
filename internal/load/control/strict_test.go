//go:build !race

package control

// As in adaptive_bars_test.go: simulated minutes on one goroutine.

import (
	"math"
	"testing"
	"time"
)

// What a single server with exponential service times sustains with a p99 below 20 ms has a formula: with
// random arrivals p99 is ln 100 / (2000 - rate), which makes 1,770; with even ones it makes 1,883. What is
// served of more is 2,000.
func TestASearchHonoursALimitOnLatency(t *testing.T) {
	healthy, err := ParseConditions([]string{"p99<20ms"})
	if err != nil {
		t.Fatal(err)
	}
	for _, random := range []bool{false, true} {
		want := map[bool]float64{false: 1883, true: 1770}[random]
		for seed := range seeds[uint64](2) {
			p := newPlant(single, 2000, seed)
			p.poisson = random
			trace, _ := drive(Adaptive(AdaptiveOptions{Duration: 100 * time.Second, Healthy: healthy, Random: random}), p, 2*time.Minute)
			c := trace[len(trace)-1].ceiling
			if c.Seconds == 0 || c.Seconds > 95 || math.Abs(c.Rate/want-1) > 0.035 || c.Low != c.Rate || c.Limit != "p99" {
				t.Errorf("random arrivals %t, seed %d: %+v, and by theory it is %.0f", random, seed, c, want)
			}
			held := 0
			for _, m := range trace {
				if m.phase == "confirm" && math.Abs(m.rate/c.Rate-1) < 1e-9 {
					held++
				}
			}
			if held < 100 {
				t.Errorf("random arrivals %t, seed %d: the rate that is reported was held for %d windows, want 100", random, seed, held)
			}
		}
	}
}

// A target that fails one request in twenty beyond 1,500 a second serves ever more of more: its goodput is
// no ceiling.
func TestASearchFindsWhereErrorsBegin(t *testing.T) {
	for seed := range seeds[uint64](3) {
		for _, start := range []float64{50, 70, 94} { // the climb ends at another distance from the ceiling
			trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute, Start: start}), newPlant(partly, 1500, seed), 2*time.Minute)
			if c := trace[len(trace)-1].ceiling; c.Rate < 0.96*1500 || c.Rate > 1.04*1500 || !c.Converged || c.Limit != "errors" {
				t.Errorf("from %v/s, seed %d: %+v", start, seed, c)
			}
		}
	}
}

// A search that climbs again knows no upper end, and has not converged.
func TestASearchIsNotSureWhileItClimbsAgain(t *testing.T) {
	const moves = 30 * time.Second
	p := newPlant(queues, 1000, 1)
	p.rate = func(t time.Duration) float64 {
		if t > moves {
			return 8000
		}
		return 1000
	}
	trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), p, 2*time.Minute)
	climbs := 0
	for _, m := range trace {
		if m.at > moves && m.rate > 1200 && m.phase == "climb" {
			climbs++
			if m.ceiling.Converged || m.ceiling.High != 0 && m.ceiling.High < 7900 || m.ceiling.Low < 1000 {
				t.Fatalf("at %v it climbs at %.0f/s and says %+v", m.at, m.rate, m.ceiling)
			}
		}
	}
	if climbs == 0 {
		t.Error("it never climbed again")
	}
	if c := trace[len(trace)-1].ceiling; !c.Converged || c.Rate < lowest*8000 || c.Rate > highest*8000 || c.Limit == "" {
		t.Errorf("in the end it says %+v", c)
	}
}
