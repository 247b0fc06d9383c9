package feed

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"weir/internal/feed/snapshot"
)

// generation is a snapshot that serves, with what is derived from it.
type generation struct {
	number    uint64
	lists     *snapshot.Snapshot
	file      os.FileInfo // of the snapshot when it was opened
	table     []uint32    // see slots; nil when every user's slot is their id
	fallback  *fallback
	exhausted exhausted
	checked   bool        // lists were warmed before they served
	altered   atomic.Bool // the file was changed in place

	broken      atomic.Pointer[error] // why it cannot be trusted
	stopWarming func()
	warmed      chan struct{} // closed when warming has ended, either way

	stripes []pins
}

// pins counts the requests of one stripe that read a generation, on a cache line of its own.
type pins struct {
	atomic.Int64
	_ [120]byte
}

// pin returns the generation that serves and keeps it mapped until unpin.
func (f *Feed) pin(stripe int) *generation {
	for {
		if g := f.current.Load(); f.pins(g, stripe) {
			return g
		}
	}
}

// pins pins g, unless it serves no more. The look comes after the pin: so whoever retires a generation has seen the pin,
// or the pin its successor.
func (f *Feed) pins(g *generation, stripe int) bool {
	g.stripes[stripe&(len(g.stripes)-1)].Add(1)
	if f.current.Load() == g {
		return true
	}
	g.unpin(stripe)
	return false
}

func (g *generation) unpin(stripe int) { g.stripes[stripe&(len(g.stripes)-1)].Add(-1) }

// retire unmaps a generation that serves no more, once its last reader has left. A reader leaves
// within a request, so looking now and then is enough.
func (g *generation) retire() error {
	g.stopWarming()
	<-g.warmed
	for i := range g.stripes {
		for wait := time.Millisecond; g.stripes[i].Load() != 0; wait = min(2*wait, 100*time.Millisecond) {
			time.Sleep(wait)
		}
	}
	return g.lists.Close()
}

// String names a generation in logs.
func (g *generation) String() string { return fmt.Sprintf("generation %d", g.number) }
