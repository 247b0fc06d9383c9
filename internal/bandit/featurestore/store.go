// Package featurestore reads the posteriors of items and the segments of users from a feature store that
// somebody else fills: Feast through its feature server (feast+http), Feast's Redis online store directly
// (feast+redis), and Vertex AI Feature Store (vertex).
//
// Answers are cached and shared as package flight describes: fresh ones come from memory, older ones are
// given while the store fails, and a call that was given some is degraded.
//
// An entity that the store does not know, or has no values for, is an answer too (Arm.Known is false, a
// segment is "") and is cached as one. So is an entity with values that no posterior can have, a NaN or
// more clicks than impressions; those are counted and logged. A feature that no entity has for long is
// logged, too, as it may be misspelled.
//
// How old a value is, is the store's business first: what Feast calls OUTSIDE_MAX_AGE counts as absent. But
// its servers may say PRESENT of values beyond the ttl of their view, and Redis says nothing:
// Options.MaxAge goes by the time at which a value was observed.
//
// Errors say which flag to change. They and the log never hold the credentials of a URL.
//
// A Store is safe for concurrent use. It keeps no slice and no string it is given.
package featurestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"weir/internal/flight"
	"weir/internal/metrics"
)

// ErrRefused is what calls fail with that the store would have to be asked for while Options.Refuse says
// not to.
var ErrRefused = flight.ErrRefused

// Arm is the posterior of an item.
type Arm struct {
	Alpha, Beta float64
	Known       bool // false: the store does not know the item, or has no usable values for it
}

// A Store answers from one feature store and a cache in front of it.
type Store struct {
	o        Options
	backend  backend
	fetches  *flight.Group
	items    *flight.Cache[string, Arm]
	users    *flight.Cache[string, string] // nil if users have no segments
	metrics  *storeMetrics
	counters map[string]flight.Counters // by entity
	complain complaints
	seen     seen
	close    func() error // of the backend, once
}

// Open returns a store that reads from what a URL names. It does not wait for it to be up: calls find that
// out.
//
//	feast+http://HOST:6566, feast+https://HOST            Feast's feature server
//	feast+redis://HOST:6379/PROJECT, feast+rediss://...   Feast's online store in Redis or Valkey
//	vertex://PROJECT/LOCATION/STORE/ENTITYTYPE            Vertex AI Feature Store
func Open(url string, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b, err := dial(url, &o)
	if err != nil {
		return nil, err
	}
	return open(b, o), nil
}

// Check returns what is wrong with a URL and options by themselves. Files that are missing are not: Open
// finds that out.
func Check(url string, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	b, err := dial(url, &o)
	if file := (*os.PathError)(nil); errors.As(err, &file) {
		return nil
	}
	if err != nil {
		return err
	}
	return b.close()
}

// open is Open with a backend that is there already and options that are complete.
func open(b backend, o Options) *Store {
	s := &Store{o: o, backend: b, counters: make(map[string]flight.Counters),
		fetches: flight.NewGroup(o.Concurrency), close: sync.OnceValue(b.close)}
	s.metrics = newStoreMetrics(o.Metrics)
	s.complain.log = o.Log

	items := o.itemTable()
	s.items = newCache(s, "item", func(ctx context.Context, ids []string, dst []Arm) error {
		return read(ctx, s, items, ids, func(i int, row []value) {
			arm, wrong := o.arm(row)
			if wrong != "" {
				s.complain.invalid(s.metrics, "item", ids[i], wrong)
			}
			if dst[i] = arm; arm.Known {
				s.seen.note(ids[i], o.Chunk)
			}
		})
	})
	if o.UserView != "" {
		users := o.userTable()
		s.users = newCache(s, "user", func(ctx context.Context, ids []string, dst []string) error {
			return read(ctx, s, users, ids, func(i int, row []value) {
				segment, wrong := o.segment(row)
				if wrong != "" {
					s.complain.invalid(s.metrics, "user", ids[i], wrong)
				}
				// Segments are few and users are many: equal ones share their memory.
				dst[i] = unique.Make(segment).Value()
			})
		})
	}
	o.Metrics.Gauge("weir_bandit_store_up", "Whether the last fetch from the feature store succeeded.",
		func() float64 {
			if s.Ready() != nil {
				return 0
			}
			return 1
		})
	o.Metrics.Gauge("weir_bandit_store_fetches", "Fetches from the feature store under way.",
		func() float64 { return float64(s.fetches.Running()) })
	return s
}

// newCache returns the cache of one kind of entity.
func newCache[V any](s *Store, entity string, fetch flight.Fetch[string, V]) *flight.Cache[string, V] {
	r := s.o.Metrics
	s.counters[entity] = flight.Counters{
		Hits: r.Counter("weir_bandit_store_cache_hits_total", "Entities answered from memory.",
			"entity", entity),
		Misses: r.Counter("weir_bandit_store_cache_misses_total",
			"Entities memory had no fresh answer for.", "entity", entity),
		Stale: r.Counter("weir_bandit_store_stale_total",
			"Entities answered with what is older than its TTL, because the store failed.", "entity", entity),
		Skipped: r.Counter("weir_bandit_store_skipped_total",
			"Entities that calls failed for at once, because the store hangs.", "entity", entity),
	}
	c := flight.New(s.fetches, flight.Options{
		Chunk: s.o.Chunk, Timeout: s.o.Timeout, TTL: s.o.TTL, Stale: s.o.Stale, Retry: s.o.Retry,
		Entries: s.o.CacheEntries,
		Refuse:  s.o.Refuse, Failed: s.failed,
		Recovered: func() {
			if s.Ready() == nil {
				s.complain.over()
			}
		},
		Took:     func(d time.Duration) { s.metrics.duration.Observe(0, d, 1) },
		Counters: s.counters[entity],
	}, fetch)
	r.Gauge("weir_bandit_store_cache_entries", "Entities in memory.",
		func() float64 { return float64(c.Len()) }, "entity", entity)
	return c
}

// read fetches one chunk and gives its rows, one an id, to each.
func read(ctx context.Context, s *Store, t *table, ids []string, each func(i int, row []value)) error {
	values := make([]value, len(ids)*len(t.features))
	if err := s.backend.fetch(ctx, t, ids, values); err != nil {
		return err
	}
	oldest := int64(0)
	if s.o.MaxAge > 0 {
		oldest = time.Now().Add(-s.o.MaxAge).UnixNano()
	}
	had := make([]bool, len(t.features)) // for any of the ids
	unknown := 0
	for i := range ids {
		row := values[i*len(t.features) : (i+1)*len(t.features)]
		for j := range row {
			had[j] = had[j] || row[j].kind != kindAbsent
			if row[j].at != 0 && row[j].at < oldest {
				row[j] = value{}
			}
		}
		if slices.ContainsFunc(row, func(v value) bool { return v.kind == kindAbsent }) {
			unknown++
		}
		each(i, row)
	}
	if t.flag == "item" {
		if err := s.checkLost(ctx, t, ids, slices.Contains(had, true)); err != nil {
			return err
		}
	}
	s.metrics.fetched[t.flag].Add(0, uint64(len(ids)))
	s.metrics.unknown[t.flag].Add(0, uint64(unknown))
	s.wonder(t, len(ids), had)
	return nil
}

// strangers is how many entities in a row without a feature look like a store that is asked for the wrong
// things: not all kinds of stores tell those from what they do not have.
const strangers = 1000

// wonder says, at most once in wonderEvery, which features no entity has had for long, after so many more
// that had these.
func (s *Store) wonder(t *table, entities int, had []bool) {
	var missing []string
	for j, feature := range t.features {
		if had[j] {
			t.without[j].Store(0)
		} else if t.without[j].Add(int64(entities)) >= strangers {
			missing = append(missing, feature)
		}
	}
	if len(missing) > 0 && due(&t.wondered, wonderEvery) {
		s.o.Log.Warn(fmt.Sprintf("the feature store has had no value of these features for any of the last "+
			"%d %ss or more; if that is no wonder, all is well, and else the project in --bandit-store, "+
			"--bandit-store-%[2]s-view, --bandit-store-%[2]s-entity, --bandit-store-id-type and the names "+
			"of features are to be looked at", strangers, t.flag),
			"store", s.backend.String(), "view", t.view, "entity", t.entity, "features", missing)
	}
}

// Arms sets dst[i] to the posterior of ids[i]. The slices have one length. It is degraded when something of
// the answer is older than the TTL because the store failed. After an error dst has no meaning.
func (s *Store) Arms(ctx context.Context, ids []string, dst []Arm) (degraded bool, err error) {
	return s.items.Get(ctx, ids, dst)
}

// Segments sets dst[i] to the segment of users[i], "" if it has none. It is degraded, and fails, as Arms
// does.
func (s *Store) Segments(ctx context.Context, users []string, dst []string) (degraded bool, err error) {
	if s.users == nil {
		clear(dst)
		return false, nil
	}
	return s.users.Get(ctx, users, dst)
}

// Ready returns nil, or why the last fetch failed.
func (s *Store) Ready() error {
	if err := s.items.Err(); err != nil || s.users == nil {
		return err
	}
	return s.users.Err()
}

// Close ends all fetches and waits for them. Calls under way fail.
func (s *Store) Close() error {
	s.fetches.Close()
	return s.close()
}

// failed counts and logs a fetch that failed, and says what to do about it.
func (s *Store) failed(failure flight.Failure) error {
	kind, err := faultUnreachable, failure.Err
	var f *fault
	switch {
	case failure.NoTurn && failure.Chunks > s.o.Concurrency:
		kind, err = faultLong,
			fmt.Errorf("%v (--bandit-store-timeout) is too short for %d chunks, %d at a time; raise it, "+
				"--bandit-store-chunk or "+
				"--bandit-store-concurrency", s.o.Timeout, failure.Chunks, s.o.Concurrency)
	case failure.NoTurn:
		kind, err = faultBusy,
			fmt.Errorf("%d fetches were under way for most of %v; raise --bandit-store-concurrency if the "+
				"store can do more",
				s.o.Concurrency, s.o.Timeout)
	case failure.Panicked:
		kind = faultBug
	case errors.As(err, &f):
		kind = f.kind
	}
	if kind == faultTimeout || kind == faultUnreachable && f == nil && (failure.Expired || timedOut(err)) {
		// Every backend has its own words for it.
		kind, err = faultTimeout, fmt.Errorf("no answer within %v (--bandit-store-timeout)", s.o.Timeout)
	}
	s.metrics.errors[kind].Add(0, 1)
	err = fmt.Errorf("feature store %s: %w", s.backend, &fault{kind, err})
	s.complain.failed(kind, err)
	return err
}

// timedOut reports whether an error is of a deadline, which may reach others a little before it ends the
// context.
func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// complaints are logged at most once in complainEvery each, whatever the rate they come at.
type complaints struct {
	log         *slog.Logger
	lastFailure [faultKinds]atomic.Int64
	lastInvalid atomic.Int64
	open        atomic.Bool // a failure was logged, and not yet that it is over
}

const (
	complainEvery = 10 * time.Second
	wonderEvery   = 10 * time.Minute // it may be no wonder
)

// due reports, to one caller in that time, that something may be logged again.
func due(last *atomic.Int64, every time.Duration) bool {
	now := time.Now().UnixNano()
	was := last.Load()
	return now-was >= int64(every) && last.CompareAndSwap(was, now)
}

func (c *complaints) failed(kind faultKind, err error) {
	if due(&c.lastFailure[kind], complainEvery) {
		c.open.Store(true)
		c.log.Error("cannot read the feature store", "error", err)
	}
}

// over says that failures are, once for all that were logged.
func (c *complaints) over() {
	if c.open.Swap(false) {
		c.log.Info("the feature store answers again")
	}
}

func (c *complaints) invalid(m *storeMetrics, entity, id, wrong string) {
	m.invalid.Add(0, 1)
	if due(&c.lastInvalid, complainEvery) {
		c.log.Warn("the feature store has values that cannot be used; the entity counts as unknown", entity,
			id, "reason", wrong)
	}
}

// storeMetrics are what a store counts besides its caches.
type storeMetrics struct {
	fetched, unknown map[string]*metrics.Counter // by table.flag
	invalid          *metrics.Counter
	errors           [faultKinds]*metrics.Counter
	duration         *metrics.Histogram
}

func newStoreMetrics(r *metrics.Registry) *storeMetrics {
	m := &storeMetrics{
		fetched: make(map[string]*metrics.Counter),
		unknown: make(map[string]*metrics.Counter),
		invalid: r.Counter("weir_bandit_store_invalid_total",
			"Entities whose values in the feature store cannot be used."),
		duration: r.Histogram("weir_bandit_store_fetch_duration_seconds",
			"Time the feature store took for a chunk of entities."),
	}
	for _, entity := range []string{"item", "user"} {
		m.fetched[entity] = r.Counter("weir_bandit_store_entities_fetched_total",
			"Entities the feature store answered for, unknown ones included.", "entity", entity)
		m.unknown[entity] = r.Counter("weir_bandit_store_unknown_total",
			"Of these, entities the feature store has not all features of.", "entity", entity)
	}
	for kind := range m.errors {
		m.errors[kind] = r.Counter("weir_bandit_store_errors_total", "Failed fetches from the feature store.",
			"kind", faultKind(kind).String())
	}
	return m
}
