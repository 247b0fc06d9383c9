package rules

import "math/bits"

// items is a set of items of a feed, a bit each.
type items []uint64

func (s items) has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }
func (s items) add(i int)      { s[i>>6] |= 1 << (i & 63) }

// bounds returns the first item of the set and the one behind the last; the same for a set without items.
func (s items) bounds() (first, end int) {
	for i, w := range s {
		if w != 0 {
			first = i<<6 + bits.TrailingZeros64(w)
			for i := len(s) - 1; ; i-- {
				if w := s[i]; w != 0 {
					return first, i<<6 + 64 - bits.LeadingZeros64(w)
				}
			}
		}
	}
	return 0, 0
}

func (s items) empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

// less takes the items of t away.
func (s items) less(t items) {
	for i, w := range t {
		s[i] &^= w
	}
}

// each calls f for every item.
func (s items) each(f func(int)) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			f(i<<6 + bits.TrailingZeros64(w))
		}
	}
}

// union adds the items of t.
func (s items) union(t items) {
	for i, w := range t {
		s[i] |= w
	}
}
