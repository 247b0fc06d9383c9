package control

import (
	"math"
	"strconv"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"weir/internal/load/measure"
)

// Condition is a sentence about what was measured: "p95 > 50ms for 5s".
//
// Its figures are: p50, p99.9 and any other quantile, mean and max, of latencies; errors, shed and success,
// shares of the requests that are over; achieved, the share of the intended requests that were sent; rate,
// answers below 400 a second; cpu and memory of the target, as far as it tells.
//
// Where requests were meant and not one was answered, latencies are as long as they can be, nothing
// succeeded and everything failed: silence is bad, not unknown.
type Condition struct {
	// For is how long it has to hold without a break; 0 is a moment.
	For time.Duration

	figure   figure
	quantile float64 // 0 to 100, of figureQuantile
	above    bool    // holds above the limit, else below
	equal    bool    // and at it
	limit    float64 // in unit
	unit     unit
}

type figure int

const (
	figureQuantile figure = iota
	figureMean
	figureErrors
	figureShed
	figureSuccess
	figureAchieved
	figureRate
	figureCPU
	figureMemory
)

// unit is what a limit is written in: a value of 1 is scale of the figure's own unit, which is nanoseconds,
// shares, requests a second, processors or bytes.
type unit struct {
	name  string
	scale float64
}

// Signal names the figure: "p99", "errors".
func (c *Condition) Signal() string {
	if c.figure != figureQuantile {
		return figureNames[c.figure]
	}
	if c.quantile == 100 {
		return "max"
	}
	if c.quantile < 90 {
		return "p" + number(c.quantile)
	}
	return "p" + strings.Replace(number(c.quantile), ".", "", 1)
}

var figureNames = map[figure]string{
	figureMean: "mean", figureErrors: "errors", figureShed: "shed", figureSuccess: "success",
	figureAchieved: "achieved",
	figureRate:     "rate", figureCPU: "cpu", figureMemory: "memory",
}

// String writes the condition so that ParseConditions reads the same from it.
func (c *Condition) String() string {
	op := "<"
	if c.above {
		op = ">"
	}
	if c.equal {
		op += "="
	}
	s := c.Signal() + " " + op + " " + c.format(c.limit)
	if c.For > 0 {
		s += " for " + c.For.String()
	}
	return s
}

// Say writes a value of the condition for people: in four digits, and latencies in the unit that suits them.
func (c *Condition) Say(value float64) string {
	if c.ofLatency() {
		return time.Duration(round(value * c.unit.scale)).String()
	}
	return c.format(round(value))
}

func (c *Condition) format(value float64) string { return number(value) + c.unit.name }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Verdict is what a window says to a condition.
type Verdict struct {
	Value float64 // in the unit that the condition is written in; never infinite
	Holds bool
	Known bool // false where nothing was meant, or the target does not tell
}

// Judge says whether the condition holds for all that w has, a window or a whole run. For is not looked at.
func (c *Condition) Judge(w *measure.Window) Verdict {
	v := c.read(w)
	if math.IsNaN(v) {
		return Verdict{}
	}
	v /= c.unit.scale
	holds := v < c.limit
	if c.above {
		holds = v > c.limit
	}
	return Verdict{Value: v, Holds: holds || c.equal && v == c.limit, Known: true}
}

// read returns the figure in its own unit, NaN where it is not known.
func (c *Condition) read(w *measure.Window) float64 {
	done := float64(w.Done())
	silent := done == 0 && w.Intended > 0
	share := func(n uint64, inSilence float64) float64 {
		if silent {
			return inSilence
		}
		return float64(n) / done // NaN for none of none
	}
	latency := func(get func() float64) float64 {
		switch {
		case w.Latency.TotalCount() > 0:
			return get()
		case silent, done > 0:
			return float64(measure.Longest)
		}
		return math.NaN()
	}
	switch c.figure {
	case figureQuantile:
		return latency(func() float64 { return float64(w.Latency.ValueAtPercentile(c.quantile)) })
	case figureMean:
		return latency(w.Latency.Mean)
	case figureErrors:
		return share(w.Errors(), 1)
	case figureShed:
		return share(w.Shed, 0)
	case figureSuccess:
		return share(w.Served, 0)
	case figureAchieved:
		return float64(w.Sent) / float64(w.Intended)
	case figureRate:
		if w.End <= w.Start {
			return math.NaN()
		}
		return float64(w.Served) / (w.End - w.Start).Seconds()
	case figureCPU:
		return w.Target.CPU
	case figureMemory:
		return w.Target.Memory
	}
	panic("BUG: a condition about nothing that is measured")
}

// OfTarget reports whether the condition is about what only the target's own metrics say.
func (c *Condition) OfTarget() bool { return c.figure == figureCPU || c.figure == figureMemory }

// ofLatency reports whether the condition is about how long answers took.
func (c *Condition) ofLatency() bool { return c.figure == figureQuantile || c.figure == figureMean }

// span is the time over which a Watch reads figures: long enough that a share of it says something, and
// that a stall of the machine is not all of it.
const span = time.Second

// Watch follows conditions through a run. A figure is that of the last second, and a condition with "for"
// has to hold at every window of that time.
type Watch struct {
	conditions []Condition
	since      []time.Duration   // end of the window at which it began to hold; -1 while it does not
	last       []*measure.Window // without what no condition is about
	sum        *measure.Window
	none       *hdr.Histogram // stays empty
}

// NewWatch returns a Watch that has seen nothing yet.
func NewWatch(conditions []Condition) *Watch {
	w := &Watch{conditions: conditions, since: make([]time.Duration, len(conditions)),
		sum: measure.NewWindow(), none: measure.NewHistogram()}
	for i := range w.since {
		w.since[i] = -1
	}
	return w
}

// Next sees one more window and returns the first condition that has held for its time, with its value now,
// or nil. It does not keep w.
func (w *Watch) Next(next *measure.Window) (held *Condition, now Verdict) {
	if len(w.conditions) == 0 {
		return nil, Verdict{}
	}
	w.push(next)
	// Half a window is what the ends of windows may be off.
	slack := (next.End - next.Start) / 2
	if w.sum.End-w.sum.Start < span-slack {
		return nil, Verdict{}
	}
	if w.sum.Done() == 0 && !w.waiting() {
		return nil, Verdict{} // a request a minute: its answer may be on its way
	}
	for i := range w.conditions {
		c := &w.conditions[i]
		v := c.Judge(w.sum)
		switch {
		case !v.Known:
			continue
		case !v.Holds:
			w.since[i] = -1
			continue
		case w.since[i] < 0:
			w.since[i] = next.End
		}
		if held == nil && next.End-w.since[i] >= c.For-slack {
			held, now = c, v
		}
	}
	return held, now
}

// Began returns the end of the window at which the first of the conditions that hold now began to.
func (w *Watch) Began() (first time.Duration, ok bool) {
	for _, at := range w.since {
		if at >= 0 && (!ok || at < first) {
			first, ok = at, true
		}
	}
	return first, ok
}

// waiting reports whether something was in flight all the last second.
func (w *Watch) waiting() bool {
	for i := range w.last {
		if w.last[i].InFlight == 0 {
			return false
		}
	}
	return true
}

// push keeps what it needs of next, forgets what is older than span, and sums up what is left.
func (w *Watch) push(next *measure.Window) {
	slack := (next.End - next.Start) / 2
	kept := &measure.Window{}
	for len(w.last) > 0 && w.last[0].End <= next.End-span+slack {
		kept = w.last[0] // its memory is used again
		w.last = append(w.last[:0], w.last[1:]...)
	}
	latency := kept.Latency
	if latency == nil {
		latency = measure.NewHistogram()
	}
	latency.Reset()
	latency.Merge(next.Latency)
	*kept = *next
	kept.Latency, kept.ShedLatency, kept.Lag, kept.Detail = latency, w.none, w.none, nil
	w.last = append(w.last, kept)
	w.sum.Reset()
	for _, l := range w.last {
		w.sum.Add(l)
		if !math.IsNaN(l.Target.CPU) {
			w.sum.Target.CPU = l.Target.CPU
		}
		if !math.IsNaN(l.Target.Memory) {
			w.sum.Target.Memory = l.Target.Memory
		}
	}
}
