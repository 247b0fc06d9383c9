package feed

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"weir/internal/disk"
	"weir/internal/feed/snapshot"
	"weir/internal/progress"
	"weir/internal/systest"
)

// eachShape runs a test on every way a snapshot may keep users and items.
func eachShape(t *testing.T, test func(t *testing.T, as shape, names bool)) {
	for as, name := range []string{"dense", "keyed", "named"} {
		for _, names := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,names=%t", name, names), func(t *testing.T) { test(t, shape(as), names) })
		}
	}
}

// together runs n goroutines at the same time and waits for them.
func together(n int, run func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			run(i)
		})
	}
	start.Done()
	done.Wait()
}

func TestEveryItemIsGivenExactlyOnceTo64GoroutinesOfOneUser(t *testing.T) {
	eachShape(t, func(t *testing.T, as shape, names bool) {
		dir := t.TempDir()
		l := numbered(3, snapshot.MaxListLen/8)
		l.write(t, filepath.Join(dir, "feeds.weir"), as, names)
		f := open(t, dir)
		given := make([][]uint64, 64)
		together(len(given), func(i int) {
			for {
				items, at := f.take(i, 1, 1+rand.IntN(20))
				if at.To-at.From != len(items) {
					t.Errorf("items %d to %d are %d items", at.From, at.To, len(items))
				}
				if len(items) == 0 {
					return
				}
				given[i] = append(given[i], items...)
			}
		})
		all := slices.Concat(given...)
		slices.Sort(all)
		if !slices.Equal(all, l[1]) {
			t.Errorf("%d items were given, %d of them different, of a list of %d", len(all),
				len(slices.Compact(all)), len(l[1]))
		}
		f.wantAt(len(l[1]), 1)
		f.wantAt(0, 0, 2)
		if n := f.value("weir_feed_exhausted_users"); n != 1 {
			t.Errorf("%v users are counted as exhausted, want 1", n)
		}
	})
}

func TestManyUsersKeepTheirOwnPositions(t *testing.T) {
	eachShape(t, func(t *testing.T, as shape, names bool) {
		const users, items = 300, 40
		dir := t.TempDir()
		l := numbered(users, items)
		l.write(t, filepath.Join(dir, "feeds.weir"), as, names)
		f := open(t, dir)
		var mu sync.Mutex
		given := make(lists)
		together(16, func(i int) {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 500 {
				id := r.Uint64N(users)
				items, _ := f.take(i, id, r.IntN(9))
				mu.Lock()
				given[id] = append(given[id], items...)
				mu.Unlock()
			}
		})
		f.reopen()
		ended := 0
		for id, want := range l {
			got := given[id]
			slices.Sort(got)
			if !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("user %d was given %v, want the first %d of %v", id, got, len(got), want)
			}
			f.wantAt(len(got), id)
			if len(got) == items {
				ended++
			}
		}
		if ended == 0 || ended == users {
			t.Fatalf("%d of %d users came to their end: the test wants some", ended, users)
		}
		// After the restart they are counted in the background.
		systest.Eventually(t, "the count of the users at their end",
			func() bool { return f.value("weir_feed_exhausted_users") == float64(ended) })
		if ratio := f.value("weir_feed_exhausted_ratio"); ratio != float64(ended)/users {
			t.Errorf("the ratio of exhausted users is %v, want %v", ratio, float64(ended)/users)
		}
	})
}

func TestReplayNeverGoesBack(t *testing.T) {
	dir := t.TempDir()
	l := numbered(1, 2000)
	l.write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	f := open(t, dir)
	together(16, func(i int) {
		r := rand.New(rand.NewPCG(2, uint64(i)))
		last := 0
		for range 300 {
			var at moved
			if from := r.IntN(1990); i%2 == 0 && from <= last+20 {
				f.with(i, 0, func(v *visit) (err error) {
					at, err = v.move(&query{size: 5, from: from})
					return err
				})
				if at.from != from || at.to != from+5 || at.position < at.to {
					t.Errorf("from %d gave %d to %d and position %d", from, at.from, at.to, at.position)
				}
			} else {
				_, to := f.take(i, 0, 1)
				at.position = to.To
			}
			if at.position < last {
				t.Errorf("the position went back from %d to %d", last, at.position)
			}
			last = at.position
		}
	})
}

func TestTheCountOfExhaustedUsersIsExact(t *testing.T) {
	const users, items = 70, 5
	dir := t.TempDir()
	l := numbered(users, items)
	l[3] = nil // an empty list is at its end
	l.write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	f := open(t, dir)
	systest.Eventually(t, "the empty list in the count",
		func() bool { return f.value("weir_feed_exhausted_users") == 1 })
	check := func() {
		t.Helper()
		want := 0
		for id := range l {
			if f.at(id) == len(l[id]) {
				want++
			}
		}
		<-f.current.Load().warmed
		if n := f.value("weir_feed_exhausted_users"); n != float64(want) {
			t.Fatalf("%v users are counted as exhausted, %d are", n, want)
		}
	}
	// One user, so that advances to the end and resets meet.
	for burst := range 3000 {
		together(4, func(i int) {
			for n := range 100 {
				if (n+i+burst)%2 == 0 {
					f.take(i, 1, items)
					continue
				}
				f.reset(i, 1)
			}
		})
		check()
	}
	// And swaps, so that first counts do.
	for range 20 {
		together(stripes, func(i int) {
			r := rand.New(rand.NewPCG(3, uint64(i)))
			for n := range 300 {
				id := r.Uint64N(users)
				switch {
				case i == 0 && n%30 == 15:
					if err := f.Reload(t.Context()); err != nil {
						t.Error(err)
					}
				case r.IntN(2) == 0:
					f.take(i, id, items)
				default:
					f.reset(i, id)
				}
			}
		})
		check()
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

// TestNamesOfAnyKindHavePositions mixes names that look like numbers with others.
func TestNamesOfAnyKindHavePositions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "feeds.weir")
	names := []string{"0", "00", "007", "7", "anna", "18446744073709551615", "18446744073709551616",
		"\xff\x00", "é"}
	write := func(names []string) {
		o := snapshot.Options{Users: snapshot.String, UserCount: uint64(len(names)), MaxItem: 100,
			Fallback: -1}
		w, err := snapshot.Create(path, o)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		for _, name := range slices.Sorted(slices.Values(names)) {
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
	take := func(name string, n int) progress.Move {
		v, err := f.visit([]byte(name), 0, false)
		if err != nil {
			t.Fatal(err)
		}
		defer v.end()
		if err := v.read(); err != nil || !v.known() {
			t.Fatalf("%q is not found: %v", name, err)
		}
		at, err := v.do(progress.Advance(n))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for i, name := range names {
		if at := take(name, i+1); at.From != 0 || at.To != i+1 {
			t.Errorf("%q went from %d to %d", name, at.From, at.To)
		}
	}
	f.close()
	write(append(names, "berta", "1"))
	f.reopen()
	for i, name := range names {
		if at := take(name, 1); at.From != i+1 {
			t.Errorf("%q is at %d after the restart, want %d", name, at.From, i+1)
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
	v, _ := f.visitUnder(g, 2)
	systest.Eventually(t, "an advance that fails", func() bool {
		at, err := v.do(progress.Advance(1))
		return err != nil || at.To == v.list.Len()
	})
	wantError(t, "readiness", f.Health().Err(), "positions cannot be saved")
	v, _ = f.visitUnder(g, 1)
	if at, err := v.do(progress.Advance(5)); err == nil {
		t.Errorf("a poisoned store advanced to %d", at.To)
	}
	if at, err := v.do(progress.Get()); err != nil || at.To != 5 {
		t.Errorf("position %d, %v; want 5", at.To, err)
	}
	g.unpin(0)
	f.Feed.Close() // says that it is poisoned
	f.Feed = nil
}
