//go:build !amd64

package decimal

// hasAVX512 says whether there is assembly to run.
const hasAVX512 = false

// addVectors does nothing: there are no vectors here. What it says is in add_amd64.go.
func addVectors(_, a, b []byte) (i, j int, carry uint64) { return len(a), len(b), 0 }

// subVectors does nothing: there are no vectors here. What it says is in add_amd64.go.
func subVectors(_, a, b []byte) (i, j int, borrow uint64) { return len(a), len(b), 0 }

func (t *transform) passVectors(z []float64, stride, vectors, radix int, r *[4]complex128, back bool) {
	passPlain(z, stride, vectors, radix, r, back)
}

func (t *transform) leafVectors(z, leaf []float64, run *[12]float64) { leavesPlain(z, leaf, run) }

func (t *transform) settleVectors(z []float64, from, to, k int, m *mix, s *settler) {
	t.settlePlain(z, from, to, k, m, s)
}

func (t *transform) formatVectors(dst []byte, z []float64, part, digits, k, borrow int) int {
	return formatPlain(dst, z, part, digits, k, borrow)
}
