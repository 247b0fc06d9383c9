// Package cells keeps durable cursors: one file of 64-bit cells, mapped shared into memory and written by
// compare-and-swap. It knows nothing of what is in a cell; its users encode their positions into it.
//
// What it promises:
//
//   - At most once. CompareAndSwap is atomic over all goroutines, so of those that read the same value one alone
//     advances it. A successful swap counts at once, before the answer it belongs to has been sent: a cursor may be
//     ahead of what a client received by the requests that were in flight when it was cut off, never behind.
//   - A swap that returned true survives the end of the process, kill -9 included: none is lost. The cells are pages of
//     the system's cache, not of the process.
//   - After a power failure or a crash of the system a cell may be behind by the sync interval (default 1 s) plus the
//     sync that was in progress; the metrics show both. It then holds a value it once had: aligned eight bytes are not
//     torn.
//   - What a sync has covered is on the disk, in the cells' file or in the redo log beside it (redo.go). Open brings the two
//     together, and knows of each entry whether the cell is newer. They belong together: move, copy and restore both.
//   - Space for every cell, and for the log, is taken beforehand and synced, so a full disk is an error of Open and Grow and never a
//     fault in Load or CompareAndSwap. After such an error the store is as it was.
//   - Grow keeps every value, and it can be killed at any moment: the file then has the old number of cells or the new
//     one. New cells are zero. The address of a cell never changes, so nobody waits for Grow.
//   - Two header pages say the same; a torn or damaged one is recognised by its checksum, the newest valid one
//     wins, and Open writes the other one anew. A file that is damaged beyond that (ErrCorrupt), or of another version
//     of the format (ErrVersion), is refused and not touched.
//   - A failed sync poisons the store for good: the system may have thrown the data away, so every later swap fails
//     with ErrPoisoned, Err reports it for readiness checks, and nothing is retried. Load still works.
//
// A store is used by one process at a time; the caller sees to that, by disk.LockDir for example.
//
// Load and CompareAndSwap take no lock and allocate nothing. The cost is at the disk. A sync writes 24 bytes for each cell that has changed
// since the last one; now and then the system, or a full log, has the pages written that changed: 50,000 random advances a second in 5
// million cells are 3.5 MB/s in all, where syncing the pages would write 40. A page that is not in memory is read from the disk by the
// goroutine that touches it. A disk that fails under the map makes them fault: the process ends unless the goroutine has set
// debug.SetPanicOnFault, see disk.Guard.
//
// On systems without shared maps of fixed address (Windows) the cells are in memory, under a lock, there is no log, and each swap is
// written to the file before it returns. The promises are the same.
//
// # File
//
// All numbers are in the byte order of the machine, which the magic number reveals. Two header pages of 4096 bytes are followed,
// from byte 8192 on, by lines of 64 bytes: seven cells of 8 bytes and the number of changes that were made to them. A header page with an even sequence number is the first one, with an
// odd one the second, and holds
//
//	offset  size  field
//	     0     8  magic, "weircell" as a little-endian number
//	     8     4  version of the format, 2
//	    12     4  zero
//	    16     8  sequence number, one more at every write
//	    24     8  number of cells
//	    32     8  XXH3-64 of the bytes before
//
// and zeros. The file is as long as whole granules of 64 KiB make it; what is behind the last cell is not used yet.
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
	"weir/internal/metrics"
)

var (
	// ErrCorrupt means that the file is not, or no longer, a file of cells.
	ErrCorrupt = errors.New("cursor file is corrupt")
	// ErrVersion means that another version of the program wrote the file.
	ErrVersion = errors.New("cursor file has another format version")
	// ErrPoisoned means that an earlier sync failed and nothing is written any more.
	ErrPoisoned = errors.New("cursors take no advances after a failed sync")
)

// DefaultMaxCells bounds a store whose Options do not: 2^32 cells, for which 32 GiB of address space are reserved, but no memory.
const DefaultMaxCells = 1 << 32

// Options are how to open a store. The zero value is good.
type Options struct {
	SyncInterval time.Duration     // between background syncs, 1 s if zero
	Metrics      *metrics.Registry // where to register; nil shows nothing. One store of a Name a registry.
	Name         string            // value of the label "store" of the metrics; the file's name without extension if empty
	Logger       *slog.Logger      // nil logs nothing
	MaxCells     uint64            // how far Grow can go, DefaultMaxCells if zero
	Faults       disk.Faults       // for tests

	unmapped bool // for tests: as on systems without shared maps
}

// Store is an open file of cells. Len, Load, CompareAndSwap, Err, Sync and Grow are for any number of goroutines.
type Store struct {
	// What every request reads, seldom written, shares cache lines. dirty is written twice an interval.
	words   []atomic.Uint64         // the lines of all cells there may ever be
	mapped  atomic.Uint64           // how many cells exist in words; 0 on systems without shared maps
	failed  atomic.Pointer[failure] // nil until poisoned
	plain   *plainCells             // instead of words on systems without shared maps, else nil
	changed []atomic.Uint64         // a mark a cell, set after each write, for the redo log; as many as words
	dirty   atomic.Int64            // when the oldest write that no sync has begun to cover was made, by clock; 0 is none

	n        atomic.Uint64 // Len
	path     string
	f        *os.File
	log      *slog.Logger
	faults   disk.Faults
	max      uint64
	interval time.Duration
	opened   time.Time // the zero of clock
	syncing  atomic.Int64
	lastSync atomic.Int64 // nanoseconds it took
	syncs    *metrics.Counter
	// Syncs of the cells themselves.
	checkpoints *metrics.Counter

	mu        sync.Mutex // one Sync, Grow or Close at a time
	closed    bool
	region    *disk.Region // nil when plain is not
	marks     *disk.Zeros  // of changed; nil when plain is not
	redo      *redoLog     // nil when plain is not
	sequence  uint64       // of the newest header page
	inherited bool         // the file was there: background syncs what may be left to sync of it
	size      int64        // bytes of the file that are allocated and mapped
	cached    int64        // bytes that cache has taken on
	caching   sync.WaitGroup
	stop      chan struct{}
	stopped   chan struct{}
}

type failure struct{ err error }

// Open opens the file at path, creates it when there is none, and sees to it that there are at least cells
// cells. The directory must exist. It fails with ErrCorrupt or ErrVersion and leaves the file alone when it cannot be used as it
// is; a full disk, a read-only or missing directory are errors that say so.
func Open(path string, cells uint64, o Options) (*Store, error) {
	s := &Store{
		path:     path,
		log:      o.Logger,
		faults:   o.Faults,
		max:      o.MaxCells,
		interval: o.SyncInterval,
		opened:   time.Now(),
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.max == 0 {
		s.max = DefaultMaxCells
	}
	if s.interval <= 0 {
		s.interval = time.Second
	}
	if err := s.open(cells, o); err != nil {
		return nil, errors.Join(fmt.Errorf("open cursors: %w", err), s.release())
	}
	name := o.Name
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	s.register(o.Metrics, name)
	go s.background()
	return s, nil
}

func (s *Store) open(cells uint64, o Options) error {
	existed, err := s.openFile()
	if err != nil {
		return err
	}
	h, damaged, err := readHeader(s.f)
	if err != nil {
		return err
	}
	s.sequence = h.sequence
	s.max = max(s.max, h.cells)
	if err := s.prepare(o); err != nil {
		return err
	}
	// A copy of the file may have holes where this one had zeros, so space is asked for again. Usually it is all there.
	size := fileSize(h.cells)
	if err := s.faults.Allocate(s.f, 0, size); err != nil {
		return err
	}
	if err := s.extend(h.cells, size); err != nil {
		return err
	}
	if damaged {
		s.log.Warn("cursor file: a damaged header page is written anew", "path", s.path, "cells", h.cells)
		if err := s.writeHeader(h.cells); err != nil {
			return err
		}
	}
	if err := s.recover(); err != nil {
		return err
	}
	if existed {
		s.inherited = true
		s.markDirty()
	}
	return s.grow(cells)
}

const makeWritable = "make the file and its directory writable or choose another directory"

// openFile opens the file, and creates it first when there is none.
func (s *Store) openFile() (existed bool, err error) {
	s.f, err = os.OpenFile(s.path, os.O_RDWR, 0)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("%w: %s", err, makeWritable)
	}
	if err := removeRedo(s.path); err != nil {
		return false, err
	}
	if err := create(s.path); err != nil {
		return false, err
	}
	s.f, err = os.OpenFile(s.path, os.O_RDWR, 0)
	return false, err
}

// prepare makes s ready to extend: it takes the address space for all cells and opens the redo log, or decides to do without.
func (s *Store) prepare(o Options) error {
	err := errors.ErrUnsupported
	if !o.unmapped {
		s.region, err = disk.Reserve(fileSize(s.max))
	}
	if errors.Is(err, errors.ErrUnsupported) {
		s.plain = &plainCells{f: s.f}
		return refuseRedo(s.path)
	}
	if err != nil {
		return err
	}
	s.words = s.region.Words()[dataOffset/8:]
	if s.marks, err = disk.ReserveZeros(len(s.words)/64 + 1); err != nil {
		return err
	}
	s.changed = s.marks.Words()
	s.redo, err = openRedo(s.path, s.faults)
	return err
}

// recover does again what is in the redo log, where the cells are not newer, and takes space for the log.
func (s *Store) recover() error {
	if s.redo == nil {
		return nil
	}
	done := 0
	cells := s.n.Load()
	err := s.redo.redo(func(i, value, count uint64) {
		if i >= cells { // the cells were put back from a backup
			return
		}
		at := word(i)
		if s.words[at|countWord].Load() <= count {
			s.words[at].Store(value)
			s.words[at|countWord].Store(count)
			done++
		}
	})
	if err != nil {
		return err
	}
	if done > 0 {
		s.log.Info("cursors were brought up to date from their redo log", "path", s.path, "entries", done)
	}
	return s.redo.reserve(s.size)
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
func (s *Store) SyncInterval() time.Duration { return s.interval }

// Len returns the number of cells.
func (s *Store) Len() uint64 { return s.n.Load() }

// Cells lie in lines of 64 bytes, which a disk writes as a whole: cellsInLine of them, and in the last word the number of
// changes made to them.
const (
	cellsInLine = 7
	countWord   = 7
)

// word returns which word of the lines is cell i; word(i)|countWord is the one that counts its line's changes.
func word(i uint64) uint64 { return i + i/cellsInLine }

// linesLen returns how many bytes of lines cells cells take.
func linesLen(cells uint64) int64 { return int64((cells + cellsInLine - 1) / cellsInLine * 64) }

// Load returns what is in cell i. It panics when there is no such cell, or when the store is closed.
func (s *Store) Load(i uint64) uint64 {
	if i < s.mapped.Load() {
		return s.words[word(i)].Load()
	}
	return s.loadSlow(i)
}

// Prefetch asks for cell i to be brought into the processor's cache, for a Load and a CompareAndSwap that come a
// microsecond later. It never waits; a cell there is not is passed over.
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
// when the store is poisoned, and wraps ErrPoisoned; nothing was written then. It panics when there is no such cell, or when the
// store is closed.
func (s *Store) CompareAndSwap(i, old, new uint64) (bool, error) {
	if s.failed.Load() != nil {
		return false, s.Err()
	}
	if i >= s.mapped.Load() {
		return s.swapSlow(i, old, new)
	}
	at := word(i)
	if !s.words[at].CompareAndSwap(old, new) {
		return false, nil
	}
	// In this order: what is counted and marked is there to be read.
	s.words[at|countWord].Add(1)
	if marks, mark := &s.changed[i/64], uint64(1)<<(i%64); marks.Load()&mark == 0 {
		marks.Or(mark)
	}
	// Sync clears dirty before it writes. Whoever still finds it set has swapped before that, and is covered.
	if s.dirty.Load() == 0 {
		s.markDirty()
	}
	return true, nil
}

func (s *Store) swapSlow(i, old, new uint64) (bool, error) {
	if s.plain == nil || i >= s.n.Load() {
		s.beyond(i)
	}
	swapped, err := s.plain.compareAndSwap(i, old, new)
	if err != nil {
		return false, s.poison(err)
	}
	if swapped {
		s.markDirty()
	}
	return swapped, nil
}

func (s *Store) beyond(i uint64) {
	panic(fmt.Sprintf("BUG: cell %d of the %d in %s, or the store is closed", i, s.n.Load(), s.path))
}

// Err returns nil as long as the store takes swaps, and later what poisoned it, wrapped by ErrPoisoned.
func (s *Store) Err() error {
	if p := s.failed.Load(); p != nil {
		return p.err
	}
	return nil
}

// Close syncs the cells and closes the file. Nobody may use the store any more when it is called. It
// returns the error that poisoned the store, if one did. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock() // the background goroutine may be about to sync
	if closed {
		return nil
	}
	close(s.stop)
	<-s.stopped
	s.caching.Wait()
	err := s.sync(func() {})
	if err == nil && s.redo != nil && s.redo.end > pageSize {
		// So that the file of cells is whole without its log.
		if err = s.checkpoint(); err != nil {
			err = s.poison(err)
		}
	}
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
		err = errors.Join(err, s.redo.close())
	}
	if s.marks != nil {
		err = errors.Join(err, s.marks.Close())
	}
	if s.f != nil {
		err = errors.Join(err, s.f.Close())
	}
	return err
}
