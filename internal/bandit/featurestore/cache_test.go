package featurestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/flight"
)

// fakeStore knows items whose ids are "iN" with alpha N+1 and beta 1, and users "uN" with segment "sN".
// Time is the bubble's.
type fakeStore struct {
	mu      sync.Mutex
	fetched map[string]int // how often, by id
	chunks  []int
	under   int // fetches under way
	most    int // of them
	closed  bool
	do      func(ctx context.Context, ids []string) error // what a fetch does before it answers
	lost    string                                        // the item that it has lost, "" for all
	// The feature that nobody has, if it is not the first.
	lacks int
}

func (f *fakeStore) lose(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = id
}

func (f *fakeStore) String() string { return "fake" }

func (f *fakeStore) close() error { f.closed = true; return nil }

func (f *fakeStore) fetch(ctx context.Context, t *table, ids []string, values []value) error {
	f.mu.Lock()
	for _, id := range ids {
		f.fetched[id]++
	}
	f.chunks = append(f.chunks, len(ids))
	f.under++
	f.most = max(f.most, f.under)
	do, lost := f.do, f.lost
	f.mu.Unlock()
	defer func() { f.mu.Lock(); f.under--; f.mu.Unlock() }()
	if do != nil {
		if err := do(ctx, ids); err != nil {
			return err
		}
	}
	for i, id := range ids {
		var n float64
		if id == lost || lost == "" {
			continue
		}
		if _, err := fmt.Sscanf(id, "i%g", &n); err == nil {
			values[2*i], values[2*i+1] = value{kind: kindNumber, number: n + 1},
				value{kind: kindNumber, number: 1}
			if f.lacks > 0 {
				values[2*i+f.lacks] = value{}
			}
		}
		if len(t.features) == 1 && strings.HasPrefix(id, "u") {
			values[i] = value{kind: kindText, text: "s" + id[1:]}
		}
	}
	return nil
}

// answer sets what fetches do from now on. Those in the background that need not wait have ended.
func (f *fakeStore) answer(do func(ctx context.Context, ids []string) error) {
	synctest.Wait()
	f.mu.Lock()
	f.do = do
	f.mu.Unlock()
}

// total is how many entities were asked for since the last time.
func (f *fakeStore) total() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, times := range f.fetched {
		n += times
	}
	clear(f.fetched)
	return n
}

func after(d time.Duration) func(context.Context, []string) error {
	return func(ctx context.Context, _ []string) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func hang(ctx context.Context, _ []string) error {
	<-ctx.Done()
	return ctx.Err()
}

var errDown = errors.New("connection refused")

func down(context.Context, []string) error { return errDown }

// bubble runs a test with a store over a fake one.
func bubble(t *testing.T, change func(*Options), test func(t *testing.T, s *Store, f *fakeStore)) {
	synctest.Test(t, func(t *testing.T) {
		o := DefaultOptions()
		o.UserView, o.Timeout = "users", 100*time.Millisecond
		if change != nil {
			change(&o)
		}
		o, err := o.withDefaults()
		must(t, err)
		f := &fakeStore{fetched: make(map[string]int), lost: "none"}
		s := open(f, o)
		test(t, s, f)
		must(t, s.Close())
		must(t, s.Close())
		if !f.closed {
			t.Error("the backend is not closed")
		}
		if _, err := s.Arms(context.Background(), []string{"i1"}, make([]Arm, 1)); err != flight.ErrClosed {
			t.Errorf("after Close: error %v", err)
		}
		// The bubble fails if a goroutine is left.
	})
}

func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(prefix, i)
	}
	return ids
}

func TestAnswersAreKeptForTheirTTL(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
		ids := []string{"i1", "nobody", "i2", "i1"} // one of them twice
		want := []Arm{{2, 1, true}, {}, {3, 1, true}, {2, 1, true}}
		for range 3 {
			if got := arms(t, s, ids...); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if n := f.total(); n != 3 {
				t.Errorf("%d entities fetched, want 3: those that are unknown and those that come twice "+
					"count once", n)
			}
			time.Sleep(s.o.TTL*4/5 - 1)
			if arms(t, s, ids...); f.total() != 0 {
				t.Error("fetched while the TTL was far from over")
			}
			time.Sleep(s.o.TTL/5 + 1)
		}
		if h, m := s.counted("hits"), s.counted("misses"); h != 12 || m != 12 {
			t.Errorf("%d hits and %d misses, want 12 of both", h, m)
		}
	})
}

func TestWhatIsInUseIsFetchedBeforeItsTTLIsOver(t *testing.T) {
	bubble(t, func(o *Options) { o.Chunk = 10 }, func(t *testing.T, s *Store, f *fakeStore) {
		f.answer(after(50 * time.Millisecond))
		ids := numbered("i", 25)
		arms(t, s, append(ids, "i99")...) // i99 is asked for only once
		f.total()
		for range 3 {
			time.Sleep(s.o.TTL - time.Second)
			began := time.Now()
			for range 5 {
				arms(t, s, ids...)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("a call waited for %v", took)
			}
			time.Sleep(100 * time.Millisecond)
			if n := f.total(); n != len(ids) {
				t.Errorf("%d entities fetched, want %d", n, len(ids))
			}
		}
		if n := s.counted("misses"); n != 26 {
			t.Errorf("%d misses, want those of the first call", n)
		}
		if len(f.chunks) != 3+3*3 {
			t.Errorf("chunks of %v", f.chunks)
		}

		// A store that fails then is noticed, and does no harm before the TTL is over.
		f.answer(down)
		time.Sleep(s.o.TTL - time.Second)
		arms(t, s, ids...)
		synctest.Wait()
		if s.Ready() == nil {
			t.Error("the store says that it is ready")
		}
		f.total()
		if arms(t, s, ids...); f.total() != 0 {
			t.Error("a store that fails is asked for what is fresh")
		}
	})
}

func TestWithoutACacheEveryCallAsks(t *testing.T) {
	bubble(t, func(o *Options) { o.TTL, o.Stale = 0, 0 }, func(t *testing.T, s *Store, f *fakeStore) {
		for range 2 {
			if arms(t, s, "i1"); f.total() != 1 {
				t.Error("not asked")
			}
		}
	})
}

func TestChunksAreFetchedAtATimeWithinTheBound(t *testing.T) {
	bubble(t, func(o *Options) { o.Concurrency, o.Timeout = 3, time.Second },
		func(t *testing.T, s *Store, f *fakeStore) {
			f.answer(after(10 * time.Millisecond))
			began := time.Now()
			ids := numbered("i", 750)
			for i, got := range arms(t, s, ids...) {
				if got != (Arm{float64(i) + 1, 1, true}) {
					t.Fatalf("%s is %v", ids[i], got)
				}
			}
			if took := time.Since(began); took != 30*time.Millisecond {
				t.Errorf("8 chunks of 10 ms, 3 at a time, took %v", took)
			}
			slices.Sort(f.chunks)
			if f.most != 3 || !slices.Equal(f.chunks, []int{50, 100, 100, 100, 100, 100, 100, 100}) {
				t.Errorf("chunks of %v, %d at a time", f.chunks, f.most)
			}
		})
}

func TestAllChunksShareOneDeadline(t *testing.T) {
	bubble(t, func(o *Options) { o.Concurrency = 1 }, func(t *testing.T, s *Store, f *fakeStore) {
		f.answer(after(60 * time.Millisecond))
		began := time.Now()
		ids := numbered("i", 300)
		_, err := s.Arms(context.Background(), ids, make([]Arm, len(ids)))
		if took := time.Since(began); took != 100*time.Millisecond || err == nil {
			t.Errorf("error %v after %v", err, took)
		}
		time.Sleep(s.o.Timeout) // it is tried meanwhile
		f.answer(hang)
		_, err = s.Arms(context.Background(), []string{"i400"}, make([]Arm, 1))
		if err == nil || !strings.Contains(err.Error(), "--bandit-store-timeout") || s.Ready() == nil {
			t.Errorf("error %v, ready %v", err, s.Ready())
		}
		if long, timeouts := s.metrics.errors[faultLong].Value(),
			s.metrics.errors[faultTimeout].Value(); long == 0 || timeouts == 0 {
			t.Errorf("%d and %d errors counted", long, timeouts)
		}
	})
}

func TestTheFirstErrorEndsTheCall(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
		var cancelled atomic.Int64
		f.answer(func(ctx context.Context, ids []string) error {
			if slices.Contains(ids, "i150") {
				time.Sleep(5 * time.Millisecond)
				return errDown
			}
			<-ctx.Done()
			cancelled.Add(1)
			return ctx.Err()
		})
		began := time.Now()
		ids := numbered("i", 400)
		_, err := s.Arms(context.Background(), ids, make([]Arm, len(ids)))
		if took := time.Since(began); !errors.Is(err, errDown) || took != 5*time.Millisecond {
			t.Errorf("error %v after %v", err, took)
		}
		synctest.Wait()
		if n := cancelled.Load(); n != 3 {
			t.Errorf("%d of the 3 other chunks were cancelled", n)
		}
		if n := s.metrics.errors[faultUnreachable].Value(); n != 1 {
			t.Errorf("%d errors counted, and only one was the store's", n)
		}
	})
}

func TestConcurrentCallsShareWhatTheyFetch(t *testing.T) {
	bubble(t, func(o *Options) { o.Chunk, o.Timeout = 7, time.Hour },
		func(t *testing.T, s *Store, f *fakeStore) {
			f.answer(after(time.Millisecond))
			// All ask within the millisecond that the store takes, so each entity is fetched once.
			var calls sync.WaitGroup
			for seed := range 50 {
				calls.Go(func() {
					r := rand.New(rand.NewPCG(uint64(seed), 1))
					ids := make([]string, 1+r.IntN(60))
					for i := range ids {
						ids[i] = fmt.Sprint("i", r.IntN(100))
					}
					dst := make([]Arm, len(ids))
					if degraded, err := s.Arms(context.Background(), ids, dst); degraded || err != nil {
						t.Error(degraded, err)
					}
					for i, id := range ids {
						if want := fmt.Sprint("i", dst[i].Alpha-1); id != want {
							t.Errorf("%s has the arm of %s", id, want)
						}
					}
				})
			}
			calls.Wait()
			for id, times := range f.fetched {
				if times != 1 {
					t.Errorf("%s was fetched %d times", id, times)
				}
			}
		})
}

func TestACancelledCallTakesNothingFromTheOthers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
		f.answer(after(50 * time.Millisecond))
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { // the first, whose fetch it is
			if _, err := s.Arms(ctx, []string{"i1", "i2"}, make([]Arm, 2)); err != context.Canceled {
				t.Errorf("the cancelled call: error %v", err)
			}
		})
		synctest.Wait()
		calls.Go(func() {
			if got := arms(t, s, "i2", "i3"); got[0] != (Arm{3, 1, true}) || got[1] != (Arm{4, 1, true}) {
				t.Errorf("the other call got %v", got)
			}
		})
		synctest.Wait()
		cancel()
		calls.Wait()
		if n := f.total(); n != 3 {
			t.Errorf("%d entities fetched, want 3", n)
		}

		// A fetch that nobody waits for any more is cancelled, and not joined by who comes later.
		f.answer(func(ctx context.Context, _ []string) error {
			<-ctx.Done()
			time.Sleep(time.Millisecond) // it takes a while to end
			return ctx.Err()
		})
		ctx, cancel = context.WithCancel(t.Context())
		calls.Go(func() { s.Arms(ctx, []string{"i9"}, make([]Arm, 1)) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		f.answer(nil)
		if got := arms(t, s, "i9"); got[0] != (Arm{10, 1, true}) {
			t.Errorf("after a cancelled fetch: %v", got)
		}
		if err := s.Ready(); err != nil {
			t.Errorf("a cancelled call is no failure of the store: %v", err)
		}
	})
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
		f.answer(hang)
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() {
				if _, err := s.Arms(context.Background(), []string{fmt.Sprint("i", i%3)},
					make([]Arm, 1)); err != flight.ErrClosed {
					t.Errorf("error %v", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		must(t, s.Close())
		calls.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestAPanicIsAnErrorOfThatCall(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *Store, f *fakeStore) {
		f.answer(func(context.Context, []string) error { panic("index out of range") })
		if _, err := s.Arms(context.Background(), []string{"i1"}, make([]Arm, 1)); err == nil ||
			!strings.Contains(err.Error(), "BUG") {
			t.Errorf("error %v", err)
		}
		f.answer(nil)
		arms(t, s, "i1")
	})
}

func TestTheCacheIsBounded(t *testing.T) {
	bubble(t, func(o *Options) { o.CacheEntries = 100 }, func(t *testing.T, s *Store, f *fakeStore) {
		arms(t, s, numbered("i", 5000)...)
		if n := s.items.Len(); n == 0 || n > 100 {
			t.Errorf("%d entries", n)
		}
	})
}

func TestAClientIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made, broken := 0, true
		l := lazy[int]{create: func() (int, error) {
			time.Sleep(2 * time.Second)
			if broken {
				return 0, errDown
			}
			made++
			return 7, nil
		}}
		hasty := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := l.get(ctx)
			return err
		}
		if err := hasty(); err != context.DeadlineExceeded {
			t.Errorf("while the first attempt is under way: error %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := hasty(); !errors.Is(err, errDown) {
			t.Errorf("while the second one is: error %v, expected why the first one failed", err)
		}
		if _, err := l.get(t.Context()); err != errDown {
			t.Errorf("with more time: error %v", err)
		}
		broken = false
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if client, err := l.get(t.Context()); client != 7 || err != nil {
					t.Error(client, err)
				}
			})
		}
		all.Wait()
		if client, ok := l.last(); made != 1 || client != 7 || !ok {
			t.Errorf("made %d, %v, %v", made, client, ok)
		}
	})
}

// An overloaded server does not ask: it gives what it has, older answers too, and nothing else.
func TestAnOverloadedServerAsksForNothing(t *testing.T) {
	overloaded := false
	bubble(t, func(o *Options) { o.Refuse = func() bool { return overloaded } },
		func(t *testing.T, s *Store, f *fakeStore) {
			ids, arms := numbered("i", 3), make([]Arm, 3)
			_, err := s.Arms(t.Context(), ids, arms)
			must(t, err)
			f.total()
			overloaded = true

			time.Sleep(s.o.TTL * 9 / 10) // when it would be fetched anew
			if degraded, err := s.Arms(t.Context(), ids, arms); err != nil || degraded {
				t.Errorf("of what is fresh: degraded %v, error %v", degraded, err)
			}
			time.Sleep(s.o.TTL)
			clear(arms)
			if degraded, err := s.Arms(t.Context(), ids, arms); err != nil || !degraded || !arms[0].Known {
				t.Errorf("of what is old: degraded %v, error %v, %+v", degraded, err, arms[0])
			}
			if _, err := s.Arms(t.Context(), []string{"new"}, arms[:1]); !errors.Is(err, ErrRefused) ||
				Reason(err) == "it cannot be reached" {
				t.Errorf("of what is not there: error %v", err)
			}
			synctest.Wait()
			if n := f.total(); n != 0 {
				t.Errorf("%d entities were asked for", n)
			}
			overloaded = false
			if degraded, err := s.Arms(t.Context(), ids, arms); err != nil || degraded {
				t.Errorf("afterwards: degraded %v, error %v", degraded, err)
			}
		})
}
