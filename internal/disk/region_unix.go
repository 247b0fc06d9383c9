//go:build linux || darwin || freebsd

package disk

import (
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

func reserve(size int) ([]atomic.Uint64, error) {
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	// Pages are aligned to more than words, and an atomic.Uint64 is its eight bytes.
	return unsafe.Slice((*atomic.Uint64)(base), size/8), nil
}

// extend replaces pages of the reservation by pages of the file.
func (r *Region) extend(f *os.File, size int64) error {
	at := unsafe.Pointer(&r.words[r.mapped/8])
	_, err := unix.MmapPtr(int(f.Fd()), r.mapped, at, uintptr(size-r.mapped),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return err
	}
	// Words are touched at random: no read-ahead, which would bring them in as large folios. Of
	// these a write fault has to mark every block, and every sync makes every page fault again.
	return unix.Madvise(unsafe.Slice((*byte)(at), size-r.mapped), unix.MADV_RANDOM)
}

func release(words []atomic.Uint64) error {
	return unix.MunmapPtr(unsafe.Pointer(&words[0]), uintptr(len(words)*8))
}

func commit(words []atomic.Uint64) error {
	return unix.Mprotect(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words)),
		unix.PROT_READ|unix.PROT_WRITE)
}
