// Package filter is the filter service: somebody else's feed, without the items that its rules drop.
//
// A filter has an unguessable id, one or more sources, and rules. What it answers are bytes of its source: of
// the items that stay and of all that stands around items. Sources are fetched in the background, whoever
// reads, as often as they allow and at least Config.Interval apart, and are kept on disk (httpcache); a
// reader never waits for a source but for its first answer.
//
// For a filter is kept which items stay, a bit each, and the validators of the answer, for the version of
// the source that they were made of. For a source is kept its document, cut and compressed once (pieces), as
// long as Config.Memory has room. So an answer that has both reads neither the store nor the feed, nor any
// rule, and a 304 not even the document. The ETag is made of the source's content, the rules and which items
// stay: it is the same after a restart.
//
// Decisions are made ahead: for all filters of a source when it has been fetched, and after a start of what
// is on disk. What is missing is made by a worker, and waited for where it has to be fetched, within limits
// of the service's own. While a source fails, its last good content is answered, with a Weir-Stale header.
//
// Nodes of a cluster (Config.Cluster) have filters and global rules in common, and one of them fetches a
// source for all: package shared. An answer depends on nothing else, so all nodes answer alike.
package filter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"weir/internal/cluster"
	"weir/internal/config"
	"weir/internal/filter/fetch"
	"weir/internal/filter/httpcache"
	"weir/internal/filter/rules"
	"weir/internal/filter/selection"
	"weir/internal/filter/store"
	"weir/internal/metrics"
	"weir/internal/server"
)

// Config says how filters are served.
type Config struct {
	Path string // of the public route, "/filtered"
	// URL of the public port as readers see it; "" leaves the self links of feeds alone.
	Base       string
	Allow      []netip.Prefix // networks to fetch from beyond the public ones
	Ports      []int          // to fetch from; nil is those of fetch.Options
	CacheBytes int64          // of sources on disk
	Memory     int64          // of documents in memory
	MaxBody    int64          // of a source, in bytes
	Interval   time.Duration  // between two fetches of a source, at least
	Idle       time.Duration  // how long a source is fetched that nobody asks for
	Wait       time.Duration  // how long a first answer is waited for
	Limits     server.Limits
	Cluster    *cluster.Client // that nodes have their filters in common in; nil for none
}

// Folder is where the service keeps its files, below the data directory.
const Folder = "filter"

// StoreFile is the name of the store's file in Folder.
const StoreFile = "filters.db"

// Service serves filters. It implements server.Service.
type Service struct {
	cfg        Config
	live       atomic.Pointer[Config] // what of it may change while filters are served
	settings   []config.Setting
	log        *slog.Logger
	store      *store.Store
	cache      *httpcache.Cache
	client     *fetch.Client
	background *server.Background
	limiter    *server.Limiter
	parsing    *semaphore.Weighted // bytes of sources that are being parsed
	computing  chan struct{}       // those who compute for milliseconds

	filters shards
	global  atomic.Pointer[globalRules]
	rows    rows    // where filters and settings are changed
	common  *common // with other nodes; nil without a cluster
	labels  labels
	icons   icons

	mu       sync.Mutex // guards sources and their filters
	sources  map[string]*source
	resident residents
	fetching atomic.Int64

	answered [kinds]*metrics.Counter
	polls    [2]*metrics.Counter         // that worked, or not
	made     [occasions]*metrics.Counter // decisions
	parsed   *metrics.Counter
	drawn    *metrics.Counter // documents that were made
	items    atomic.Int64     // that were new in any source
}

// globalRules come before those of each filter.
type globalRules struct {
	set     *rules.Set
	hash    uint64
	matched []atomic.Int64 // Service.items when each rule matched last, or was set
}

// How a request was answered.
const (
	hit       = iota // from memory, on the loop where there is one
	unchanged        // 304
	made             // by a worker
	waited           // for the source
	failed
	kinds
)

// When decisions are made.
const (
	forReader = iota
	atFetch
	atStart
	occasions
)

// Open opens the service's files in the data directory.
func Open(cfg Config, env server.Env) (*Service, error) {
	dir := filepath.Join(env.DataDir, Folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("filters: %w", err)
	}
	s := &Service{cfg: cfg, log: env.Log, sources: make(map[string]*source),
		limiter:   env.Limiter("filter", cfg.Limits),
		parsing:   semaphore.NewWeighted(parseBytes),
		computing: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	s.apply(cfg)
	var err error
	if s.store, err = store.Open(filepath.Join(dir, StoreFile), env.Log); err != nil {
		return nil, err
	}
	if err = s.openRows(); err != nil {
		return nil, errors.Join(fmt.Errorf("filters: %w", err), s.store.Close())
	}
	s.client = fetch.New(fetch.Options{Allow: cfg.Allow, Ports: cfg.Ports, MaxBody: cfg.MaxBody,
		Concurrency: maxFetches})
	s.cache, err = httpcache.Open(filepath.Join(dir, "cache"),
		httpcache.Options{Fetch: s.client, MaxBytes: cfg.CacheBytes,
			MaxBody: cfg.MaxBody, Log: env.Log, Poller: true, MinFresh: cfg.Interval / 2})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("filters: %w", err), s.store.Close())
	}
	s.background = env.Background("filter")
	s.count(env.Metrics)
	err = s.load(context.Background())
	if err == nil && s.common != nil {
		err = s.common.start(cfg.Cluster)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.background.Go("polling of sources", s.poll)
	if s.common != nil {
		s.background.Go("changes by other nodes", s.common.rows.Follow)
	}
	s.background.Go("decisions after the start", s.warm)
	return s, nil
}

// load reads all filters and what is known of their sources.
func (s *Service) load(ctx context.Context) error {
	text, err := s.store.Setting(ctx, globalSetting)
	if err == nil {
		err = s.setGlobal(text)
	}
	if err != nil {
		return fmt.Errorf("filters: the stored global rules: %w", err)
	}
	known, err := s.store.Sources(ctx)
	if err != nil {
		return err
	}
	for f, err := range s.store.All(ctx) {
		if err != nil {
			return err
		}
		s.changed(nil, &f)
	}
	for url, fetched := range known {
		if src := s.sources[url]; src != nil {
			src.state.Store(s.newState(fetched, time.Time{}))
			src.asked.Store(fetched.Fetched.Unix()) // it would not have been fetched otherwise
		}
	}
	return nil
}

// Settings implements server.Tunable: those of a service that was opened by Flags.
func (s *Service) Settings() []config.Setting { return s.settings }

// apply takes up what may change of a Config.
func (s *Service) apply(cfg Config) {
	s.live.Store(&cfg)
	s.limiter.SetLimits(cfg.Limits)
	s.resident.limit.Store(cfg.Memory)
	s.resident.shrink(nil)
}

// Name implements server.Service.
func (s *Service) Name() string { return "filter" }

// Health implements server.Service.
func (s *Service) Health() server.Health {
	if err := s.store.Health(); err != nil {
		return server.Degraded("what is known of sources cannot be written and is kept in memory: " +
			err.Error())
	}
	if s.common != nil {
		if current, err := s.common.rows.Status(); err != nil {
			return server.Degraded(fmt.Sprintf("changes of filters are neither made nor seen since %s: %v",
				current.UTC().Format(time.RFC3339), err))
		}
	}
	return s.background.Health()
}

// Storage says in /health what is promised of changes.
func (s *Service) Storage() server.Storage {
	if s.common != nil {
		return server.Storage{Durability: "a filter that was stored is in the engine, with as many " +
			"replicas as are asked for, and here; a kill undoes up to 2 s of what is known about sources"}
	}
	return server.Storage{Durability: "a filter that was stored is there after a kill and a loss of power; " +
		"a kill undoes up to 2 s of what is known about sources, which are then fetched again"}
}

// DataFiles are the files that must not be missing at the next start.
func (s *Service) DataFiles() []string { return []string{Folder + "/" + StoreFile} }

// Close implements server.Service.
func (s *Service) Close() error {
	s.background.Stop()
	err := s.cache.Close()
	s.client.Close()
	s.resident.clear()
	if s.common != nil {
		s.common.sources.Close()
	}
	return errors.Join(err, s.store.Close())
}

func (s *Service) count(m *metrics.Registry) {
	for kind, name := range [kinds]string{"hit", "unchanged", "made", "waited", "failed"} {
		s.answered[kind] = m.Counter("weir_filter_answers_total",
			"Requests for filtered feeds, by how they were answered.",
			"kind", name)
	}
	for i, result := range [2]string{"ok", "failed"} {
		s.polls[i] = m.Counter("weir_filter_fetches_total", "Fetches of sources.", "result", result)
	}
	for i, when := range [occasions]string{"request", "fetch", "start"} {
		s.made[i] = m.Counter("weir_filter_decisions_total",
			"Decisions made: for a request that found none, and ahead of requests.", "at", when)
	}
	s.parsed = m.Counter("weir_filter_parses_total", "Feeds read, of those fetched and of those cached.")
	s.drawn = m.Counter("weir_filter_documents_total", "Documents compressed for answers.")
	s.resident.evicted = m.Counter("weir_filter_documents_evicted_total",
		"Sources whose documents were evicted from memory, because --filter-memory was full or all filters "+
			"that have the source were removed.")
	for _, c := range []struct {
		name, help string
		of         func(httpcache.Stats) uint64
	}{
		{"hits", "Sources asked for that were answered from the disk.",
			func(s httpcache.Stats) uint64 { return s.Hits }},
		{"misses", "Sources asked for that had to be fetched.",
			func(s httpcache.Stats) uint64 { return s.Misses }},
		{"validated", "Fetches answered by 304.", func(s httpcache.Stats) uint64 { return s.Validated }},
		{"evicted", "Sources removed from the disk to make room.",
			func(s httpcache.Stats) uint64 { return s.Evicted }},
	} {
		m.Gauge("weir_filter_cache_"+c.name, c.help+" Since the start.",
			func() float64 { return float64(c.of(s.cache.Stats())) })
	}
	m.Gauge("weir_filter_documents", "Sources whose documents are in memory.", func() float64 {
		s.resident.mu.Lock()
		defer s.resident.mu.Unlock()
		return float64(len(s.resident.ring))
	})
	m.Gauge("weir_filter_documents_bytes", "Memory that documents of sources take.", func() float64 {
		return float64(s.resident.bytes.Load())
	})
	m.Gauge("weir_filter_cache_bytes", "Size of the sources on disk.", func() float64 {
		return float64(s.cache.Stats().Bytes)
	})
	m.Gauge("weir_filter_sources", "Sources that filters have.", func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.sources))
	})
	m.Gauge("weir_filter_filters", "Filters.", func() float64 { return float64(s.filters.count()) })
	if s.common != nil {
		s.common.count(m)
	}
	m.Gauge("weir_filter_failing_sources", "Sources that could not be fetched the last time.",
		func() float64 {
			return float64(failing(s.all()))
		})
}

// shards hold filters by id.
type shards [64]struct {
	sync.RWMutex
	m map[store.ID]*filter
}

func (s *shards) get(id store.ID) *filter {
	shard := &s[id[0]%64]
	shard.RLock()
	defer shard.RUnlock()
	return shard.m[id]
}

// set sets a filter, or removes it if f is nil, and returns the one before.
func (s *shards) set(id store.ID, f *filter) (before *filter) {
	shard := &s[id[0]%64]
	shard.Lock()
	defer shard.Unlock()
	before = shard.m[id]
	switch {
	case f == nil:
		delete(shard.m, id)
	case shard.m == nil:
		shard.m = map[store.ID]*filter{id: f}
	default:
		shard.m[id] = f
	}
	return before
}

func (s *shards) count() (n int) {
	for i := range s {
		s[i].RLock()
		n += len(s[i].m)
		s[i].RUnlock()
	}
	return n
}

// filter is what is in memory of a filter. Rules are read from the store when they are needed.
type filter struct {
	id       store.ID
	format   view // that the owner has chosen, or native
	source   *source
	decision atomic.Pointer[decision]
}

// enter takes a stored filter into memory, in place of an older one.
func (s *Service) enter(stored store.Filter) {
	f := &filter{id: stored.ID, format: cmp.Or(views[stored.Format], native)}
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := make([]*source, len(stored.URLs))
	for i, url := range stored.URLs {
		src := s.sources[url]
		if src == nil {
			src = newSource(url)
			src.state.Store(s.newState(store.Fetch{}, time.Time{}))
			s.sources[url] = src
		}
		src.filters = append(src.filters, f)
		parts[i] = src
	}
	if f.source = parts[0]; composed(stored.Spec) {
		f.source = newSource("")
		f.source.parts = parts
	}
	s.leave(s.filters.set(stored.ID, f))
}

// remove takes a filter out of memory.
func (s *Service) remove(id store.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(s.filters.set(id, nil))
}

// leave gives up the sources of a filter that is gone. The lock is held.
func (s *Service) leave(f *filter) {
	if f == nil {
		return
	}
	sources := f.source.parts
	if sources == nil {
		sources = []*source{f.source}
	} else {
		f.source.drop(&s.resident)
	}
	for _, src := range sources {
		src.filters = slices.DeleteFunc(src.filters, func(other *filter) bool { return other == f })
		if len(src.filters) == 0 && s.sources[src.url] == src {
			delete(s.sources, src.url)
			src.drop(&s.resident)
		}
	}
}

// all returns the sources that are fetched.
func (s *Service) all() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*source, 0, len(s.sources))
	for _, src := range s.sources {
		list = append(list, src)
	}
	return list
}

// composed says whether a filter's answer is put together anew, not of one source's items in their order.
func composed(spec store.Spec) bool {
	return len(spec.URLs) > 1 || spec.Sort == selection.Newest.String() || spec.Report
}

var _ server.Service = (*Service)(nil)
