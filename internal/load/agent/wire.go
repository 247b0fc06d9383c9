package agent

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"weir/internal/load/client"
	"weir/internal/load/measure"
	"weir/internal/load/scenario"
	"weir/internal/strictjson"
)

// version is of what leaders and agents say to each other.
const version = 1

// order is what a leader wants from one agent.
type order struct {
	Version        int           `json:"version"`
	Spec           scenario.Spec `json:"spec"` // with its files, and this agent's part
	client.Options               // of the engine, targets aside
}

// started is the answer to an order.
type started struct {
	ID string `json:"id"`
}

// setting is a change of the load; one of its members is there.
type setting struct {
	Rate        *float64 `json:"rate,omitempty"`
	Connections *int     `json:"connections,omitempty"`
	EndNanos    *int64   `json:"end_ns,omitempty"` // from now: when the schedule ends
}

// window is a measure.Window on its way to the leader. Seq numbers windows from 1 on. The leader says which
// one it has seen when it asks for the next; one that it has not seen comes again, with what was measured
// since.
type window struct {
	Seq         uint64   `json:"seq"`
	Intended    uint64   `json:"intended"`
	Sent        uint64   `json:"sent"`
	Served      uint64   `json:"served"`
	Shed        uint64   `json:"shed"`
	Failed      []uint64 `json:"failed"`
	In          uint64   `json:"in"`
	Out         uint64   `json:"out"`
	CPU         int64    `json:"cpu_ns"`
	Busy        float64  `json:"busy"`
	Connections int      `json:"connections"`
	InFlight    int      `json:"in_flight"`
	Latency     []byte   `json:"latency"` // see appendHistogram
	ShedLatency []byte   `json:"shed_latency"`
	Lag         []byte   `json:"lag"`

	Statuses map[int]uint64   `json:"statuses,omitempty"`
	Parts    []measure.Part   `json:"parts,omitempty"`
	Samples  []measure.Sample `json:"samples,omitempty"`
}

// maxParts and maxSamples bound what a window may bring.
const maxParts, maxSamples = 1000, 1000

// encodeWindow renders w. It has to be one without NaN.
func encodeWindow(w *measure.Window, seq uint64) []byte {
	statuses := make(map[int]uint64)
	for code, n := range w.Detail.Statuses {
		if n > 0 {
			statuses[code] = n
		}
	}
	text, err := json.Marshal(window{
		Seq: seq, Intended: w.Intended, Sent: w.Sent, Served: w.Served, Shed: w.Shed, Failed: w.Failed[:],
		In: w.In, Out: w.Out,
		CPU: int64(w.CPU), Busy: w.Busy, Connections: w.Connections, InFlight: w.InFlight,
		Latency: appendHistogram(nil, w.Latency), ShedLatency: appendHistogram(nil, w.ShedLatency),
		Lag:      appendHistogram(nil, w.Lag),
		Statuses: statuses, Parts: w.Detail.Parts, Samples: w.Detail.Samples,
	})
	if err != nil {
		panic("BUG: a window cannot be encoded: " + err.Error())
	}
	return text
}

// decodeWindow adds what encodeWindow wrote to w, whose Connections and InFlight it sets, and returns its
// number.
func decodeWindow(text []byte, w *measure.Window) (seq uint64, err error) {
	var o window
	if err := json.Unmarshal(text, &o); err != nil {
		return 0, fmt.Errorf("a window that cannot be read: %w", strictjson.Plain(err))
	}
	if len(o.Failed) != int(measure.Failures) {
		return 0, fmt.Errorf("a window with %d kinds of failures, where there are %d: use the same version "+
			"of weir everywhere", len(o.Failed), measure.Failures)
	}
	if o.CPU < 0 || !(o.Busy >= 0) || o.Connections < 0 || o.InFlight < 0 {
		return 0, errors.New("a window with negative figures")
	}
	if len(o.Parts) > maxParts || len(o.Samples) > maxSamples {
		return 0, errors.New("a window with more parts or samples than there are")
	}
	for code := range o.Statuses {
		if code < 0 || code >= measure.Statuses {
			return 0, fmt.Errorf("a window with answers of status %d", code)
		}
	}
	histograms := [...]struct {
		text []byte
		to   *hdr.Histogram
	}{{o.Latency, w.Latency}, {o.ShedLatency, w.ShedLatency}, {o.Lag, w.Lag}}
	for _, h := range histograms { // all of them or none
		if err := checkHistogram(h.text, h.to.TotalCount()); err != nil {
			return 0, err
		}
	}
	got := measure.Window{
		Intended: o.Intended, Sent: o.Sent, Served: o.Served, Shed: o.Shed, In: o.In, Out: o.Out,
		CPU: time.Duration(o.CPU), Busy: o.Busy,
		Latency: empty(), ShedLatency: empty(), Lag: empty(),
		Detail: &measure.Detail{Parts: o.Parts, Samples: o.Samples},
	}
	for code, n := range o.Statuses {
		got.Detail.Statuses[code] = n
	}
	copy(got.Failed[:], o.Failed)
	w.Add(&got)
	w.Connections, w.InFlight = o.Connections, o.InFlight
	for _, h := range histograms {
		addHistogram(h.text, h.to)
	}
	return o.Seq, nil
}

// empty is a histogram that nothing is ever recorded in.
var empty = sync.OnceValue(measure.NewHistogram)

// appendHistogram appends the counts of h: of every bucket that has any, how many buckets it is beyond the
// one before it, and its count, both as unsigned varints.
func appendHistogram(dst []byte, h *hdr.Histogram) []byte {
	last := 0
	for i, n := range measure.Counts(h) {
		dst = binary.AppendUvarint(dst, uint64(i-last))
		dst = binary.AppendUvarint(dst, uint64(n))
		last = i
	}
	return dst
}

var errHistogram = errors.New("a histogram that cannot be read")

// bucket reads the first bucket of what appendHistogram wrote.
func bucket(text []byte) (ahead, n uint64, rest []byte, ok bool) {
	ahead, a := binary.Uvarint(text)
	if a <= 0 {
		return 0, 0, nil, false
	}
	n, b := binary.Uvarint(text[a:])
	if b <= 0 {
		return 0, 0, nil, false
	}
	return ahead, n, text[a+b:], true
}

// checkHistogram finds what cannot be added to a histogram that has so many values.
func checkHistogram(text []byte, has int64) error {
	most, at, left := uint64(len(measure.Buckets())), uint64(0), uint64(math.MaxInt64-has)
	for len(text) > 0 {
		ahead, n, rest, ok := bucket(text)
		if !ok || ahead >= most-at || n > left {
			return errHistogram
		}
		at, left, text = at+ahead, left-n, rest
	}
	return nil
}

// addHistogram adds what appendHistogram wrote, and checkHistogram has found good, to h, which is one of
// measure's.
func addHistogram(text []byte, h *hdr.Histogram) {
	at := uint64(0)
	for len(text) > 0 {
		ahead, n, rest, _ := bucket(text)
		at, text = at+ahead, rest
		measure.Recount(h, int(at), int64(n))
	}
}
