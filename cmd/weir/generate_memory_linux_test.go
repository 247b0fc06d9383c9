//go:build !race

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// The lists below take 50 MB, the users 2 million, and the counters of items all they may.
func TestGenerateNeedsLessThan200MiB(t *testing.T) {
	dir := t.TempDir()
	peak := filepath.Join(dir, "peak")
	cmd := exec.Command("weir", "generate", "--users", "2000000", "--items", "5", "--max-item", "16777215", "-o", filepath.Join(dir, "feeds.weir"))
	cmd.Env = append(os.Environ(), peakFile+"="+peak)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(peak)
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("peak of %d KiB", kib)
	if kib > 200<<10 {
		t.Errorf("it needed %d KiB at its peak, want at most %d", kib, 200<<10)
	}
}
