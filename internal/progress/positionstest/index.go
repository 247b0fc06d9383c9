package positionstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/progress"
	"weir/internal/systest"
)

// RunIndex runs the suite.
func RunIndex(t *testing.T, x Index) {
	t.Run("EveryStepIsTakenOnce", func(t *testing.T) { steps(t, x) })
	t.Run("Durability", func(t *testing.T) {
		index := openIndex(t, x, t.TempDir(), Faults{})
		wantDurability(t, index.Durability())
		closeIndex(t, index)
	})
	if x.Volatile {
		return
	}
	t.Run("Restart", func(t *testing.T) {
		dir := t.TempDir()
		index := openIndex(t, x, dir, Faults{})
		wantIndex(t, index, 0)
		if ok, err := index.CompareAndSwap(t.Context(), 0, 1<<40); !ok || err != nil {
			t.Error(ok, err)
		}
		closeIndex(t, index)
		index = openIndex(t, x, dir, Faults{})
		wantIndex(t, index, 1<<40)
		closeIndex(t, index)
	})
	t.Run("Kill", func(t *testing.T) { killIndex(t, x) })
	t.Run("FailedSync", func(t *testing.T) { failedIndexSync(t, x) })
}

func openIndex(t *testing.T, x Index, dir string, faults Faults) progress.Index {
	t.Helper()
	index, err := x.Open(dir, faults)
	if err != nil {
		t.Fatal(err)
	}
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
	index := openIndex(t, x, t.TempDir(), Faults{})
	defer closeIndex(t, index)
	const goroutines, each = 16, 2000
	var seen [goroutines*each + 1]atomic.Bool
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
	wantIndex(t, index, goroutines*each)
	if ok, err := index.CompareAndSwap(t.Context(), 5, 6); ok || err != nil {
		t.Errorf("a swap of what is not there: %t, %v", ok, err)
	}
	wantIndex(t, index, goroutines*each)
}

func failedIndexSync(t *testing.T, x Index) {
	var failing atomic.Bool
	dir := t.TempDir()
	index := openIndex(t, x, dir, Faults{Sync: func() error {
		if failing.Load() {
			return errors.New("no such luck")
		}
		return nil
	}})
	failing.Store(true)
	var at uint64
	deadline := time.Now().Add(20 * time.Second)
	for {
		to, err := next(index)
		if err != nil {
			break
		}
		if at = to; time.Now().After(deadline) {
			t.Fatal("steps go on although nothing can be saved")
		}
		time.Sleep(time.Millisecond)
	}
	failing.Store(false)
	if index.Err() == nil {
		t.Error("Err says that all is well")
	}
	if ok, err := index.CompareAndSwap(t.Context(), at, at); ok || err == nil {
		t.Errorf("a swap of equal numbers after a failed sync: %t, %v", ok, err)
	}
	wantIndex(t, index, at)
	if index.Close() == nil {
		t.Error("Close says that all is well")
	}
	index = openIndex(t, x, dir, Faults{})
	wantIndex(t, index, at)
	closeIndex(t, index)
}

// indexVictim moves on until it is killed, and says each step.
func indexVictim(x Index, dir string) error {
	index, err := x.Open(dir, Faults{})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range victimGoroutines {
		go func() {
			for {
				at, err := next(index)
				if err == nil {
					_, err = fmt.Fprintln(os.Stdout, at)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func killIndex(t *testing.T, x Index) {
	const rounds = 6
	dir := t.TempDir()
	taken := make(map[uint64]bool)
	var highest uint64
	for round := range rounds {
		for _, line := range systest.KillAfter(t, 1+rand.IntN(2000), victimEnv+"=i"+dir) {
			var at uint64
			if _, err := fmt.Sscan(line, &at); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			if taken[at] {
				t.Fatalf("round %d: step %d was taken twice", round, at)
			}
			taken[at] = true
			highest = max(highest, at)
		}
		index := openIndex(t, x, dir, Faults{})
		at, err := index.Get(t.Context())
		if err != nil || at < highest || at > uint64(len(taken)+(round+1)*victimGoroutines) {
			t.Fatalf("round %d: the index is %d, %v, after %d", round, at, err, highest)
		}
		closeIndex(t, index)
	}
}
