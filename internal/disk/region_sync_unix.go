//go:build darwin || freebsd

package disk

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (r *Region) sync(f *os.File) error {
	if err := unix.Msync(unsafe.Slice((*byte)(unsafe.Pointer(&r.words[0])), r.mapped), unix.MS_SYNC); err != nil {
		return err
	}
	return SyncData(f)
}
