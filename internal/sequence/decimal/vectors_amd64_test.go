package decimal

// addMasks is addVectors by addAVX512 alone.
func addMasks(dst, a, b []byte) (i, j int, carry uint64) {
	n := len(b) / 64
	i, j = len(a)-64*n, len(b)-64*n
	if n > 0 {
		carry = addAVX512(&dst[i], &a[i], &b[j], n, 0)
	}
	return i, j, carry
}

// subMasks is subVectors by subAVX512 alone.
func subMasks(dst, a, b []byte) (i, j int, borrow uint64) {
	n := len(b) / 64
	i, j = len(a)-64*n, len(b)-64*n
	if n > 0 {
		borrow = subAVX512(&dst[i], &a[i], &b[j], n, 0)
	}
	return i, j, borrow
}
