//go:build !race

package control

// As in adaptive_bars_test.go: simulated minutes on one goroutine.

import (
	"testing"
	"time"
)

// A machine that is busy with something else just when a load is too much makes the target look slower than
// it is. What is sustained soon shows otherwise, and then the load that was too much is looked at again
// instead of proving for long what is sustained.
func TestASearchIsNotHeldUpByAMomentOfTheMachine(t *testing.T) {
	for _, k := range []kind{queues, sheds} {
		for _, rate := range []float64{2000, 24000} {
			dry, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), newPlant(k, rate, 1), 2*time.Minute)
			var over time.Duration // when a load was too much first
			for _, m := range dry {
				if m.rate > rate {
					over = m.at
					break
				}
			}
			p := newPlant(k, rate, 1)
			p.rate = func(t time.Duration) float64 {
				if t > over-100*time.Millisecond && t < over+900*time.Millisecond {
					return 0.5 * rate
				}
				return rate
			}
			trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), p, 2*time.Minute)
			c := trace[len(trace)-1].ceiling
			if !c.Converged || c.Rate/rate < lowest || c.Rate/rate > highest || c.Seconds > 20 {
				t.Errorf("%v %v/s: %+v", k, rate, c)
			}
		}
	}
}
