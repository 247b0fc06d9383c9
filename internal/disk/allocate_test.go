package disk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAllocateKeepsWhatIsThereAndAddsZeros(t *testing.T) {
	for name, allocate := range map[string]func(*os.File, int64, int64) error{
		"Allocate": Allocate, "writeZeros": writeZeros,
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "file"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString("kept"); err != nil {
				t.Fatal(err)
			}
			const size = 3<<20 + 5
			if err := allocate(f, 2, size-2); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(f.Name())
			if err != nil || len(data) != size || string(data[:4]) != "kept" {
				t.Fatalf("%d bytes that begin with %q, error %v", len(data), data[:4], err)
			}
			for i, b := range data[4:] {
				if b != 0 {
					t.Fatalf("byte %d is %d, want 0", i+4, b)
				}
			}
			if err := allocate(f, 0, 10); err != nil {
				t.Fatal(err)
			}
			if info, err := f.Stat(); err != nil || info.Size() != size {
				t.Errorf("allocating less changed the size to %d, error %v", info.Size(), err)
			}
		})
	}
}

func TestFaultsComeBeforeTheRealThing(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	broken := errors.New("broken")
	x := Faults{FailSync: func() error { return broken }, FailAllocate: func() error { return broken }}
	if err := x.SyncData(f); !errors.Is(err, broken) {
		t.Errorf("SyncData: %v", err)
	}
	if err := x.Allocate(f, 0, 100); !errors.Is(err, broken) {
		t.Errorf("Allocate: %v", err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("size %d, error %v, want the file untouched", info.Size(), err)
	}
	broken = nil
	if err := errors.Join(x.SyncData(f), x.Allocate(f, 0, 100), SyncDir(filepath.Dir(f.Name()))); err != nil {
		t.Fatal(err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != 100 {
		t.Errorf("size %d, error %v, want 100", info.Size(), err)
	}
}

func TestSyncDirOfAMissingDirectoryFails(t *testing.T) {
	if err := SyncDir(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing directory was synced")
	}
}
