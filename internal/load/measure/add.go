package measure

import (
	"math"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Unknown is a target that says nothing of itself.
func Unknown() Target { return Target{CPU: math.NaN(), Memory: math.NaN()} }

// Add adds what another thread or machine measured in the same window, or the same generator in the next one:
// counts and histograms add up, the time they cover is the hull of both. Connections, InFlight and
// Target are moments' values: of the same window the caller adds them, of the next one they replace.
func (w *Window) Add(o *Window) {
	if w.End == w.Start {
		w.Start = o.Start
	}
	w.Start, w.End = min(w.Start, o.Start), max(w.End, o.End)
	w.Counts.Add(&o.Counts)
	w.Latency.Merge(o.Latency)
	w.ShedLatency.Merge(o.ShedLatency)
	w.Lag.Merge(o.Lag)
	if w.Detail != nil && o.Detail != nil {
		w.Detail.Add(o.Detail)
	}
	w.CPU += o.CPU
	w.Busy = max(w.Busy, o.Busy)
}

// Reset makes w an empty window, keeping its histograms' memory.
func (w *Window) Reset() {
	for _, h := range []*hdr.Histogram{w.Latency, w.ShedLatency, w.Lag} {
		if h.TotalCount() > 0 { // else there is nothing to clear, and much of it
			h.Reset()
		}
	}
	if w.Detail != nil {
		w.Detail.Reset()
	}
	*w = Window{Latency: w.Latency, ShedLatency: w.ShedLatency, Lag: w.Lag, Detail: w.Detail,
		Target: Unknown()}
}

// Silence follows whether a target answers at all.
type Silence struct {
	Answered bool             // it has before
	Last     time.Duration    // when it did
	Failed   [Failures]uint64 // since then
}

// See takes what was counted until a time, and reports whether something was answered.
func (s *Silence) See(w *Window, until time.Duration) bool {
	if w.Answered() {
		*s = Silence{Answered: true, Last: until}
		return true
	}
	for kind, n := range w.Failed {
		s.Failed[kind] += n
	}
	return false
}

// Lost counts the requests that were sent and have failed.
func (s *Silence) Lost() uint64 {
	var sum uint64
	for kind, n := range s.Failed {
		if Failure(kind) != Dropped {
			sum += n
		}
	}
	return sum
}
