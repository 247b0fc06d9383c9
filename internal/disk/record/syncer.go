package record

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/disk"
	"weir/internal/metrics"
)

// Syncer has what its owner writes reach the disk: every interval in which something was written, and when
// it is asked to. It knows for how long the oldest write has not. The zero value waits for Start. Its
// methods are for any number of goroutines.
//
// Metrics, labelled data="NAME":
//
//	weir_sync_seconds      histogram of syncs, failed ones included
//	weir_sync_lag_seconds  age of the oldest write that is not on the disk: what a power failure costs now
//	weir_sync_poisoned     1 after a failed sync
type Syncer struct {
	// What every write reads.
	failed atomic.Pointer[failure] // nil until poisoned
	// When the oldest write that no sync has begun to cover was made, by clock; 0 is none.
	dirty atomic.Int64

	syncing atomic.Int64 // the same of the sync in progress
	opened  time.Time    // the zero of clock
	o       SyncerOptions
	every   atomic.Int64  // the interval
	retimed chan struct{} // holds one when that has changed
	syncs   *metrics.Histogram

	mu      sync.Mutex // one sync, or Exclusive, at a time
	closed  bool
	stop    chan struct{}
	stopped chan struct{}
}

type failure struct{ err error }

// SyncerOptions are what a Syncer syncs.
type SyncerOptions struct {
	Name     string        // of the data, in metrics and logs: "events"
	Path     string        // of the file or directory
	Interval time.Duration // between background syncs
	// Flush makes all that was written before it was called last, and returns when it is on the disk. In
	// the background it calls rest about every tenth of a millisecond of work, so that on a small machine
	// others get the processor.
	Flush   func(rest func()) error
	AtOnce  bool              // what is there already is to be synced, without waiting for the interval
	Log     *slog.Logger      // nil logs nothing
	Metrics *metrics.Registry // nil shows nothing
}

// Start begins the background syncs, which end with Close or when one fails.
func (s *Syncer) Start(o SyncerOptions) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(1)
	}
	s.o, s.opened, s.stop, s.stopped = o, time.Now(), make(chan struct{}), make(chan struct{})
	s.retimed = make(chan struct{}, 1)
	s.every.Store(int64(o.Interval))
	s.syncs = o.Metrics.Histogram("weir_sync_seconds",
		"How long syncs to the disk took, failed ones included.", "data", o.Name)
	o.Metrics.Gauge("weir_sync_lag_seconds",
		"Age of the oldest write that is not on the disk: what a power failure would cost.",
		func() float64 { return s.Lag().Seconds() }, "data", o.Name)
	o.Metrics.Gauge("weir_sync_poisoned", "1 after a failed sync: nothing is written until a restart.",
		func() float64 {
			if s.Err() != nil {
				return 1
			}
			return 0
		}, "data", o.Name)
	if o.AtOnce {
		s.Mark()
	}
	disk.Go(func() error { s.background(); return nil }, func(err error) {
		if err != nil {
			s.Poison(err) //nolint:errcheck // it is logged
		}
		close(s.stopped)
	})
}

// Interval returns the time between background syncs.
func (s *Syncer) Interval() time.Duration { return time.Duration(s.every.Load()) }

// SetInterval changes the time between background syncs, that which runs included.
func (s *Syncer) SetInterval(interval time.Duration) {
	s.every.Store(int64(interval))
	select {
	case s.retimed <- struct{}{}:
	default: // it is told already
	}
}

// clock returns the time since Start in nanoseconds, never 0, which stands for none.
func (s *Syncer) clock() int64 { return max(int64(time.Since(s.opened)), 1) }

// Mark notes that something was written, after it was. The first write after the start of a sync sets the
// time.
func (s *Syncer) Mark() {
	if s.dirty.Load() == 0 {
		s.dirty.CompareAndSwap(0, s.clock())
	}
}

// Err returns nil as long as all is well, and later what poisoned s, wrapped by ErrPoisoned.
func (s *Syncer) Err() error {
	if p := s.failed.Load(); p != nil {
		return p.err
	}
	return nil
}

// Poison ends all syncing. It returns the error that everybody gets from now on, which names the first cause.
func (s *Syncer) Poison(cause error) error {
	err := fmt.Errorf("%w: %w: check the disk of %s, then restart", ErrPoisoned, cause, s.o.Path)
	if s.failed.CompareAndSwap(nil, &failure{err}) {
		s.o.Log.Error("nothing is written any more, until a restart", "data", s.o.Name, "path", s.o.Path,
			"error", cause)
	}
	return s.Err()
}

// Sync waits until all that was written before it was called is on the disk. It does nothing when it is
// already. A failure poisons s.
func (s *Syncer) Sync() error {
	return s.Exclusive(func() error { return s.sync(func() {}) })
}

// Exclusive runs fn while no sync does. It fails when s is closed.
func (s *Syncer) Exclusive(fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%s: %w", s.o.Path, os.ErrClosed)
	}
	return fn()
}

// sync is Sync under the lock.
func (s *Syncer) sync(rest func()) error {
	if err := s.Err(); err != nil {
		return err
	}
	oldest := s.dirty.Load()
	if oldest == 0 {
		return nil
	}
	// syncing takes over before dirty lets go, so that Lag never misses it. Writes from here on may or may
	// not be covered by this sync; they mark s again.
	s.syncing.Store(oldest)
	s.dirty.Store(0)
	if err := s.flush(rest); err != nil {
		return err // syncing stays: what was not written is getting older
	}
	s.syncing.Store(0)
	return nil
}

// flush is Flush, guarded and measured.
func (s *Syncer) flush(rest func()) error {
	began := time.Now()
	err := disk.Guard(func() error { return s.o.Flush(rest) })
	s.syncs.Observe(0, time.Since(began), 1)
	if err != nil {
		return s.Poison(err)
	}
	return nil
}

// Settled says, within Exclusive, that all that was written is on the disk, by other means than Flush.
func (s *Syncer) Settled() {
	s.syncing.Store(0)
	s.dirty.Store(0)
}

// Lag returns the age of the oldest write that is not on the disk.
func (s *Syncer) Lag() time.Duration {
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
func (s *Syncer) background() {
	if s.o.AtOnce && s.gently() != nil {
		return
	}
	tick := time.NewTicker(s.Interval())
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.retimed:
			tick.Reset(s.Interval())
		case <-tick.C:
			if s.gently() != nil {
				return
			}
		}
	}
}

// restFor is how long a background sync lets others have the processor.
const restFor = 500 * time.Microsecond

// gently is Sync in many short steps, with rests in between that make it longer by up to a quarter of the
// interval. In one go, what 70,000 advances of positions leave behind takes the processor for 4 ms, and on
// a machine of few of them every request meanwhile waits so long, and as many afterwards until they have
// caught up.
func (s *Syncer) gently() error {
	err := s.Exclusive(func() error {
		enough := time.Now().Add(s.Interval() / 4)
		return s.sync(func() {
			if time.Now().Before(enough) {
				time.Sleep(restFor)
			}
		})
	})
	if errors.Is(err, os.ErrClosed) { // Close syncs
		return nil
	}
	return err
}

// Close ends the background syncs, makes a last one, and runs last, if that is not nil and all is on the
// disk; its error poisons s. A second Close does nothing.
func (s *Syncer) Close(last func() error) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.sync(func() {})
	if err == nil && last != nil {
		if err = disk.Guard(last); err != nil {
			err = s.Poison(err)
		}
	}
	return err
}
