//go:build !race

package shed

import "testing"

// A decision is one atomic load and, under pressure, a random number; it does not allocate.
func TestADecisionDoesNotAllocate(t *testing.T) {
	s, load, _ := watching(t, nil)
	load.set(3.5)
	s.refresh()
	refused := 0
	if n := testing.AllocsPerRun(1000, func() {
		if s.Odds().Refuses(Normal, Draw()) {
			refused++
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	var q Queue
	if n := testing.AllocsPerRun(1000, func() { q.Passed(300, 3e6); q.Odds(300, Limits{true, 0, 1}) }); n != 0 {
		t.Errorf("a loop's queue: %v allocations", n)
	}
}

func BenchmarkDecision(b *testing.B) {
	s, load, _ := watching(b, nil)
	for name, value := range map[string]float64{"calm": 0, "under pressure": 3.5} {
		load.set(value)
		s.refresh()
		refused := 0
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if o := s.Odds(); o != 0 && o.Refuses(Normal, Draw()) {
					refused++
				}
			}
		})
	}
}
