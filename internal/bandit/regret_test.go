package bandit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/bandit/arms"
	"weir/internal/server"
)

// The served policy, by its requests alone: for users of two segments who like different items it asks for
// the best one, and reports what came of it. What it loses grows as a logarithm, and is less than what a
// policy loses that explores by a fixed share. Seeds make it the same every time.
func TestTheServedPolicysRegretIsLogarithmic(t *testing.T) {
	segments := [2][]float64{{0.1, 0.3, 0.5, 0.2, 0.4}, {0.5, 0.1, 0.2, 0.45, 0.05}}
	const doublings, runs = 11, 8
	bound := 0.0 // Lai and Robbins': the sum of gaps over Kullback-Leibler divergences, times log T
	for _, p := range segments {
		for _, q := range p {
			if q < 0.5 {
				bound += (0.5 - q) / (q*math.Log(q/0.5) + (1-q)*math.Log((1-q)/0.5))
			}
		}
	}
	played := func(run uint64, choose func(round, segment int) int,
		learn func(segment, item int, reward float64)) (course []float64) {
		r := rand.New(rand.NewPCG(run, 1))
		lost := 0.0
		for round := 1; round <= 1<<doublings; round++ {
			segment := r.IntN(2)
			p := segments[segment]
			item := choose(round, segment)
			lost += slices.Max(p) - p[item]
			reward := 0.0
			if r.Float64() < p[item] {
				reward = 1
			}
			learn(segment, item, reward)
			if round&(round-1) == 0 {
				course = append(course, lost)
			}
		}
		return course
	}
	thompson, greedy := make([]float64, doublings+1), make([]float64, doublings+1)
	for run := range uint64(runs) {
		s := serve(t, open(t, t.TempDir(), func(c *Config) { c.Learn = arms.Segmented }), server.Config{})
		course := played(run, func(round, segment int) int {
			var best struct {
				Items  []int
				Scores []float64
			}
			s.post("/predict", fmt.Sprintf(
				`{"user":"u%d","segment":"s%d","items":[0,1,2,3,4],"top":1,"seed":%d}`, round, segment,
				run<<20+uint64(round)), &best)
			return best.Items[0]
		}, func(segment, item int, reward float64) {
			s.events(fmt.Sprintf(`{"segment":"s%d","item":%d,"reward":%v}`, segment, item, reward),
				accepted{1, 0})
		})
		r := rand.New(rand.NewPCG(run, 2))
		var shown, paid [2][5]float64
		other := played(run, func(_, segment int) int {
			if r.Float64() < 0.1 {
				return r.IntN(5)
			}
			best, mean := 0, -1.0
			for i := range 5 {
				if m := (1 + paid[segment][i]) / (2 + shown[segment][i]); m > mean {
					best, mean = i, m
				}
			}
			return best
		}, func(segment, item int, reward float64) {
			shown[segment][item]++
			paid[segment][item] += reward
		})
		for i := range course {
			thompson[i] += course[i] / runs
			greedy[i] += other[i] / runs
		}
	}
	for i := doublings - 1; i <= doublings; i++ {
		if grown := thompson[i] - thompson[i-1]; grown > 1.5*bound*math.Ln2 {
			t.Errorf("from 2^%d to 2^%d rounds regret grows by %.1f, and a logarithm's by %.1f at best", i-1,
				i, grown, bound*math.Ln2)
		}
	}
	if thompson[doublings] >= greedy[doublings] {
		t.Errorf("in the end regret is %.1f, and %.1f for epsilon-greedy", thompson[doublings],
			greedy[doublings])
	}
	t.Logf("regret %.1f, epsilon-greedy's %.1f, Lai and Robbins' bound %.1f", thompson[doublings],
		greedy[doublings], bound*math.Log(1<<doublings))
}
