//go:build !race

package beta

import "testing"

// raceEnabled is in race_test.go, too.
const raceEnabled = false

func TestSamplesDoNotAllocate(t *testing.T) {
	alpha, beta := pairs(goldenShapes)
	dst := make([]float64, len(alpha))
	s := New(1)
	if n := testing.AllocsPerRun(100, func() { s.Sample(dst, alpha, beta) }); n != 0 {
		t.Errorf("Sample allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { Seeded(1, dst, alpha, beta) }); n != 0 {
		t.Errorf("Seeded allocates %v times", n)
	}
}
