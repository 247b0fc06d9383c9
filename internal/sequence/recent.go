package sequence

import (
	"slices"
	"strconv"
	"sync/atomic"

	"weir/internal/sequence/decimal"
	"weir/internal/server"
)

// recent holds the values given last, each rendered as a whole answer, so that giving one again is one
// copy. An index has one slot where it may be, and neighbours have different ones.
//
// Slots keep their memory, which spares the garbage collector 20 KB a step at index 100,000. So a slot is
// pinned while it is read, and written only when nobody has it pinned. Nobody waits: who cannot read a slot
// does without, and so does who cannot write one.
type recent struct {
	slots [recentSlots]slot
}

const (
	recentSlots = 32
	// maxRecent is how many digits fit into an answer that is given inline.
	maxRecent = server.InlineBytes - len(`{"index":4294967295,"value":""}`)
)

// slot holds a value. Everything but pins and name may be read with the slot pinned, and written with it
// claimed.
type slot struct {
	pins atomic.Int32  // how many read; claimed when somebody writes
	name atomic.Uint64 // the index + 1; 0 while there is none
	body []byte        // {"index":N,"value":"..."}
	from int           // where in body the digits begin
	_    [128 - 48]byte
}

const claimed = -1

const bodyEnd = `"}`

// appendBodyStart appends what comes before the digits.
func appendBodyStart(dst []byte, n uint64) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendUint(dst, n, 10)
	return append(dst, `,"value":"`...)
}

// pin returns the slot that holds F(n), or nil; it is to be unpinned.
func (r *recent) pin(n uint64) *slot {
	s := &r.slots[n%recentSlots]
	if s.name.Load() != n+1 || n > HardMaxIndex || !s.pin(n) {
		return nil
	}
	return s
}

// pin pins the slot unless it is claimed, or holds another value than F(n): it may have been given away
// before it was pinned.
func (s *slot) pin(n uint64) bool {
	for {
		pins := s.pins.Load()
		if pins == claimed {
			return false
		}
		if s.pins.CompareAndSwap(pins, pins+1) {
			break
		}
	}
	if s.name.Load() != n+1 {
		s.unpin()
		return false
	}
	return true
}

func (s *slot) unpin() { s.pins.Add(-1) }

func (s *slot) digits() []byte { return s.body[s.from : len(s.body)-len(bodyEnd)] }

// claim returns the slot for F(n), to be written; nil when it is in use.
func (r *recent) claim(n uint64) *slot {
	s := &r.slots[n%recentSlots]
	if !s.pins.CompareAndSwap(0, claimed) {
		return nil
	}
	return s
}

// begin makes a claimed slot ready for so many digits.
func (s *slot) begin(n uint64, digits int) {
	s.name.Store(0)
	if need := digits + server.InlineBytes - maxRecent; cap(s.body) < need {
		s.body = slices.Grow(s.body[:0], need+need/8)
	}
	s.body = appendBodyStart(s.body[:0], n)
	s.from = len(s.body)
}

// publish ends a claim, with the slot pinned for whoever had it.
func (s *slot) publish(n uint64) {
	s.body = append(s.body, bodyEnd...)
	s.name.Store(n + 1)
	s.pins.Store(1)
}

// put keeps a value, if it is not there and its slot is not in use.
func (r *recent) put(n uint64, digits []byte) {
	if len(digits) > maxRecent {
		return
	}
	if s := r.pin(n); s != nil {
		s.unpin()
		return
	}
	if s := r.claim(n); s != nil {
		s.begin(n, len(digits))
		s.body = append(s.body, digits...)
		s.publish(n)
		s.unpin()
	}
}

// between is a value that two pinned neighbours make.
type between struct {
	a, b *slot
	sub  bool // a-b and not a+b
}

// neighbours pins two values of which F(n) is made by one step.
func (r *recent) neighbours(n uint64) (between, bool) {
	for _, c := range [...]struct {
		a, b uint64
		sub  bool
	}{
		{n - 1, n - 2, false},
		{n + 2, n + 1, true},
		{n + 1, n - 1, true},
	} {
		a := r.pin(c.a) // there is none below 0, which is far beyond HardMaxIndex
		if a == nil {
			continue
		}
		if b := r.pin(c.b); b != nil {
			return between{a, b, c.sub}, true
		}
		a.unpin()
	}
	return between{}, false
}

func (b *between) append(dst []byte) []byte {
	if b.sub {
		return decimal.Sub(dst, b.a.digits(), b.b.digits())
	}
	return decimal.Add(dst, b.a.digits(), b.b.digits())
}

func (b *between) unpin() {
	b.a.unpin()
	b.b.unpin()
}
