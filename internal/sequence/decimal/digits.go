package decimal

import (
	"context"
	"math"
)

// The transform works on the digits of numbers in base 10^k. Digits are balanced, from about -10^k/2 to
// 10^k/2, which halves what coefficients reach, and they need not be unique: a digit may be a little beyond
// that. A vector has digits of one number as its real parts and of another as its imaginary ones; the least
// significant digits come first.

// The two numbers of a sequence of points.
const (
	realPart = 0
	imagPart = 8
)

// powersOfTen are the bases by k.
var powersOfTen = [...]int{1, 10, 100, 1000, 10000}

// parse stores the ASCII digits of a as digits in base 10^k in one part of z. The rest of z is left as it is.
func parse(ctx context.Context, z []float64, part int, a []byte, k int) error {
	base := powersOfTen[k]
	carry := 0
	for i := 0; len(a) > 0 || carry > 0; i++ {
		if i%checkPoints == checkPoints-1 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		d := 0
		from := max(0, len(a)-k)
		for _, c := range a[from:] {
			d = d*10 + int(c-'0')
		}
		a = a[:from]
		d += carry
		carry = 0
		if d >= base/2 {
			d -= base
			carry = 1
		}
		z[i/8*vector+i%8+part] = float64(d)
	}
	return nil
}

// format writes a number of digits in base 10^k as ASCII to dst, k times as long, with leading zeros.
func (t *transform) format(dst []byte, z []float64, part, digits, k int) error {
	borrow := 0
	for from := 0; from < digits; from += checkPoints {
		if from > 0 {
			if err := t.ctx.Err(); err != nil {
				return err
			}
		}
		n := min(checkPoints, digits-from)
		to := dst[k*(digits-from-n) : k*(digits-from)]
		borrow = t.formatVectors(to, z[2*from:], part, n, k, borrow)
	}
	return nil
}

// formatPlain does what format does, beginning with a borrow of 0 or -1, and returns that of the next digit.
func formatPlain(dst []byte, z []float64, part, digits, k, borrow int) int {
	base := powersOfTen[k]
	for i := range digits {
		d := int(z[i/8*vector+i%8+part]) + borrow
		borrow = d >> 63
		d += base & borrow
		to := dst[len(dst)-k:]
		dst = dst[:len(dst)-k]
		switch k {
		case 4:
			high, low := uint(d)/100, uint(d)%100
			to[0], to[1] = twoDigits[2*high], twoDigits[2*high+1]
			to[2], to[3] = twoDigits[2*low], twoDigits[2*low+1]
		default:
			for j := k - 1; j >= 0; j-- {
				to[j] = byte('0' + d%10)
				d /= 10
			}
		}
	}
	return borrow
}

// twoDigits has the numbers from 00 to 99 one after the other.
const twoDigits = "0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"

// A mix says what two numbers are made of the coefficients that a square has left: each is half of an integer
// combination of the real and the imaginary coefficients, and is known to be an integer itself.
type mix struct {
	realRe, realIm float64 // twice the number that becomes the real part
	imagRe, imagIm float64 // twice the one that becomes the imaginary part
}

// toInteger added to a float64 below 2^51 and taken off again rounds it to the nearest integer.
const toInteger = 3 << 51

func round(x float64) float64 { return float64(x+toInteger) - toInteger }

// settle makes digits of the coefficients in z, which are n times too large, and returns the sum of their
// squares.
//
// Halves are taken of coefficients, before carries: an odd one leaves a remainder that is worth half a base
// one digit lower. All numbers are integers below 2^50, so floating point is exact here but for the first
// multiplication, whose error is far below that of the transform.
func (t *transform) settle(z []float64, k int, m *mix) (norm float64, err error) {
	var s settler
	for from := 0; from < t.n; from += checkPoints {
		if from > 0 {
			if err := t.ctx.Err(); err != nil {
				return 0, err
			}
		}
		t.settleVectors(z, from, min(t.n, from+checkPoints), k, m, &s)
	}
	return math.Nextafter(s.sum*(1+1e-6), math.Inf(1)), nil
}

// settler is the state between two parts of a number that is settled.
type settler struct {
	realLast, imagLast   float64 // the last coefficients, which wait for the remainders of the next
	realCarry, imagCarry float64 // carries to their digits
	sum                  float64 // of the squares of all digits so far

	vectors [104]float64 // all of this for assembly
}

// settlePlain settles the points of z from from to to, except that the digit of the last is not stored
// unless it is the last of all; in return it stores that before from.
func (t *transform) settlePlain(z []float64, from, to, k int, m *mix, s *settler) {
	base := float64(powersOfTen[k])
	scale, inverse, half := 1/float64(t.n), 1/base, base/2
	store := func(i int, xOdd, yOdd float64) {
		at := i/8*vector + i%8
		v, w := s.realLast+half*xOdd+s.realCarry, s.imagLast+half*yOdd+s.imagCarry
		s.realCarry, s.imagCarry = round(v*inverse), round(w*inverse)
		v, w = v-s.realCarry*base, w-s.imagCarry*base
		z[at], z[at+imagPart] = v, w
		s.sum += v*v + w*w
	}
	for i := from; i < to; i++ {
		at := i/8*vector + i%8
		p, q := round(z[at]*scale), round(z[at+imagPart]*scale)
		a, b := m.realRe*p+m.realIm*q, m.imagRe*p+m.imagIm*q
		x, y := round(a/2), round(b/2)
		if i > 0 {
			store(i-1, a-2*x, b-2*y)
		}
		s.realLast, s.imagLast = x, y
	}
	if to == t.n {
		store(to-1, 0, 0)
	}
}
