package cells

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/disk"
	"weir/internal/disk/record"
	"weir/internal/metrics"
)

// metric returns the value of a metric of the store named "test".
func metric(t *testing.T, r *metrics.Registry, name string) float64 {
	t.Helper()
	for _, s := range r.Snapshot(nil) {
		if s.Name == name && len(s.Labels) == 1 &&
			s.Labels[0] == (metrics.Label{Key: "data", Value: "test"}) {
			return s.Value
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestCloseSyncs(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		var syncs atomic.Int64
		o.SyncInterval = time.Hour
		o.Faults.FailSync = func() error { syncs.Add(1); return nil }
		s := mustOpen(t, temp(t), 1, o)
		mustAdvance(t, s, 0)
		before := syncs.Load()
		mustClose(t, s)
		if syncs.Load() == before {
			t.Error("Close synced nothing")
		}
	})
}

// poisonings are the ways a failing disk can show itself.
var poisonings = map[string]func(s *Store){
	"Sync":         func(s *Store) { s.Sync() },
	"Grow":         func(s *Store) { s.Grow(100_000) },
	"header write": func(s *Store) { s.Grow(11) }, // fits into what is allocated
}

func TestFailedSyncPoisonsForGood(t *testing.T) {
	broken := errors.New("input/output error")
	for name, trigger := range poisonings {
		t.Run(name, func(t *testing.T) {
			inBothModes(t, func(t *testing.T, o Options) {
				var fail error
				var syncs int
				r := metrics.New(1)
				o.SyncInterval, o.Metrics = time.Hour, r
				o.Faults.FailSync = func() error {
					syncs++
					err := fail
					fail = nil // the disk says it is well again, which is not to be believed
					return err
				}
				path := temp(t)
				s := mustOpen(t, path, 10, o)
				mustAdvance(t, s, 3)
				if s.Err() != nil || metric(t, r, "weir_sync_poisoned") != 0 {
					t.Fatalf("poisoned at once: %v", s.Err())
				}

				fail = broken
				trigger(s)
				tried := syncs

				swapped, swapErr := s.CompareAndSwap(3, 1, 2)
				if swapped {
					t.Error("a poisoned store took a swap")
				}
				for call, err := range map[string]error{"Err": s.Err(), "CompareAndSwap": swapErr,
					"Sync": s.Sync(), "Grow": s.Grow(200_000), "Close": s.Close()} {
					if !errors.Is(err, record.ErrPoisoned) || !errors.Is(err, broken) {
						t.Errorf("%s: %v, want ErrPoisoned that wraps the cause", call, err)
					}
					if err != nil && (!strings.Contains(err.Error(), path) ||
						!strings.Contains(err.Error(), "restart")) {
						t.Errorf("%s: error %q does not name the file and what to do", call, err)
					}
				}
				if syncs != tried {
					t.Errorf("%d syncs were tried after the failed one", syncs-tried)
				}
				if got := metric(t, r, "weir_sync_poisoned"); got != 1 {
					t.Errorf("weir_sync_poisoned is %v", got)
				}

				s = mustOpen(t, path, 10, Options{unmapped: o.unmapped})
				wantCell(t, s, 3, 1)
				mustAdvance(t, s, 3)
				mustClose(t, s)
			})
		})
	}
}

func TestPoisonedStoreStillLoads(t *testing.T) {
	s := mustOpen(t, temp(t), 10, Options{})
	mustAdvance(t, s, 3)
	s.syncer.Poison(errors.New("broken")) //nolint:errcheck // it is what was given
	wantCell(t, s, 3, 1)
}

func TestFailedBackgroundSyncPoisonsAndLagGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		var failures atomic.Int64
		r := metrics.New(1)
		s := mustOpen(t, temp(t), 10, Options{Metrics: r, Faults: disk.Faults{FailSync: func() error {
			if fail.Load() {
				failures.Add(1)
				return errors.New("input/output error")
			}
			return nil
		}}})
		fail.Store(true)
		time.Sleep(100 * time.Millisecond) // off the beat of the syncs
		mustAdvance(t, s, 0)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !errors.Is(s.Err(), record.ErrPoisoned) || failures.Load() != 1 {
			t.Errorf("Err() = %v after %d failed syncs, want one that poisons", s.Err(), failures.Load())
		}
		if got := metric(t, r, "weir_sync_lag_seconds"); got != 10 {
			t.Errorf("lag %v s, want the 10 since the write that is not on the disk", got)
		}
		if err := s.Close(); !errors.Is(err, record.ErrPoisoned) {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestOpenFailsWhenItsFirstSyncDoes(t *testing.T) {
	broken := errors.New("input/output error")
	if _, err := Open(temp(t), 10,
		Options{Faults: disk.Faults{FailSync: func() error { return broken }}}); !errors.Is(err, broken) {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestFailedWriteOfAPlainCellPoisons(t *testing.T) {
	s := mustOpen(t, temp(t), 10, Options{unmapped: true})
	mustAdvance(t, s, 3)
	if err := s.f.Close(); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.CompareAndSwap(3, 1, 2); ok || !errors.Is(err, record.ErrPoisoned) {
		t.Errorf("swap that could not be written: %v, %v", ok, err)
	}
	wantCell(t, s, 3, 1)
}

// Who swaps in a cell relies on the header that promises it.
func TestCellsAreThereOnlyOnceTheHeaderIs(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		var s *Store
		var seen []uint64
		o.SyncInterval = time.Hour
		o.Faults.FailSync = func() error {
			if s != nil {
				seen = append(seen, s.Len())
			}
			return nil
		}
		s = mustOpen(t, temp(t), 10, o)
		for _, cells := range []uint64{11, 100_000} { // within what is allocated, and beyond
			before := s.Len()
			seen = nil
			if err := s.Grow(cells); err != nil {
				t.Fatal(err)
			}
			if want := []uint64{before, before}; !slices.Equal(seen, want) || s.Len() != cells {
				t.Errorf("%d cells at the syncs, want %d until space and header are on the disk", seen, want)
			}
		}
		seen = nil
		if err := s.Grow(s.Len()); err != nil || len(seen) != 0 {
			t.Errorf("%d syncs, error %v, where there was nothing to grow", len(seen), err)
		}
	})
}

// Room that was taken for cells is given back when there is none for their log: others may need it.
func TestCellsWhoseLogHasNoRoomTakeNone(t *testing.T) {
	mapped(t)
	calls, failing := 0, false
	path := temp(t)
	s := mustOpen(t, path, 10,
		Options{SyncInterval: time.Hour, Faults: disk.Faults{FailAllocate: func() error {
			if calls++; failing && calls == 2 { // the cells, then the log
				return errors.New("no room")
			}
			return nil
		}}})
	before := len(look(t, path).cells)
	calls, failing = 0, true
	if err := s.Grow(100_000); err == nil || calls != 2 {
		t.Fatalf("error %v after %d allocations, want one in the second", err, calls)
	}
	if after := len(look(t, path).cells); after != before {
		t.Errorf("the file of cells has %d bytes, had %d", after, before)
	}
}
