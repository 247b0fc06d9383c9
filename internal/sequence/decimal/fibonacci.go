package decimal

import (
	"context"
	"math/bits"
	"strconv"
)

// small is up to which index values are computed in a uint64.
const small = 64

// pairUpTo64 returns F(n) and F(n-1) for n up to small.
func pairUpTo64(n uint64) (f, previous uint64) {
	f, previous = 0, 1
	for range n {
		f, previous = f+previous, f
	}
	return f, previous
}

// Fibonacci returns F(n) and F(n-1), with F(-1) = 1. It looks at ctx at least every ten milliseconds or so
// and returns its error once it is done. The slices are the caller's.
func Fibonacci(ctx context.Context, n uint64) (f, previous []byte, err error) {
	return fibonacci(ctx, n, false)
}

func fibonacci(ctx context.Context, n uint64, plain bool) (f, previous []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if n <= small {
		f, previous := pairUpTo64(n)
		return strconv.AppendUint(nil, f, 10), strconv.AppendUint(nil, previous, 10), nil
	}
	for k := baseFor(n); k >= 2; k-- {
		f, previous, err = fibonacciBase(ctx, n, k, plain)
		if err != errInexact {
			break
		}
	}
	return f, previous, err
}

// fibonacciBase computes in base 10^k. n is more than small.
func fibonacciBase(ctx context.Context, n uint64, k int, plain bool) (f, previous []byte, err error) {
	t := newTransform(ctx, lengthFor(squareLimbs(n/2, k)), plain)
	z := make([]float64, 2*t.n)

	shift := bits.Len64(n) - 6
	m := n >> shift
	first, before := pairUpTo64(m)
	// L(m) = F(m) + 2F(m-1)
	if err := parse(ctx, z, realPart, strconv.AppendUint(nil, first+2*before, 10), k); err != nil {
		return nil, nil, err
	}
	if err := parse(ctx, z, imagPart, strconv.AppendUint(nil, 2*first, 10), k); err != nil {
		return nil, nil, err
	}
	sum := norm(z[:2*minimum])
	for shift > 0 {
		t.n = lengthFor(squareLimbs(m, k))
		if t.bound(sum) >= 0.5 {
			return nil, nil, errInexact
		}
		if err := t.square(z); err != nil {
			return nil, nil, err
		}
		shift--
		odd := n>>shift&1 == 1
		s := &steps[0]
		switch {
		case shift == 0 && odd:
			s = &steps[3]
		case shift == 0:
			s = &steps[2]
		case odd:
			s = &steps[1]
		}
		if sum, err = t.settle(z, k, &s.mix); err != nil {
			return nil, nil, err
		}
		// -18(-1)^m is what the coefficients lack of L(2m).
		constant := -18.0
		if m%2 == 1 {
			constant = 18
		}
		z[realPart] += s.real * constant
		z[imagPart] += s.imag * constant
		sum += 2 * (2*18*float64(powersOfTen[k]) + 18*18)
		m = n >> shift
	}
	if f, err = formatFibonacci(t, z, realPart, n, k); err != nil {
		return nil, nil, err
	}
	if previous, err = formatFibonacci(t, z, imagPart, n-1, k); err != nil {
		return nil, nil, err
	}
	return f, previous, nil
}

func formatFibonacci(t *transform, z []float64, part int, n uint64, k int) ([]byte, error) {
	digits := Digits(n)
	padded := (digits + k - 1) / k * k
	text := make([]byte, padded)
	if err := t.format(text, z, part, padded/k, k); err != nil {
		return nil, err
	}
	return text[padded-digits:], nil
}

// A step says what numbers of the next z are made of. With P and Q the real and imaginary coefficients of
// (L(m) + 2iF(m))^2, and c = -18(-1)^m:
//
//	L(2m) = 5P + c             F(2m) = Q/4
//	L(2m+1) = (L + 5F)/2       F(2m+1) = (L + F)/2       F(2m-1) = (L - F)/2     with L and F at 2m
type step struct {
	mix
	real, imag float64 // how often c is added
}

var steps = [4]step{
	{mix{10, 0, 0, 1}, 1, 0},        // L(2m) and 2F(2m)
	{mix{5, 1.25, 10, 0.5}, 0.5, 1}, // L(2m+1) and 2F(2m+1)
	{mix{0, 0.5, 5, -0.25}, 0, 0.5}, // F(2m) and F(2m-1), at the end
	{mix{5, 0.25, 0, 0.5}, 0.5, 0},  // F(2m+1) and F(2m), at the end
}

// squareLimbs returns how many digits in base 10^k the square of L(m) + 2iF(m) has. Either is at most a
// decimal digit longer than F(m).
func squareLimbs(m uint64, k int) int { return 2*limbs(Digits(m)+1, k) - 1 }

// baseFor returns the k to compute F(n) with: the largest whose transform is exact for digits that are as
// if random. They are; if they were not, it would be noticed.
func baseFor(n uint64) int {
	for k := 4; k > 2; k-- {
		digits := limbs(Digits(n/2)+1, k)
		base := float64(powersOfTen[k])
		t := transform{n: lengthFor(2*digits - 1)}
		if t.bound(1.1*2*float64(digits)*base*base/12) < 0.5 {
			return k
		}
	}
	return 2
}

// The decimal logarithms of the golden ratio and of the square root of five, times 2^128.
const (
	logPhiHigh   = 0x358036c82451b7f3
	logPhiLow    = 0x65d3db23845599f5
	logRoot5High = 0x5977d95ec10c0219
	logRoot5Low  = 0xdc1da994fd20dba1
)

// Digits returns the number of decimal digits of F(n), exactly: F(n) is the integer nearest to phi^n /
// sqrt(5), and its logarithm is computed with an error below 2^-96 for indices that fit 32 bits, and 2^-64
// for all.
func Digits(n uint64) int {
	if n < 2 {
		return 1 // F(1) is the one power of ten that phi^n / sqrt(5) approaches from below
	}
	// 64 bits before the point, 128 after it.
	high, low := bits.Mul64(n, logPhiLow)
	whole, middle := bits.Mul64(n, logPhiHigh)
	middle, carry := bits.Add64(middle, high, 0)
	whole += carry
	_, borrow := bits.Sub64(low, logRoot5Low, 0)
	_, borrow = bits.Sub64(middle, logRoot5High, borrow)
	return int(whole-borrow) + 1
}

// Cost returns about how many bytes of memory Fibonacci(n) needs at its peak, what it returns included.
func Cost(n uint64) int64 {
	const tables = 64 << 10
	if n <= small {
		return tables
	}
	k := baseFor(n)
	points := int64(lengthFor(squareLimbs(n/2, k)))
	return tables + 16*points + 48*points/2/lowRoots + 2*int64(Digits(n)+k)
}
