package decimal

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// implementations are the ways to compute that have to agree: plain Go, and assembly where the processor
// allows it.
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

// number returns a random number of that many digits. Some have long runs of nines or zeros, which carries
// run through.
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
		if got := Add(nil, product(t, fn, fn), product(t, fnBefore, fnBefore)); string(got) != string(
			doubleBefore) {
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
		// 2^59-55 is prime and says something about every digit; 10^10 has the period 15,000,000,000 and 10
		// has 60.
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
			t.Errorf("F(%d) has %d digits and the one before %d, want %d and %d", n, len(f), len(previous),
				Digits(n), Digits(n-1))
		}
	}
}

func TestDigitsOfKnownNumbers(t *testing.T) {
	for _, c := range []struct {
		n      uint64
		digits int
	}{
		{0, 1}, {1, 1}, {2, 1}, {6, 1}, {7, 2}, {11, 2}, {12, 3}, {100_000, 20_899}, {1_000_000, 208_988},
		{10_000_000, 2_089_877},
		{100_000_000, 20_898_764}, {1_000_000_000, 208_987_640}, {1<<32 - 1, 897_595_080},
	} {
		if got := Digits(c.n); got != c.digits {
			t.Errorf("Digits(%d) = %d, want %d", c.n, got, c.digits)
		}
	}
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
	if got, err := Mul(ctx, []byte("p"), []byte("2"), []byte("3")); !errors.Is(err, context.Canceled) ||
		string(got) != "p" {
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
