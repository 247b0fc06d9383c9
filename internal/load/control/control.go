// Package control decides, window by window, how much load comes next: constant, in stages, or in search of the most that
// a target bears.
package control

import (
	"time"

	"weir/internal/load/measure"
)

// Decision is what the load should be from now on.
type Decision struct {
	// Rate is in requests a second, for the open model; Connections is for the closed one.
	Rate        float64
	Connections int
	// Phase is a word for people: warmup, ramp, steady, climb, cool, bisect, track.
	Phase string
	// Measured is false while what happens should not count: warming up.
	Measured bool
	// Done ends the run; Reason says why, when it is not that the time is over.
	Done   bool
	Reason string
	// Refused is the signal by which a search's target said no, as long as it was healthy at no load that was tried.
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
	// SetRate is a person's wish: the rate (or number of connections) that a constant load goes on with, or that a search
	// goes on from. An error says why this controller has no use for it.
	SetRate(rate float64) error
}

// Ceiling is the most that a target bears, as a search has found it. All rates are in requests a second.
type Ceiling struct {
	Rate      float64 `json:"rate"`
	Low       float64 `json:"low"` // 95 % confidence
	High      float64 `json:"high"`
	Seconds   float64 `json:"seconds"` // until it was found
	Converged bool    `json:"converged"`
	Limit     string  `json:"limit"` // the signal that said no: "p99", "success", "shed", "achieved", "cpu"
}

// Searcher is a Controller that looks for the ceiling.
type Searcher interface {
	Controller
	// Ceiling returns what is known of it so far; false when nothing is.
	Ceiling() (Ceiling, bool)
}

// Limits bound a rate's change, and are here so that every controller heeds them.
type Limits struct {
	Min, Max float64       // requests a second; Max 0 is none
	Window   time.Duration // how often Next is called
}
