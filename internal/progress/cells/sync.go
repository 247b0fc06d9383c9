package cells

import (
	"time"

	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/metrics"
)

// start begins the background syncs. What a killed process has left is synced at once, or what several left
// that were killed early would add up.
func (s *Store) start(o Options, name string) {
	m := o.Metrics
	if m == nil {
		m = metrics.New(1)
	}
	s.checkpoints = m.Counter("weir_progress_checkpoints_total",
		"Syncs of the cells themselves, because the redo log was full or is not trusted.", "data", name)
	m.Gauge("weir_progress_cells", "Cursors there is room for.", func() float64 { return float64(s.Len()) },
		"data", name)
	s.syncer.Start(record.SyncerOptions{
		Name: name, Path: s.path, Interval: o.SyncInterval, Flush: s.flush, AtOnce: s.existed, Log: s.log,
		Metrics: o.Metrics,
	})
}

// Sync writes all swaps that returned before it was called to the disk, and waits for that. It does nothing
// when there are none. A failure poisons the store.
func (s *Store) Sync() error { return s.syncer.Sync() }

// Lag returns the age of the oldest swap that is not on the disk, which is what a power failure would cost
// now.
func (s *Store) Lag() time.Duration { return s.syncer.Lag() }

// flush makes durable what changed, by the redo log if there is one with room.
func (s *Store) flush(rest func()) error {
	if s.redo == nil {
		return s.syncCells(rest)
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
	return s.checkpoint(rest)
}

// checkpoint syncs the cells themselves, and begins the redo log anew.
func (s *Store) checkpoint(rest func()) error {
	if err := s.syncCells(rest); err != nil {
		return err
	}
	return s.redo.Restart()
}

// Scrub syncs the cells and overwrites what the redo log held, so that no former value of a cell is left in
// a file.
func (s *Store) Scrub() error {
	return s.syncer.Exclusive(func() error {
		if err := s.Err(); err != nil || s.redo == nil {
			return err
		}
		err := disk.Guard(func() error {
			if err := s.checkpoint(func() {}); err != nil {
				return err
			}
			return s.redo.scrub()
		})
		if err != nil {
			return s.syncer.Poison(err)
		}
		return nil
	})
}

func (s *Store) syncCells(rest func()) error {
	if s.doubtful {
		if err := s.rewrite(rest); err != nil {
			return err
		}
		s.doubtful = false
		s.log.Info("cursors: all of them were written again, since the process before did not close them",
			"path", s.path)
	}
	if s.region != nil {
		if err := s.region.Flush(); err != nil {
			return err
		}
	}
	return s.faults.SyncData(s.f)
}

// rewrite has the system write all cells again, also those it takes for written. After a failed write it
// does so with pages that are not on the disk. The process that saw the failure has ended since, and this
// one would be told nothing.
func (s *Store) rewrite(rest func()) error {
	if s.plain != nil {
		return s.plain.rewrite()
	}
	lines := s.words[:linesLen(s.n.Load())/8]
	for i := 0; i < len(lines); i += 512 {
		lines[i].Add(0) // a write of a page, which changes nothing
		if i/512%1024 == 1023 {
			rest()
		}
	}
	return nil
}

// cacheStep is how many bytes are cached at a time.
const cacheStep = 4 << 20

// cache brings bytes of the file into the page cache in the way that makes the faults after each sync
// cheap. That it failed will show where it matters.
func (s *Store) cache(from, to int64) {
	if s.region == nil {
		return
	}
	s.caching.Add(1)
	disk.Go(func() error {
		for ; from < to; from += cacheStep {
			select {
			case <-s.closing:
				return nil
			default:
			}
			if err := disk.Cache(s.f, from, min(cacheStep, to-from)); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		defer s.caching.Done()
		if err != nil {
			s.log.Warn("cursors could not be read ahead", "path", s.path, "error", err)
		}
	})
}
