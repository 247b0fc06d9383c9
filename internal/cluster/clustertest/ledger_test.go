package clustertest_test

import (
	"sync/atomic"
)

// ledger is what was given to whom. It is for any number of goroutines.
type ledger struct {
	users []entry

	given, twice atomic.Int64 // items
	refused      atomic.Int64 // advances
}

// entry is what one user was given: a bit an item, of as many as a list may have.
type entry struct {
	items [1 << 16 / 64]atomic.Uint64
	end   atomic.Int64 // behind the last item given
}

func newLedger(users int) *ledger { return &ledger{users: make([]entry, users)} }

// give notes that a user was given the items from one to before another.
func (l *ledger) give(user, from, to int) {
	e := &l.users[user]
	for i := from; i < to; i++ {
		if bit := uint64(1) << (i % 64); e.items[i/64].Or(bit)&bit != 0 {
			l.twice.Add(1)
		}
	}
	l.given.Add(int64(to - from))
	for end := e.end.Load(); end < int64(to) && !e.end.CompareAndSwap(end, int64(to)); end = e.end.Load() {
	}
}

// settle notes where a user stands at the end: what they were given beyond it would be given again. It
// returns how many items they were never given.
func (l *ledger) settle(user, position int) (skipped int) {
	e := &l.users[user]
	for i := range 1 << 16 {
		has := e.items[i/64].Load()&(1<<(i%64)) != 0
		switch {
		case has && i >= position:
			l.twice.Add(1)
		case !has && i < position:
			skipped++
		}
	}
	return skipped
}
