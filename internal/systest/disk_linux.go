package systest

import (
	"syscall"
	"testing"
)

// Disk makes a small file system in memory, of a size like "1m", and returns its directory.
func Disk(t testing.TB, size string) string {
	t.Helper()
	LongRun(t, "root, to mount a small file system")
	dir := t.TempDir()
	if err := syscall.Mount("weir-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs permission to mount a small file system (run as root): %v", err)
	}
	t.Cleanup(func() {
		// Detached, so that a test that failed with a file open leaves no mount behind.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// MakeReadOnly makes what Disk has returned read-only. No file may be open for writing there.
func MakeReadOnly(t testing.TB, dir string) {
	t.Helper()
	remount(t, dir, syscall.MS_RDONLY, "")
}

// Resize gives what Disk has returned another size.
func Resize(t testing.TB, dir, size string) {
	t.Helper()
	remount(t, dir, 0, "size="+size)
}

func remount(t testing.TB, dir string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}
