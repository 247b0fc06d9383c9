package positionstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/progress"
	"weir/internal/systest"
)

// RunPositions runs the suite.
func RunPositions(t *testing.T, p Positions) {
	for as := range shapes {
		t.Run(as.String(), func(t *testing.T) {
			t.Run("Operations", func(t *testing.T) { operations(t, p, as) })
			t.Run("OneUserOfManyGetsEveryItemOnce", func(t *testing.T) { oneUser(t, p, as) })
			t.Run("Restart", func(t *testing.T) { restart(t, p, as) })
			t.Run("Forget", func(t *testing.T) { forget(t, p, as) })
		})
	}
	t.Run("LateRequestsUndoNothing", func(t *testing.T) { late(t, p) })
	t.Run("RollBack", func(t *testing.T) { rollBack(t, p) })
	t.Run("NoItemTwiceOverChanges", func(t *testing.T) { changes(t, p) })
	t.Run("UsersKeepTheirPlaceThroughShapes", func(t *testing.T) { throughShapes(t, p) })
	t.Run("Exhausted", func(t *testing.T) { ended(t, p) })
	t.Run("Durability", func(t *testing.T) { durability(t, p) })
	if !p.Volatile {
		t.Run("Kill", func(t *testing.T) { kill(t, p) })
		t.Run("FailedSync", func(t *testing.T) { failedSync(t, p) })
	}
}

// fixture is open positions.
type fixture struct {
	progress.Positions
	t   *testing.T
	p   Positions
	dir string
}

func open(t *testing.T, p Positions) *fixture {
	f := &fixture{t: t, p: p, dir: t.TempDir()}
	f.open(Faults{})
	t.Cleanup(f.close)
	return f
}

func (f *fixture) open(faults Faults) {
	f.t.Helper()
	var err error
	if f.Positions, err = f.p.Open(f.dir, faults); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) close() {
	if f.Positions != nil {
		if err := f.Positions.Close(); err != nil {
			f.t.Errorf("close: %v", err)
		}
		f.Positions = nil
	}
}

func (f *fixture) prepare(b *Book) progress.Generation {
	f.t.Helper()
	g, err := f.Prepare(b)
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

// mustDo does op to a user of a book.
func mustDo(t *testing.T, g progress.Generation, b *Book, user int, op progress.Op) progress.Move {
	t.Helper()
	m, err := Do(g, b.user(user), b.list(user), op)
	if err != nil {
		t.Fatalf("%+v for user %d: %v", op, user, err)
	}
	return m
}

func wantAt(t *testing.T, g progress.Generation, b *Book, user, want int) {
	t.Helper()
	if m := mustDo(t, g, b, user, progress.Get()); m.From != want || m.To != want {
		t.Errorf("user %d is at %d, want %d", user, m.To, want)
	}
}

// operations compares random ones with what Op.Target says.
func operations(t *testing.T, p Positions, as Shape) {
	f, b := open(t, p), newBook(1, as, 20, 40)
	b.lists[3].length, b.lists[4].length = 0, progress.MaxLen
	g := f.prepare(b)
	at := make([]int, len(b.lists))
	r := rand.New(rand.NewPCG(1, uint64(as)))
	for range 3000 {
		user := r.IntN(len(at))
		op := []progress.Op{
			progress.Get(), progress.Advance(r.IntN(20)), progress.Advance(progress.MaxLen),
			progress.Raise(r.IntN(60)), progress.Set(r.IntN(60)),
			progress.Step(at[user], r.IntN(20)), progress.Step(r.IntN(40), 1),
		}[r.IntN(7)]
		want := progress.Move{From: at[user], To: op.Target(at[user], b.lists[user].length)}
		if got := mustDo(t, g, b, user, op); got != want {
			t.Fatalf("%+v of user %d moved from %d to %d, want %d to %d", op, user, got.From, got.To, want.From, want.To)
		}
		at[user] = want.To
	}
	if m, err := submit(g, b.user(5), b.list(5), progress.Set(9)); err != nil || m.To != 9 {
		t.Errorf("what was submitted moved to %d, %v; want 9", m.To, err)
	}
	wantAt(t, g, b, 5, 9)
}

// oneUser has 32 goroutines advance one user, and a few others, to the end.
func oneUser(t *testing.T, p Positions, as Shape) {
	const length = 5000
	f, b := open(t, p), newBook(1, as, 9, length)
	g := f.prepare(b)
	given := make([][length]atomic.Int32, len(b.lists))
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(i)))
			for {
				user := 7
				if r.IntN(10) == 0 {
					user = r.IntN(len(b.lists))
				}
				m, err := Do(g, b.user(user), b.list(user), progress.Advance(1+r.IntN(9)))
				if err != nil {
					t.Error(err)
					return
				}
				for item := m.From; item < m.To; item++ {
					if given[user][item].Add(1) != 1 {
						t.Errorf("item %d of user %d was given twice", item, user)
					}
				}
				if user == 7 && m.From == m.To {
					return
				}
			}
		})
	}
	all.Wait()
	for user := range b.lists {
		at := mustDo(t, g, b, user, progress.Get()).To
		for item := range length {
			if was := given[user][item].Load() == 1; was != (item < at) {
				t.Fatalf("user %d is at %d, and whether item %d was given: %t", user, at, item, was)
			}
		}
	}
	wantAt(t, g, b, 7, length)
}

func restart(t *testing.T, p Positions, as Shape) {
	if p.Volatile {
		t.Skip("nothing is kept")
	}
	f, b := open(t, p), newBook(1, as, 20, 40)
	g := f.prepare(b)
	for user := range b.lists {
		mustDo(t, g, b, user, progress.Advance(user))
	}
	f.close()
	f.open(Faults{})
	b = newBook(2, as, 22, 40)
	b.lists[5].edition++
	g = f.prepare(b)
	for user := range b.lists {
		want := user
		if user == 5 || user >= 20 {
			want = 0
		}
		wantAt(t, g, b, user, want)
	}
}

func forget(t *testing.T, p Positions, as Shape) {
	f, b := open(t, p), newBook(1, as, 20, 40)
	g := f.prepare(b)
	for user := range b.lists {
		if user != 6 {
			mustDo(t, g, b, user, progress.Advance(40-user))
		}
	}
	forgotten := func(user int, want bool) {
		t.Helper()
		u := b.user(user)
		u.Rank = 999 // nobody need know it
		if was, err := g.Forget(t.Context(), u); was != want || err != nil {
			t.Errorf("user %d was forgotten: %t, %v; want %t", user, was, err, want)
		}
	}
	forgotten(0, true)
	forgotten(5, true)
	forgotten(5, false)
	forgotten(6, false)
	forgotten(19, true)
	for user, want := range []int{0, 39, 38, 37, 36, 0, 0, 33} {
		wantAt(t, g, b, user, want)
	}
	mustDo(t, g, b, 5, progress.Advance(3))
	wantAt(t, g, b, 5, 3)

	// One whom the lists have no more.
	fewer := newBook(2, as, 11, 40)
	g = f.prepare(fewer)
	forgotten(12, true)
	forgotten(12, false)
	forgotten(18, true)
	if was, err := g.Forget(t.Context(), progress.User{Number: 1 << 50}); was || err != nil {
		t.Errorf("somebody who never was is forgotten: %t, %v", was, err)
	}
	if !p.Volatile {
		f.close()
		f.open(Faults{})
	}
	b = b.next(func([]list) {})
	g = f.prepare(b)
	for user, want := range []int{0, 39, 38, 37, 36, 3, 0, 33, 32, 31, 30, 29, 0, 27, 26, 25, 24, 23, 0, 0} {
		wantAt(t, g, b, user, want)
	}
}

// late has requests hold a generation that has a successor.
func late(t *testing.T, p Positions) {
	f, b := open(t, p), newBook(10, Dense, 5, 40)
	old := f.prepare(b)
	for user := range b.lists {
		mustDo(t, old, b, user, progress.Advance(4))
	}
	changed := b.next(func(lists []list) {
		lists[1].edition++
		lists[2].edition++
	})
	now := f.prepare(changed)
	if old.Version() < 10 || now.Version() <= old.Version() {
		t.Fatalf("versions %d and then %d", old.Version(), now.Version())
	}
	mustDo(t, old, b, 1, progress.Advance(1)) // as long as nobody uses the new ones
	mustDo(t, now, changed, 1, progress.Advance(7))
	for _, op := range []progress.Op{progress.Get(), progress.Advance(3), progress.Set(9), progress.Raise(20)} {
		if m, err := Do(old, b.user(1), b.list(1), op); !errors.Is(err, progress.ErrSuperseded) {
			t.Errorf("%+v under older lists came to %d, %v", op, m.To, err)
		}
	}
	wantAt(t, now, changed, 1, 7)
	// Where the list has not changed nothing can be undone.
	if m := mustDo(t, old, b, 3, progress.Advance(2)); m.To != 6 {
		t.Errorf("the late advance led to %d, want 6", m.To)
	}
	wantAt(t, now, changed, 3, 6)
}

// rollBack takes up lists that are older than those before.
func rollBack(t *testing.T, p Positions) {
	f, b := open(t, p), newBook(10, Dense, 3, 40)
	g := f.prepare(b)
	mustDo(t, g, b, 1, progress.Advance(4))
	older := newBook(5, Dense, 3, 30)
	back := f.prepare(older)
	if back.Version() <= g.Version() {
		t.Errorf("a roll-back has version %d after %d", back.Version(), g.Version())
	}
	if m := mustDo(t, back, older, 1, progress.Advance(3)); m.From != 0 {
		t.Errorf("an older list that is back begins at %d", m.From)
	}
	if _, err := Do(g, b.user(1), b.list(1), progress.Advance(1)); !errors.Is(err, progress.ErrSuperseded) {
		t.Errorf("under the lists that were taken back: %v", err)
	}
}

// changes has goroutines advance users while lists are replaced: a third of the users has the same list in
// all of them, a third a new one in each, and a third the same one whenever there is one.
func changes(t *testing.T, p Positions) {
	const users, length, editions = 12, 3000, 80
	type serving struct {
		progress.Generation
		*Book
	}
	f := open(t, p)
	var now atomic.Pointer[serving]
	given := make([]atomic.Int32, users*(editions+1)*length)
	publish := func(edition int) {
		b := newBook(uint64(edition+1), Dense, users, length)
		if edition/5%2 == 1 {
			b = newBook(uint64(edition+1), Digits, users, length)
		}
		for user := range b.lists {
			switch {
			case user%3 == 1:
				b.lists[user].edition = edition
			case user%3 == 2 && (edition+user)%2 == 0:
				b.lists[user].length = -1
			}
		}
		g, err := f.Prepare(b)
		if err != nil {
			t.Error(err)
			return
		}
		now.Store(&serving{g, b})
	}
	publish(0)
	var answers atomic.Int64
	over := make(chan struct{})
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(i)))
			for !t.Failed() {
				select {
				case <-over:
					return
				default:
				}
				s, user := now.Load(), r.IntN(users)
				if s.lists[user].length < 0 {
					continue
				}
				m, err := Do(s.Generation, s.user(user), s.list(user), progress.Advance(1+r.IntN(3)))
				if errors.Is(err, progress.ErrSuperseded) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				for item := m.From; item < m.To; item++ {
					if given[(s.lists[user].edition*users+user)*length+item].Add(1) != 1 {
						t.Errorf("item %d of user %d in edition %d was given twice", item, user, s.lists[user].edition)
					}
				}
				answers.Add(1)
			}
		})
	}
	for edition := range editions {
		for want := answers.Load() + 100; answers.Load() < want && !t.Failed(); {
			time.Sleep(time.Microsecond)
		}
		publish(edition + 1)
	}
	close(over)
	all.Wait()
	// Whoever has kept their list was given all that is before their position, and nothing more.
	s := now.Load()
	for user := range users {
		if s.lists[user].length < 0 {
			continue
		}
		at := mustDo(t, s.Generation, s.Book, user, progress.Get()).To
		for item := range length {
			if was := given[(s.lists[user].edition*users+user)*length+item].Load() == 1; was != (item < at) {
				t.Fatalf("user %d is at %d, and whether item %d was given: %t", user, at, item, was)
			}
		}
	}
}

// throughShapes has ids turn from dense to scattered to text and back. Each user is moved somewhere of
// their own once, and is to stay there: whoever got another's place, or a second one, would be elsewhere.
func throughShapes(t *testing.T, p Positions) {
	numbers := func(n uint64, more ...uint64) []uint64 {
		ids := make([]uint64, n, n+uint64(len(more)))
		for id := range ids {
			ids[id] = uint64(id)
		}
		return append(ids, more...)
	}
	const far = 1 << 62
	for name, walk := range map[string][]struct {
		as  Shape
		ids []uint64
	}{
		"dense, scattered, dense": {
			{Dense, numbers(100)}, {Scattered, numbers(50, far, far+1)}, {Dense, numbers(5000)},
			{Scattered, numbers(5000, far+1, 9000)}, {Dense, numbers(10_000)},
		},
		"scattered first": {
			{Scattered, []uint64{3, 70, far}}, {Dense, numbers(100)},
			{Scattered, []uint64{2, 3, 70, 99, 100, 3000, far, 1 << 63}}, {Dense, numbers(4000)},
		},
		"digits and numbers": {
			{Digits, []uint64{5, 123, far}}, {Dense, numbers(200)}, {Digits, numbers(3000, far, far+7)},
			{Scattered, numbers(3000, far+7)}, {Dense, numbers(3500)},
		},
		"dense, digits": {
			{Dense, numbers(200)}, {Digits, numbers(300, far)}, {Dense, numbers(3000)}, {Scattered, []uint64{7, 250, 2999, far}},
		},
		"growing ids": {
			{Dense, numbers(1)}, {Dense, numbers(20_000)}, {Dense, numbers(10)}, {Dense, numbers(60_000)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, p)
			at := make(map[uint64]int)
			for step, s := range walk {
				b := NewBook(uint64(step+1), s.as, progress.MaxLen, s.ids...)
				g := f.prepare(b)
				for user, id := range s.ids {
					wantAt(t, g, b, user, at[id])
					at[id] = 1 + (int(id%9973)*7+user)%progress.MaxLen
					mustDo(t, g, b, user, progress.Set(at[id]))
				}
				for user, id := range s.ids {
					wantAt(t, g, b, user, at[id])
				}
				if !p.Volatile && step%2 == 1 {
					f.close()
					f.open(Faults{})
				}
			}
		})
	}
}

// ended checks the count of those who have come to the end.
func ended(t *testing.T, p Positions) {
	f, b := open(t, p), newBook(1, Scattered, 20, 5)
	b.lists[3].length = 0
	g := f.prepare(b)
	mustDo(t, g, b, 4, progress.Advance(5)) // before and after they are counted
	if err := g.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if g.Exhausted() < 0 {
		t.Skip("nobody counts")
	}
	want := func(n int64) {
		t.Helper()
		if got := g.Exhausted(); got != n {
			t.Errorf("%d users are at the end, want %d", got, n)
		}
	}
	want(2)
	mustDo(t, g, b, 5, progress.Advance(9))
	want(3)
	mustDo(t, g, b, 4, progress.Set(4))
	want(2)
	if _, err := g.Forget(t.Context(), b.user(5)); err != nil {
		t.Fatal(err)
	}
	want(1)
	mustDo(t, g, b, 6, progress.Set(5))
	b = b.next(func(lists []list) { lists[6].edition++ })
	g = f.prepare(b)
	if err := g.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(1)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(4, uint64(i)))
			for range 2000 {
				user := r.IntN(3)
				if _, err := Do(g, b.user(user), b.list(user), progress.Set(4+r.IntN(2))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	n := int64(1)
	for user := range 3 {
		if mustDo(t, g, b, user, progress.Get()).To == 5 {
			n++
		}
	}
	want(n)
}

func durability(t *testing.T, p Positions) {
	f := open(t, p)
	wantDurability(t, f.Durability())
	if err := f.Err(); err != nil {
		t.Errorf("new positions cannot be changed: %v", err)
	}
	if lag := f.Lag(); lag < 0 {
		t.Errorf("what is not synced is %v old", lag)
	}
}

func wantDurability(t *testing.T, d string) {
	t.Helper()
	if d == "" || strings.ContainsAny(d, "\"\n\\") {
		t.Errorf("durability is said as %q", d)
	}
}

// failedSync has the disk fail at some moment.
func failedSync(t *testing.T, p Positions) {
	f := &fixture{t: t, p: p, dir: t.TempDir()}
	var failing atomic.Bool
	f.open(Faults{Sync: func() error {
		if failing.Load() {
			return errors.New("no such luck")
		}
		return nil
	}})
	b := newBook(1, Scattered, 4, progress.MaxLen)
	g := f.prepare(b)
	mustDo(t, g, b, 1, progress.Advance(5))
	failing.Store(true)
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := Do(g, b.user(2), b.list(2), progress.Advance(1)); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("advances go on although nothing can be saved")
		}
		time.Sleep(time.Millisecond)
	}
	if f.Err() == nil {
		t.Error("Err says that all is well")
	}
	failing.Store(false) // a disk that claims to be well again is not believed
	for _, op := range []progress.Op{progress.Advance(1), progress.Set(3), progress.Raise(7)} {
		if m, err := Do(g, b.user(1), b.list(1), op); err == nil {
			t.Errorf("%+v led to %d after a failed sync", op, m.To)
		}
	}
	if _, err := g.Forget(t.Context(), b.user(1)); err == nil {
		t.Error("a user was forgotten after a failed sync")
	}
	wantAt(t, g, b, 1, 5)
	if err := f.Positions.Close(); err == nil {
		t.Error("Close says that all is well")
	}
	f.open(Faults{})
	g = f.prepare(b)
	wantAt(t, g, b, 1, 5)
	mustDo(t, g, b, 1, progress.Advance(1))
	f.close()
}

const (
	victimUsers      = 8
	victimGoroutines = 4
)

// victimBook is the lists of a victim at its nth start: half of the users have other lists every third time.
func victimBook(n int) *Book {
	b := newBook(uint64(n+1), Scattered, victimUsers, progress.MaxLen)
	for user := range b.lists {
		if user%2 == 0 {
			b.lists[user].edition = n / 3
		}
	}
	return b
}

// positionsVictim advances until it is killed, and says "USER EDITION FROM TO" after each advance.
func positionsVictim(p Positions, arg string) error {
	var start int
	var dir string
	if _, err := fmt.Sscanf(arg, "%d %s", &start, &dir); err != nil {
		return err
	}
	positions, err := p.Open(dir, Faults{})
	if err != nil {
		return err
	}
	b := victimBook(start)
	g, err := positions.Prepare(b)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for range victimGoroutines {
		go func() {
			for {
				user := rand.IntN(victimUsers)
				m, err := Do(g, b.user(user), b.list(user), progress.Advance(1+rand.IntN(3)))
				if err == nil {
					_, err = fmt.Fprintln(os.Stdout, user, b.lists[user].edition, m.From, m.To)
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

// kill kills a process that advances, again and again.
func kill(t *testing.T, p Positions) {
	const rounds = 12
	dir := t.TempDir()
	type key struct{ user, edition, item int }
	given := make(map[key]bool)
	highest := make(map[key]int)
	total := 0
	for round := range rounds {
		victim := fmt.Sprintf("%s=p%d %s", victimEnv, round, dir)
		for _, line := range systest.KillAfter(t, 1+rand.IntN(2000), victim) {
			var user, edition, from, to int
			if _, err := fmt.Sscan(line, &user, &edition, &from, &to); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			for item := from; item < to; item++ {
				if given[key{user, edition, item}] {
					t.Fatalf("round %d: item %d of user %d in edition %d was given twice", round, item, user, edition)
				}
				given[key{user, edition, item}] = true
				total++
			}
			highest[key{user: user, edition: edition}] = max(to, highest[key{user: user, edition: edition}])
		}
		f := &fixture{t: t, p: p, dir: dir}
		f.open(Faults{})
		b := victimBook(round)
		g := f.prepare(b)
		for user := range victimUsers {
			acknowledged := highest[key{user: user, edition: b.lists[user].edition}]
			// Ahead by what was on its way at each kill, no more.
			most := acknowledged + 3*victimGoroutines*(round+1)
			if at := mustDo(t, g, b, user, progress.Get()).To; at < acknowledged || at > most {
				t.Fatalf("round %d: user %d is at %d, want %d to %d", round, user, at, acknowledged, most)
			}
		}
		f.close()
	}
	t.Logf("%d items, %d kills", total, rounds)
}
