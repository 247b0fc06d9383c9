package progress

import (
	"context"
	"sync/atomic"
)

// exhausted counts the users of a generation whose position is at the end of their list, by a bit a user.
type exhausted struct {
	seen  []atomic.Uint64
	count atomic.Int64
}

// note brings the count in line with a user's cell. Whoever has changed the bit looks at the cell
// again, so the last one to change it leaves it right, although advances, resets and the first
// count run at the same time.
func (e *exhausted) note(rank uint64, p place, list List) {
	word, bit := &e.seen[rank/64], uint64(1)<<(rank%64)
	for {
		end := p.atEnd(list)
		switch {
		case end && word.Or(bit)&bit == 0:
			e.count.Add(1)
		case !end && word.And(^bit)&bit != 0:
			e.count.Add(-1)
		}
		if p.atEnd(list) == end {
			return
		}
	}
}

// atEnd says whether nothing is left of the list of the user whose place it is.
func (p place) atEnd(list List) bool {
	word := p.store.Load(p.cell)
	return list.Len == 0 || word>>16 == list.Tag && int(word&MaxLen) >= list.Len
}

// count finds the users who had come to the end before this generation served.
func (g *generation) countExhausted(ctx context.Context) error {
	for rank := range g.lists.Slots() {
		if rank%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		list, ok := g.lists.List(rank)
		if !ok {
			continue
		}
		if u, ok := g.lists.User(rank); ok {
			g.exhausted.note(rank, g.place(u), list)
		}
	}
	return nil
}

// Exhausted implements Generation.
func (g *generation) Exhausted() int64 { return g.exhausted.count.Load() }
