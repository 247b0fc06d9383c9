package decimal

import (
	"context"
	"math/bits"
)

// A transform squares sequences of complex numbers as polynomials modulo X^n - 1:
//
// The polynomial is halved modulo X^m - r and X^m + r, where r is a square root of what stands in its
// modulus, until the remainders are numbers. These are squared, and the way is gone back. Block b of a
// level has the modulus X^(2m) - root(b)^2 and so needs the one root(b), whatever m is; its halves are the
// blocks 2b and 2b+1 of the next level. (See D. J. Bernstein, "Multidigit multiplication for
// mathematicians", 2001.) Nothing has to be reordered, since what was taken apart in one order is put
// together in the same. Going depth first, a block is done with before the next one is touched, so every
// level of cache is used for all that fits into it.
//
// # Exactness
//
// Let u = 2^-53, and s be the sum of |z|^2 over all points z of the input. One level of the way down
// computes a + r b and a - r b for pairs of points. If r has a relative error of at most w, the error of
// the level, in the Euclidean norm, is at most h = (1+w)(1+sqrt(5)u)(1+u) - 1 of the norm: the product of
// two rounded complex numbers is off by at most sqrt(5)u (Brent, Percival and Zimmermann, "Error bounds on
// complex floating-point multiplication", 2007), less where multiplications and additions are fused. But
// for rounding a level is a rotation times sqrt(2), so relative errors add up, over both factors of the
// square. On the way back, an error made at some level reaches each result once from each block of that
// level, with weight one, so it is bounded by h times the sum of the absolute values of all squares, which
// is n s, and is divided by n in the end. Together no coefficient of the result is off by more than
//
//	s ((1+sqrt(5)u) * product over all levels of (1+h)^3 - 1)
//
// which is the theorem of C. Percival, "Rapid multiplication modulo the sum and difference of highly
// composite numbers", 2003. The sum s is computed from the digits at hand (transform.bound), not assumed.
// If the bound is below 1/2, rounding to the nearest integer gives the coefficients exactly.
type transform struct {
	ctx  context.Context
	n    int          // points
	high []complex128 // root(i << lowBits)
	leaf []float64    // leafRoots
	// plain says to leave assembly alone.
	plain bool
}

// Points are stored in vectors of eight: eight real parts, then eight imaginary parts. Point i is at
// 16*(i/8) + i%8.
const (
	vector  = 16 // float64 in a vector
	minimum = 64 // points of the shortest transform
	// checkPoints is how many points a pass works on between two looks at the context: 0.2 ms of work with
	// AVX-512, 3 ms without. Blocks look at it before they are worked on, unless they are a good deal
	// smaller.
	checkPoints = 1 << 14
)

// lengthFor returns the length of a transform of at least n points.
func lengthFor(n int) int {
	length := minimum
	for length < n {
		length *= 2
	}
	if length == 2*minimum {
		length *= 2 // there is no pass of two
	}
	return length
}

// newTransform returns the transform of n points, which lengthFor has returned.
func newTransform(ctx context.Context, n int, plain bool) *transform {
	t := &transform{ctx: ctx, n: n, leaf: leafRoots(), plain: plain}
	t.high = rootTable(max(1, n/2/lowRoots), lowBits)
	return t
}

// root returns root(j), off by at most tableError below lowRoots and productError above.
func (t *transform) root(j int) complex128 {
	low := lowTable()[j%lowRoots]
	if j < lowRoots {
		return low
	}
	return low * t.high[j/lowRoots]
}

// The errors of one operation, in units of 2^-53: see the comment on transform.
const (
	tableError   = 1.001                        // both parts are off by half a unit in the last place
	productError = 2*tableError + 2.2361 + 0.01 // of two of those
	// In a leaf a root is of a block, times one for the run that may be a product itself, times root(2).
	leafError  = productError + 2*(tableError+2.2361)
	levelError = 2.2361 + 1 // a product and a sum
	unit       = 1.0 / (1 << 53)
)

// bound returns by how much a coefficient of the square may be off, if norm is the sum of the squares of
// the absolute values of the input. It adds up what the theorem multiplies; the difference is covered by
// the factor.
func (t *transform) bound(norm float64) float64 {
	sum := 2.2361
	for level := 1; level < t.n; level *= 2 {
		w := tableError
		if level > lowRoots {
			w = productError
		}
		if level >= t.n/64 {
			w = leafError
		}
		sum += 3 * (w + levelError)
	}
	return norm * sum * unit * 1.01
}

// square replaces z, of n points, by the square of it, times n.
func (t *transform) square(z []float64) error {
	return t.block(z[:2*t.n], 0)
}

// block squares block b of its level, which is all of z.
func (t *transform) block(z []float64, b int) error {
	points := len(z) / 2
	if points >= checkPoints/8 {
		if err := t.ctx.Err(); err != nil {
			return err
		}
	}
	if points == minimum {
		t.leaves(z, b)
		return nil
	}
	// Passes of eight first, since they walk through more memory than passes of four do. What is left for the
	// latter are two levels or four.
	radix := 4
	if levels := bits.Len(uint(points/minimum)) - 1; levels == 3 || levels >= 5 {
		radix = 8
	}
	m := points / radix
	r := [4]complex128{t.root(b), t.root(2 * b), t.root(4 * b), t.root(4*b + 2)}
	if err := t.pass(z, m, radix, &r, false); err != nil {
		return err
	}
	if m == minimum {
		t.leaves(z, b*radix)
	} else {
		for i := range radix {
			if err := t.block(z[2*m*i:][:2*m], radix*b+i); err != nil {
				return err
			}
		}
	}
	return t.pass(z, m, radix, &r, true)
}

// pass takes the block z apart into radix blocks of m points, or puts it together again.
func (t *transform) pass(z []float64, m, radix int, r *[4]complex128, back bool) error {
	for from := 0; from < m; from += checkPoints / radix {
		if m*radix > checkPoints {
			if err := t.ctx.Err(); err != nil {
				return err
			}
		}
		vectors := min(checkPoints/radix, m-from) / 8
		t.passVectors(z[2*from:], 2*m, vectors, radix, r, back)
	}
	return nil
}

// passPlain works on the given number of vectors from the beginning of z, each with those that stand
// stride, 2 stride and so on after it.
func passPlain(z []float64, stride, vectors, radix int, r *[4]complex128, back bool) {
	for v := range vectors {
		z := z[v*vector:]
		at := func(i int) *[vector]float64 { return (*[vector]float64)(z[i*stride:]) }
		switch {
		case radix == 4 && !back:
			split(at(0), at(2), r[0])
			split(at(1), at(3), r[0])
			split(at(0), at(1), r[1])
			splitI(at(2), at(3), r[1])
		case radix == 4:
			join(at(0), at(1), r[1])
			joinI(at(2), at(3), r[1])
			join(at(0), at(2), r[0])
			join(at(1), at(3), r[0])
		case !back:
			for i := range 4 {
				split(at(i), at(i+4), r[0])
			}
			for i := range 2 {
				split(at(i), at(i+2), r[1])
				splitI(at(i+4), at(i+6), r[1])
			}
			split(at(0), at(1), r[2])
			splitI(at(2), at(3), r[2])
			split(at(4), at(5), r[3])
			splitI(at(6), at(7), r[3])
		default:
			join(at(0), at(1), r[2])
			joinI(at(2), at(3), r[2])
			join(at(4), at(5), r[3])
			joinI(at(6), at(7), r[3])
			for i := range 2 {
				join(at(i), at(i+2), r[1])
				joinI(at(i+4), at(i+6), r[1])
			}
			for i := range 4 {
				join(at(i), at(i+4), r[0])
			}
		}
	}
}

// split computes a + r b and a - r b in eight lanes.
func split(a, b *[vector]float64, r complex128) {
	re, im := real(r), imag(r)
	for i := range 8 {
		x := re*b[i] - im*b[i+8]
		y := re*b[i+8] + im*b[i]
		p, q := a[i], a[i+8]
		a[i], a[i+8] = p+x, q+y
		b[i], b[i+8] = p-x, q-y
	}
}

// splitI is split with i r in place of r.
func splitI(a, b *[vector]float64, r complex128) { split(a, b, complex(-imag(r), real(r))) }

// join undoes split, but for a factor of two.
func join(a, b *[vector]float64, r complex128) {
	re, im := real(r), imag(r)
	for i := range 8 {
		x, y := a[i]-b[i], a[i+8]-b[i+8]
		a[i], a[i+8] = a[i]+b[i], a[i+8]+b[i+8]
		b[i] = re*x + im*y
		b[i+8] = re*y - im*x
	}
}

// joinI is join with i r in place of r.
func joinI(a, b *[vector]float64, r complex128) { join(a, b, complex(-imag(r), real(r))) }

// leaves squares consecutive blocks of 64 points, the first of which is block b. They are of one run.
func (t *transform) leaves(z []float64, b int) {
	// The part of the roots that is the same for the whole run.
	var run [12]float64
	for level := range 6 {
		r := t.root(b / runBlocks * runBlocks << level)
		run[2*level], run[2*level+1] = real(r), imag(r)
	}
	t.leafVectors(z, t.leaf[b%runBlocks*runEntry:], &run)
}

// leavesPlain squares blocks of 64 points with the roots in leaf, each to be multiplied by that of its
// level in run.
func leavesPlain(z, leaf []float64, run *[12]float64) {
	var level [6]complex128
	for i := range level {
		level[i] = complex(run[2*i], run[2*i+1])
	}
	for ; len(z) > 0; z, leaf = z[2*minimum:], leaf[runEntry:] {
		var r [4]complex128
		for i := range 3 {
			r[i] = complex(leaf[2*i], leaf[2*i+1]) * level[i]
		}
		r[3] = r[2] * complex(sqrtHalf, sqrtHalf)
		passPlain(z, vector, 1, 8, &r, false)
		for v := range 8 {
			for i := range 3 {
				at := 8 + 16*i + v
				r[i] = complex(leaf[at], leaf[at+8]) * level[3+i]
			}
			r[3] = r[2] * complex(sqrtHalf, sqrtHalf)
			leafPlain((*[vector]float64)(z[v*vector:]), &r)
		}
		for i := range 3 {
			r[i] = complex(leaf[2*i], leaf[2*i+1]) * level[i]
		}
		r[3] = r[2] * complex(sqrtHalf, sqrtHalf)
		passPlain(z, vector, 1, 8, &r, true)
	}
}

// leafPlain squares one block of eight points.
func leafPlain(z *[vector]float64, r *[4]complex128) {
	var p [8]complex128
	for i := range p {
		p[i] = complex(z[i], z[i+8])
	}
	split := func(a, b int, r complex128) {
		x := r * p[b]
		p[a], p[b] = p[a]+x, p[a]-x
	}
	join := func(a, b int, r complex128) {
		p[a], p[b] = p[a]+p[b], (p[a]-p[b])*complex(real(r), -imag(r))
	}
	turn := func(r complex128) complex128 { return complex(-imag(r), real(r)) }
	for i := range 4 {
		split(i, i+4, r[0])
	}
	for i := range 2 {
		split(i, i+2, r[1])
		split(i+4, i+6, turn(r[1]))
	}
	split(0, 1, r[2])
	split(2, 3, turn(r[2]))
	split(4, 5, r[3])
	split(6, 7, turn(r[3]))
	for i := range p {
		p[i] *= p[i]
	}
	join(0, 1, r[2])
	join(2, 3, turn(r[2]))
	join(4, 5, r[3])
	join(6, 7, turn(r[3]))
	for i := range 2 {
		join(i, i+2, r[1])
		join(i+4, i+6, turn(r[1]))
	}
	for i := range 4 {
		join(i, i+4, r[0])
	}
	for i := range p {
		z[i], z[i+8] = real(p[i]), imag(p[i])
	}
}

// norm returns the sum of the squares of the absolute values of z, rounded up.
func norm(z []float64) float64 {
	var sum [8]float64
	for ; len(z) >= 8; z = z[8:] {
		for i, x := range z[:8] {
			sum[i] += x * x
		}
	}
	total := 0.0
	for _, x := range sum {
		total += x
	}
	return total * (1 + 1e-6)
}
