//go:build !purego

package beta

import "math"

// Four times a number: AVX2 has no operands that broadcast.
type four [4]float64

// A ymm is the numbers that the AVX2 kernel works with. Its assembly names them by their offsets. They
// differ from those of a zmm where AVX2 has no instruction for it: an angle is a quarter of the circle from
// -1/2 to 1/2, which two bits then turn, and the root of d is less precise.
type ymm struct {
	cos   [7]four  // cos(pi/2 s) in powers of s^2 for |s| <= 1/2, within 2^-53
	sin   [7]four  // sin(pi/2 s)/s, within 2^-56
	exp   [12]four // as in zmm
	atanh [8]four  // as in zmm

	zero, one, minShape, maxShape    four
	minusThird, half, three, squares four // squares is 4.5
	oneAndHalf, two                  four
	shrink                           four // 2^-12
	log2e, ln2High, ln2Low           four
	lowest                           four // the least exponent that is worth a power
	minusTwo                         four // -2 scale^2
	toSquares                        four // 1/(2 scale^2)
	squeezed, squeeze, loss          four
	exponent                         four // 2^52
	bias                             four // 2^52 + 1023

	twelveBits, increment, mantissa [4]uint64
	count                           [4]uint64
	// What takes the bits of sqrt(1/2) to those of 1, and the bits of sqrt(1/2).
	toRoot, root [4]uint64
	rotate       [32]uint8 // the order of bytes that rotates every word by 24 bits
	thousand     [4]uint32 // 1023
	compress     [16][8]uint32
}

var ymmConstants = newYmm()

func newYmm() *ymm {
	all := func(x float64) four { return four{x, x, x, x} }
	words := func(x uint64) [4]uint64 { return [4]uint64{x, x, x, x} }
	y := &ymm{
		zero: all(0), one: all(1), minShape: all(MinShape), maxShape: all(MaxShape),
		minusThird: all(-1.0 / 3), half: all(0.5), three: all(3), squares: all(4.5),
		oneAndHalf: all(1.5), two: all(2), shrink: all(0x1p-12),
		log2e: all(zmmConstants.log2e), ln2High: all(ln2High), ln2Low: all(ln2Low),
		lowest:   all(zmmConstants.lowest),
		minusTwo: all(-0x1.c772ee52fd886p-3), toSquares: all(0x1.1fc94f940956ep+2),
		squeezed: all(0x1p52 + 4094), squeeze: all(0x1.d79f1cd39a312p+12), loss: all(0x1.b50826dd48041p+4),
		exponent: all(0x1p52), bias: all(0x1p52 + 1023),
		twelveBits: words(4095), increment: words(1), mantissa: words(1<<52 - 1),
		count:    [4]uint64{0, 1, 2, 3},
		toRoot:   words(math.Float64bits(1) - math.Float64bits(math.Sqrt2/2)),
		root:     words(math.Float64bits(math.Sqrt2 / 2)),
		thousand: [4]uint32{1023, 1023, 1023, 1023},
	}
	for i, c := range [7]float64{
		1, -0x1.3bd3cc9be458bp+0, 0x1.03c1f081b0780p-2, -0x1.55d3c7dbfd139p-6, 0x1.e1f4fb60281f6p-11,
		-0x1.a6c9c1be9eb49p-16, 0x1.f3dbcea61b1a4p-22,
	} {
		y.cos[i] = all(c)
	}
	for i, c := range [7]float64{
		0x1.921fb54442d18p+0, -0x1.4abbce625be41p-1, 0x1.466bc677587f8p-4, -0x1.32d2cce2e5b19p-8,
		0x1.50782fda12d96p-13, -0x1.e30071afc3e59p-19, 0x1.e3f38399551bfp-25,
	} {
		y.sin[i] = all(c)
	}
	for i, c := range zmmConstants.exp {
		y.exp[i] = all(c)
	}
	for i, c := range zmmConstants.atanh {
		y.atanh[i] = all(c)
	}
	for i := range y.rotate {
		y.rotate[i] = uint8(i&^7 + (i+5)&7)
	}
	for mask := range y.compress {
		n := 0
		for lane := range uint32(4) {
			if mask>>lane&1 != 0 {
				y.compress[mask][2*n], y.compress[mask][2*n+1] = 2*lane, 2*lane+1
				n++
			}
		}
	}
	return y
}
