// Package beta draws samples of Beta distributions whose shapes vary from sample to sample, which is what
// Thompson sampling asks for: one sample an arm, from the arm's posterior.
//
// Samples are exact. The methods behind them are proved to give the distribution and not an approximation
// of it, so that what is left are roundings of float64. They lie in [0, 1] and are never NaN; both ends
// occur where a float64 cannot tell a sample from them, as most samples of Beta(0.001, 0.001) are. Shapes
// are clamped to [MinShape, MaxShape], and what is no number is MinShape.
//
// A Sampler is fast and picks what the processor has; what it draws for a seed may be different on another
// processor or in another version. Seeded is slower and always draws the same.
//
// # Method
//
// If X and Y have Gamma distributions of shapes a and b, then X/(X+Y) has Beta(a, b). Gammas come from
// normals by
//
//	G. Marsaglia, W. W. Tsang: A simple method for generating gamma variables, ACM TOMS 26 (2000), 363-372.
//
// For d = a-1/3, c = 1/sqrt(9d) and a normal x, d(1+cx)^3 has nearly that distribution; it is kept with the
// probability that makes it exact, which is 0.95 for a = 1 and tends to 1, and otherwise drawn anew. It
// wants a >= 1: a smaller shape is drawn as Gamma(a+1) U^(1/a) with U uniform. That power underflows for
// tiny shapes, and if it did in both X and Y the ratio would be 0/0. So only the difference of the two
// exponents is made a power, and the greater of the two gammas is left as it is.
//
// That is reference.go. What a Sampler does differently, why it is as exact and what it gains is in
// SIMD.md.
package beta

import "fmt"

// Shapes beyond these are clamped to them.
const (
	MinShape = 1e-3
	MaxShape = 1e9
)

// A Sampler draws samples. It holds the state of its generator and 50 KB of lists, and is for one goroutine
// at a time.
type Sampler struct {
	kernel kernel
	source source // for kernelNone
	work   work   // for others
}

// New returns a Sampler that draws what seed determines, or, if seed is 0, what nobody can foresee.
func New(seed uint64) *Sampler {
	return newSampler(seed, append(kernels(), kernelNone)[0])
}

func newSampler(seed uint64, k kernel) *Sampler {
	s := &Sampler{kernel: k}
	if seed == 0 {
		s.source = randomSource()
	} else {
		s.source = newSource(seed, 0)
	}
	s.work.seed(&s.source)
	return s
}

// Sample sets dst[i] to a sample of Beta(alpha[i], beta[i]). The slices have one length, and dst shares no
// memory with the others. It does not allocate.
func (s *Sampler) Sample(dst, alpha, beta []float64) {
	checkLengths(dst, alpha, beta)
	if s.kernel != kernelNone {
		for len(dst) > 0 {
			n := min(len(dst), block)
			s.kernel.sample(dst[:n], alpha[:n], beta[:n], &s.work)
			dst, alpha, beta = dst[n:], alpha[n:], beta[n:]
		}
		return
	}
	s.source = s.source.scalar(dst, alpha, beta)
}

// Seeded sets dst[i] to a sample of Beta(alpha[i], beta[i]) that is determined by seed, i and the two
// shapes alone: it does not depend on the processor, nor on the other shapes. The slices have one length.
func Seeded(seed uint64, dst, alpha, beta []float64) {
	checkLengths(dst, alpha, beta)
	for i := range dst {
		g := newSource(seed, uint64(i))
		dst[i] = g.beta(clamp(alpha[i]), clamp(beta[i]))
	}
}

func checkLengths(dst, alpha, beta []float64) {
	if len(alpha) != len(dst) || len(beta) != len(dst) {
		panic(fmt.Sprintf("beta: %d samples of %d alphas and %d betas: the slices must have one length",
			len(dst), len(alpha), len(beta)))
	}
}

// clamp makes a shape of any number.
func clamp(shape float64) float64 {
	switch {
	case !(shape >= MinShape): // NaN, too
		return MinShape
	case shape > MaxShape:
		return MaxShape
	}
	return shape
}
