// Package feed serves recommendation feeds: everybody's list, made offline, handed out a few
// items at a time, with each user's position saved.
//
// The lists are a snapshot, an immutable mapped file; a generation is a snapshot that serves or
// served, with what is derived from it. Positions are package progress's. A position is of a user
// and a list, which its tag stands for, whatever snapshots the list is in: nothing is migrated when
// lists change, nothing stops, and positions of unchanged lists stay. A list is forgotten when its
// user has been given something of another one: should it come back after that, it begins anew.
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
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/members"
	"weir/internal/cluster/positions"
	"weir/internal/config"
	"weir/internal/disk"
	"weir/internal/feed/source"
	"weir/internal/progress"
	"weir/internal/server"
)

// Config is where a feed comes from and how it behaves. Zero durations are the defaults of Flags.
type Config struct {
	// Path is the snapshot: a file, a URL, or Published. Fallback is a file of items for users who have none
	// left, "" for the snapshot's own.
	Path, Fallback string
	// Watch is how often Path is looked at for a snapshot renamed over it; negative is never.
	Watch time.Duration
	// Poll is how often a URL is asked for newer lists; negative is never. A cluster is told of them by weir
	// publish instead.
	Poll time.Duration
	// Cluster, which may be nil, is the engine that several nodes share. They serve what its record of
	// publications says; the first of them publishes Path, unless that is Published. Members, which goes with
	// it, is where this node says which lists it has.
	Cluster *cluster.Client
	Members *members.Members
	// FallbackWhenLost has feeds be fallback items while the engine does not answer.
	FallbackWhenLost bool
	// Sync is the interval at which positions are made safe against a loss of power.
	Sync time.Duration
	// RankFallback fills short feeds with the best fallback items by SetRanker's scores instead of random
	// ones.
	RankFallback bool
	// LockMemory keeps the snapshot in memory whatever else needs some.
	LockMemory bool

	// MinShare is how many users new lists must have, as a share of those of the lists before; even with 0
	// it is one at least.
	MinShare float64

	// For tests: the first pause before a server is asked again, how often the forgotten are erased, failing
	// disks, and positions that are kept elsewhere.
	pause     time.Duration
	tend      time.Duration
	faults    disk.Faults
	positions progress.Positions
}

// Published is the Path of lists that weir publish names.
const Published = "published"

// Feed is the service.
type Feed struct {
	cfg       Config
	live      atomic.Pointer[Config] // what of it may change while the feed serves
	retimed   chan struct{}          // holds one when Watch has changed
	settings  []config.Setting
	log       *slog.Logger
	positions progress.Positions

	current  atomic.Pointer[generation]
	from     *origin    // where lists are brought from; nil where Path is the file that serves
	reload   sync.Mutex // one reload at a time; guards the next three
	numbered uint64     // generations so far
	closed   bool
	ranker   Ranker // nil for none

	reloading atomic.Pointer[reloading]    // nil while there is none
	reloaded  atomic.Pointer[reloadResult] // the last one
	survey    survey

	scratch sync.Pool // of *scratch
	short   shortLog
	stats   stats

	background *server.Background
}

// Open opens the feed. Its snapshot serves when Open returns, and is read into memory and checked
// in the background.
func Open(ctx context.Context, cfg Config, env server.Env) (*Feed, error) {
	if cfg.Watch == 0 {
		cfg.Watch = time.Second
	}
	if cfg.Poll == 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.tend == 0 {
		cfg.tend = time.Hour
	}
	positions, err := openPositions(ctx, cfg, env)
	if err != nil {
		return nil, err
	}
	f := &Feed{cfg: cfg, log: env.Log, positions: positions, short: newShortLog(env.Log),
		retimed: make(chan struct{}, 1)}
	f.live.Store(&cfg)
	f.scratch.New = func() any { return new(scratch) }
	f.register(env.Metrics)
	g, err := f.first(ctx, env)
	if err != nil {
		return nil, errors.Join(err, positions.Close())
	}
	f.background = env.Background("feed")
	f.serve(g)
	if f.from != nil {
		f.background.Go("lists from elsewhere", f.from.run)
	}
	f.background.Go("log of short answers", f.short.run)
	f.background.Go("erasing of the forgotten", f.tend)
	f.background.Go("watch for new lists", f.watch)
	s := g.lists.Stats()
	f.log.Info("feed is open", "path", f.named(g.from), "users", s.Users, "items", s.Items, "bytes", s.Bytes,
		"fallback", len(g.fallback.items))
	return f, nil
}

// openPositions opens those of the engine where there is one, and else those of this machine.
func openPositions(ctx context.Context, cfg Config, env server.Env) (progress.Positions, error) {
	switch {
	case cfg.positions != nil:
		return cfg.positions, nil
	case cfg.Cluster != nil:
		return positions.Open(ctx, cfg.Cluster, positions.Options{Metrics: env.Metrics, Log: env.Log})
	}
	return progress.OpenLocal(filepath.Join(env.DataDir, "feed"), progress.Options{
		Name: "feed", SyncInterval: cfg.Sync, Metrics: env.Metrics, Logger: env.Log, Faults: cfg.faults,
	})
}

// first returns the generation that serves when the feed is opened: one that waits for its lists where they
// have yet to come.
func (f *Feed) first(ctx context.Context, env server.Env) (*generation, error) {
	if f.cfg.Cluster == nil && !source.IsURL(f.cfg.Path) {
		return f.load(ctx, listsAt{path: f.cfg.Path}, false, 0)
	}
	var err error
	if f.from, err = f.openOrigin(filepath.Join(env.DataDir, "feed", "lists")); err != nil {
		return nil, err
	}
	if g := f.from.recall(ctx); g != nil {
		return g, nil
	}
	return f.wait(filepath.Join(env.DataDir, "feed", "lists"))
}

// named is where lists come from, without what may be a secret.
func (f *Feed) named(from listsAt) string {
	if from.publication.Number != 0 {
		return nameOf(from.publication)
	}
	if f.from != nil {
		return f.from.String()
	}
	return f.cfg.Path
}

// Settings implements server.Tunable: those of a feed that was opened by Flags.
func (f *Feed) Settings() []config.Setting { return f.settings }

// apply takes up what may change of a Config.
func (f *Feed) apply(cfg Config) {
	f.live.Store(&cfg)
	select {
	case f.retimed <- struct{}{}:
	default: // the watcher is told already
	}
	if f.from != nil {
		f.from.look()
	}
	if p, ok := f.positions.(interface{ SetSyncInterval(time.Duration) }); ok {
		p.SetSyncInterval(cfg.Sync)
	}
}

// Name implements server.Service.
func (f *Feed) Name() string { return "feed" }

// Critical says that a feed was given data: without it the server is down.
func (f *Feed) Critical() bool { return true }

// Generation counts the snapshots that have served.
func (f *Feed) Generation() int { return int(f.current.Load().number) }

// Health implements server.Service. With a damaged snapshot sound lists are given all the same.
func (f *Feed) Health() server.Health {
	if err := f.positions.Err(); err != nil {
		return server.Down("positions cannot be saved: a sync failed; see the log, and restart when the " +
			"disk is sound")
	}
	if f.from != nil {
		if h := f.from.health(); h.State != server.StateReady {
			return h
		}
	}
	if f.current.Load().broken.Load() != nil {
		return server.Degraded("the snapshot is damaged; see the log, and replace it by rename")
	}
	return f.background.Health()
}

// DataFiles returns the files in the data directory that positions are in.
func (f *Feed) DataFiles() []string {
	if f.cfg.Cluster != nil {
		return nil
	}
	return []string{"feed/ids.cells", "feed/keys.cells", "feed/keys.log"}
}

// Storage is about positions.
func (f *Feed) Storage() server.Storage {
	return server.Storage{Durability: f.positions.Durability(), LagSeconds: f.positions.Lag().Seconds()}
}

// Close implements server.Service.
func (f *Feed) Close() error {
	f.background.Cancel()
	f.reload.Lock() // a reload that has begun gives up soon
	f.closed = true
	f.reload.Unlock()
	f.background.Stop()
	g := f.current.Load()
	g.drain()
	err := g.lists.Close()
	if f.from != nil {
		err = errors.Join(err, f.from.close())
	}
	return errors.Join(f.positions.Close(), err)
}
