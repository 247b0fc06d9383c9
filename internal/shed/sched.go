package shed

import (
	"errors"
	"math"
	"runtime/metrics"
)

// fewest is how many waits a 99th percentile is made of: the worst of ten says nothing.
const fewest = 100

// schedulingLatency returns a function that reads how long goroutines that could run had to wait for it,
// the 99th percentile since its last call, in seconds.
func schedulingLatency() func() (float64, error) {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	var last []uint64
	return func() (float64, error) {
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
			return 0, errors.New("the Go runtime does not say how long goroutines wait")
		}
		h := sample[0].Value.Float64Histogram()
		if len(last) != len(h.Counts) {
			last = append(last[:0], h.Counts...)
			return 0, nil // nothing to compare with
		}
		value := quantileOfNew(last, h.Counts, h.Buckets, 0.99)
		copy(last, h.Counts)
		return value, nil
	}
}

// quantileOfNew returns the quantile q of what came to a histogram since it was last, the upper end of its
// bucket; 0 when that is less than fewest. Buckets are the bounds of Counts, one more than those.
func quantileOfNew(last, counts []uint64, buckets []float64, q float64) float64 {
	var total uint64
	for i := range counts {
		total += counts[i] - last[i]
	}
	if total < fewest {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(total)))
	var below uint64
	for i := range counts {
		if below += counts[i] - last[i]; below >= rank {
			if math.IsInf(buckets[i+1], 0) {
				return max(buckets[i], 0)
			}
			return buckets[i+1]
		}
	}
	return 0
}
