package beta

// A kernel is one of the ways to draw eight samples at once.
type kernel int

const (
	kernelNone kernel = iota
	kernelAVX512
	kernelAVX2
)

func (k kernel) String() string { return [...]string{"scalar", "avx512", "avx2"}[k] }

// block is how many samples a kernel is given at a time. It cannot be interrupted, and what it leaves
// undecided should stay in the first cache.
const block = 512

// A work is what a kernel keeps between calls, and its lists. Assembly knows its fields.
type work struct {
	lanes [4][8]uint64 // the generators' a, b, c and counters, which are all equal

	// Of samples that the squeeze has not accepted: d, cx and the sum of the squares of the two normals,
	// scaled, the random bits that they were compared with, and their indices. The lists have room for a
	// vector more, as they are written by vectors.
	doubtful int
	//lint:ignore U1000 assembly writes and reads them
	da, db, ya, yb, squares, low [block + 8]float64
	index                        [block + 8]uint64

	// Samples that do not fill a vector and those to draw again: their places, shapes and what was drawn
	// for them.
	places             [block + 8]uint64
	again, alpha, beta [block + 8]float64
}

// seed makes lanes that are independent of each other.
func (w *work) seed(g *source) {
	for i := range w.lanes[0] {
		lane := settled(g.next(), g.next(), g.next())
		w.lanes[0][i], w.lanes[1][i], w.lanes[2][i], w.lanes[3][i] = lane.a, lane.b, lane.c, lane.counter
	}
}

// sample draws at most block samples.
//
// Whatever does not fill a vector at the end is put off until the rejected ones are known, and drawn
// together with them; and what is rejected of those, once more. So no lane is drawn in vain but for the
// last vector, which (1, 1) fills up: it is never rejected.
func (k kernel) sample(dst, alpha, beta []float64, w *work) {
	w.doubtful = 0
	k.draw(dst, alpha, beta, w)
	again := w.doubtful
	for i := len(dst) &^ 7; i < len(dst); i++ {
		w.index[again] = uint64(i)
		again++
	}
	copy(w.places[:again], w.index[:again])
	for again > 0 {
		for i, place := range w.places[:again] {
			w.alpha[i], w.beta[i] = alpha[place], beta[place]
		}
		filled := (again + 7) &^ 7
		for i := again; i < filled; i++ {
			w.alpha[i], w.beta[i] = 1, 1
		}
		w.doubtful = 0
		k.draw(w.again[:filled], w.alpha[:filled], w.beta[:filled], w)
		for i, place := range w.places[:again] {
			dst[place] = w.again[i]
		}
		again = w.doubtful
		for i, index := range w.index[:again] {
			w.places[i] = w.places[index]
		}
	}
}
