//go:build !purego

package beta

import (
	"math"
	"testing"
)

func polynomial(coefficients []float64, x float64) float64 {
	sum := 0.0
	for i := len(coefficients) - 1; i >= 0; i-- {
		sum = sum*x + coefficients[i]
	}
	return sum
}

func firsts(coefficients []four) []float64 {
	var all []float64
	for _, c := range coefficients {
		all = append(all, c[0])
	}
	return all
}

func TestKernelsConstantsAreWhatTheySay(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 4e-16*max(math.Abs(want), 0.5) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	z, y := &zmmConstants, ymmConstants

	// The scales: a third, and as much more as the roots of d may be too small. c then is never less than
	// 1/sqrt(9d), and how much greater it may be is what loss makes up for.
	for _, k := range []struct {
		name                                 string
		toSquares, squeeze, loss, rootsError float64
	}{
		{"zmm", z.toSquares, z.squeeze, z.loss, 0x1p-14},
		{"ymm", y.toSquares[0], y.squeeze[0], y.loss[0], 1.5*0x1p-12 + 0x1p-24},
	} {
		scale := math.Sqrt(1 / (2 * k.toSquares))
		if scale*(1-k.rootsError)*3 < 1 || scale*3 > 1.0004 {
			t.Errorf("%s: the scale %v does not make up for roots that are %v too small", k.name, scale,
				k.rootsError)
		}
		if greatest := math.Pow(scale*(1+k.rootsError)*3, 2) - 1; k.loss < 4096*greatest/2/(scale*scale) {
			t.Errorf("%s: loss is %v, which is too little if 9 d c^2 is up to 1+%v", k.name, k.loss, greatest)
		}
		if k.squeeze < 4096*81.0/44*(1+k.rootsError)*(1+k.rootsError) {
			t.Errorf("%s: squeeze is %v, which is too little", k.name, k.squeeze)
		}
	}
	near("toLog", z.toLog, -z.toSquares)
	near("minusTwo", y.minusTwo[0], -1/y.toSquares[0])

	factor := -1 / z.toSquares // -2 scale^2
	near("ln2", z.ln2, factor*math.Ln2)
	for i := range 8 {
		near("a logarithm", z.logs[i], factor*(-math.Log(z.reciprocals[i])-64*math.Ln2))
		if r := z.reciprocals[i] * (1 + float64(2*i+1)/16); math.Abs(r-1) > 1e-15 {
			t.Errorf("reciprocal %d times what it is the reciprocal of is %v", i, r)
		}
		sin, cos := math.Sincos(float64(i) * math.Pi / 4)
		near("a cosine", z.cosines[i], cos)
		near("a sine", z.sines[i], sin)
	}
	for x := -1.0; x <= 1; x += 1.0 / 1024 {
		r := x / 17
		near("log", r*polynomial(z.log[:], r), factor*math.Log1p(r))
		near("exp", polynomial(z.exp[:], x*math.Ln2/2), math.Exp(x*math.Ln2/2))
		near("exp", polynomial(firsts(y.exp[:]), x*math.Ln2/2), math.Exp(x*math.Ln2/2))
		word := math.Ldexp(x, 63)
		sin, cos := math.Sincos(math.Pi / 8 * x)
		near("cos", polynomial(z.cos[:], word*word), cos)
		near("sin", word*polynomial(z.sin[:], word*word), sin)
		sin, cos = math.Sincos(math.Pi / 4 * x)
		near("cos", polynomial(firsts(y.cos[:]), x*x/4), cos)
		near("sin", x/2*polynomial(firsts(y.sin[:]), x*x/4), sin)
		m := math.Exp2(x / 2)
		s := (m - 1) / (m + 1)
		near("atanh", s*polynomial(z.atanh[:], s*s), math.Log(m))
		near("atanh", s*polynomial(firsts(y.atanh[:]), s*s), math.Log(m))
	}
}
