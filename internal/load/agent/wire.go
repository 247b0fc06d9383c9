package agent

import (
	"encoding/json"
	"errors"
	"fmt"
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
	Seq uint64 `json:"seq"`
	measure.Counts
	CPU         int64   `json:"cpu_ns"`
	Busy        float64 `json:"busy"`
	Connections int     `json:"connections"`
	InFlight    int     `json:"in_flight"`
	Latency     string  `json:"latency"` // as measure.Encode writes histograms
	ShedLatency string  `json:"shed_latency"`
	Lag         string  `json:"lag"`

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
		Seq: seq, Counts: w.Counts, CPU: int64(w.CPU), Busy: w.Busy, Connections: w.Connections,
		InFlight: w.InFlight,
		Latency:  encoded(w.Latency), ShedLatency: encoded(w.ShedLatency), Lag: encoded(w.Lag),
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
	got := measure.Window{
		Counts: o.Counts, CPU: time.Duration(o.CPU), Busy: o.Busy,
		Detail: &measure.Detail{Parts: o.Parts, Samples: o.Samples},
	}
	for _, h := range []struct {
		text string
		to   **hdr.Histogram
	}{{o.Latency, &got.Latency}, {o.ShedLatency, &got.ShedLatency}, {o.Lag, &got.Lag}} {
		if *h.to, err = measure.Decode(h.text); err != nil {
			return 0, err
		}
	}
	for code, n := range o.Statuses {
		got.Detail.Statuses[code] = n
	}
	w.Add(&got)
	w.Connections, w.InFlight = o.Connections, o.InFlight
	return o.Seq, nil
}

func encoded(h *hdr.Histogram) string {
	text, err := measure.Encode(h)
	if err != nil {
		panic("BUG: a histogram cannot be encoded: " + err.Error())
	}
	return text
}
