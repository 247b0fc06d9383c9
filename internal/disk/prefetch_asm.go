//go:build amd64 || arm64

package disk

// prefetch loads the cache line at an address into all levels of the cache.
//
//go:noescape
func prefetch(addr uintptr)
