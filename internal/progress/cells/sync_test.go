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
	"weir/internal/metrics"
)

// metric returns the value of a metric of the store named "test".
func metric(t *testing.T, r *metrics.Registry, name string) float64 {
	t.Helper()
	for _, s := range r.Snapshot() {
		if s.Name == name && len(s.Labels) == 1 && s.Labels[0] == (metrics.Label{Key: "store", Value: "test"}) {
			return s.Value
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestBackgroundSyncsOnlyWhatIsDirty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := metrics.New(1)
		s := mustOpen(t, temp(t), 10, Options{SyncInterval: time.Second, Metrics: r})
		time.Sleep(100 * time.Millisecond) // off the beat of the syncs
		for turn := 0.0; turn < 3; turn++ {
			time.Sleep(10 * time.Second) // nothing to do
			if got := metric(t, r, "weir_progress_syncs_total"); got != turn {
				t.Fatalf("%v syncs after %v writes", got, turn)
			}
			mustAdvance(t, s, 1)
			time.Sleep(300 * time.Millisecond)
			mustAdvance(t, s, 2) // later; the age is that of the first
			time.Sleep(200 * time.Millisecond)
			if got := metric(t, r, "weir_progress_sync_lag_seconds"); got != 0.5 {
				t.Errorf("lag %v s, want 0.5", got)
			}
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			if got := metric(t, r, "weir_progress_sync_lag_seconds"); got != 0 {
				t.Errorf("lag %v s after the sync", got)
			}
		}
		if got := metric(t, r, "weir_progress_syncs_total"); got != 3 {
			t.Errorf("%v syncs counted, want 3", got)
		}
		mustClose(t, s)
	})
}

// A sync in one go keeps the processor from the loops; one that rests for long has more to lose by a power failure.
func TestABackgroundSyncRestsForUpToAQuarterOfItsInterval(t *testing.T) {
	mapped(t)
	const dirty = 30_000     // at most 2,730 a step
	const cells = 10 * dirty // their log has room for all syncs
	for _, test := range []struct{ interval, least, most time.Duration }{
		{time.Second, dirty / 2730 * restFor, 20 * restFor},
		{12 * restFor, 3 * restFor, 3 * restFor},
	} {
		synctest.Test(t, func(t *testing.T) {
			path := temp(t)
			s := mustOpen(t, path, cells, Options{SyncInterval: test.interval})
			time.Sleep(test.interval / 2) // off the beat of the syncs
			for turn := range 3 {
				for i := range uint64(dirty) {
					mustAdvance(t, s, i)
				}
				time.Sleep(test.interval)
				synctest.Wait()
				took := time.Duration(s.lastSync.Load())
				if turn > 0 && (took < test.least || took > test.most) { // the first one is a checkpoint
					t.Errorf("turn %d: of %v between syncs one took %v, want %v to %v", turn, test.interval, took, test.least, test.most)
				}
			}
			for i := range uint64(dirty) {
				mustAdvance(t, s, i)
			}
			before := time.Now()
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(before); took != 0 {
				t.Errorf("a sync that was asked for rested for %v", took)
			}
			killed := mustOpen(t, look(t, path).restore(t), 0, Options{SyncInterval: time.Hour})
			if got, want := values(killed)[:dirty], slices.Repeat([]uint64{4}, dirty); !slices.Equal(got, want) {
				t.Error("what was synced in steps is not all there")
			}
			mustClose(t, killed)
			mustClose(t, s)
		})
	}
}

// A process that was killed leaves writes behind that are not on the disk; nobody else will sync them.
func TestWhatAKilledProcessLeftIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := temp(t)
		mustClose(t, mustOpen(t, path, 10, Options{}))
		r := metrics.New(1)
		s := mustOpen(t, path, 10, Options{Metrics: r})
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := metric(t, r, "weir_progress_syncs_total"); got != 1 {
			t.Errorf("%v syncs of an existing file, want 1", got)
		}
		mustClose(t, s)
	})
}

func TestSwapDuringASyncIsOfTheNextOne(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		var s *Store
		during := false
		r := metrics.New(1)
		o.SyncInterval, o.Metrics = time.Hour, r
		o.Faults.FailSync = func() error {
			if during {
				during = false
				mustAdvance(t, s, 0)
			}
			return nil
		}
		s = mustOpen(t, temp(t), 1, o)
		for want := 2.0; want <= 6; want += 2 { // by a checkpoint and by the log
			mustAdvance(t, s, 0)
			during = true
			for range 3 {
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			if got := metric(t, r, "weir_progress_syncs_total"); got != want {
				t.Fatalf("%v syncs that had something to do, want %v", got, want)
			}
		}
	})
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
				if s.Err() != nil || metric(t, r, "weir_progress_poisoned") != 0 {
					t.Fatalf("poisoned at once: %v", s.Err())
				}

				fail = broken
				trigger(s)
				tried := syncs

				swapped, swapErr := s.CompareAndSwap(3, 1, 2)
				if swapped {
					t.Error("a poisoned store took a swap")
				}
				for call, err := range map[string]error{"Err": s.Err(), "CompareAndSwap": swapErr, "Sync": s.Sync(), "Grow": s.Grow(200_000), "Close": s.Close()} {
					if !errors.Is(err, ErrPoisoned) || !errors.Is(err, broken) {
						t.Errorf("%s: %v, want ErrPoisoned that wraps the cause", call, err)
					}
					if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restart")) {
						t.Errorf("%s: error %q does not name the file and what to do", call, err)
					}
				}
				if syncs != tried {
					t.Errorf("%d syncs were tried after the failed one", syncs-tried)
				}
				if got := metric(t, r, "weir_progress_poisoned"); got != 1 {
					t.Errorf("weir_progress_poisoned is %v", got)
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
	s.poison(errors.New("broken"))
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
		if !errors.Is(s.Err(), ErrPoisoned) || failures.Load() != 1 {
			t.Errorf("Err() = %v after %d failed syncs, want one that poisons", s.Err(), failures.Load())
		}
		if got := metric(t, r, "weir_progress_sync_lag_seconds"); got != 10 {
			t.Errorf("lag %v s, want the 10 since the write that is not on the disk", got)
		}
		if err := s.Close(); !errors.Is(err, ErrPoisoned) {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestOpenFailsWhenItsFirstSyncDoes(t *testing.T) {
	broken := errors.New("input/output error")
	if _, err := Open(temp(t), 10, Options{Faults: disk.Faults{FailSync: func() error { return broken }}}); !errors.Is(err, broken) {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestFailedWriteOfAPlainCellPoisons(t *testing.T) {
	s := mustOpen(t, temp(t), 10, Options{unmapped: true})
	mustAdvance(t, s, 3)
	if err := s.f.Close(); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.CompareAndSwap(3, 1, 2); ok || !errors.Is(err, ErrPoisoned) {
		t.Errorf("swap that could not be written: %v, %v", ok, err)
	}
	wantCell(t, s, 3, 1)
}

func TestMetricsCarryTheNameOfTheStore(t *testing.T) {
	r := metrics.New(1)
	s := mustOpen(t, temp(t), 10, Options{Metrics: r})
	mustOpen(t, temp(t), 20, Options{Metrics: r, Name: "other"})
	if got := metric(t, r, "weir_progress_cells"); got != 10 {
		t.Errorf("weir_progress_cells is %v, want 10", got)
	}
	mustAdvance(t, s, 0)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := metric(t, r, "weir_progress_last_sync_duration_seconds"); got <= 0 {
		t.Errorf("weir_progress_last_sync_duration_seconds is %v", got)
	}
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
			if want := []uint64{before, before, before}; !slices.Equal(seen, want) || s.Len() != cells {
				t.Errorf("%d cells at the syncs, want %d until space and both pages are on the disk", seen, want)
			}
		}
		seen = nil
		if err := s.Grow(s.Len()); err != nil || len(seen) != 0 {
			t.Errorf("%d syncs, error %v, where there was nothing to grow", len(seen), err)
		}
	})
}

func TestWhatWasReadAheadIsNotReadAgain(t *testing.T) {
	mapped(t)
	s := mustOpen(t, temp(t), 10, Options{SyncInterval: time.Hour})
	s.cache()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cached != s.size {
		t.Errorf("%d bytes of %d are known to be read", s.cached, s.size)
	}
}

// Room that was taken for cells is given back when there is none for their log: others may need it.
func TestCellsWhoseLogHasNoRoomTakeNone(t *testing.T) {
	mapped(t)
	calls, failing := 0, false
	path := temp(t)
	s := mustOpen(t, path, 10, Options{SyncInterval: time.Hour, Faults: disk.Faults{FailAllocate: func() error {
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
