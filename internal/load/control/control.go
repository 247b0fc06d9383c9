// Package control decides, window by window, how much load comes next: constant, in stages, or in search of
// the most that a target sustains.
//
// # The search
//
// A load is sustained when it is healthy: it meets the conditions that a person gave and, for what those do
// not speak of, the defaults (AdaptiveOptions.Healthy). The ceiling is the highest load that is. The search
// keeps two bounds, the highest load that was sustained and the lowest that was not, and moves through
// these states:
//
//  1. Climb: double the load while it is sustained.
//  2. Cool: after an overload, wait at less than half of the load until latencies and queue are what they
//     were.
//  3. Narrow: try loads between the bounds. The goodput of overload is a good guess for most targets: the
//     next loads are just below and just above it. Without one, bisect.
//  4. Confirm: hold a load for 12 s or 1,000 requests where something contradicts it. Where a person limits
//     latency, every ceiling is confirmed, by all its requests together and with a tenth to spare, and that
//     load is what is reported.
//  5. Track: hold the load, or a little less, and check every few seconds whether more is sustained, or no
//     longer as much. A ceiling that rises is climbed again; one that falls is narrowed down again.
//     Meanwhile the search says that it has not converged.
//
// Each part is in charge of one thing: a judge says whether one load is healthy (judge.go), evidence keeps
// the bounds and the goodput (evidence.go), adaptive moves between the states (adaptive.go), a profile has
// the numbers that suit the kind of load and the Preset (profile.go), and liveness notices a target that has
// gone away (liveness.go).
//
// Three kinds of targets are special. One with a token bucket sustains more than its rate until the bucket
// is empty; one that collapses serves less under overload than it sustains: a load above the goodput that
// still is sustained when confirmed disproves the goodput, else it was a burst. One that fails a share of
// the requests has a goodput that grows with the load: where errors are the limit, goodput counts only when
// it stays the same under different loads.
package control

import (
	"weir/internal/load/measure"
)

// Decision is what the load should be from now on.
type Decision struct {
	// Rate is in requests a second, for the open model; Connections is for the closed one.
	Rate        float64
	Connections int
	// Phase is a word for people: warmup, ramp, steady, climb, cool, bisect, confirm, track.
	Phase string
	// Measured is false while what happens should not count: warming up.
	Measured bool
	// Done ends the run; Reason says why, when it is not that the time is over.
	Done   bool
	Reason string
	// Refused is the condition that a search's target violated, as long as no load was sustained.
	Refused string
	// Failed says that it is the run that has failed, for the Reason: the target is gone.
	Failed bool
}

// Controller decides on the load. It is called by one goroutine and sees time only in windows.
type Controller interface {
	// Begin returns the first load.
	Begin() Decision
	// Next is told what happened in a window, and returns the load after it. It must not keep w.
	Next(w *measure.Window) Decision
	// SetRate is a person's wish: the rate (or number of connections) that a constant load goes on
	// with, or that a search goes on from. An error says why this controller has no use for it.
	SetRate(rate float64) error
}

// Ceiling is the highest load that a target sustains, as far as a search knows. All rates are in requests a
// second.
type Ceiling struct {
	Rate float64 `json:"rate"`
	// Low and High have the ceiling between them with a confidence of 95 %. High is 0 while no load was an
	// overload.
	Low       float64 `json:"low"`
	High      float64 `json:"high,omitempty"`
	Seconds   float64 `json:"seconds"`   // until it was found first
	Converged bool    `json:"converged"` // and nothing has contradicted it since
	// The signal that was violated: "p99", "success", "shed", "achieved", "cpu".
	Limit string `json:"limit"`
}

// Searcher is a Controller that looks for the ceiling.
type Searcher interface {
	Controller
	// Ceiling returns what is known of it so far; false when nothing is.
	Ceiling() (Ceiling, bool)
}
