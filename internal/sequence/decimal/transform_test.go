package decimal

import (
	"context"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// Digits of 5000 are the largest there are in base 10^4, and all of one sign.
func TestProductsOfTheLargestDigits(t *testing.T) {
	implementations(t, func(t *testing.T, plain bool) {
		for _, digits := range []int{400, 4000, 40000} {
			a := []byte(strings.Repeat("4999", digits/4))
			b := []byte(strings.Repeat("5000", digits/4))
			want := new(big.Int).Mul(toBig(t, a), toBig(t, b))
			for k := 2; k <= 4; k++ {
				got, err := mulLong(t.Context(), nil, a, b, k, plain)
				if err != nil {
					t.Fatal(err)
				}
				check(t, fmt.Sprintf("product of %d digits in base 10^%d", digits, k), got, "", want)
			}
		}
	})
}

func TestSmallerBasesAgree(t *testing.T) {
	implementations(t, func(t *testing.T, plain bool) {
		for _, n := range []uint64{65, 127, 128, 1000, 54_321, 300_000} {
			want, wantPrevious := fib(t, n)
			for k := 2; k <= 4; k++ {
				f, previous, err := fibonacciBase(t.Context(), n, k, plain)
				if err != nil {
					t.Fatal(err)
				}
				if string(f) != string(want) || string(previous) != string(wantPrevious) {
					t.Errorf("F(%d) in base 10^%d is another", n, k)
				}
			}
		}
	})
}

// What cannot be proved exact is refused, whatever it would have come to.
func TestABaseThatIsTooLargeIsRefused(t *testing.T) {
	for n, k := range map[uint64]int{1_000_000: 4, 10_000_000: 4, 100_000_000: 3, 1<<32 - 1: 2} {
		if got := baseFor(n); got != k {
			t.Errorf("the base for F(%d) is 10^%d, want 10^%d", n, got, k)
		}
	}
	tr := transform{n: 1 << 22}
	if b := tr.bound(1 << 21 * 2 * 1e8 / 12); b < 0.5 {
		t.Errorf("random digits in base 10^4 pass for exact in a transform of %d points, with the bound %v",
			tr.n, b)
	}
}

func TestWhatIsNotProvedExactIsNotComputed(t *testing.T) {
	// The largest digits in base 10^4, more of them than the bound allows.
	a, b := []byte(strings.Repeat("5000", 400_000)), []byte(strings.Repeat("4999", 400_000))
	if _, err := mulLong(t.Context(), nil, a, b, 4, false); err != errInexact {
		t.Errorf("the error of a product of 400,000 digits of 5000 is %v, want that it is inexact", err)
	}
	const m = 1<<59 - 55
	want := new(big.Int).Mul(new(big.Int).SetUint64(residue(a, m)), new(big.Int).SetUint64(residue(b, m)))
	if want.Mod(want, big.NewInt(m)); residue(product(t, a, b), m) != want.Uint64() {
		t.Error("a product that needs a smaller base is wrong")
	}
	if _, _, err := fibonacciBase(t.Context(), 40_000_000, 4, false); err != errInexact {
		t.Errorf("the error of F(40,000,000) in base 10^4 is %v, want that it is inexact", err)
	}
}

// Coefficients as large as the bound allows, in place of what digits leave, which are small for the most
// part.
func TestCoefficientsOfAnySizeSettle(t *testing.T) {
	implementations(t, func(t *testing.T, plain bool) {
		r := newRand(7)
		for round := range 400 {
			n, k := 256<<(round%3), 4
			m := &steps[round%len(steps)].mix
			z := make([]float64, 2*n)
			x, y := new(big.Int), new(big.Int)
			power, base := big.NewInt(1), big.NewInt(10_000)
			add := func(to *big.Int, twice float64) {
				to.Add(to, new(big.Int).Mul(power, big.NewInt(int64(twice))))
			}
			size := int64(8e12) >> (round % 40)
			for i := range n - 4 {
				p, q := float64(r.Int64N(2*size+1)-size), float64(4*(r.Int64N(size/2+1)-size/4))
				switch i {
				case 0:
					p, q = 0, 0 // so that all halves are integers
				case n - 5:
					p, q = 1e12, 1e12 // so that the numbers are not negative
				}
				at := i/8*vector + i%8
				z[at], z[at+imagPart] = p*float64(n), q*float64(n)
				add(x, m.realRe*p+m.realIm*q)
				add(y, m.imagRe*p+m.imagIm*q)
				power.Mul(power, base)
			}
			tr := newTransform(t.Context(), n, plain)
			sum, err := tr.settle(z, k, m)
			if err != nil {
				t.Fatal(err)
			}
			if real := norm(z); sum < real/(1+2e-6) || sum > real*(1+2e-6) {
				t.Fatalf("the sum of squares is %v, want %v", sum, real)
			}
			for part, twice := range map[int]*big.Int{realPart: x, imagPart: y} {
				text := make([]byte, k*n)
				if err := tr.format(text, z, part, n, k); err != nil {
					t.Fatal(err)
				}
				check(t, fmt.Sprintf("mix %d, part %d", round%len(steps), part), text[:trim(text)], "",
					twice.Rsh(twice, 1))
			}
		}
	})
}

func TestErrorBoundIsRespected(t *testing.T) {
	// The coefficients of a square, before they are rounded, against those computed as integers.
	implementations(t, func(t *testing.T, plain bool) {
		r := newRand(5)
		for _, n := range []int{64, 256, 512, 1024, 4096, 8192} {
			z := make([]float64, 2*n)
			re, im := make([]int64, n), make([]int64, n)
			for i := range n / 2 {
				re[i], im[i] = int64(r.IntN(10001)-5000), int64(r.IntN(10001)-5000)
				z[i/8*vector+i%8], z[i/8*vector+i%8+imagPart] = float64(re[i]), float64(im[i])
			}
			tr := newTransform(t.Context(), n, plain)
			bound := tr.bound(norm(z))
			if err := tr.square(z); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				var p, q int64
				for j := max(0, i-n/2+1); j <= min(i, n/2-1); j++ {
					p += re[j]*re[i-j] - im[j]*im[i-j]
					q += 2 * re[j] * im[i-j]
				}
				at := i/8*vector + i%8
				offP, offQ := z[at]/float64(n)-float64(p), z[at+imagPart]/float64(n)-float64(q)
				if max(offP, -offP, offQ, -offQ) > bound {
					t.Fatalf("coefficient %d of %d is off by %g, %g; the bound is %g", i, n, offP, offQ,
						bound)
				}
			}
		}
	})
}

func TestRootsOfUnity(t *testing.T) {
	tr := newTransform(context.Background(), 1<<16, true)
	for j := 1; j < 1<<14; j++ {
		r, twice := tr.root(j), tr.root(2*j)
		if d := twice*twice - r; max(real(d), -real(d), imag(d), -imag(d)) > 1e-15 {
			t.Fatalf("root(%d)^2 is off root(%d) by %v", 2*j, j, d)
		}
	}
	if r := tr.root(1); r != 1i {
		t.Errorf("root(1) = %v, want i", r)
	}
	if r := tr.root(2); r != complex(sqrtHalf, sqrtHalf) {
		t.Errorf("root(2) = %v, want that of 1+i", r)
	}
}
