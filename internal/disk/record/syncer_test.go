package record

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/disk"
)

func start(s *Syncer, flush func(rest func()) error) {
	s.Start(SyncerOptions{Name: "test", Path: "/data/test", Interval: time.Second, Flush: flush})
}

func TestASyncFollowsEachIntervalWithWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Syncer
		var syncs atomic.Int64
		start(&s, func(func()) error { syncs.Add(1); return nil })
		defer s.Close(nil)
		after := func(d time.Duration, want int64, lag time.Duration) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := syncs.Load(); got != want || s.Lag() != lag {
				t.Fatalf("%d syncs, want %d; lag %v, want %v", got, want, s.Lag(), lag)
			}
		}
		after(10*time.Second+time.Second/2, 0, 0)
		s.Mark()
		after(time.Second/4, 0, time.Second/4)
		s.Mark()
		after(time.Second/4, 1, 0)
		after(10*time.Second, 1, 0)
		s.Mark()
		if err := s.Sync(); err != nil || syncs.Load() != 2 {
			t.Errorf("%d syncs, error %v", syncs.Load(), err)
		}
		if err := s.Sync(); err != nil || syncs.Load() != 2 {
			t.Errorf("a sync of nothing: %d syncs, error %v", syncs.Load(), err)
		}
	})
}

func TestABackgroundSyncRestsForUpToAQuarterOfItsInterval(t *testing.T) {
	for _, interval := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second} {
		for steps, want := range map[int]time.Duration{0: 0, 10: 10 * restFor, 1_000_000: interval / 4} {
			synctest.Test(t, func(t *testing.T) {
				var s Syncer
				var took time.Duration
				s.Start(SyncerOptions{Name: "test", Path: "/data/test", Interval: interval,
					Flush: func(rest func()) error {
						began := time.Now()
						for range steps {
							rest()
						}
						took = time.Since(began)
						return nil
					}})
				defer s.Close(nil)
				s.Mark()
				time.Sleep(2 * interval)
				synctest.Wait()
				if took != want {
					t.Errorf("of an interval of %v a sync of %d steps took %v, want %v", interval, steps,
						took, want)
				}
				s.Mark()
				if err := s.Sync(); err != nil || took != 0 {
					t.Errorf("a sync that somebody waits for rested for %v, %v", took, err)
				}
			})
		}
	}
}

func TestTheLagIsThatOfTheOldestWriteDuringASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Syncer
		written := make(chan error)
		start(&s, func(func()) error { return <-written })
		time.Sleep(time.Second / 2)
		s.Mark()
		time.Sleep(2 * time.Second)
		synctest.Wait() // the sync has begun
		s.Mark()
		if got := s.Lag(); got != 2*time.Second {
			t.Errorf("lag %v during the sync, want 2 s", got)
		}
		time.Sleep(time.Second)
		written <- nil
		synctest.Wait()
		if got := s.Lag(); got != time.Second {
			t.Errorf("lag %v after the sync, want that of what it did not cover", got)
		}
		close(written)
		if err := s.Close(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailedSyncPoisons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Syncer
		syncs := 0
		start(&s, func(func()) error { syncs++; return os.ErrInvalid })
		s.Mark()
		time.Sleep(time.Minute)
		synctest.Wait()
		if syncs != 1 {
			t.Errorf("%d syncs, want no second try", syncs)
		}
		for what, err := range map[string]error{"Err": s.Err(), "Sync": s.Sync(),
			"Close": s.Close(func() error { return nil })} {
			if !errors.Is(err, ErrPoisoned) || !errors.Is(err, os.ErrInvalid) ||
				!strings.Contains(err.Error(), "/data/test") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if s.Lag() == 0 {
			t.Error("there is no lag though nothing was written")
		}
	})
}

func TestAFaultUnderASyncPoisonsAndDoesNotEndTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := disk.MapReadOnly(f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	var s Syncer
	var sum byte
	s.Start(SyncerOptions{Interval: time.Millisecond, Flush: func(func()) error {
		sum += m.Bytes()[1<<19]
		return nil
	}})
	s.Mark()
	<-s.stopped
	var fault *disk.Fault
	if err := s.Err(); !errors.As(err, &fault) {
		t.Errorf("error %v, want a fault", err)
	}
	if err := s.Close(nil); !errors.Is(err, ErrPoisoned) {
		t.Errorf("Close: %v", err)
	}
}

func TestCloseSyncsAndThenRunsItsLast(t *testing.T) {
	var s Syncer
	var done []string
	start(&s, func(func()) error { done = append(done, "sync"); return nil })
	s.Mark()
	for range 2 {
		if err := s.Close(func() error { done = append(done, "last"); return nil }); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(done, " "); got != "sync last" {
		t.Errorf("Close did %q", got)
	}
	if err := s.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Sync after Close: %v", err)
	}
}
