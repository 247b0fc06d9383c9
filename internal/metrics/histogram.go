package metrics

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets are log-linear, as in HdrHistogram: every power of two microseconds is cut into 16 equal parts,
// so a bucket is at most 1/16 of its value wide, from 1 us to 2^26 us (67 s). Below 1 us the parts are of
// the same
// 62.5 ns as those above it; one last bucket takes what is longer. A bucket includes its upper bound,
// as Prometheus asks. Those of a long histogram are 2^12 times as long, up to 76 hours.
const (
	parts    = 16
	octaves  = 26
	overflow = (octaves + 1) * parts
	buckets  = overflow + 1
	maxTicks = parts << octaves // a tick is 1/16 us
	long     = 12
)

// bucketOf returns the bucket of a duration. Negative ones, from a clock set back, count as zero.
func bucketOf(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	v := uint64(d-1) * 2 / 125 // nanoseconds to ticks; minus one makes upper bounds inclusive
	if v >= maxTicks {
		return overflow
	}
	if v < parts {
		return int(v)
	}
	e := bits.Len64(v) - 5
	return e*parts + int(v>>e)
}

// upperBound returns the longest duration in a bucket, which for the last one is where it begins.
func upperBound(bucket int) time.Duration {
	bucket = min(bucket+1, overflow)
	ticks := uint64(bucket)
	if bucket >= parts {
		e := bucket/parts - 1
		ticks = uint64(bucket-e*parts) << e
	}
	return time.Duration((ticks*125 + 1) / 2) // whole nanoseconds, rounded up
}

// Histogram is a distribution of latencies.
type Histogram struct {
	stripes []histogramStripe
	shift   uint8 // buckets are 2^shift times as long
}

type histogramStripe struct {
	nanoseconds atomic.Uint64 // sum of all durations
	counts      [buckets]atomic.Uint64
	_           [lineSize - (buckets+1)*8%lineSize]byte
}

// Observe counts n requests that took d each, on behalf of writer stripe. Any stripe is legal; it is
// taken modulo the registry's.
func (h *Histogram) Observe(stripe int, d time.Duration, n uint64) {
	s := &h.stripes[within(stripe, len(h.stripes))]
	s.counts[bucketOf((d-1)>>h.shift+1)].Add(n) // rounded up, as upper bounds are inclusive
	s.nanoseconds.Add(uint64(max(d, 0)) * n)
}

// Quantile returns the latency that a share q of all requests did not exceed, q from 0 to 1. It is right
// to 1/16 of the value, at most 67 s (76 h of a long histogram), and zero when nothing was counted.
func (h *Histogram) Quantile(q float64) time.Duration {
	d := h.Distribution()
	return d.Quantile(q)
}

// Distribution returns a copy of what was counted so far.
func (h *Histogram) Distribution() Distribution {
	var d Distribution
	h.AddTo(&d)
	return d
}

// AddTo adds what was counted so far to d, which other histograms of the same kind may have been added to.
func (h *Histogram) AddTo(d *Distribution) {
	d.shift = h.shift
	for i := range h.stripes {
		s := &h.stripes[i]
		sum := s.nanoseconds.Load()
		if sum == 0 && s.counts[0].Load() == 0 { // of 0 ns are none but those of a clock set back
			continue
		}
		d.nanoseconds += sum
		for b := range s.counts {
			d.counts[b] += s.counts[b].Load()
		}
	}
}

// Distribution is what a histogram held at one moment. The difference of two is what happened between them.
type Distribution struct {
	nanoseconds uint64
	counts      [buckets]uint64
	shift       uint8 // the histogram's
}

// Sub returns what was counted after earlier, an older distribution of the same histogram.
func (d *Distribution) Sub(earlier *Distribution) Distribution {
	diff := Distribution{nanoseconds: d.nanoseconds - earlier.nanoseconds, shift: d.shift}
	for b := range d.counts {
		diff.counts[b] = d.counts[b] - earlier.counts[b]
	}
	return diff
}

// Add adds another distribution of the same kind.
func (d *Distribution) Add(other *Distribution) {
	d.shift = other.shift
	d.nanoseconds += other.nanoseconds
	for b, n := range other.counts {
		d.counts[b] += n
	}
}

// Count returns how many requests were counted.
func (d *Distribution) Count() uint64 {
	var n uint64
	for _, c := range d.counts {
		n += c
	}
	return n
}

// Seconds returns the sum of all latencies.
func (d *Distribution) Seconds() float64 { return float64(d.nanoseconds) / 1e9 }

// Quantile is Histogram.Quantile for this distribution.
func (d *Distribution) Quantile(q float64) time.Duration {
	total := d.Count()
	if total == 0 {
		return 0
	}
	q = min(max(q, 0), 1)
	rank := min(max(uint64(math.Ceil(q*float64(total))), 1), total)
	var below uint64
	for b, c := range d.counts {
		if below+c < rank {
			below += c
			continue
		}
		if b == overflow {
			break
		}
		low := time.Duration(0)
		if b > 0 {
			low = d.upperBound(b - 1)
		}
		// Within a bucket the requests are taken as evenly spread.
		share := float64(rank-below) / float64(c)
		return low + time.Duration(share*float64(d.upperBound(b)-low))
	}
	return d.upperBound(overflow)
}

func (d *Distribution) upperBound(bucket int) time.Duration { return upperBound(bucket) << d.shift }

// coarse returns the count at or below every power of two microseconds, keyed in seconds: what Prometheus is
// given, 27 buckets where all would be 432.
func (d *Distribution) coarse() map[float64]uint64 {
	cumulative := make(map[float64]uint64, octaves+1)
	var sum uint64
	for b := range overflow {
		sum += d.counts[b]
		if b%parts == parts-1 {
			cumulative[d.upperBound(b).Seconds()] = sum
		}
	}
	return cumulative
}
