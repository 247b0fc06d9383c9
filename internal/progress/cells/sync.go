package cells

import (
	"fmt"
	"os"
	"time"

	"weir/internal/disk"
	"weir/internal/metrics"
)

// clock returns the time since Open in nanoseconds, never 0, which stands for none.
func (s *Store) clock() int64 { return max(int64(time.Since(s.opened)), 1) }

// markDirty notes that there is something to sync. The first write after a sync sets the time, for the age of
// the oldest one is what may be lost.
func (s *Store) markDirty() { s.dirty.CompareAndSwap(0, s.clock()) }

// Sync writes all swaps that returned before it was called to the disk, and waits for that. It does nothing when there are none.
// A failure poisons the store.
func (s *Store) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("sync cursors %s: %w", s.path, os.ErrClosed)
	}
	return s.sync(func() {})
}

// sync is Sync under the lock. It calls rest now and then, each time it has worked for about a tenth of a millisecond.
func (s *Store) sync(rest func()) error {
	if err := s.Err(); err != nil {
		return err
	}
	oldest := s.dirty.Load()
	if oldest == 0 {
		return nil
	}
	// syncing takes over before dirty lets go, so that lag never misses it. Swaps from here on may or may not be
	// written by this sync; they mark the store dirty again.
	s.syncing.Store(oldest)
	s.dirty.Store(0)
	began := s.clock()
	err := s.flush(rest)
	s.lastSync.Store(s.clock() - began)
	s.syncs.Add(0, 1)
	if err != nil {
		return s.poison(err) // syncing stays: what was not written is getting older
	}
	s.syncing.Store(0)
	return nil
}

// flush makes durable what changed, by the redo log if there is one with room.
func (s *Store) flush(rest func()) error {
	if s.redo == nil {
		return s.syncCells()
	}
	fits, err := s.redo.append(s.changed[:s.n.Load()/64+1], s.words, rest)
	if err == nil && fits {
		// The system writes pages of cells by itself. That it failed must not come out when the log is full.
		err = disk.WritebackError(s.f)
	}
	if fits || err != nil {
		return err
	}
	s.checkpoints.Add(0, 1)
	return s.checkpoint()
}

// checkpoint syncs the cells themselves, and begins the redo log anew.
func (s *Store) checkpoint() error {
	if err := s.syncCells(); err != nil {
		return err
	}
	return s.redo.restart()
}

func (s *Store) syncCells() error {
	if s.region != nil {
		if err := s.region.Flush(); err != nil {
			return err
		}
	}
	return s.faults.SyncData(s.f)
}

// Lag returns the age of the oldest swap that is not on the disk, which is what a power failure would cost now.
func (s *Store) Lag() time.Duration {
	oldest := s.syncing.Load()
	if oldest == 0 {
		oldest = s.dirty.Load()
	}
	if oldest == 0 {
		return 0
	}
	return time.Duration(s.clock() - oldest)
}

// background syncs every interval until Close, or until a sync fails.
func (s *Store) background() {
	defer close(s.stopped)
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	// A process that was killed may have left writes that the system has not written yet. They are synced at once, or what
	// several left that were killed early would add up.
	if s.inherited && s.syncGently() != nil {
		return
	}
	for {
		s.caching.Go(s.cache)
		select {
		case <-s.stop:
			return
		case <-tick.C:
			if s.syncGently() != nil {
				return
			}
		}
	}
}

// restFor is how long a background sync lets others have the processor.
const restFor = 500 * time.Microsecond

// syncGently is Sync in many short steps, with rests in between that make it longer by up to a quarter of the interval. In one go,
// what 70,000 advances have left behind takes the processor for 4 ms, and on a machine of few of them every request
// meanwhile waits so long, and as many afterwards until the loop has caught up.
func (s *Store) syncGently() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // Close syncs
		return nil
	}
	enough := time.Now().Add(s.interval / 4)
	return s.sync(func() {
		if time.Now().Before(enough) {
			time.Sleep(restFor)
		}
	})
}

// cache brings what was mapped since the last call into the page cache in the way that makes the faults after each
// sync cheap. That it failed will show where it matters.
func (s *Store) cache() {
	s.mu.Lock()
	from, to := s.cached, s.size
	s.cached = to
	s.mu.Unlock()
	if s.region == nil {
		return
	}
	const step = 4 << 20
	for ; from < to; from += step {
		select {
		case <-s.stop:
			return
		default:
		}
		if err := disk.Cache(s.f, from, min(step, to-from)); err != nil {
			s.log.Warn("cursors could not be read ahead", "path", s.path, "error", err)
			return
		}
	}
}

func (s *Store) register(r *metrics.Registry, name string) {
	if r == nil {
		r = metrics.New(1)
	}
	s.syncs = r.Counter("weir_progress_syncs_total", "Syncs of cursors to the disk, failed ones included.", "store", name)
	s.checkpoints = r.Counter("weir_progress_checkpoints_total", "Syncs of the cells themselves, because the redo log was full or is not trusted.", "store", name)
	r.Gauge("weir_progress_sync_lag_seconds", "Age of the oldest advance that is not on the disk: what a power failure would cost.",
		func() float64 { return s.Lag().Seconds() }, "store", name)
	r.Gauge("weir_progress_last_sync_duration_seconds", "How long the last sync of cursors took.",
		func() float64 { return time.Duration(s.lastSync.Load()).Seconds() }, "store", name)
	r.Gauge("weir_progress_poisoned", "1 after a failed sync: advances are refused until a restart.", func() float64 {
		if s.Err() != nil {
			return 1
		}
		return 0
	}, "store", name)
	r.Gauge("weir_progress_cells", "Cursors there is room for.", func() float64 { return float64(s.Len()) }, "store", name)
}
