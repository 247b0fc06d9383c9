package positionstest

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/internal/progress"
)

// volatile is what is kept in memory alone.
type volatile struct{}

func (volatile) Durability() string { return "the end of the process takes everything" }
func (volatile) Lag() time.Duration { return 0 }
func (volatile) Err() error         { return nil }
func (volatile) Close() error       { return nil }

// Reference is the plainest progress.Positions there is: a map under a mutex, which ends with the process.
// Slow makes it answer as an engine at the other end of a network does.
type Reference struct {
	volatile
	Slow bool

	mu       sync.Mutex
	places   map[id]place
	newest   uint64
	prepared uint64
}

// id is a user: a number, or a name that is none.
type id struct {
	number uint64
	name   string
}

type place struct {
	tag      uint64
	position int
}

var _ progress.Positions = (*Reference)(nil)

// Prepare implements progress.Positions.
func (r *Reference) Prepare(lists progress.Lists) (progress.Generation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places == nil {
		r.places = make(map[id]place)
	}
	r.prepared = max(lists.Version(), r.prepared+1)
	return &referenceGeneration{r, lists, r.prepared}, nil
}

type referenceGeneration struct {
	*Reference
	lists   progress.Lists
	version uint64
}

func (g *referenceGeneration) Version() uint64 { return g.version }

func idOf(u progress.User) id {
	number, name := u.ID()
	return id{number, string(name)}
}

func (g *referenceGeneration) Do(u progress.User, l progress.List, op progress.Op) (progress.Move, error) {
	if g.Slow {
		return progress.Move{}, progress.ErrPending
	}
	return g.do(u, l, op)
}

func (g *referenceGeneration) do(u progress.User, l progress.List, op progress.Op) (progress.Move, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.places[idOf(u)]
	if at.tag != l.Tag {
		if g.newest > g.version {
			return progress.Move{}, progress.ErrSuperseded
		}
		at = place{tag: l.Tag}
	}
	from := at.position
	if at.position = op.Target(from, l.Len); at.position != from {
		g.newest = max(g.newest, g.version)
		g.places[idOf(u)] = at
	}
	return progress.Move{From: from, To: at.position}, nil
}

func (g *referenceGeneration) Submit(_ context.Context, u progress.User, l progress.List, op progress.Op,
	done func(progress.Move, error)) {
	if !g.Slow {
		done(g.do(u, l, op))
		return
	}
	u.Name = append([]byte(nil), u.Name...)
	if len(u.Name) == 0 {
		u.Name = nil
	}
	go func() { done(g.do(u, l, op)) }()
}

func (g *referenceGeneration) Forget(_ context.Context, u progress.User) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.places[idOf(u)]
	delete(g.places, idOf(u))
	g.newest = max(g.newest, g.version)
	return ok && at.tag != 0, nil
}

func (g *referenceGeneration) Prefetch(progress.User) {}

func (g *referenceGeneration) Tend(context.Context) error { return nil }

func (g *referenceGeneration) Exhausted() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var n int64
	for rank := range g.lists.Slots() {
		l, ok := g.lists.List(rank)
		u, known := g.lists.User(rank)
		if !ok || !known {
			continue
		}
		if at := g.places[idOf(u)]; l.Len == 0 || at.tag == l.Tag && at.position >= l.Len {
			n++
		}
	}
	return n
}

func (g *referenceGeneration) Survey(ctx context.Context, visit func(position, length int)) error {
	if g.Slow {
		return errors.ErrUnsupported
	}
	for rank := range g.lists.Slots() {
		l, ok := g.lists.List(rank)
		u, known := g.lists.User(rank)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !ok || !known {
			continue
		}
		m, err := g.do(u, l, progress.Get())
		if err != nil {
			return err
		}
		visit(m.To, l.Len)
	}
	return nil
}

// ReferenceIndex is a progress.Index in memory. Slow makes it say that it takes a round trip.
type ReferenceIndex struct {
	volatile
	Slow bool

	mu sync.Mutex
	at uint64
}

var _ progress.Index = (*ReferenceIndex)(nil)

// Inline implements progress.Index.
func (x *ReferenceIndex) Inline() bool { return !x.Slow }

// Get implements progress.Index.
func (x *ReferenceIndex) Get(context.Context) (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.at, nil
}

// CompareAndSwap implements progress.Index.
func (x *ReferenceIndex) CompareAndSwap(_ context.Context, from, to uint64) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.at != from {
		return false, nil
	}
	x.at = to
	return true, nil
}
