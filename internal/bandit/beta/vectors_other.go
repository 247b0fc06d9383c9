//go:build !amd64 || purego

package beta

// kernels returns none: there are no vectors here.
func kernels() []kernel { return nil }

func (kernel) draw(_, _, _ []float64, _ *work) {
	panic("BUG: beta: there is no kernel to draw samples")
}
