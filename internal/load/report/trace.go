package report

import (
	"math"
	"slices"

	"weir/internal/load/control"
	"weir/internal/load/measure"
)

func newPoint(w *measure.Window, d control.Decision, c *control.Ceiling) Point {
	p := Point{
		At: w.End.Seconds(), Seconds: (w.End - w.Start).Seconds(), Phase: d.Phase, Measured: d.Measured,
		Connections: w.Connections, InFlight: w.InFlight, Busy: w.Busy,
		TargetCPU: known(w.Target.CPU), TargetMemory: known(w.Target.Memory),
	}
	if p.Seconds > 0 {
		p.Intended = float64(w.Intended) / p.Seconds
		p.Achieved = float64(w.Sent) / p.Seconds
		p.Served = float64(w.Served) / p.Seconds
		p.Shed = float64(w.Shed) / p.Seconds
		p.Errors = float64(w.Errors()) / p.Seconds
	}
	if w.Latency.TotalCount() > 0 {
		q := w.Latency.ValueAtPercentilesSlice([]float64{50, 90, 99, 100})
		p.Mean = pointer(w.Latency.Mean() / 1e3)
		p.P50, p.P90, p.P99, p.Max = pointer(micros(q[0])), pointer(micros(q[1])), pointer(micros(q[2])),
			pointer(micros(q[3]))
	}
	if w.Lag.TotalCount() > 0 {
		p.LagP99 = pointer(micros(w.Lag.ValueAtPercentile(99)))
	}
	if c != nil {
		p.Ceiling = known(c.Rate)
	}
	return p
}

// curves are the figures of a point that are drawn and compared, by their names in JSON; nil is not known.
// Those of latency are above 0: a logarithmic axis has no place for another.
var curves = map[string]func(p *Point) *float64{
	"intended":      func(p *Point) *float64 { return &p.Intended },
	"achieved":      func(p *Point) *float64 { return &p.Achieved },
	"served":        func(p *Point) *float64 { return &p.Served },
	"shed":          func(p *Point) *float64 { return &p.Shed },
	"errors":        func(p *Point) *float64 { return &p.Errors },
	"mean":          func(p *Point) *float64 { return above0(p.Mean) },
	"p50":           func(p *Point) *float64 { return above0(p.P50) },
	"p90":           func(p *Point) *float64 { return above0(p.P90) },
	"p99":           func(p *Point) *float64 { return above0(p.P99) },
	"max":           func(p *Point) *float64 { return above0(p.Max) },
	"busy":          func(p *Point) *float64 { return &p.Busy },
	"connections":   func(p *Point) *float64 { return pointer(float64(p.Connections)) },
	"in_flight":     func(p *Point) *float64 { return pointer(float64(p.InFlight)) },
	"target_cpu":    func(p *Point) *float64 { return p.TargetCPU },
	"target_memory": func(p *Point) *float64 { return p.TargetMemory },
	"ceiling":       func(p *Point) *float64 { return p.Ceiling },
}

func above0(v *float64) *float64 {
	if v == nil || !(*v > 0) {
		return nil
	}
	return v
}

// unmeasured returns the stretches of time, from and to in seconds, that a trace does not count.
func unmeasured(points []Point) [][2]float64 {
	out := [][2]float64{}
	for i := range points {
		p := &points[i]
		from, n := p.At-p.Seconds, len(out)
		switch {
		case p.Measured:
		case n > 0 && math.Abs(out[n-1][1]-from) < 1e-3:
			out[n-1][1] = p.At
		default:
			out = append(out, [2]float64{from, p.At})
		}
	}
	return out
}

func pointer(v float64) *float64 { return &v }

// known returns nil for NaN and infinity, which JSON cannot say.
func known(v float64) *float64 {
	if v-v != 0 {
		return nil
	}
	return &v
}

// merge returns the point of two neighbours' whole time.
func merge(a, b Point) Point {
	sum := a.Seconds + b.Seconds
	mean := func(x, y float64) float64 {
		if sum <= 0 {
			return max(x, y)
		}
		return (x*a.Seconds + y*b.Seconds) / sum
	}
	larger := func(x, y *float64) *float64 {
		if x == nil || y != nil && *y > *x {
			return y
		}
		return x
	}
	// Quantiles cannot be merged without their histograms. The mean, by requests, keeps plots of merged and
	// of single windows comparable, where the larger one would rise with every merge; spikes stay to be
	// seen in Max.
	na, nb := (a.Served+a.Errors)*a.Seconds, (b.Served+b.Errors)*b.Seconds
	quantile := func(x, y *float64) *float64 {
		switch {
		case x == nil:
			return y
		case y == nil:
			return x
		case na+nb <= 0:
			return larger(x, y)
		}
		return pointer((*x*na + *y*nb) / (na + nb))
	}
	m := b // the later one's time, phase and ceiling
	m.Seconds = sum
	m.Intended, m.Achieved = mean(a.Intended, b.Intended), mean(a.Achieved, b.Achieved)
	m.Served, m.Shed, m.Errors = mean(a.Served, b.Served), mean(a.Shed, b.Shed), mean(a.Errors, b.Errors)
	m.Mean = quantile(a.Mean, b.Mean)
	m.P50, m.P90, m.P99 = quantile(a.P50, b.P50), quantile(a.P90, b.P90), quantile(a.P99, b.P99)
	m.Max, m.LagP99 = larger(a.Max, b.Max), larger(a.LagP99, b.LagP99)
	m.Connections, m.InFlight = max(a.Connections, b.Connections), max(a.InFlight, b.InFlight)
	m.Busy = max(a.Busy, b.Busy)
	m.TargetMemory = larger(a.TargetMemory, b.TargetMemory)
	switch {
	case a.TargetCPU != nil && b.TargetCPU != nil:
		m.TargetCPU = pointer(mean(*a.TargetCPU, *b.TargetCPU))
	case b.TargetCPU == nil:
		m.TargetCPU = a.TargetCPU
	}
	return m
}

// trace keeps a bounded number of points, whatever the length of a run. When it is full, neighbours are
// merged, and from then on as many windows as that make one point.
type trace struct {
	limit  int
	points []Point
	stride int // windows a point, from now on
	open   int // how many windows the last point already has; 0 or stride when it is whole
}

func newTrace(limit int) trace {
	return trace{limit: max(limit, 2), stride: 1}
}

func (t *trace) add(p Point) {
	if last := len(t.points) - 1; t.open > 0 && t.open < t.stride && alike(t.points[last], p) {
		t.points[last] = merge(t.points[last], p)
		t.open++
		return
	}
	if len(t.points) == t.limit {
		t.halve()
	}
	t.points = append(t.points, p)
	t.open = 1
}

// alike says whether two points may be one: what is measured and what is not stay apart, and phases do.
func alike(a, b Point) bool { return a.Measured == b.Measured && a.Phase == b.Phase }

// halve merges neighbours, those that are alike, and if that is not enough, because phases change at every
// turn, any.
func (t *trace) halve() {
	t.stride *= 2
	t.pairs(alike)
	if len(t.points) > t.limit*3/4 {
		t.pairs(func(a, b Point) bool { return a.Measured == b.Measured })
	}
	if len(t.points) > t.limit*3/4 {
		t.pairs(func(Point, Point) bool { return true })
	}
}

// pairs merges every point with the next one, if may agrees.
func (t *trace) pairs(may func(a, b Point) bool) {
	out := t.points[:0]
	for i := 0; i < len(t.points); i++ {
		p := t.points[i]
		if i+1 < len(t.points) && may(p, t.points[i+1]) {
			i++
			p = merge(p, t.points[i])
		}
		out = append(out, p)
	}
	clear(t.points[len(out):])
	t.points = out
}

func (t *trace) all() []Point { return slices.Clone(t.points) }
