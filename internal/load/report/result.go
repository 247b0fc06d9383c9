// Package report says what a load run found: as JSON, CSV, a page with plots, a live terminal view and
// Prometheus metrics, and how two runs differ.
package report

import (
	"time"

	"weir/internal/load/control"
	"weir/internal/load/measure"
)

// Version is that of the JSON form of results.
const Version = 1

// Result is what a run found. Its JSON form is described in docs/load.md; fields are added, never renamed.
type Result struct {
	Version int       `json:"version"` // Version
	Name    string    `json:"name,omitempty"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"` // measured, so without the warm-up
	Plan    any       `json:"plan"`    // what was asked for
	Reason  string    `json:"reason,omitempty"`
	// Changes are the loads that a person set while the run went, beside its plan.
	Changes []Change `json:"changes,omitempty"`
	// Requests are over in the measured time: Served + Shed + Errors.
	Requests uint64            `json:"requests"`
	Served   uint64            `json:"served"`
	Shed     uint64            `json:"shed"`
	Errors   uint64            `json:"errors"`
	Failures map[string]uint64 `json:"failures"` // errors by kind
	Statuses map[string]uint64 `json:"statuses"` // answers by their code
	// Redirects are answers that name another place. They count as served and are not followed.
	Redirects uint64 `json:"redirects"`
	// Parts are those of a mix, or the requests of a file, if there are several.
	Parts   []Part   `json:"parts,omitempty"`
	Samples []Sample `json:"samples,omitempty"`
	Bytes   Bytes    `json:"bytes"`
	Rate    Rate     `json:"rate"`
	// Natural is the rate that the users make by themselves; 0 where they have none.
	Natural float64 `json:"natural,omitempty"`
	Latency Latency `json:"latency_us"`
	ShedIn  Latency `json:"shed_latency_us"`
	// Histogram is Latency whole: HdrHistogram's V2 compressed encoding in base64, in nanoseconds.
	Histogram string           `json:"histogram"`
	Generator Generator        `json:"generator"`
	Ceiling   *control.Ceiling `json:"ceiling,omitempty"`
	// Marks say why figures are not to be trusted as they stand. They are sentences.
	Marks []string `json:"marks,omitempty"`
	// Verdicts are the --fail-when conditions and whether they held.
	Verdicts []Verdict `json:"verdicts,omitempty"`
	Trace    []Point   `json:"trace"`
}

// Change is a load that was set at a moment.
type Change struct {
	At   float64 `json:"t"`    // seconds since the beginning
	Load float64 `json:"load"` // requests a second, or connections
}

// Part is one of several things that a run asks for.
type Part struct {
	Name   string  `json:"name"`
	Served uint64  `json:"served"`
	Shed   uint64  `json:"shed"`
	Errors uint64  `json:"errors"`
	Mean   float64 `json:"mean_us"` // latency
	Max    float64 `json:"max_us"`
}

// Sample is a request without a usable answer; there are a few of each kind.
type Sample = measure.Sample

// Rate is in requests a second, over the measured time.
type Rate struct {
	Intended float64 `json:"intended"`
	Achieved float64 `json:"achieved"` // sent
	// Goodput; what was answered after the time counts as served, but not here.
	Served float64 `json:"served"`
}

// Bytes are counted on the wire, heads included.
type Bytes struct {
	In  uint64 `json:"in"`
	Out uint64 `json:"out"`
}

// Latency is in microseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Generator is what making the load cost, and whether it was the limit.
type Generator struct {
	CPUMicros float64 `json:"cpu_us_per_request"`
	// Of its busiest thread, 0 to 1, in all but the busiest twentieth of the time.
	Busy      float64 `json:"busy"`
	LagP99    float64 `json:"lag_p99_us"` // its own share of the latency
	LagMax    float64 `json:"lag_max_us"`
	Saturated bool    `json:"saturated"`
	Runners   int     `json:"runners"`
}

// Verdict is a condition that a run was to meet.
type Verdict struct {
	Condition string  `json:"condition"`
	Value     float64 `json:"value"` // in the condition's unit
	Got       string  `json:"got"`   // the same for people: "73.1ms", or that it is not known
	Failed    bool    `json:"failed"`
}

// Point is one window of a run, as traces and live views show it. Latencies are in microseconds, null where
// nothing was answered. Where a long run's windows were merged, rates are means, quantiles are means by
// requests, and Max, LagP99, Connections, InFlight, Busy and TargetMemory are the largest.
type Point struct {
	At       float64 `json:"t"`       // seconds since the beginning, the window's end
	Seconds  float64 `json:"seconds"` // how long the window was
	Phase    string  `json:"phase"`
	Measured bool    `json:"measured"`
	Intended float64 `json:"intended"` // requests a second, as are the next four
	Achieved float64 `json:"achieved"`
	Served   float64 `json:"served"`
	Shed     float64 `json:"shed"`
	Errors   float64 `json:"errors"`
	// Seconds since something was answered while requests fail, from 0.3 on; else 0.
	Silent       float64  `json:"silent"`
	Mean         *float64 `json:"mean"`
	P50          *float64 `json:"p50"`
	P90          *float64 `json:"p90"`
	P99          *float64 `json:"p99"`
	Max          *float64 `json:"max"`
	LagP99       *float64 `json:"lag_p99"` // the generator's own share
	Connections  int      `json:"connections"`
	InFlight     int      `json:"in_flight"`
	Busy         float64  `json:"busy"`
	TargetCPU    *float64 `json:"target_cpu"`    // processors; null when unknown
	TargetMemory *float64 `json:"target_memory"` // bytes; null when unknown
	Ceiling      *float64 `json:"ceiling"`       // as known then
}
