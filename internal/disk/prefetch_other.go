//go:build !amd64 && !arm64

package disk

func prefetch(uintptr) {}
