package decimal

import (
	"math"
	"math/big"
	"sync"
)

// The transform needs the roots of unity in one order, that of reversed bits:
//
//	root(j) = exp(i pi r(j)),   r(j) = the sum of 2^-(k+1) over the bits k that are set in j
//
// so root(0) = 1, root(1) = i, root(2) = exp(i pi/4), root(2j)^2 = root(j) and root(2j+1) = i root(2j).
// Transforms of all lengths need a prefix of it, and root(j) is root of its high bits times root of its low
// bits, so two small tables serve for all of them at the price of one complex product.
const (
	lowBits  = 10
	lowRoots = 1 << lowBits

	// runBlocks is how many consecutive blocks of 64 points share the factors for the high bits of their
	// index.
	runBlocks = 64
	// runEntry is how many float64 a block has in the table of roots for a run. See leafRoots.
	runEntry = 8 + 6*8
)

// sqrtHalf is the real and the imaginary part of root(2).
const sqrtHalf = 0.70710678118654752440084436210484903928483593768847

// pair is a number as the sum of two float64, the second at most half a unit in the last place of the first.
type pair struct{ hi, lo float64 }

func (a pair) times(b pair) pair {
	p := float64(a.hi * b.hi) // the conversion keeps it from being fused with what follows
	e := math.FMA(a.hi, b.hi, -p)
	e += a.hi*b.lo + a.lo*b.hi
	hi := p + e
	return pair{hi, e - (hi - p)}
}

func (a pair) plus(b pair) pair {
	s := a.hi + b.hi
	v := s - a.hi
	e := (a.hi - (s - v)) + (b.hi - v)
	e += a.lo + b.lo
	hi := s + e
	return pair{hi, e - (hi - s)}
}

func (a pair) minus(b pair) pair { return a.plus(pair{-b.hi, -b.lo}) }

// rootPair is a root of unity to about 100 bits.
type rootPair struct{ re, im pair }

func (a rootPair) times(b rootPair) rootPair {
	return rootPair{a.re.times(b.re).minus(a.im.times(b.im)), a.re.times(b.im).plus(a.im.times(b.re))}
}

// maxBits is how many bits an index of a root has at most: half the longest transform's.
const maxBits = 31

// powers returns root(2^k) for all k, by halving angles: cos(x/2)^2 = (1+cos x)/2.
var powers = sync.OnceValue(func() [maxBits]rootPair {
	const precision = 240
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }
	split := func(x *big.Float) pair {
		hi, _ := x.Float64()
		lo, _ := new(big.Float).Sub(x, number(hi)).Float64()
		return pair{hi, lo}
	}
	var roots [maxBits]rootPair
	cos, sin := number(0), number(1)
	for k := range roots {
		roots[k] = rootPair{split(cos), split(sin)}
		half := number(1)
		half.Add(half, cos).Quo(half, number(2)).Sqrt(half)
		sin = number(0).Quo(sin, number(0).Add(half, half))
		cos = half
	}
	return roots
})

// rootTable returns root(i * 2^shift) for i below n, a power of two, each part correctly rounded but for
// about one in 2^40, which is then off by one unit in the last place and a hair more than half.
func rootTable(n, shift int) []complex128 {
	roots := powers()
	table := make([]complex128, n)
	exact := make([]rootPair, n)
	exact[0] = rootPair{re: pair{hi: 1}}
	table[0] = 1
	for k := 0; 1<<k < n; k++ {
		for j := range 1 << k {
			r := exact[j].times(roots[k+shift])
			exact[1<<k+j] = r
			table[1<<k+j] = complex(r.re.hi, r.im.hi)
		}
	}
	return table
}

var lowTable = sync.OnceValue(func() []complex128 { return rootTable(lowRoots, 0) })

// leafRoots returns for each block of 64 points in a run what the six levels below it need: root(b),
// root(2b) and root(4b), each real and imaginary part, two unused; then, for the eight blocks of eight
// points 8b to 8b+7, eight real parts and eight imaginary parts each of root(B), root(2B) and root(4B).
var leafRoots = sync.OnceValue(func() []float64 {
	table := make([]float64, runBlocks*runEntry)
	all := rootTable(32*runBlocks, 0)
	for b := range runBlocks {
		entry := table[b*runEntry:][:runEntry]
		for level := range 3 {
			entry[2*level] = real(all[b<<level])
			entry[2*level+1] = imag(all[b<<level])
			for lane := range 8 {
				r := all[(8*b+lane)<<level]
				entry[8+16*level+lane] = real(r)
				entry[8+16*level+8+lane] = imag(r)
			}
		}
	}
	return table
})
