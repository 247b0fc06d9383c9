package snapshot

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// maxLoadBits bounds a number that one unaligned 64-bit load always holds, at whatever bit of a byte it
// begins.
const maxLoadBits = 57

// loadSlack is how many readable bytes must follow packed bits, so that the load of the last item stays
// inside the slice.
const loadSlack = 8

// packing is how many whole bits each item of a snapshot takes, 1 to 64. Item i is at bits i*packing and up.
type packing uint

// newPacking returns the packing for items 0..maxItem.
func newPacking(maxItem uint64) packing { return packing(max(1, bits.Len64(maxItem))) }

// bytes is how many bytes n packed items take.
func (p packing) bytes(n int) int { return (n*int(p) + 7) >> 3 }

// span is where the packed items from..to-1 are, in bytes.
func (p packing) span(from, to int) (begin, end int) { return from * int(p) >> 3, p.bytes(to) }

// appendPacked appends the packed items to dst. No item may be of more bits.
func (p packing) appendPacked(dst []byte, items []uint64) []byte {
	dst = slices.Grow(dst, p.bytes(len(items))+8)
	width := uint(p)
	var acc uint64 // bits not yet written, from bit 0
	var held uint  // how many
	for _, item := range items {
		acc |= item << held
		held += width
		if held >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			held -= 64
			acc = item >> (width - held)
		}
	}
	for ; held > 0; held -= min(8, held) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// appendItems appends the items from..to-1 of a list to dst. packed is the list's bits and loadSlack readable
// bytes behind them; 0 <= from <= to <= the list's length.
func (p packing) appendItems(dst []uint64, packed []byte, from, to int) []uint64 {
	if plainUnpack {
		return p.appendPlain(dst, packed, from, to)
	}
	at := len(dst)
	dst = slices.Grow(dst, to-from)[:at+to-from]
	out := dst[at:]
	width, mask := uint(p), ^uint64(0)>>(64-p)
	bit := uint(from) * width
	if width <= maxLoadBits {
		for i := range out {
			out[i] = binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7) & mask
			bit += width
		}
		return dst
	}
	for i := range out { // the ninth byte may hold the highest bits
		low := binary.LittleEndian.Uint64(packed[bit>>3:]) >> (bit & 7)
		out[i] = (low | uint64(packed[bit>>3+8])<<(64-bit&7)) & mask
		bit += width
	}
	return dst
}

// appendPlain is the reference for appendItems: the definition of the format, bit by bit.
func (p packing) appendPlain(dst []uint64, packed []byte, from, to int) []uint64 {
	for i := from; i < to; i++ {
		var item uint64
		for b := range uint(p) {
			bit := uint(i)*uint(p) + b
			item |= uint64(packed[bit>>3]>>(bit&7)&1) << b
		}
		dst = append(dst, item)
	}
	return dst
}
