package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

// change applies edit to the file at path.
func change(t *testing.T, path string, edit func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, edit(b), 0o644); err != nil {
		t.Fatal(err)
	}
}

func flip(off int) func([]byte) []byte {
	return func(b []byte) []byte { b[off] ^= 0x10; return b }
}

func cutTo(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }

// contents returns all files of a journal with what is in them.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range files(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %d %x\n", name, len(b), xxh3.Hash(b))
	}
	return all.String()
}

// TestDamageIsRefused breaks a journal of a checkpoint and three segments, of which the second holds its
// position.
func TestDamageIsRefused(t *testing.T) {
	good := t.TempDir()
	j, k := mustOpen(t, good, Options{Segment: 4 * record.PageSize})
	n := 0
	fill := func(segments int64) {
		for j.segments.Load() < segments {
			k.records = append(k.records, numbered(t, j, n, n+1)...)
			n++
		}
	}
	fill(2)
	k.records = append(k.records, numbered(t, j, n, n+10)...)
	n += 10
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	state := len(k.records)
	fill(3)
	k.records = append(k.records, numbered(t, j, n, n+5)...)
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	middle := int(j.Position() - Position(j.last.Base()))
	k.records = append(k.records, numbered(t, j, n+5, n+10)...)
	mustClose(t, j)
	segments := segmentFiles(t, good)
	if len(segments) != 3 {
		t.Fatalf("%d segments, want 3", len(segments))
	}
	name := func(i int) string { return filepath.Base(segments[i]) }
	reseal := func(b []byte, checked int) []byte {
		binary.LittleEndian.PutUint64(b[checked:], xxh3.Hash(b[:checked]))
		return b
	}

	for _, c := range []struct {
		name string
		file string
		edit func([]byte) []byte // nil removes the file
		want error
		says []string
	}{
		{"magic of a segment", name(1), flip(0), record.ErrKind, []string{"weirjrnl"}},
		{"header of a segment", name(2), flip(20), record.ErrCorrupt, []string{"header", "offset 0"}},
		{"a segment shorter than its header", name(2), cutTo(100), record.ErrCorrupt,
			[]string{"header", "offset 0"}},
		{"an empty segment", name(2), cutTo(0), record.ErrKind, []string{"weirjrnl"}},
		{"a newer segment", name(2), func(b []byte) []byte { b[8] = 2; return reseal(b, 32) },
			record.ErrVersion, []string{"version 2", "reads version 1"}},
		{"a renamed segment", name(2), func(b []byte) []byte { b[24]++; return reseal(b, 32) },
			record.ErrCorrupt, []string{"renamed"}},
		{"a segment of another journal", name(2), func(b []byte) []byte { b[16]++; return reseal(b, 32) },
			record.ErrCorrupt, []string{"another journal"}},
		{"the segment of the checkpoint is missing", name(1), nil, record.ErrCorrupt, []string{"missing"}},
		{"a segment before the last is shorter", name(1), cutTo(3*record.PageSize + 100), record.ErrCorrupt,
			[]string{"missing"}},
		{"a frame before the last segment", name(1), flip(2*record.PageSize + 200), record.ErrCorrupt,
			[]string{"at offset"}},
		{"a synced frame of the last segment", name(2), flip(record.PageSize + record.FrameHeader),
			record.ErrCorrupt, []string{"at offset 4096"}},
		{"the header of a synced frame", name(2), flip(record.PageSize), record.ErrCorrupt,
			[]string{"at offset 4096"}},
		{"the last frame before a sync", name(2), flip(middle - 1), record.ErrCorrupt, []string{"at offset"}},
		{"a frame that only Close knows to be synced", name(2), flip(2*record.PageSize + record.FrameHeader),
			record.ErrCorrupt, []string{"at offset"}},
		{"zeros in the last segment", name(2), func(b []byte) []byte {
			clear(b[record.PageSize:middle])
			return b
		}, record.ErrCorrupt, []string{"at offset 4096"}},
		{"magic of the checkpoint", checkpointName, flip(0), record.ErrKind, []string{"weirckpt"}},
		{"header of the checkpoint", checkpointName, flip(30), record.ErrCorrupt,
			[]string{"header", "offset 0"}},
		{"a newer checkpoint", checkpointName, func(b []byte) []byte { b[8] = 9; return reseal(b, 48) },
			record.ErrVersion, []string{"version 9"}},
		{"a checkpoint of another journal", checkpointName, func(b []byte) []byte {
			b[16]++
			return reseal(b, 48)
		}, record.ErrCorrupt, []string{"another journal"}},
		{"a checkpoint beyond the end", checkpointName, func(b []byte) []byte {
			b[29] = 1
			return reseal(b, 48)
		}, record.ErrCorrupt, []string{"was cut"}},
		{"a checkpoint between frames", checkpointName, func(b []byte) []byte {
			b[24]++
			return reseal(b, 48)
		}, record.ErrCorrupt, []string{"at offset"}},
		{"state of the checkpoint", checkpointName, flip(record.PageSize + 1), record.ErrCorrupt,
			[]string{"offset 4096", "state"}},
		{"a longer checkpoint", checkpointName, func(b []byte) []byte { return append(b, 0) },
			record.ErrCorrupt, []string{"bytes, not the"}},
		{"a shorter checkpoint", checkpointName, cutTo(record.PageSize + 70), record.ErrCorrupt,
			[]string{"bytes, not the"}},
		{"an empty checkpoint", checkpointName, cutTo(0), record.ErrKind, []string{"weirckpt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copyDir(t, good)
			path := filepath.Join(dir, c.file)
			if c.edit == nil {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				change(t, path, c.edit)
			}
			before := contents(t, dir)
			_, _, err := open(dir, Options{})
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			for _, says := range append(c.says, dir) {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("error %q does not say %q", err, says)
				}
			}
			if after := contents(t, dir); after != before {
				t.Errorf("the directory was\n%sand is\n%s", before, after)
			}
			j, got, err := open(dir, Options{AcceptLoss: true})
			if c.file == checkpointName && !strings.HasPrefix(c.name, "a checkpoint") ||
				errors.Is(c.want, record.ErrVersion) {
				if !errors.Is(err, c.want) || contents(t, dir) != before {
					t.Fatalf("error %v with the loss accepted, want %v: nothing can be kept", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatalf("with the loss accepted: %v", err)
			}
			if n := len(got.records); n < state || n == len(k.records) ||
				!slices.Equal(got.records, k.records[:n]) {
				if c.file != checkpointName {
					t.Errorf("%d records are left, %d bytes lost, want the first %d or more", n, j.Cut(),
						state)
				}
			}
			mustAppend(t, j, "more")
			mustClose(t, j)
			_, again := mustOpen(t, dir, Options{})
			wantRecords(t, again, append(got.records, "more")...)
		})
	}

	for _, c := range []struct {
		name  string
		files []string
		says  string
	}{
		{"the first segment needed and all before", segments[:2], "where its checkpoint ends"},
		{"all segments", segments, "where its checkpoint ends"},
		{"the checkpoint", []string{filepath.Join(good, checkpointName)}, "has position 0"},
	} {
		t.Run(c.name+" missing", func(t *testing.T) {
			dir := copyDir(t, good)
			if c.name == "the checkpoint" { // and with it the segments it made superfluous
				c.files = append(c.files, segments[0])
			}
			for _, path := range c.files {
				if err := os.Remove(filepath.Join(dir, filepath.Base(path))); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := open(dir, Options{}); !errors.Is(err, record.ErrCorrupt) ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want ErrCorrupt that says %q", err, c.says)
			}
		})
	}

	// The undamaged one is what the others differ from.
	_, all := mustOpen(t, copyDir(t, good), Options{})
	wantRecords(t, all, k.records...)
}

func TestTheEndIsCutWhereverItWasTorn(t *testing.T) {
	good := t.TempDir()
	j, _ := mustOpen(t, good, Options{})
	want := numbered(t, j, 0, 3)
	whole := int(j.Position())
	mustAppend(t, j, "torn", "in", "two")
	killed := copyDir(t, good)
	size := int(j.Position())
	mustClose(t, j)

	for n := whole; n < size; n++ {
		dir := copyDir(t, killed)
		change(t, segmentFiles(t, dir)[0], cutTo(n))
		var said bytes.Buffer
		j, k := mustOpen(t, dir, Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
		wantRecords(t, k, want...)
		if int(j.Position()) != whole {
			t.Fatalf("cut at %d: position %d, want %d", n, j.Position(), whole)
		}
		cut := fmt.Sprintf("offset=%d bytes=%d", whole, n-whole)
		if told := strings.Contains(said.String(), cut); told != (n > whole) {
			t.Fatalf("cut at %d: the log says %q, want %q if anything was cut", n, said.String(), cut)
		}
		mustAppend(t, j, "more")
		mustClose(t, j)
		_, k = mustOpen(t, dir, Options{})
		wantRecords(t, k, append(want, "more")...)
	}
}

// What follows the torn frame may be whole, when the disk wrote it first.
func TestWholeFramesBehindATornOneAreCutToo(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	want := numbered(t, j, 0, 3)
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	torn := int(j.Position())
	torn += -torn & (record.PageSize - 1)
	numbered(t, j, 3, 50)
	killed := copyDir(t, dir)
	for _, edit := range []func([]byte) []byte{
		flip(torn), flip(torn + record.FrameHeader + 1),
		func(b []byte) []byte { clear(b[torn : torn+512]); return b },
	} {
		dir := copyDir(t, killed)
		change(t, segmentFiles(t, dir)[0], edit)
		_, k := mustOpen(t, dir, Options{})
		wantRecords(t, k, want...)
	}
}

// What was written elsewhere is no frame, be it whole: blocks of a removed file can come back under a new
// one.
func TestAFrameIsValidInItsPlaceAlone(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	mustAppend(t, j, "one")
	first := j.Position()
	mustAppend(t, j, "two")
	want := []string{"one", "two"}
	end := j.Position()
	frame := func(b []byte) []byte { return b[record.PageSize:first] }

	other := t.TempDir()
	o, _ := mustOpen(t, other, Options{})
	for o.Position() < end {
		mustAppend(t, o, "xxx")
	}
	mustAppend(t, o, "of another journal")
	foreign, err := os.ReadFile(segmentFiles(t, other)[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func([]byte) []byte{
		"of this file":       func(b []byte) []byte { return append(b, frame(b)...) },
		"of another journal": func(b []byte) []byte { return append(b, foreign[len(b):]...) },
	} {
		copied := copyDir(t, dir)
		change(t, segmentFiles(t, copied)[0], edit)
		j, k := mustOpen(t, copied, Options{})
		if !slices.Equal(k.records, want) || j.cut == 0 {
			t.Errorf("a frame %s: records %q, %d bytes cut", name, k.records, j.cut)
		}
	}
}

func TestLeftoversOfAKillAreRemoved(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	mustAppend(t, j, "one")
	mustClose(t, j)
	leftovers := []string{".checkpoint.0123456789abcdef.tmp", "." + segmentName(12345) +
		".0123456789abcdef.tmp"}
	others := []string{".mine.tmp", "notes.txt", "7.journal"}
	for _, name := range append(leftovers, others...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, k := mustOpen(t, dir, Options{})
	wantRecords(t, k, "one")
	got := fmt.Sprint(files(t, dir))
	for _, name := range leftovers {
		if strings.Contains(got, name) {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range others {
		if !strings.Contains(got, name) {
			t.Errorf("%s is gone", name)
		}
	}
}

// A frame whose checksums are right and whose records are not was written by a program with a mistake: not
// ours to cut off.
func TestImpossibleRecordsAreRefused(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	mustAppend(t, j, "one")
	b := batchOf("two")
	b.buf[record.FrameHeader] = 100 // longer than the frame
	if err := j.Append(b); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, "three")
	mustClose(t, j)
	if _, _, err := open(dir, Options{}); !errors.Is(err, record.ErrCorrupt) ||
		!strings.Contains(err.Error(), "no program wrote") {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
}

// After a failed sync the cache may hold what the disk does not, and say that it was written. Whoever opens
// the journal then writes it again, but nothing that is known to be synced.
func TestOpenWritesAgainWhatMayBeMissing(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	want := numbered(t, j, 0, 10)
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	want = append(want, numbered(t, j, 10, 300)...)
	from := int64(2 * record.PageSize)
	size := int64(j.Position())
	written := int64(0)
	o := Options{Faults: disk.Faults{FailWrite: func(n int) (int, error) {
		written += int64(n)
		return n, nil
	}}}
	_, k := mustOpen(t, copyDir(t, dir), o)
	wantRecords(t, k, want...)
	if written != size-from {
		t.Errorf("%d bytes were written again, want %d", written, size-from)
	}

	mustClose(t, j)
	written = 0
	mustOpen(t, dir, o)
	if written > record.PageSize {
		t.Errorf("%d bytes were written again of a journal that was closed, want the last page at most",
			written)
	}
}

// A sync that ends with a page is followed by a frame without a gap, which begins where it says that all
// was synced.
func TestDamageBeforeAFrameThatFollowsASyncAtOnceIsRefused(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir, Options{})
	mustAppend(t, j, strings.Repeat("x", record.PageSize-record.FrameHeader-2))
	if j.Position() != record.PageSize+record.PageSize {
		t.Fatalf("the first frame ends at %d, want %d", j.Position(), record.PageSize+record.PageSize)
	}
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, "two")
	killed := copyDir(t, dir)
	change(t, segmentFiles(t, killed)[0], flip(record.PageSize+100))
	if _, _, err := open(killed, Options{}); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
}
