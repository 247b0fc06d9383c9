package scenario

import (
	"math/bits"
)

// numbers are those of one thread's requests: at, at+by, at+2*by and so on.
type numbers struct{ at, by uint64 }

func (n *numbers) next() uint64 {
	k := n.at
	n.at += n.by
	return k
}

// dice has a random number for every index, so that request k is the same whoever makes it. It is
// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014) of which any
// element can be had.
type dice uint64

// newDice returns dice that have nothing to do with those of another seed or another use.
func newDice(seed uint64, use string) dice {
	d := dice(seed)
	for _, c := range []byte(use) {
		d = dice(d.at(uint64(c)))
	}
	return d
}

func (d dice) at(k uint64) uint64 {
	z := uint64(d) + (k+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below maps a random number to one below n; small ns get no remainder that anybody could measure.
func below(r, n uint64) uint64 {
	high, _ := bits.Mul64(r, n)
	return high
}
