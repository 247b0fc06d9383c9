package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// names returns what is in dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q, error %v, want %q", path, got, err, want)
	}
}

func TestAtomicFileAppearsAtCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := WriteFileAtomic(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := CreateAtomic(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() (int, error){
		func() (int, error) { return a.Write([]byte("--new")) },
		func() (int, error) { return a.WriteAt([]byte("ab"), 0) },
	} {
		if _, err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if end, err := a.Seek(0, io.SeekEnd); end != 5 || err != nil {
		t.Errorf("Seek to the end: %d, %v", end, err)
	}
	back := make([]byte, 5)
	if _, err := a.ReadAt(back, 0); err != nil || string(back) != "abnew" {
		t.Errorf("ReadAt: %q, %v", back, err)
	}
	wantFile(t, path, "old")
	if err := a.Commit(); err != nil {
		t.Fatal(err)
	}
	wantFile(t, path, "abnew")
	if err := a.Abort(); err != nil {
		t.Errorf("Abort after Commit: %v", err)
	}
	wantFile(t, path, "abnew")
	if err := a.Commit(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Commit: %v, want ErrClosed", err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the directory holds %q, want one file", got)
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	a, err := CreateAtomic(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Abort(); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("the directory holds %q, want nothing", got)
	}
}

func TestFailedCommitLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	// A directory that is not empty cannot be replaced by a file, whoever asks.
	if err := os.MkdirAll(filepath.Join(path, "inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(path, []byte("new"), 0o644); err == nil {
		t.Fatal("a directory was replaced")
	}
	if got := names(t, dir); len(got) != 1 || got[0] != "file" {
		t.Errorf("the directory holds %q, want only the old entry", got)
	}
}

func TestDevicesAreNotReplaced(t *testing.T) {
	a, err := CreateAtomic(os.DevNull)
	if err == nil {
		a.Abort() //nolint:errcheck // it has failed already
		t.Fatalf("%s would be replaced", os.DevNull)
	}
	if want := os.DevNull + ": it is a device"; !strings.Contains(err.Error(), want) {
		t.Errorf("error %q does not say %q", err, want)
	}
}

func TestALinkIsReplacedWhereverItLeads(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Skip(err)
	}
	if err := WriteFileAtomic(link, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantFile(t, link, "new")
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the directory holds %q, want one file", got)
	}
}
