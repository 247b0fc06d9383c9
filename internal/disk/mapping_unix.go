//go:build linux || darwin || freebsd

package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(data []byte) error  { return unix.Munmap(data) }
func lockMemory(data []byte) error { return unix.Mlock(data) }
