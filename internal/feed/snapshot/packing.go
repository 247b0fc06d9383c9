package snapshot

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// maxGroupBits bounds a group of several items: 57 bits starting at any bit of a byte are
// always within one unaligned 64-bit load.
const maxGroupBits = 57

// loadSlack is how many readable bytes must follow packed bits, so that the load of the last
// group stays inside the slice.
const loadSlack = 8

// packing is how the items of one snapshot become bits. Items below base are digits of a number
// in that base: a group of `per` items, the first one the lowest digit, takes `width` bits.
// Where base is no power of two that wastes less than rounding every item up to whole bits:
// ids up to 10,000,000 cost 23.5 bits in pairs, 24 alone. The last group of a list may hold fewer
// items and then takes only the bits those need.
//
// A packing is immutable; its methods may be called by many goroutines.
type packing struct {
	base  uint64 // items are 0..base-1; 0 stands for 2^64
	per   int    // items of a full group, 1..57
	width uint   // bits of a full group
	mask  uint64 // width ones

	// Division by base, exact for dividends below 2^57 without a correction step:
	// with shift = ceil(log2 base) - 1 and recip = ceil(2^(64+shift) / base), the error term
	// g*base/2^(64+shift) is below 1 (Granlund and Montgomery, "Division by Invariant Integers
	// using Multiplication", PLDI 1994). It makes a pair cost about 2 ns where DIV took 6.
	recip uint64
	shift uint

	tail [maxGroupBits]uint // bits of a last group of 0..per-1 items
}

// newPacking chooses the packing for items 0..maxItem that takes the fewest bits an item, and of
// equals the one with the smallest groups.
func newPacking(maxItem uint64) packing {
	p := packing{base: maxItem + 1, per: 1, width: uint(max(1, bits.Len64(maxItem)))}
	if maxItem == 0 {
		p.base = 2
	}
	if p.width <= maxGroupBits {
		power := p.base // base^k
		for k := 2; k <= maxGroupBits; k++ {
			hi, lo := bits.Mul64(power, p.base)
			if hi != 0 || bits.Len64(lo-1) > maxGroupBits {
				break
			}
			power = lo
			w := uint(bits.Len64(lo - 1))
			if w*uint(p.per) < p.width*uint(k) {
				p.per, p.width = k, w
			}
		}
	}
	p.mask = ^uint64(0) >> (64 - p.width)
	power := uint64(1)
	for r := 1; r < p.per; r++ {
		power *= p.base
		p.tail[r] = uint(bits.Len64(power - 1))
	}
	if p.per > 1 {
		p.shift = uint(bits.Len64(p.base-1)) - 1
		quo, rem := bits.Div64(1<<p.shift, 0, p.base)
		if rem != 0 {
			quo++
		}
		p.recip = quo
	}
	return p
}

// bytes is how many bytes n packed items take.
func (p *packing) bytes(n int) int {
	switch p.per { // reading a list asks for this, and a division would be a quarter of it
	case 1:
		return (n*int(p.width) + 7) >> 3
	case 2:
		return (n>>1*int(p.width) + n&1*int(p.tail[1]) + 7) >> 3
	default:
		return (n/p.per*int(p.width) + int(p.tail[n%p.per]) + 7) >> 3
	}
}

// span is where the packed items from..to-1 are, in bytes; what bytes says is the bound of a last group that is shorter.
func (p *packing) span(from, to int) (begin, end int) {
	first, last := from/p.per, (to+p.per-1)/p.per
	return first * int(p.width) >> 3, (last*int(p.width) + 7) >> 3
}

// appendPacked appends the packed items to dst. Every item must be below the base.
func (p *packing) appendPacked(dst []byte, items []uint64) []byte {
	dst = slices.Grow(dst, p.bytes(len(items))+8)
	var acc uint64 // bits not yet written, from bit 0
	var held uint  // how many
	full := len(items) / p.per * p.per
	for i := 0; i < full; i += p.per {
		group := items[i]
		if p.per == 2 {
			group += items[i+1] * p.base
		} else if p.per > 2 {
			group = p.join(items[i : i+p.per])
		}
		acc |= group << held
		held += p.width
		if held >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			held -= 64
			acc = group >> (p.width - held)
		}
	}
	if full < len(items) {
		group, width := p.join(items[full:]), p.tail[len(items)-full]
		acc |= group << held
		held += width
		if held >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			held -= 64
			acc = group >> (width - held)
		}
	}
	for ; held > 0; held -= min(8, held) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// join makes one number of the items of a group.
func (p *packing) join(items []uint64) uint64 {
	var group uint64
	for i := len(items) - 1; i >= 0; i-- {
		group = group*p.base + items[i]
	}
	return group
}

// appendItems appends the items from..to-1 of a list of n items to dst. packed is the list's
// bits and loadSlack readable bytes behind them; 0 <= from <= to <= n. Foreign bits give items
// beyond the base, never a read out of range.
func (p *packing) appendItems(dst []uint64, packed []byte, n, from, to int) []uint64 {
	if from >= to {
		return dst
	}
	switch {
	case plainUnpack:
		return p.appendPlain(dst, packed, n, from, to)
	case p.per == 2:
		return p.appendPairs(dst, packed, n, from, to)
	case p.per == 1 && p.width <= maxGroupBits:
		return p.appendSingles(dst, packed, from, to)
	default:
		return p.appendGroups(dst, packed, n, from, to)
	}
}

// appendSingles is appendItems for one item a group and one load an item.
func (p *packing) appendSingles(dst []uint64, packed []byte, from, to int) []uint64 {
	at := len(dst)
	dst = slices.Grow(dst, to-from)[:at+to-from]
	out := dst[at:]
	bit := uint(from) * p.width
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7) & p.mask
		bit += p.width
	}
	return dst
}

// appendPairs is appendItems for two items a group.
func (p *packing) appendPairs(dst []uint64, packed []byte, n, from, to int) []uint64 {
	at := len(dst)
	dst = slices.Grow(dst, to-from)[:at+to-from]
	out := dst[at:]
	bit := uint(from) >> 1 * p.width
	if from&1 == 1 {
		group := binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7) & p.mask
		hi, _ := bits.Mul64(group, p.recip)
		out[0] = hi >> (p.shift & 63)
		out = out[1:]
		bit += p.width
	}
	for len(out) >= 2 {
		group := binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7) & p.mask
		hi, _ := bits.Mul64(group, p.recip)
		second := hi >> (p.shift & 63)
		out[0], out[1] = group-second*p.base, second
		out = out[2:]
		bit += p.width
	}
	if len(out) == 1 {
		group := binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7)
		if to == n { // n is odd: the last group holds one item
			out[0] = group & (1<<p.tail[1] - 1)
		} else {
			group &= p.mask
			hi, _ := bits.Mul64(group, p.recip)
			out[0] = group - hi>>(p.shift&63)*p.base
		}
	}
	return dst
}

// appendGroups is appendItems for groups of any size and width.
func (p *packing) appendGroups(dst []uint64, packed []byte, n, from, to int) []uint64 {
	dst = slices.Grow(dst, to-from)
	for i := from; i < to; {
		g := i / p.per
		first := g * p.per
		group := p.group(packed, n, g)
		last := min(to, first+p.per)
		for k := first; k < last; k++ {
			digit := group
			if p.per > 1 && k+1 < min(n, first+p.per) {
				hi, _ := bits.Mul64(group, p.recip)
				rest := hi >> (p.shift & 63)
				digit = group - rest*p.base
				group = rest
			}
			if k >= i {
				dst = append(dst, digit)
			}
		}
		i = last
	}
	return dst
}

// group reads the g-th group of a list of n items.
func (p *packing) group(packed []byte, n, g int) uint64 {
	mask := p.mask
	if p.per > 1 && g == n/p.per {
		mask = 1<<p.tail[n%p.per] - 1
	}
	bit := uint(g) * p.width
	group := binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7)
	if p.width > maxGroupBits { // the ninth byte may hold the highest bits
		group |= uint64(packed[bit>>3+8]) << (64 - bit&7)
	}
	return group & mask
}

// appendPlain is the reference appendItems: the definition of the format, bit by bit, with the
// divisions spelled out.
func (p *packing) appendPlain(dst []uint64, packed []byte, n, from, to int) []uint64 {
	for i := from; i < to; i++ {
		g := i / p.per
		held, width := p.per, p.width
		if p.per > 1 && g == n/p.per {
			held = n % p.per
			width = p.tail[held]
		}
		var group uint64
		for b := range width {
			bit := uint(g)*p.width + b
			group |= uint64(packed[bit>>3]>>(bit&7)&1) << b
		}
		for range i % p.per {
			group /= p.base
		}
		if i%p.per < held-1 {
			group %= p.base
		}
		dst = append(dst, group)
	}
	return dst
}
