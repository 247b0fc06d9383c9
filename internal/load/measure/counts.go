package measure

import (
	"iter"
	"sync"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Counts yields the buckets of h that have any values, one of NewHistogram, by their index, and how many
// they have.
func Counts(h *hdr.Histogram) iter.Seq2[int, int64] {
	return func(yield func(int, int64) bool) {
		left := h.TotalCount()
		if left == 0 {
			return
		}
		for i, n := range h.Export().Counts {
			if n == 0 {
				continue
			}
			if left -= n; !yield(i, n) || left == 0 {
				return
			}
		}
	}
}

// Buckets returns a value in each bucket of the histograms, by its index. It must not be changed.
var Buckets = sync.OnceValue(func() []int64 {
	h := NewHistogram()
	Record(h, Longest) // a distribution goes up to the largest value there is
	var values []int64
	for _, b := range h.Distribution() {
		values = append(values, max(b.From, 0))
	}
	return values
})

// Recount records n values of a bucket in h, which is one of NewHistogram.
func Recount(h *hdr.Histogram, bucket int, n int64) {
	if err := h.RecordValues(Buckets()[bucket], n); err != nil {
		panic("BUG: values that a histogram had cannot be added to another: " + err.Error())
	}
}
