package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/cluster/publications"
	"weir/internal/disk"
	"weir/internal/feed/snapshot"
	"weir/internal/progress"
)

// generation is a snapshot that serves, with what is derived from it.
type generation struct {
	number    uint64
	from      listsAt
	waiting   bool // there are no lists yet
	lists     *snapshot.Snapshot
	file      os.FileInfo // of the snapshot when it was opened
	positions progress.Generation
	fallback  *fallback
	checked   bool // lists were warmed before they served
	took      time.Duration
	altered   atomic.Bool // the file was changed in place

	broken      atomic.Pointer[error] // why it cannot be trusted
	stopWarming func()
	warmed      chan struct{} // closed when warming has ended, either way

	stripes []pins
}

// publication is the number by which a cluster knows the lists, as people see it; "" without one.
func (g *generation) publication() string {
	if g.from.publication.Number == 0 {
		return ""
	}
	return publications.Name(g.from.publication.Number)
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

// pins pins g, unless it serves no more. The look comes after the pin: so whoever retires a generation has
// seen the pin, or the pin its successor.
func (f *Feed) pins(g *generation, stripe int) bool {
	g.stripes[stripe&(len(g.stripes)-1)].Add(1)
	if f.current.Load() == g {
		return true
	}
	g.unpin(stripe)
	return false
}

func (g *generation) unpin(stripe int) { g.stripes[stripe&(len(g.stripes)-1)].Add(-1) }

// retire unmaps a generation that serves no more, once its last reader has left. A reader leaves within a
// request, so looking now and then is enough.
func (g *generation) retire() error {
	g.stopWarming()
	<-g.warmed
	g.drain()
	return g.lists.Close()
}

// drain waits until nobody has g pinned: what is pending too.
func (g *generation) drain() {
	for i := range g.stripes {
		for wait := time.Millisecond; g.stripes[i].Load() != 0; wait = min(2*wait, 100*time.Millisecond) {
			time.Sleep(wait)
		}
	}
}

// listsAt is lists that may serve.
type listsAt struct {
	path        string
	publication publications.Publication // by which a cluster knows them; zero without one
}

// load opens a snapshot as a generation that does not serve yet. One that is to
// replace another is read into memory and checked as a whole first.
//
// Lists of fewer than least users are refused.
func (f *Feed) load(ctx context.Context, from listsAt, whole bool, least uint64) (*generation, error) {
	lists, err := snapshot.Open(from.path)
	if missing := new(fs.PathError); errors.As(err, &missing) && f.from == nil {
		return nil, fmt.Errorf("--feeds: %w", err)
	}
	if err != nil {
		return nil, err
	}
	if r := f.reloading.Load(); r != nil {
		r.lists.Store(lists)
	}
	if n := lists.Stats().Users; n < least {
		err := fmt.Errorf("%s: its %d users are less than %v of those before; if that is right, %s",
			f.named(from), n, f.live.Load().MinShare, f.howToForce())
		return nil, errors.Join(err, lists.Close())
	}
	g := &generation{from: from, lists: lists, file: lists.File(), stripes: make([]pins, f.stats.stripes),
		warmed: make(chan struct{})}
	if err := f.prepare(ctx, g, whole); err != nil {
		return nil, errors.Join(err, lists.Close())
	}
	f.numbered++
	g.number = f.numbered
	return g, nil
}

func (f *Feed) prepare(ctx context.Context, g *generation, whole bool) (err error) {
	if whole {
		if err := g.lists.Warm(ctx); err != nil {
			return err
		}
		g.checked = true
	}
	if f.cfg.LockMemory {
		if err := g.lists.Lock(); err != nil {
			return err
		}
	}
	// The snapshot may be cut off under the map at any time.
	return disk.Guard(func() error {
		if g.fallback, err = openFallback(f.cfg.Fallback, g.lists); err != nil {
			return err
		}
		if err = g.fallback.setRanking(f.ranker, &f.live); err != nil {
			return err
		}
		g.positions, err = f.positions.Prepare(users{g.lists, g.from.publication.Number})
		return err
	})
}

// serve makes g the generation that serves, retires the one before, and warms g. That comes last:
// only when nobody advances under the old generation any more can those at the end be counted.
func (f *Feed) serve(g *generation) {
	warming, stop := context.WithCancel(f.background.Context())
	g.stopWarming = stop
	old := f.current.Swap(g)
	f.background.Go("warming the lists", func(context.Context) {
		defer close(g.warmed)
		if old != nil {
			if err := old.retire(); err != nil {
				f.log.Error("an old snapshot could not be closed", "generation", old.number, "error", err)
			}
		}
		f.warm(warming, g)
	})
}

// warm reads a generation into memory and checks it, if that is not done yet, and counts whose
// position is at the end.
func (f *Feed) warm(ctx context.Context, g *generation) {
	start := time.Now()
	var err error
	if !g.checked {
		err = g.lists.Warm(ctx)
	}
	if err == nil {
		err = disk.Guard(func() error { return g.positions.Tend(ctx) })
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		g.broken.Store(&err)
		f.log.Error("FATAL: the snapshot cannot be trusted; replace it by rename", "path", f.named(g.from),
			"error", err)
		if f.from != nil {
			f.from.discard(g)
		}
	default:
		f.log.Info("feed is warm", "generation", g.number, "took", time.Since(start))
	}
}

// users is a snapshot as progress.Lists.
type users struct {
	*snapshot.Snapshot
	publication uint64 // see listsAt
}

func (s users) Version() uint64 { return cmp.Or(s.publication, uint64(s.Publication())) }

func (s users) User(rank uint64) (u progress.User, ok bool) {
	u.Rank = rank
	u.Number, u.Name, ok = s.UserKey(rank)
	return u, ok
}

func (s users) Rank(u progress.User) (uint64, bool) {
	switch {
	case s.Users() == snapshot.String && u.Name == nil:
		var buf [20]byte
		return s.FindString(strconv.AppendUint(buf[:0], u.Number, 10))
	case s.Users() == snapshot.String:
		return s.FindString(u.Name)
	case u.Name == nil:
		return s.FindNumber(u.Number)
	}
	return 0, false
}

func (s users) List(rank uint64) (progress.List, bool) {
	list, err := s.Snapshot.List(rank)
	return progress.List{Tag: list.Tag(), Len: list.Len()}, err == nil && list.Tag() != 0
}
