// Package flight is a cache in front of something that is slow or may fail, and that takes many keys in one
// fetch: a feature store, a site.
//
// A call names any number of keys. Values younger than the TTL come from memory, and are fetched anew in
// the background when four fifths of the TTL are over, so that nobody waits for what is in use. The others
// are fetched in chunks, several at a time. Concurrent calls share fetches: a key is fetched once at a
// time, a fetch outlives the call that began it for as long as another waits for it or nobody needs to, and
// a call whose context ends waits no longer. The first chunk that fails ends a call, unless all that failed
// have older values: those are given for as long as Options.Stale says, and the call is then degraded.
//
// While the source fails, keys with older values are not waited for, and one fetch every Options.Retry, in
// the background, whether or not anybody calls, finds out whether it is back. While it hangs, which is to
// fail by taking half of Options.Timeout, nothing is waited for: calls that need it fail at once.
//
// Failure is a matter of a whole Cache: for several sources that fail apart, make several in one Group. All
// methods are safe for concurrent use. A Cache keeps no slice that it is given, and copies of keys that are
// strings.
package flight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"weir/internal/metrics"
)

var (
	// ErrClosed is returned after Group.Close.
	ErrClosed = errors.New("closed")
	// ErrRefused is returned for what would have to be fetched while Options.Refuse says not to.
	ErrRefused = errors.New("the server is overloaded and does not ask")
)

// Options of a Cache. Chunk, Timeout, Retry and Entries must be above 0.
type Options struct {
	Chunk   int           // keys of one fetch
	Timeout time.Duration // of a fetch, waiting for its turn included
	TTL     time.Duration // how long a value is fresh; 0 fetches in every call
	Stale   time.Duration // how long past its TTL it may be given while the source fails; 0 is not at all
	Retry   time.Duration // how often a failing source is tried in the background
	Entries int           // values kept

	Refuse func() bool // reports that nothing is to be fetched now; may be nil
	// Failed is told of each failure and returns what calls fail with; may be nil.
	Failed    func(Failure) error
	Recovered func()                       // is told of the first success after a failure; may be nil
	Took      func(duration time.Duration) // is told how long each fetch took; may be nil
	Counters  Counters
}

// Counters count keys. They may be nil, all of them.
type Counters struct {
	Hits, Misses *metrics.Counter // answered from memory, or not
	Stale        *metrics.Counter // answered with an older value because the source failed
	Skipped      *metrics.Counter // that calls failed for at once because the source hangs
}

// Failure is a fetch that failed. A fetch that was cancelled since nobody waits for it is none.
type Failure struct {
	Err      error
	NoTurn   bool // most of its time was over when it could begin
	Panicked bool // Err has what it panicked with
	Expired  bool // its time was over
	Chunks   int  // of the call that it was for
}

// Fetch sets dst[i] to the value of keys[i]. It returns soon after ctx ends.
type Fetch[K comparable, V any] func(ctx context.Context, keys []K, dst []V) error

// Cache is described by the package.
type Cache[K comparable, V any] struct {
	g       *Group
	o       Options
	fetch   Fetch[K, V]
	entries *otter.Cache[K, entry[V]] // nil: nothing is kept

	failed atomic.Pointer[failure] // nil if the last fetch succeeded
	next   atomic.Pointer[[]K]     // keys of calls since a failing source was last tried

	mu       sync.Mutex
	fetching map[K]place[K, V]
	trying   bool // try runs
}

// entry is a value, and when it was asked for on the group's clock.
type entry[V any] struct {
	value V
	at    time.Duration
}

// failure is why the last fetch failed.
type failure struct {
	err  error
	hung bool // it took most of the time there is: whoever asks next would wait as long, in vain
}

// want is a key of a call that memory has no fresh value for.
type want[K comparable, V any] struct {
	i     int  // in the call
	stale bool // there is an older value, and dst[i] is it
	place[K, V]
}

// New returns a cache whose fetches are of a group.
func New[K comparable, V any](g *Group, o Options, fetch Fetch[K, V]) *Cache[K, V] {
	c := &Cache[K, V]{g: g, o: o, fetch: fetch, fetching: make(map[K]place[K, V])}
	if o.TTL > 0 || o.Stale > 0 {
		// How old an entry is, is checked here: one too old to be used is still good for when fetching fails.
		c.entries = otter.Must(&otter.Options[K, entry[V]]{MaximumSize: o.Entries})
	}
	return c
}

// Peek returns a value that is kept and may still be given while the source fails. It fetches nothing.
func (c *Cache[K, V]) Peek(key K) (value V, ok bool) {
	if c.entries == nil {
		return value, false
	}
	e, ok := c.entries.GetIfPresent(key)
	if !ok || c.g.now()-e.at >= c.o.TTL+c.o.Stale {
		return value, false
	}
	return e.value, true
}

// Len returns how many values are kept.
func (c *Cache[K, V]) Len() int {
	if c.entries == nil {
		return 0
	}
	c.entries.CleanUp() // what is to be evicted goes first
	return c.entries.EstimatedSize()
}

// Err returns nil, or why the last fetch failed.
func (c *Cache[K, V]) Err() error {
	if f := c.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// Get sets dst[i] to the value of keys[i]. It is degraded if some are older than the TTL because the source
// failed. After an error dst has no meaning.
func (c *Cache[K, V]) Get(ctx context.Context, keys []K, dst []V) (degraded bool, err error) {
	if len(keys) != len(dst) {
		panic(fmt.Sprintf("BUG: %d keys and room for %d values", len(keys), len(dst)))
	}
	if c.g.ctx.Err() != nil {
		return false, ErrClosed
	}
	wants, aging := c.lookup(keys, dst)
	refused := len(wants)+len(aging) > 0 && c.o.Refuse != nil && c.o.Refuse()
	if len(aging) > 0 && !refused && c.failed.Load() == nil {
		c.refresh(aging)
	}
	count(c.o.Counters.Hits, len(keys)-len(wants))
	count(c.o.Counters.Misses, len(wants))
	if len(wants) == 0 {
		return false, nil
	}

	older := 0
	if f := c.failed.Load(); f != nil {
		wants, older = c.useStale(keys, wants, f.hung)
		if f.hung && len(wants) > 0 {
			count(c.o.Counters.Skipped, len(wants))
			return false, fmt.Errorf("it hangs, and is not waited for: %w", f.err)
		}
	}
	if len(wants) > 0 && refused {
		if slices.ContainsFunc(wants, func(w want[K, V]) bool { return !w.stale }) {
			return false, ErrRefused
		}
		older, wants = older+len(wants), nil
	}
	if len(wants) > 0 {
		n, err := c.wait(ctx, keys, dst, wants)
		if err != nil {
			return false, err
		}
		older += n
	}
	count(c.o.Counters.Stale, older)
	return older > 0, nil
}

func count(c *metrics.Counter, n int) {
	if c != nil && n > 0 {
		c.Add(0, uint64(n))
	}
}

// lookup answers what it can from memory and returns the rest. aging are the keys among the answered whose
// TTL is nearly over.
func (c *Cache[K, V]) lookup(keys []K, dst []V) (wants []want[K, V], aging []K) {
	if c.entries == nil {
		return all[K, V](len(keys)), nil
	}
	now := c.g.now()
	soon := c.o.TTL - c.o.TTL/5
	for i, key := range keys {
		e, ok := c.entries.GetIfPresent(key)
		switch age := now - e.at; {
		case ok && age < soon:
			dst[i] = e.value
		case ok && age < c.o.TTL:
			dst[i] = e.value
			aging = append(aging, key)
		case ok && age < c.o.TTL+c.o.Stale:
			dst[i] = e.value
			wants = append(wants, want[K, V]{i: i, stale: true})
		default:
			wants = append(wants, want[K, V]{i: i})
		}
	}
	return wants, aging
}

// all wants n keys.
func all[K comparable, V any](n int) []want[K, V] {
	wants := make([]want[K, V], n)
	for i := range wants {
		wants[i].i = i
	}
	return wants
}

// useStale gives older values while the source fails, without waiting for it, and returns what there are
// none for. Keys that nobody waits for are tried next.
func (c *Cache[K, V]) useStale(keys []K, wants []want[K, V], hung bool) (rest []want[K, V], older int) {
	rest = make([]want[K, V], 0, len(wants))
	full := c.next.Load() != nil
	var next []K
	for _, w := range wants {
		if !full && (w.stale || hung) && len(next) < c.o.Chunk {
			next = append(next, clone(keys[w.i]))
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

// clone copies a key that is a string: it stays in memory, and the caller's may be part of something big.
func clone[K comparable](key K) K {
	if s, ok := any(key).(string); ok {
		return any(strings.Clone(s)).(K)
	}
	return key
}

// retry has the source tried in the background after a fetch of the keys has failed, unless it is already.
func (c *Cache[K, V]) retry(keys []K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.trying && c.failed.Load() != nil {
		c.trying = c.g.start(func() { c.try(keys) }) == nil
	}
}

// try asks a failing source until it answers: at once, as one fetch alone may have failed, and then every
// Options.Retry. It asks for keys of later calls, or for the same again.
func (c *Cache[K, V]) try(keys []K) {
	wait := time.NewTicker(c.o.Retry)
	defer wait.Stop()
	for c.stillFailing() {
		if next := c.next.Swap(nil); next != nil {
			keys = *next
		}
		if _, err := c.wait(c.g.ctx, keys, make([]V, len(keys)), all[K, V](len(keys))); err == nil {
			continue
		}
		select {
		case <-c.g.ctx.Done():
			return
		case <-wait.C:
		}
	}
}

// stillFailing ends trying if the source answers. A failure after that begins it anew.
func (c *Cache[K, V]) stillFailing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = c.failed.Load() != nil
	return c.trying
}
