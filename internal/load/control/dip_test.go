//go:build !race

package control

// As in adaptive_bars_test.go: simulated minutes on one goroutine.

import (
	"testing"
	"time"
)

// A machine that is busy during the first overload makes the target look slower than it is. When a load above
// that goodput is sustained, the overload is measured again, which is faster than to confirm the load.
func TestAGoodputMeasuredOnABusyMachineIsMeasuredAgain(t *testing.T) {
	for _, k := range []kind{queues, sheds} {
		for _, rate := range []float64{2000, 24000} {
			undisturbed, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), newPlant(k, rate, 1),
				2*time.Minute)
			var over time.Duration // when the first overload begins
			for _, m := range undisturbed {
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
