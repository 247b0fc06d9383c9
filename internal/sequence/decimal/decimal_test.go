package decimal

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// implementations are the ways to compute that have to agree: plain Go, and assembly where the processor allows it.
func implementations(t *testing.T, test func(t *testing.T, plain bool)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { test(t, true) })
	t.Run("vectors", func(t *testing.T) {
		if !hasAVX512 {
			t.Skip("this processor has no AVX-512, or GODEBUG turns it off")
		}
		test(t, false)
	})
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// number returns a random number of that many digits. Some have long runs of nines or zeros, which carries run through.
func number(r *rand.Rand, digits int) []byte {
	a := make([]byte, digits)
	run := r.IntN(3)
	for i := range a {
		switch {
		case run == 1 && r.IntN(20) > 0:
			a[i] = '9'
		case run == 2 && r.IntN(20) > 0:
			a[i] = '0'
		default:
			a[i] = byte('0' + r.IntN(10))
		}
	}
	if digits > 1 && a[0] == '0' {
		a[0] = '1'
	}
	return a
}

func toBig(t testing.TB, a []byte) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(string(a), 10)
	if !ok {
		t.Fatalf("%q is no number", a)
	}
	return n
}

// check compares an appended number with what it should be, and that what stood before it still does.
func check(t testing.TB, what string, got []byte, prefix string, want *big.Int) {
	t.Helper()
	if !strings.HasPrefix(string(got), prefix) {
		t.Fatalf("%s: the prefix has become %.20q", what, got)
	}
	if g, w := string(got[len(prefix):]), want.String(); g != w {
		t.Fatalf("%s = %.200s, want %.200s", what, g, w)
	}
}

// ways are the implementations of a step. Each appends the low digits of a+b and a-b, which are as long as a, and returns the
// carry.
var ways = []struct {
	name     string
	needs    bool
	add, sub func(dst, a, b []byte) int
}{
	{"digits", true,
		func(dst, a, b []byte) int { return addDigits(dst, a, b, len(a), len(b), 0) },
		func(dst, a, b []byte) int { return subDigits(dst, a, b, len(a), len(b), 0) }},
	{"words", true,
		func(dst, a, b []byte) int {
			i, j, carry := addWords(dst, a, b, len(a), len(b), 0)
			return addDigits(dst, a, b, i, j, int(carry))
		},
		func(dst, a, b []byte) int {
			i, j, borrow := subWords(dst, a, b, len(a), len(b), 0)
			return subDigits(dst, a, b, i, j, int(borrow))
		}},
	{"vectors", hasAVX512, addInto, subInto},
	{"masks", hasAVX512,
		func(dst, a, b []byte) int {
			i, j, carry := addMasks(dst, a, b)
			return addDigits(dst, a, b, i, j, int(carry))
		},
		func(dst, a, b []byte) int {
			i, j, borrow := subMasks(dst, a, b)
			return subDigits(dst, a, b, i, j, int(borrow))
		}},
}

// checkWays compares all implementations of a step with the reference, which is the first. a is not shorter than b.
func checkWays(t testing.TB, a, b []byte) {
	t.Helper()
	var sum, difference []byte
	var carry, borrow int
	for i, w := range ways {
		if !w.needs {
			continue
		}
		// Bytes on either side that must stay as they are.
		room := []byte(strings.Repeat("#", len(a)+128))
		dst := room[64:][:len(a):len(a)]
		c := w.add(dst, a, b)
		if edges := string(room[:64]) + string(room[64+len(a):]); strings.Trim(edges, "#") != "" {
			t.Fatalf("%s: %s + %s wrote beyond its place", w.name, a, b)
		}
		if i == 0 {
			sum, carry = slices.Clone(dst), c
		}
		if string(dst) != string(sum) || c != carry {
			t.Fatalf("%s: %s + %s = %d, %s, want %d, %s", w.name, a, b, c, dst, carry, sum)
		}
		c = w.sub(dst, a, b)
		if edges := string(room[:64]) + string(room[64+len(a):]); strings.Trim(edges, "#") != "" {
			t.Fatalf("%s: %s - %s wrote beyond its place", w.name, a, b)
		}
		if i == 0 {
			difference, borrow = slices.Clone(dst), c
		}
		if string(dst) != string(difference) || c != borrow {
			t.Fatalf("%s: %s - %s = %d, %s, want %d, %s", w.name, a, b, c, dst, borrow, difference)
		}
	}
}

func TestAllWaysToTakeAStepAgree(t *testing.T) {
	r := newRand(6)
	for round := range 3000 {
		most := 1 + round/5
		a, b := number(r, 1+r.IntN(most)), number(r, 1+r.IntN(most))
		if len(a) < len(b) {
			a, b = b, a
		}
		checkWays(t, a, b)
		checkWays(t, a, a)
		// Word sums of 99999999, which the fast way does not know about.
		complement := make([]byte, len(a))
		for i, c := range a {
			complement[i] = '9' - (c - '0')
		}
		checkWays(t, a, complement)
		complement[len(a)-1] = '9'
		checkWays(t, a, complement)
	}
	// Several pieces, with carries from one to the next.
	for range 50 {
		a, b := number(r, 100_000+r.IntN(200_000)), number(r, 70_000+r.IntN(30_000))
		checkWays(t, a, b)
	}
}

func TestSumsAndDifferencesAreThoseOfMathBig(t *testing.T) {
	r := newRand(1)
	for round := range 4000 {
		most := 1 + round/8
		a, b := number(r, 1+r.IntN(most)), number(r, 1+r.IntN(most))
		x, y := toBig(t, a), toBig(t, b)
		prefix := strings.Repeat("p", r.IntN(3))
		room := make([]byte, len(prefix), len(prefix)+r.IntN(2*most+2))
		copy(room, prefix)
		check(t, fmt.Sprintf("%s + %s", a, b), Add(room, a, b), prefix, new(big.Int).Add(x, y))
		if x.Cmp(y) < 0 {
			a, b, x, y = b, a, y, x
		}
		room = append(make([]byte, 0, cap(room)), prefix...)
		check(t, fmt.Sprintf("%s - %s", a, b), Sub(room, a, b), prefix, new(big.Int).Sub(x, y))
	}
}

func TestDifferencesThatCancelNearlyEverything(t *testing.T) {
	for digits := 1; digits < 300; digits++ {
		ones := []byte("1" + strings.Repeat("0", digits))
		nines := []byte(strings.Repeat("9", digits))
		for _, c := range []struct {
			a, b []byte
			want string
		}{
			{ones, nines, "1"},
			{ones, ones, "0"},
			{nines, nines, "0"},
			{ones, []byte("0"), string(ones)},
			{ones, []byte("1"), string(nines)},
		} {
			if got := Sub(nil, c.a, c.b); string(got) != c.want {
				t.Fatalf("%s - %s = %s, want %s", c.a, c.b, got, c.want)
			}
		}
		if got := Add(nil, nines, []byte("1")); string(got) != string(ones) {
			t.Fatalf("%s + 1 = %s", nines, got)
		}
		if got := Add(nil, []byte("1"), nines); string(got) != string(ones) {
			t.Fatalf("1 + %s = %s", nines, got)
		}
	}
}

func TestProductsAreThoseOfMathBig(t *testing.T) {
	implementations(t, func(t *testing.T, plain bool) {
		r := newRand(2)
		for round := range 300 {
			most := 1 + 20*round
			a, b := number(r, 1+r.IntN(most)), number(r, 1+r.IntN(most))
			got, err := mul(t.Context(), []byte("p"), a, b, plain)
			if err != nil {
				t.Fatal(err)
			}
			check(t, fmt.Sprintf("%s * %s", a, b), got, "p", new(big.Int).Mul(toBig(t, a), toBig(t, b)))
		}
		for _, c := range []string{"0", "1", "9"} {
			nines := []byte(strings.Repeat("9", 5000))
			got, err := mul(t.Context(), nil, []byte(c), nines, plain)
			if err != nil {
				t.Fatal(err)
			}
			check(t, c+" * 99...", got, "", new(big.Int).Mul(toBig(t, []byte(c)), toBig(t, nines)))
		}
	})
}

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

func TestEveryFibonacciNumberUpTo10000(t *testing.T) {
	implementations(t, func(t *testing.T, plain bool) {
		f, previous := big.NewInt(0), big.NewInt(1)
		var stepped, other []byte
		stepped, other = []byte("0"), []byte("1")
		for n := uint64(0); n <= 10000; n++ {
			gotF, gotPrevious, err := fibonacci(t.Context(), n, plain)
			if err != nil {
				t.Fatal(err)
			}
			if want := f.String(); string(gotF) != want || string(stepped) != want {
				t.Fatalf("F(%d) = %s by doubling and %s by steps, want %s", n, gotF, stepped, want)
			}
			if want := previous.String(); string(gotPrevious) != want {
				t.Fatalf("F(%d-1) = %s, want %s", n, gotPrevious, want)
			}
			if got := Digits(n); got != len(gotF) {
				t.Fatalf("Digits(%d) = %d, want %d", n, got, len(gotF))
			}
			if back := Sub(nil, Add(nil, stepped, other), stepped); string(back) != string(other) {
				t.Fatalf("F(%d+1) - F(%d) = %s, want %s", n, n, back, other)
			}
			previous.Add(previous, f)
			f, previous = previous, f
			stepped, other = Add(nil, stepped, other), stepped
		}
	})
}

func fib(t testing.TB, n uint64) (f, previous []byte) {
	t.Helper()
	f, previous, err := Fibonacci(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	return f, previous
}

func product(t testing.TB, a, b []byte) []byte {
	t.Helper()
	p, err := Mul(context.Background(), nil, a, b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestIdentitiesAtLargeIndices(t *testing.T) {
	r := newRand(3)
	for range 20 {
		m, n := 1+r.Uint64N(300_000), 1+r.Uint64N(300_000)
		fm, fmBefore := fib(t, m)
		fn, fnBefore := fib(t, n)
		fnNext := Add(nil, fn, fnBefore)

		// F(m+n) = F(m)F(n+1) + F(m-1)F(n)
		sum, _ := fib(t, m+n)
		if got := Add(nil, product(t, fm, fnNext), product(t, fmBefore, fn)); string(got) != string(sum) {
			t.Errorf("F(%d+%d) is not F(m)F(n+1) + F(m-1)F(n)", m, n)
		}
		// F(2n) = F(n)(2F(n+1) - F(n))
		double, doubleBefore := fib(t, 2*n)
		if got := product(t, fn, Sub(nil, Add(nil, fnNext, fnNext), fn)); string(got) != string(double) {
			t.Errorf("F(2*%d) is not F(n)(2F(n+1) - F(n))", n)
		}
		// F(2n-1) = F(n)^2 + F(n-1)^2
		if got := Add(nil, product(t, fn, fn), product(t, fnBefore, fnBefore)); string(got) != string(doubleBefore) {
			t.Errorf("F(2*%d-1) is not F(n)^2 + F(n-1)^2", n)
		}
	}
}

// modFibonacci returns F(n) and F(n-1) modulo m, by doubling, n not 0.
func modFibonacci(n uint64, m int64) (f, previous *big.Int) {
	mod := big.NewInt(m)
	a, b := big.NewInt(0), big.NewInt(1) // F(0), F(-1)
	for i := 63; i >= 0; i-- {
		aa, bb := new(big.Int).Mul(a, a), new(big.Int).Mul(b, b)
		ab := new(big.Int).Mul(a, b)
		a = new(big.Int).Add(aa, ab.Lsh(ab, 1)) // F(2k) = F(k)^2 + 2F(k)F(k-1)
		b = aa.Add(aa, bb)                      // F(2k-1) = F(k)^2 + F(k-1)^2
		if n>>i&1 == 1 {
			a, b = new(big.Int).Add(a, b), a
		}
		a.Mod(a, mod)
		b.Mod(b, mod)
	}
	return a, b
}

// residue returns a modulo m, by Horner's rule over all of its digits.
func residue(a []byte, m uint64) uint64 {
	var r uint64
	for _, c := range a {
		r = (r*10 + uint64(c-'0')) % m
	}
	return r
}

func TestLargeFibonacciNumbersModuloPrimesAndTenDigits(t *testing.T) {
	r := newRand(4)
	indices := []uint64{100_000, 999_999, 1_000_000, 10_000_000, 1<<20 - 1, 1 << 20, 1<<20 + 1}
	for range 10 {
		indices = append(indices, 1_000_000+r.Uint64N(3_000_000))
	}
	for _, n := range indices {
		f, previous := fib(t, n)
		// 2^59-55 is prime and says something about every digit; 10^10 has the period 15,000,000,000 and 10 has 60.
		for _, m := range []uint64{1<<59 - 55, 10_000_000_000, 10} {
			wantF, wantPrevious := modFibonacci(n, int64(m))
			if residue(f, m) != wantF.Uint64() || residue(previous, m) != wantPrevious.Uint64() {
				t.Errorf("F(%d) or the one before is wrong modulo %d", n, m)
			}
			if period := map[uint64]uint64{10_000_000_000: 15_000_000_000, 10: 60}[m]; period != 0 {
				if again, _ := modFibonacci(n%period, int64(m)); again.Cmp(wantF) != 0 {
					t.Errorf("F(%d) modulo %d does not have the period %d", n, m, period)
				}
			}
		}
		if len(f) != Digits(n) || len(previous) != Digits(n-1) {
			t.Errorf("F(%d) has %d digits and the one before %d, want %d and %d", n, len(f), len(previous), Digits(n), Digits(n-1))
		}
	}
}

func TestDigitsOfKnownNumbers(t *testing.T) {
	for _, c := range []struct {
		n      uint64
		digits int
	}{
		{0, 1}, {1, 1}, {2, 1}, {6, 1}, {7, 2}, {11, 2}, {12, 3}, {100_000, 20_899}, {1_000_000, 208_988}, {10_000_000, 2_089_877},
		{100_000_000, 20_898_764}, {1_000_000_000, 208_987_640}, {1<<32 - 1, 897_595_080},
	} {
		if got := Digits(c.n); got != c.digits {
			t.Errorf("Digits(%d) = %d, want %d", c.n, got, c.digits)
		}
	}
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
		t.Errorf("random digits in base 10^4 pass for exact in a transform of %d points, with the bound %v", tr.n, b)
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

// Coefficients as large as the bound allows, in place of what digits leave, which are small for the most part.
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
				check(t, fmt.Sprintf("mix %d, part %d", round%len(steps), part), text[:trim(text)], "", twice.Rsh(twice, 1))
			}
		}
	})
}

func TestCancelledWorkEndsWithTheContextsError(t *testing.T) {
	cause := errors.New("nobody waits")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	for _, n := range []uint64{10, 1000, 1 << 40} {
		if _, _, err := Fibonacci(ctx, n); !errors.Is(err, context.Canceled) {
			t.Errorf("Fibonacci(%d) with a cancelled context returns %v", n, err)
		}
	}
	if got, err := Mul(ctx, []byte("p"), []byte("2"), []byte("3")); !errors.Is(err, context.Canceled) || string(got) != "p" {
		t.Errorf("Mul with a cancelled context returns %q, %v", got, err)
	}
}

// counting is done after it has been asked a number of times.
type counting struct {
	context.Context
	left int
	late int
}

func (c *counting) Err() error {
	c.left--
	if c.left < 0 {
		c.late++
		return context.Canceled
	}
	return nil
}

func TestTheContextIsLookedAtThroughout(t *testing.T) {
	implementations(t, func(t *testing.T, plain bool) {
		for _, asked := range []int{1, 2, 5, 10, 50, 100} {
			ctx := &counting{Context: context.Background(), left: asked}
			if _, _, err := fibonacci(ctx, 3_000_000, plain); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled after having been asked %d times, the error is %v", asked, err)
			}
			if ctx.late != 1 {
				t.Errorf("the context was asked %d times after it was done, want 1", ctx.late)
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
					t.Fatalf("coefficient %d of %d is off by %g, %g; the bound is %g", i, n, offP, offQ, bound)
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
