package cells

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/disk/record"
)

// written returns the bytes of a file of ten cells that hold 1 to 10.
func written(t *testing.T) []byte {
	t.Helper()
	path := temp(t)
	s := mustOpen(t, path, 10, Options{})
	for i := range uint64(10) {
		if ok, err := s.CompareAndSwap(i, 0, i+1); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	mustClose(t, s)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// file puts data into a file.
func file(t *testing.T, data []byte) string {
	t.Helper()
	path := temp(t)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantTen(t *testing.T, s *Store) {
	t.Helper()
	if s.Len() != 10 {
		t.Fatalf("Len() = %d, want 10", s.Len())
	}
	for i := range uint64(10) {
		wantCell(t, s, i, i+1)
	}
}

func TestDamageIsRefusedAndNotTouched(t *testing.T) {
	good := written(t)
	for name, damage := range map[string]func([]byte) []byte{
		"a damaged header":         func(d []byte) []byte { d[30] ^= 1; return d },
		"a header of zeros":        func(d []byte) []byte { clear(d[:dataOffset]); return d },
		"an empty file":            func(d []byte) []byte { return nil },
		"one byte of header short": func(d []byte) []byte { return d[:dataOffset-1] },
		"no cells":                 func(d []byte) []byte { return d[:dataOffset] },
		"the last cell cut":        func(d []byte) []byte { return d[:dataOffset+127] },
		"another kind of file":     func(d []byte) []byte { return bytes.Repeat([]byte("text\n"), 10_000) },
		"more cells than any file": func(d []byte) []byte {
			copy(d, header{cells: 1 << 61}.encode())
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := damage(bytes.Clone(good))
			path := file(t, data)
			_, err := Open(path, 10, Options{})
			if !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("error %v, want ErrCorrupt", err)
			}
			for _, want := range []string{path, "restore it from a backup"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			wantUntouched(t, path, data)
		})
	}
}

func wantUntouched(t *testing.T, path string, data []byte) {
	t.Helper()
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(after, data) {
		t.Errorf("the file was changed (%d bytes, were %d), error %v", len(after), len(data), err)
	}
}

func TestFileThatEndsWithItsLastCellIsWhole(t *testing.T) {
	s := mustOpen(t, file(t, written(t)[:dataOffset+128]), 10, Options{})
	wantTen(t, s)
}

func TestFileLongerThanItsHeaderIsFine(t *testing.T) {
	s := mustOpen(t, file(t, append(written(t), make([]byte, 100_001)...)), 20_000, Options{})
	wantCell(t, s, 9, 10)
	wantCell(t, s, 19_999, 0)
	mustAdvance(t, s, 19_999)
}

func TestAnotherVersionIsRefusedAndNotTouched(t *testing.T) {
	data := written(t)
	newer := format
	newer.Version++
	copy(data, newer.Page(header{cells: 10}.encode()[16:48]))
	path := file(t, data)
	_, err := Open(path, 10, Options{})
	if !errors.Is(err, record.ErrVersion) {
		t.Fatalf("error %v, want ErrVersion", err)
	}
	for _, want := range []string{path, "has version 2", "reads version 1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	wantUntouched(t, path, data)
}

// flip returns data with one bit changed.
func flip(data []byte, bit int) []byte {
	data = bytes.Clone(data)
	data[bit/8] ^= 1 << (bit % 8)
	return data
}

// rebooted returns the bytes of a file as another boot of the system finds them after a loss of power.
func rebooted(data []byte, cells uint64) []byte {
	data = bytes.Clone(data)
	copy(data, header{cells: cells, boot: thisBoot() + 1}.encode())
	return data
}

// Any bit of a closed file that is another is noticed, and of one that was open when the power went nearly
// any: what looks like a first change or an advance that was under way is let pass.
func TestAFlippedBitOfACellIsNoticed(t *testing.T) {
	mapped(t)
	closed := written(t)
	power := rebooted(closed, 10)
	passed := 0
	for bit := 8 * dataOffset; bit < 8*(dataOffset+128); bit += 7 {
		path := file(t, flip(closed, bit))
		if _, err := Open(path, 10, Options{}); !errors.Is(err, record.ErrCorrupt) ||
			!strings.Contains(err.Error(), "weir repair --accept-loss") {
			t.Fatalf("bit %d of a closed file: %v, want record.ErrCorrupt that says how to go on", bit, err)
		}
		wantUntouched(t, path, flip(closed, bit))
		s := mustOpen(t, path, 10, Options{AcceptLoss: true, SyncInterval: time.Hour})
		mustClose(t, s)
		mustClose(t, mustOpen(t, path, 10, Options{}))
		s, err := Open(file(t, flip(power, bit)), 10, Options{})
		if err != nil {
			continue
		}
		for i := range uint64(10) {
			if got := s.Load(i); got < i+1 || got > i+1+255 {
				passed++
			}
		}
		mustClose(t, s)
	}
	if passed > 8 { // of 147: others share a checksum with an advance
		t.Errorf("%d flips that are no advance pass after a loss of power", passed)
	}
}

// A process that is killed between a change and its count has damaged nothing, nor has one that loses its
// power there.
func TestAChangeThatWasUnderWayIsNoDamage(t *testing.T) {
	mapped(t)
	closed := written(t)
	for name, c := range map[string]struct {
		value uint64
		boot  uint64
	}{
		"an advance, killed":          {3 + 200, thisBoot()},
		"another list, killed":        {1 << 60, thisBoot()},
		"an advance, power lost":      {3 + 200, thisBoot() + 1},
		"an advance by one, the same": {3 + 1, thisBoot() + 1},
	} {
		data := bytes.Clone(closed)
		copy(data, header{cells: 10, boot: c.boot}.encode())
		binary.NativeEndian.PutUint64(data[dataOffset+8*2:], c.value)
		path := file(t, data)
		s, err := Open(path, 10, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantCell(t, s, 2, c.value)
		mustClose(t, s)
		mustClose(t, mustOpen(t, path, 10, Options{})) // its checksum is right now
	}
}

// FuzzOpen gives Open any file: it opens it or refuses it, and leaves what it refuses alone.
func FuzzOpen(f *testing.F) {
	page := func(h header) []byte { return append(h.encode(), make([]byte, 128)...) }
	f.Add(page(header{cells: 10}), false)
	f.Add(page(header{cells: 14, boot: thisBoot(), clean: true}), true)
	f.Add(page(header{cells: 1 << 60}), true)
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal && len(data) > dataOffset {
			copy(data, format.Page(data[16:48]))
		}
		path := file(t, data)
		s, err := Open(path, 0, Options{MaxCells: 1 << 20})
		if err != nil {
			if errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrVersion) {
				wantUntouched(t, path, data)
			}
			return
		}
		if max := uint64(len(data)-dataOffset) / 64 * cellsInLine; s.Len() > max {
			t.Fatalf("Len() = %d of a file for %d cells", s.Len(), max)
		}
		mustClose(t, s)
	})
}
