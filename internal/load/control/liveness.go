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
	measure.Silence
	now     time.Duration
	waiting bool
}

// see takes a window and says whether something was answered in it.
func (p *liveness) see(w *measure.Window) bool {
	p.now, p.waiting = w.End, w.InFlight > 0
	return p.See(w, w.End)
}

func (p *liveness) quiet() time.Duration { return p.now - p.Last }

// silent says that nothing is answered now; slowness is how long answers take.
func (p *liveness) silent(slowness time.Duration) bool {
	return p.Answered && (p.quiet() >= sureTime && p.Lost() >= goneFailures ||
		p.quiet() >= hungFor+slowness && p.waiting)
}

func (p *liveness) gone() bool {
	ended := p.Failed[measure.Refused] + p.Failed[measure.Cut]
	return p.Answered && (p.quiet() >= goneAfter && ended >= goneFailures || p.quiet() >= silentFor &&
		p.Lost() >= goneFailures)
}
