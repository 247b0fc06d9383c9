//go:build darwin || freebsd

package disk

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func (r *Region) flush() error {
	return unix.Msync(unsafe.Slice((*byte)(unsafe.Pointer(&r.words[0])), r.mapped), unix.MS_SYNC)
}
