package report

import (
	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// NewLatency reads a histogram of nanoseconds. All is zero when nothing was counted.
func NewLatency(h *hdr.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	q := h.ValueAtPercentilesSlice([]float64{50, 90, 95, 99, 99.9, 100})
	return Latency{
		Mean: h.Mean() / 1e3,
		P50:  micros(q[0]), P90: micros(q[1]), P95: micros(q[2]), P99: micros(q[3]), P999: micros(q[4]),
		Max: micros(q[5]),
	}
}

func micros(nanos int64) float64 { return float64(nanos) / 1e3 }
