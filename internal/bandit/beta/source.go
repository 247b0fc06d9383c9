package beta

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/bits"
)

// A source is the random number generator SFC64 of C. Doty-Humphrey's PractRand: three words that are mixed
// and a counter, which makes every period at least 2^64. It passes PractRand and BigCrush. A vectorised one
// is eight of these side by side.
type source struct {
	a, b, c, counter uint64
}

// newSource returns the generator for a seed and a stream of it. Streams are independent of each other.
func newSource(seed, stream uint64) source {
	return settled(seed, stream, 0x9E3779B97F4A7C15)
}

// randomSource returns a generator that the system seeds.
func randomSource() source {
	var seed [24]byte
	crand.Read(seed[:]) // never fails
	return settled(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:]),
		binary.LittleEndian.Uint64(seed[16:]))
}

// settled returns a generator of which a few rounds have spread the three words over all of the state.
func settled(a, b, c uint64) source {
	g := source{a, b, c, 1}
	for range 12 {
		g.next()
	}
	return g
}

func (g *source) next() uint64 {
	word := g.a + g.b + g.counter
	g.counter++
	g.a = g.b ^ g.b>>11
	g.b = g.c + g.c<<3
	g.c = bits.RotateLeft64(g.c, 24) + word
	return word
}

// uniform returns a number in (0, 1): the middle of one of 2^52 intervals.
func (g *source) uniform() float64 {
	return float64((float64(g.next()>>12) + 0.5) * 0x1p-52)
}
