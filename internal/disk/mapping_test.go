package disk

import (
	"os"
	"path/filepath"
	"testing"
)

func mapped(t *testing.T, contents string) *Mapping {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(contents), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := MapReadOnly(f)
	if err != nil {
		t.Fatal(err)
	}
	// The mapping must outlive both the descriptor and the name.
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

func TestMappingHoldsTheFile(t *testing.T) {
	m := mapped(t, "hello")
	if got := string(m.Bytes()); got != "hello" {
		t.Errorf("Bytes() = %q", got)
	}
	for name, call := range map[string]func() error{
		"Populate": func() error { return m.Populate(1, 4) }, "Random": m.Random, "Lock": m.Lock,
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMappingOfAnEmptyFile(t *testing.T) {
	m := mapped(t, "")
	if n := len(m.Bytes()); n != 0 {
		t.Errorf("%d bytes", n)
	}
	for name, call := range map[string]func() error{
		"Populate": func() error { return m.Populate(0, 0) }, "Random": m.Random, "Lock": m.Lock,
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMappingRefusesADirectory(t *testing.T) {
	d, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := MapReadOnly(d); err == nil {
		t.Error("a directory was mapped")
	}
}

func TestPopulateChecksItsRange(t *testing.T) {
	m := mapped(t, "hello")
	const most = int(^uint(0) >> 1)
	for _, r := range [][2]int{{-1, 1}, {0, -1}, {0, 6}, {6, 0}, {5, 1}, {1, most}, {most, most}} {
		if err := m.Populate(r[0], r[1]); err == nil {
			t.Errorf("Populate(%d, %d) of 5 bytes succeeded", r[0], r[1])
		}
	}
}

func TestPopulateOfATruncatedFileIsAnError(t *testing.T) {
	m, cut := truncatedMapping(t)
	if err := m.Populate(0, cut); err != nil {
		t.Errorf("what is left: %v", err)
	}
	if err := m.Populate(cut, 1); err == nil {
		t.Error("what is gone was populated")
	}
	if err := m.Populate(cut-1, 10_000); err == nil {
		t.Error("a range half gone was populated")
	}
	// The way of systems without the one call.
	if err := touch(m.Bytes()[:cut]); err != nil {
		t.Errorf("touching what is left: %v", err)
	}
	if err := touch(m.Bytes()); err == nil {
		t.Error("touching what is gone succeeded")
	}
}
