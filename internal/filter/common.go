package filter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"weir/internal/cluster"
	"weir/internal/filter/httpcache"
	"weir/internal/filter/shared"
	"weir/internal/filter/syndication"
	"weir/internal/metrics"
)

// Without the engine nodes do not know of each other's fetches. Each then fetches a source at a time by chance
// within so many intervals after it is due, so that few nodes together fetch hardly more often than one does.
const aloneWithin = 4

// engineRetry is how long it takes at least until a lease is asked for again that could not be asked for.
const engineRetry = 5 * time.Second

// startWithin is how long a start waits for the engine.
const startWithin = 30 * time.Second

// common is what a node has in common with others.
type common struct {
	rows    *shared.Rows
	sources *shared.Sources

	fetched [sharings]*metrics.Counter
}

// How a node has come by what a source has.
const (
	leased   = iota // fetched it, for all
	adopted         // took what another node has fetched
	missing         // another one has fetched it, and what came was no longer to be had: fetched it as well
	unshared        // fetched it for itself, without the engine
	sharings
)

// openCommon prepares what start begins.
func (s *Service) openCommon(c *cluster.Client) (*common, error) {
	r, err := shared.OpenRows(context.Background(), shared.Options{Client: c, Store: s.store, Log: s.log,
		Changed: s.changed,
		Set: func(name, value string) {
			if name != globalSetting {
				return
			}
			if err := s.setGlobal(value); err != nil {
				s.log.Error("the global rules of another node are not understood; those before stay", "error", err)
			}
		},
		Fetched: func(url string) {
			if src := s.source(url); src != nil && src.asked.Load() > 0 {
				s.refresh(src, false)
			}
		}})
	if err != nil {
		return nil, err
	}
	s.rows = r
	return &common{rows: r, sources: shared.NewSources(c)}, nil
}

// start reads what has changed since the node was last there. A node that has never had all filters does not
// start without, as it would say of those it has not that they are not there.
func (c *common) start(client *cluster.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	err := client.Load(ctx, shared.Functions)
	if err == nil {
		err = c.rows.CatchUp(ctx)
	}
	if err != nil && (errors.Is(err, shared.ErrForeign) || !c.rows.Complete()) {
		return fmt.Errorf("filters: %w", err)
	}
	return nil // Follow says what is the matter
}

func (c *common) count(m *metrics.Registry) {
	started := time.Now()
	for i, how := range [sharings]string{"leased", "adopted", "missing", "unshared"} {
		c.fetched[i] = m.Counter("weir_filter_cluster_fetches_total",
			"How a node has come by what a source has: it has fetched it for all nodes, has adopted what another "+
				"one has fetched, has found that missing and fetched it as well, or has fetched it unshared, "+
				"without the engine.", "how", how)
	}
	m.Gauge("weir_filter_cluster_behind_seconds",
		"Time since this node was last known to have all changes of filters, or since it started.", func() float64 {
			current, _ := c.rows.Status()
			if current.Before(started) {
				current = started
			}
			return time.Since(current).Seconds()
		})
	m.Gauge("weir_filter_cluster_changes", "Changes of filters that were applied, since the start.",
		func() float64 { n, _ := c.rows.Counts(); return float64(n) })
	m.Gauge("weir_filter_cluster_reloads", "How often all filters were read from the engine, since the start.",
		func() float64 { _, n := c.rows.Counts(); return float64(n) })
}

// fetchCommon fetches a source when it is this node's turn, or takes up what another one has fetched.
func (s *Service) fetchCommon(ctx context.Context, src *source, anew bool) {
	how := leased
	for {
		turn, newer, err := s.common.sources.Turn(ctx, src.url, src.state.Load().Tried)
		switch {
		case ctx.Err() != nil:
			if turn != nil {
				turn.Cancel()
			}
			return
		case err != nil:
			if s.waits(src, time.Now(), anew) {
				return
			}
			s.common.fetched[unshared].Add(0, 1)
			s.fetch(ctx, src, anew, nil)
			return
		case newer == nil:
			src.later.Store(0)
			src.alone.Store(0)
			s.common.fetched[how].Add(0, 1)
			if !s.fetch(ctx, src, anew, turn) {
				continue
			}
			if anew && how == leased {
				if err := s.common.rows.Tell(ctx, src.url); err != nil {
					s.log.Warn("other nodes take up later what was fetched", "error", err)
				}
			}
			return
		}
		if s.adopt(ctx, src, newer) {
			s.common.fetched[adopted].Add(0, 1)
			if !anew {
				return
			}
		} else {
			// What is stored here may be fresh by itself, and is not the latest.
			how, anew = missing, true
		}
	}
}

// waits says whether a source that no lease is to be had for is left for later, as it is for a while if there
// is something of it and no owner asks.
func (s *Service) waits(src *source, now time.Time, anew bool) bool {
	if anew || src.state.Load().Succeeded.IsZero() {
		return false
	}
	at := src.alone.Load()
	if at == 0 {
		at = now.Add(rand.N(aloneWithin * s.live.Load().Interval)).UnixMilli()
		src.alone.Store(at)
	}
	if now.UnixMilli() < at {
		src.later.Store(now.Add(engineRetry + rand.N(engineRetry)).UnixMilli())
		return true
	}
	src.alone.Store(0)
	return false
}

// adopt takes up how another node has fetched a source, and what came. It is false if that is not to be had.
func (s *Service) adopt(ctx context.Context, src *source, newer *shared.State) bool {
	before := src.state.Load()
	entry, has := s.peek(src.url, newer.Version)
	if !has && newer.Version != 0 {
		data, err := s.common.sources.Body(ctx, src.url)
		if err == nil && data != nil {
			err = s.cache.Import(data)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("what another node has fetched cannot be taken up", "source", redact(src.url), "error", err)
		}
		entry, has = s.peek(src.url, newer.Version)
	}
	var feed *syndication.Feed // nil where nothing has changed
	if has && (entry.Version != src.version.Load() || src.known.Load() == nil) {
		var err error
		if feed, err = s.parse(ctx, entry.Body(), entry.Header.Get("Content-Type"), entry.URL); err != nil {
			entry.Release()
			has = false
		} else {
			src.know(feed)
		}
	}
	src.state.Store(s.newState(newer.Fetch, newer.Checked))
	s.store.Fetched(src.url, newer.Fetch)
	if has {
		s.take(ctx, src, entry, feed)
		if feed == nil && !before.Modified.Equal(newer.Modified) {
			s.redate(ctx, src)
		}
	}
	// One that fails now is not asked for what it had before.
	return has || newer.Version == 0 || newer.Failures > 0
}

// peek returns what is stored of a source, if it is of a version.
func (s *Service) peek(url string, version uint64) (*httpcache.Entry, bool) {
	entry, ok := s.cache.Peek(url)
	if ok && entry.Version != version {
		entry.Release()
		return nil, false
	}
	return entry, ok
}

// redate makes anew what is of a source whose content is dated otherwise now, as nodes may have fetched it
// without knowing of one another.
func (s *Service) redate(ctx context.Context, src *source) {
	src.making.Lock()
	src.drop(&s.resident)
	s.mu.Lock()
	for _, f := range src.filters {
		f.decision.Store(nil)
	}
	s.mu.Unlock()
	src.making.Unlock()
	s.warmSource(ctx, src)
}

// publish tells the other nodes how a source was fetched, and what came where that is an entry. It is false
// if another one has done so meanwhile, and that counts.
func (s *Service) publish(ctx context.Context, src *source, turn *shared.Turn, entry *httpcache.Entry) bool {
	if turn == nil {
		return true
	}
	st := src.state.Load()
	var body []byte
	if entry != nil && !st.Same {
		var err error
		if body, err = s.cache.Export(src.url); err != nil && !errors.Is(err, httpcache.ErrTooLarge) {
			s.log.Warn("what was fetched cannot be given to other nodes", "source", redact(src.url), "error", err)
		}
	}
	published, err := turn.Done(ctx, shared.State{Fetch: st.Fetch, Checked: st.checked}, body)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("other nodes are not told how a source was fetched", "source", redact(src.url),
				"error", err)
		}
		return true
	}
	if !published {
		older := *st
		older.Tried--
		src.state.Store(&older)
	}
	return published
}

var _ rows = (*shared.Rows)(nil)
