//go:build !purego

package arms

// findHomes is findHomesGo in assembly.
//
//go:noescape
func findHomes(cells *byte, homes uint64, keys []Key, alpha, beta *float64, scopes *Mask,
	beyond *int32) (left int)

// inHomes looks for keys in their homes: see inHomesGo.
func (t *table) inHomes(keys []Key, f *Found) (left int) {
	n := len(keys)
	if n == 0 {
		return 0
	}
	_ = t.bytes[t.homes*homeCells*cellBytes] // a home is within
	_, _, _, _ = f.Alpha[n-1], f.Beta[n-1], f.Scopes[n-1], f.beyond[n-1]
	return findHomes(&t.bytes[0], t.homes, keys, &f.Alpha[0], &f.Beta[0], &f.Scopes[0], &f.beyond[0])
}
