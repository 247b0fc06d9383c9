package featurestore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"weir/internal/metrics"
)

// cache is what a store said of one kind of entity, and the fetches that are under way for more of it.
//
// The library bounds it and decides what to evict. How old an entry is, is looked at here, because one that is
// too old to be used without asking is still good for when asking fails; and fetches are shared here, because
// they go by the chunk, and must outlive the call that started them if others joined.
type cache[V any] struct {
	s       *Store
	entries *otter.Cache[string, entry[V]] // nil: nothing is kept
	fetch   func(ctx context.Context, ids []string, dst []V) error

	health              health
	next                atomic.Pointer[[]string] // ids that were asked for since a failing store was last tried
	hits, misses, stale *metrics.Counter
	skipped             *metrics.Counter

	mu      sync.Mutex
	flights map[string]seat[V] // the ids that are being fetched
	trying  bool               // try runs
}

// entry is what the store said of an entity.
type entry[V any] struct {
	value V
	at    time.Duration // when, on the store's clock
}

// flight is the fetch of one chunk.
type flight[V any] struct {
	ids    []string
	ctx    context.Context
	values []V   // valid once it has landed, if err is nil
	err    error // as values
	chunks int   // of the call that it is of

	// The cache's lock guards what follows.
	cancel  context.CancelFunc
	waiting []chan *flight[V] // told when it lands; a fetch that nobody waits for is cancelled
	unasked bool              // it was sent by itself: nobody needs to wait for it
}

// seat is the place of an id in a flight.
type seat[V any] struct {
	flight *flight[V]
	row    int
}

// want is an id of a call that memory has no fresh answer for.
type want[V any] struct {
	i     int  // in the call
	stale bool // there is an older answer, and dst[i] is it
	seat[V]
}

func newCache[V any](s *Store, entity string, fetch func(ctx context.Context, ids []string, dst []V) error) *cache[V] {
	r := s.o.Metrics
	c := &cache[V]{
		s: s, fetch: fetch, flights: make(map[string]seat[V]),
		hits:    r.Counter("weir_bandit_store_cache_hits_total", "Entities answered from memory.", "entity", entity),
		misses:  r.Counter("weir_bandit_store_cache_misses_total", "Entities memory had no fresh answer for.", "entity", entity),
		stale:   r.Counter("weir_bandit_store_stale_total", "Entities answered with what is older than its TTL, because the store failed.", "entity", entity),
		skipped: r.Counter("weir_bandit_store_skipped_total", "Entities that calls failed for at once, because the store hangs.", "entity", entity),
	}
	if s.o.TTL > 0 || s.o.Stale > 0 {
		// Without an expiry of its own it need not read the clock for every id.
		c.entries = otter.Must(&otter.Options[string, entry[V]]{MaximumSize: s.o.CacheEntries})
	}
	r.Gauge("weir_bandit_store_cache_entries", "Entities in memory.", func() float64 {
		if c.entries == nil {
			return 0
		}
		return float64(c.entries.EstimatedSize())
	}, "entity", entity)
	return c
}

// get sets dst[i] to the value of ids[i].
func (c *cache[V]) get(ctx context.Context, ids []string, dst []V) (degraded bool, err error) {
	if len(ids) != len(dst) {
		panic(fmt.Sprintf("BUG: %d ids and room for %d values", len(ids), len(dst)))
	}
	if c.s.ctx.Err() != nil {
		return false, ErrClosed
	}
	wants, aging := c.look(ids, dst)
	refused := len(wants)+len(aging) > 0 && c.s.o.Refuse != nil && c.s.o.Refuse()
	if len(aging) > 0 && !refused && c.health.failing() == nil {
		c.send(aging)
	}
	c.hits.Add(0, uint64(len(ids)-len(wants)))
	if len(wants) == 0 {
		return false, nil
	}
	c.misses.Add(0, uint64(len(wants)))

	older := 0
	if f := c.health.failing(); f != nil {
		wants, older = c.settle(ids, wants, f.hung)
		if f.hung && len(wants) > 0 {
			c.skipped.Add(0, uint64(len(wants)))
			return false, fmt.Errorf("it hangs, and is not waited for: %w", f.err)
		}
	}
	if len(wants) > 0 && refused {
		if slices.ContainsFunc(wants, func(w want[V]) bool { return !w.stale }) {
			return false, ErrRefused
		}
		older, wants = older+len(wants), nil
	}
	if len(wants) > 0 {
		n, err := c.ask(ctx, ids, dst, wants)
		if err != nil {
			return false, err
		}
		older += n
	}
	c.stale.Add(0, uint64(older))
	return older > 0, nil
}

// look answers what it can from memory and returns the rest. aging are those ids among the answered whose TTL is
// nearly over: whoever is still asked for is fetched before that, so that nobody has to wait for it.
func (c *cache[V]) look(ids []string, dst []V) (wants []want[V], aging []string) {
	if c.entries == nil {
		wants = make([]want[V], len(ids))
		for i := range wants {
			wants[i].i = i
		}
		return wants, nil
	}
	now := c.s.now()
	soon := c.s.o.TTL - c.s.o.TTL/5
	for i, id := range ids {
		e, ok := c.entries.GetIfPresent(id)
		switch age := now - e.at; {
		case ok && age < soon:
			dst[i] = e.value
		case ok && age < c.s.o.TTL:
			dst[i] = e.value
			aging = append(aging, id)
		case ok && age < c.s.o.TTL+c.s.o.Stale:
			dst[i] = e.value
			wants = append(wants, want[V]{i: i, stale: true})
		default:
			wants = append(wants, want[V]{i: i})
		}
	}
	return wants, aging
}

// send fetches, in the background, those of the ids that nobody fetches already.
func (c *cache[V]) send(ids []string) {
	var sent []*flight[V]
	c.mu.Lock()
	for _, id := range ids {
		if _, flies := c.flights[id]; flies {
			continue
		}
		if len(sent) == 0 || len(sent[len(sent)-1].ids) == c.s.o.Chunk {
			f := c.newFlight()
			f.unasked = true
			sent = append(sent, f)
		}
		c.board(sent[len(sent)-1], id)
	}
	c.mu.Unlock()
	for _, f := range sent {
		c.launch(f)
	}
}

// settle gives older answers while the store fails, without waiting for it, and returns what there are none
// for. Some of those that nobody waits for are what is tried next; where it hangs these are all.
func (c *cache[V]) settle(ids []string, wants []want[V], hung bool) (rest []want[V], older int) {
	rest = make([]want[V], 0, len(wants))
	full := c.next.Load() != nil
	var next []string
	for _, w := range wants {
		if !full && (w.stale || hung) && len(next) < c.s.o.Chunk {
			next = append(next, strings.Clone(ids[w.i]))
		}
		if w.stale {
			older++
		} else {
			rest = append(rest, w)
		}
	}
	if len(next) > 0 {
		c.next.Store(&next)
	}
	return rest, older
}

// tryAgain has the store tried in the background after a fetch of the ids has failed, unless it is already.
func (c *cache[V]) tryAgain(ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.trying && c.health.failing() != nil {
		c.trying = c.s.start(func() { c.try(ids) }) == nil
	}
}

// try asks a failing store until it answers: at once, as it may have been one fetch alone that failed, and then every
// Options.Retry. It asks for what calls did since, or for the same again.
func (c *cache[V]) try(ids []string) {
	wait := time.NewTicker(c.s.o.Retry)
	defer wait.Stop()
	for c.failing() {
		if next := c.next.Swap(nil); next != nil {
			ids = *next
		}
		wants := make([]want[V], len(ids))
		for i := range wants {
			wants[i].i = i
		}
		if _, err := c.ask(c.s.ctx, ids, make([]V, len(ids)), wants); err == nil {
			continue // it answers
		}
		select {
		case <-c.s.ctx.Done():
			return
		case <-wait.C:
		}
	}
}

// failing reports to try whether the store still fails. Who finds it failing after it has said no has it tried anew.
func (c *cache[V]) failing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = c.health.failing() != nil
	return c.trying
}

// ask fetches the wants, or waits for others who fetch them already, and returns how many of them keep their older
// answers because that failed. The first failure that there is no older answer for ends it.
func (c *cache[V]) ask(ctx context.Context, ids []string, dst []V, wants []want[V]) (older int, err error) {
	landed := make(chan *flight[V], len(wants)) // has room for all: who lands never waits
	var all, mine []*flight[V]
	c.mu.Lock()
	for k := range wants {
		w := &wants[k]
		at, flies := c.flights[ids[w.i]]
		if !flies {
			if len(mine) == 0 || len(mine[len(mine)-1].ids) == c.s.o.Chunk {
				mine = append(mine, c.newFlight())
			}
			at = c.board(mine[len(mine)-1], ids[w.i])
		}
		w.seat = at
		// Nobody else can have come since this call was entered.
		if n := len(at.flight.waiting); n == 0 || at.flight.waiting[n-1] != landed {
			at.flight.waiting = append(at.flight.waiting, landed)
			all = append(all, at.flight)
		}
	}
	c.mu.Unlock()
	for _, f := range mine {
		f.chunks = len(mine)
		c.launch(f)
	}

	for range all {
		select {
		case f := <-landed:
			if f.err == nil {
				continue
			}
			if slices.ContainsFunc(wants, func(w want[V]) bool { return w.flight == f && !w.stale }) {
				c.leave(all, landed)
				return 0, f.err
			}
		case <-ctx.Done():
			c.leave(all, landed)
			return 0, ctx.Err()
		}
	}
	for _, w := range wants {
		if w.flight.err == nil {
			dst[w.i] = w.flight.values[w.row]
		} else {
			older++
		}
	}
	return older, nil
}

// newFlight returns a flight without passengers. It has to be launched.
func (c *cache[V]) newFlight() *flight[V] {
	f := &flight[V]{}
	f.ctx, f.cancel = context.WithTimeout(c.s.ctx, c.s.o.Timeout)
	return f
}

// board takes an id into a flight. The caller holds the lock.
func (c *cache[V]) board(f *flight[V], id string) seat[V] {
	id = strings.Clone(id) // it stays in memory, and the caller's may be part of something big
	f.ids = append(f.ids, id)
	at := seat[V]{f, len(f.ids) - 1}
	c.flights[id] = at
	return at
}

// launch fetches in the background.
func (c *cache[V]) launch(f *flight[V]) {
	err := c.s.start(func() {
		defer f.cancel()
		f.values = make([]V, len(f.ids))
		asked := c.s.now()
		err := c.s.within(f.ctx, &c.health, f.chunks, func(ctx context.Context) error {
			return c.fetch(ctx, f.ids, f.values)
		})
		if err == nil && c.entries != nil {
			for i, id := range f.ids {
				c.entries.Set(id, entry[V]{f.values[i], asked})
			}
		}
		c.land(f, err)
		if err != nil {
			c.tryAgain(f.ids)
		}
	})
	if err != nil {
		f.cancel()
		c.land(f, err)
	}
}

// land tells everybody who waits for a flight how it went.
func (c *cache[V]) land(f *flight[V], err error) {
	c.mu.Lock()
	f.err = err
	c.forget(f)
	waiting := f.waiting
	f.waiting = nil
	c.mu.Unlock()
	for _, w := range waiting {
		w <- f
	}
}

// leave waits no longer. Flights that nobody waits for then are cancelled.
func (c *cache[V]) leave(flights []*flight[V], landed chan *flight[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range flights {
		i := slices.Index(f.waiting, landed)
		if i < 0 {
			continue
		}
		f.waiting = slices.Delete(f.waiting, i, i+1)
		if len(f.waiting) == 0 && !f.unasked {
			c.forget(f) // who comes now must not join it
			f.cancel()
		}
	}
}

// forget lets nobody join a flight any more. The caller holds the lock.
func (c *cache[V]) forget(f *flight[V]) {
	for _, id := range f.ids {
		if c.flights[id].flight == f {
			delete(c.flights, id)
		}
	}
}
