// Package journal keeps an append-only log of records, for what is more than a word and not idempotent, and
// checkpoints that let it be short. It knows nothing of what is in a record.
//
// What it promises:
//
//   - What Append returned nil for survives the end of the process, kill -9 included: it was written to the
//     file, one write for a whole batch. Of a batch all records are replayed or none.
//   - A background sync follows every interval (default 500 ms) in which something was appended. After a
//     power failure the records of the last interval, and of the sync that was in progress, may be missing;
//     Lag and the metrics say how many bytes and for how long. What is replayed is always a prefix of what
//     was appended.
//   - Open tells a torn end from damage, as package record does. Torn is what was never synced: it is cut
//     off, and the log says so. Damage to what was on the disk once, a file that is missing, or one of
//     another format is refused with the file and the offset (record.ErrCorrupt, record.ErrVersion), and
//     the directory is left as it is, unless Options.AcceptLoss gives up what follows.
//   - Checkpoint replaces the checkpoint as a whole and removes files only when it is on the disk, while
//     appends go on. Whenever it fails or is killed, the former checkpoint and what followed it are there,
//     or the new one is.
//   - An Append that failed has left nothing, and the journal takes the next one: a full disk costs what
//     comes while it is full. A failed sync poisons it, for nobody can tell what has reached the disk:
//     every later append fails with record.ErrPoisoned, and nothing is retried until the next Open, which
//     writes anew what may be missing.
//   - A directory is used by one process at a time: it is locked. It is the journal's own.
//
// Append takes some microseconds, the time of a system call, and allocates nothing. Once in a segment
// (default 64 MiB) it waits for the disk.
//
// # Files
//
// LOCK; segments, named by the position of their first byte in 20 decimal digits and .journal; and
// checkpoint. A position is a number of bytes since the journal began, over all segments, those included
// that were removed.
//
// A segment is a log of package record, each frame a batch: its records, each behind its length as a
// varint. All segments have one id. A segment is synced before the next one is begun, and each begins where
// the one before it ends. So in all but the last every frame has to be valid, up to the last byte. A frame
// without records is written by Close, unless a checkpoint has everything: it says that all before it has
// been synced.
//
// A checkpoint is a header of package record and then the state that the caller wrote. The fields of the
// header, of 8 bytes each, are the id of the segments, the position before which frames are part of the
// state, the bytes of the state, and its XXH3-64.
//
// # Metrics
//
// All begin with weir_NAME_journal_, NAME being Options.Name.
//
//	appends_total, records_total, bytes_total  what was appended: batches, records, bytes with frames
//	append_errors_total                        batches that were refused
//	unsynced_bytes                             what a power failure would cost now
//	checkpoints_total                          checkpoints that were written
//	checkpoint_errors_total                    checkpoints that failed; the former one stays
//	checkpoint_age_seconds                     since the last checkpoint, or since the start if there was none
//	segments                                   files of records
//	replay_bytes                               what follows the checkpoint, and a start would read
//	cut_bytes                                  what this start has cut off as torn
//
// and those of record.Syncer, labelled data="NAME".
package journal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/metrics"
)

// ErrTooLarge means that a batch has more than MaxBatch bytes.
var ErrTooLarge = errors.New("batch is too large for the journal")

// What Options leave zero.
const (
	DefaultSync    = 500 * time.Millisecond
	DefaultSegment = 64 << 20
)

// Options are how to open a journal. The zero value is good.
type Options struct {
	Sync    time.Duration     // between background syncs, DefaultSync if zero
	Segment int64             // bytes of a file before the next is begun, DefaultSegment if zero
	Log     *slog.Logger      // nil logs nothing
	Metrics *metrics.Registry // where to register; nil shows nothing. One journal of a Name a registry.
	// Metrics are called weir_NAME_journal_..., in snake_case; weir_journal_... if empty.
	Name   string
	Faults disk.Faults // for tests
	// AcceptLoss gives up damaged batches and all that follow them, where Open would refuse.
	AcceptLoss bool

	id   uint64            // for tests: the journal's number, a random one if zero
	step func(name string) // for tests: called where a kill is of interest
}

// Position is a place in a journal: the number of bytes before it since the journal began. Those that are
// removed later count, so positions only grow, whatever is restarted.
type Position uint64

// Journal is an open journal. Its methods are for any number of goroutines; appends come one after the other.
type Journal struct {
	dir     string
	id      uint64
	segment int64
	log     *slog.Logger
	faults  disk.Faults
	step    func(name string)
	metrics counters
	syncer  record.Syncer

	end            atomic.Uint64 // Position; written under mu
	synced         atomic.Uint64 // up to where the journal is on the disk
	checkpointed   atomic.Uint64 // position of the last checkpoint
	checkpointTime atomic.Int64  // of the last checkpoint, Unix nanoseconds
	segments       atomic.Int64  // len(bases)
	replayed       uint64        // records that Open replayed
	cut            int64         // bytes that Open cut off
	lock           *disk.DirLock

	// In this order, where several are held; the syncer's lock comes between the two.
	checkpointing sync.Mutex // one Checkpoint at a time
	mu            sync.Mutex // what is below

	last   *record.Log // the last segment; only replaced while no sync is under way
	bases  []Position  // of all segments, last included
	marked Position    // the end after the mark of the last Close
	closed bool
}

// Open opens the journal in dir, or makes one there; the directory is made too if its parent is there. load
// is called once with the state of the last checkpoint, if there is one, then replay for each record that
// was appended after it, in order. A record is valid during the call. An error of theirs ends Open. A
// journal that is damaged, of which files are missing (record.ErrCorrupt), that another version of the
// program wrote (record.ErrVersion), or that another process has open (disk.ErrLocked) is refused and left
// as it is.
func Open(dir string, o Options, load func(io.Reader) error, replay func(rec []byte) error) (*Journal,
	error) {
	began := time.Now()
	j := &Journal{dir: dir, id: o.id, segment: o.Segment, log: o.Log, faults: o.Faults, step: o.step}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	if j.segment <= 0 {
		j.segment = DefaultSegment
	}
	if j.step == nil {
		j.step = func(string) {}
	}
	if err := j.open(o.AcceptLoss, load, replay); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal: %w", err), j.release())
	}
	j.segments.Store(int64(len(j.bases)))
	if j.replayed > 0 {
		j.log.Info("journal replayed", "dir", dir, "records", j.replayed, "took", time.Since(began))
	}
	j.register(o.Metrics, o.Name)
	interval := o.Sync
	if interval <= 0 {
		interval = DefaultSync
	}
	name := o.Name
	if name == "" {
		name = "journal"
	}
	j.syncer.Start(record.SyncerOptions{Name: name, Path: dir, Interval: interval, Flush: j.flush, Log: j.log,
		Metrics: o.Metrics})
	return j, nil
}

// Append writes the records of b, all of them or none. When it returns nil they survive the end of the
// process, kill -9 included, and a power failure once they are synced. An empty batch is nothing to write.
// b stays as it is, to be Reset.
//
// A failed Append has written nothing: what was torn is cut off, and the caller may try again, when there
// is room on the disk say. Only when that, or a sync, fails is the journal poisoned: then this and every
// later error wraps record.ErrPoisoned.
func (j *Journal) Append(b *Batch) error {
	if b.records == 0 {
		return j.Err()
	}
	err := j.append(b)
	if err != nil {
		j.metrics.appendErrors.Add(0, 1)
		return err
	}
	j.metrics.appends.Add(0, 1)
	j.metrics.records.Add(0, uint64(b.records))
	j.metrics.bytes.Add(0, uint64(len(b.buf)))
	return nil
}

func (j *Journal) append(b *Batch) error {
	if b.Size() > MaxBatch {
		return fmt.Errorf("%w: %d bytes, at most %d: split it", ErrTooLarge, b.Size(), MaxBatch)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	if j.full(len(b.buf)) {
		// Locks are taken in their order.
		j.mu.Unlock()
		err := j.syncer.Exclusive(func() error { return j.rotate(len(b.buf)) })
		j.mu.Lock()
		if err != nil {
			return err
		}
		if err := j.usable(); err != nil {
			return err
		}
	}
	return j.write(b.buf)
}

// full says whether a frame of n bytes goes to the next segment.
func (j *Journal) full(n int) bool {
	return j.last.End() > j.last.Base()+record.PageSize && j.last.After(n)-j.last.Base() > uint64(j.segment)
}

// write makes a frame of frame, which has room for a header, and writes it at the end.
func (j *Journal) write(frame []byte) error {
	if err := j.last.Append(frame); err != nil {
		err = fmt.Errorf("append to journal: %w: make room on the disk of %s, or check it", err, j.dir)
		if errors.Is(err, record.ErrUncertain) {
			return j.syncer.Poison(err)
		}
		return err
	}
	j.end.Store(j.last.End())
	j.syncer.Mark()
	return nil
}

// Rotate begins a new segment, so that a checkpoint removes all that was appended before it.
func (j *Journal) Rotate() error {
	return j.syncer.Exclusive(func() error { return j.rotate(int(j.segment)) })
}

// rotate begins a new segment, unless a frame of n bytes has room by now. The old one is on the disk
// before: only the last segment can be torn. No sync is under way.
func (j *Journal) rotate(n int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil || !j.full(n) {
		return err
	}
	// Also if nothing was appended since the last sync: a torn write may have been cut off, and the size
	// has to be right.
	if err := j.last.Sync(); err != nil {
		return j.syncer.Poison(err)
	}
	j.step("old segment synced")
	base := j.Position()
	last, err := j.createSegment(base)
	if err != nil {
		err = fmt.Errorf("append to journal: begin the next file: %w", err)
		if errors.Is(err, record.ErrUncertain) {
			return j.syncer.Poison(err)
		}
		return err
	}
	j.step("new segment created")
	if err := j.last.Close(); err != nil {
		j.log.Warn("journal: a segment was not closed", "file", j.last.File().Name(), "error", err)
	}
	j.use(last)
	j.segments.Store(int64(len(j.bases)))
	j.syncer.Settled()
	return nil
}

// use takes a new segment for the last one. All of it is on the disk.
func (j *Journal) use(last *record.Log) {
	j.last = last
	j.bases = append(j.bases, Position(last.Base()))
	j.end.Store(last.End())
	j.synced.Store(last.End())
}

// Position returns the end: of what has been appended so far.
func (j *Journal) Position() Position { return Position(j.end.Load()) }

// Checkpointed returns the position of the last checkpoint, zero if there was none. What follows it is
// replayed by Open.
func (j *Journal) Checkpointed() Position { return Position(j.checkpointed.Load()) }

// Cut returns how many bytes Open has cut off: of a torn end, or given up by Options.AcceptLoss.
func (j *Journal) Cut() int64 { return j.cut }

// Err returns nil as long as the journal takes records, and later what poisoned it, wrapped by
// record.ErrPoisoned.
func (j *Journal) Err() error { return j.syncer.Err() }

// Close syncs the journal and gives it back. It waits for a checkpoint in progress. It returns the error
// that poisoned the journal, if one did. A second Close does nothing.
func (j *Journal) Close() error {
	j.checkpointing.Lock()
	defer j.checkpointing.Unlock()
	j.mu.Lock()
	closed := j.closed
	j.closed = true // nothing is appended any more, but for the mark
	j.mu.Unlock()
	if closed {
		return nil
	}
	err := j.syncer.Close(func() error {
		j.mark()
		return j.flush(nil)
	})
	return errors.Join(err, j.release())
}

// mark appends a frame without records, which says that all before it was synced. So damage in the last
// batches is not taken for a torn end. Where a checkpoint has them all there is nothing to say. It may
// fail.
func (j *Journal) mark() {
	end := j.Position()
	if end == j.marked || end == j.Checkpointed() || end != Position(j.synced.Load()) {
		return
	}
	if err := j.write(make([]byte, record.FrameHeader)); err != nil {
		j.log.Warn("journal: the mark of its end was not written", "dir", j.dir, "error", err)
	}
}

// release gives back what open took.
func (j *Journal) release() error {
	var err error
	if j.last != nil {
		err = j.last.Close()
	}
	if j.lock != nil {
		err = errors.Join(err, j.lock.Close())
	}
	return err
}
