package disk

import (
	"os"
	"runtime"
	"testing"
)

func TestATemporaryFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := CreateTemp(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || runtime.GOOS != "windows" && len(entries) != 0 {
		t.Errorf("while it is open: %v %v, want no name that a killed process leaves behind", entries, err)
	}
	if _, err := f.WriteAt([]byte("held"), 0); err != nil {
		t.Error(err)
	}
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "held" {
		t.Errorf("it holds %q, %v", b, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v %v", entries, err)
	}
}

// As on systems that do not remove what is open.
func TestATemporaryFileThatKeptItsNameLosesItByClose(t *testing.T) {
	named, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := (&TempFile{named, true}).Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(named.Name()); !os.IsNotExist(err) {
		t.Errorf("left over: %v", err)
	}
}
