// Package sequence serves the Fibonacci sequence, F(0) = 0 and F(1) = 1, under one shared index that is
// moved by one at a time, and any of its values without moving.
//
// What it promises:
//
//   - Moves are atomic. N concurrent steps forward see N different indices, and so do N steps back, but
//     that index 0 is not left and is seen as often as it is asked for. At Config.MaxIndex a step forward
//     is refused and moves nothing.
//   - Index and value of an answer belong together.
//   - A move counts before its answer is sent, and survives the end of the process, kill -9 included: see
//     package progress, which keeps the index.
//   - What is not at hand is computed off the event loops: once for all who wait for it, and no longer than
//     somebody does. How many wait, and the memory of all computations together, are bounded; who comes
//     beyond a bound is refused before anything moves. A computation waits only for others of about its size.
//
// # Where values come from
//
// A value is its decimal digits, nothing else: adding two of them and printing the sum is one pass (package
// decimal). There are three places to look, in this order.
//
//   - recent, the values given last, rendered as the answers they were. Readers and writers never wait for
//     each other, so event loops look here.
//   - cache, a bounded number of bytes of pairs F(i), F(i-1), at most one pair an interval of indices: any
//     value nearby is a few additions or subtractions away.
//   - decimal.Fibonacci, which starts from nothing.
//
// A value found as it is counts as direct, one made by steps from others as close, one from nothing as a
// miss.
package sequence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/positions"
	"weir/internal/config"
	"weir/internal/disk"
	"weir/internal/metrics"
	"weir/internal/progress"
	"weir/internal/sequence/decimal"
	"weir/internal/server"
)

// Limits of a Config.
const (
	// HardMaxIndex is the largest index there can be.
	HardMaxIndex = 1<<32 - 1

	DefaultMaxIndex     = 10_000_000
	DefaultCacheBytes   = 16 << 20
	DefaultWaiting      = 1024
	DefaultComputeBytes = 512 << 20
	DefaultRangeBytes   = 16 << 20
	DefaultSync         = time.Second
)

// Config is what a Sequence is opened with. The zero value of a bound means its default.
type Config struct {
	// File holds the index; sequence/current.cells in the data directory when empty.
	File string
	// fileFlag is what File is called where it is set.
	fileFlag string
	// MaxIndex is the largest index that is served, at most HardMaxIndex.
	MaxIndex uint64
	// CacheBytes bounds the digits in the cache of pairs.
	CacheBytes int64
	// Computations is how many computations of about one size run at a time, 1 if zero.
	Computations int
	// Waiting bounds the requests that wait for computations or are sent what came of them, ComputeBytes
	// the memory of these.
	Waiting      int
	ComputeBytes int64
	// RangeBytes bounds the answer to a request for a range of values.
	RangeBytes int64
	// Sync is how often the index is made safe against a loss of power.
	Sync time.Duration

	// Cluster holds the index instead of File, for all nodes; nil for none.
	Cluster *cluster.Client

	index progress.Index // for tests: instead of either
}

// fill replaces zeros by defaults and refuses what cannot work, naming the flag.
func (c *Config) fill() error {
	if c.fileFlag == "" {
		c.fileFlag = "--sequence-file"
	}
	if c.MaxIndex == 0 {
		c.MaxIndex = DefaultMaxIndex
	}
	for _, f := range []struct {
		name     string
		value    *int64
		fallback int64
	}{
		{"--sequence-cache-bytes", &c.CacheBytes, DefaultCacheBytes},
		{"--sequence-compute-bytes", &c.ComputeBytes, DefaultComputeBytes},
		{"--sequence-range-bytes", &c.RangeBytes, DefaultRangeBytes},
	} {
		if *f.value < 0 {
			return fmt.Errorf("%s must not be negative, got %d", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.fallback
		}
	}
	if c.Computations == 0 {
		c.Computations = 1
	}
	if c.Waiting == 0 {
		c.Waiting = DefaultWaiting
	}
	if c.Sync == 0 {
		c.Sync = DefaultSync
	}
	switch {
	case c.MaxIndex > HardMaxIndex:
		return fmt.Errorf("--sequence-max-index must be a whole number from 1 to %d, got %d",
			uint64(HardMaxIndex), c.MaxIndex)
	case c.Computations < 0 || c.Computations > maxComputations:
		return fmt.Errorf("--sequence-computations must be a whole number from 1 to %d, got %d",
			maxComputations, c.Computations)
	case c.Waiting < 0:
		return fmt.Errorf("--sequence-waiting must be a whole number above 0, got %d", c.Waiting)
	case c.Sync < 0:
		return fmt.Errorf("--sequence-sync must be a time above 0, got %v", c.Sync)
	}
	return nil
}

// Sequence is the service. All its methods are for any number of goroutines.
type Sequence struct {
	cfg          Config
	live         atomic.Pointer[Config] // what of it may change while the sequence serves
	settings     []config.Setting
	index        progress.Index
	lock         *disk.DirLock // nil when the file is in the data directory, which is locked
	recent       recent
	cache        *cache
	computations *computations
	given        [hows]*metrics.Counter // values given, by where they came from
	long         func() (done func())   // server.Env.Long

	// The admin port outlives the service by a moment; whoever comes from there looks here first.
	ending sync.RWMutex
	ended  bool
}

// how tells where a value came from.
type how uint8

const (
	direct how = iota // it was there
	near              // made by steps from others that were
	miss              // computed from nothing
	hows
)

var howNames = [hows]string{"direct", "close", "miss"}

// Open opens the index, which is 0 when there is none yet.
func Open(cfg Config, env server.Env) (*Sequence, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	s := &Sequence{cache: newCache(cfg.CacheBytes), long: env.Long}
	s.live.Store(&cfg)
	if s.long == nil {
		s.long = func() func() { return func() {} }
	}
	if err := s.open(cfg, env); err != nil {
		return nil, errors.Join(fmt.Errorf("sequence: %w", err), s.release())
	}
	s.computations = newComputations(s.cfg, s.compute, env.Log)
	s.register(env.Metrics)
	if cost := decimal.Cost(cfg.MaxIndex); cost > cfg.ComputeBytes {
		env.Log.Warn("the largest values of the sequence are refused, since computing them takes more "+
			"memory than --sequence-compute-bytes",
			"max_index", cfg.MaxIndex, "takes", cost, "sequence_compute_bytes", cfg.ComputeBytes)
	}
	return s, nil
}

// open opens the file of the index and sees to it that nobody else has it.
func (s *Sequence) open(cfg Config, env server.Env) error {
	if cfg.index != nil {
		s.cfg, s.index = cfg, cfg.index
		return s.checkIndex(cfg.MaxIndex)
	}
	if cfg.Cluster != nil {
		return s.openShared(cfg)
	}
	if cfg.File != "" {
		var err error
		if s.lock, err = lockFile(cfg.File, cfg.fileFlag); err != nil {
			return err
		}
	} else {
		cfg.File = filepath.Join(env.DataDir, "sequence", "current.cells")
		if err := os.MkdirAll(filepath.Dir(cfg.File), 0o700); err != nil {
			return fmt.Errorf("%w; name another place with %s", err, cfg.fileFlag)
		}
	}
	s.cfg = cfg
	index, err := progress.OpenIndex(cfg.File, progress.Options{
		SyncInterval: cfg.Sync, Metrics: env.Metrics, Name: "sequence", Logger: env.Log,
	})
	if err != nil {
		return fmt.Errorf("%w; %s names another place", err, cfg.fileFlag)
	}
	s.index = index
	return s.checkIndex(cfg.MaxIndex)
}

// openShared opens the index that all nodes of a cluster have.
func (s *Sequence) openShared(cfg Config) error {
	if cfg.File != "" {
		return fmt.Errorf("the index is kept by the cluster: leave %s out", cfg.fileFlag)
	}
	cfg.File = "the cluster" // in messages
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	index, err := positions.OpenIndex(ctx, cfg.Cluster, "sequence")
	if err != nil {
		return err
	}
	s.cfg, s.index = cfg, index
	return s.checkIndex(cfg.MaxIndex)
}

// openTimeout bounds the opening of an index in a cluster.
const openTimeout = 30 * time.Second

// lockFile takes a file outside of the data directory for this process, by a directory beside it: several
// sequences may have their files in one place.
func lockFile(path, flag string) (*disk.DirLock, error) {
	dir := path + ".lock"
	// Only what is beside the file is made: a path to nowhere is a mistake.
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("lock %s: %w; name another place with %s", path, err, flag)
	}
	lock, err := disk.LockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w; %s names another place", path, err, flag)
	}
	return lock, nil
}

// checkIndex refuses an index that is not served up to a maximum.
func (s *Sequence) checkIndex(maximum uint64) error {
	ctx, cancel := s.indexContext()
	defer cancel()
	switch at, err := s.index.Get(ctx); {
	case err != nil:
		return err
	case at > HardMaxIndex:
		return fmt.Errorf("%s holds %d, which is no index of a sequence: name another file with %s",
			s.cfg.File, at, s.cfg.fileFlag)
	case at > maximum:
		return fmt.Errorf("the index in %s is %d, beyond --sequence-max-index %d: raise that to %d at "+
			"least, or name another file with %s",
			s.cfg.File, at, maximum, at, s.cfg.fileFlag)
	}
	return nil
}

// Settings implements server.Tunable: those of a sequence that was opened by Flags.
func (s *Sequence) Settings() []config.Setting { return s.settings }

// apply takes up what may change of a Config, which was filled.
func (s *Sequence) apply(cfg Config) {
	s.live.Store(&cfg)
	s.cache.setLimit(cfg.CacheBytes)
	s.computations.setBounds(cfg)
	if index, ok := s.index.(interface{ SetSyncInterval(time.Duration) }); ok {
		index.SetSyncInterval(cfg.Sync)
	}
}

// Name implements server.Service.
func (s *Sequence) Name() string { return "sequence" }

// Health implements server.Service. Values are given even when the index cannot move.
func (s *Sequence) Health() server.Health {
	if s.index.Err() != nil {
		return server.Degraded("the index cannot be saved, so it does not move; see the log, and restart " +
			"when the disk is sound")
	}
	return server.Ready()
}

// DataFiles returns the file in the data directory that the index is in, unless it is elsewhere.
func (s *Sequence) DataFiles() []string {
	if s.lock != nil || !s.index.Inline() {
		return nil
	}
	return []string{"sequence/current.cells"}
}

// Storage is about the index.
func (s *Sequence) Storage() server.Storage {
	return server.Storage{Durability: s.index.Durability(), LagSeconds: s.index.Lag().Seconds()}
}

// Close implements server.Service. It ends computations that are still under way.
func (s *Sequence) Close() error {
	s.computations.close()
	s.ending.Lock()
	defer s.ending.Unlock()
	s.ended = true
	return s.release()
}

// alive calls f unless the service is closed, which it then says, and keeps it from being closed meanwhile.
func (s *Sequence) alive(f func()) bool {
	s.ending.RLock()
	defer s.ending.RUnlock()
	if s.ended {
		return false
	}
	f()
	return true
}

// release closes what open has opened.
func (s *Sequence) release() error {
	var errs []error
	if s.index != nil {
		errs = append(errs, s.index.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// indexTimeout bounds the round trips of a request to an index that is not Inline.
const indexTimeout = 2 * time.Second

// indexContext is for calls of the index.
func (s *Sequence) indexContext() (context.Context, context.CancelFunc) {
	if s.index.Inline() {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), indexTimeout)
}

// errAtEnd means that there is no step forward from where the index is.
var errAtEnd = errors.New("the index is at its maximum")

// step is which way a request moves the index.
type step int8

const (
	stay step = iota
	forward
	back
)

// target returns where a step leads from index at; it fails with errAtEnd only.
func (s *Sequence) target(at uint64, step step) (uint64, error) {
	switch {
	case step == forward && at >= s.live.Load().MaxIndex:
		return at, errAtEnd
	case step == forward:
		return at + 1, nil
	case step == back && at > 0:
		return at - 1, nil
	}
	return at, nil
}

// move puts the index from at to to; false means that somebody else has moved it meanwhile. The
// error is that of progress.Index.CompareAndSwap.
func (s *Sequence) move(ctx context.Context, at, to uint64) (bool, error) {
	if at == to {
		return true, nil
	}
	return s.index.CompareAndSwap(ctx, at, to)
}

// set puts the index to n, wherever it is.
func (s *Sequence) set(n uint64) error {
	ctx, cancel := s.indexContext()
	defer cancel()
	for {
		at, err := s.index.Get(ctx)
		if err != nil {
			return err
		}
		// A swap of equal values still tells whether the store takes any.
		swapped, err := s.index.CompareAndSwap(ctx, at, n)
		if swapped || err != nil {
			return err
		}
	}
}

func (s *Sequence) register(r *metrics.Registry) {
	for h := range hows {
		s.given[h] = r.Counter("weir_sequence_values_total",
			"Values given: found as they were (direct), made by steps from others (close), computed from "+
				"nothing (miss).", "found", howNames[h])
	}
	r.Gauge("weir_sequence_index", "Where the sequence's index is.", func() float64 {
		ctx, cancel := s.indexContext()
		defer cancel()
		at, err := uint64(0), errStopped
		s.alive(func() { at, err = s.index.Get(ctx) })
		if err != nil {
			return math.NaN()
		}
		return float64(at)
	})
	r.Gauge("weir_sequence_cache_bytes", "Digits in the cache of pairs.",
		func() float64 { _, bytes, _ := s.cache.size(); return float64(bytes) })
	r.Gauge("weir_sequence_cache_pairs", "Pairs in the cache.",
		func() float64 { pairs, _, _ := s.cache.size(); return float64(pairs) })
	r.Gauge("weir_sequence_waiting", "Requests that wait for a value to be computed, or are sent one.",
		func() float64 {
			waiting, _ := s.computations.load()
			return float64(waiting)
		})
	r.Gauge("weir_sequence_compute_bytes",
		"Memory that computations of values may use now, results being sent included.", func() float64 {
			_, bytes := s.computations.load()
			return float64(bytes)
		})
	s.computations.refused = r.Counter("weir_sequence_refused_total",
		"Requests refused because too many values are being computed.")
	s.computations.cancelled = r.Counter("weir_sequence_cancelled_total",
		"Computations given up because nobody waited any more.")
}

// parseIndex reads a whole number of decimal digits; false is anything else, or one beyond limit.
func parseIndex(digits string, limit uint64) (n uint64, ok bool) {
	if digits == "" || len(strings.TrimLeft(digits, "0")) > 10 {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, n <= limit
}
