package ingest

import "math/bits"

// A record is what buffers sort: by key, and stably, so that what has one key stays in the order of the
// input.
type record struct{ key, value, order uint64 }

const (
	radixBits = 11 // 2048 counters and as many write positions stay in the first-level cache
	radixMask = 1<<radixBits - 1
	maxDigits = (64 + radixBits - 1) / radixBits
)

// radixSort sorts data by key and returns it in either data or scratch, which has the same length.
// It goes from the least significant digit on; digits in which all keys agree cost nothing but
// their counting.
func radixSort(data, scratch []record) []record {
	or := uint64(0)
	sorted := true
	last := uint64(0)
	for i := range data {
		k := data[i].key
		or |= k
		sorted = sorted && k >= last
		last = k
	}
	if sorted {
		return data
	}
	digits := (bits.Len64(or) + radixBits - 1) / radixBits
	var counts [maxDigits][radixMask + 1]uint32
	for i := range data {
		k := data[i].key
		for d := range digits {
			counts[d][k&radixMask]++
			k >>= radixBits
		}
	}
	for d := range digits {
		shift := d * radixBits
		count := &counts[d]
		if int(count[data[0].key>>shift&radixMask]) == len(data) {
			continue
		}
		sum := uint32(0)
		for i, n := range count {
			count[i] = sum
			sum += n
		}
		for i := range data {
			at := &count[data[i].key>>shift&radixMask]
			scratch[*at] = data[i]
			*at++
		}
		data, scratch = scratch, data
	}
	return data
}
