//go:build !race

// As in adaptive_bars_test.go: simulated minutes on one goroutine.

package control

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// sustainable is the highest rate at which a plant keeps its p99 and sheds at most 1 %, by many requests.
func sustainable(plant func(seed uint64) *plant, rate float64, p99 time.Duration) float64 {
	lo, hi := 0.1*rate, 1.05*rate
	for hi/lo > 1.02 {
		middle := (lo + hi) / 2
		p, all, w := plant(99), measure.NewWindow(), measure.NewWindow()
		for all.Done() < 15_000 {
			p.window(middle, w)
			all.Add(w)
		}
		if all.Latency.ValueAtPercentile(99) <= int64(p99) && all.Shed*100 <= all.Done() {
			lo = middle
		} else {
			hi = middle
		}
	}
	return lo
}

// With few requests at random times, p99 is too long and requests are shed far below the rate that the target
// can serve. That lower rate is the ceiling, and not the goodput of overload.
func TestASearchFindsTheCeilingOfRandomArrivals(t *testing.T) {
	inside, all := 0, 0
	for _, k := range []kind{queues, sheds} {
		for _, rate := range []float64{20, 100, 500} {
			if testing.Short() && rate != 100 {
				continue
			}
			plant := func(seed uint64) *plant {
				p := newPlant(k, rate, seed)
				p.poisson, p.bucket = true, 20/rate
				return p
			}
			p99 := 3*time.Millisecond + max(slack, time.Duration(6/rate*1e9))
			healthy, err := ParseConditions([]string{fmt.Sprintf("p99 < %dus", p99.Microseconds())})
			if err != nil {
				t.Fatal(err)
			}
			want := sustainable(plant, rate, p99)
			for seed := range seeds[uint64](2) {
				d := time.Minute + time.Duration(14_000/rate*1e9)
				trace, _ := drive(Adaptive(AdaptiveOptions{Duration: d, Healthy: healthy, Random: true}),
					plant(seed), 2*d)
				c := trace[len(trace)-1].ceiling
				// It may have begun to doubt what it has confirmed, and to confirm it again.
				if c.Seconds == 0 || c.Rate/want < 0.85 || c.Rate/want > 1.15 || c.Seconds > 60+8000/rate {
					t.Errorf("%v %v/s, seed %d: found / true is %.3f, after %.0f s: %+v", k, rate, seed,
						c.Rate/want, c.Seconds, c)
				}
				if all++; c.Low <= want && want <= c.High {
					inside++
				}
			}
		}
	}
	t.Logf("the ceiling is within the interval of %d of %d", inside, all)
	if 10*inside < 9*all {
		t.Errorf("the ceiling is within the interval of %d of %d", inside, all)
	}
}

func TestASearchFindsFewRequestsASecond(t *testing.T) {
	for _, k := range some(queues, sheds, refuses, grades) {
		for _, rate := range []float64{10, 20} {
			for seed := range seeds[uint64](2) {
				trace, _ := drive(Adaptive(AdaptiveOptions{Duration: 2 * time.Minute}),
					newPlant(k, rate, seed), 3*time.Minute)
				if c := trace[len(trace)-1].ceiling; !c.Converged || c.Rate/rate < lowest ||
					c.Rate/rate > highest+0.02 || c.Seconds > 1200/rate {
					t.Errorf("%v %v/s, seed %d: %+v", k, rate, seed, c)
				}
			}
		}
	}
}
