// Package featurestore reads the posteriors of items and the segments of users from a feature store that
// somebody else fills: Feast through its feature server (feast+http), Feast's Redis online store directly
// (feast+redis), and Vertex AI Feature Store (vertex).
//
// A call names any number of entities. What a cache has of them that is younger than its TTL is answered
// from memory, and fetched anew in the background when four fifths of the TTL are over, so that nobody waits for what
// is in use. The others are asked for in chunks, several at a time, with one deadline for all; the first chunk
// that fails ends the call and cancels the others, unless all that failed has older answers: those may be
// given for as long as Options.Stale says, and the call is then degraded. Concurrent calls share what they ask for:
// an entity is fetched once at a time, and a call that is cancelled takes nothing away from the others.
// While a store fails, entities with older answers are not waited for, and one fetch every
// Options.Retry, in the background, whether or not anybody calls, finds out whether it is back. While it hangs, which is to fail by taking most of
// Options.Timeout, nothing is waited for: calls for what there is no answer of fail at once. It is the first calls alone that wait.
//
// An entity that the store does not know, or has no values for, is an answer too (Arm.Known is false, a segment is
// "") and is cached as one. So is an entity with values that no posterior can have, a NaN or more clicks than
// impressions; those are counted and logged. A feature that no entity has for long is logged, too, as it may be misspelled.
//
// How old a value is, is the store's business first: what Feast calls OUTSIDE_MAX_AGE counts as absent. But its servers
// may say PRESENT of values beyond the ttl of their view, and Redis says nothing: Options.MaxAge goes by the time at
// which a value was observed.
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
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"weir/internal/metrics"
)

// ErrClosed is what calls after Close fail with.
var ErrClosed = errors.New("the feature store is closed")

// ErrRefused is what calls fail with that the store would have to be asked for while Options.Refuse says not to.
var ErrRefused = errors.New("the server is overloaded and does not ask the feature store")

// Arm is the posterior of an item.
type Arm struct {
	Alpha, Beta float64
	Known       bool // false: the store does not know the item, or has no usable values for it
}

// A Store answers from one feature store and a cache in front of it.
type Store struct {
	o        Options
	backend  backend
	items    *cache[Arm]
	users    *cache[string] // nil if users have no segments
	metrics  *storeMetrics
	slots    chan struct{} // one for each fetch at a time
	complain complaints

	began  time.Time       // where its clock starts
	ctx    context.Context // of all fetches
	cancel context.CancelFunc

	mu      sync.Mutex // guards closed, and fetching from being added to after it
	closed  bool
	running sync.WaitGroup
}

// Open returns a store that reads from what a URL names. It does not wait for it to be up: that is found
// out by calls. That ctx ends later is no matter, or a server that is being stopped could not answer its last requests.
//
//	feast+http://HOST:6566, feast+https://HOST            Feast's feature server
//	feast+redis://HOST:6379/PROJECT, feast+rediss://...   Feast's online store in Redis or Valkey
//	vertex://PROJECT/LOCATION/STORE/ENTITYTYPE            Vertex AI Feature Store
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	b, err := dial(url, &o)
	if err != nil {
		return nil, err
	}
	return open(ctx, b, o)
}

// open is Open with a backend that is there already and options that are complete.
func open(ctx context.Context, b backend, o Options) (*Store, error) {
	s := &Store{o: o, backend: b, began: time.Now(), slots: make(chan struct{}, o.Concurrency)}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.metrics = newStoreMetrics(o.Metrics)
	s.complain.log = o.Log

	items := o.itemTable()
	s.items = newCache(s, "item", func(ctx context.Context, ids []string, dst []Arm) error {
		return read(ctx, s, items, ids, func(i int, row []value) {
			arm, wrong := o.arm(row)
			if wrong != "" {
				s.complain.invalid(s.metrics, "item", ids[i], wrong)
			}
			dst[i] = arm
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
	o.Metrics.Gauge("weir_bandit_store_up", "Whether the last fetch from the feature store succeeded.", func() float64 {
		if s.Ready() != nil {
			return 0
		}
		return 1
	})
	o.Metrics.Gauge("weir_bandit_store_fetches", "Fetches from the feature store under way.", func() float64 { return float64(len(s.slots)) })
	return s, nil
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
	s.metrics.fetched[t.flag].Add(0, uint64(len(ids)))
	s.metrics.unknown[t.flag].Add(0, uint64(unknown))
	s.wonder(t, len(ids), had)
	return nil
}

// strangers is how many entities in a row without a feature look like a store that is asked for the wrong things:
// not all kinds of stores tell those from what they do not have.
const strangers = 1000

// wonder says, at most once in wonderEvery, which features no entity has had for long, after so many more that had these.
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
		s.o.Log.Warn(fmt.Sprintf("the feature store has had no value of these features for any of the last %d %ss or more; if that is no wonder, all is well, and else the project in --bandit-store, "+
			"--bandit-store-%[2]s-view, --bandit-store-%[2]s-entity, --bandit-store-id-type and the names of features are to be looked at", strangers, t.flag),
			"store", s.backend.String(), "view", t.view, "entity", t.entity, "features", missing)
	}
}

// Arms sets dst[i] to the posterior of ids[i]. The slices have one length. It is degraded when something of the
// answer is older than the TTL because the store failed. After an error dst has no meaning.
func (s *Store) Arms(ctx context.Context, ids []string, dst []Arm) (degraded bool, err error) {
	return s.items.get(ctx, ids, dst)
}

// Segments sets dst[i] to the segment of users[i], "" if it has none. It is degraded, and fails, as Arms does.
func (s *Store) Segments(ctx context.Context, users []string, dst []string) (degraded bool, err error) {
	if s.users == nil {
		clear(dst)
		return false, nil
	}
	return s.users.get(ctx, users, dst)
}

// Ready returns nil, or why the last fetch failed.
func (s *Store) Ready() error {
	if err := s.items.health.err(); err != nil || s.users == nil {
		return err
	}
	return s.users.health.err()
}

// now is the time since the store was opened. The system's clock being set does not change it.
func (s *Store) now() time.Duration { return time.Since(s.began) }

// health is whether the store answers for one kind of entity.
type health struct {
	failed atomic.Pointer[failure] // nil if the last fetch succeeded
}

// failure is why the last fetch failed.
type failure struct {
	err error
	// The store had taken most of the time there is: whoever asks it next waits as long, and for nothing.
	hung bool
}

// failing returns nil if the store answers.
func (h *health) failing() *failure { return h.failed.Load() }

func (h *health) err() error {
	if f := h.failing(); f != nil {
		return f.err
	}
	return nil
}

// Close ends all fetches and waits for them. Calls under way fail.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	if closed {
		return nil
	}
	return s.backend.close()
}

// start runs a fetch in a goroutine of its own, unless the store is closed.
func (s *Store) start(fetch func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.running.Go(fetch)
	return nil
}

// within runs one fetch, of a call of so many, inside the bound on fetches at a time, and files how it went.
func (s *Store) within(ctx context.Context, h *health, chunks int, fetch func(context.Context) error) (err error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done(): // which says nothing of how long the store takes
		return s.file(ctx, h, 0, s.late(chunks))
	}
	// A goroutine of its own has nobody above who would catch a panic.
	defer func() {
		if p := recover(); p != nil {
			err = s.file(ctx, h, 0, &fault{kind: faultBug, err: fmt.Errorf("BUG: reading the feature store panicked: %v", p)})
		}
	}()
	began := time.Now()
	err = fetch(ctx)
	took := time.Since(began)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && took < s.o.Timeout/2 {
		err = s.late(chunks) // it was asked when most of the time was over
	}
	s.metrics.duration.Observe(0, took, 1)
	return s.file(ctx, h, took, err)
}

// late is the error of a fetch, of a call of so many, that had to wait until there was no time for it.
func (s *Store) late(chunks int) error {
	if chunks > cap(s.slots) {
		return &fault{kind: faultLong, err: fmt.Errorf("%v (--bandit-store-timeout) is too short for %d chunks, %d at a time; raise it, --bandit-store-chunk or --bandit-store-concurrency",
			s.o.Timeout, chunks, cap(s.slots))}
	}
	return &fault{kind: faultBusy, err: fmt.Errorf("%d fetches were under way for most of %v; raise --bandit-store-concurrency if the store can do more",
		cap(s.slots), s.o.Timeout)}
}

// file remembers whether the store answers, and how long it took. What was cancelled, because nobody waits for it any more, says nothing.
func (s *Store) file(ctx context.Context, h *health, took time.Duration, err error) error {
	switch {
	case err == nil:
		if h.failed.Swap(nil) != nil && s.Ready() == nil {
			s.complain.over()
		}
		return nil
	case s.ctx.Err() != nil:
		return ErrClosed
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	}
	kind := faultUnreachable
	var f *fault
	if errors.As(err, &f) {
		kind = f.kind
	}
	if kind == faultTimeout || f == nil && (ctx.Err() != nil || timedOut(err)) {
		// Every backend has its own words for it.
		kind = faultTimeout
		err = &fault{kind, fmt.Errorf("no answer within %v (--bandit-store-timeout)", s.o.Timeout)}
	}
	s.metrics.errors[kind].Add(0, 1)
	err = fmt.Errorf("feature store %s: %w", s.backend, err)
	h.failed.Store(&failure{err: err, hung: took >= s.o.Timeout/2})
	s.complain.failed(kind, err)
	return err
}

// timedOut reports whether an error is of a deadline, which may reach others a little before it ends the context.
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
		c.log.Warn("the feature store has values that cannot be used; the entity counts as unknown", entity, id, "reason", wrong)
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
		fetched:  make(map[string]*metrics.Counter),
		unknown:  make(map[string]*metrics.Counter),
		invalid:  r.Counter("weir_bandit_store_invalid_total", "Entities whose values in the feature store cannot be used."),
		duration: r.Histogram("weir_bandit_store_fetch_duration_seconds", "Time the feature store took for a chunk of entities."),
	}
	for _, entity := range []string{"item", "user"} {
		m.fetched[entity] = r.Counter("weir_bandit_store_entities_fetched_total", "Entities the feature store answered for, unknown ones included.", "entity", entity)
		m.unknown[entity] = r.Counter("weir_bandit_store_unknown_total", "Of these, entities the feature store has not all features of.", "entity", entity)
	}
	for kind := range m.errors {
		m.errors[kind] = r.Counter("weir_bandit_store_errors_total", "Failed fetches from the feature store.", "kind", faultKind(kind).String())
	}
	return m
}
