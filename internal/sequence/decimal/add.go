package decimal

import (
	"encoding/binary"
	"slices"
)

// Add appends a+b to dst and returns it.
func Add(dst, a, b []byte) []byte {
	if len(a) < len(b) {
		a, b = b, a
	}
	at := len(dst)
	// The sum is written where it belongs if its length is known beforehand, as it nearly always is from the
	// leading digits. Otherwise it moves by a byte.
	guess := carries(a, b)
	dst = slices.Grow(dst, len(a)+1)[:at+guess+len(a)]
	carry := addInto(dst[at+guess:], a, b)
	if carry == guess {
		if carry == 1 {
			dst[at] = '1'
		}
		return dst
	}
	// The guess is 0 where there is doubt.
	dst = append(dst, 0)
	copy(dst[at+1:], dst[at:])
	dst[at] = '1'
	return dst
}

// Sub appends a-b to dst and returns it. a must not be less than b.
func Sub(dst, a, b []byte) []byte {
	at := len(dst)
	if len(a) < len(b) {
		return append(dst, '0') // not a difference of natural numbers
	}
	guess := cancels(a, b)
	dst = slices.Grow(dst, len(a))
	// The digits that are known to be zero are computed in a place of their own, which leaves dst as it has
	// to be.
	body := dst[at : at+len(a)-guess]
	if guess > 0 && len(b) > len(a)-guess {
		subInto(body, a[guess:], b[len(b)-(len(a)-guess):])
	} else {
		subInto(body, a[guess:], b)
	}
	zeros := 0
	for zeros < len(body)-1 && body[zeros] == '0' {
		zeros++
	}
	if zeros > 0 {
		copy(body, body[zeros:])
	}
	return dst[:at+len(body)-zeros]
}

// lead is how many leading digits a guess looks at.
const lead = 16

// leading returns the value of the first lead digits of a, and of the digits of b that stand below them. a
// is at least lead digits long and b is not longer than a.
func leading(a, b []byte) (x, y uint64) {
	x = parse8(a)*1e8 + parse8(a[8:])
	if len(b) == len(a) {
		return x, parse8(b)*1e8 + parse8(b[8:])
	}
	for i := len(a) - len(b); i < lead; i++ {
		y = y*10 + uint64(b[i-(len(a)-len(b))]-'0')
	}
	return x, y
}

// parse8 returns the value of the first eight digits of a, in three steps that join neighbours.
func parse8(a []byte) uint64 {
	d := binary.LittleEndian.Uint64(a) - zeros8
	d = d*10 + d>>8
	d = (d&0x000000FF000000FF*(100+1_000_000<<32) + d>>16&0x000000FF000000FF*(1+10_000<<32)) >> 32
	return d & 0xFFFFFFFF
}

// carries returns 1 if a+b is sure to be a digit longer than a, which is not shorter than b.
func carries(a, b []byte) int {
	if len(a) < lead {
		return 0
	}
	if x, y := leading(a, b); x+y >= 1e16 {
		return 1
	}
	return 0
}

// cancels returns how many leading digits of a-b are sure to be zero, with a-b seen as long as a. It looks
// at the first lead digits.
func cancels(a, b []byte) int {
	if len(a) < lead {
		return 0
	}
	x, y := leading(a, b)
	if x-y >= 1e15 {
		return 0
	}
	zeros := lead
	for d := x - y; d > 0; d /= 10 {
		zeros--
	}
	// All those digits may cancel and what is below still be no number without them: one digit stays.
	return min(zeros, len(a)-1)
}

// addInto writes the len(a) low digits of a+b to dst, which is as long as a, and returns the carry. b is
// not longer.
func addInto(dst, a, b []byte) int {
	i, j, carry := addVectors(dst, a, b)
	i, j, carry = addWords(dst, a, b, i, j, carry)
	return addDigits(dst, a, b, i, j, int(carry))
}

// subInto writes the len(a) low digits of a-b to dst, which is as long as a, and returns the borrow. b is
// not longer.
func subInto(dst, a, b []byte) int {
	i, j, borrow := subVectors(dst, a, b)
	i, j, borrow = subWords(dst, a, b, i, j, borrow)
	return subDigits(dst, a, b, i, j, int(borrow))
}

// addDigits adds the digits of a below i and of b below j, a digit at a time. It is the reference for what
// is faster.
func addDigits(dst, a, b []byte, i, j, carry int) int {
	for i > 0 {
		i--
		d := int(a[i]-'0') + carry
		if j > 0 {
			j--
			d += int(b[j] - '0')
		} else if carry == 0 {
			copy(dst[:i+1], a[:i+1])
			return 0
		}
		carry = 0
		if d > 9 {
			d -= 10
			carry = 1
		}
		dst[i] = byte('0' + d)
	}
	return carry
}

// subDigits subtracts as addDigits adds.
func subDigits(dst, a, b []byte, i, j, borrow int) int {
	for i > 0 {
		i--
		d := int(a[i]-'0') - borrow
		if j > 0 {
			j--
			d -= int(b[j] - '0')
		} else if borrow == 0 {
			copy(dst[:i+1], a[:i+1])
			return 0
		}
		borrow = 0
		if d < 0 {
			d += 10
			borrow = 1
		}
		dst[i] = byte('0' + d)
	}
	return borrow
}

// Eight digits are one word, its lowest byte the least significant digit. A decimal digit and a bias of
// 0xF6 carry out of their byte when the digit passes nine, so decimal carries are the carries of an
// ordinary addition.
//
// Whether a word carries is known without the carry into it, unless its digits add up to 99999999: with a
// carry assumed, the sum is then zero, and the word passes on what comes in. So no word waits for the one
// below, which took a tenth off what bits.Add64 takes.
const (
	zeros8 = 0x3030303030303030
	bias8  = 0xF6F6F6F6F6F6F6F6 - 0x6060606060606060 // for the sum of two words of ASCII digits
	highs8 = 0x8080808080808080
)

// addWords adds as many whole words as both numbers have below i and j, and returns where it stopped and
// the carry.
func addWords(dst, a, b []byte, i, j int, carry uint64) (int, int, uint64) {
	n := min(i, j) / 8 * 8
	i, j = i-n, j-n
	dst, a, b = dst[i:i+n], a[i:i+n], b[j:j+n]
	missing := 1 - carry // of the carry that is assumed to come in
	for len(a) >= 8 && len(b) >= 8 && len(dst) >= 8 {
		s := binary.BigEndian.Uint64(a[len(a)-8:]) + binary.BigEndian.Uint64(b[len(b)-8:]) + bias8 + 1
		next := s >> 63 // the highest digit has not carried
		if s == 0 {
			next = missing
		}
		s -= missing
		missing = next
		binary.BigEndian.PutUint64(dst[len(dst)-8:], unbias(s))
		dst, a, b = dst[:len(dst)-8], a[:len(a)-8], b[:len(b)-8]
	}
	return i, j, 1 - missing
}

// subWords subtracts as addWords adds. Its words are not biased, so they borrow if their difference is
// negative, and pass a borrow on if it is zero.
func subWords(dst, a, b []byte, i, j int, borrow uint64) (int, int, uint64) {
	n := min(i, j) / 8 * 8
	i, j = i-n, j-n
	dst, a, b = dst[i:i+n], a[i:i+n], b[j:j+n]
	for len(a) >= 8 && len(b) >= 8 && len(dst) >= 8 {
		s := binary.BigEndian.Uint64(a[len(a)-8:]) - binary.BigEndian.Uint64(b[len(b)-8:])
		next := s >> 63
		if s == 0 {
			next = borrow
		}
		s -= borrow
		borrow = next
		binary.BigEndian.PutUint64(dst[len(dst)-8:], unbias(s))
		dst, a, b = dst[:len(dst)-8], a[:len(a)-8], b[:len(b)-8]
	}
	return i, j, borrow
}

// unbias makes ASCII of the bytes of a sum or difference. Those that have carried, or have not borrowed,
// are digits. The others are digits and 0xF6, and their highest bit says so.
func unbias(s uint64) uint64 { return s - (s&highs8)>>7*0xF6 + zeros8 }
