package progress_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/disk"
	"weir/internal/progress"
	"weir/internal/progress/positionstest"
)

func openLocal(t *testing.T, dir string, o progress.Options) *progress.Local {
	t.Helper()
	o.Name = "test"
	l, err := progress.OpenLocal(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestACellWithoutItsKeyIsNoticed removes the key file of a directory in use: its users' cells would go to others.
func TestACellWithoutItsKeyIsNoticed(t *testing.T) {
	dir := t.TempDir()
	l := openLocal(t, dir, progress.Options{})
	if _, err := l.Prepare(positionstest.NewBook(1, positionstest.Scattered, 9, 1<<40, 1<<41)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "keys.log")); err != nil {
		t.Fatal(err)
	}
	l, err := progress.OpenLocal(dir, progress.Options{})
	if err == nil {
		l.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "keys.log") || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("without its keys it opens with %v", err)
	}
}

// What was added before a sync failed is not in use, and must not be counted as if it was, whatever comes next.
func TestAfterAFailedSyncOfKeysTheirCountIsThatOfCells(t *testing.T) {
	dir := t.TempDir()
	var failing atomic.Bool
	l := openLocal(t, dir, progress.Options{SyncInterval: time.Hour, Faults: disk.Faults{FailSync: func() error {
		if failing.CompareAndSwap(true, false) {
			return errors.New("no such luck")
		}
		return nil
	}}})
	book := func(as positionstest.Shape, ids ...uint64) *positionstest.Book {
		return positionstest.NewBook(1, as, 9, ids...)
	}
	if _, err := l.Prepare(book(positionstest.Scattered, 1<<40)); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(dir, "keys.log")
	synced, err := os.Stat(keys)
	if err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	if _, err := l.Prepare(book(positionstest.Scattered, 1<<40, 1<<41, 1<<42)); err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("keys whose sync failed: %v", err)
	}
	if _, err := l.Prepare(book(positionstest.Dense, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(keys, synced.Size()); err != nil { // the power went, and what was not synced with it
		t.Fatal(err)
	}
	if err := openLocal(t, dir, progress.Options{}).Close(); err != nil {
		t.Error(err)
	}
}

// Two who move one user at once leave the count right, whoever looks first and whoever counts last. That takes many tries to go
// wrong.
func TestTheLastToCountLooksAgain(t *testing.T) {
	const items, rounds = 5, 100_000
	l := openLocal(t, t.TempDir(), progress.Options{})
	defer l.Close()
	b := positionstest.NewBook(1, positionstest.Dense, items, 0, 1)
	g, err := l.Prepare(b)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := b.User(1)
	list, _ := b.List(1)
	var arrived atomic.Int64
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			meet := func() { // both go on as near to each other as it gets
				for n := (arrived.Add(1) + 1) / 2 * 2; arrived.Load() < n; {
					runtime.Gosched()
				}
			}
			for round := range rounds {
				meet()
				if _, err := g.Do(u, list, progress.Set(i*items)); err != nil {
					t.Error(err)
				}
				meet()
				if i == 0 && !t.Failed() {
					m, err := g.Do(u, list, progress.Get())
					if n := g.Exhausted(); err != nil || (n == 1) != (m.To == items) || n < 0 || n > 1 {
						t.Errorf("round %d: %d users are counted as exhausted, and one is at %d of %d", round, n, m.To, items)
					}
				}
				meet()
			}
		})
	}
	both.Wait()
}
