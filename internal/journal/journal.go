// Package journal keeps an append-only log of records, for what is more than a word and not idempotent, and checkpoints that let
// it be short. It knows nothing of what is in a record.
//
// What it promises:
//
//   - What Append returned nil for survives the end of the process, kill -9 included: it was written to the file, one write
//     for a whole batch. Of a batch all records are replayed or none.
//   - A background sync follows every interval (default 500 ms) in which something was appended. After a power failure the records of
//     the last interval, and of the sync that was in progress, may be missing; Lag and the metrics say how many bytes and for how long.
//     What is replayed is always a prefix of what was appended.
//   - Open tells a torn end from damage. Torn is what was never synced: it is cut off, and the log says so. Damage to what was on
//     the disk once, a file that is missing, or one of another format is refused with the file and the offset (ErrCorrupt,
//     ErrVersion), and the directory is left as it is.
//   - Checkpoint replaces the checkpoint as a whole and removes files only when it is on the disk, while appends go on. Whenever
//     it fails or is killed, the former checkpoint and what followed it are there, or the new one is.
//   - An Append that failed has left nothing, and the journal takes the next one: a full disk costs what comes while it is full.
//     A failed sync poisons it, for nobody can tell what has reached the disk: every later append fails with ErrPoisoned, and
//     nothing is retried until the next Open, which writes anew what may be missing.
//   - A directory is used by one process at a time: it is locked. It is the journal's own.
//
// Append takes some microseconds, the time of a system call, and allocates nothing. Once in a segment (default 64 MiB) it waits for
// the disk.
//
// # Files
//
// LOCK; segments, named by the position of their first byte in 20 decimal digits and .journal; and checkpoint. A position is a
// number of bytes since the journal began, over all segments, those included that were removed. Numbers are little-endian.
//
// A segment begins with a page of 4096 bytes,
//
//	offset  size  field
//	     0     8  magic, "weirjrnl"
//	     8     4  version of the format, 1
//	    12     4  zero
//	    16     8  the journal's own random number, the same in all its files
//	    24     8  position of the first byte of the file
//	    32     8  XXH3-64 of the bytes before
//
// and zeros. Frames follow, one a batch:
//
//	offset  size  field
//	     0     4  bytes of records
//	     4     4  gap: bytes between the frame before and this one, less than 4096
//	     8     8  position up to which the journal was on the disk when the frame was written
//	    16     8  XXH3-64 of the records
//	    24     8  XXH3-64 of the bytes before, its seed the journal's random number plus the position of the frame
//	    32        records, each behind its length as a varint
//
// A frame is valid in its place alone, so what a file held before it was cut, or another file on the same blocks, is never taken for one.
// Usually there is no gap. The first frame after the start of a sync begins on a page of its own, so that appends never write
// a page again that has been synced, and a disk that tears a page while the power goes can harm none that was. A frame without records is
// written by Close, unless a checkpoint has everything: it says that all before it has been synced.
//
// A checkpoint is a header and then the state that the caller wrote:
//
//	offset  size  field
//	     0     8  magic, "weirckpt"
//	     8     4  version of the format, 1
//	    12     4  zero
//	    16     8  the journal's random number
//	    24     8  position: frames before it are part of the state
//	    32     8  bytes of state
//	    40     8  XXH3-64 of the state
//	    48     8  XXH3-64 of the bytes before
//	    56     8  zero
//	    64        state
//
// # What is torn, and what is damaged
//
// A segment is synced before the next one is begun, and each begins where the one before it ends. So in all but the last every frame has to be
// valid, up to the last byte. In the last one the frames end where the first invalid one begins, at P. The disk writes pages
// in any order, so behind P there may be whole frames even though nothing there was ever synced. But each of them knows
// up to where the journal was on the disk when it was written: if one says that this was behind P, then P was on the disk,
// and the file is damaged. If none does, P and all behind it is torn. The header alone is enough to know, and it
// is looked for at every offset, since the length at P cannot be trusted.
//
// What cannot be told is damage to the very last frames, those that were synced and that no frame follows: it looks like a torn
// end. Close leaves its mark so that this concerns only a journal that was not closed.
//
// # Metrics
//
// All begin with weir_NAME_journal_, NAME being Options.Name.
//
//	appends_total, records_total, bytes_total  what was appended: batches, records, bytes with frames
//	append_errors_total                        batches that were refused
//	sync_seconds                               histogram of syncs, failed ones included
//	sync_lag_seconds, unsynced_bytes           what a power failure would cost now
//	checkpoints_total                          checkpoints that were written
//	checkpoint_errors_total                    checkpoints that failed; the former one stays
//	checkpoint_age_seconds                     since the last checkpoint, or since the start if there was none
//	segments                                   files of records
//	replay_bytes                               what follows the checkpoint, and a start would read
//	cut_bytes                                  what this start has cut off as torn
//	poisoned                                   1 after a failed sync
package journal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
	"weir/internal/metrics"
)

var (
	// ErrCorrupt means that a file was damaged, or is missing, and that what was acknowledged cannot be replayed.
	ErrCorrupt = errors.New("journal is corrupt")
	// ErrVersion means that another version of the program wrote the journal.
	ErrVersion = errors.New("journal has another format version")
	// ErrPoisoned means that an earlier sync failed and that nothing is written any more.
	ErrPoisoned = errors.New("journal takes no records after a failed write to the disk")
	// ErrTooLarge means that a batch has more than MaxBatch bytes.
	ErrTooLarge = errors.New("batch is too large for the journal")
)

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
	Name    string            // metrics are called weir_NAME_journal_..., in snake_case; weir_journal_... if empty
	Faults  disk.Faults       // for tests

	id        uint64                   // for tests: the journal's number, a random one if zero
	syncDir   func(dir string) error   // for tests: instead of disk.SyncDir in Open
	step      func(name string)        // for tests: called where a kill is of interest
	failWrite func(n int) (int, error) // for tests: called before n bytes are written; with an error only so many are
}

// Position is a place in a journal: the number of bytes before it since the journal began. Those that are removed later count,
// so positions only grow, whatever is restarted.
type Position uint64

// Journal is an open journal. Its methods are for any number of goroutines; appends come one after the other.
type Journal struct {
	dir     string
	id      uint64
	segment int64
	log     *slog.Logger
	faults  disk.Faults
	opened  time.Time // the zero of clock
	metrics counters

	syncDir   func(dir string) error
	step      func(name string)
	failWrite func(n int) (int, error)

	failed         atomic.Pointer[failure] // nil until poisoned
	end            atomic.Uint64           // Position; written under mu
	synced         atomic.Uint64           // up to where the journal is on the disk
	dirty          atomic.Int64            // when the oldest append that no sync has begun to cover was made, by clock; 0 is none
	syncing        atomic.Int64            // the same of the sync in progress
	checkpointed   atomic.Uint64           // position of the last checkpoint
	checkpointTime atomic.Int64            // of the last checkpoint, Unix nanoseconds
	segments       atomic.Int64            // len(bases)
	replayed       uint64                  // records that Open replayed
	cut            int64                   // bytes that Open cut off
	lock           *disk.DirLock
	stop           chan struct{}
	stopped        chan struct{}

	// In this order, where several are held.
	checkpointing sync.Mutex // one Checkpoint at a time
	syncMu        sync.Mutex // one sync at a time; f is not closed meanwhile
	mu            sync.Mutex // what is below

	f      *os.File   // the last segment
	base   Position   // of f
	bases  []Position // of all segments, f last
	fence  Position   // the end when the last sync began: what follows is on another page
	marked Position   // the end after the mark of the last Close
	closed bool
}

type failure struct{ err error }

// Open opens the journal in dir, or makes one there; the directory is made too if its parent is there. load is called once with the
// state of the last checkpoint, if there is one, then replay for each record that was appended after it, in order. A record is valid during
// the call. An error of theirs ends Open. A journal that is damaged, of which files are missing (ErrCorrupt), that another version of
// the program wrote (ErrVersion), or that another process has open (disk.ErrLocked) is refused and left as it is.
func Open(dir string, o Options, load func(io.Reader) error, replay func(record []byte) error) (*Journal, error) {
	j := &Journal{
		dir:       dir,
		id:        o.id,
		segment:   o.Segment,
		log:       o.Log,
		faults:    o.Faults,
		opened:    time.Now(),
		syncDir:   o.syncDir,
		step:      o.step,
		failWrite: o.failWrite,
		stop:      make(chan struct{}),
		stopped:   make(chan struct{}),
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	if j.segment <= 0 {
		j.segment = DefaultSegment
	}
	if j.syncDir == nil {
		j.syncDir = disk.SyncDir
	}
	if j.step == nil {
		j.step = func(string) {}
	}
	if err := j.open(load, replay); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal: %w", err), j.release())
	}
	j.segments.Store(int64(len(j.bases)))
	if j.replayed > 0 {
		j.log.Info("journal replayed", "dir", dir, "records", j.replayed, "seconds", time.Since(j.opened).Seconds())
	}
	j.register(o.Metrics, o.Name)
	interval := o.Sync
	if interval <= 0 {
		interval = DefaultSync
	}
	go j.background(interval)
	return j, nil
}

// Append writes the records of b, all of them or none. When it returns nil they survive the end of the process, kill -9
// included, and a power failure once they are synced. An empty batch is nothing to write. b stays as it is, to be Reset.
//
// A failed Append has written nothing: what was torn is cut off, and the caller may try again, when there is room on the disk
// say. Only when that, or a sync, fails is the journal poisoned: then this and every later error wraps ErrPoisoned.
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
		err := j.rotate(len(b.buf))
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
	used := int64(j.Position() - j.base)
	return used > headerLen && used+j.gap()+int64(n) > j.segment
}

// gap returns how many bytes are left free before the next frame.
func (j *Journal) gap() int64 {
	if end := j.Position(); end == j.fence {
		return pad(int64(end - j.base))
	}
	return 0
}

// write makes a frame of frame, which has room for a header, and writes it at the end.
func (j *Journal) write(frame []byte) error {
	end, gap := j.Position(), j.gap()
	at := int64(end - j.base)
	records := frame[frameHeaderLen:]
	frameHeader{
		length:   uint32(len(records)),
		gap:      uint32(gap),
		synced:   Position(j.synced.Load()),
		checksum: xxh3.Hash(records),
	}.put(frame, seed(j.id, j.base, at+gap))
	if err := j.writeAt(frame, at+gap); err != nil {
		err = fmt.Errorf("append to journal: %w: make room on the disk of %s, or check it", err, j.dir)
		if terr := j.f.Truncate(at); terr != nil {
			return j.poison(errors.Join(err, terr))
		}
		return err
	}
	j.end.Store(uint64(end) + uint64(gap) + uint64(len(frame)))
	if j.dirty.Load() == 0 {
		j.dirty.Store(j.clock())
	}
	return nil
}

func (j *Journal) writeAt(b []byte, off int64) error {
	if j.failWrite != nil {
		if n, err := j.failWrite(len(b)); err != nil {
			_, werr := j.f.WriteAt(b[:n], off)
			return errors.Join(err, werr)
		}
	}
	_, err := j.f.WriteAt(b, off)
	return err
}

// rotate begins a new segment, unless a frame of n bytes has room by now. The old one is on the disk before: only the last
// segment can be torn.
func (j *Journal) rotate(n int) error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil || !j.full(n) {
		return err
	}
	// Also if nothing was appended since the last sync: a torn write may have been cut off, and the size has to be right.
	j.fence = j.Position()
	if err := j.flush(j.f); err != nil {
		return err
	}
	j.step("old segment synced")
	base := j.Position()
	f, err := j.createSegment(base)
	if err != nil {
		err = fmt.Errorf("append to journal: begin the next file: %w", err)
		if errors.Is(err, errUncertain) {
			return j.poison(err)
		}
		return err
	}
	j.step("new segment created")
	if err := j.f.Close(); err != nil {
		j.log.Warn("journal: a segment was not closed", "file", j.f.Name(), "error", err)
	}
	j.f, j.base = f, base
	j.bases = append(j.bases, base)
	j.segments.Store(int64(len(j.bases)))
	j.dirty.Store(0)
	j.syncing.Store(0)
	j.ready(base + headerLen)
	return nil
}

// ready says that the journal ends at end, and that all of it is on the disk.
func (j *Journal) ready(end Position) {
	j.end.Store(uint64(end))
	j.synced.Store(uint64(end))
	j.fence = end
}

// Position returns the end: of what has been appended so far.
func (j *Journal) Position() Position { return Position(j.end.Load()) }

// Checkpointed returns the position of the last checkpoint, zero if there was none. What follows it is replayed by Open.
func (j *Journal) Checkpointed() Position { return Position(j.checkpointed.Load()) }

// Err returns nil as long as the journal takes records, and later what poisoned it, wrapped by ErrPoisoned.
func (j *Journal) Err() error {
	if p := j.failed.Load(); p != nil {
		return p.err
	}
	return nil
}

// Close syncs the journal and gives it back. It waits for a checkpoint in progress. It returns the error that poisoned the journal, if one
// did. A second Close does nothing.
func (j *Journal) Close() error {
	j.checkpointing.Lock()
	defer j.checkpointing.Unlock()
	j.mu.Lock()
	closed := j.closed
	j.mu.Unlock()
	if closed {
		return nil
	}
	close(j.stop)
	<-j.stopped
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	err := j.sync()
	j.mu.Lock()
	j.closed = true
	if err == nil {
		j.mark()
	}
	j.mu.Unlock()
	if err == nil {
		if err = j.flush(j.f); err == nil {
			j.synced.Store(j.end.Load())
		}
	}
	return errors.Join(err, j.release())
}

// mark appends a frame without records, which says that all before it was synced. So damage in the last batches is not taken
// for a torn end. Where a checkpoint has them all there is nothing to say. It may fail.
func (j *Journal) mark() {
	end := j.Position()
	if end == j.marked || end == j.Checkpointed() || end != Position(j.synced.Load()) {
		return
	}
	if err := j.write(make([]byte, frameHeaderLen)); err != nil {
		j.log.Warn("journal: the mark of its end was not written", "dir", j.dir, "error", err)
	}
}

// release gives back what open took.
func (j *Journal) release() error {
	var err error
	if j.f != nil {
		err = j.f.Close()
	}
	if j.lock != nil {
		err = errors.Join(err, j.lock.Close())
	}
	return err
}
