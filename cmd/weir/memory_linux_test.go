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
	most(t, 200, "generate", "--users", "2000000", "--items", "5", "--max-item", "16777215", "-o",
		filepath.Join(t.TempDir(), "feeds.weir"))
}

// What the flag allows is half as much again, and 32 MiB. A user with all the rows is what costs most for
// each of them.
func TestImportKeepsToItsMemory(t *testing.T) {
	dir := t.TempDir()
	rows := []byte("user,item,score\n2,1,1\n")
	for i := range int64(4_000_000) {
		rows = append(rows, "1,"...)
		rows = strconv.AppendInt(rows, i*7919%9_999_991, 10)
		rows = strconv.AppendInt(append(rows, ','), i%1000, 10)
		rows = append(rows, '\n')
	}
	source := filepath.Join(dir, "rows.csv")
	if err := os.WriteFile(source, rows, 0o600); err != nil {
		t.Fatal(err)
	}
	most(t, 64+32+32, "import", "--memory", "64MiB", "--max-bad", "1", source, "-o",
		filepath.Join(dir, "feeds.weir"))
}

// most runs a command, which may take so many MiB of memory.
func most(t *testing.T, mib int, args ...string) {
	t.Helper()
	peak := filepath.Join(t.TempDir(), "peak")
	cmd := exec.Command("weir", args...)
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
	if kib > mib<<10 {
		t.Errorf("it needed %d KiB at its peak, want at most %d", kib, mib<<10)
	}
}
