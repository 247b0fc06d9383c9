package cells

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/systest"
)

func TestFullDiskIsAnErrorAndNothingIsLost(t *testing.T) {
	inBothModes(t, func(t *testing.T, o Options) {
		dir := systest.Disk(t, "1m")
		path := filepath.Join(dir, "test.cells")
		s := mustOpen(t, path, 4096, o)
		for i := range s.Len() {
			mustAdvance(t, s, i)
		}
		err := s.Grow(1 << 20)
		if !errors.Is(err, syscall.ENOSPC) ||
			!strings.Contains(err.Error(), "make room on the disk of "+dir) {
			t.Fatalf("Grow on a full disk: %v, want ENOSPC that says what to do", err)
		}
		for i := range s.Len() {
			mustAdvance(t, s, i)
		}
		if err := s.Grow(20_000); err != nil {
			t.Errorf("Grow to what fits: %v", err)
		}
		mustClose(t, s)

		if _, err := Open(path, 1<<20, o); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Open on a full disk: %v, want ENOSPC", err)
		}
		if _, err := Open(filepath.Join(dir, "new.cells"), 1<<20, o); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Open of a new file on a full disk: %v, want ENOSPC", err)
		}
		s = mustOpen(t, path, 20_000, o)
		for i := range uint64(4096) {
			wantCell(t, s, i, 2)
		}
		mustClose(t, s)
	})
}

// File systems differ in what they want room for that they have given already.
func TestAFullDiskTakesSwapsAndRestarts(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			dir := systest.DiskOf(t, kind)
			path := filepath.Join(dir, "test.cells")
			mustClose(t, mustOpen(t, path, 50_000, Options{}))
			fill, err := os.Create(filepath.Join(dir, "fill"))
			if err != nil {
				t.Fatal(err)
			}
			defer fill.Close()
			for size := 1 << 20; size >= 512; size /= 2 {
				for b := make([]byte, size); err == nil; {
					_, err = fill.Write(b)
				}
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
				err = nil
			}
			for round := range uint64(3) {
				s := mustOpen(t, path, 50_000, Options{})
				for i := range s.Len() {
					wantCell(t, s, i, round)
					mustAdvance(t, s, i)
				}
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				mustClose(t, s)
			}
		})
	}
}

// A file copied with holes, on a disk that cannot fill them, must not become a fault in an advance.
func TestHolesOnAFullDiskAreAnErrorOfOpen(t *testing.T) {
	path := filepath.Join(systest.Disk(t, "256k"), "test.cells")
	mustClose(t, mustOpen(t, path, 1, Options{}))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := header{cells: 100_000}
	if _, err := f.WriteAt(h.encode(), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(fileSize(h.cells)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, 0, Options{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want ENOSPC", err)
	}
}

func TestReadOnlyDirectoryIsAClearError(t *testing.T) {
	dir := systest.Disk(t, "1m")
	systest.MakeReadOnly(t, dir)
	_, err := Open(filepath.Join(dir, "test.cells"), 10, Options{})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mount "+dir+" writable") {
		t.Errorf("new file: %v, want EROFS that says what to do", err)
	}

	dir = systest.Disk(t, "1m")
	path := filepath.Join(dir, "test.cells")
	mustClose(t, mustOpen(t, path, 10, Options{}))
	systest.MakeReadOnly(t, dir)
	_, err = Open(path, 10, Options{})
	if !errors.Is(err, syscall.EROFS) ||
		!strings.Contains(err.Error(), "make the file and its directory writable") {
		t.Errorf("existing file: %v, want EROFS that says what to do", err)
	}
}

func TestNamesLast(t *testing.T) {
	path := temp(t)
	watched := systest.Watch(t, filepath.Dir(path))
	mustClose(t, mustOpen(t, path, 10, Options{}))
	watched.WantSync("rename test.cells.redo", "")

	// A log is gone for good before there are new cells that it is not of.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	watched = systest.Watch(t, filepath.Dir(path))
	mustClose(t, mustOpen(t, path, 10, Options{}))
	watched.WantSync("remove test.cells.redo", "rename test.cells")
}
