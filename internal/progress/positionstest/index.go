package positionstest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/progress"
)

// RunIndex runs the suite.
func RunIndex(t *testing.T, x Index) {
	t.Run("EveryStepIsTakenOnceAndKept", func(t *testing.T) { steps(t, x) })
	if !x.Volatile {
		t.Run("Kill", func(t *testing.T) { killIndex(t, x) })
	}
	if !x.Volatile && !x.Shared {
		t.Run("FailedSync", func(t *testing.T) { failedIndexSync(t, x) })
	}
}

func openIndex(t *testing.T, x Index, dir string, sync func() error) progress.Index {
	t.Helper()
	index, err := x.Open(dir, Faults{sync})
	if err != nil {
		t.Fatal(err)
	}
	wantPromise(t, index)
	return index
}

func closeIndex(t *testing.T, index progress.Index) {
	t.Helper()
	if err := index.Close(); err != nil {
		t.Error(err)
	}
}

func wantIndex(t *testing.T, index progress.Index, want uint64) {
	t.Helper()
	if at, err := index.Get(t.Context()); at != want || err != nil {
		t.Errorf("the index is %d, %v; want %d", at, err, want)
	}
}

// next moves an index by one and returns where to.
func next(index progress.Index) (uint64, error) {
	for {
		at, err := index.Get(context.Background())
		if err != nil {
			return 0, err
		}
		if ok, err := index.CompareAndSwap(context.Background(), at, at+1); ok || err != nil {
			return at + 1, err
		}
	}
}

func steps(t *testing.T, x Index) {
	dir := t.TempDir()
	index := openIndex(t, x, dir, nil)
	wantIndex(t, index, 0)
	const goroutines = 16
	each := 2000
	if !index.Inline() {
		each = 100
	}
	seen := make([]atomic.Bool, goroutines*each+1)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				at, err := next(index)
				if err != nil {
					t.Error(err)
					return
				}
				if seen[at].Swap(true) {
					t.Errorf("step %d was taken twice", at)
				}
			}
		})
	}
	all.Wait()
	wantIndex(t, index, uint64(goroutines*each))
	if ok, err := index.CompareAndSwap(t.Context(), 5, 6); ok || err != nil {
		t.Errorf("a swap of what is not there: %t, %v", ok, err)
	}
	if ok, err := index.CompareAndSwap(t.Context(), uint64(goroutines*each), 1<<40); !ok || err != nil {
		t.Error(ok, err)
	}
	wantIndex(t, index, 1<<40)
	closeIndex(t, index)
	if !x.Volatile {
		index = openIndex(t, x, dir, nil)
		wantIndex(t, index, 1<<40)
		closeIndex(t, index)
	}
}

func failedIndexSync(t *testing.T, x Index) {
	var failing atomic.Bool
	dir := t.TempDir()
	index := openIndex(t, x, dir, failWhile(&failing))
	failing.Store(true)
	var at uint64
	wantFailure(t, index, func() error {
		to, err := next(index)
		if err == nil {
			at = to
		}
		return err
	})
	failing.Store(false)
	if ok, err := index.CompareAndSwap(t.Context(), at, at); ok || err == nil {
		t.Errorf("a swap of equal numbers after a failed sync: %t, %v", ok, err)
	}
	wantIndex(t, index, at)
	if index.Close() == nil {
		t.Error("Close says that all is well")
	}
	index = openIndex(t, x, dir, nil)
	wantIndex(t, index, at)
	closeIndex(t, index)
}

// indexVictim moves on until it is killed, and says each step.
func indexVictim(x Index, dir string) error {
	index, err := x.Open(dir, Faults{})
	if err != nil {
		return err
	}
	return untilKilled(func() error {
		at, err := next(index)
		if err == nil {
			_, err = fmt.Fprintln(os.Stdout, at)
		}
		return err
	})
}

func killIndex(t *testing.T, x Index) {
	const rounds = 6
	dir := t.TempDir()
	taken := make(map[uint64]bool)
	var highest uint64
	for round := range rounds {
		for _, line := range saidUntilKilled(t, "i"+dir) {
			var at uint64
			if _, err := fmt.Sscan(line, &at); err != nil || taken[at] {
				t.Fatalf("round %d: line %q: %v; or the step was taken twice", round, line, err)
			}
			taken[at] = true
			highest = max(highest, at)
		}
		index := openIndex(t, x, dir, nil)
		at, err := index.Get(t.Context())
		if err != nil || at < highest || at > uint64(len(taken)+(round+1)*victimGoroutines) {
			t.Fatalf("round %d: the index is %d, %v, after %d", round, at, err, highest)
		}
		closeIndex(t, index)
	}
}
