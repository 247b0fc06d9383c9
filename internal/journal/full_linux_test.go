package journal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/disk/record"
	"weir/internal/systest"
)

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
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, record.ErrPoisoned) ||
		!strings.Contains(err.Error(), "make room on the disk of "+dir) {
		t.Fatalf("%s on a full disk: %v, want ENOSPC that says what to do, and no poison", what, err)
	}
}

func TestAFullDiskCostsOnlyWhatComesMeanwhile(t *testing.T) {
	dir := systest.Disk(t, "1m")
	j, k := mustOpen(t, dir, Options{Segment: 4 * record.PageSize})
	long := strings.Repeat("long ", 1000)
	refused := 0
	for range 20 {
		k.records = append(k.records, numbered(t, j, len(k.records), len(k.records)+7)...)
		free := fill(t, dir)
		// Small ones may find room in the last page; the others cannot, and some find that the next segment
		// cannot be begun.
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

func TestAFullDiskIsAnErrorOfANewJournalAlone(t *testing.T) {
	dir := systest.Disk(t, "64k")
	path := filepath.Join(dir, "journal")
	free := fill(t, dir)
	if _, _, err := open(path, Options{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Open of a new journal on a full disk: %v, want ENOSPC", err)
	}
	free()
	j, _ := mustOpen(t, path, Options{}) // what was left of the first try is no harm
	mustAppend(t, j, "one")
	mustClose(t, j)
	fill(t, dir)
	_, k := mustOpen(t, path, Options{}) // one that is there needs no room
	wantRecords(t, k, "one")
}

func TestAReadOnlyDirectoryIsAClearError(t *testing.T) {
	dir := systest.Disk(t, "1m")
	systest.MakeReadOnly(t, dir)
	for _, path := range []string{dir, filepath.Join(dir, "journal")} {
		_, _, err := open(path, Options{})
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "choose another directory") {
			t.Errorf("a new journal in %s: %v, want EROFS that says what to do", path, err)
		}
	}

	dir = systest.Disk(t, "1m")
	j, _ := mustOpen(t, dir, Options{})
	mustAppend(t, j, "one")
	mustClose(t, j)
	systest.MakeReadOnly(t, dir)
	_, _, err := open(dir, Options{})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mount "+dir+" writable") {
		t.Errorf("an existing journal: %v, want EROFS that says what to do", err)
	}
}

// A state that a full disk takes a part of is none.
func TestACheckpointThatDoesNotFitLeavesTheFormerOne(t *testing.T) {
	dir := systest.Disk(t, "128k")
	j, k := mustOpen(t, dir, Options{})
	k.records = numbered(t, j, 0, 10)
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, "more")
	for _, size := range []int{1 << 17, 1 << 20} { // below the buffer's size, and beyond it
		err := j.Checkpoint(j.Position(), func(w io.Writer) error {
			_, err := w.Write(make([]byte, size))
			return err
		})
		wantFull(t, "a checkpoint", dir, err)
	}
	mustClose(t, j)
	_, got := mustOpen(t, dir, Options{})
	wantRecords(t, got, append(k.records, "more")...)
}

// The name of a journal has to last as what is in it does.
func TestANewDirectoryIsSyncedIntoItsParent(t *testing.T) {
	parent := t.TempDir()
	watched := systest.Watch(t, parent)
	mustOpen(t, filepath.Join(parent, "journal"), Options{})
	watched.WantSync("create journal", "")
}
