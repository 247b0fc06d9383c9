package decimal

import "golang.org/x/sys/cpu"

// hasAVX512 says whether the assembly can run. GODEBUG=cpu.avx512f=off in the environment turns it off.
var hasAVX512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL &&
	cpu.X86.HasAVX512VBMI

// addAVX512 adds that many vectors of 64 digits and returns the carry.
//
//go:noescape
func addAVX512(dst, a, b *byte, vectors int, carry uint64) uint64

// subAVX512 subtracts that many vectors of 64 digits and returns the borrow.
//
//go:noescape
func subAVX512(dst, a, b *byte, vectors int, carry uint64) uint64

// addWordsAVX512 adds that many vectors, faster, unless it returns false for known: then dst is garbage.
//
//go:noescape
func addWordsAVX512(dst, a, b *byte, vectors int, carry uint64) (out uint64, known bool)

// subWordsAVX512 subtracts as addWordsAVX512 adds.
//
//go:noescape
func subWordsAVX512(dst, a, b *byte, vectors int, carry uint64) (out uint64, known bool)

//go:noescape
func split4AVX512(z *float64, stride, vectors int, r *[4]complex128)

//go:noescape
func join4AVX512(z *float64, stride, vectors int, r *[4]complex128)

//go:noescape
func split8AVX512(z *float64, stride, vectors int, r *[4]complex128)

//go:noescape
func join8AVX512(z *float64, stride, vectors int, r *[4]complex128)

//go:noescape
func leavesAVX512(z *float64, blocks int, leaf *float64, run *[12]float64)

//go:noescape
func settleAVX512(to, from *float64, vectors int, c *[10]float64, state *[104]float64)

// formatAVX512 writes groups of 16 digits in base 10^4, one number of the points in z, in reverse order to
// dst.
//
//go:noescape
func formatAVX512(dst *byte, z *float64, groups int, borrow uint64) uint64

// piece is how many vectors assembly is given at a time. It cannot be interrupted, so a long number must
// not go through in one, and it is what has to be done again when a carry runs through a whole word.
const piece = 1024

// addVectors adds as many whole vectors as both numbers have, from their ends, and returns where it stopped
// and the carry. a is not shorter than b, dst as long as a.
func addVectors(dst, a, b []byte) (i, j int, carry uint64) {
	i, j = len(a), len(b)
	if !hasAVX512 {
		return i, j, 0
	}
	for j >= 64 {
		n := min(piece, j/64)
		i, j = i-64*n, j-64*n
		out, known := addWordsAVX512(&dst[i], &a[i], &b[j], n, carry)
		if !known {
			out = addAVX512(&dst[i], &a[i], &b[j], n, carry)
		}
		carry = out
	}
	return i, j, carry
}

// subVectors subtracts as addVectors adds.
func subVectors(dst, a, b []byte) (i, j int, borrow uint64) {
	i, j = len(a), len(b)
	if !hasAVX512 {
		return i, j, 0
	}
	for j >= 64 {
		n := min(piece, j/64)
		i, j = i-64*n, j-64*n
		out, known := subWordsAVX512(&dst[i], &a[i], &b[j], n, borrow)
		if !known {
			out = subAVX512(&dst[i], &a[i], &b[j], n, borrow)
		}
		borrow = out
	}
	return i, j, borrow
}

func (t *transform) passVectors(z []float64, stride, vectors, radix int, r *[4]complex128, back bool) {
	if t.plain || !hasAVX512 {
		passPlain(z, stride, vectors, radix, r, back)
		return
	}
	_ = z[(radix-1)*stride+vectors*vector-1]
	switch {
	case radix == 8 && back:
		join8AVX512(&z[0], stride, vectors, r)
	case radix == 8:
		split8AVX512(&z[0], stride, vectors, r)
	case back:
		join4AVX512(&z[0], stride, vectors, r)
	default:
		split4AVX512(&z[0], stride, vectors, r)
	}
}

func (t *transform) leafVectors(z, leaf []float64, run *[12]float64) {
	if t.plain || !hasAVX512 {
		leavesPlain(z, leaf, run)
		return
	}
	blocks := len(z) / (2 * minimum)
	_ = leaf[blocks*runEntry-1]
	leavesAVX512(&z[0], blocks, &leaf[0], run)
}

func (t *transform) settleVectors(z []float64, from, to, k int, m *mix, s *settler) {
	if t.plain || !hasAVX512 || k != 4 {
		t.settlePlain(z, from, to, k, m, s)
		return
	}
	base := float64(powersOfTen[k])
	c := &[10]float64{1 / float64(t.n), 1 / base, base, base / 2, 0.5, 2, m.realRe, m.realIm,
		m.imagRe, m.imagIm}
	z = z[:2*t.n]
	if from == 0 {
		// There is nothing before the first vector, whose place is therefore elsewhere.
		var nowhere [vector]float64
		settleAVX512(&nowhere[0], &z[0], 1, c, &s.vectors)
		from = 8
	}
	settleAVX512(&z[2*from-vector], &z[2*from], (to-from)/8, c, &s.vectors)
	if to == t.n {
		var nothing [vector]float64
		settleAVX512(&z[2*to-vector], &nothing[0], 1, c, &s.vectors)
		for _, x := range s.vectors[96:104] {
			s.sum += x
		}
	}
}

func (t *transform) formatVectors(dst []byte, z []float64, part, digits, k, borrow int) int {
	groups := digits / 16
	if t.plain || !hasAVX512 || k != 4 || groups == 0 {
		return formatPlain(dst, z, part, digits, k, borrow)
	}
	_ = z[groups*2*vector-1]
	low := dst[len(dst)-64*groups:]
	borrow = -int(formatAVX512(&low[0], &z[part], groups, uint64(-borrow)))
	return formatPlain(dst[:len(dst)-64*groups], z[groups*2*vector:], part, digits-16*groups, k, borrow)
}
