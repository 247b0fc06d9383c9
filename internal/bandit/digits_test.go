package bandit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestEightDigitsAreThoseOfStrconv(t *testing.T) {
	check := func(n uint64) {
		word := eightDigits(n)
		var got []byte
		for i := range 8 {
			got = append(got, byte(word>>(8*i)))
		}
		if want := fmt.Sprintf("%08d", n); string(got) != want {
			t.Fatalf("eightDigits(%d) = %s", n, got)
		}
	}
	for n := range uint64(100_000) {
		check(n)
		check(99_999_999 - n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3_000_000 {
		check(r.Uint64N(1e8))
	}
}

func TestScoresAreThoseOfStrconv(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	check := func(x float64) {
		got := string(appendScore(nil, x))
		back, err := strconv.ParseFloat(got, 64)
		if err != nil {
			t.Fatalf("%v is written as %s: %v", x, got, err)
		}
		want := strconv.FormatFloat(x, 'g', 9, 64)
		if got == want || strings.TrimRight(strings.TrimRight(got, "0"), ".") == want {
			return
		}
		if math.Abs(back-x) > 0.5000001e-9*math.Pow(10, math.Ceil(math.Log10(x))) {
			t.Fatalf("%v is written as %s, want %s", x, got, want)
		}
	}
	for range 2_000_000 {
		check(r.Float64())
		check(math.Exp(-12 * r.Float64()))
	}
	for _, x := range []float64{0, 1, 0.5, 0.1, 0.01, 0.001, 0.0001, 0.00001, 0.99999999949, 0.9999999996,
		0.09999999996, 0.0099999999996,
		0.00099999999996, 0.000099999999996, 5e-324, 1e-300, math.Nextafter(1, 0), math.Nextafter(0.1, 0),
		0.123456789, 1e-4 - 1e-19} {
		check(x)
	}
	for _, c := range []struct {
		x    float64
		want string
	}{{0.5, "0.500000000"}, {1, "1.00000000"}, {0, "0"}, {0.01234, "0.0123400000"}, {1e-5, "1e-05"},
		{0.09999999999, "0.100000000"}} {
		if got := string(appendScore(nil, c.x)); got != c.want {
			t.Errorf("%v is written as %s, want %s", c.x, got, c.want)
		}
	}
}
