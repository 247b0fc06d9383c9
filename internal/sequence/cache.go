package sequence

import (
	"container/list"
	"context"
	"sync"

	"weir/internal/sequence/decimal"
)

// pair is F(index) and F(index-1), from which any value nearby is a few steps away. F(-1) is 1.
// Its digits are never changed, so whoever has a pair may read it for good.
type pair struct {
	index       uint64
	f, previous []byte
}

func (p *pair) bytes() int64 { return int64(len(p.f) + len(p.previous)) }

// distance returns how many steps lead from p to the pair of index n.
func (p *pair) distance(n uint64) uint64 {
	if p.index > n {
		return p.index - n
	}
	return n - p.index
}

// digits returns F(n) if it is one of the two.
func (p *pair) digits(n uint64) ([]byte, bool) {
	switch n {
	case p.index:
		return p.f, true
	case p.index - 1:
		return p.previous, p.index > 0
	}
	return nil, false
}

// walk returns the pair of index n, reached from p by steps. It is p when n is its index, and otherwise has
// memory of its own.
func (p pair) walk(ctx context.Context, n uint64) (pair, error) {
	var memory [3][]byte
	for i := 0; p.index != n; i++ {
		if err := ctx.Err(); err != nil {
			return pair{}, err
		}
		p.step(&memory[i%3], n)
	}
	return p, nil
}

// step goes one step towards n and leaves the new value in memory, which must hold neither of the two that
// are there. A caller that takes three memories in turn does it right.
func (p *pair) step(memory *[]byte, n uint64) {
	if n > p.index {
		*memory = decimal.Add(grown(*memory, len(p.f)+1), p.f, p.previous)
		p.index, p.f, p.previous = p.index+1, *memory, p.f
		return
	}
	*memory = decimal.Sub(grown(*memory, len(p.f)), p.f, p.previous)
	p.index, p.f, p.previous = p.index-1, p.previous, *memory
}

// grown returns memory, emptied, with room for n bytes.
func grown(memory []byte, n int) []byte {
	if cap(memory) < n {
		return make([]byte, 0, n)
	}
	return memory[:0]
}

// interval is how far apart the pairs of the cache are, about. Measured from index 1,000 to 80,000,000, a
// step costs 0.3 to 0.9 % of what computing from nothing does, so the farthest pair that is used saves
// little and the others much.
const interval = 128

// Small values come from anchors: pairs that are always there, so near that a few microseconds lead to each
// value.
const (
	anchorInterval = 64
	anchorEnd      = 4096
)

// cache holds pairs, at most one for each interval of indices, those used last. Of one interval the pair that
// was put last stays: steps from one value to the next find the one before.
type cache struct {
	anchors []pair

	mu    sync.Mutex
	limit int64
	bytes int64
	pairs map[uint64]*list.Element // of *pair, by index/interval
	used  *list.List               // the last used one first
}

func newCache(limit int64) *cache {
	c := &cache{limit: limit, pairs: make(map[uint64]*list.Element), used: list.New()}
	p := pair{0, []byte("0"), []byte("1")}
	for {
		c.anchors = append(c.anchors, p)
		if p.index == anchorEnd {
			return c
		}
		p, _ = p.walk(context.Background(), p.index+anchorInterval) // which is not cancelled
	}
}

// near returns the nearest pair to n there is within an interval.
func (c *cache) near(n uint64) (best pair, ok bool) {
	if n <= anchorEnd {
		return c.anchors[(n+anchorInterval/2)/anchorInterval], true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var found *list.Element
	for bucket := n/interval - 1; bucket <= n/interval+1; bucket++ {
		e := c.pairs[bucket]
		if e == nil {
			continue
		}
		p := e.Value.(*pair)
		if p.distance(n) <= interval && (found == nil || p.distance(n) < best.distance(n)) {
			found, best = e, *p
		}
	}
	if found == nil {
		return pair{}, false
	}
	c.used.MoveToFront(found)
	return best, true
}

// put keeps a pair, which must not be changed any more, and drops those used longest ago beyond the bound.
func (c *cache) put(p pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.index <= anchorEnd || p.bytes() > c.limit {
		return
	}
	if e := c.pairs[p.index/interval]; e != nil {
		c.drop(e)
	}
	c.shrink(c.limit - p.bytes())
	c.pairs[p.index/interval] = c.used.PushFront(&p)
	c.bytes += p.bytes()
}

// setLimit changes the bound.
func (c *cache) setLimit(limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
	c.shrink(limit)
}

// shrink drops those used longest ago beyond a bound.
func (c *cache) shrink(limit int64) {
	for c.bytes > limit {
		c.drop(c.used.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	p := c.used.Remove(e).(*pair)
	delete(c.pairs, p.index/interval)
	c.bytes -= p.bytes()
}

// size returns how many pairs there are, their bytes, and the bound of these.
func (c *cache) size() (pairs int, bytes, limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pairs), c.bytes, c.limit
}
