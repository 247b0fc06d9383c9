package beta

import "math"

// Logarithm and exponential function with the same results on every processor, within an ulp of the right
// ones. The methods and constants are those of FreeBSD's msun, e_log.c and e_exp.c: Copyright (C) 1993 and
// 2004 by Sun Microsystems, Inc., permission to use, copy, modify, and distribute this software is freely
// granted, provided that this notice is preserved.

const (
	ln2High = 6.93147180369123816490e-01 // the upper 32 bits of ln 2, so that small multiples are exact
	ln2Low  = 1.90821492927058770002e-10
)

// log returns the natural logarithm of a normal x > 0.
func log(x float64) float64 {
	// x = 2^k (1+f) with 1+f in [sqrt(1/2), sqrt(2)).
	word := math.Float64bits(x)
	word += 0x3FF0000000000000 - 0x3FE6A09E667F3BCD
	k := float64(int64(word>>52) - 0x3FF)
	f := math.Float64frombits(word&(1<<52-1)+0x3FE6A09E667F3BCD) - 1

	// log(1+f) = log((1+s)/(1-s)) with s = f/(2+f) is a series in odd powers of s.
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	t1 := float64(s2 * (6.666666666666735130e-01 + float64(
		s4*(2.857142874366239149e-01+float64(
			s4*(1.818357216161805012e-01+float64(s4*1.479819860511658591e-01)))))))
	t2 := float64(s4 * (3.999999999940941908e-01 + float64(
		s4*(2.222219843214978396e-01+float64(s4*1.531383769920937332e-01)))))
	r := t1 + t2
	half := float64(0.5 * f * f)
	return float64(k*ln2High) - ((half - (float64(s*(half+r)) + float64(k*ln2Low))) - f)
}

// exp returns e^x for x <= 0, zero where that underflows.
func exp(x float64) float64 {
	if !(x > -746) {
		return 0
	}
	// x = k ln 2 + r with |r| <= ln 2 / 2.
	k := math.Floor(float64(x*(1/math.Ln2)) + 0.5)
	high := x - float64(k*ln2High)
	low := float64(k * ln2Low)
	r := high - low
	t := float64(r * r)
	c := r - float64(t*(1.66666666666666657415e-01+float64(
		t*(-2.77777777770155933842e-03+float64(t*(6.61375632143793436117e-05+
			float64(t*(-1.65339022054652515390e-06+float64(t*4.13813679705723846039e-08)))))))))
	y := 1 - ((low - float64(r*c)/(2-c)) - high)
	return math.Ldexp(y, int(k))
}
