package journal

import (
	"fmt"
	"os"
	"time"

	"weir/internal/metrics"
)

// clock returns the time since Open in nanoseconds, never 0, which stands for none.
func (j *Journal) clock() int64 { return max(int64(time.Since(j.opened)), 1) }

// Sync waits until all that was appended before it was called is on the disk. It does nothing when it is there already. A
// failure poisons the journal.
func (j *Journal) Sync() error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	return j.sync()
}

// sync is Sync for those who hold syncMu.
func (j *Journal) sync() error {
	j.mu.Lock()
	if err := j.usable(); err != nil {
		j.mu.Unlock()
		return err
	}
	f, end := j.f, j.end.Load()
	if end == j.synced.Load() {
		j.mu.Unlock()
		return nil
	}
	j.fence = Position(end)
	// syncing takes over before dirty lets go, so that Lag never misses it.
	j.syncing.Store(j.dirty.Load())
	j.dirty.Store(0)
	j.mu.Unlock()

	if err := j.flush(f); err != nil {
		return err // syncing stays: what was not written is getting older
	}
	j.synced.Store(end)
	j.syncing.Store(0)
	return nil
}

// flush waits until f is on the disk. A failure poisons the journal: what a second try would say is worth nothing.
func (j *Journal) flush(f *os.File) error {
	began := time.Now()
	err := j.faults.SyncData(f)
	j.metrics.syncs.Observe(0, time.Since(began), 1)
	if err != nil {
		return j.poison(err)
	}
	return nil
}

// Lag returns how much, and for how long, has been appended and is not known to be on the disk: what a power failure would
// cost now.
func (j *Journal) Lag() (bytes int64, age time.Duration) {
	oldest := j.syncing.Load()
	if oldest == 0 {
		oldest = j.dirty.Load()
	}
	synced := j.synced.Load() // before the end, which only grows
	bytes = int64(j.end.Load() - synced)
	if oldest == 0 || bytes == 0 {
		return bytes, 0
	}
	return bytes, time.Duration(j.clock() - oldest)
}

// background syncs every interval until Close, or until a sync fails.
func (j *Journal) background(interval time.Duration) {
	defer close(j.stopped)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-tick.C:
			if j.Sync() != nil {
				return
			}
		}
	}
}

// counters are the metrics that are counted, not asked for.
type counters struct {
	appends, records, bytes, appendErrors, checkpoints, checkpointErrors *metrics.Counter
	syncs                                                                *metrics.Histogram
}

func (j *Journal) register(r *metrics.Registry, name string) {
	if r == nil {
		r = metrics.New(1)
	}
	prefix := "weir_journal_"
	if name != "" {
		prefix = fmt.Sprintf("weir_%s_journal_", name)
	}
	j.metrics = counters{
		appends:          r.Counter(prefix+"appends_total", "Batches that were written to the journal."),
		records:          r.Counter(prefix+"records_total", "Records that were written to the journal."),
		bytes:            r.Counter(prefix+"bytes_total", "Bytes that were written to the journal, frames included."),
		appendErrors:     r.Counter(prefix+"append_errors_total", "Batches that the journal refused: a full disk, a poisoned journal."),
		checkpoints:      r.Counter(prefix+"checkpoints_total", "Checkpoints that were written."),
		checkpointErrors: r.Counter(prefix+"checkpoint_errors_total", "Checkpoints that failed; the former one stays."),
		syncs:            r.Histogram(prefix+"sync_seconds", "How long syncs of the journal took, failed ones included."),
	}
	r.Gauge(prefix+"sync_lag_seconds", "Age of the oldest record that is not on the disk: what a power failure would cost.", func() float64 {
		_, age := j.Lag()
		return age.Seconds()
	})
	r.Gauge(prefix+"unsynced_bytes", "Bytes of the journal that are not on the disk.", func() float64 {
		bytes, _ := j.Lag()
		return float64(bytes)
	})
	r.Gauge(prefix+"segments", "Files of records.", func() float64 { return float64(j.segments.Load()) })
	r.Gauge(prefix+"replay_bytes", "Bytes after the last checkpoint: what a start reads again.", func() float64 {
		since := j.checkpointed.Load() // before the end, which only grows
		return float64(j.end.Load() - since)
	})
	r.Gauge(prefix+"checkpoint_age_seconds", "Time since the last checkpoint, or since the start if there is none.", func() float64 {
		return time.Since(time.Unix(0, j.checkpointTime.Load())).Seconds()
	})
	r.Gauge(prefix+"cut_bytes", "Bytes at the end that a crash had torn and the start cut off.", func() float64 { return float64(j.cut) })
	r.Gauge(prefix+"poisoned", "1 after a failed sync: records are refused until a restart.", func() float64 {
		if j.failed.Load() != nil {
			return 1
		}
		return 0
	})
}

// poison makes the journal refuse everything from now on. The first cause is the one to report.
func (j *Journal) poison(cause error) error {
	err := fmt.Errorf("%w: %w: check the disk of %s and restart", ErrPoisoned, cause, j.dir)
	if j.failed.CompareAndSwap(nil, &failure{err}) {
		j.log.Error("journal: records are refused from now on", "dir", j.dir, "error", cause)
	}
	return j.Err()
}

// usable returns why nothing can be written; the caller holds mu.
func (j *Journal) usable() error {
	if j.closed {
		return fmt.Errorf("journal %s: %w", j.dir, os.ErrClosed)
	}
	return j.Err()
}
