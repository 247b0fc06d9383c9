package feed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"weir/internal/disk"
	"weir/internal/feed/snapshot"
	"weir/internal/progress"
)

// fill returns lists of one and the same item for these users.
func fill(ids ...uint64) lists {
	l := make(lists)
	for _, id := range ids {
		l[id] = []uint64{id + 1}
	}
	return l
}

// cells opens the slots of a directory, assigns them to lists in a shape, and returns each user's cell.
func cells(t *testing.T, dir string, l lists, as shape) map[uint64]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "feeds.weir")
	l.write(t, path, as, false)
	lists, err := snapshot.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lists.Close()
	if lists.Dense() != (as == dense) {
		t.Fatalf("the snapshot is not of shape %d", as)
	}
	s, err := openSlots(dir, progress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	table, err := s.assign(lists)
	if err != nil {
		t.Fatal(err)
	}
	g := &generation{lists: lists, table: table}
	found := make(map[uint64]string)
	taken := make(map[string]uint64)
	for id := range l {
		var name []byte
		rank, ok := lists.FindNumber(id)
		if as == named {
			name = strconv.AppendUint(nil, id, 10)
			rank, ok = lists.FindString(name)
		}
		if !ok {
			t.Fatalf("user %d is not found", id)
		}
		store, cell := s.cell(g, rank, id, name)
		if cell >= store.Len() {
			t.Fatalf("user %d has cell %d of %d", id, cell, store.Len())
		}
		where := fmt.Sprintf("ids %d", cell)
		if store == s.keys {
			where = fmt.Sprintf("keys %d", cell)
		}
		if other, ok := taken[where]; ok {
			t.Fatalf("users %d and %d share %s", id, other, where)
		}
		taken[where] = id
		found[id] = where
	}
	return found
}

// TestAUserKeepsOneCellForGood walks through changes of the shape of ids.
func TestAUserKeepsOneCellForGood(t *testing.T) {
	numbers := func(n uint64, more ...uint64) []uint64 {
		for id := range n {
			more = append(more, id)
		}
		return more
	}
	const far = 1 << 62
	for name, walk := range map[string][]struct {
		as  shape
		ids []uint64
	}{
		"dense, keyed, dense": {
			{dense, numbers(100)}, {keyed, numbers(50, far, far+1)}, {dense, numbers(5000)}, {keyed, numbers(5000, far+1, 9000)}, {dense, numbers(10_000)},
		},
		"keyed first": {
			{keyed, []uint64{3, 70, far}}, {dense, numbers(100)}, {keyed, []uint64{2, 3, 70, 99, 100, 3000, far, 1 << 63}}, {dense, numbers(4000)},
		},
		"strings and numbers": {
			{named, []uint64{5, 123, far}}, {dense, numbers(200)}, {named, numbers(3000, far, far+7)}, {keyed, numbers(3000, far+7)}, {dense, numbers(3500)},
		},
		"dense, strings": {
			{dense, numbers(200)}, {named, numbers(300, far)}, {dense, numbers(3000)}, {keyed, []uint64{7, 250, 2999, far}},
		},
		"growing ids": {
			{dense, numbers(1)}, {dense, numbers(20_000)}, {dense, numbers(10)}, {dense, numbers(60_000)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before := make(map[uint64]string)
			for step, s := range walk {
				for id, where := range cells(t, dir, fill(s.ids...), s.as) {
					if was, ok := before[id]; ok && was != where {
						t.Fatalf("step %d: user %d moved from %s to %s", step, id, was, where)
					}
					before[id] = where
				}
			}
		})
	}
}

func TestPositionsFollowUsersThroughShapes(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	l := numbered(200, 50)
	for as, name := range []string{"dense", "keyed", "named"} {
		l.write(t, filepath.Join(files, name), shape(as), as == 2)
	}
	f := &fixture{t: t, dir: dir, cfg: Config{Path: filepath.Join(dir, "feeds.weir"), Watch: -1}}
	for step, name := range []string{"named", "dense", "keyed", "dense", "named", "keyed", "named"} {
		f.use(filepath.Join(files, name))
		if f.Feed == nil || step%3 == 0 {
			f.reopen()
		}
		f.wantAt(3*step, 0, 123, 199)
		for id := range l {
			f.take(0, id, 3)
		}
	}
	f.close()
}

func TestDecimalNumbersAreToldFromOtherNames(t *testing.T) {
	for s, want := range map[string]uint64{"0": 0, "7": 7, "123": 123, "18446744073709551615": 18446744073709551615} {
		if n, ok := decimal([]byte(s)); !ok || n != want {
			t.Errorf("%s is %d, %t", s, n, ok)
		}
	}
	for _, s := range []string{"", "00", "0123", "+1", "-1", " 1", "1 ", "1e3", "0x1", "18446744073709551616", "28446744073709551615", "99999999999999999999", "100000000000000000000", "\u0661"} {
		if n, ok := decimal([]byte(s)); ok {
			t.Errorf("%q is said to be the number %d", s, n)
		}
	}
}

// TestNamesOfAnyKindHaveCells mixes names that look like numbers with others.
func TestNamesOfAnyKindHaveCells(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	names := []string{"0", "00", "007", "7", "anna", "18446744073709551615", "18446744073709551616", "\xff\x00", "é"}
	write := func(names []string) {
		o := snapshot.Options{Users: snapshot.String, UserCount: uint64(len(names)), MaxItem: 100, Fallback: -1}
		w, err := snapshot.Create(path, o)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		for _, name := range sorted(names) {
			if err := w.AddString(name, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	write(names)
	f := open(t, dir)
	take := func(name string, n int) (at moved) {
		g := f.pin(0)
		defer g.unpin(0)
		rank, ok := g.lists.FindString([]byte(name))
		if !ok {
			t.Fatalf("%q is not found", name)
		}
		list, err := g.lists.List(rank)
		if err != nil {
			t.Fatal(err)
		}
		u := user{rank: rank, list: list}
		u.store, u.cell = f.slots.cell(g, rank, 0, []byte(name))
		if at, err = f.advance(g, &u, n); err != nil {
			t.Fatal(err)
		}
		return at
	}
	for i, name := range names {
		if at := take(name, i+1); at.from != 0 || at.to != i+1 {
			t.Errorf("%q went from %d to %d", name, at.from, at.to)
		}
	}
	f.close()
	write(append(names, "berta", "1"))
	f.reopen()
	for i, name := range names {
		if at := take(name, 1); at.from != i+1 {
			t.Errorf("%q is at %d after the restart, want %d", name, at.from, i+1)
		}
	}
}

func TestAFailedSyncPoisonsAdvancesAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	l := numbered(4, 5000)
	l.write(t, path, dense, false)
	failing := make(chan struct{})
	f := open(t, dir, func(c *Config) {
		c.Sync = 1e6
		c.faults = disk.Faults{FailSync: func() error {
			select {
			case <-failing:
				return fmt.Errorf("no such luck")
			default:
				return nil
			}
		}}
	})
	f.take(0, 1, 5)
	close(failing)
	g := f.pin(0)
	defer g.unpin(0)
	u, _ := f.user(g, 2)
	eventually(t, "an advance that fails", func() bool {
		at, err := f.advance(g, &u, 1)
		return err != nil || at.to == u.list.Len()
	})
	wantError(t, "readiness", f.Ready(), "positions cannot be saved")
	u, _ = f.user(g, 1)
	if at, err := f.advance(g, &u, 5); err == nil {
		t.Errorf("a poisoned store advanced to %d", at.position)
	}
	if pos, err := f.position(g, &u); err != nil || pos != 5 {
		t.Errorf("position %d, %v; want 5", pos, err)
	}
	f.Feed.Close() // says that it is poisoned
	f.Feed = nil
}

// What was added before a sync failed is not in use, and must not be counted as if it was, whatever comes next.
func TestAfterAFailedSyncOfKeysTheirCountIsThatOfCells(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, l lists, as shape) string {
		path := filepath.Join(dir, name)
		l.write(t, path, as, false)
		return path
	}
	write("feeds.weir", lists{1 << 40: {1, 2, 3}}, keyed)
	more := write("more.weir", lists{1 << 40: {1, 2, 3}, 1 << 41: {4, 5}, 1 << 42: {4, 5}}, keyed)
	numbers := write("numbers.weir", lists{0: {1, 2}, 1: {3, 4}}, dense)
	var failing atomic.Bool
	f := open(t, dir, func(c *Config) {
		c.faults = disk.Faults{FailSync: func() error {
			if failing.CompareAndSwap(true, false) {
				return errors.New("no such luck")
			}
			return nil
		}}
	})
	<-f.current.Load().warmed
	keys := filepath.Join(dir, "feed", "keys.log")
	synced, err := os.Stat(keys)
	if err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	f.Feed.cfg.Path = more
	wantError(t, "the reload", f.Reload(context.Background()), "no such luck")
	f.Feed.cfg.Path = numbers
	if err := f.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if f.slots.keys.Len() != 1 {
		t.Errorf("there are %d cells for one key", f.slots.keys.Len())
	}
	f.close()
	if err := os.Truncate(keys, synced.Size()); err != nil { // the power went, and what was not synced with it
		t.Fatal(err)
	}
	s, err := openSlots(filepath.Join(dir, "feed"), progress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
