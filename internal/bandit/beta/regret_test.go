package beta

import (
	"math"
	"math/rand/v2"
	"testing"
)

// arms are simulated: each pays 1 with its own probability and else 0.
type arms []float64

// regret plays rounds and returns what was lost against always playing the best arm, in expectation, after
// each power of two of them.
func (p arms) regret(rounds int, seed uint64, choose func(round int, alpha, beta []float64) int) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	best := 0.0
	alpha, beta := make([]float64, len(p)), make([]float64, len(p))
	for i, probability := range p {
		best = max(best, probability)
		alpha[i], beta[i] = 1, 1
	}
	lost := 0.0
	var course []float64
	for round := 1; round <= rounds; round++ {
		arm := choose(round, alpha, beta)
		lost += best - p[arm]
		if r.Float64() < p[arm] {
			alpha[arm]++
		} else {
			beta[arm]++
		}
		if round&(round-1) == 0 {
			course = append(course, lost)
		}
	}
	return course
}

func greatest(scores []float64) int {
	best := 0
	for i, score := range scores {
		if score > scores[best] {
			best = i
		}
	}
	return best
}

// What all of this is for: Thompson sampling loses little. Its regret grows with the logarithm of the
// number of rounds, as Lai and Robbins' bound does that no policy can beat in the long run, while a policy
// that explores by a fixed share loses in proportion.
func TestThompsonSamplingsRegretIsLogarithmic(t *testing.T) {
	p := arms{0.1, 0.2, 0.3, 0.35, 0.5, 0.05, 0.15, 0.45, 0.25, 0.4}
	const doublings, runs = 15, 16
	bound := 0.0 // Lai and Robbins': the sum of gaps over Kullback-Leibler divergences, times log T
	for _, q := range p {
		if q < 0.5 {
			bound += (0.5 - q) / (q*math.Log(q/0.5) + (1-q)*math.Log((1-q)/0.5))
		}
	}
	for name := range samplers(1) {
		thompson, greedy := make([]float64, doublings+1), make([]float64, doublings+1)
		for run := range uint64(runs) {
			s := samplers(1 + run)[name]
			scores := make([]float64, len(p))
			course := p.regret(1<<doublings, run, func(_ int, alpha, beta []float64) int {
				s.Sample(scores, alpha, beta)
				return greatest(scores)
			})
			r := rand.New(rand.NewPCG(run, 2))
			other := p.regret(1<<doublings, run, func(_ int, alpha, beta []float64) int {
				if r.Float64() < 0.1 {
					return r.IntN(len(p))
				}
				for i := range scores {
					scores[i] = alpha[i] / (alpha[i] + beta[i])
				}
				return greatest(scores)
			})
			for i := range course {
				thompson[i] += course[i] / runs
				greedy[i] += other[i] / runs
			}
		}
		// From a thousand rounds on, a doubling costs log 2 times something near the bound, however many
		// rounds there were.
		for i := 11; i <= doublings; i++ {
			if grown := thompson[i] - thompson[i-1]; grown > 1.5*bound*math.Ln2 {
				t.Errorf("%s: from 2^%d to 2^%d rounds regret grows by %.1f, and a logarithm's by %.1f at "+
					"best", name, i-1, i, grown, bound*math.Ln2)
			}
			if thompson[i] > greedy[i] {
				t.Errorf("%s: after 2^%d rounds regret is %.1f, and %.1f for epsilon-greedy", name, i,
					thompson[i], greedy[i])
			}
		}
		if thompson[doublings] > greedy[doublings]/5 {
			t.Errorf("%s: in the end regret is %.1f, and %.1f for epsilon-greedy", name, thompson[doublings],
				greedy[doublings])
		}
		t.Logf("%s: regret %.0f, epsilon-greedy's %.0f, Lai and Robbins' bound %.0f", name,
			thompson[doublings], greedy[doublings], bound*math.Log(1<<doublings))
	}
}
