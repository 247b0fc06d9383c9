package beta

import (
	"math"
	"math/bits"
)

// This file draws a sample at a time as fast as plain Go can, for processors without a kernel. It differs
// from the reference in this: normals come from a ziggurat, both gammas of a sample are accepted or
// rejected together, most of them by a squeeze without a logarithm, and the generator is a value, which the
// compiler keeps in registers.

// drawn returns a random word and the generator after it.
func (g source) drawn() (uint64, source) {
	word := g.a + g.b + g.counter
	return word, source{g.b ^ g.b>>11, g.c + g.c<<3, bits.RotateLeft64(g.c, 24) + word, g.counter + 1}
}

// scalar sets dst to samples, one after the other, and returns the generator after them.
func (g source) scalar(dst, alpha, beta []float64) source {
	alpha, beta = alpha[:len(dst)], beta[:len(dst)]
	for i := range dst {
		a, b := clamp(alpha[i]), clamp(beta[i])
		if a == 1 && b == 1 {
			var w uint64
			w, g = g.drawn()
			dst[i] = float64(w>>11) * 0x1p-53
			continue
		}
		t := 0.0
		if a < 1 || b < 1 {
			t, a, b, g = g.raised(a, b)
		}
		da, db := a-1.0/3, b-1.0/3
		ra, rb := math.Sqrt(da), math.Sqrt(db)
		for {
			var x, y float64
			x, g = g.ziggurat()
			y, g = g.ziggurat()
			var w uint64
			w, g = g.drawn()
			u := float64(w>>11) * 0x1p-53
			x, y = x/3, y/3
			xa, yb := x/ra, y/rb
			// The squeeze of SIMD.md. What passes has 1+xa > 0 and 1+yb > 0.
			qa, qb := x*xa, y*yb
			if u >= 1-(81.0/44)*(qa*qa+qb*qb) &&
				!(xa > -1 && yb > -1 && math.Log(u) < da*deficit(xa)+db*deficit(yb)) {
				continue
			}
			p, q := 1+xa, 1+yb
			ga, gb := da*p*p*p, db*q*q*q
			if t != 0 {
				dst[i] = ratio(ga, gb, t)
			} else {
				dst[i] = ga / (ga + gb)
			}
			break
		}
	}
	return g
}

// raised returns shapes that are at least one, and by how much more the exponent of the first gamma then
// has to be than that of the second.
func (g source) raised(a, b float64) (t, raisedA, raisedB float64, next source) {
	if a < 1 {
		t += math.Log(g.uniform()) / a
		a++
	}
	if b < 1 {
		t -= math.Log(g.uniform()) / b
		b++
	}
	return t, a, b, g
}

// The ziggurat of G. Marsaglia and W. W. Tsang (J. Statistical Software 5, 2000) covers half the normal
// density, up to a factor, by layers of one area. With the layer and the place in it from different bits of
// a word, as J. A. Doornik (2005) has shown to be necessary.
const (
	zigguratLayers = 256
	zigguratEnd    = 3.6541528853610088 // where the lowest layer's rectangle ends and the tail begins
	zigguratArea   = 0.00492867323399
)

// zigguratWidths are the layers' right ends; the lowest layer's is what it would be if its tail was part of
// its rectangle.
var zigguratWidths = newZigguratWidths()

func newZigguratWidths() *[zigguratLayers + 1]float64 {
	var widths [zigguratLayers + 1]float64
	density := func(x float64) float64 { return math.Exp(-x * x / 2) }
	widths[0] = zigguratArea / density(zigguratEnd)
	widths[1] = zigguratEnd
	for i := 2; i < zigguratLayers; i++ {
		widths[i] = math.Sqrt(-2 * math.Log(zigguratArea/widths[i-1]+density(widths[i-1])))
	}
	return &widths
}

// ziggurat returns a sample of the normal distribution.
func (g source) ziggurat() (float64, source) {
	w, g := g.drawn()
	layer := w % zigguratLayers
	x := float64(int64(w)>>11) * 0x1p-52 * zigguratWidths[layer]
	if math.Abs(x) < zigguratWidths[layer+1] {
		return x, g
	}
	return g.edge(x, layer)
}

// edge decides on a number that is not in the part of a layer which is wholly below the density, or draws
// another one.
func (g source) edge(x float64, layer uint64) (float64, source) {
	for {
		if layer == 0 {
			// The tail, by Marsaglia (Technometrics 6, 1964).
			for {
				far, up := -math.Log(g.uniform())/zigguratEnd, -math.Log(g.uniform())
				if 2*up > far*far {
					return math.Copysign(zigguratEnd+far, x), g
				}
			}
		}
		low, high := math.Exp(-zigguratWidths[layer]*zigguratWidths[layer]/2),
			math.Exp(-zigguratWidths[layer+1]*zigguratWidths[layer+1]/2)
		if low+(high-low)*g.uniform() < math.Exp(-x*x/2) {
			return x, g
		}
		w := g.next()
		layer = w % zigguratLayers
		x = float64(int64(w)>>11) * 0x1p-52 * zigguratWidths[layer]
		if math.Abs(x) < zigguratWidths[layer+1] {
			return x, g
		}
	}
}
