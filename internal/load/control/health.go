package control

import (
	"math"
	"slices"
	"time"
)

// health is what a search knows of its target's health whatever the load is.
type health struct {
	// latency are the conditions on latencies, cpu and memory, which each block has to meet; shares those
	// on shares and rates, which all of the judged time has to meet together.
	latency, shares []Condition
	// relative says that no latency condition was given: p99 is compared with the baseline.
	relative  bool
	baselines []float64 // p99 of loads that were healthy at the first climb, in seconds
}

// newHealth takes a person's conditions, and the usual ones for what they do not speak of.
func newHealth(conditions []Condition) *health {
	h := &health{relative: true}
	given := map[figure]bool{}
	for _, c := range conditions {
		given[c.figure] = true
		switch c.figure {
		case figureQuantile, figureMean:
			h.relative = false
			h.latency = append(h.latency, c)
		case figureCPU, figureMemory:
			h.latency = append(h.latency, c)
		default:
			h.shares = append(h.shares, c)
		}
	}
	percent := unit{"%", 0.01}
	if !given[figureShed] {
		h.shares = append(h.shares, Condition{figure: figureShed, limit: mostShed * 100, equal: true,
			unit: percent})
	}
	if !given[figureErrors] && !given[figureSuccess] {
		// What is shed has a limit of its own.
		h.shares = append(h.shares, Condition{figure: figureErrors, limit: (1 - leastSuccess) * 100,
			equal: true, unit: percent})
	}
	if !given[figureAchieved] {
		h.shares = append(h.shares, Condition{figure: figureAchieved, above: true, limit: leastAchieved * 100,
			equal: true, unit: percent})
	}
	return h
}

// rememberBaseline notes what the p99 of a healthy load was.
func (h *health) rememberBaseline(p99 float64) {
	if len(h.baselines) < 16 {
		h.baselines = append(h.baselines, p99)
	}
}

// limit is the p99 in seconds beyond which latencies are bad, infinite before anything is known.
func (h *health) limit() float64 {
	baseline := h.baseline()
	if baseline == 0 {
		return math.Inf(1)
	}
	return baseline + max(slack.Seconds(), baseline)
}

// baseline is the p99 of a load that the target sustains easily, in seconds; 0 before anything is known.
func (h *health) baseline() float64 {
	if len(h.baselines) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(h.baselines))
	return sorted[(len(sorted)-1)/2]
}

func (h *health) patience() time.Duration {
	var longest time.Duration
	for _, c := range append(slices.Clip(h.latency), h.shares...) {
		longest = max(longest, c.For)
	}
	return longest
}
