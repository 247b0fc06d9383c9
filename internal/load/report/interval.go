package report

import (
	"math"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Interval is a figure and where it is with 95 % confidence.
//
// Two things are known of a figure's spread. One is what independent requests would give: order statistics of the histogram
// for quantiles, Wilson's interval for shares, Poisson's for rates. But requests are not independent: a
// garbage collection, a noisy neighbour or a full queue hits hundreds of them at once, and with a million requests such an interval is
// so narrow that any two runs differ. The other is how the figure varied in the course of the run: the measured time is cut into
// batches, and Student's interval of their means holds whatever the correlation within a batch (the method of
// batch means). The interval is the hull of both. It knows nothing of what differs between runs and is constant within one.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Known is false when there is too little to say how sure the value is; Low and High are the value then.
	Known bool `json:"known"`
}

const z95 = 1.96

// batchings are into how many batches a run is cut, and Student's factor for the 95 % interval of their mean. Batches must be longer than
// what correlates the windows lasts, which nobody knows: all of them are tried, and the widest interval taken.
var batchings = []struct {
	k int
	t float64
}{{20, 2.093}, {10, 2.262}, {5, 2.776}}

// halfWidth returns half of the interval of the mean of values; false when they are too few to tell.
func halfWidth(values []float64) (half float64, known bool) {
	for _, b := range batchings {
		if len(values) < 2*b.k {
			continue
		}
		var mean, square float64
		means := make([]float64, b.k)
		for i := range means {
			part := values[i*len(values)/b.k : (i+1)*len(values)/b.k]
			for _, v := range part {
				means[i] += v / float64(len(part))
			}
			mean += means[i] / float64(b.k)
		}
		for _, m := range means {
			square += (m - mean) * (m - mean)
		}
		k := float64(b.k)
		half, known = max(half, b.t*math.Sqrt(square/(k-1)/k)), true
	}
	return half, known
}

// measuredOf collects a column of the measured part of a trace.
func measuredOf(r *Result, column func(p *Point) *float64) []float64 {
	var out []float64
	for i := range r.Trace {
		if p := &r.Trace[i]; p.Measured {
			if v := column(p); v != nil {
				out = append(out, *v)
			}
		}
	}
	return out
}

// rateInterval is that of a rate whose windows are in the trace.
func rateInterval(r *Result, rate float64, column func(p *Point) *float64) Interval {
	half, known := halfWidth(measuredOf(r, column))
	if r.Seconds > 0 && rate > 0 {
		half = max(half, z95*math.Sqrt(rate*r.Seconds)/r.Seconds)
	}
	if !known {
		return Interval{Value: rate, Low: rate, High: rate}
	}
	return Interval{rate, max(rate-half, 0), rate + half, true}
}

// shareInterval is that of the share that some requests were of all.
func shareInterval(r *Result, some uint64, column func(p *Point) float64) Interval {
	n := float64(r.Requests)
	if n == 0 {
		return Interval{}
	}
	p := float64(some) / n
	middle := (p + z95*z95/(2*n)) / (1 + z95*z95/n)
	half := z95 * math.Sqrt(p*(1-p)/n+z95*z95/(4*n*n)) / (1 + z95*z95/n)
	iv := Interval{p, max(middle-half, 0), min(middle+half, 1), true}
	if more, known := halfWidth(measuredOf(r, func(pt *Point) *float64 {
		if all := pt.Served + pt.Shed + pt.Errors; all > 0 {
			return pointer(column(pt) / all)
		}
		return nil
	})); known {
		iv.Low, iv.High = max(min(iv.Low, p-more), 0), min(max(iv.High, p+more), 1)
	}
	if some == 0 {
		iv.Low = 0
	}
	return iv
}

// fewest is how many requests must be beyond a quantile for it to have an interval.
const fewest = 10

// quantileInterval is that of a latency quantile, in microseconds. The columns are quantiles in the trace that vary like it.
func quantileInterval(r *Result, h *hdr.Histogram, q, value float64, columns ...func(p *Point) *float64) Interval {
	n := float64(h.TotalCount())
	if n*(1-q) < fewest || n*q < fewest {
		return Interval{Value: value, Low: value, High: value}
	}
	half := z95 * math.Sqrt(n*q*(1-q))
	low := micros(h.ValueAtPercentile(100 * math.Floor(n*q-half) / n))
	high := micros(h.ValueAtPercentile(100 * math.Ceil(n*q+half+1) / n))
	return widen(r, Interval{value, min(low, value), max(high, value), true}, columns)
}

// meanInterval is that of the mean latency.
func meanInterval(r *Result, h *hdr.Histogram, value float64, columns ...func(p *Point) *float64) Interval {
	n := float64(h.TotalCount())
	if n < fewest {
		return Interval{Value: value, Low: value, High: value}
	}
	half := z95 * h.StdDev() / 1e3 / math.Sqrt(n)
	return widen(r, Interval{value, max(value-half, 0), value + half, true}, columns)
}

// widen makes an interval at least as wide, relatively, as that of the logarithms of each column.
func widen(r *Result, iv Interval, columns []func(p *Point) *float64) Interval {
	for _, column := range columns {
		half, known := halfWidth(measuredOf(r, func(p *Point) *float64 {
			if v := column(p); v != nil && *v > 0 {
				return pointer(math.Log(*v))
			}
			return nil
		}))
		if !known {
			iv.Low, iv.High, iv.Known = iv.Value, iv.Value, false
			return iv
		}
		iv.Low, iv.High = min(iv.Low, iv.Value*math.Exp(-half)), max(iv.High, iv.Value*math.Exp(half))
	}
	return iv
}
