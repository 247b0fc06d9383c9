//go:build !amd64 || purego

package arms

func (t *table) inHomes(keys []Key, f *Found) (left int) { return t.inHomesGo(keys, f) }
