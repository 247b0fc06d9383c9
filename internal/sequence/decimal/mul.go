package decimal

import (
	"context"
	"errors"
	"slices"
)

// shortest is from how many digits of the shorter operand on a product is computed by a transform.
const shortest = 300

// errInexact says that a transform in the base tried would not be exact for certain.
var errInexact = errors.New("decimal: the base is too large for an exact product")

// Mul appends a*b to dst and returns it. It looks at ctx at least every ten milliseconds or so and returns
// its error, with dst as it was, once it is done.
func Mul(ctx context.Context, dst, a, b []byte) ([]byte, error) { return mul(ctx, dst, a, b, false) }

func mul(ctx context.Context, dst, a, b []byte, plain bool) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(b) < shortest {
		return mulShort(ctx, dst, a, b)
	}
	for k := 4; k >= 2; k-- {
		product, err := mulLong(ctx, dst, a, b, k, plain)
		if err != errInexact {
			return product, err
		}
	}
	return dst, errInexact // for numbers no memory holds
}

// mulLong multiplies by a transform in base 10^k: (a + ib)^2 has 2ab as its imaginary part.
func mulLong(ctx context.Context, dst, a, b []byte, k int, plain bool) ([]byte, error) {
	digits := limbs(len(a), k) + limbs(len(b), k)
	t := newTransform(ctx, lengthFor(digits), plain)
	z := make([]float64, 2*t.n)
	if err := parse(ctx, z, realPart, a, k); err != nil {
		return dst, err
	}
	if err := parse(ctx, z, imagPart, b, k); err != nil {
		return dst, err
	}
	if t.bound(norm(z)) >= 0.5 {
		return dst, errInexact
	}
	if err := t.square(z); err != nil {
		return dst, err
	}
	if _, err := t.settle(z, k, &mix{realIm: 1}); err != nil {
		return dst, err
	}
	at := len(dst)
	product := slices.Grow(dst, k*digits)[:at+k*digits]
	if err := t.format(product[at:], z, realPart, digits, k); err != nil {
		return dst, err
	}
	return product[:at+trim(product[at:])], nil
}

// limbs returns how many digits in base 10^k a number of that many decimal ones has at most. Balanced
// digits may take one more than others.
func limbs(digits, k int) int { return (digits+k-1)/k + 1 }

// trim moves the digits of a to its beginning, over its leading zeros, and returns how many they are.
func trim(a []byte) int {
	zeros := 0
	for zeros < len(a)-1 && a[zeros] == '0' {
		zeros++
	}
	return copy(a, a[zeros:])
}

// short is the base that short products are computed in, and how many decimal digits that is.
const (
	short       = 1_000_000_000
	shortDigits = 9
)

// words returns the digits of a in base short, the least significant first.
func words(a []byte) []uint32 {
	w := make([]uint32, 0, len(a)/shortDigits+1)
	for len(a) > 0 {
		from := max(0, len(a)-shortDigits)
		var d uint32
		for _, c := range a[from:] {
			d = d*10 + uint32(c-'0')
		}
		w = append(w, d)
		a = a[:from]
	}
	return w
}

// mulShort multiplies digit by digit. b is the shorter operand.
func mulShort(ctx context.Context, dst, a, b []byte) ([]byte, error) {
	x, y := words(a), words(b)
	p := make([]uint32, len(x)+len(y))
	for i, d := range x {
		if i%4096 == 4095 {
			if err := ctx.Err(); err != nil {
				return dst, err
			}
		}
		var carry uint64
		row := p[i:][:len(y)+1]
		for j, e := range y {
			s := uint64(row[j]) + uint64(d)*uint64(e) + carry
			carry = s / short
			row[j] = uint32(s - carry*short)
		}
		row[len(y)] = uint32(carry)
	}
	at := len(dst)
	dst = slices.Grow(dst, shortDigits*len(p))[:at+shortDigits*len(p)]
	to := dst[at:]
	for _, d := range p {
		for j := len(to) - 1; j >= len(to)-shortDigits; j-- {
			to[j] = byte('0' + d%10)
			d /= 10
		}
		to = to[:len(to)-shortDigits]
	}
	return dst[:at+trim(dst[at:])], nil
}
