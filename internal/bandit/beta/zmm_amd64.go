//go:build !purego

package beta

// A zmm is the numbers that the AVX-512 kernel works with. Its assembly names them by their offsets.
//
// The angle of a Box-Muller pair is a random word w: its low three bits choose one of eight directions, and
// as a signed integer it is the distance from there, so that w/2^63 in [-1, 1) stands for 22.5 degrees. -2
// log u times scale^2 is what logs and log add up to: normals come out multiplied by scale, about a third,
// which is what the root of d then makes c x of.
type zmm struct {
	reciprocals [8]float64  // of the middles of [1+i/8, 1+(i+1)/8)
	logs        [8]float64  // -2 scale^2 (-log reciprocals[i] - 64 log 2)
	cosines     [8]float64  // of i 45 degrees
	sines       [8]float64  //
	log         [10]float64 // -2 scale^2 log(1+r)/r for |r| <= 1/17, within 2^-53
	ln2         float64     // -2 scale^2 log 2
	cos         [6]float64  // cos(pi/8 w/2^63) in powers of w^2, within 2^-55
	sin         [6]float64  // the sine in w times powers of w^2, within 2^-58
	exp         [12]float64 // e^r for |r| <= log(2)/2, within 2^-56
	// 2 atanh(s)/s in powers of s^2, 2s = log((1+s)/(1-s)) up to sqrt(2), within 2^-58.
	atanh [8]float64

	one, minShape, maxShape       float64
	minusThird, half, three, four float64 // four is 4.5
	oneAndHalf, two, sqrt2        float64
	toUnit                        float64 // 2^-64
	fromUnit                      float64 // 2^64
	shrink                        float64 // 2^-12
	log2e, ln2High, ln2Low        float64
	lowest                        float64 // the least exponent that is worth a power
	toLog                         float64 // -1/(2 scale^2)
	toSquares                     float64 // 1/(2 scale^2)

	// The squeeze, in parts of 4096: accepted is what is below squeezed - squeeze q - loss r^2.
	squeezed, squeeze, loss float64
	exponent                float64 // 2^52, whose low bits count
	twelveBits              uint64
	count                   [8]uint64 // 0 to 7
}

var zmmConstants = zmm{
	reciprocals: [8]float64{
		0x1.e1e1e1e1e1e1ep-1, 0x1.af286bca1af28p-1, 0x1.8618618618618p-1, 0x1.642c8590b2164p-1,
		0x1.47ae147ae147bp-1, 0x1.2f684bda12f68p-1, 0x1.1a7b9611a7b96p-1, 0x1.0842108421084p-1,
	},
	logs: [8]float64{
		0x1.3b1122a8a217ap+3, 0x1.3a46a1542f3b3p+3, 0x1.39906945ff75fp+3, 0x1.38eac818678b3p+3,
		0x1.3852f8a18de5ap+3, 0x1.37c6d9bd41936p+3, 0x1.3744bf51b8783p+3, 0x1.36cb53084a542p+3,
	},
	cosines: [8]float64{1, 0x1.6a09e667f3bcdp-1, 0, -0x1.6a09e667f3bcdp-1, -1, -0x1.6a09e667f3bcdp-1, 0,
		0x1.6a09e667f3bcdp-1},
	sines: [8]float64{0, 0x1.6a09e667f3bcdp-1, 1, 0x1.6a09e667f3bcdp-1, 0, -0x1.6a09e667f3bcdp-1, -1,
		-0x1.6a09e667f3bcdp-1},
	log: [10]float64{
		-0x1.c72ae3e558ee5p-3, 0x1.c72ae3e558ee5p-4, -0x1.2f71ed438b9bbp-4, 0x1.c72ae3e54fbdap-5,
		-0x1.6c2250452f277p-5,
		0x1.2f71ed9689599p-5, -0x1.0417645600daap-5, 0x1.c728d7b890209p-6, -0x1.97787bb7e80bep-6,
		0x1.6ec58d98ba51bp-6,
	},
	ln2: -0x1.3b7f83488884cp-3,
	cos: [6]float64{
		1, -0x1.3bd3cc9be4597p-130, 0x1.03c1f081a8bcfp-262, -0x1.55d3c7ac9a034p-396, 0x1.e1f431969ab3cp-531,
		-0x1.a5572e1f97459p-666,
	},
	sin: [6]float64{
		0x1.921fb54442d18p-65, -0x1.4abbce625be42p-196, 0x1.466bc677546d3p-329,
		-0x1.32d2cccb7c60ep-463, 0x1.5077cd947cc6bp-598, -0x1.e19919ddaa6d8p-734,
	},
	exp: [12]float64{
		1, 1, 0x1.0000000000011p-1, 0x1.555555555555ap-3, 0x1.555555554f0cfp-5, 0x1.111111110f225p-7,
		0x1.6c16c187fbe02p-10,
		0x1.a01a01b14378fp-13, 0x1.a01991ac8729ap-16, 0x1.71ddf5749d0e1p-19, 0x1.28b4057f4a8ebp-22,
		0x1.af631d0061b72p-26,
	},
	atanh: [8]float64{
		2, 0x1.55555555555aep-1, 0x1.999999997ae5dp-2, 0x1.2492494518370p-2,
		0x1.c71c4ffcc4142p-3, 0x1.74669a1004d6ep-3, 0x1.3999ab33ca2e3p-3, 0x1.2f4e5bc67e798p-3,
	},
	one: 1, minShape: MinShape, maxShape: MaxShape, minusThird: -1.0 / 3, half: 0.5, three: 3, four: 4.5,
	oneAndHalf: 1.5, two: 2, sqrt2: 0x1.6a09e667f3bcdp+0,
	toUnit: 0x1p-64, fromUnit: 0x1p64, shrink: 0x1p-12,
	log2e: 0x1.71547652b82fep+0, ln2High: ln2High, ln2Low: ln2Low, lowest: -800,
	toLog: -0x1.1ff6dc13235dbp+2, toSquares: 0x1.1ff6dc13235dbp+2,
	squeezed: 0x1p52 + 4094, squeeze: 0x1.d7548bc05eeeap+12, loss: 0x1.223fedca26223p+2,
	exponent: 0x1p52, twelveBits: 4095,
	count: [8]uint64{0, 1, 2, 3, 4, 5, 6, 7},
}
