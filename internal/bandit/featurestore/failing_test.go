package featurestore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOlderAnswersWhileTheStoreFails(t *testing.T) {
	for name, broken := range map[string]func(context.Context, []string) error{"down": down, "hanging": hang} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
				ask := func(id string) (arm Arm, degraded bool, took time.Duration, err error) {
					var dst [1]Arm
					began := time.Now()
					degraded, err = s.Arms(context.Background(), []string{id}, dst[:])
					return dst[0], degraded, time.Since(began), err
				}
				want := Arm{2, 1, true}
				arms(t, s, "i1")
				f.answer(broken)
				if arm, degraded, _, err := ask("i1"); arm != want || degraded || err != nil {
					t.Errorf("within the TTL: %v, degraded %v, error %v", arm, degraded, err)
				}
				time.Sleep(s.o.TTL)
				if arm, degraded, _, err := ask("i1"); arm != want || !degraded || err != nil {
					t.Errorf("first one after the TTL: %v, degraded %v, error %v", arm, degraded, err)
				}
				synctest.Wait()
				if s.Ready() == nil {
					t.Error("the store says that it is ready")
				}
				// It is known to fail: nobody waits for it, and it is tried once a second.
				f.total()
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					if arm, degraded, took, err := ask("i1"); arm != want || !degraded || took != 0 || err != nil {
						t.Fatalf("while it fails: %v, degraded %v, error %v after %v", arm, degraded, err, took)
					}
				}
				if n := f.total(); n < 8 || n > 11 {
					t.Errorf("tried %d times in 10 s", n)
				}
				if _, _, _, err := ask("i2"); err == nil {
					t.Error("no error for what was never fetched")
				}
				if n := s.counted("stale"); n != 101 {
					t.Errorf("%d older answers counted, want 101", n)
				}
				// Back again.
				f.answer(nil)
				time.Sleep(s.o.Retry)
				ask("i1")
				synctest.Wait()
				if _, degraded, _, err := ask("i1"); degraded || err != nil || s.Ready() != nil {
					t.Errorf("back again: degraded %v, error %v, ready %v", degraded, err, s.Ready())
				}
				// Not for ever.
				f.answer(broken)
				time.Sleep(s.o.TTL + s.o.Stale)
				if _, _, _, err := ask("i1"); err == nil {
					t.Error("an answer older than the bound was given")
				}
			})
		})
	}
}

func TestAStoreThatHangsIsNotWaitedForAgain(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
		arms(t, s, "i1")
		time.Sleep(s.o.TTL)
		f.answer(hang)
		if took, err := s.took("i1", "i2"); err == nil || took != s.o.Timeout {
			t.Errorf("the first call: error %v after %v", err, took)
		}
		synctest.Wait()
		before := len(f.chunks)
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			for _, ids := range [][]string{{"i3"}, {"i1", "i3"}} {
				if took, err := s.took(ids...); err == nil || took != 0 || Reason(err) != "it did not answer in time" {
					t.Fatalf("%v while it hangs: error %v after %v", ids, err, took)
				}
			}
		}
		synctest.Wait()
		if n := len(f.chunks) - before; n < 9 || n > 11 {
			t.Errorf("tried %d times in 10 s", n)
		}
		if n := s.counted("skipped"); n != 200 {
			t.Errorf("%d entities are counted as skipped, want 200", n)
		}
		// Back again: the next try finds it out, and has got what nobody waited for.
		f.answer(after(time.Millisecond))
		time.Sleep(s.o.Retry + s.o.Timeout)
		f.total()
		if took, err := s.took("i3"); err != nil || took != 0 || f.total() != 0 {
			t.Errorf("what was tried for: error %v after %v", err, took)
		}
		if took, err := s.took("i4"); err != nil || took != time.Millisecond {
			t.Errorf("another one: error %v after %v", err, took)
		}
	})
}

// One answer that did not come may have been nothing: it is looked at once, not after Options.Retry.
func TestAStoreThatHungOnceIsBackAtOnce(t *testing.T) {
	bubble(t, func(o *Options) { o.Retry, o.Stale = time.Hour, 0 }, func(t *testing.T, s *Store, f *fakeStore) {
		for range 3 {
			var hung atomic.Bool
			f.answer(func(ctx context.Context, ids []string) error {
				if hung.CompareAndSwap(false, true) {
					return hang(ctx, ids)
				}
				return nil
			})
			if _, err := s.Arms(context.Background(), []string{"i1"}, make([]Arm, 1)); err == nil {
				t.Error("an answer")
			}
			synctest.Wait()
			if took, err := s.took("i1", "i2", "i3"); took != 0 || err != nil {
				t.Errorf("error %v after %v", err, took)
			}
			time.Sleep(s.o.TTL)
		}
	})
}

// Nobody asks meanwhile, and the first one who does has an answer.
func TestAStoreThatIsBackIsNoticedWithoutACall(t *testing.T) {
	for name, broken := range map[string]func(context.Context, []string) error{"down": down, "hanging": hang} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
				f.answer(broken)
				if _, err := s.took(numbered("i", 3*s.o.Chunk)...); err == nil {
					t.Error("an answer")
				}
				time.Sleep(10*s.o.Retry + s.o.Timeout)
				f.total()
				time.Sleep(10 * s.o.Retry)
				if n := f.total(); n != 10*s.o.Chunk {
					t.Errorf("%d entities were tried in 10 s, want those of a chunk in each", n)
				}
				f.answer(nil)
				time.Sleep(s.o.Retry)
				if n := f.total(); n != s.o.Chunk || s.Ready() != nil {
					t.Errorf("%d entities fetched, ready %v", n, s.Ready())
				}
				arms(t, s, "i1000")
				f.total()
				if time.Sleep(10 * s.o.Retry); f.total() != 0 {
					t.Error("a store that answers is tried")
				}
			})
		})
	}
}

func TestOnlyAStoreThatTakesItsTimeHangs(t *testing.T) {
	t.Run("it fails fast", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
			f.answer(down)
			dst := make([]Arm, 1)
			for range 3 {
				if _, err := s.Arms(context.Background(), []string{"i1"}, dst); !errors.Is(err, errDown) {
					t.Errorf("error %v", err)
				}
			}
			f.answer(nil)
			arms(t, s, "i1")
		})
	})
	t.Run("it was asked late", func(t *testing.T) {
		bubble(t, func(o *Options) { o.Concurrency, o.Chunk = 1, 1 }, func(t *testing.T, s *Store, f *fakeStore) {
			f.answer(after(60 * time.Millisecond))
			dst := make([]Arm, 2)
			if _, err := s.Arms(context.Background(), []string{"i1", "i2"}, dst); !strings.Contains(Reason(err), "too short for as many chunks") {
				t.Errorf("error %v", err)
			}
			time.Sleep(s.o.Timeout) // it is tried meanwhile
			arms(t, s, "i3")
			if n := s.counted("skipped"); n != 0 {
				t.Errorf("%d entities were skipped", n)
			}
		})
	})
}

func TestOlderAnswersForSomeOfACall(t *testing.T) {
	bubble(t, func(o *Options) { o.Chunk = 1 }, func(t *testing.T, s *Store, f *fakeStore) {
		arms(t, s, "i1")
		time.Sleep(s.o.TTL)
		// The chunk with an older answer fails at once, and the call still waits for the other.
		f.answer(func(ctx context.Context, ids []string) error {
			if ids[0] == "i1" {
				return errDown
			}
			return after(time.Millisecond)(ctx, ids)
		})
		dst := make([]Arm, 2)
		degraded, err := s.Arms(context.Background(), []string{"i1", "i2"}, dst)
		if want := []Arm{{2, 1, true}, {3, 1, true}}; err != nil || !degraded || !slices.Equal(dst, want) {
			t.Errorf("%v, degraded %v, error %v", dst, degraded, err)
		}
	})
}

func TestItemsAndUsersFailApart(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
		f.answer(func(_ context.Context, ids []string) error {
			if ids[0][0] == 'u' {
				return errDown
			}
			return nil
		})
		segments := make([]string, 1)
		if _, err := s.Segments(context.Background(), []string{"u1"}, segments); !errors.Is(err, errDown) {
			t.Errorf("error %v", err)
		}
		arms(t, s, "i1")
		if err := s.Ready(); !errors.Is(err, errDown) {
			t.Errorf("ready %v while segments fail", err)
		}
		f.answer(nil)
		if _, err := s.Segments(context.Background(), []string{"u1"}, segments); err != nil || segments[0] != "s1" || s.Ready() != nil {
			t.Errorf("%q, error %v, ready %v", segments, err, s.Ready())
		}
	})
}
