package disk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out times and the like, which fsync would write with an extra journal commit.
func syncData(f *os.File) error {
	return retry(func() error { return unix.Fdatasync(int(f.Fd())) })
}

func allocate(f *os.File, off, n int64) error {
	var fs unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(f.Fd()), &fs) }); err != nil {
		return err
	}
	if err := reserves(int64(fs.Type)); err != nil {
		return err
	}
	err := retry(func() error { return unix.Fallocate(int(f.Fd()), 0, off, n) })
	if errors.Is(err, unix.ENOSPC) && owns(f, off+n) {
		return nil
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return writeZeros(f, off, n)
	}
	return err
}

// owns says whether f is at least size bytes long and has all its blocks. XFS wants space for a range that
// is there already, which a full disk does not have.
func owns(f *os.File, size int64) bool {
	var info unix.Stat_t
	err := retry(func() error { return unix.Fstat(int(f.Fd()), &info) })
	return err == nil && info.Size >= size && info.Blocks*512 >= info.Size
}

// Not all of these are in x/sys/unix.
const (
	btrfsMagic    = 0x9123683e
	zfsMagic      = 0x2fc12fc1
	bcachefsMagic = 0xca451a4e
)

// reserves refuses file systems, told by their magic number of statfs(2), on which fallocated space does
// not belong to the file: they write every change to a new place, and that place may be missing.
func reserves(magic int64) error {
	var name string
	switch uint32(magic) { // the field is signed and of either width
	case btrfsMagic:
		name = "btrfs"
	case zfsMagic:
		name = "zfs"
	case bcachefsMagic:
		name = "bcachefs"
	default:
		return nil
	}
	return fmt.Errorf("%s cannot reserve space for files written in place: choose a directory on ext4 or "+
		"xfs: %w",
		name, errors.ErrUnsupported)
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
