// Package positionstest tests implementations of progress.Positions and progress.Index as black boxes:
// concurrency, changes of lists, restarts, kills, failing disks. Its references, a map under a mutex and a
// number under one, are the plainest implementations there are, and pass the same tests.
//
// A test binary that runs the suites calls Main from its TestMain, since it is its own victim when
// processes are killed.
package positionstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/progress"
	"weir/internal/systest"
)

// Positions is how to open the implementation that is tested. Positions that were opened in a directory are
// there when they are opened in it again, unless they are Volatile. Shared ones are kept by an engine that
// machines share: versions are those of the lists, and no disk of this machine can fail.
type Positions struct {
	Open             func(dir string, faults Faults) (progress.Positions, error)
	Volatile, Shared bool
}

// Index is the same for an index.
type Index struct {
	Open             func(dir string, faults Faults) (progress.Index, error)
	Volatile, Shared bool
}

// Faults are what an implementation that is not Volatile has to suffer.
type Faults struct {
	Sync func() error // called before every sync to the disk, which fails with its error
}

// The environment of a victim: which suite, and the directory.
const victimEnv = "WEIR_TEST_VICTIM"

// Main is what TestMain calls.
func Main(m *testing.M, p Positions, x Index) {
	Victim(p, x)
	os.Exit(m.Run())
}

// Victim returns unless this process is one, which then runs until it is killed.
func Victim(p Positions, x Index) {
	var err error
	switch dir := os.Getenv(victimEnv); {
	case dir == "":
		return
	case dir[0] == 'p':
		err = positionsVictim(p, dir[1:])
	default:
		err = indexVictim(x, dir[1:])
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// promise is what positions and an index say of what they keep.
type promise interface {
	Durability() string
	Lag() time.Duration
	Err() error
	Close() error
}

// wantPromise looks at what has just been opened.
func wantPromise(t *testing.T, x promise) {
	t.Helper()
	if d := x.Durability(); d == "" || strings.ContainsAny(d, "\"\n\\") {
		t.Errorf("durability is said as %q", d)
	}
	if err, lag := x.Err(), x.Lag(); err != nil || lag < 0 {
		t.Errorf("nothing can be changed: %v; what is not synced is %v old", err, lag)
	}
}

// failWhile returns a fault of syncs.
func failWhile(failing *atomic.Bool) func() error {
	return func() error {
		if failing.Load() {
			return errors.New("no such luck")
		}
		return nil
	}
}

// wantFailure waits for changes to be refused.
func wantFailure(t *testing.T, x promise, change func() error) {
	t.Helper()
	systest.Eventually(t, "changes to be refused, since nothing can be saved",
		func() bool { return change() != nil })
	if x.Err() == nil {
		t.Error("Err says that all is well")
	}
}

const victimGoroutines = 4

// untilKilled makes changes until it is killed, or until one fails.
func untilKilled(change func() error) error {
	failed := make(chan error)
	for range victimGoroutines {
		go func() {
			for {
				if err := change(); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

// saidUntilKilled runs a victim and returns the lines that it wrote before it was killed.
func saidUntilKilled(t *testing.T, victim string) []string {
	return systest.KillAfter(t, 1+rand.IntN(2000), victimEnv+"="+victim)
}

// Shape is what the ids of users are.
type Shape int

// The shapes. A number and its digits are one user.
const (
	Dense     Shape = iota // numbers that are ranks
	Scattered              // any numbers
	Digits                 // numbers as text
	Text                   // every other one a number
	shapes
)

func (s Shape) String() string { return [...]string{"Dense", "Scattered", "Digits", "Text"}[s] }

// Book is progress.Lists of a few users, whose rank is their place in it.
type Book struct {
	version uint64
	shape   Shape
	ids     []uint64
	lists   []list
	ranks   map[string]uint64
}

// list is which list a user has, by a number, and how long it is; absent users have length -1.
type list struct{ edition, length int }

// NewBook returns lists of so many items for users. The ids of dense ones are 0, 1, 2 and so on.
func NewBook(version uint64, as Shape, length int, ids ...uint64) *Book {
	b := &Book{version: version, shape: as, ids: ids, lists: make([]list, len(ids)),
		ranks: make(map[string]uint64)}
	for rank, id := range ids {
		if as == Dense && id != uint64(rank) {
			panic("BUG: dense ids that are no ranks")
		}
		b.lists[rank].length = length
		b.ranks[key(b.user(rank))] = uint64(rank)
	}
	return b
}

// newBook returns lists for a number of users.
func newBook(version uint64, as Shape, users, length int) *Book {
	ids := make([]uint64, users)
	for i := range ids {
		ids[i] = uint64(i)
		if as == Scattered && i != 7 { // far from all others
			ids[i] <<= 40
		}
	}
	return NewBook(version, as, length, ids...)
}

// next returns the same lists as a later version, with a change.
func (b *Book) next(change func(lists []list)) *Book {
	later := *b
	later.version++
	later.lists = slices.Clone(b.lists)
	change(later.lists)
	return &later
}

// key tells users apart.
func key(u progress.User) string {
	if u.Name == nil {
		return strconv.FormatUint(u.Number, 10)
	}
	return string(u.Name)
}

func (b *Book) user(rank int) progress.User {
	u := progress.User{Rank: uint64(rank), Number: b.ids[rank]}
	if b.shape >= Digits {
		u.Name = strconv.AppendUint(nil, b.ids[rank], 10)
		if b.shape == Text && rank%2 == 1 {
			u.Name = append([]byte("user "), u.Name...)
		}
	}
	return u
}

// Version implements progress.Lists.
func (b *Book) Version() uint64 { return b.version }

// Slots implements progress.Lists.
func (b *Book) Slots() uint64 { return uint64(len(b.ids)) }

// Dense implements progress.Lists.
func (b *Book) Dense() bool { return b.shape == Dense }

// User implements progress.Lists.
func (b *Book) User(rank uint64) (progress.User, bool) { return b.user(int(rank)), true }

// Rank implements progress.Lists.
func (b *Book) Rank(u progress.User) (uint64, bool) {
	rank, ok := b.ranks[key(u)]
	return rank, ok
}

// List implements progress.Lists. Its tag is of the user's id and of which list it is.
func (b *Book) List(rank uint64) (progress.List, bool) {
	l := b.lists[rank]
	if l.length < 0 {
		return progress.List{}, false
	}
	name := fmt.Sprint(key(b.user(int(rank))), l.edition, l.length)
	return progress.List{Tag: max(1, xxh3.HashString(name)>>16), Len: l.length}, true
}

// list returns the list of a user who has one.
func (b *Book) list(rank int) progress.List {
	l, _ := b.List(uint64(rank))
	return l
}

// Do does op the way a service does: at once where that goes, else by waiting.
func Do(g progress.Generation, u progress.User, l progress.List, op progress.Op) (progress.Move, error) {
	g.Prefetch(u)
	move, err := g.Do(u, l, op)
	if !errors.Is(err, progress.ErrPending) {
		return move, err
	}
	return submit(g, u, l, op)
}

// doAll does op(user) for all users of a book, at once where that takes a round trip, and calls done with
// each move when all are done, in order.
func doAll(t *testing.T, g progress.Generation, b *Book, op func(user int) progress.Op,
	done func(user int, m progress.Move)) {
	t.Helper()
	moves, errs := make([]progress.Move, len(b.ids)), make([]error, len(b.ids))
	free := make(chan struct{}, 1000) // under way
	for user := range b.ids {
		u, l := b.user(user), b.list(user)
		if moves[user], errs[user] = g.Do(u, l, op(user)); errors.Is(errs[user], progress.ErrPending) {
			free <- struct{}{}
			g.Submit(t.Context(), u, l, op(user), func(m progress.Move, err error) {
				moves[user], errs[user] = m, err
				<-free
			})
		}
	}
	for range cap(free) {
		free <- struct{}{}
	}
	for user, m := range moves {
		if errs[user] != nil {
			t.Fatalf("%+v for user %d: %v", op(user), user, errs[user])
		}
		done(user, m)
	}
}

// wantAll checks where all users of a book are.
func wantAll(t *testing.T, g progress.Generation, b *Book, want func(user int) int) {
	t.Helper()
	doAll(t, g, b, func(int) progress.Op { return progress.Get() }, func(user int, m progress.Move) {
		t.Helper()
		if m.From != want(user) || m.To != want(user) {
			t.Errorf("user %d is at %d, want %d", user, m.To, want(user))
		}
	})
}

func submit(g progress.Generation, u progress.User, l progress.List, op progress.Op) (move progress.Move,
	err error) {
	done := make(chan struct{})
	g.Submit(context.Background(), u, l, op, func(m progress.Move, e error) {
		move, err = m, e
		close(done)
	})
	<-done
	return move, err
}
