package beta

import (
	"math"
	"sort"
	"testing"

	"gonum.org/v1/gonum/mathext"
)

// An exact is the distribution function of a Beta distribution, by integration of its density. A library's
// incomplete beta function does not reach shapes of 1e9, and differences of logarithms of gamma functions
// have no digits left there.
//
// The variable is w = logit(x) - log(a/b), in which every density is smooth, has one peak, at zero, and is
// log-concave.
type exact struct {
	a, b, p     float64
	edges       []float64 // of panels
	below       []float64 // the integral up to the edge
	above       []float64 // and from there on
	total       float64
	lowest, top float64 // x beyond which a float64 is too coarse, or too small
}

// The nodes and weights of Gauss and Legendre for eight points on [-1, 1], the positive half.
var (
	gaussNodes = [4]float64{0.18343464249564980, 0.52553240991632899, 0.79666647741362674,
		0.96028985649753623}
	gaussWeights = [4]float64{0.36268378337836198, 0.31370664587788729, 0.22238103445337447,
		0.10122853629037626}
)

func newExact(a, b float64) *exact {
	e := &exact{a: a, b: b, p: a / (a + b), lowest: 1e-290, top: 1 - 0x1p-36}
	left := e.outwards(-1)
	for i := len(left) - 1; i > 0; i-- {
		e.edges = append(e.edges, left[i])
	}
	e.edges = append(e.edges, e.outwards(1)...)
	e.below, e.above = make([]float64, len(e.edges)), make([]float64, len(e.edges))
	for i := 1; i < len(e.edges); i++ {
		e.below[i] = e.below[i-1] + e.integral(e.edges[i-1], e.edges[i])
	}
	for i := len(e.edges) - 2; i >= 0; i-- {
		e.above[i] = e.above[i+1] + e.integral(e.edges[i], e.edges[i+1])
	}
	e.total = e.above[0]
	return e
}

// outwards returns edges of panels from the peak to where the density is e^-100 of it. A panel is as wide
// as the logarithm of the density needs to fall by about one, or as the distance from where it bends.
func (e *exact) outwards(sign float64) []float64 {
	edges := []float64{0}
	for w := 0.0; e.logDensity(w) > -100; {
		logit := w + math.Log(e.a/e.b)
		x := 1 / (1 + math.Exp(-logit))
		slope := math.Abs(e.a - (e.a+e.b)*x)
		bend := math.Sqrt((e.a + e.b) * x * (1 - x))
		w += sign * min(1/(slope+bend), max(0.5, math.Abs(logit)/8))
		edges = append(edges, w)
	}
	return edges
}

// logDensity returns the logarithm of the density, in w, over that at its peak.
func (e *exact) logDensity(w float64) float64 {
	if w > 500 { // where e^w is too great
		return e.a*w - (e.a+e.b)*(math.Log(e.p)+w)
	}
	return e.a*w - (e.a+e.b)*math.Log1p(e.p*math.Expm1(w))
}

func (e *exact) integral(from, to float64) float64 {
	middle, half := (from+to)/2, (to-from)/2
	sum := 0.0
	for i, node := range gaussNodes {
		sum += gaussWeights[i] * (math.Exp(e.logDensity(middle-half*node)) +
			math.Exp(e.logDensity(middle+half*node)))
	}
	return sum * half
}

// probabilities returns the probability of a sample below x and that of one above it.
func (e *exact) probabilities(x float64) (below, above float64) {
	w := math.Log(x/(1-x)) - math.Log(e.a/e.b)
	switch i := sort.SearchFloat64s(e.edges, w); i {
	case 0:
		return 0, 1
	case len(e.edges):
		return 1, 0
	default:
		part := e.integral(e.edges[i-1], w)
		return (e.below[i-1] + part) / e.total, (e.above[i] + max(0, e.below[i]-e.below[i-1]-part)) / e.total
	}
}

func TestExactDistributionIsThatOfOthers(t *testing.T) {
	check := func(a, b, x, want, tolerance float64) {
		t.Helper()
		below, above := newExact(a, b).probabilities(x)
		if !(math.Abs(below-want) <= tolerance*want && math.Abs(above-(1-want)) <= tolerance) { // nor NaN
			t.Errorf("P(Beta(%v, %v) < %v) is %v, not %v, and that of more %v", a, b, x, want, below, above)
		}
	}
	for _, a := range []float64{0.001, 0.1, 0.5, 1, 3, 1000, 1e9} {
		for _, x := range []float64{1e-280, 1e-9, 0.1, 0.5, 0.9, 0.999999} {
			if want := math.Pow(x, a); want > 1e-30 {
				check(a, 1, x, want, 1e-9)
			}
			if want := -math.Expm1(a * math.Log1p(-x)); a <= 1000 && want > 1e-30 {
				check(1, a, x, want, 1e-9)
			}
			for _, b := range []float64{0.01, 0.5, 2, 30, 500} {
				if want := mathext.RegIncBeta(a, b, x); a <= 1000 && want > 1e-30 {
					check(a, b, x, want, 1e-8)
				}
			}
		}
	}
	check(0.5, 0.5, 0.003, 2/math.Pi*math.Asin(math.Sqrt(0.003)), 1e-9)
	// Great shapes by mpmath with 60 digits. What is lost here is lost in x, whose last bit is some
	// millionths of a standard deviation.
	check(1e5, 3e4, 0.7677116660228371, 0.096939990249108617, 1e-9)
	check(1e9, 1e9, 0.5000078262379193, 0.75803634770810345, 1e-9)
	check(1e9, 1e7, 0.9900924674988715, 0.017879992817643638, 1e-7)
	check(1e9, 50, 0.9999999528284295, 0.6407308274555626, 1e-7)
}
