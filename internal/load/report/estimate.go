package report

import (
	"math"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/gonum/stat/distuv"
)

// estimate is a figure of one or several runs and its standard error: of its logarithm, but of shares,
// which may be 0.
//
// The error is what independent requests give, if the course of the run does not contradict that: order
// statistics of the histogram for quantiles, Wilson's interval for shares. Requests often are not
// independent: a garbage collection, a noisy neighbour or a full queue hits hundreds of them at once. So
// the measured time is also cut into batches (the method of batch means), and where their means vary by
// more than independence explains, their variance is used. Rates have no other: what a schedule sends does
// not vary like independent users. What differs between runs and is constant within one only several runs
// can show.
type estimate struct {
	value  float64
	error  float64
	df     float64 // degrees of freedom of error; infinite where it is not observed
	share  bool
	known  bool // else too little was measured to say how sure the value is
	ofRuns bool // the error is between runs
}

// Interval is a figure and where it is with 95 % confidence.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Known is false when there is too little to say how sure the value is; Low and High are the value then.
	Known bool `json:"known"`
}

func (e estimate) interval() Interval {
	if !e.known {
		return Interval{Value: e.value, Low: e.value, High: e.value}
	}
	half := quantileT(0.975, e.df) * e.error
	if e.share {
		return Interval{e.value, max(e.value-half, 0), min(e.value+half, 1), true}
	}
	return Interval{e.value, e.value * math.Exp(-half), e.value * math.Exp(half), true}
}

// difference is b against a: of their logarithms, or of shares.
func difference(a, b estimate) estimate {
	d := estimate{
		value: b.value - a.value, error: math.Hypot(a.error, b.error), share: a.share, known: a.known &&
			b.known,
		df: min(a.df, b.df), ofRuns: a.ofRuns && b.ofRuns,
	}
	if d.ofRuns {
		d.df = a.df + b.df
	}
	if !a.share {
		d.known = d.known && a.value > 0 && b.value > 0
		d.value = math.Log(b.value / a.value)
	}
	return d
}

// chance is how likely a difference as large is where there is none.
func (e estimate) chance() float64 {
	switch {
	case e.value == 0:
		return 1
	case e.error == 0:
		return 0
	}
	return 2 * (1 - distribution(e.df).CDF(math.Abs(e.value)/e.error))
}

func distribution(df float64) interface {
	CDF(float64) float64
	Quantile(float64) float64
} {
	if math.IsInf(df, 1) {
		return distuv.UnitNormal
	}
	return distuv.StudentsT{Sigma: 1, Nu: df}
}

func quantileT(p, df float64) float64 { return distribution(df).Quantile(p) }

// batchings are into how many batches a run is cut: batches must be longer than what correlates windows
// lasts, which nobody knows.
var batchings = []int{50, 20, 10}

// unlikely is how seldom batches of independent requests vary by so much that they are taken for dependent.
const unlikely = 0.02

// observed returns the standard error of the mean of windows' values by the variance of batches;
// independent is what it would be without correlation. It returns that where the batches do not contradict
// it; 0 is not known.
func observed(values []float64, independent float64) (standardError, df float64, known bool) {
	standardError, df, known = independent, math.Inf(1), independent > 0
	for _, k := range batchings {
		if len(values) < 2*k {
			continue
		}
		var mean, square float64
		means := make([]float64, k)
		for i := range means {
			part := values[i*len(values)/k : (i+1)*len(values)/k]
			for _, v := range part {
				means[i] += v / float64(len(part))
			}
			mean += means[i] / float64(k)
		}
		for _, m := range means {
			square += (m - mean) * (m - mean)
		}
		freedom := float64(k - 1)
		batched := math.Sqrt(square / freedom / float64(k))
		if independent > 0 {
			limit := distuv.ChiSquared{K: freedom}.Quantile(1-unlikely) / freedom
			if batched*batched < limit*independent*independent {
				continue
			}
		}
		if batched >= standardError {
			standardError, df = batched, freedom
		}
		known = true
	}
	return standardError, df, known
}

// series collects a figure of the measured windows of a trace.
func series(r *Result, of func(p *Point) *float64) []float64 {
	var out []float64
	for i := range r.Trace {
		if p := &r.Trace[i]; p.Measured {
			if v := of(p); v != nil {
				out = append(out, *v)
			}
		}
	}
	return out
}

// of makes an estimate of a figure, of the curves that vary like it.
func of(r *Result, value, independent float64, names ...string) estimate {
	e := estimate{value: value, error: independent, df: math.Inf(1), known: true}
	for _, name := range names {
		logs := series(r, func(p *Point) *float64 {
			if v := above0(curves[name](p)); v != nil {
				return pointer(math.Log(*v))
			}
			return nil
		})
		standardError, df, known := observed(logs, independent)
		e.known = e.known && known
		if standardError >= e.error {
			e.error, e.df = standardError, df
		}
	}
	return e
}

// fewest is how many requests must be beyond a quantile for it to have an interval, fewestWindows how many
// windows a run must have.
const (
	fewest        = 10
	fewestWindows = 10
)

// enough says whether there is enough of a run to judge figures of requests.
func enough(r *Result) bool {
	return len(series(r, func(p *Point) *float64 { return &p.At })) >= fewestWindows
}

func ofMean(r *Result, h *hdr.Histogram) estimate {
	n := float64(h.TotalCount())
	if n < fewest || h.Mean() <= 0 || !enough(r) {
		return estimate{value: r.Latency.Mean}
	}
	return of(r, r.Latency.Mean, h.StdDev()/h.Mean()/math.Sqrt(n), "mean")
}

func ofQuantile(r *Result, h *hdr.Histogram, q, value float64, names ...string) estimate {
	n := float64(h.TotalCount())
	if n*(1-q) < fewest || n*q < fewest || !enough(r) {
		return estimate{value: value}
	}
	half := 1.96 * math.Sqrt(n*q*(1-q))
	low := float64(h.ValueAtPercentile(100 * math.Floor(n*q-half) / n))
	high := float64(h.ValueAtPercentile(100 * math.Ceil(n*q+half+1) / n))
	return of(r, value, math.Log(high/max(low, 1))/2/1.96, names...)
}

func ofShare(r *Result, some uint64, curve string) estimate {
	n := float64(r.Requests)
	if n == 0 {
		return estimate{share: true}
	}
	p := float64(some) / n
	const z = 1.96
	wilson := math.Sqrt(p*(1-p)/n+z*z/(4*n*n)) / (1 + z*z/n)
	standardError, df, _ := observed(series(r, func(pt *Point) *float64 {
		if all := pt.Served + pt.Shed + pt.Errors; all > 0 {
			return pointer(*curves[curve](pt) / all)
		}
		return nil
	}), wilson)
	return estimate{value: p, error: standardError, df: df, share: true, known: true}
}

// pool makes one estimate of those of several runs. Their variance holds what differs between runs, so it
// is used as soon as there are two, if it is the larger.
func pool(runs []estimate) estimate {
	if len(runs) == 1 {
		return runs[0]
	}
	n := float64(len(runs))
	e := estimate{share: runs[0].share, known: true, df: math.Inf(1)}
	at := func(r estimate) float64 {
		if e.share {
			return r.value
		}
		return math.Log(max(r.value, 1e-9))
	}
	var mean, within, between float64
	for _, r := range runs {
		mean += at(r) / n
		within += r.error * r.error / n / n
		e.known = e.known && (r.known || r.value > 0)
	}
	for _, r := range runs {
		between += (at(r) - mean) * (at(r) - mean) / (n - 1) / n
	}
	e.value = mean
	if !e.share {
		e.value = math.Exp(mean)
	}
	if e.error = math.Sqrt(within); between >= within {
		e.error, e.df, e.ofRuns = math.Sqrt(between), n-1, true
	}
	return e
}
