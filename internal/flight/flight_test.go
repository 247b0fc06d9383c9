package flight_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/flight"
)

// Time is the bubble's in all of these. The cache in front of Feast and Vertex AI has tests of the rest.

var options = flight.Options{Chunk: 2, Timeout: time.Second, TTL: 10 * time.Second, Stale: time.Minute,
	Retry: time.Second, Entries: 100}

// source answers with the squares of keys after a second less a bit.
type source struct {
	fetches atomic.Int64
	down    atomic.Bool
	ended   atomic.Int64 // fetches whose context ended first
}

var errDown = errors.New("down")

func (s *source) fetch(ctx context.Context, keys []int, dst []int) error {
	s.fetches.Add(1)
	if s.down.Load() {
		return errDown
	}
	select {
	case <-time.After(900 * time.Millisecond):
	case <-ctx.Done():
		s.ended.Add(1)
		return ctx.Err()
	}
	for i, key := range keys {
		dst[i] = key * key
	}
	return nil
}

func bubble(t *testing.T, test func(t *testing.T, c *flight.Cache[int, int], s *source)) {
	synctest.Test(t, func(t *testing.T) {
		g, s := flight.NewGroup(4), &source{}
		defer g.Close()
		test(t, flight.New(g, options, s.fetch), s)
	})
}

func want(t *testing.T, c *flight.Cache[int, int], degraded bool, keys ...int) {
	t.Helper()
	dst, squares := make([]int, len(keys)), make([]int, len(keys))
	for i, key := range keys {
		squares[i] = key * key
	}
	if was, err := c.Get(context.Background(), keys, dst); err != nil || was != degraded ||
		!slices.Equal(dst, squares) {
		t.Errorf("%v of %v, degraded %v, error %v", dst, keys, was, err)
	}
}

func TestCallsShareFetches(t *testing.T) {
	bubble(t, func(t *testing.T, c *flight.Cache[int, int], s *source) {
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() { want(t, c, false, 1, 2, 3) })
		}
		calls.Wait()
		if n := s.fetches.Load(); n != 2 {
			t.Errorf("%d fetches, of 3 keys in chunks of 2", n)
		}
	})
}

func TestAFetchOutlivesTheCallThatBeganIt(t *testing.T) {
	bubble(t, func(t *testing.T, c *flight.Cache[int, int], s *source) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, err := c.Get(ctx, []int{5}, make([]int, 1)); err != context.Canceled {
				t.Error(err)
			}
		})
		synctest.Wait()
		calls.Go(func() { want(t, c, false, 5) })
		synctest.Wait()
		cancel()
		calls.Wait()
		if s.fetches.Load() != 1 || s.ended.Load() != 0 {
			t.Errorf("%d fetches, %d cancelled", s.fetches.Load(), s.ended.Load())
		}
	})
}

func TestAFetchThatNobodyWaitsForEnds(t *testing.T) {
	bubble(t, func(t *testing.T, c *flight.Cache[int, int], s *source) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Get(ctx, []int{5}, make([]int, 1)); err != context.DeadlineExceeded {
			t.Error(err)
		}
		synctest.Wait()
		if s.ended.Load() != 1 || c.Err() != nil {
			t.Errorf("%d cancelled, source held to fail: %v", s.ended.Load(), c.Err())
		}
		want(t, c, false, 5)
	})
}

func TestOlderValuesAreGivenWhileTheSourceFails(t *testing.T) {
	bubble(t, func(t *testing.T, c *flight.Cache[int, int], s *source) {
		want(t, c, false, 1, 2)
		s.down.Store(true)
		time.Sleep(options.TTL)
		want(t, c, true, 1, 2)
		if _, err := c.Get(t.Context(), []int{1, 3}, make([]int, 2)); !errors.Is(err, errDown) {
			t.Errorf("of what was never fetched: %v", err)
		}
		s.down.Store(false)
		time.Sleep(options.Retry + options.Timeout) // nobody calls, and it is tried
		if c.Err() != nil {
			t.Errorf("still held to fail: %v", c.Err())
		}
		want(t, c, false, 1, 2, 3)
	})
}

func TestWhatIsInUseIsFetchedBeforeItIsOld(t *testing.T) {
	bubble(t, func(t *testing.T, c *flight.Cache[int, int], s *source) {
		want(t, c, false, 1)
		for range 10 {
			time.Sleep(options.TTL*4/5 - 900*time.Millisecond)
			began := time.Now()
			want(t, c, false, 1)
			time.Sleep(900 * time.Millisecond)
			want(t, c, false, 1)
			if took := time.Since(began); took != 900*time.Millisecond {
				t.Fatalf("a call waited: %v", took)
			}
		}
		synctest.Wait()
		if n := s.fetches.Load(); n < 5 {
			t.Errorf("%d fetches", n)
		}
	})
}

func TestAPanicIsAnErrorOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := flight.NewGroup(1)
		defer g.Close()
		c := flight.New(g, options, func(context.Context, []string, []int) error { panic("oops") })
		if _, err := c.Get(t.Context(), []string{"a"}, make([]int, 1)); err == nil {
			t.Error("no error")
		}
		g.Close()
		if _, err := c.Get(t.Context(), []string{"a"}, make([]int, 1)); err != flight.ErrClosed {
			t.Errorf("after Close: %v", err)
		}
	})
}
