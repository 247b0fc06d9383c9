package journal

import (
	"fmt"
	"os"
	"time"

	"weir/internal/metrics"
)

// Sync waits until all that was appended before it was called is on the disk. It does nothing when it is
// there already. A failure poisons the journal.
func (j *Journal) Sync() error { return j.syncer.Sync() }

// SetSync changes the time between background syncs.
func (j *Journal) SetSync(every time.Duration) { j.syncer.SetInterval(every) }

// SyncInterval returns it.
func (j *Journal) SyncInterval() time.Duration { return j.syncer.Interval() }

// flush has the last segment, which only rotate replaces, reach the disk.
func (j *Journal) flush(func()) error {
	j.mu.Lock()
	last := j.last
	end := last.Fence()
	j.mu.Unlock()
	if err := j.faults.SyncData(last.File()); err != nil {
		return err
	}
	j.mu.Lock()
	last.Durable(end)
	j.mu.Unlock()
	j.synced.Store(end)
	return nil
}

// Lag returns how much, and for how long, has been appended and is not known to be on the disk: what a
// power failure would cost now.
func (j *Journal) Lag() (bytes int64, age time.Duration) {
	age = j.syncer.Lag()
	synced := j.synced.Load() // before the end, which only grows
	if bytes = int64(j.end.Load() - synced); bytes == 0 {
		return 0, 0
	}
	return bytes, age
}

// counters are the metrics that are counted, not asked for.
type counters struct {
	appends, records, bytes, appendErrors, checkpoints, checkpointErrors *metrics.Counter
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
		appends: r.Counter(prefix+"appends_total", "Batches that were written to the journal."),
		records: r.Counter(prefix+"records_total", "Records that were written to the journal."),
		bytes: r.Counter(prefix+"bytes_total",
			"Bytes that were written to the journal, frames included."),
		appendErrors: r.Counter(prefix+"append_errors_total",
			"Batches that the journal refused: a full disk, a poisoned journal."),
		checkpoints: r.Counter(prefix+"checkpoints_total", "Checkpoints that were written."),
		checkpointErrors: r.Counter(prefix+"checkpoint_errors_total",
			"Checkpoints that failed; the former one stays."),
	}
	r.Gauge(prefix+"unsynced_bytes", "Bytes of the journal that are not on the disk.", func() float64 {
		bytes, _ := j.Lag()
		return float64(bytes)
	})
	r.Gauge(prefix+"segments", "Files of records.", func() float64 { return float64(j.segments.Load()) })
	r.Gauge(prefix+"replay_bytes", "Bytes after the last checkpoint: what a start reads again.",
		func() float64 {
			since := j.checkpointed.Load() // before the end, which only grows
			return float64(j.end.Load() - since)
		})
	r.Gauge(prefix+"checkpoint_age_seconds",
		"Time since the last checkpoint, or since the start if there is none.", func() float64 {
			return time.Since(time.Unix(0, j.checkpointTime.Load())).Seconds()
		})
	r.Gauge(prefix+"cut_bytes", "Bytes at the end that a crash had torn and the start cut off.",
		func() float64 { return float64(j.cut) })
}

// usable returns why nothing can be written; the caller holds mu.
func (j *Journal) usable() error {
	if j.closed {
		return fmt.Errorf("journal %s: %w", j.dir, os.ErrClosed)
	}
	return j.Err()
}
