package bandit

import "slices"

// best fills sc.order with the indices of the k best scores, the best first; equal ones are in the order of
// the items. A heap of k holds the best so far, its root the worst of them: n items cost n comparisons and
// rarely more.
func (sc *scratch) best(k int) []int32 {
	n := len(sc.score)
	k = min(k, n)
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
	return x > y || x == y && i < j
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
