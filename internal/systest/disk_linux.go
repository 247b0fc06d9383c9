package systest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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
	unmountAfter(t, dir)
	return dir
}

// DiskOf makes a file system of a kind like "xfs", as small as it can be, and returns its directory.
func DiskOf(t testing.TB, kind string) string {
	t.Helper()
	LongRun(t, "root and mkfs, to mount a file system")
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 300<<20)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs." + kind, "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", command, err, out)
		}
	}
	unmountAfter(t, dir)
	return dir
}

// unmountAfter unmounts dir at the end of the test: detached, so that one that failed with a file open
// leaves no mount behind.
func unmountAfter(t testing.TB, dir string) {
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
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
