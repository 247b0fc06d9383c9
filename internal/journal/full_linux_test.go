package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mount makes a small file system in memory and returns its directory.
func mount(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("weir-test", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("needs permission to mount a file system of 1 MiB (run as root): %v", err)
	}
	t.Cleanup(func() {
		// Detached, so that a test that failed with a file open leaves no mount behind.
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill takes all space of a directory's disk, and returns how to give it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func wantFull(t *testing.T, what, dir string, err error) {
	t.Helper()
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrPoisoned) || !strings.Contains(err.Error(), "make room on the disk of "+dir) {
		t.Fatalf("%s on a full disk: %v, want ENOSPC that says what to do, and no poison", what, err)
	}
}

func TestAFullDiskCostsOnlyWhatComesMeanwhile(t *testing.T) {
	dir := mount(t, 0, "size=1m")
	j, k := mustOpen(t, dir, Options{Segment: 4 * pageSize})
	long := strings.Repeat("long ", 1000)
	refused := 0
	for range 20 {
		k.records = append(k.records, numbered(t, j, len(k.records), len(k.records)+7)...)
		free := fill(t, dir)
		// Small ones may find room in the last page; the others cannot, and some find that the next segment cannot be begun.
		for range 3 {
			err := j.Append(batchOf(long, long, long))
			wantFull(t, "Append", dir, err)
			refused++
			if err := j.Append(batchOf("small")); err == nil {
				k.records = append(k.records, "small")
			} else {
				wantFull(t, "Append", dir, err)
			}
		}
		wantFull(t, "Checkpoint", dir, j.Checkpoint(j.Position(), k.save))
		free()
		mustAppend(t, j, long)
		k.records = append(k.records, long)
	}
	if err := j.Err(); err != nil {
		t.Fatal(err)
	}
	_, got := mustOpen(t, copyDir(t, dir), Options{})
	wantRecords(t, got, k.records...)
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Errorf("Checkpoint with room again: %v", err)
	}
	if n := len(files(t, dir)); n != 2 {
		t.Errorf("files %q, want a checkpoint and a segment", files(t, dir))
	}
	fill(t, dir)
	mustClose(t, j) // its mark may have no room
	_, got = mustOpen(t, dir, Options{})
	wantRecords(t, got, k.records...)
}

func TestAFullDiskIsAnErrorOfOpen(t *testing.T) {
	dir := mount(t, 0, "size=64k")
	path := filepath.Join(dir, "journal")
	free := fill(t, dir)
	if _, _, err := open(path, Options{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Open of a new journal on a full disk: %v, want ENOSPC", err)
	}
	free()
	j, _ := mustOpen(t, path, Options{}) // what was left of the first try is no harm
	mustAppend(t, j, "one")
	mustClose(t, j)
	free = fill(t, dir)
	// Not even the number of the process has room in LOCK.
	if _, _, err := open(path, Options{}); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "make room on the disk of "+path) {
		t.Errorf("Open of a journal on a full disk: %v, want ENOSPC that says what to do", err)
	}
	free()
	_, k := mustOpen(t, path, Options{})
	wantRecords(t, k, "one")
}

func TestAReadOnlyDirectoryIsAClearError(t *testing.T) {
	dir := mount(t, unix.MS_RDONLY, "size=1m")
	for _, path := range []string{dir, filepath.Join(dir, "journal")} {
		_, _, err := open(path, Options{})
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "choose another directory") {
			t.Errorf("a new journal in %s: %v, want EROFS that says what to do", path, err)
		}
	}

	dir = mount(t, 0, "size=1m")
	j, _ := mustOpen(t, dir, Options{})
	mustAppend(t, j, "one")
	mustClose(t, j)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, _, err := open(dir, Options{})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mount "+dir+" writable") {
		t.Errorf("an existing journal: %v, want EROFS that says what to do", err)
	}
}
