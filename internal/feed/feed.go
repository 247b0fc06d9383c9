// Package feed serves recommendation feeds: everybody's list, made offline, handed out a few
// items at a time, with each user's position saved.
//
// The lists are a snapshot, an immutable mapped file; a generation is a snapshot that serves or
// served, with what is derived from it. The positions are cells of package progress, one a user,
// for good: the user's slot. A cell holds
//
//	48-bit tag | 16-bit position
//
// and the tag is a hash of the user and of the list that the position belongs to. That is all
// there is to a change of lists: a cell with another tag than the user's present list counts as
// position 0, so nothing is migrated, nothing stops, and positions of unchanged lists stay
// whatever is swapped, restarted or brought back. A list is forgotten when its user has been
// given something of another one: should it come back after that, it begins anew.
//
// What it promises: no item of a list is given twice, whatever the concurrency and whatever is
// swapped or killed meanwhile, and a position that was acknowledged survives the end of the
// process. Stepping outside of it, as their callers ask for it: from and peek, which repeat, and
// setting or resetting a position. Fallback items are random and may repeat from one answer to
// the next, never within one, and are never of the user's own list.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/disk"
	"weir/internal/feed/snapshot"
	"weir/internal/progress"
	"weir/internal/server"
)

// Config is where a feed comes from and how it behaves. Zero durations are the defaults of Flags.
type Config struct {
	// Path is the snapshot; Fallback a file of items for users who have none left, "" for the
	// snapshot's own.
	Path, Fallback string
	// Watch is how often Path is looked at for a snapshot renamed over it; negative is never.
	Watch time.Duration
	// Sync is the interval at which positions are made safe against a loss of power.
	Sync time.Duration
	// RankFallback fills short feeds with the best fallback items by SetRanker's scores instead of random ones.
	RankFallback bool
	// LockMemory keeps the snapshot in memory whatever else needs some.
	LockMemory bool

	faults disk.Faults // for tests
}

// Feed is the service.
type Feed struct {
	cfg   Config
	log   *slog.Logger
	slots *slots

	current  atomic.Pointer[generation]
	reload   sync.Mutex // one reload at a time; guards the next three
	numbered uint64     // generations so far
	closed   bool
	ranker   Ranker // nil for none

	scratch sync.Pool // of *scratch
	short   shortLog
	stats   stats

	background context.Context // of all that runs between requests; done at Close
	stop       context.CancelFunc
	work       sync.WaitGroup
}

// Open opens the feed. Its snapshot serves when Open returns, and is read into memory and checked
// in the background.
func Open(ctx context.Context, cfg Config, env server.Env) (*Feed, error) {
	if cfg.Watch == 0 {
		cfg.Watch = time.Second
	}
	slots, err := openSlots(filepath.Join(env.DataDir, "feed"), progress.Options{
		SyncInterval: cfg.Sync, Metrics: env.Metrics, Logger: env.Log, Faults: cfg.faults,
	})
	if err != nil {
		return nil, err
	}
	f := &Feed{cfg: cfg, log: env.Log, slots: slots, short: newShortLog(env.Log)}
	f.scratch.New = func() any { return new(scratch) }
	f.register(env.Metrics)
	g, err := f.load(ctx, false)
	if err != nil {
		return nil, errors.Join(err, slots.close())
	}
	f.background, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	f.serve(g)
	f.work.Go(func() { f.short.run(f.background) })
	if cfg.Watch > 0 {
		f.work.Go(func() { f.watch(f.background) })
	}
	s := g.lists.Stats()
	f.log.Info("feed is open", "path", cfg.Path, "users", s.Users, "items", s.Items, "bytes", s.Bytes, "fallback", len(g.fallback.items))
	return f, nil
}

// Name implements server.Service.
func (f *Feed) Name() string { return "feed" }

// Ready implements server.Service.
func (f *Feed) Ready() error {
	if err := f.slots.err(); err != nil {
		return errors.New("positions cannot be saved: a sync failed; see the log, and restart when the disk is sound")
	}
	if f.current.Load().broken.Load() != nil {
		return errors.New("the snapshot is damaged; see the log, and replace it by rename")
	}
	return nil
}

// Close implements server.Service.
func (f *Feed) Close() error {
	f.stop()
	f.reload.Lock() // a reload that has begun gives up soon
	f.closed = true
	f.reload.Unlock()
	f.work.Wait()
	return errors.Join(f.slots.close(), f.current.Load().lists.Close())
}

// load opens the configured snapshot as a generation that does not serve yet. One that is to
// replace another is read into memory and checked as a whole first.
func (f *Feed) load(ctx context.Context, whole bool) (*generation, error) {
	lists, err := snapshot.Open(f.cfg.Path)
	if missing := new(fs.PathError); errors.As(err, &missing) {
		return nil, fmt.Errorf("--feeds: %w", err)
	}
	if err != nil {
		return nil, err
	}
	g := &generation{lists: lists, file: lists.File(), stripes: make([]pins, f.stats.stripes), warmed: make(chan struct{})}
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
	g.exhausted.seen = make([]atomic.Uint64, (g.lists.Slots()+63)/64)
	return disk.Guard(func() error {
		if g.fallback, err = openFallback(f.cfg.Fallback, g.lists); err != nil {
			return err
		}
		if err = g.fallback.setRanking(f.ranker); err != nil {
			return err
		}
		g.table, err = f.slots.assign(g.lists)
		return err
	})
}

// serve makes g the generation that serves, retires the one before, and warms g. That comes last:
// only when nobody advances under the old generation any more can those at the end be counted.
func (f *Feed) serve(g *generation) {
	warming, stop := context.WithCancel(f.background)
	g.stopWarming = stop
	old := f.current.Swap(g)
	f.work.Go(func() {
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
		err = disk.Guard(func() error {
			f.countExhausted(ctx, g)
			return nil
		})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		g.broken.Store(&err)
		f.log.Error("FATAL: the snapshot cannot be trusted; replace it by rename", "path", f.cfg.Path, "error", err)
	default:
		f.log.Info("feed is warm", "generation", g.number, "took", time.Since(start).Round(time.Millisecond))
	}
}

// query is what a request for items asks for.
type query struct {
	size       int
	meta, peek bool
	from       int // -1 when absent
	list       uint64
	hasList    bool
}

// given is what a request for items gets: of the user's own list, and of the fallback items. Both slices are a scratch's.
type given struct {
	own      []uint64
	fill     []uint16
	position int // the user's now
}

// What a request may come to besides items. Others are of the snapshot, and of the store of positions.
var (
	errCostly    = errors.New("too costly for an event loop")
	errOtherList = errors.New("the user's list is another one")
	errNoList    = errors.New("the user has no list")
	errNoItems   = errors.New("there are no items")
)

// valueError is a value of a request that cannot be.
type valueError struct{ detail string }

func (e *valueError) Error() string { return e.detail }

// visit is one request's look at a user, under the generation that serves.
type visit struct {
	user
	f      *Feed
	g      *generation
	id     []byte // as asked for
	stripe int
	inline bool // what is costly is errCostly
}

// maxNamesInline bounds the items with names that are rendered inline.
const maxNamesInline = 64

// visit finds a user and asks the processor for what read and the look at the position will want; one that is not in the
// snapshot is found as unknown. Unless there is an error, end must be called.
func (f *Feed) visit(id []byte, stripe int, inline bool) (visit, error) {
	v := visit{f: f, g: f.pin(stripe), id: id, stripe: stripe, inline: inline}
	err := v.find()
	if err != nil {
		v.end()
	}
	return v, err
}

func (v *visit) end() { v.g.unpin(v.stripe) }

func (v *visit) find() error {
	lists := v.g.lists
	if v.inline && !lists.Dense() && !lists.InMemory() {
		return errCostly // finding may wait for the disk
	}
	var number uint64
	var name []byte
	var found bool
	if lists.Users() == snapshot.String {
		if len(v.id) > snapshot.MaxUserName {
			return &valueError{fmt.Sprintf("userId must be of 1 to %d bytes", snapshot.MaxUserName)}
		}
		name = v.id
		v.rank, found = lists.FindString(name)
	} else {
		var ok bool
		if number, ok = parseNumber(v.id); !ok {
			return &valueError{"userId must be a whole number from 0 to 18446744073709551615"}
		}
		v.rank, found = lists.FindNumber(number)
	}
	if !found {
		return nil
	}
	if !lists.Resident(v.rank) {
		if v.inline {
			return errCostly // reading may wait for the disk
		}
		lists.Fetch(v.rank)
	}
	v.store, v.cell = v.f.slots.cell(v.g, v.rank, number, name)
	// Both are far apart and in no cache, 0.28 us each where that was measured: asked for
	// together, the two waits are one.
	v.store.Prefetch(v.cell)
	lists.Prefetch(v.rank)
	return nil
}

// read reads the user's list.
func (v *visit) read() (err error) {
	if v.store != nil {
		v.list, err = v.g.lists.List(v.rank)
	}
	return err
}

// next gives the user their next items, and fallback items where those are too few. What is costly is said before anything moves.
func (v *visit) next(q *query, s *scratch) (given, error) {
	if err := v.read(); err != nil {
		return given{}, err
	}
	f, g, length := v.f, v.g, v.list.Len()
	if q.hasList && q.list != v.list.Tag() {
		return given{}, errOtherList
	}
	if q.from > length {
		return given{}, &valueError{fmt.Sprintf("from must be a whole number from 0 to %d, the length of the user's list", length)}
	}
	if v.inline && q.size > maxNamesInline && g.lists.Items() == snapshot.String {
		return given{}, errCostly
	}
	at, err := v.move(q)
	if err != nil {
		return given{}, err
	}
	out := given{position: at.position}
	if missing := q.size - (at.to - at.from); missing > 0 {
		out.fill = v.fill(s, q.size, missing)
	}
	if at.from == at.to && len(out.fill) == 0 {
		f.stats.empty.Add(v.stripe, 1)
		return given{}, errNoItems
	}
	f.stats.items.Add(v.stripe, uint64(at.to-at.from))
	s.items = v.list.Append(s.items[:0], at.from, at.to)
	out.own = s.items
	return out, nil
}

// move moves the user on as a request asks for.
func (v *visit) move(q *query) (moved, error) {
	f, g, length := v.f, v.g, v.list.Len()
	if !v.known() {
		if v.inline && g.fallback.costly(0) {
			return moved{}, errCostly
		}
		return moved{}, nil
	}
	position, err := f.position(g, &v.user)
	if err != nil {
		return moved{}, err
	}
	at := moved{from: position, position: position}
	if q.from >= 0 {
		at.from = q.from
	}
	at.to = min(at.from+q.size, length)
	// Between here and there others may move the user on, to a fill that was not foreseen: rare, and merely slow.
	if v.inline && at.to-at.from < q.size && g.fallback.costly(length) {
		return moved{}, errCostly
	}
	switch {
	case q.peek:
		return at, nil
	case q.from >= 0:
		return f.replay(g, &v.user, q.from, q.size)
	default:
		return f.advance(g, &v.user, q.size)
	}
}

// fill picks fallback items for a request for asked items of which some are missing.
func (v *visit) fill(s *scratch, asked, missing int) []uint16 {
	f, g := v.f, v.g
	var user []byte
	if g.fallback.ranking != nil {
		user = textOf(s, g, v.id)
	}
	fill := g.fallback.pick(s, user, v.list, missing)
	f.stats.fallback.Add(v.stripe, uint64(len(fill)))
	if len(fill) < missing {
		f.stats.short.Add(v.stripe, 1)
		f.noteShort(g, v.id, asked, asked-missing+len(fill))
	}
	return fill
}

// setPosition sets the user's position and returns it.
func (v *visit) setPosition(to int) (int, error) {
	if to < 0 || to > v.list.Len() {
		return 0, &valueError{fmt.Sprintf("position must be a whole number from 0 to %d, the length of the user's list", v.list.Len())}
	}
	_, position, err := v.f.set(v.g, &v.user, func(int) int { return to })
	return position, err
}

// prefetch asks the processor for what visit will ask it for, of several users at once: most of such a wait is for the address to be
// translated, and waits that begin close together are one. Only lists are asked for that are found without waiting.
func (f *Feed) prefetch(stripe int, params [][]byte) {
	g := f.pin(stripe)
	defer g.unpin(stripe)
	if !g.lists.Dense() || !g.lists.InMemory() {
		return
	}
	var ranks [64]uint64
	for len(params) > 0 {
		n := 0
		for ; n < len(ranks) && len(params) > 0; params = params[1:] {
			if rank, ok := parseNumber(params[0]); ok && rank < g.lists.Slots() {
				ranks[n] = rank
				n++
			}
		}
		for _, rank := range ranks[:n] {
			store, cell := f.slots.cell(g, rank, rank, nil)
			store.Prefetch(cell)
			g.lists.Prefetch(rank)
		}
	}
}

// textOf returns the text of a user's id as others know it: of a number without leading zeros.
func textOf(s *scratch, g *generation, id []byte) []byte {
	if g.lists.Users() == snapshot.String {
		return id
	}
	n, _ := parseNumber(id) // visit has seen that it is one
	s.user = appendNumber(s.user[:0], n)
	return s.user
}

func (f *Feed) noteShort(g *generation, id []byte, asked, came int) {
	a := shortAnswer{asked: asked, came: came}
	if g.lists.Users() == snapshot.String {
		a.name = string(id)
	} else {
		a.number, _ = parseNumber(id)
	}
	f.short.note(a)
}

// user is a user of a generation: their list, and the cell that holds their position.
type user struct {
	rank  uint64
	list  snapshot.List
	store *progress.Store // nil for the unknown
	cell  uint64
}

func (u *user) known() bool { return u.list.Tag() != 0 }

// moved is where an advance has taken a user.
type moved struct {
	from, to int // the items given
	position int // the position now saved
}

// errSwapped means that the generation at hand serves no more and the request must be tried with
// the present one. No caller of the package sees it.
var errSwapped = errors.New("another generation serves")

// cursor reads a user's cell and the position in it.
//
// A cell with another tag than g's may hold a position of an older list, which is position 0, or
// one of a newer: then a later generation serves, has given items, and must not be undone. Hence
// the look at the current generation. Without it a million answers over 400 swaps gave 30,000
// items twice.
func (f *Feed) cursor(g *generation, u *user) (cell uint64, pos int, err error) {
	cell = u.store.Load(u.cell)
	if cell>>16 == u.list.Tag() {
		return cell, min(int(cell&0xffff), u.list.Len()), nil
	}
	if f.current.Load() != g {
		return 0, 0, errSwapped
	}
	return cell, 0, nil
}

// position returns a user's position without changing it.
func (f *Feed) position(g *generation, u *user) (int, error) {
	_, pos, err := f.cursor(g, u)
	return pos, err
}

// set changes a user's position by a function of the present one, and returns what it was and
// what it became.
func (f *Feed) set(g *generation, u *user, change func(pos int) int) (from, to int, err error) {
	for {
		cell, from, err := f.cursor(g, u)
		if err != nil {
			return 0, 0, err
		}
		to := change(from)
		if to == from {
			return from, from, nil
		}
		ok, err := u.store.CompareAndSwap(u.cell, cell, u.list.Tag()<<16|uint64(to))
		if err != nil {
			return 0, 0, err
		}
		if ok {
			if end := u.list.Len(); from == end || to == end {
				g.exhausted.note(u)
			}
			return from, to, nil
		}
	}
}

// advance moves a user on by up to n items and returns which ones are theirs.
func (f *Feed) advance(g *generation, u *user, n int) (moved, error) {
	from, to, err := f.set(g, u, func(pos int) int { return min(pos+n, u.list.Len()) })
	return moved{from, to, to}, err
}

// replay gives up to n items from position from on, and leaves the position where it is or, when
// that is further, behind them.
func (f *Feed) replay(g *generation, u *user, from, n int) (moved, error) {
	to := min(from+n, u.list.Len())
	_, position, err := f.set(g, u, func(pos int) int { return max(pos, to) })
	return moved{from, to, position}, err
}

// atEnd says whether nothing is left of the user's list.
func (u *user) atEnd() bool {
	cell, length := u.store.Load(u.cell), u.list.Len()
	return length == 0 || cell>>16 == u.list.Tag() && int(cell&0xffff) >= length
}

// exhausted counts the users of a generation whose position is at the end of their list, by a bit
// a user.
type exhausted struct {
	seen  []atomic.Uint64
	count atomic.Int64
}

// note brings the count in line with a user's cell. Whoever has changed the bit looks at the cell
// again, so the last one to change it leaves it right, although advances, resets and the first
// count run at the same time.
func (e *exhausted) note(u *user) {
	word, bit := &e.seen[u.rank/64], uint64(1)<<(u.rank%64)
	for {
		end := u.atEnd()
		switch {
		case end && word.Or(bit)&bit == 0:
			e.count.Add(1)
		case !end && word.And(^bit)&bit != 0:
			e.count.Add(-1)
		}
		if u.atEnd() == end {
			return
		}
	}
}

// countExhausted finds the users who had come to the end before this generation served.
func (f *Feed) countExhausted(ctx context.Context, g *generation) {
	for rank := range g.lists.Slots() {
		if rank%(1<<16) == 0 && ctx.Err() != nil {
			return
		}
		list, err := g.lists.List(rank)
		if err != nil || list.Tag() == 0 {
			continue
		}
		number, name, _ := g.lists.UserKey(rank)
		u := user{rank: rank, list: list}
		u.store, u.cell = f.slots.cell(g, rank, number, name)
		g.exhausted.note(&u)
	}
}
