package ingest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// Decimals are whole numbers that a schema divides by a power of ten, its scale. Those of more digits than
// 18 are bytes in two's complement, the most significant first.

// maxDecimal is the most bytes of a decimal there is a use for: 76 digits, as Arrow's widest has.
const maxDecimal = 32

// wholeOf returns a decimal without its scale, and whether it fits into 64 bits.
func wholeOf(b []byte) (n int64, fits bool) {
	for len(b) > 8 {
		if b[0] != byte(int8(b[1])>>7) { // else the first byte only repeats the sign of the next
			return 0, false
		}
		b = b[1:]
	}
	if len(b) > 0 {
		n = int64(int8(b[0])) // whose sign is that of the number
		for _, c := range b[1:] {
			n = n<<8 | int64(c)
		}
	}
	return n, true
}

// bigOf is wholeOf for those that do not fit.
func bigOf(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

// decimal appends one decimal that is stored as bytes.
func (v *converter) decimal(c *Column, b []byte) {
	if len(b) == 0 || len(b) > maxDecimal {
		v.reject(c, fmt.Sprintf("a decimal of %d bytes", len(b)))
		return
	}
	n, fits := wholeOf(b)
	if v.field.Type == Float {
		x := scaled(float64(n), v.scale)
		if !fits || n < -1<<53 || n > 1<<53 || v.scale > 22 {
			// scaled would round twice.
			x, _ = strconv.ParseFloat(bigOf(b).String()+"e"+strconv.Itoa(-v.scale), 64)
		}
		if !v.field.accepts(x) {
			v.reject(c, decimalText(bigOf(b), v.scale))
			return
		}
		c.Floats = append(c.Floats, x)
		return
	}
	switch whole := ""; {
	case fits && n >= 0 && v.kind == Number:
		c.Numbers = append(c.Numbers, uint64(n))
	case fits && n >= 0:
		v.scratch = strconv.AppendInt(v.scratch[:0], n, 10)
		c.appendText(v.scratch)
	default:
		// What is too large for a number will do as a name.
		if whole = bigOf(b).String(); whole[0] == '-' || c.appendID(v.field, v.kind, []byte(whole)) != "" {
			v.reject(c, whole)
		}
	}
}

// scaled returns x / 10^scale: the nearest number there is, where x is whole and below 2^53 and the scale 0
// to 22.
func scaled(x float64, scale int) float64 {
	if scale < 0 {
		return x * math.Pow10(-scale)
	}
	return x / math.Pow10(scale)
}

// decimalText writes a decimal with its point, for messages.
func decimalText(whole *big.Int, scale int) string {
	if scale < 0 || scale > 100 {
		return whole.String() + "e" + strconv.Itoa(-scale)
	}
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	return new(big.Rat).SetFrac(whole, unit).FloatString(scale)
}

// words appends a decimal of 64-bit words, the most significant first.
func (v *converter) words(c *Column, words ...uint64) {
	v.scratch = v.scratch[:0]
	for _, w := range words {
		v.scratch = binary.BigEndian.AppendUint64(v.scratch, w)
	}
	v.decimal(c, v.scratch)
}
