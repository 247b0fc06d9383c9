//go:build !race

package beta

import "testing"

// raceEnabled is in race_test.go, too.
const raceEnabled = false

func TestSamplesDoNotAllocate(t *testing.T) {
	alpha, beta := pairs(goldenShapes)
	dst := make([]float64, len(alpha))
	for name, s := range samplers(1) {
		if n := testing.AllocsPerRun(100, func() { s.Sample(dst, alpha, beta) }); n != 0 {
			t.Errorf("%s: Sample allocates %v times", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Seeded(1, dst, alpha, beta) }); n != 0 {
		t.Errorf("Seeded allocates %v times", n)
	}
}
