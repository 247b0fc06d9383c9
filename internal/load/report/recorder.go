package report

import (
	"math"
	"slices"
	"sync"
	"time"

	"weir/internal/load/control"
	"weir/internal/load/measure"
)

// RecorderOptions say what a Recorder cannot see in windows.
type RecorderOptions struct {
	Name    string
	Plan    any // what was asked for; written as JSON
	Started time.Time
	// Runners is how many machines make the load; 0 is one.
	Runners int
	// Points is how long a trace may be; 0 is DefaultPoints.
	Points int
	// Natural is the rate that the users make by themselves; 0 where they have none.
	Natural float64
	// Parts names the parts of what is asked for.
	Parts []string
	// Search says that the ceiling is looked for, so that one not found is worth a mark.
	Search bool
	// TargetMetrics says that the target was to be asked for its metrics, so that their absence is worth a
	// mark.
	TargetMetrics bool
}

// DefaultPoints is how many points a trace has at most: six minutes of 100 ms windows, before neighbours
// are merged.
const DefaultPoints = 3600

// Recorder is told of every window of a run, and says in the end what the run found. Its memory does not
// grow with the run. It is safe for concurrent use.
type Recorder struct {
	o RecorderOptions

	mu      sync.Mutex
	total   *measure.Window // of the measured windows, and of what came after the end
	inTime  uint64          // served in the measured windows
	seconds float64         // the sum of the measured windows
	windows uint64
	last    time.Duration // when the last window ended
	busy    [101]float64  // seconds of measured windows by how busy the generator was, in percent
	trace   trace
	ceiling *control.Ceiling
	refused string // by which signal, while no load was healthy
	metrics metricsSeen
	cpu     mean // of the target, in the measured windows
	silence measure.Silence
	changes []Change
}

type mean struct{ sum, seconds float64 }

func (m *mean) add(v, seconds float64) {
	if !math.IsNaN(v) {
		m.sum += v * seconds
		m.seconds += seconds
	}
}

// value is NaN where nothing was added.
func (m *mean) value() float64 { return m.sum / m.seconds }

type metricsSeen struct {
	seen, lost uint64  // windows with them, and without them after the first ones
	firstLost  float64 // seconds
}

// NewRecorder returns a Recorder that has seen nothing.
func NewRecorder(o RecorderOptions) *Recorder {
	if o.Points <= 0 {
		o.Points = DefaultPoints
	}
	o.Runners = max(o.Runners, 1)
	return &Recorder{o: o, total: measure.NewWindow(), trace: newTrace(o.Points)}
}

// Add takes a window, the decision that it was made under, and what is known of the ceiling, nil for
// nothing. It keeps neither w nor c. It returns the window's point.
func (r *Recorder) Add(w *measure.Window, d control.Decision, c *control.Ceiling) Point {
	p := newPoint(w, d, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows++
	r.last, r.refused = w.End, d.Refused
	if quiet := w.End - r.silence.Last; !r.silence.See(w, w.End) && quiet >= shownSilence &&
		r.silence.Lost() > 0 {
		p.Silent = quiet.Seconds()
	}
	r.trace.add(p)
	if c != nil {
		kept := *c
		r.ceiling = &kept
	}
	switch {
	case p.TargetCPU != nil || p.TargetMemory != nil:
		r.metrics.seen++
	case r.metrics.seen > 0:
		if r.metrics.lost == 0 {
			r.metrics.firstLost = p.At
		}
		r.metrics.lost++
	}
	if !d.Measured {
		return p
	}
	r.total.Add(w)
	r.total.Connections, r.total.InFlight = w.Connections, w.InFlight
	r.cpu.add(w.Target.CPU, p.Seconds)
	r.total.Target.CPU = r.cpu.value()
	if !math.IsNaN(w.Target.Memory) {
		r.total.Target.Memory = w.Target.Memory
	}
	r.inTime += w.Served
	r.seconds += p.Seconds
	r.busy[percent(w.Busy)] += p.Seconds
	return p
}

// Latency is that of all that was measured so far.
func (r *Recorder) Latency() Latency {
	r.mu.Lock()
	defer r.mu.Unlock()
	return NewLatency(r.total.Latency)
}

// Changed notes that a person has set another load.
func (r *Recorder) Changed(at, load float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.changes) < mostChanges {
		r.changes = append(r.changes, Change{At: at, Load: load})
	}
}

// mostChanges bounds what is kept of somebody who plays with the slider.
const mostChanges = 1000

// Drain takes what was answered after the load had ended, to requests that had been sent before. It counts,
// but not as time: what a target answers only when nothing more is asked of it is not its rate.
func (r *Recorder) Drain(w *measure.Window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silence.See(w, r.last)
	start, end, busy := r.total.Start, r.total.End, r.total.Busy
	r.total.Add(w)
	r.total.Start, r.total.End, r.total.Busy = start, end, busy
	r.total.Connections, r.total.InFlight = w.Connections, w.InFlight
}

func percent(share float64) int {
	if !(share > 0) { // NaN too
		return 0
	}
	return int(math.Round(min(share, 1) * 100))
}

// Points returns the trace so far. The caller owns it.
func (r *Recorder) Points() []Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trace.all()
}

// Total adds what was measured so far to w: conditions on a whole run look at it. The target's CPU is the
// mean, its memory what was read last.
func (r *Recorder) Total(w *measure.Window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Add(r.total)
	w.Connections, w.InFlight, w.Target = r.total.Connections, r.total.InFlight, r.total.Target
}

// Result says what was found so far. Its Reason and Verdicts are for the caller to fill in.
func (r *Recorder) Result() (*Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.total
	text, err := measure.Encode(t.Latency)
	if err != nil {
		return nil, err
	}
	res := &Result{
		Version: Version, Name: r.o.Name, Started: r.o.Started, Seconds: r.seconds, Plan: r.o.Plan,
		Requests: t.Done(), Served: t.Served, Shed: t.Shed, Errors: t.Errors(),
		Failures:  make(map[string]uint64),
		Statuses:  t.Detail.ByStatus(),
		Redirects: t.Detail.Redirects(),
		Natural:   r.o.Natural,
		Bytes:     Bytes{In: t.In, Out: t.Out},
		Latency:   NewLatency(t.Latency),
		ShedIn:    NewLatency(t.ShedLatency),
		Histogram: text,
		Ceiling:   r.ceiling,
		Trace:     r.trace.all(),
		Changes:   slices.Clone(r.changes),
		Samples:   slices.Clone(t.Detail.Samples),
	}
	for kind, n := range t.Failed {
		if n > 0 {
			res.Failures[measure.Failure(kind).String()] = n
		}
	}
	if len(r.o.Parts) > 1 {
		for i, name := range r.o.Parts {
			p := *t.Detail.Part(i)
			part := Part{Name: name, Served: p.Served, Shed: p.Shed, Errors: p.Errors,
				Max: micros(int64(p.Max))}
			if n := p.Served + p.Errors; n > 0 {
				part.Mean = float64(p.Latency.Nanoseconds()) / 1e3 / float64(n)
			}
			res.Parts = append(res.Parts, part)
		}
	}
	if r.seconds > 0 {
		res.Rate = Rate{
			Intended: float64(t.Intended) / r.seconds,
			Achieved: float64(t.Sent) / r.seconds,
			Served:   float64(r.inTime) / r.seconds,
		}
	}
	res.Generator = Generator{Busy: r.busyShare(), Runners: r.o.Runners}
	if t.Sent > 0 {
		res.Generator.CPUMicros = float64(t.CPU.Nanoseconds()) / 1e3 / float64(t.Sent)
	}
	lag := NewLatency(t.Lag)
	res.Generator.LagP99, res.Generator.LagMax = lag.P99, lag.Max
	r.judge(res)
	return res, nil
}

// busyShare returns how busy the generator was in all but the busiest twentieth of the measured time. A
// mean would hide that it was the limit where it matters, when the load was greatest; the largest would be
// an accident.
func (r *Recorder) busyShare() float64 {
	var above float64
	for b := len(r.busy) - 1; b > 0; b-- {
		above += r.busy[b]
		if above > r.seconds/20 {
			return float64(b) / 100
		}
	}
	return 0
}
