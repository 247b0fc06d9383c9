// Package learning keeps what events teach: for each arm the sums of rewards, which are added to the
// posterior that it was imported with. A Learner is one way to keep them: Local that of one machine, in a
// journal; Shared that of several nodes, in a stream of the engine that they share.
//
// What every Learner promises, and package learningtest tests of any:
//
//   - A batch of events counts as a whole or not at all, once Done is called without an error; then its
//     arms show it.
//   - An event with an id that was accepted before counts no more, for a day at least. Batches that come at
//     the same time are no exception.
//   - What Done was told to have been accepted survives as Durability says. What it was told to be refused
//     does not count.
//   - After a write whose outcome nobody can tell, a Local refuses everything until a restart, as Err says:
//     its disk is not to be trusted. For a Shared that is what a failover looks like, and soon over: such a
//     batch is refused with ErrUnsure, may count or not, and sent again with the same ids it counts once.
//   - Predictions read the arms beside all that, without waiting.
//
// An event names the keys of the arms that it counts for: that was decided when it came, so it is the same
// when it is replayed, whatever arms there are then.
package learning

import (
	"errors"
	"net/netip"
	"time"

	"weir/internal/bandit/arms"
)

// Levels is how many kinds of arms there are.
const Levels = 3

// Arms are the keys of arms by their level; the zero Key where there is none.
type Arms [Levels]arms.Key

// Event is what somebody made of an item.
type Event struct {
	At     int64 // when it happened, Unix microseconds; 0, or what is later than now, is when it came
	Reward float64
	Arms   Arms
	ID     arms.Key // zero for none
	// Names are those of arms that Named does not know.
	Names [Levels]*Name
}

// Batch is events that count as a whole or not at all.
type Batch struct {
	Events []Event    // the Learner's until Done is called
	Client netip.Addr // who sent them; its ids may take up a part of the room alone
	// Done is called once, from any goroutine, and must not block.
	Done func(duplicates int, err error)
}

// Forgetting says what is to be forgotten: what was taught of Arms, of all arms that one user has, of all
// arms, or the ids that were seen.
type Forgetting struct {
	Arms Arms
	User string
	All  bool
	IDs  bool
}

// Errors that batches are refused with. They wrap others.
var (
	ErrNotSaved = errors.New("events cannot be saved at the moment, so none of this request counts")
	ErrArms     = errors.New("there is no room for more arms that events teach of (--bandit-memory)")
	ErrIDs      = errors.New("there is no room for more ids of events (--bandit-memory)")
	ErrClientID = errors.New(
		"this client's ids of events have all the room that one client may have (--bandit-client-ids)")
	ErrBusy = errors.New("more events wait to be saved than there is room for")
)

// Learner keeps what events teach. Its methods are for any number of goroutines.
type Learner interface {
	// Learn takes in a batch. It does not wait.
	Learn(Batch)
	// Forget forgets, and returns how many arms were taught of, or ids seen.
	Forget(Forgetting) (n int, err error)
	// View returns the arms of a level as they are worth at now, Unix microseconds.
	View(level arms.Level, now int64) arms.View
	// Each calls f with the arms that were taught of, in the order in which they were first, until it returns
	// false. It returns the place behind the last one, from which it goes on in another call; the zero Cursor
	// when there are no more. An arm that comes anew meanwhile may come twice.
	Each(from Cursor, f func(Named) bool) (Cursor, error)
	// Named reports whether an arm that was taught of has a name.
	Named(level arms.Level, k arms.Key) bool
	// Teaches reports whether anything was taught of an arm.
	Teaches(level arms.Level, k arms.Key) bool
	// Len returns how many arms of a level were taught of.
	Len(level arms.Level) int
	// State returns all that is known, as it is worth now.
	State() State
	// Durability says in a sentence what becomes of accepted events in a crash and a power loss.
	Durability() string
	// Lag is the age of the oldest accepted event that a power loss would take now, 0 if there is none.
	Lag() time.Duration
	// Err returns nil, or why events are refused: until a restart, or until an engine is back.
	Err() error
	Close() error
}

// State is all that a Learner knows at one moment.
type State struct {
	At   int64 // Unix microseconds
	Arms [Levels][]arms.Arm
	IDs  [2][]arms.Key // of the second day, and of the day before
	Day  int64         // when the second day began
}
