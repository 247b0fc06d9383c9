package clustertest_test

import "sync/atomic"

// ledger is which items of which list were given. It is for any number of goroutines.
type ledger struct {
	lists []entry

	given, twice atomic.Int64 // items
	refused      atomic.Int64 // advances
	counted      atomic.Int64 // items that may have been skipped, as nodes say
}

// entry is what was given of a list: a bit an item, of as many as a list may have.
type entry struct {
	items [1 << 16 / 64]atomic.Uint64
	end   atomic.Int64 // behind the last item given
}

func newLedger(lists int) *ledger { return &ledger{lists: make([]entry, lists)} }

// give notes that somebody was given the items from one to before another.
func (l *ledger) give(list, from, to int) {
	e := &l.lists[list]
	for i := from; i < to; i++ {
		if bit := uint64(1) << (i % 64); e.items[i/64].Or(bit)&bit != 0 {
			l.twice.Add(1)
		}
	}
	l.given.Add(int64(to - from))
	for end := e.end.Load(); end < int64(to) && !e.end.CompareAndSwap(end, int64(to)); end = e.end.Load() {
	}
}

// settle notes where the user of a list stands at the end: what was given beyond it would be given again.
// It returns how many items were never given.
func (l *ledger) settle(list, position int) (skipped int) {
	e := &l.lists[list]
	for i := range max(position, int(e.end.Load())) {
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
