package beta

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// samplers returns a Sampler for each of the ways to draw but the reference.
func samplers(seed uint64) map[string]*Sampler {
	all := map[string]*Sampler{"scalar": newSampler(seed, kernelNone)}
	for _, k := range kernels() {
		all[k.String()] = newSampler(seed, k)
	}
	return all
}

// The reference has passed its own tests of fit; here its samples and those of the fast ways are compared
// with each other, by Kolmogorov and Smirnov's test for two samples, which knows nothing of a distribution
// function.
func TestFastSamplesAreDistributedAsThoseOfTheReference(t *testing.T) {
	n := enough(40_000)
	alpha, beta := pairs([]float64{0.004, 0.3, 0.97, 1, 1.6, 12, 1e4, 3e8})
	reference := make([][]float64, len(alpha))
	dst := make([]float64, len(alpha))
	for seed := range n {
		Seeded(uint64(seed), dst, alpha, beta)
		for i, x := range dst {
			reference[i] = append(reference[i], x)
		}
	}
	for name, s := range samplers(77) {
		fast := make([][]float64, len(alpha))
		for range n {
			s.Sample(dst, alpha, beta)
			for i, x := range dst {
				fast[i] = append(fast[i], x)
			}
		}
		for i := range alpha {
			slices.Sort(reference[i])
			slices.Sort(fast[i])
			d, k := 0.0, 0
			for j, x := range reference[i] {
				for k < n && fast[i][k] <= x {
					k++
				}
				// At equal numbers, of which tiny shapes have many, only the last counts.
				if j+1 == n || reference[i][j+1] != x {
					d = max(d, math.Abs(float64(k-j-1)/float64(n)))
				}
			}
			if p := kolmogorov(d * math.Sqrt(float64(n)/2)); p < familyWise/float64(len(alpha)) {
				t.Errorf("%s: Beta(%v, %v) is not as the reference's: p = %.3g", name, alpha[i], beta[i], p)
			}
		}
	}
}

func TestSlicesOfAllLengthsAndPlacesAreFilled(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, s := range samplers(3) {
		for n := range 1100 {
			if n == 90 {
				n = 500 // up to more than two blocks
			}
			offset := r.IntN(8)
			dst, alpha, beta := make([]float64, offset+n+9), make([]float64, n+r.IntN(3)),
				make([]float64, offset+n)
			for i := range dst {
				dst[i] = -1
			}
			alpha, beta = alpha[len(alpha)-n:], beta[offset:]
			for i := range alpha {
				alpha[i], beta[i] = math.Exp(20*r.Float64()-5), math.Exp(20*r.Float64()-5)
				if r.IntN(3) == 0 {
					alpha[i], beta[i] = 1, 1
				}
			}
			s.Sample(dst[offset:offset+n], alpha, beta)
			for i, x := range dst {
				switch inside := i >= offset && i < offset+n; {
				case inside && !(x >= 0 && x <= 1):
					t.Fatalf("%s: sample %d of %d is %v", name, i-offset, n, x)
				case !inside && x != -1:
					t.Fatalf("%s: %d samples have written to place %d", name, n, i-offset)
				}
			}
		}
	}
}

// A word of nothing but zeros makes an infinite normal, one of nothing but ones a zero. Each occurs once in
// 2^64 words; here all lanes begin with one.
func TestExtremeWordsOfTheGeneratorDoNoHarm(t *testing.T) {
	for _, k := range kernels() {
		for _, word := range []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 4095, 1 << 63, 4095, 7} {
			for _, later := range []uint64{0, math.MaxUint64, 12345} {
				for _, shapes := range [][2]float64{{1, 1}, {2, 3}, {0.5, 0.001}, {1e9, 1e9}, {1e-3, 1e-3},
					{1e-3, 1e9}, {0.3, 7}} {
					var w work
					for i := range w.lanes[0] {
						// The first word is a+b+counter, the second a multiple of b and c.
						w.lanes[0][i], w.lanes[1][i], w.lanes[2][i] = word-later, later, -later
					}
					var dst, alpha, beta [64]float64
					for i := range dst {
						alpha[i], beta[i] = shapes[0], shapes[1]
					}
					k.sample(dst[:], alpha[:], beta[:], &w)
					for i, x := range dst {
						if !(x >= 0 && x <= 1) {
							t.Fatalf("%v: after the words %#x and %#x sample %d of Beta(%v, %v) is %v", k,
								word, later, i, shapes[0], shapes[1], x)
						}
					}
				}
			}
		}
	}
}

// What the squeeze accepts must be what the full test accepts, too. SIMD.md shows that d = 2/3, the least
// there is, is the worst case; here is a fine grid of others as well. Where the squeeze's constant is 81/48
// in place of 81/44, this fails.
func TestSqueezeAcceptsNothingThatTheFullTestRejects(t *testing.T) {
	for d := 2.0 / 3; d < 1e10; d *= 1.05 {
		limit := math.Pow(44.0/(81*d), 0.25) // where the squeeze accepts nothing any more
		for i := 1; i < 4_000; i++ {
			for _, y := range []float64{-limit * float64(i) / 4_000, limit * float64(i) / 4_000} {
				if y <= -1 {
					t.Fatalf("the squeeze accepts c x = %v for d = %v", y, d)
				}
				if squeeze, full := math.Log1p(-81.0/44*d*y*y*y*y), d*deficit(y); squeeze > full+1e-12 {
					t.Fatalf("d = %v, c x = %v: the squeeze accepts up to e^%v, the full test up to e^%v", d,
						y, squeeze, full)
				}
			}
		}
	}
}

func TestLanesAreGeneratorsOfTheirOwn(t *testing.T) {
	for _, k := range kernels() {
		s := newSampler(5, k)
		lanes := 8
		if k == kernelAVX2 {
			lanes = 4
		}
		var want [8]source
		for i := range lanes {
			want[i] = source{s.work.lanes[0][i], s.work.lanes[1][i], s.work.lanes[2][i], s.work.lanes[3][i]}
		}
		// A sample of Beta(1, 1) takes one word of its lane.
		var dst, ones [80]float64
		for i := range ones {
			ones[i] = 1
		}
		s.Sample(dst[:], ones[:], ones[:])
		for i, x := range dst {
			word := want[i%lanes].next()
			// AVX-512 has words signed.
			if u := float64(word) * 0x1p-64; math.Abs(x-u) > 0x1p-50 &&
				math.Abs(math.Abs(x-u)-0.5) > 0x1p-50 {
				t.Fatalf("%v: sample %d is %v, and its lane's word %v", k, i, x, u)
			}
		}
		for i := range lanes {
			got := source{s.work.lanes[0][i], s.work.lanes[1][i], s.work.lanes[2][i], s.work.lanes[3][i]}
			if got != want[i] {
				t.Errorf("%v: lane %d is then %v, want %v", k, i, got, want[i])
			}
		}
	}
}
