// Package measure holds what a load run finds out, window by window: how many requests were meant, sent and
// answered, how long they took, and what making them cost. Windows of threads, of machines and of moments are
// added without losing precision, since their histograms have the same buckets.
package measure

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept in nanoseconds from Shortest to Longest, to three digits; what is beyond counts as the
// limit.
const (
	Shortest = 100 * time.Nanosecond
	Longest  = 10 * time.Minute
	digits   = 3
)

// NewHistogram returns an empty histogram of nanoseconds. All of them have the same buckets.
func NewHistogram() *hdr.Histogram {
	return hdr.New(int64(Shortest), int64(Longest), digits)
}

// Record counts a latency in h, one beyond the limits as the limit.
func Record(h *hdr.Histogram, d time.Duration) {
	if err := h.RecordValue(int64(min(max(d, Shortest), Longest))); err != nil {
		panic("BUG: a latency within the limits has no bucket: " + err.Error())
	}
}

// Failure is why a request got no usable answer.
type Failure int

const (
	Refused    Failure = iota // the connection could not be made
	Cut                       // the connection ended before the answer did
	TimedOut                  // no whole answer within the timeout
	Malformed                 // what came is not an answer by RFC 9112
	Status                    // an answer that says 4xx or 5xx, but for 503
	Unexpected                // an answer that is not what a request expects
	Dropped                   // never sent: the most connections were open, and all busy
	Failures                  // how many kinds there are
)

var failureNames = [Failures]string{"refused", "cut", "timed_out", "malformed", "status",
	"unexpected", "dropped"}

// String names the failure as results spell it.
func (f Failure) String() string { return failureNames[f] }

// Counts are how many requests there were, and the bytes that went to and fro.
type Counts struct {
	// Intended counts the requests that the schedule put into the window, Sent those that were sent;
	// without a schedule, in the closed model, they are the same. A request counts when it is sent or given
	// up, so both are late when the generator is.
	Intended uint64 `json:"intended"`
	Sent     uint64 `json:"sent"`
	// Served counts answers below 400, Shed those with 503, Failed everything else.
	Served uint64           `json:"served"`
	Shed   uint64           `json:"shed"`
	Failed [Failures]uint64 `json:"failed"`
	// In and Out are the bytes read and written.
	In  uint64 `json:"in"`
	Out uint64 `json:"out"`
}

// Window is what was measured between two moments of a run.
type Window struct {
	// Start and End count from the beginning of the run.
	Start, End time.Duration
	Counts
	// Latency is of what was served, failed by its status or timed out (as the time waited); ShedLatency of
	// what was shed. In the open model it counts from the intended time of sending, in the closed one from
	// the sending.
	Latency, ShedLatency *hdr.Histogram
	// Lag is how much later than intended the generator itself got to a request and to its answer, whatever
	// the target did: its own share of Latency.
	Lag *hdr.Histogram
	// CPU is the processor time of the generator's process, Busy the largest share of the window that one
	// of its threads worked, 0 to 1.
	CPU  time.Duration
	Busy float64
	// Connections are open at the end of the window, InFlight of them waiting for an answer.
	Connections, InFlight int

	// Detail is what the window is not steered by; nil is none.
	Detail *Detail

	// Target is what the target says of itself; its fields are NaN where it says nothing.
	Target Target
}

// Target is what a target's own metrics say.
type Target struct {
	CPU    float64 // processors in use, so 1.5 is one and a half
	Memory float64 // resident bytes
}

// NewWindow returns an empty window.
func NewWindow() *Window {
	return &Window{Latency: NewHistogram(), ShedLatency: NewHistogram(), Lag: NewHistogram(),
		Detail: new(Detail), Target: Unknown()}
}

// Add adds o.
func (c *Counts) Add(o *Counts) {
	c.Intended += o.Intended
	c.Sent += o.Sent
	c.Served += o.Served
	c.Shed += o.Shed
	for i, n := range o.Failed {
		c.Failed[i] += n
	}
	c.In += o.In
	c.Out += o.Out
}

// Errors counts the requests without a usable answer; those shed are none.
func (c *Counts) Errors() uint64 {
	var sum uint64
	for _, n := range c.Failed {
		sum += n
	}
	return sum
}

// Answered reports whether anything came back at all, an error or nonsense included.
func (c *Counts) Answered() bool {
	return c.Served+c.Shed+c.Failed[Status]+c.Failed[Malformed]+c.Failed[Unexpected] > 0
}

// Done counts the requests that are over, however they ended.
func (c *Counts) Done() uint64 { return c.Served + c.Shed + c.Errors() }
