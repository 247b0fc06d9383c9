// Package bandit predicts which items a user will like, by Thompson sampling: the score of an item is
// one sample of the Beta distribution that is the posterior of its success, so that what is
// promising or little known comes up as often as it may well be the best (Thompson, Biometrika 1933).
//
// An arm is an item, an item for a segment of users, or an item for one user. The score of a pair comes
// from the finest arm that there is: that of the user, of the user's segment, of the item, else the
// prior. Its posterior is what was imported of it, or the prior, and what events have taught since:
// an event adds its reward to alpha and what is missing to 1 to beta.
//
// Imported arms are an immutable mapped file of package arms. What events teach is in memory and in a
// journal: an event that was acknowledged survives the end of the process, and a loss of power once
// the journal is synced, within a second. An event counts for every arm of its user and item that
// there is, and makes that of the item, or finer ones where Config.Learn says so.
//
// With a feature store, the posteriors of items and the segments of users come from there instead
// of from a file; events live above them in the same way.
package bandit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/bandit/beta"
	"weir/internal/bandit/featurestore"
	"weir/internal/bandit/learning"
	"weir/internal/cluster"
	"weir/internal/config"
	"weir/internal/disk"
	"weir/internal/server"
)

// Config is where a bandit comes from and how it behaves. Defaults has what flags have.
type Config struct {
	// Arms is the file of imported arms; without one everything is learned from events.
	Arms string
	// Watch is how often Arms is looked at for a file renamed over it; negative is never.
	Watch time.Duration
	// Prior is alpha and beta of what nothing is known of.
	Prior [2]float64
	// HalfLife is after how long an event counts half as much; 0 is never. Imported arms do not fade.
	HalfLife time.Duration
	// Learn is the finest kind of arm that an event makes.
	Learn arms.Level
	// ArmStrength is how many observations the posterior of the item, or segment, is worth at most that an
	// arm for a segment, or user, begins with; 0 is as many as the prior.
	ArmStrength float64
	// EventsAdmin takes events on the admin port only.
	EventsAdmin bool
	// MaxItems bounds the items of one request, MaxEvents its events, MaxQueries the queries of a batch.
	MaxItems, MaxEvents, MaxQueries int
	// Memory is how many bytes what events teach may take, the ids that are remembered for a day included.
	// ClientIDs is the share of these that one client may have.
	Memory    int64
	ClientIDs float64
	// MaxAhead is how far the time of an event may be ahead of the clock.
	MaxAhead time.Duration
	// Sync is how often events are made safe against a loss of power.
	Sync time.Duration
	// Checkpoint is how many bytes of events are kept before what they have taught is written as a whole.
	Checkpoint int64
	// Model is the bandit's name in the Open Inference Protocol.
	Model string
	// Store is the URL of a feature store, "" for none.
	Store        string
	StoreOptions featurestore.Options
	// PriorOnStoreError answers with the prior when the store fails and nothing is cached.
	PriorOnStoreError bool

	// Cluster is whose engine keeps the events; nil for a journal of this machine's own.
	Cluster *cluster.Client

	erase   time.Duration // how often what was forgotten is taken out of the files; for tests
	faults  disk.Faults   // for tests
	loading func()        // for tests: called before the first arms are read
}

// Defaults returns the configuration that flags have when none is given.
func Defaults() Config {
	return Config{
		Watch: time.Second, Prior: [2]float64{1, 1}, MaxItems: 10_000, MaxEvents: 10_000, MaxQueries: 1_000,
		Memory: 1 << 30, ClientIDs: 0.5, MaxAhead: time.Hour,
		Sync: 500 * time.Millisecond, Checkpoint: 64 << 20, Model: "bandit",
	}
}

// check refuses what cannot work, naming the flag.
func (c *Config) check() error {
	atLeastOne := func(flag string, n int) error {
		if n < 1 {
			return fmt.Errorf("%s must be a whole number above 0, got %d", flag, n)
		}
		return nil
	}
	for _, p := range c.Prior {
		if !arms.ValidShape(p) {
			return fmt.Errorf("--bandit-prior must be two numbers above 0, alpha and beta, got %v,%v",
				c.Prior[0], c.Prior[1])
		}
	}
	switch {
	case c.HalfLife < 0:
		return fmt.Errorf("--bandit-half-life must be a time above 0, or 0 to forget nothing, got %v",
			c.HalfLife)
	case c.HalfLife > 0 && c.HalfLife < time.Second:
		return fmt.Errorf("--bandit-half-life must be a second at least, got %v", c.HalfLife)
	case c.Watch == 0:
		return errors.New("--bandit-arms-watch must be a time above 0, or negative for never, got 0s")
	case c.Sync <= 0:
		return fmt.Errorf("--bandit-sync must be a time above 0, got %v", c.Sync)
	case c.Checkpoint < 1<<20:
		return fmt.Errorf("--bandit-checkpoint must be 1MiB at least, got %d bytes", c.Checkpoint)
	case !(c.ArmStrength >= 0 && c.ArmStrength <= math.MaxFloat64):
		return fmt.Errorf(
			"--bandit-arm-strength must be a number above 0, or 0 for that of the prior, got %v",
			c.ArmStrength)
	case c.Memory < 1:
		return fmt.Errorf("--bandit-memory must be above 0, got %d bytes", c.Memory)
	case !(c.ClientIDs > 0 && c.ClientIDs <= 1):
		return fmt.Errorf("--bandit-client-ids must be a share above 0 and up to 1, got %v", c.ClientIDs)
	case c.MaxAhead < 0:
		return fmt.Errorf("--bandit-max-ahead must not be negative, got %v", c.MaxAhead)
	case c.Model == "":
		return errors.New("--bandit-model must not be empty")
	case strings.Contains(c.Model, "/"):
		return fmt.Errorf("--bandit-model must have no slash, as it is a part of a path, got %q", c.Model)
	case c.Store != "" && c.Arms != "":
		return errors.New("--bandit-arms and --bandit-store: posteriors come from one of them, name only one")
	}
	return errors.Join(atLeastOne("--bandit-max-items", c.MaxItems),
		atLeastOne("--bandit-max-events", c.MaxEvents),
		atLeastOne("--bandit-max-queries", c.MaxQueries))
}

// Bandit is the service. Its methods are for any number of goroutines.
type Bandit struct {
	cfg       Config
	live      atomic.Pointer[Config] // what of it may change while the bandit serves
	retimed   chan struct{}          // holds one when Watch has changed
	settings  []config.Setting
	log       *slog.Logger
	model     atomic.Pointer[model] // nil until it is loaded
	learner   learning.Learner
	store     *featurestore.Store // nil for none
	scratch   sync.Pool           // of *scratch
	rankings  rankings
	stats     stats
	modelJSON string // the model's name

	reload     sync.Mutex // one at a time; guards the next two
	generation int
	closed     bool

	failed     atomic.Pointer[error] // why the first model could not be loaded
	background context.Context
	stop       context.CancelFunc
	work       *server.Background
}

// levels is how many kinds of arms there are.
const levels = learning.Levels

// model is what was imported.
type model struct {
	file       *arms.File // nil when there is none
	generation int
}

// Open opens the bandit. Arms are read into memory and checked in the background; until then it is
// not ready.
func Open(ctx context.Context, cfg Config, env server.Env) (_ *Bandit, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	b := &Bandit{cfg: cfg, log: env.Log, modelJSON: string(appendText(nil, cfg.Model))}
	b.live.Store(&cfg)
	b.retimed = make(chan struct{}, 1)
	b.scratch.New = func() any { return &scratch{sampler: beta.New(0)} }
	b.work = env.Background("bandit")
	b.background, b.stop = b.work.Context(), b.work.Cancel
	var file *arms.File
	if cfg.Arms != "" {
		if file, err = arms.Open(cfg.Arms); err != nil {
			return nil, fmt.Errorf("--bandit-arms: %w", err)
		}
	}
	if cfg.Store != "" {
		o := cfg.StoreOptions
		o.Prior, o.Metrics, o.Log, o.Refuse = cfg.Prior, env.Metrics, env.Log, env.Reject
		if b.store, err = featurestore.Open(cfg.Store, o); err != nil {
			return nil, err
		}
	}
	b.learner, err = openLearner(ctx, filepath.Join(env.DataDir, "bandit"), cfg.Cluster, learning.Options{
		HalfLife: cfg.HalfLife, Memory: cfg.Memory, ClientIDs: cfg.ClientIDs, Sync: cfg.Sync,
		Checkpoint: cfg.Checkpoint,
		Erase:      cfg.erase, Go: b.work.Go, Metrics: env.Metrics, Log: env.Log, Faults: cfg.faults,
	})
	if err != nil {
		if b.store != nil {
			err = errors.Join(err, b.store.Close())
		}
		return nil, fmt.Errorf("bandit: %w", err)
	}
	b.register(env.Metrics)
	if file == nil {
		b.model.Store(&model{})
	} else {
		b.work.Go("loading of arms", func(context.Context) {
			b.loadFirst(file)
			b.watch(file.Info())
		})
	}
	return b, nil
}

func openLearner(ctx context.Context, dir string, c *cluster.Client, o learning.Options) (learning.Learner,
	error) {
	if c != nil {
		return learning.OpenShared(ctx, filepath.Join(dir, "cluster"), c, o)
	}
	return learning.Open(dir, o)
}

// loadFirst reads the arms the bandit begins with.
func (b *Bandit) loadFirst(file *arms.File) {
	b.reload.Lock()
	defer b.reload.Unlock()
	if b.cfg.loading != nil {
		b.cfg.loading()
	}
	if err := b.take(b.background, file); err != nil && b.background.Err() == nil {
		b.failed.Store(&err)
		b.log.Error("the arms of the bandit cannot be used", "path", b.cfg.Arms, "error", err)
	}
}

// AwaitArms waits until the arms that the bandit begins with are loaded, or cannot be.
func (b *Bandit) AwaitArms(ctx context.Context) error {
	for tick := time.NewTicker(10 * time.Millisecond); b.model.Load() == nil; {
		if err := b.failed.Load(); err != nil {
			return *err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// watch takes up files that are renamed over the path; first is the one the bandit began with. One that was
// refused is not tried again. A file that is changed in place is not looked at: it is mapped, and complete
// at no moment that could be told from here.
func (b *Bandit) watch(first os.FileInfo) {
	seen := first
	for {
		var next <-chan time.Time // never, unless there is an interval
		if interval := b.live.Load().Watch; interval > 0 {
			next = time.After(interval)
		}
		select {
		case <-b.background.Done():
			return
		case <-b.retimed:
			continue
		case <-next:
		}
		now, err := os.Stat(b.cfg.Arms)
		if err != nil || os.SameFile(now, seen) && now.ModTime().Equal(seen.ModTime()) {
			continue
		}
		seen = now
		b.reload.Lock()
		// Else somebody has asked for it.
		if m := b.model.Load(); m == nil || !os.SameFile(now, m.file.Info()) {
			b.takeUp(b.background) //nolint:errcheck // it logs why; the old arms serve on
		}
		b.reload.Unlock()
	}
}

// take loads a file and has it serve, for who holds b.reload.
func (b *Bandit) take(ctx context.Context, file *arms.File) error {
	start := time.Now()
	if err := file.Load(ctx, nil); err != nil {
		return fmt.Errorf("--bandit-arms %s: %w", b.cfg.Arms, err)
	}
	b.generation++
	b.model.Store(&model{file, b.generation})
	b.failed.Store(nil)
	s := file.Stats()
	b.log.Info("bandit has its arms", "path", b.cfg.Arms, "generation", b.generation, "arms", s.Arms, "users",
		s.Users, "segments", s.Segments,
		"bytes", s.Bytes, "took", time.Since(start))
	return nil
}

// Reload implements server.Reloader: it takes up the arms that are at the configured path now, or
// refuses them and leaves the old ones serving. What events have taught stays.
func (b *Bandit) Reload(ctx context.Context) error {
	if b.cfg.Arms == "" {
		return nil
	}
	b.reload.Lock()
	defer b.reload.Unlock()
	return b.takeUp(ctx)
}

// takeUp is Reload for who holds its lock.
func (b *Bandit) takeUp(ctx context.Context) error {
	if b.closed {
		return errors.New("the bandit is closed")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.background, cancel)()
	file, err := arms.Open(b.cfg.Arms)
	if err == nil {
		err = b.take(ctx, file)
	}
	if err != nil {
		b.stats.refused.Add(0, 1)
		on := fmt.Sprintf("generation %d serves on", b.generation)
		if b.generation == 0 {
			on = "there are no others"
		}
		err = fmt.Errorf("the new arms are refused, %s: %w", on, err)
		b.log.Error("bandit reload", "path", b.cfg.Arms, "error", err)
		return err
	}
	b.stats.reloaded.Add(0, 1)
	return nil
}

// Settings implements server.Tunable: those of a bandit that was opened by Flags.
func (b *Bandit) Settings() []config.Setting { return b.settings }

// apply takes up what may change of a Config.
func (b *Bandit) apply(cfg Config) {
	b.live.Store(&cfg)
	if l, ok := b.learner.(*learning.Local); ok {
		l.SetSync(cfg.Sync)
	}
	select {
	case b.retimed <- struct{}{}:
	default: // the watcher is told already
	}
}

// Name implements server.Service.
func (b *Bandit) Name() string { return "bandit" }

// Critical says that the bandit was given data: without it the server is down then.
func (b *Bandit) Critical() bool { return b.cfg.Arms != "" || b.cfg.Store != "" }

// Generation counts the files of arms that have served.
func (b *Bandit) Generation() int {
	if m := b.model.Load(); m != nil {
		return m.generation
	}
	return 0
}

// Health implements server.Service. Predictions are made even when events cannot be saved.
func (b *Bandit) Health() server.Health {
	err := b.learner.Err()
	switch {
	case b.model.Load() == nil && b.failed.Load() != nil:
		return server.Down("the arms cannot be used; see the log, and replace the file")
	case b.model.Load() == nil:
		return server.Down("the arms are being loaded")
	case err != nil:
		return server.Degraded(err.Error())
	}
	if b.store != nil {
		if err := b.store.Ready(); err != nil {
			return server.Degraded("the feature store failed: " + featurestore.Reason(err))
		}
	}
	return b.work.Health()
}

// DataFiles returns the files in the data directory that events are in.
func (b *Bandit) DataFiles() []string {
	if b.cfg.Cluster != nil {
		return nil
	}
	return []string{"bandit/*.journal"}
}

// Storage is about what events teach.
func (b *Bandit) Storage() server.Storage {
	return server.Storage{Durability: b.learner.Durability(), LagSeconds: b.learner.Lag().Seconds()}
}

// Close implements server.Service.
func (b *Bandit) Close() error {
	b.stop()
	b.reload.Lock() // a reload that has begun gives up soon
	b.closed = true
	b.reload.Unlock()
	err := b.learner.Close()
	b.work.Stop()
	if b.store != nil {
		err = errors.Join(err, b.store.Close())
	}
	return err
}
