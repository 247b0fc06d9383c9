package beta

import (
	"math"
	"testing"
)

// Whatever the shapes, their neighbours and the length are: samples are in [0, 1], and those of clamped
// shapes are those of the shapes they are clamped to.
func FuzzSample(f *testing.F) {
	f.Add(uint64(1), 1.0, 1.0, 0.5, 2.0, uint16(9))
	f.Add(uint64(2), math.NaN(), math.Inf(1), -3.0, 0.0, uint16(64))
	f.Add(uint64(3), 1e-3, 1e-3, 1e9, 1e300, uint16(521))
	f.Add(uint64(4), 5e-324, 0.999, math.Inf(-1), 1e-2, uint16(8))
	f.Fuzz(func(t *testing.T, seed uint64, a, b, c, d float64, length uint16) {
		n := int(length % 1200)
		alpha, beta := make([]float64, n), make([]float64, n)
		clampedAlpha, clampedBeta := make([]float64, n), make([]float64, n)
		for i := range n {
			alpha[i], beta[i] = a, b
			if seed>>(i%64)&1 != 0 {
				alpha[i], beta[i] = c, d
			}
			clampedAlpha[i], clampedBeta[i] = clamp(alpha[i]), clamp(beta[i])
		}
		got, want := make([]float64, n), make([]float64, n)
		compare := func(name string) {
			for i := range got {
				if !(got[i] >= 0 && got[i] <= 1) {
					t.Fatalf("%s: sample %d of Beta(%v, %v) is %v", name, i, alpha[i], beta[i], got[i])
				}
				if got[i] != want[i] {
					t.Fatalf("%s: sample %d of Beta(%v, %v) is %v, and %v of the clamped shapes", name, i,
						alpha[i], beta[i], got[i], want[i])
				}
			}
		}
		clamped := samplers(seed | 1)
		for name, s := range samplers(seed | 1) {
			s.Sample(got, alpha, beta)
			clamped[name].Sample(want, clampedAlpha, clampedBeta)
			compare(name)
		}
		Seeded(seed, got, alpha, beta)
		Seeded(seed, want, clampedAlpha, clampedBeta)
		compare("seeded")
	})
}
