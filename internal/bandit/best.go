package bandit

import (
	"math/rand/v2"
	"slices"
)

// best fills sc.order with the indices of the k best scores of a query, the best first; equal ones are in
// any order, by the query's seed if it has one. A heap of k holds the best so far, its root the worst of
// them: n items cost n comparisons and rarely more.
func (sc *scratch) best(q *query, k int) []int32 {
	n := len(sc.score)
	k = min(k, n)
	if sc.ties = uint32(q.seed); !q.seeded {
		sc.ties = rand.Uint32()
	}
	h := slices.Grow(sc.order[:0], k)[:k]
	sc.order = h
	for i := range h {
		h[i] = int32(i)
	}
	for i := k/2 - 1; i >= 0; i-- {
		sc.sink(h, i)
	}
	for i := k; i < n; i++ {
		if sc.better(int32(i), h[0]) {
			h[0] = int32(i)
			sc.sink(h, 0)
		}
	}
	for end := k - 1; end > 0; end-- { // and sort it: the worst goes last
		h[0], h[end] = h[end], h[0]
		sc.sink(h[:end], 0)
	}
	return h
}

// better reports whether item i comes before item j.
func (sc *scratch) better(i, j int32) bool {
	x, y := sc.score[i], sc.score[j]
	return x > y || x == y && sc.tie(i) < sc.tie(j)
}

// tie returns a number of item i that no other has: the finalizer of MurmurHash3, which is a permutation.
func (sc *scratch) tie(i int32) uint32 {
	h := uint32(i) ^ sc.ties
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// sink brings h[i] down to where no child is worse.
func (sc *scratch) sink(h []int32, i int) {
	for {
		worst := 2*i + 1
		if worst >= len(h) {
			return
		}
		if r := worst + 1; r < len(h) && sc.better(h[worst], h[r]) {
			worst = r
		}
		if !sc.better(h[i], h[worst]) {
			return
		}
		h[i], h[worst] = h[worst], h[i]
		i = worst
	}
}
