package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestBucketsCoverEveryDurationOnce(t *testing.T) {
	for b := range overflow {
		up := upperBound(b)
		if got := bucketOf(up); got != b {
			t.Fatalf("bucketOf(%v), the upper bound of %d, is %d", up, b, got)
		}
		if got := bucketOf(up + 1); got != b+1 {
			t.Fatalf("bucketOf(%v), just above %d, is %d", up+1, b, got)
		}
		if width := up - upperBound(max(b-1, 0)); b >= parts && float64(width) > float64(up)/parts+1 {
			t.Fatalf("bucket %d up to %v is %v wide, more than 1/%d", b, up, width, parts)
		}
	}
	if got := bucketOf(-time.Second); got != 0 {
		t.Errorf("a negative duration is in bucket %d, want 0", got)
	}
	if got := bucketOf(math.MaxInt64); got != overflow {
		t.Errorf("the longest duration is in bucket %d, want %d", got, overflow)
	}
	if top := upperBound(overflow - 1); top < time.Minute {
		t.Errorf("buckets end at %v, want a minute or more", top)
	}
}

func TestQuantileIsRightToASixteenth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := New(2).Histogram("test_latency_seconds", "Latency.")
	all := make([]time.Duration, 20_000)
	for i := range all {
		all[i] = time.Duration(math.Exp(rng.Float64()*math.Log(60e9/1e3)) * 1e3) // 1 us to 60 s, log-uniform
		h.Observe(i, all[i], 1)
	}
	slices.Sort(all)
	for _, q := range []float64{-1, 0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1, 2} {
		rank := min(max(int(math.Ceil(q*float64(len(all)))), 1), len(all))
		want := all[rank-1]
		if got := h.Quantile(q); math.Abs(float64(got-want)) > float64(want)/parts {
			t.Errorf("Quantile(%v) = %v, want %v to 1/%d", q, got, want, parts)
		}
	}
}

func TestQuantileAtTheEdges(t *testing.T) {
	h := New(1).Histogram("test_latency_seconds", "Latency.")
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("Quantile of nothing = %v, want 0", got)
	}
	h.Observe(0, time.Hour, 1)
	if got, want := h.Quantile(0.5), upperBound(overflow); got != want {
		t.Errorf("Quantile of an hour = %v, want the largest bound, %v", got, want)
	}
}

func TestALongHistogramTellsDaysApart(t *testing.T) {
	h := New(1).LongHistogram("test_lag_seconds", "Lag.")
	bound := upperBound(overflow/2) << long
	for _, d := range []time.Duration{bound, bound + 1} { // which is inclusive
		h.Observe(0, d, 1)
	}
	if d := h.Distribution(); d.counts[overflow/2] != 1 || d.counts[overflow/2+1] != 1 {
		t.Errorf("%v and a nanosecond more are not in the buckets that it divides", bound)
	}
	before := h.Distribution()
	h.Observe(0, 48*time.Hour, 4)
	h.Observe(0, -time.Second, 1)
	d := h.Distribution()
	d = d.Sub(&before)
	if got := d.Quantile(0.9); math.Abs(float64(got-48*time.Hour)) > float64(48*time.Hour)/parts ||
		d.counts[0] != 1 {
		t.Errorf("a quantile of 48 h is %v", got)
	}
	below := uint64(0)
	for le, n := range d.coarse() {
		if le > 600 && le < 48*3600 {
			below = max(below, n)
		}
	}
	if below != 1 {
		t.Errorf("Prometheus is told of %d at most below 48 h, want 1", below)
	}
}

func TestObserveCountsForManyRequests(t *testing.T) {
	h := New(4).Histogram("test_latency_seconds", "Latency.")
	var wg sync.WaitGroup
	for i := range 8 { // two writers a stripe
		wg.Go(func() {
			for range 1000 {
				h.Observe(i, 2*time.Microsecond, 16)
			}
		})
	}
	wg.Wait()
	d := h.Distribution()
	if got := d.Count(); got != 8*1000*16 {
		t.Errorf("Count() = %d, want %d", got, 8*1000*16)
	}
	if got, want := d.Seconds(), 8*1000*16*2e-6; math.Abs(got-want) > 1e-9 {
		t.Errorf("Seconds() = %v, want %v", got, want)
	}
}

func TestSubIsWhatHappenedBetween(t *testing.T) {
	h := New(1).Histogram("test_latency_seconds", "Latency.")
	h.Observe(0, time.Millisecond, 1000)
	before := h.Distribution()
	h.Observe(0, time.Second, 10)
	after := h.Distribution()
	between := after.Sub(&before)
	if between.Count() != 10 || between.Seconds() != 10 {
		t.Errorf("between: %d requests, %v s; want 10 and 10", between.Count(), between.Seconds())
	}
	if q := between.Quantile(0.01); q < 900*time.Millisecond {
		t.Errorf("Quantile(0.01) = %v, which was before", q)
	}
}
