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

// kinds names file systems by their magic numbers of statfs(2).
var kinds = map[uint32]string{
	0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0xca451a4e: "bcachefs",
	0xf2f52010: "f2fs", 0x01021994: "tmpfs", 0x858458f6: "ramfs", 0x794c7630: "overlay", 0x6969: "nfs",
	0x01021997: "9p", 0x65735546: "fuse", 0xff534d42: "cifs", 0xfe534d42: "smb2", 0x00c36400: "ceph",
	0x6a656a63: "virtiofs", 0x4d44: "vfat", 0x2011bab0: "exfat",
}

// kindOf names a file system; the field is signed and of either width.
func kindOf(magic int64) string {
	if kind, ok := kinds[uint32(magic)]; ok {
		return kind
	}
	return fmt.Sprintf("%#x", uint32(magic))
}

// reserves refuses file systems on which fallocated space does not belong to the file: they write every
// change to a new place, and that place may be missing.
func reserves(magic int64) error {
	switch kind := kindOf(magic); kind {
	case "btrfs", "zfs", "bcachefs":
		return fmt.Errorf("%s cannot reserve space for files written in place: choose a directory on ext4 or "+
			"xfs: %w", kind, errors.ErrUnsupported)
	}
	return nil
}

func volumeOf(dir string) (Volume, error) {
	var fs unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(dir, &fs) }); err != nil {
		return Volume{}, err
	}
	block := uint64(fs.Frsize)
	return Volume{Kind: kindOf(int64(fs.Type)), Size: fs.Blocks * block, Free: fs.Bavail * block,
		Files: fs.Files, FreeFiles: fs.Ffree}, nil
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
