package main

import (
	"math"
	"math/big"
	"math/bits"
	"sync"
	"sync/atomic"
)

// sequence is the shared index and what is known of the values.
type sequence struct {
	index atomic.Uint32
	cache *pairs
}

func newSequence(start, padding uint32) *sequence {
	s := &sequence{cache: &pairs{padding: padding, known: map[uint32]pair{}}}
	s.index.Store(start)
	return s
}

// next moves the index up, unless there is no further one, and returns it.
func (s *sequence) next() uint32 {
	for {
		i := s.index.Load()
		if i == math.MaxUint32 {
			return i
		}
		if s.index.CompareAndSwap(i, i+1) {
			return i + 1
		}
	}
}

// previous moves the index down, unless it is 0, and returns it.
func (s *sequence) previous() uint32 {
	for {
		i := s.index.Load()
		if i == 0 {
			return 0
		}
		if s.index.CompareAndSwap(i, i-1) {
			return i - 1
		}
	}
}

// pair is F(i) and F(i-1). Those in the cache are never changed.
type pair struct{ value, before *big.Int }

// step returns the pair n indices on, in numbers of its own.
func (p pair) step(n uint32) pair {
	q := pair{new(big.Int).Set(p.value), new(big.Int).Set(p.before)}
	for range n {
		q.before.Add(q.before, q.value)
		q.value, q.before = q.before, q.value
	}
	return q
}

// pairs has a pair at multiples of padding, those that were asked for. It has no bound: a walk from
// 0 to 100,000 leaves 13 MiB in it.
type pairs struct {
	padding uint32

	mu    sync.Mutex
	known map[uint32]pair
}

// value returns F(i), which may be a number of the cache and is not to be changed.
func (p *pairs) value(i uint32) *big.Int {
	base := i - i%p.padding
	at := p.pair(base)
	if base == i {
		return at.value
	}
	return at.step(i - base).value
}

// pair returns the pair at a multiple of padding: a known one, or one made of its known neighbour below, or
// one computed. That happens outside of the lock; should two requests do it at once, one does it in vain.
func (p *pairs) pair(base uint32) pair {
	p.mu.Lock()
	at, ok := p.known[base]
	below, near := pair{}, false
	if !ok && base >= p.padding {
		below, near = p.known[base-p.padding]
	}
	p.mu.Unlock()
	if ok {
		return at
	}
	if near {
		at = below.step(p.padding)
	} else {
		at = double(base)
	}
	p.mu.Lock()
	p.known[base] = at
	p.mu.Unlock()
	return at
}

// double returns the pair at i by two squarings and a product for each bit of i, from the first:
// F(2k) = F(k) (F(k) + 2 F(k-1)) and F(2k-1) = F(k)² + F(k-1)².
func double(i uint32) pair {
	value, before := big.NewInt(0), big.NewInt(1)
	twice, square := new(big.Int), new(big.Int)
	for bit := bits.Len32(i) - 1; bit >= 0; bit-- {
		twice.Lsh(before, 1)
		twice.Add(twice, value)
		twice.Mul(twice, value)
		square.Mul(value, value)
		before.Mul(before, before)
		before.Add(before, square)
		value, twice = twice, value
		if i>>bit&1 == 1 {
			before.Add(before, value)
			value, before = before, value
		}
	}
	return pair{value, before}
}
