package disk

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// advice returns the flags that the kernel has for the mapping of a file.
func advice(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skipf("no /proc/self/smaps: %v", err)
	}
	_, after, found := strings.Cut(string(text), path+"\n")
	_, flags, named := strings.Cut(after, "VmFlags:")
	if !found || !named {
		t.Fatalf("%s is not among the mappings", path)
	}
	line, _, _ := strings.Cut(flags, "\n")
	return strings.Fields(line)
}

func TestAMappingIsReadByHugePagesUntilItsReadsAreRandom(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skipf("a kernel without huge pages: %v", err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 4<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := MapReadOnly(f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got := advice(t, path); !slices.Contains(got, "hg") || slices.Contains(got, "rr") {
		t.Errorf("at first the flags are %v, want hg and not rr", got)
	}
	if err := m.Random(); err != nil {
		t.Fatal(err)
	}
	if got := advice(t, path); slices.Contains(got, "hg") || !slices.Contains(got, "nh") ||
		!slices.Contains(got, "rr") {
		t.Errorf("then the flags are %v, want nh and rr and not hg", got)
	}
}
