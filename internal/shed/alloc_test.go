//go:build !race

package shed

import "testing"

// A decision is one atomic load and, under pressure, a random number; it does not allocate.
func TestADecisionDoesNotAllocate(t *testing.T) {
	s, load, _ := watching(t, nil)
	load.set(3.5)
	s.refresh()
	rejected := 0
	if n := testing.AllocsPerRun(1000, func() {
		if s.RejectProbability().Rejects(Normal, Draw()) {
			rejected++
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if rejected == 0 {
		t.Error("nothing was rejected")
	}
	var q Queue
	if n := testing.AllocsPerRun(1000,
		func() { q.Passed(300, 3e6); q.RejectProbability(300, Limits{true, 0, 1}) }); n != 0 {
		t.Errorf("a loop's queue: %v allocations", n)
	}
}

func BenchmarkDecision(b *testing.B) {
	s, load, _ := watching(b, nil)
	for name, value := range map[string]float64{"calm": 0, "under pressure": 3.5} {
		load.set(value)
		s.refresh()
		rejected := 0
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if o := s.RejectProbability(); o != 0 && o.Rejects(Normal, Draw()) {
					rejected++
				}
			}
		})
	}
}
