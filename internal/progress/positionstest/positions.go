package positionstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/progress"
)

// RunPositions runs the suite.
func RunPositions(t *testing.T, p Positions) {
	run := func(t *testing.T, name string, test func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			if p.Shared {
				t.Parallel() // it mostly waits for servers
			}
			test(t)
		})
	}
	for as := range shapes {
		t.Run(as.String(), func(t *testing.T) {
			run(t, "OperationsAndRestart", func(t *testing.T) { operations(t, p, as) })
			run(t, "EveryItemOnce", func(t *testing.T) { once(t, p, 0, as) })
			run(t, "Forget", func(t *testing.T) { forget(t, p, as) })
			run(t, "Survey", func(t *testing.T) { surveyed(t, p, as) })
		})
	}
	run(t, "EveryItemOnceOverChanges", func(t *testing.T) { once(t, p, 80, Dense, Digits) })
	run(t, "LateRequestsUndoNothing", func(t *testing.T) { late(t, p) })
	run(t, "UsersKeepTheirPlaceThroughShapes", func(t *testing.T) { throughShapes(t, p) })
	run(t, "Exhausted", func(t *testing.T) { ended(t, p) })
	if !p.Volatile {
		run(t, "Kill", func(t *testing.T) { kill(t, p) })
	}
	if !p.Volatile && !p.Shared {
		run(t, "FailedSync", func(t *testing.T) { failedSync(t, p) })
	}
}

// fixture is open positions.
type fixture struct {
	progress.Positions
	t   *testing.T
	p   Positions
	dir string
}

// open opens positions until the end of the test.
func open(t *testing.T, p Positions) *fixture {
	f := &fixture{t: t, p: p, dir: t.TempDir()}
	f.open(nil)
	t.Cleanup(f.close)
	return f
}

func (f *fixture) open(sync func() error) {
	f.t.Helper()
	var err error
	if f.Positions, err = f.p.Open(f.dir, Faults{sync}); err != nil {
		f.t.Fatal(err)
	}
	wantPromise(f.t, f.Positions)
}

func (f *fixture) close() {
	if f.Positions != nil {
		if err := f.Positions.Close(); err != nil {
			f.t.Errorf("close: %v", err)
		}
		f.Positions = nil
	}
}

// restart is one, unless nothing would be left.
func (f *fixture) restart() {
	f.t.Helper()
	if !f.p.Volatile {
		f.close()
		f.open(nil)
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

// operations compares random ones with what Op.Target says, and looks for what is left of them after a
// restart.
func operations(t *testing.T, p Positions, as Shape) {
	f := open(t, p)
	book := func(version uint64, users int) *Book {
		b := newBook(version, as, users, 40)
		b.lists[3].length, b.lists[4].length = 0, progress.MaxLen
		return b
	}
	b := book(1, 20)
	g := f.prepare(b)
	at := make([]int, len(b.lists), 22)
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
			t.Fatalf("%+v of user %d moved from %d to %d, want %d to %d", op, user, got.From, got.To,
				want.From, want.To)
		}
		at[user] = want.To
	}
	if m, err := submit(g, b.user(6), b.list(6), progress.Set(9)); err != nil || m.To != 9 {
		t.Errorf("what was submitted moved to %d, %v; want 9", m.To, err)
	}
	wantAt(t, g, b, 6, 9)
	if p.Volatile {
		return
	}
	f.restart()
	at[5], at[6], at = 0, 9, at[:22]
	b = book(2, 22)
	b.lists[5].edition++
	g = f.prepare(b)
	for user, want := range at {
		wantAt(t, g, b, user, want)
	}
}

// once has goroutines advance users, one of them most of all, while lists are replaced: a third of the
// users has the same list in all of them, a third a new one in each, and a third the same one whenever
// there is one.
func once(t *testing.T, p Positions, changes int, as ...Shape) {
	const users, length, favourite = 12, 3000, 7
	type serving struct {
		progress.Generation
		*Book
	}
	f := open(t, p)
	var now atomic.Pointer[serving]
	given := make([]atomic.Int32, users*(changes+1)*length)
	of := func(s *serving, user, item int) *atomic.Int32 {
		return &given[(s.lists[user].edition*users+user)*length+item]
	}
	publish := func(edition int) {
		b := newBook(uint64(edition+1), as[edition/5%len(as)], users, length)
		for user := range b.lists {
			switch {
			case user%3 == 1:
				b.lists[user].edition = edition
			case user%3 == 2 && (edition+user)%2 == 0:
				b.lists[user].length = -1
			}
		}
		now.Store(&serving{f.prepare(b), b})
	}
	publish(0)
	var answers atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(i)))
			for !over.Load() && !t.Failed() {
				s, user := now.Load(), r.IntN(2*users)
				if user >= users {
					user = favourite
				}
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
					if of(s, user, item).Add(1) != 1 {
						t.Errorf("item %d of user %d in edition %d was given twice", item, user,
							s.lists[user].edition)
					}
				}
				answers.Add(1)
			}
		})
	}
	await := func(n int64) {
		for want := answers.Load() + n; answers.Load() < want && !t.Failed(); {
			time.Sleep(time.Microsecond)
		}
	}
	for edition := range changes {
		await(100)
		publish(edition + 1)
	}
	await(10_000)
	over.Store(true)
	all.Wait()
	// Everybody was given all that is before their position, and nothing more.
	s := now.Load()
	wantAt(t, s.Generation, s.Book, favourite, length)
	for user := range users {
		if s.lists[user].length < 0 {
			continue
		}
		at := mustDo(t, s.Generation, s.Book, user, progress.Get()).To
		for item := range length {
			if was := of(s, user, item).Load() == 1; was != (item < at) {
				t.Fatalf("user %d is at %d, and whether item %d was given: %t", user, at, item, was)
			}
		}
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
	f.restart()
	b = b.next(func([]list) {})
	g = f.prepare(b)
	for user, want := range []int{0, 39, 38, 37, 36, 3, 0, 33, 32, 31, 30, 29, 0, 27, 26, 25, 24, 23, 0, 0} {
		wantAt(t, g, b, user, want)
	}
}

// late has requests hold a generation that has a successor, and then takes up lists that are older.
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
	for _, op := range []progress.Op{progress.Get(), progress.Advance(3), progress.Set(9),
		progress.Raise(20)} {
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

	older := newBook(5, Dense, 5, 30)
	if p.Shared {
		if g, err := f.Prepare(older); err == nil {
			t.Errorf("after version %d older lists have version %d", now.Version(), g.Version())
		}
		older = newBook(now.Version()+1, Dense, 5, 30) // published again
	}
	back := f.prepare(older)
	if back.Version() <= now.Version() {
		t.Errorf("a roll-back has version %d after %d", back.Version(), now.Version())
	}
	if m := mustDo(t, back, older, 1, progress.Advance(3)); m.From != 0 {
		t.Errorf("an older list that is back begins at %d", m.From)
	}
	if _, err := Do(now, changed.user(1), changed.list(1), progress.Advance(1)); !errors.Is(err,
		progress.ErrSuperseded) {
		t.Errorf("under the lists that were taken back: %v", err)
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
	type step struct {
		as  Shape
		ids []uint64
	}
	for name, walk := range map[string][]step{
		"dense, scattered, dense": {{Dense, numbers(100)}, {Scattered, numbers(50, far, far+1)},
			{Dense, numbers(5000)},
			{Scattered, numbers(5000, far+1, 9000)}, {Dense, numbers(10_000)}},
		"scattered first": {{Scattered, []uint64{3, 70, far}}, {Dense, numbers(100)},
			{Scattered, []uint64{2, 3, 70, 99, 100, 3000, far, 1 << 63}}, {Dense, numbers(4000)}},
		"digits and numbers": {{Digits, []uint64{5, 123, far}}, {Dense, numbers(200)},
			{Digits, numbers(3000, far, far+7)},
			{Scattered, numbers(3000, far+7)}, {Dense, numbers(3500)}},
		"dense, digits": {{Dense, numbers(200)}, {Digits, numbers(300, far)}, {Dense, numbers(3000)},
			{Scattered, []uint64{7, 250, 2999, far}}},
		"growing ids": {{Dense, numbers(1)}, {Dense, numbers(20_000)}, {Dense, numbers(10)},
			{Dense, numbers(60_000)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, p)
			at := make(map[uint64]int)
			for step, s := range walk {
				b := NewBook(uint64(step+1), s.as, progress.MaxLen, s.ids...)
				g := f.prepare(b)
				was := func(user int) int { return at[s.ids[user]] }
				is := func(user int) int { return 1 + (int(s.ids[user]%9973)*7+user)%progress.MaxLen }
				wantAll(t, g, b, was)
				doAll(t, g, b, func(user int) progress.Op { return progress.Set(is(user)) },
					func(user int, _ progress.Move) { at[s.ids[user]] = is(user) })
				wantAll(t, g, b, was)
				if step%2 == 1 {
					f.restart()
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

// surveyed has all positions gone through, beside those who advance: it counts each user once, where they
// are, and moves nobody.
func surveyed(t *testing.T, p Positions, as Shape) {
	f := open(t, p)
	b := newBook(1, as, 5000, 40)
	b.lists[3].length = 0
	g := f.prepare(b)
	at := make([]int, len(b.lists))
	doAll(t, g, b, func(user int) progress.Op { return progress.Set(user % 3 * (user % 41)) },
		func(user int, m progress.Move) { at[user] = m.To })
	survey := func() (map[[2]int]int, error) {
		counts := make(map[[2]int]int)
		err := g.Survey(t.Context(), func(position, length int) { counts[[2]int{position, length}]++ })
		return counts, err
	}
	want := make(map[[2]int]int)
	for user, position := range at {
		want[[2]int{position, b.lists[user].length}]++
	}
	counts, err := survey()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("nobody can go through all positions")
	}
	if err != nil || !maps.Equal(counts, want) {
		t.Errorf("counted %v, %v; want %v", counts, err, want)
	}
	var others sync.WaitGroup
	others.Go(func() {
		for user := 3; user < len(at); user += 3 {
			at[user] = mustDo(t, g, b, user, progress.Advance(1)).To
		}
	})
	counts, err = survey()
	others.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	if err != nil || total != len(at) {
		t.Errorf("beside those who advance %d users were counted, %v; want %d", total, err, len(at))
	}
	wantAll(t, g, b, func(user int) int { return at[user] })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Survey(ended, func(int, int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a survey that nobody waits for any more: %v", err)
	}
}

// failedSync has the disk fail at some moment.
func failedSync(t *testing.T, p Positions) {
	f := &fixture{t: t, p: p, dir: t.TempDir()}
	var failing atomic.Bool
	f.open(failWhile(&failing))
	b := newBook(1, Scattered, 4, progress.MaxLen)
	g := f.prepare(b)
	mustDo(t, g, b, 1, progress.Advance(5))
	failing.Store(true)
	wantFailure(t, f, func() error {
		_, err := Do(g, b.user(2), b.list(2), progress.Advance(1))
		return err
	})
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
	f.open(nil)
	g = f.prepare(b)
	wantAt(t, g, b, 1, 5)
	mustDo(t, g, b, 1, progress.Advance(1))
	f.close()
}

const victimUsers = 8

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
	return untilKilled(func() error {
		user := rand.IntN(victimUsers)
		m, err := Do(g, b.user(user), b.list(user), progress.Advance(1+rand.IntN(3)))
		if err == nil {
			_, err = fmt.Fprintln(os.Stdout, user, b.lists[user].edition, m.From, m.To)
		}
		return err
	})
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
		for _, line := range saidUntilKilled(t, fmt.Sprintf("p%d %s", round, dir)) {
			var user, edition, from, to int
			if _, err := fmt.Sscan(line, &user, &edition, &from, &to); err != nil {
				t.Fatalf("line %q: %v", line, err)
			}
			for item := from; item < to; item++ {
				if given[key{user, edition, item}] {
					t.Fatalf("round %d: item %d of user %d in edition %d was given twice", round, item, user,
						edition)
				}
				given[key{user, edition, item}] = true
				total++
			}
			highest[key{user: user, edition: edition}] = max(to, highest[key{user: user, edition: edition}])
		}
		f := &fixture{t: t, p: p, dir: dir}
		f.open(nil)
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
