package beta

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Tests of fit. Every sample becomes a number that is uniform on [0, 1] if the sample has the distribution
// it should have, its probability integral; and then Kolmogorov and Smirnov's and Anderson and Darling's
// statistics say how likely such numbers are. Seeds are fixed, so a test that has passed passes; a change
// of the algorithm makes a correct one fail with the probability familyWise.
const familyWise = 1e-4

// A way is one of the ways to draw samples, all of which have to pass.
type way struct {
	name string
	new  func(seed uint64) func(dst, alpha, beta []float64)
}

func ways() []way {
	all := []way{
		{"seeded", func(seed uint64) func(dst, alpha, beta []float64) {
			return func(dst, alpha, beta []float64) {
				Seeded(seed, dst, alpha, beta)
				seed++
			}
		}},
		{"scalar", func(seed uint64) func(dst, alpha, beta []float64) {
			return newSampler(seed, kernelNone).Sample
		}},
	}
	for _, k := range kernels() {
		all = append(all, way{k.String(), func(seed uint64) func(dst, alpha, beta []float64) {
			return newSampler(seed, k).Sample
		}})
	}
	return all
}

// forAllWays runs a test of samples for each of the ways to draw them.
func forAllWays(t *testing.T, test func(t *testing.T, sample func(dst, alpha, beta []float64))) {
	for i, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			test(t, w.new(uint64(1000*(i+1))))
		})
	}
}

// gridShapes are the shapes of which all pairs are tested.
var gridShapes = []float64{1e-3, 0.01, 0.1, 0.5, 0.9, 1, 1.1, 2, 5, 30, 1000, 1e5, 1e7, 1e9}

// uniform returns the probability integral of a sample and, with its own precision, what it is short of
// one. Where float64 is too coarse to have all samples apart, at the ends, it is a random number in place
// of theirs.
func (e *exact) uniform(x float64, r *rand.Rand) (u, rest float64) {
	switch {
	case x < e.lowest:
		below, _ := e.probabilities(e.lowest)
		u = below * r.Float64()
		return u, 1 - u
	case x > e.top:
		_, above := e.probabilities(e.top)
		rest = above * r.Float64()
		return 1 - rest, rest
	}
	return e.probabilities(x)
}

// kolmogorovSmirnov returns the probability that the numbers, which it sorts, are at least as far from
// uniform as they are.
func kolmogorovSmirnov(u []float64) float64 {
	slices.Sort(u)
	n := float64(len(u))
	d := 0.0
	for i, x := range u {
		d = max(d, float64(i+1)/n-x, x-float64(i)/n)
	}
	return kolmogorov(d * (math.Sqrt(n) + 0.12 + 0.11/math.Sqrt(n)))
}

// kolmogorov returns the probability of a greater statistic than x, scaled by the root of the number of
// samples.
func kolmogorov(x float64) float64 {
	if x < 0.3 {
		return 1
	}
	p := 0.0
	for k := 1.0; k < 20; k++ {
		p += 2 * math.Exp(-2*k*k*x*x) * (1 - 2*math.Mod(k+1, 2))
	}
	return min(1, p)
}

// andersonDarling returns likewise the probability of Anderson and Darling's statistic, which looks at the
// tails. Of the numbers u it is also given 1-u, both sorted.
func andersonDarling(u, rest []float64) float64 {
	n := len(u)
	sum := 0.0
	for i := range u {
		// Both are ascending, so the end of one is the beginning of the other.
		sum += float64(2*i+1) * (math.Log(max(u[i], 1e-300)) + math.Log(max(rest[i], 1e-300)))
	}
	z := -float64(n) - sum/float64(n)
	switch {
	case z < 0.01:
		return 1
	case z > 4:
		// The slowest of the exponentials whose sum it is.
		return math.Sqrt(3) * math.Erfc(math.Sqrt(z))
	case z < 2:
		// G. and J. Marsaglia: Evaluating the Anderson-Darling distribution, J. Statistical Software 9
		// (2004).
		return 1 - math.Exp(-1.2337141/z)/math.Sqrt(
			z)*(2.00012+(0.247105-(0.0649821-(0.0347962-(0.011672-0.00168691*z)*z)*z)*z)*z)
	}
	return 1 - math.Exp(-math.Exp(1.0776-(2.30695-(0.43424-(0.082433-(0.008056-0.0003146*z)*z)*z)*z)*z))
}

// checkFit draws from pairs of shapes, in an order that is another every time so that all of them meet in a
// vector, and tests what comes of each. It also tests that the probabilities are uniform themselves, which
// shows what is wrong by little but everywhere.
func checkFit(t *testing.T, sample func(dst, alpha, beta []float64), alpha, beta []float64, samples int) {
	pairs := len(alpha)
	all := make([][]float64, pairs)
	order := rand.New(rand.NewPCG(1, uint64(pairs)))
	dst, a, b := make([]float64, pairs), make([]float64, pairs), make([]float64, pairs)
	for range samples {
		places := order.Perm(pairs)
		for i, place := range places {
			a[place], b[place] = alpha[i], beta[i]
		}
		sample(dst, a, b)
		for i, place := range places {
			all[i] = append(all[i], dst[place])
		}
	}
	var p []float64
	for i, xs := range all {
		e := newExact(clamp(alpha[i]), clamp(beta[i]))
		u, rest := make([]float64, len(xs)), make([]float64, len(xs))
		for k, x := range xs {
			if !(x >= 0 && x <= 1) {
				t.Fatalf("a sample of Beta(%v, %v) is %v", alpha[i], beta[i], x)
			}
			u[k], rest[k] = e.uniform(x, order)
			if !(u[k] >= 0 && u[k] <= 1 && rest[k] >= 0 && rest[k] <= 1) { // nor NaN, which would pass
				t.Fatalf("the probability of less than %v by Beta(%v, %v) is %v, that of more %v", x,
					alpha[i], beta[i], u[k], rest[k])
			}
		}
		slices.Sort(rest)
		ks := kolmogorovSmirnov(u)
		ad := andersonDarling(u, rest)
		if least := familyWise / float64(2*pairs); ks < least || ad < least {
			t.Errorf("Beta(%v, %v): p = %.3g by Kolmogorov and Smirnov, %.3g by Anderson and Darling",
				alpha[i], beta[i], ks, ad)
		}
		p = append(p, ad)
	}
	if q := kolmogorovSmirnov(p); q < familyWise {
		t.Errorf("the probabilities of %d pairs of shapes are not uniform: p = %.3g", pairs, q)
	}
}

// enough returns how many samples a test can afford.
func enough(n int) int {
	if raceEnabled {
		return n / 8
	}
	return n
}

func TestSamplesHaveTheDistribution(t *testing.T) {
	forAllWays(t, func(t *testing.T, sample func(dst, alpha, beta []float64)) {
		alpha, beta := pairs(gridShapes)
		checkFit(t, sample, alpha, beta, enough(10_000))
	})
}

// Many samples of few pairs: those that meet the method where it is least exact, or where it changes.
func TestManySamplesHaveTheDistribution(t *testing.T) {
	forAllWays(t, func(t *testing.T, sample func(dst, alpha, beta []float64)) {
		alpha := []float64{1, 1, 1.0001, 0.9999, 0.5, 1, 2, 20, 0.05, 0.001, 1e9}
		beta := []float64{1, 1.0001, 1.0001, 0.9999, 0.5, 50, 2, 30, 0.02, 0.001, 1e9}
		checkFit(t, sample, alpha, beta, enough(200_000))
	})
}

func TestMomentsAreThoseOfTheDistribution(t *testing.T) {
	forAllWays(t, func(t *testing.T, sample func(dst, alpha, beta []float64)) {
		n := enough(200_000)
		alpha, beta, dst := make([]float64, n), make([]float64, n), make([]float64, n)
		for _, shapes := range [][2]float64{{0.2, 0.3}, {0.5, 2}, {1, 1}, {1, 30}, {2, 3}, {40, 7},
			{1000, 3000}, {1e6, 1e6}} {
			a, b := shapes[0], shapes[1]
			for i := range dst {
				alpha[i], beta[i] = a, b
			}
			sample(dst, alpha, beta)
			mean, variance := a/(a+b), a*b/((a+b)*(a+b)*(a+b+1))
			// Of the standardised samples, the mean of each power is asymptotically normal around the moment.
			moments := [9]float64{0: 1}
			for k := 1; k < len(moments); k++ {
				moments[k] = moments[k-1] * (a + float64(k-1)) / (a + b + float64(k-1))
			}
			central := func(power int) float64 { // the sum over binomial coefficients
				sum, c := 0.0, 1.0
				for k := 0; k <= power; k++ {
					sum += c * moments[k] * math.Pow(-mean, float64(power-k))
					c = c * float64(power-k) / float64(k+1)
				}
				return sum / math.Pow(variance, float64(power)/2)
			}
			powers := 4
			if a > 100 {
				powers = 2 // beyond that the binomial sum has no digits left
			}
			for power := 1; power <= powers; power++ {
				want, spread := central(power), 1.0
				switch {
				case a > 100 && power == 1:
					want = 0
				case a > 100:
					want, spread = 1, math.Sqrt2
				default:
					spread = math.Sqrt(central(2*power) - want*want)
				}
				got := 0.0
				for _, x := range dst {
					got += math.Pow((x-mean)/math.Sqrt(variance), float64(power)) / float64(n)
				}
				if z := (got - want) / spread * math.Sqrt(float64(n)); math.Abs(z) > 5 {
					t.Errorf("Beta(%v, %v): moment %d is %v, want %v: %.1f standard deviations off", a, b,
						power, got, want, z)
				}
			}
		}
	})
}

// Where both shapes are tiny, samples are nearly 0 or 1; which of both, and how near, is for logarithms to
// say.
func TestTinyShapesAreRightInLogSpace(t *testing.T) {
	forAllWays(t, func(t *testing.T, sample func(dst, alpha, beta []float64)) {
		n := enough(100_000)
		alpha, beta, dst := make([]float64, n), make([]float64, n), make([]float64, n)
		for _, shapes := range [][2]float64{{1e-3, 1e-3}, {1e-3, 3e-3}, {2e-3, 0.01}, {0.02, 0.02}, {1e-3, 5},
			{1e-3, 1e9}} {
			a, b := shapes[0], shapes[1]
			for i := range dst {
				alpha[i], beta[i] = a, b
			}
			sample(dst, alpha, beta)
			e := newExact(a, b)
			for _, limit := range []float64{1e-300, 1e-200, 1e-100, 1e-30, 1e-5, 0.5, 0.999} {
				below, above := e.probabilities(limit)
				count := 0
				for _, x := range dst {
					if x < limit {
						count++
					}
				}
				if !(below > 0) {
					t.Fatalf("P(Beta(%v, %v) < %v) is %v", a, b, limit, below)
				}
				deviation := math.Sqrt(float64(n)*below*above) + 0.01 // as above may be nothing
				if z := (float64(count) - float64(n)*below) / deviation; math.Abs(z) > 5 {
					t.Errorf("Beta(%v, %v): %d of %d samples are below %v, want %.1f: %.1f standard "+
						"deviations off", a, b, count, n, limit, float64(n)*below, z)
				}
			}
		}
	})
}

// Correlations of the probability integrals, and of their distances from the middle, between samples up to
// 40 places apart in a batch and between batches: a lane must not know of its neighbours, nor of itself
// before.
func TestSamplesAreIndependent(t *testing.T) {
	forAllWays(t, func(t *testing.T, sample func(dst, alpha, beta []float64)) {
		const lanes = 40
		batches := enough(6_000)
		for _, shapes := range [][2]float64{{1, 1}, {2, 3}, {0.5, 0.7}, {1.2, 1e4}, {1e6, 2.5}} {
			e := newExact(shapes[0], shapes[1])
			alpha, beta, dst := make([]float64, lanes), make([]float64, lanes), make([]float64, lanes)
			for i := range dst {
				alpha[i], beta[i] = shapes[0], shapes[1]
			}
			r := rand.New(rand.NewPCG(1, 2))
			// Each sample is two numbers of mean 0 and variance 1, and so are those of the batch before.
			const each = 2 * lanes
			var sums [2 * each][each]float64
			var now, before [each]float64
			for range batches {
				sample(dst, alpha, beta)
				for i, x := range dst {
					u, _ := e.uniform(x, r)
					if !(u >= 0 && u <= 1) {
						t.Fatalf("the probability of less than %v by Beta(%v, %v) is %v", x, shapes[0],
							shapes[1], u)
					}
					now[i] = (u - 0.5) * math.Sqrt(12)
					now[lanes+i] = ((u-0.5)*(u-0.5) - 1.0/12) * math.Sqrt(180)
				}
				for i, x := range now {
					for k, y := range now {
						sums[i][k] += x * y
						sums[each+i][k] += before[i] * y
					}
				}
				before = now
			}
			worst, where := 0.0, ""
			for i := range sums {
				for k := range sums[i] {
					if i == k || i == k+lanes || k == i+lanes && i < each {
						continue // a sample with itself
					}
					if z := math.Abs(sums[i][k]) / math.Sqrt(float64(batches)); z > worst {
						worst, where = z, fmt.Sprintf("%d and %d", i, k)
					}
				}
			}
			// 12,800 correlations, of five pairs of shapes.
			if worst > 6 {
				t.Errorf("Beta(%v, %v): the numbers %s are correlated: %.1f standard deviations", shapes[0],
					shapes[1], where, worst)
			}
		}
	})
}

func TestZigguratIsNormal(t *testing.T) {
	n := enough(1_000_000)
	g := newSource(1, 2)
	u, rest := make([]float64, n), make([]float64, n)
	for i := range u {
		var x float64
		x, g = g.ziggurat()
		u[i], rest[i] = math.Erfc(-x/math.Sqrt2)/2, math.Erfc(x/math.Sqrt2)/2
	}
	slices.Sort(rest)
	if ks, ad := kolmogorovSmirnov(u), andersonDarling(u, rest); ks < familyWise || ad < familyWise {
		t.Errorf("p = %.3g by Kolmogorov and Smirnov, %.3g by Anderson and Darling", ks, ad)
	}
}
