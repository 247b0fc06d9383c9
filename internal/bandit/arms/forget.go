package arms

import (
	"math"
	"time"
)

// Forget has events teach nothing of an arm any more, and reports whether they did. Like Add it is for one
// goroutine at a time.
//
// The arm's cell stays, with sums of 0, since who looks for an arm is led to it by the cells before it:
// Find still finds it, and what it returns is 0 and 0. Compact gives such cells back.
func (l *Learned) Forget(k Key) bool {
	if !l.Teaches(k) {
		return false
	}
	c := l.cells.Load()
	cell := c.find(k)
	cell[2].Store(0)
	cell[3].Store(0)
	c.idle.Add(1)
	return true
}

// Teaches reports whether events have taught anything of an arm that was not forgotten.
func (l *Learned) Teaches(k Key) bool {
	c := l.cells.Load()
	if c.size == 0 {
		return false
	}
	cell := c.find(k)
	return cell != nil && cell[2].Load()|cell[3].Load() != 0
}

// ForgetAll leaves an empty table.
func (l *Learned) ForgetAll() { l.cells.Store(&cells{}) }

// Compact gives back the cells of arms that events teach nothing of, and returns how many they were. It
// takes as long as growing if there are any, and is for one goroutine at a time, as Add.
func (l *Learned) Compact() int {
	old := l.cells.Load()
	idle := int(old.idle.Load())
	if idle == 0 {
		return 0
	}
	c := newCells(old.size, old.landmark)
	old.each(func(k Key, alpha, beta float64) bool {
		if alpha != 0 || beta != 0 {
			c.add(k, alpha, beta)
		}
		return true
	})
	l.cells.Store(c)
	return idle
}

// SetBack has the table go by a clock that was set back by more than an hour: what it is worth at the
// latest time it was taught of is what it is worth now, or it would hardly count what comes. Like Add it is
// for one goroutine at a time.
func (l *Learned) SetBack(now int64) {
	latest := l.latest.Load()
	if l.halfLife == 0 || latest-now <= int64(time.Hour/time.Microsecond) {
		return
	}
	c := l.cells.Load()
	whole, rest := l.halfLives(latest - now)
	l.rebuild(c.size, c.landmark-whole, math.Exp2(-rest))
	l.latest.Store(now)
}
