package pieces

// The CRC-32 of gzip is a remainder of polynomials over GF(2), bits reversed: the highest bit is the
// coefficient of 1. The sum of one text followed by another is that of the first, times x for each bit of
// the second, plus that of the second. After crc32_combine of zlib.

const crcPolynomial = 0xedb88320

// times multiplies two polynomials modulo crcPolynomial.
func times(a, b uint32) (product uint32) {
	for m := uint32(1 << 31); m != 0; m >>= 1 {
		if a&m != 0 {
			product ^= b
		}
		b = b>>1 ^ crcPolynomial&-(b&1)
	}
	return product
}

// powers[k] is x to the power of 2^k.
var powers = func() (p [32]uint32) {
	p[0] = 1 << 30
	for k := 1; k < len(p); k++ {
		p[k] = times(p[k-1], p[k-1])
	}
	return p
}()

// shift returns x to the power of 8n.
func shift(n uint32) uint32 {
	p := uint32(1 << 31)
	for k := 3; n != 0; k, n = k+1, n>>1 {
		if n&1 != 0 {
			p = times(powers[k&31], p)
		}
	}
	return p
}

// combine returns the sum of a text with the sum first, followed by n bytes with the sum second.
func combine(first, second, n uint32) uint32 { return times(shift(n), first) ^ second }
