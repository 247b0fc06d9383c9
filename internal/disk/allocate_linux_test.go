package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/systest"
)

func TestAllocateOnAFullDiskSaysSoAndTakesNothing(t *testing.T) {
	dir := systest.Disk(t, "1m")
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Allocate(f, 0, 512<<10); err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func(*os.File, int64, int64) error{
		"fallocate": allocate, "writing zeros": writeZeros,
	} {
		err := allocateBy(take, f, 0, 4<<20)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: error %v, want ENOSPC", name, err)
		}
		if want := "make room on the disk of " + dir; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q does not say %q", name, err, want)
		}
		if info, err := f.Stat(); err != nil || info.Size() != 512<<10 {
			t.Errorf("%s: size %d, error %v, want what it was", name, info.Size(), err)
		}
	}
}

func TestAllocateFillsHoles(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	if err := Allocate(f, 0, 1<<20); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if got := st.Blocks * 512; got < 1<<20 {
		t.Errorf("%d bytes have room on the disk, want all of %d", got, 1<<20)
	}
}

func TestFileSystemsThatReserveNothingAreRefused(t *testing.T) {
	for _, magic := range []int64{0x9123683e, 0x2fc12fc1, 0xca451a4e, 0x9123683e - 1<<32} {
		if err := reserves(magic); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("magic %#x: %v, want ErrUnsupported", magic, err)
		}
	}
	for _, magic := range []int64{unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.XFS_SUPER_MAGIC} {
		if err := reserves(magic); err != nil {
			t.Errorf("magic %#x: %v", magic, err)
		}
	}
}
