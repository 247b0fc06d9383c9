//go:build darwin || freebsd

package disk

import "golang.org/x/sys/unix"

func adviseHuge([]byte)              {}
func adviseRandom(data []byte) error { return unix.Madvise(data, unix.MADV_RANDOM) }
