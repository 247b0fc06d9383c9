//go:build !race

package control

// These are many simulated minutes on one goroutine: nothing for the race detector to see, and it takes ten
// times as long.

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// What is promised of a search, and what would be good.
const (
	patience          = 60 * time.Second
	lowAim, highAim   = 0.98, 1.02
	patienceAim       = 30 * time.Second
	followed          = 10 * time.Second
	followedAim       = 5 * time.Second
	closeEnough       = 0.07 // of the new ceiling, to call it followed
	settledBeforeMove = 25 * time.Second
)

// searched is one search and what came of it.
type searched struct {
	name  string
	ratio float64
	found float64 // seconds
	inCI  bool
}

// search looks for the ceiling of plants of a kind, at several rates and with several seeds, quiet and with
// stalls.
func search(t *testing.T, kinds []kind, rates []float64, n int) []searched {
	t.Helper()
	var all []searched
	for _, k := range kinds {
		for _, rate := range rates {
			for _, noisy := range []bool{false, true} {
				for seed := range n {
					p := newPlant(k, rate, uint64(seed))
					if noisy {
						p.noisy()
					}
					name := fmt.Sprintf("%v %v/s noisy=%v seed=%d", k, rate, noisy, seed)
					trace, last := drive(Adaptive(AdaptiveOptions{Duration: searchedFor}), p, 2*searchedFor)
					c := trace[len(trace)-1].ceiling
					if !last.Done || last.Reason != "" || !c.Converged {
						t.Errorf("%s: ended with %+v and %+v", name, last, c)
					}
					all = append(all, searched{name, c.Rate / rate, c.Seconds, c.Low <= rate &&
						rate <= c.High})
				}
			}
		}
	}
	return all
}

func TestASearchFindsTheCeiling(t *testing.T) {
	// All of them in quick tests, too: of a few, a share says nothing.
	all := search(t, []kind{queues, sheds, refuses, grades}, []float64{50, 333, 2000, 20000, 100000}, 3)
	aims, covered := 0, 0
	for _, s := range all {
		if s.ratio < lowest || s.ratio > highest || s.found > patience.Seconds() {
			t.Errorf("%s: found / true is %.3f, after %.0f s", s.name, s.ratio, s.found)
		}
		if s.ratio >= lowAim && s.ratio <= highAim && s.found <= patienceAim.Seconds() {
			aims++
		}
		if s.inCI {
			covered++
		}
	}
	t.Logf("%d searches: %d within the aims, the ceiling within the interval of %d", len(all), aims, covered)
	if float64(aims) < 0.9*float64(len(all)) {
		t.Errorf("only %d of %d searches were within %v..%v after %v", aims, len(all), lowAim, highAim,
			patienceAim)
	}
	if float64(covered) < 0.95*float64(len(all)) {
		t.Errorf("only %d of %d intervals of 95 %% have the ceiling", covered, len(all))
	}
}

func TestASearchFollowsACeilingThatMoves(t *testing.T) {
	for _, factor := range []float64{0.5, 2} {
		var times []float64
		for _, k := range some(queues, sheds, grades) {
			for _, rate := range []float64{2000, 20000} {
				for seed := range seeds(3) {
					p := newPlant(k, rate, uint64(seed))
					if seed%2 == 1 {
						p.noisy()
					}
					moves := settledBeforeMove + time.Duration(p.rng.IntN(5000))*time.Millisecond
					p.rate = func(t time.Duration) float64 {
						if t > moves {
							return rate * factor
						}
						return rate
					}
					trace, _ := drive(Adaptive(AdaptiveOptions{Duration: 50 * time.Second}), p, time.Minute)
					// The first moment from which on it was right for three seconds.
					after := math.Inf(1)
					for _, m := range trace {
						switch right := math.Abs(m.ceiling.Rate/(rate*factor)-1) <= closeEnough; {
						case m.at < moves:
						case !right:
							after = math.Inf(1)
						case math.IsInf(after, 1):
							after = (m.at - moves).Seconds()
						}
						if m.at-moves > 3*time.Second && !math.IsInf(after, 1) &&
							(m.at-moves).Seconds() > after+3 {
							break
						}
					}
					name := fmt.Sprintf("%v %v/s x %v, seed %d", k, rate, factor, seed)
					limit := followed
					if factor > 1 {
						// It has to be noticed by a look above, of which there is one in a few seconds.
						limit = 12 * time.Second
					}
					if after > limit.Seconds() {
						t.Errorf("%s: followed after %.1f s", name, after)
					}
					times = append(times, after)
				}
			}
		}
		slices.Sort(times)
		t.Logf("x %v: followed after %.1f s", factor, times)
		if typical := times[len(times)/2]; !testing.Short() && factor < 1 && typical > followedAim.Seconds() {
			t.Errorf("x %v: typically followed after %.1f s, more than %v", factor, typical, followedAim)
		}
	}
}

// A search that has understood that its target bursty up knows the ceiling from above, too, and does not
// overload the target again and again to find out.
func TestASearchUnderstandsBursts(t *testing.T) {
	for _, bucket := range []float64{0.3, 3} {
		for _, rate := range []float64{700, 7500} {
			p := newPlant(sheds, rate, 1000)
			p.bucket = bucket
			trace, _ := drive(Adaptive(AdaptiveOptions{Duration: 90 * time.Second}), p, 2*time.Minute)
			over := 0
			for _, m := range trace {
				if m.rate > 1.05*rate {
					over++
				}
			}
			c := trace[len(trace)-1].ceiling
			if !c.Converged || c.High > 1.03*rate || c.Seconds > 20 {
				t.Errorf("%v/s and %v s of it saved up: %+v", rate, bucket, c)
			}
			// About 150 with what is known, and 350 without.
			if over > 240 {
				t.Errorf("%v/s and %v s of it saved up: overloaded for %d of %d windows", rate, bucket, over,
					len(trace))
			}
		}
	}
}

// A bucket that is full at the beginning sustains anything for a while.
func TestASearchIsNotFooledByFullBuckets(t *testing.T) {
	for _, bucket := range some[float64](1, 60, 5, 10) {
		for _, rate := range []float64{100, 2000, 20000} {
			for seed := range seeds[uint64](1) {
				p := newPlant(sheds, rate, seed)
				p.bucket, p.credit = bucket, bucket*rate
				trace, _ := drive(Adaptive(AdaptiveOptions{Duration: time.Minute}), p, 2*time.Minute)
				if c := trace[len(trace)-1].ceiling; !c.Converged || c.Rate/rate < lowest ||
					c.Rate/rate > highest || c.Seconds > 35 {
					t.Errorf("%v/s and %v s of it saved up, seed %d: %+v", rate, bucket, seed, c)
				}
			}
		}
	}
}

// A quick search ends when it has found the ceiling, in a third of the usual time; a careful one is rarely
// more than a hundredth off.
func TestPresetsGiveTimeForCertainty(t *testing.T) {
	for _, of := range []struct {
		preset    Preset
		most      time.Duration
		near, far float64
	}{{Quick, 15 * time.Second, 0.03, 0.08}, {Careful, 75 * time.Second, 0.01, 0.03}} {
		n, off := 0, 0
		for _, k := range []kind{queues, sheds, refuses} {
			for _, rate := range []float64{333, 20000} {
				for seed := range seeds[uint64](2) {
					p := newPlant(k, rate, seed)
					p.noisy()
					trace, last := drive(Adaptive(AdaptiveOptions{Preset: of.preset, Duration: 90 * time.Second,
						UntilFound: of.preset == Quick}), p, time.Hour)
					end := trace[len(trace)-1]
					distance := math.Abs(end.ceiling.Rate/rate - 1)
					if end.ceiling.Seconds > of.most.Seconds() || !last.Done || distance > of.far ||
						of.preset == Quick && end.at > of.most {
						t.Errorf("%s, %v %v/s, seed %d: ended at %v with %+v", of.preset, k, rate, seed, end.at,
							end.ceiling)
					}
					if n++; distance > of.near {
						off++
					}
				}
			}
		}
		if 5*off > n {
			t.Errorf("%s: %d of %d searches are more than %v off", of.preset, off, n, of.near)
		}
	}
}
