// Package progress keeps where readers of long lists stand: how far each user has come in their list
// (Positions), and one index that everybody moves (Index).
//
// Both are interfaces. Local and LocalIndex keep them in files of this machine; an engine that several
// machines share fits behind the same methods. Package positionstest tests any implementation as a black
// box.
//
// What every implementation promises:
//
//   - At most once. Of those that advance one user at the same time each gets items of their own. An
//     advance counts before its answer is sent: a position may be ahead of what a client received, never
//     behind.
//   - A position belongs to a list, which its tag stands for. Under a list with another tag a user is at
//     0, and the first change there makes that the user's list. Positions of unchanged lists stay,
//     whatever lists come and go.
//   - Lists have versions. A change under an older version is refused with ErrSuperseded where the user's
//     position is in another list and a newer version has been in use, so late requests for old lists
//     never undo what came after them.
//   - An error means that nothing has moved, but for an error of an engine that did not answer, which
//     skips items at worst.
//   - Durability says what is lost by a kill and by a loss of power.
package progress

import (
	"context"
	"errors"
	"time"

	"weir/internal/metrics"
)

var (
	// ErrPending is returned by Do where the answer takes a round trip: nothing has happened, call Submit.
	ErrPending = errors.New("the position has to be asked for")
	// ErrSuperseded means that newer lists serve: find the user in those, and try again.
	ErrSuperseded = errors.New("newer lists are in use")
)

// Limits of a List.
const (
	MaxLen  = 1<<16 - 1 // items
	MaxTag  = 1<<48 - 1
	MaxName = 255 // bytes of a user's id
)

// Positions keeps everybody's position. Methods are for any number of goroutines, but for Close, which
// comes last.
type Positions interface {
	// Prepare makes ready for lists that will serve: there is a position for every user of theirs when it
	// returns, and it lasts. Of what Prepare has returned before, all are older versions. On an error
	// nothing has changed.
	Prepare(lists Lists) (Generation, error)
	// Durability says in a sentence what becomes of answered changes when the process is killed and when
	// the power is lost.
	Durability() string
	// Lag is the age of the oldest change that a loss of power would undo now, 0 if there is none.
	Lag() time.Duration
	// Err returns nil as long as positions can be changed, and later why not.
	Err() error
	Close() error
}

// Generation is the positions in one version of the lists. Do, Submit and Prefetch are for any number of
// goroutines.
type Generation interface {
	// Version is greater than that of all generations prepared before, and no less than that of the lists.
	Version() uint64
	// Do does op to a user's position. It returns at once, allocates nothing, and may be called on an event
	// loop. Errors are ErrPending, ErrSuperseded and others that are for the log.
	Do(u User, l List, op Op) (Move, error)
	// Submit is Do for those who wait: done is called once, from any goroutine or before Submit returns,
	// and not with ErrPending. It copies what it keeps of u. When ctx ends first it may give up, and done
	// is called soon.
	Submit(ctx context.Context, u User, l List, op Op, done func(Move, error))
	// Forget takes a user's position away, whatever list it is in, and says whether there was one to take.
	// u's rank need not be known. Once the lists have the user no more, Tend leaves nothing of them in any
	// file, the id included.
	Forget(ctx context.Context, u User) (bool, error)
	// Prefetch begins to bring a position near, for a Do some microseconds later. It never waits.
	Prefetch(u User)
	// Tend does what has time: at its first call it finds out who has come to the end of their list, and at
	// every call it erases those who were forgotten. It reads the Lists, and is called by one goroutine at
	// a time, when nobody uses an earlier generation any more.
	Tend(ctx context.Context) error
	// Exhausted is how many users are at the end of their list, as far as Tend has come; -1 where nobody
	// knows.
	Exhausted() int64
	// Survey calls visit with everybody's position and the length of their list, while positions move on. It
	// reads the Lists, takes its time so that requests beside it hardly notice, and ends with ctx.
	// errors.ErrUnsupported is of an implementation that cannot go through all positions.
	Survey(ctx context.Context, visit func(position, length int)) error
}

// Lists is who has a list, and which: a snapshot, or something else that numbers its users. It is read by
// Prepare and Tend.
type Lists interface {
	Version() uint64 // see snapshot.Publication
	Slots() uint64   // ranks are 0 to Slots-1
	Dense() bool     // ids are numbers, and ranks
	// User returns who has a rank; false where that is nobody.
	User(rank uint64) (User, bool)
	// Rank returns the rank of a user of whom Number and Name are known.
	Rank(u User) (uint64, bool)
	// List returns the list of a rank; false where there is none.
	List(rank uint64) (List, bool)
}

// User is whose position it is.
type User struct {
	Rank   uint64 // in the Lists of the generation
	Number uint64 // the id, if Name is nil
	Name   []byte // the id as text; one that is a number in plain decimal is the same user as that number
}

// List is what a position is in, wherever the items come from.
type List struct {
	Tag uint64 // stands for the user and the items, 1 to MaxTag
	Len int    // items, up to MaxLen
}

// Op is what to do to a position, from 0 to the length of the list.
type Op struct {
	Kind OpKind
	N    int
	From int // of OpStep
}

// OpKind is a kind of Op.
type OpKind uint8

// The kinds of Op.
const (
	OpGet OpKind = iota
	OpAdvance
	OpStep
	OpRaise
	OpSet
)

// Get leaves the position as it is.
func Get() Op { return Op{} }

// Advance moves on by n items, or as many as there are left.
func Advance(n int) Op { return Op{Kind: OpAdvance, N: n} }

// Step is Advance(n) where the position is from, and Get where it is not: for those who must know which items
// they take before they do.
func Step(from, n int) Op { return Op{Kind: OpStep, N: n, From: from} }

// Raise moves on to n, unless the position is there or further.
func Raise(n int) Op { return Op{Kind: OpRaise, N: n} }

// Set moves to n.
func Set(n int) Op { return Op{Kind: OpSet, N: n} }

// Target returns where the op leads from a position in a list of that length.
func (op Op) Target(from, length int) int {
	to := from
	switch op.Kind {
	case OpAdvance:
		to = from + op.N
	case OpStep:
		if from == op.From {
			to = from + op.N
		}
	case OpRaise:
		to = max(from, op.N)
	case OpSet:
		to = op.N
	}
	return max(0, min(to, length))
}

// Move is a position before an Op and after it.
type Move struct{ From, To int }

// localDurability is that of cells which are synced at an interval.
const localDurability = "a change that was answered survives the end of the process, kill -9 included; a " +
	"power loss takes those since the last sync and of the one under way: see lag_seconds"

// registerDurability shows what is promised as a label.
func registerDurability(m *metrics.Registry, store, durability string) {
	m.Gauge("weir_progress_durability", "1; the label says what an answered change survives.",
		func() float64 { return 1 },
		"store", store, "durability", durability)
}
