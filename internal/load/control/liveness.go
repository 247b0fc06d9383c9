package control

import (
	"time"

	"weir/internal/load/measure"
)

// A target that has answered before is gone once it answers nothing for goneAfter and refuses or cuts
// connections, or for silentFor and requests fail in whatever way. Both leave time for a restart, the
// latter for requests to time out and for an overload to pass. It is silent, which may pass, after a second
// with failures or hungFor with requests that wait.
const (
	goneAfter    = 5 * time.Second
	silentFor    = 25 * time.Second
	hungFor      = 3 * time.Second
	goneFailures = 5
)

// liveness watches whether a target answers at all.
type liveness struct {
	alive   bool          // it has answered before
	last    time.Duration // when it did
	now     time.Duration
	waiting bool
	ended   uint64 // requests since whose connection was refused or cut,
	failed  uint64 // and these and others that failed
}

// see takes a window and says whether something was answered in it.
func (p *liveness) see(w *measure.Window) bool {
	p.now, p.waiting = w.End, w.InFlight > 0
	if w.Answered() {
		p.alive, p.last, p.ended, p.failed = true, w.End, 0, 0
		return true
	}
	p.ended += w.Failed[measure.Refused] + w.Failed[measure.Cut]
	p.failed += w.Errors() - w.Failed[measure.Dropped]
	return false
}

func (p *liveness) quiet() time.Duration { return p.now - p.last }

// silent says that nothing is answered now; slowness is how long answers take.
func (p *liveness) silent(slowness time.Duration) bool {
	return p.alive && (p.quiet() >= sureTime && p.failed >= goneFailures || p.quiet() >= hungFor+slowness && p.waiting)
}

func (p *liveness) gone() bool {
	return p.alive && (p.quiet() >= goneAfter && p.ended >= goneFailures || p.quiet() >= silentFor && p.failed >= goneFailures)
}
