package progress_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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

// TestACellWithoutItsKeyIsNoticed removes the key file of a directory in use: its users' cells would go to
// others.
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

// What is saved in a directory that is gone is lost.
func TestADirectoryThatIsDeletedUnderPositionsIsAnError(t *testing.T) {
	dir := t.TempDir()
	l := openLocal(t, dir, progress.Options{})
	if err := l.Err(); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if l.Err() == nil {
		t.Error("positions are said to be saved in a directory that is gone")
	}
	l.Close()
}

// What was added before a sync failed is not in use, and must not be counted as if it was, whatever comes
// next.
func TestAfterAFailedSyncOfKeysTheirCountIsThatOfCells(t *testing.T) {
	dir := t.TempDir()
	var failing atomic.Bool
	l := openLocal(t, dir, progress.Options{SyncInterval: time.Hour,
		Faults: disk.Faults{FailSync: func() error {
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
	if _, err := l.Prepare(book(positionstest.Scattered, 1<<40, 1<<41, 1<<42)); err == nil ||
		!strings.Contains(err.Error(), "no such luck") {
		t.Errorf("keys whose sync failed: %v", err)
	}
	if _, err := l.Prepare(book(positionstest.Dense, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// The power went, and what was not synced with it.
	if err := os.Truncate(keys, synced.Size()); err != nil {
		t.Fatal(err)
	}
	if err := openLocal(t, dir, progress.Options{}).Close(); err != nil {
		t.Error(err)
	}
}

// Whoever was forgotten is in no file any more once the lists have them no more, nor is their position.
func TestNothingOfTheForgottenIsLeftInAnyFile(t *testing.T) {
	const name, number = "user 1003", 1 << 45 // a text, and a scattered number as bytes
	dir := t.TempDir()
	var numbers []uint64
	for i := range uint64(10) {
		numbers = append(numbers, number+i)
	}
	texts := positionstest.NewBook(1, positionstest.Text, 50, 1000, 1001, 1002, 1003, 1004)
	scattered := positionstest.NewBook(2, positionstest.Scattered, 50, numbers...)
	others := positionstest.NewBook(3, positionstest.Scattered, 50, number+1, number+2)
	tags := make(map[string]uint64) // 6 bytes each, which say whose position it is
	l := openLocal(t, dir, progress.Options{SyncInterval: time.Millisecond})
	for _, b := range []*positionstest.Book{texts, scattered} {
		g, err := l.Prepare(b)
		if err != nil {
			t.Fatal(err)
		}
		for rank := range b.Slots() {
			u, _ := b.User(rank)
			list, _ := b.List(rank)
			tags[fmt.Sprint(u.Number, string(u.Name))] = list.Tag
			for range 3 {
				if _, err := g.Do(u, list, progress.Advance(1)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Millisecond) // into the log
			}
		}
	}
	forgotten := []progress.User{{Name: []byte(name)}, {Number: number + 5}}
	holds := func(what []byte) (where string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if data, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			} else if bytes.Contains(data, what) {
				where += " " + e.Name()
			}
		}
		return where
	}
	le := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	whose := func() [][]byte {
		return [][]byte{
			[]byte(name), le(number + 5),
			le(tags["1003"+name] << 16)[2:], le(tags[fmt.Sprint(number+5)] << 16)[2:],
		}
	}
	for i, what := range whose() {
		if holds(what) == "" {
			t.Fatalf("%d: the test looks for what was never there", i)
		}
	}
	g, err := l.Prepare(others)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range forgotten {
		if was, err := g.Forget(t.Context(), u); !was || err != nil {
			t.Fatalf("%v was not known: %v", u, err)
		}
	}
	for restart := range 2 { // at once, and by whoever comes after a crash in between
		if restart == 1 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = openLocal(t, dir, progress.Options{})
			if g, err = l.Prepare(others); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Tend(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, what := range whose() {
			if where := holds(what); where != "" {
				t.Errorf("restart %d: %d is still in%s", restart, i, where)
			}
		}
	}
	if holds([]byte("user 1001")) == "" {
		t.Error("others are gone, too")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// Two who move one user at once leave the count right, whoever looks first and whoever counts last. That
// takes many tries to go wrong.
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
						t.Errorf("round %d: %d users are counted as exhausted, and one is at %d of %d", round,
							n, m.To, items)
					}
				}
				meet()
			}
		})
	}
	both.Wait()
}
