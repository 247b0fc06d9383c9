package bandit

import (
	"encoding/binary"
	"math"
	"strconv"
)

// appendScore appends a score from 0 to 1 with nine significant digits: in fixed notation from 1e-4 on, as
// 1.23456789e-05 below. It says the same as strconv.AppendFloat(dst, x, 'g', 9, 64), but that zeros at the
// end stay and that the last digit may be one off where the tenth is at a tie. It takes a fifth of the
// time.
func appendScore(dst []byte, x float64) []byte {
	var scaled float64
	zeros := 0
	switch {
	case x >= 0.1:
		scaled = x * 1e9
	case x >= 0.01:
		scaled, zeros = x*1e10, 1
	case x >= 0.001:
		scaled, zeros = x*1e11, 2
	case x >= 0.0001:
		scaled, zeros = x*1e12, 3
	default:
		return strconv.AppendFloat(dst, x, 'g', 9, 64)
	}
	n := uint64(scaled + 0.5)
	if n >= 1e9 { // 0.9999999999 is 1.00000000, 0.09999999999 is 0.100000000
		if zeros == 0 {
			return append(dst, "1.00000000"...)
		}
		n, zeros = 1e8, zeros-1
	}
	dst = append(dst, "0.000"[:2+zeros]...)
	first := n / 1e8
	dst = append(dst, byte('0'+first))
	return binary.LittleEndian.AppendUint64(dst, eightDigits(n-first*1e8))
}

// eightDigits returns the eight ASCII digits of n < 10^8, the first in the lowest byte: all at once, halved
// and halved again in lanes of one word.
func eightDigits(n uint64) uint64 {
	const (
		tenThousandth = 0xd1b71759 // 2^45 / 10^4, rounded up
		hundredth     = 10486      // 2^20 / 100
		tenth         = 103        // 2^10 / 10
	)
	hi := n * tenThousandth >> 45
	x := hi | (n-hi*10000)<<32
	q := x * hundredth >> 20 & 0x0000007f_0000007f
	x = q | (x-q*100)<<16
	q = x * tenth >> 10 & 0x000f_000f_000f_000f
	x = q | (x-q*10)<<8
	return x | 0x3030303030303030
}

// appendShape appends a number of explanations in the shortest form that is read as the same.
func appendShape(dst []byte, x float64) []byte {
	if x == math.Trunc(x) && x < 1e15 {
		return strconv.AppendInt(dst, int64(x), 10)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, 64)
}
