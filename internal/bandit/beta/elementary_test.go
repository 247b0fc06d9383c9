package beta

import (
	"math"
	"math/rand/v2"
	"testing"
)

// ulps returns how many float64 lie between got and want, of which neither is negative.
func ulps(got, want float64) int64 {
	d := int64(math.Float64bits(got)) - int64(math.Float64bits(want))
	return max(d, -d)
}

func TestLogIsThatOfPackageMath(t *testing.T) {
	check := func(x float64) {
		got, want := log(x), math.Log(x)
		if math.Signbit(got) != math.Signbit(want) && want != 0 || ulps(math.Abs(got), math.Abs(want)) > 1 {
			t.Errorf("log(%v) = %v, want %v", x, got, want)
		}
	}
	for _, x := range []float64{1, 2, 0.5, math.Sqrt2, math.Sqrt2 / 2, 1 - 0x1p-53, 1 + 0x1p-52, 0x1p-53,
		0x1p-1022, math.MaxFloat64} {
		check(x)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		check(r.Float64() + 0x1p-53)
		check(math.Ldexp(1+r.Float64(), r.IntN(100)-50))
		check(1 + 0.01*(r.Float64()-0.5))
	}
}

func TestExpIsThatOfPackageMath(t *testing.T) {
	check := func(x float64) {
		if got, want := exp(x), math.Exp(x); ulps(got, want) > 2 { // math.Exp is one off itself
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	for _, x := range []float64{0, -0x1p-60, -1, -math.Ln2 / 2, -708, -709, -740, -745, -745.2, -746,
		-1e6, math.Inf(-1)} {
		check(x)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(-r.Float64())
		check(-750 * r.Float64())
	}
}
