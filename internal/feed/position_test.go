package feed

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/feed/snapshot"
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
				if at.to-at.from != len(items) || at.position != at.to {
					t.Errorf("items %d to %d are %d items and lead to %d", at.from, at.to, len(items), at.position)
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
			t.Errorf("%d items were given, %d of them different, of a list of %d", len(all), len(slices.Compact(all)), len(l[1]))
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
		eventually(t, "the count of the users at their end", func() bool { return f.value("weir_feed_exhausted_users") == float64(ended) })
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
				f.with(i, 0, func(g *generation, u *user) (err error) {
					at, err = f.replay(g, u, from, 5)
					return err
				})
				if at.from != from || at.to != from+5 || at.position < at.to {
					t.Errorf("from %d gave %d to %d and position %d", from, at.from, at.to, at.position)
				}
			} else {
				_, at = f.take(i, 0, 1)
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
	eventually(t, "the empty list in the count", func() bool { return f.value("weir_feed_exhausted_users") == 1 })
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
				f.with(i, 1, func(g *generation, u *user) error {
					_, _, err := f.set(g, u, func(int) int { return 0 })
					return err
				})
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
					f.with(i, id, func(g *generation, u *user) error {
						_, _, err := f.set(g, u, func(int) int { return 0 })
						return err
					})
				}
			}
		})
		check()
	}
}

// Two who move one user at once leave the count right, whoever looks first and whoever counts last. That takes many tries to go wrong.
func TestTheLastToCountLooksAgain(t *testing.T) {
	const items = 5
	dir := t.TempDir()
	numbered(2, items).write(t, filepath.Join(dir, "feeds.weir"), dense, false)
	f := open(t, dir)
	g := f.current.Load()
	<-g.warmed
	u, _ := f.user(g, 1)
	var arrived atomic.Int64
	const rounds = 100_000
	together(2, func(i int) {
		for round := range int64(rounds) {
			// Both begin as near to each other as it gets.
			for arrived.Add(1); arrived.Load() < 4*round+2; {
				runtime.Gosched()
			}
			if i == 0 {
				f.set(g, &u, func(int) int { return items })
			} else {
				f.set(g, &u, func(int) int { return 0 })
			}
			for arrived.Add(1); arrived.Load() < 4*round+4; {
				runtime.Gosched()
			}
			if i == 0 && !t.Failed() {
				if n, end := g.exhausted.count.Load(), u.atEnd(); (n == 1) != end || n < 0 || n > 1 {
					t.Errorf("round %d: %d users are counted as exhausted, and the one who moves is: %t", round, n, end)
				}
			}
		}
	})
}
