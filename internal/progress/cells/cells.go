// Package cells keeps durable cursors: one file of 64-bit cells, mapped shared into memory and written by
// compare-and-swap. It knows nothing of what is in a cell; its users encode their positions into it.
//
// What it promises:
//
//   - At most once. CompareAndSwap is atomic over all goroutines, so of those that read the same value
//     one alone advances it. A successful swap counts at once, before the answer it belongs to has been
//     sent: a cursor may be ahead of what a client received by the requests that were in flight when it
//     was cut off, never behind.
//   - A swap that returned true survives the end of the process, kill -9 included: none is lost. The
//     cells are pages of the system's cache, not of the process.
//   - After a power failure or a crash of the system a cell may be behind by the sync interval (default 1
//     s) plus the sync that was in progress; the metrics show both. It then holds a value it once had:
//     aligned eight bytes are not torn.
//   - What a sync has covered is on the disk, in the cells' file or in the redo log beside it (redo.go).
//     Open brings the two together, and knows of each entry whether the cell is newer. They belong
//     together: move, copy and restore both.
//   - Space for every cell, and for the log, is taken beforehand and synced, so a full disk is an error
//     of Open and Grow and never a fault in Load or CompareAndSwap. After such an error the store is as
//     it was.
//   - Grow keeps every value, and it can be killed at any moment: the file then has the old number of
//     cells or the new one. New cells are zero. The address of a cell never changes, so nobody waits for
//     Grow.
//   - A damaged header, line of cells or redo log is told by its checksum and refused
//     (record.ErrCorrupt), as is another version of the format (record.ErrVersion); the file is not
//     touched. Options.AcceptLoss goes on with what is left.
//   - A failed sync poisons the store for good: the system may have thrown the data away, so every later
//     swap fails with record.ErrPoisoned, Err reports it for readiness checks, and nothing is retried.
//     Load still works.
//
// A store is used by one process at a time; the caller sees to that, by disk.LockDir for example.
//
// Load and CompareAndSwap take no lock and allocate nothing. The cost is at the disk. A sync writes 24
// bytes for each cell that has changed since the last one; now and then the system, or a full log, has the
// pages written that changed: 50,000 random advances a second in 5 million cells are 3.5 MB/s in all, where
// syncing the pages would write 40. A page that is not in memory is read from the disk by the goroutine
// that touches it. A disk that fails under the map makes them fault: the process ends unless the goroutine
// has set debug.SetPanicOnFault, see disk.Guard.
//
// On systems without shared maps of fixed address (Windows) the cells are in memory, under a lock, there is
// no log, and each swap is written to the file before it returns. The promises are the same.
//
// # File
//
// A header of package record, with 32 bytes of fields: a number that reveals the byte order, the number of
// cells, the boot of the system in which the file was opened last, and 1 if it was closed since. From byte
// 4096 on there are lines of 64 bytes in the byte order of the machine, see line.go. The file is as long as
// whole granules of 64 KiB make it; what is behind the last cell is not used yet.
package cells

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/metrics"
)

// DefaultMaxCells bounds a store whose Options do not: 2^32 cells, for which 32 GiB of address space are
// reserved, but no memory.
const DefaultMaxCells = 1 << 32

// Options are how to open a store. The zero value is good.
type Options struct {
	SyncInterval time.Duration     // between background syncs, 1 s if zero
	Metrics      *metrics.Registry // where to register; nil shows nothing. One store of a Name a registry.
	// Value of the label "store" of the metrics; the file's name without extension if empty.
	Name       string
	Logger     *slog.Logger // nil logs nothing
	MaxCells   uint64       // how far Grow can go, DefaultMaxCells if zero
	AcceptLoss bool         // what is damaged is given up
	Faults     disk.Faults  // for tests

	unmapped bool // for tests: as on systems without shared maps
}

// Store is an open file of cells. Len, Load, CompareAndSwap, Err, Sync and Grow are for any number of
// goroutines.
type Store struct {
	// What every request reads, seldom written, shares cache lines. The syncer's mark is written twice an
	// interval.
	words   []atomic.Uint64 // the lines of all cells there may ever be
	mapped  atomic.Uint64   // how many cells exist in words; 0 on systems without shared maps
	plain   *plainCells     // instead of words on systems without shared maps, else nil
	changed []atomic.Uint64 // a mark a cell, set after each write, for the redo log; as many as words
	syncer  record.Syncer

	n       atomic.Uint64 // Len
	path    string
	f       *os.File
	log     *slog.Logger
	faults  disk.Faults
	max     uint64
	existed bool // the file was there
	// Syncs of the cells themselves.
	checkpoints *metrics.Counter
	caching     sync.WaitGroup
	closing     chan struct{}

	// Of one sync, growth or end at a time.
	region   *disk.Region // nil when plain is not
	marks    *disk.Zeros  // of changed; nil when plain is not
	redo     *redoLog     // nil when plain is not
	header   header
	doubtful bool  // what the process before has written may not be on the disk, and taken for it
	size     int64 // bytes of the file that are allocated and mapped
}

// Open opens the file at path, creates it when there is none, and sees to it that there are at least cells
// cells. The directory must exist. It fails with record.ErrCorrupt or record.ErrVersion and leaves the file
// alone when it cannot be used as it is; a full disk, a read-only or missing directory are errors that say
// so.
func Open(path string, cells uint64, o Options) (*Store, error) {
	s := &Store{
		path:    path,
		log:     o.Logger,
		faults:  o.Faults,
		max:     o.MaxCells,
		closing: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.max == 0 {
		s.max = DefaultMaxCells
	}
	if o.SyncInterval <= 0 {
		o.SyncInterval = time.Second
	}
	// Lines are read through the map.
	if err := disk.Guard(func() error { return s.open(cells, o) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open cursors: %w", err), s.release())
	}
	name := o.Name
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	s.start(o, name)
	return s, nil
}

func (s *Store) open(cells uint64, o Options) error {
	if err := s.openFile(); err != nil {
		return err
	}
	h, was, err := readHeader(s.f)
	if err != nil {
		return err
	}
	s.header = h
	s.max = max(s.max, h.cells)
	if err := s.reserve(o); err != nil {
		return err
	}
	// A copy of the file may have holes where this one had zeros, so space is asked for again. Usually it
	// is all there.
	size := fileSize(h.cells)
	if err := s.faults.Allocate(s.f, 0, size); err != nil {
		return err
	}
	if err := s.extend(h.cells, size); err != nil {
		return err
	}
	if err := s.recover(o); err != nil {
		return errors.Join(err, s.f.Truncate(was)) // a file that is refused stays as it was
	}
	s.doubtful = s.existed && !h.clean
	h.boot, h.clean = thisBoot(), false
	if err := s.writeHeader(h); err != nil {
		return err
	}
	return s.grow(cells)
}

// openFile opens the file, and creates it first when there is none. It appears as a whole, so there is
// never a file without a header.
func (s *Store) openFile() (err error) {
	const makeWritable = "make the file and its directory writable or choose another directory"
	s.f, err = os.OpenFile(s.path, os.O_RDWR, 0)
	s.existed = err == nil
	if errors.Is(err, os.ErrNotExist) {
		if err := removeRedo(s.path); err != nil {
			return fmt.Errorf("%w: %s", err, makeWritable)
		}
		if err := disk.WriteFileAtomic(s.path, header{clean: true}.encode(), 0o600); err != nil {
			return err
		}
		s.f, err = os.OpenFile(s.path, os.O_RDWR, 0)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, makeWritable)
	}
	return nil
}

// reserve takes the address space for all cells, or decides to do without.
func (s *Store) reserve(o Options) error {
	err := errors.ErrUnsupported
	if !o.unmapped {
		s.region, err = disk.Reserve(fileSize(s.max))
	}
	if errors.Is(err, errors.ErrUnsupported) {
		s.plain = &plainCells{f: s.f}
		return nil
	}
	if err != nil {
		return err
	}
	s.words = s.region.Words()[dataOffset/8:]
	if s.marks, err = disk.ReserveZeros(len(s.words)/64 + 1); err != nil {
		return err
	}
	s.changed = s.marks.Words()
	return nil
}

// recover checks the cells, does again what is in the redo log, where they are not newer, and takes space
// for the log.
func (s *Store) recover(o Options) (err error) {
	if s.plain != nil {
		return refuseRedo(s.path)
	}
	if err := s.verify(s.header, o.AcceptLoss); err != nil {
		return err
	}
	done, lost := 0, int64(0)
	cells := s.n.Load()
	s.redo, lost, err = openRedo(s.path, o, func(i, value, count uint64) {
		if i >= cells { // the cells were put back from a backup
			return
		}
		at := word(i)
		if line := s.words[at&^7 : at|countWord+1]; line[countWord].Load()&countMask <= count {
			line[at%8].Store(value)
			line[countWord].Store(sealed(line, count))
			done++
		}
	})
	if err != nil {
		return err
	}
	if lost > 0 {
		s.log.Warn("cursors: damage to the redo log is accepted", "path", s.path, "lost_bytes", lost)
	}
	if done > 0 {
		s.log.Info("cursors were brought up to date from their redo log", "path", s.path, "entries", done)
	}
	return s.redo.Reserve(min(s.size, maxRedoLen))
}

// refuseRedo fails where a log has entries, on systems that have no logs.
func refuseRedo(path string) error {
	if _, err := os.Lstat(redoPath(path)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	entries := 0
	l, _, err := openRedo(path, Options{}, func(_, _, _ uint64) { entries++ })
	if err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	if entries > 0 {
		return fmt.Errorf("%s was written on another system and not closed there: let weir open and close "+
			"it there, for what is in %s",
			path, redoPath(path))
	}
	return nil
}

// extend makes the first cells cells, for which the file has size bytes, available.
func (s *Store) extend(cells uint64, size int64) error {
	var err error
	if s.plain != nil {
		err = s.plain.extend(cells)
	} else if err = s.region.Extend(s.f, size); err == nil {
		err = s.marks.Extend(int(cells/64) + 1)
	}
	if err != nil {
		return err
	}
	s.size = size
	if s.plain == nil {
		s.mapped.Store(cells)
	}
	s.n.Store(cells)
	return nil
}

// SyncInterval returns the time between background syncs.
func (s *Store) SyncInterval() time.Duration { return s.syncer.Interval() }

// SetSyncInterval changes it.
func (s *Store) SetSyncInterval(interval time.Duration) { s.syncer.SetInterval(interval) }

// Len returns the number of cells.
func (s *Store) Len() uint64 { return s.n.Load() }

// Load returns what is in cell i. It panics when there is no such cell, or when the store is closed.
func (s *Store) Load(i uint64) uint64 {
	if i < s.mapped.Load() {
		return s.words[word(i)].Load()
	}
	return s.loadSlow(i)
}

// Prefetch asks for cell i to be brought into the processor's cache, for a Load and a CompareAndSwap that
// come a microsecond later. It never waits; a cell there is not is passed over.
func (s *Store) Prefetch(i uint64) {
	if i < s.mapped.Load() {
		disk.PrefetchWord(&s.words[word(i)])
		disk.PrefetchWord(&s.changed[i/64])
	}
}

func (s *Store) loadSlow(i uint64) uint64 {
	if s.plain == nil || i >= s.n.Load() {
		s.beyond(i)
	}
	return s.plain.load(i)
}

// CompareAndSwap puts new into cell i if old is there, and says whether it was. The error is not nil only
// when the store is poisoned, and wraps record.ErrPoisoned; nothing was written then. It panics when there
// is no such cell, or when the store is closed.
func (s *Store) CompareAndSwap(i, old, new uint64) (bool, error) {
	if err := s.syncer.Err(); err != nil {
		return false, err
	}
	if i >= s.mapped.Load() {
		return s.swapSlow(i, old, new)
	}
	at := word(i)
	if !s.words[at].CompareAndSwap(old, new) {
		return false, nil
	}
	// In this order: what is counted and marked is there to be read.
	for last := &s.words[at|countWord]; ; {
		if before := last.Load(); last.CompareAndSwap(before, counted(before, at, old, new)) {
			break
		}
	}
	if marks, mark := &s.changed[i/64], uint64(1)<<(i%64); marks.Load()&mark == 0 {
		marks.Or(mark)
	}
	// A sync clears the mark before it writes. Whoever still finds it set has swapped before that, and is
	// covered.
	s.syncer.Mark()
	return true, nil
}

func (s *Store) swapSlow(i, old, new uint64) (bool, error) {
	if s.plain == nil || i >= s.n.Load() {
		s.beyond(i)
	}
	swapped, err := s.plain.compareAndSwap(i, old, new)
	if err != nil {
		return false, s.syncer.Poison(err)
	}
	if swapped {
		s.syncer.Mark()
	}
	return swapped, nil
}

// Err returns nil as long as the store takes swaps, and later what poisoned it, wrapped by
// record.ErrPoisoned.
func (s *Store) Err() error { return s.syncer.Err() }

// Close syncs the cells and closes the file. Nobody may use the store any more when it is called. It
// returns the error that poisoned the store, if one did. A second Close does nothing.
func (s *Store) Close() error {
	select {
	case <-s.closing:
		return nil
	default:
	}
	close(s.closing)
	s.caching.Wait()
	err := s.syncer.Close(func() error {
		// So that the file of cells is whole without its log.
		if s.redo != nil {
			if err := s.checkpoint(func() {}); err != nil {
				return err
			}
		}
		h := s.header
		h.clean = true
		return s.writeHeader(h)
	})
	return errors.Join(err, s.release())
}

// release gives back what open took.
func (s *Store) release() error {
	s.mapped.Store(0)
	s.n.Store(0)
	var err error
	if s.region != nil {
		err = s.region.Close()
	}
	if s.redo != nil {
		err = errors.Join(err, s.redo.Close())
	}
	if s.marks != nil {
		err = errors.Join(err, s.marks.Close())
	}
	if s.f != nil {
		err = errors.Join(err, s.f.Close())
	}
	return err
}
