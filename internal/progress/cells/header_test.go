package cells

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"weir/internal/disk"

	"github.com/zeebo/xxh3"
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

func TestOneDamagedHeaderPageIsRepaired(t *testing.T) {
	good := written(t)
	for page := range 2 {
		for at := range 40 { // every byte that means something
			data := bytes.Clone(good)
			data[page*pageSize+at] ^= 0x10
			path := file(t, data)
			var log bytes.Buffer
			s := mustOpen(t, path, 0, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			wantTen(t, s)
			mustClose(t, s)
			if !strings.Contains(log.String(), "damaged header page") {
				t.Fatalf("page %d, byte %d: nothing was logged: %q", page, at, log.String())
			}
			// Now the other one may be damaged, and nothing is lost.
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			clear(data[(1-page)*pageSize:][:pageSize])
			s = mustOpen(t, file(t, data), 0, Options{})
			wantTen(t, s)
			mustClose(t, s)
		}
	}
}

func TestNewestHeaderPageWins(t *testing.T) {
	for _, newest := range []uint64{8, 9} { // one in each page
		data := written(t)
		for sequence := newest - 1; sequence <= newest; sequence++ {
			h := header{version: version, sequence: sequence, cells: 3}
			if sequence == newest {
				h.cells = 5
			}
			copy(data[h.offset():], h.encode())
		}
		s := mustOpen(t, file(t, data), 0, Options{})
		if s.Len() != 5 {
			t.Errorf("Len() = %d, want the 5 of the newest page", s.Len())
		}
		// What an older number of cells hid is there again, not zeroed.
		if err := s.Grow(10); err != nil {
			t.Fatal(err)
		}
		wantTen(t, s)
		mustClose(t, s)
	}
}

func TestDamageIsRefusedAndNotTouched(t *testing.T) {
	good := written(t)
	big := header{version: version, sequence: 100, cells: 1 << 61}
	for name, damage := range map[string]func([]byte) []byte{
		"both header pages damaged": func(d []byte) []byte { d[9] ^= 1; d[pageSize+30] ^= 1; return d },
		"both header pages zero":    func(d []byte) []byte { clear(d[:dataOffset]); return d },
		"an empty file":             func(d []byte) []byte { return nil },
		"half a header":             func(d []byte) []byte { return d[:pageSize] },
		"one byte of header short":  func(d []byte) []byte { return d[:dataOffset-1] },
		"no cells":                  func(d []byte) []byte { return d[:dataOffset] },
		"the last cell cut":         func(d []byte) []byte { return d[:dataOffset+127] },
		"another kind of file":      func(d []byte) []byte { return bytes.Repeat([]byte("text\n"), 10_000) },
		"more cells than any file":  func(d []byte) []byte { copy(d[big.offset():], big.encode()); return d },
	} {
		t.Run(name, func(t *testing.T) {
			data := damage(bytes.Clone(good))
			path := file(t, data)
			_, err := Open(path, 10, Options{})
			if !errors.Is(err, ErrCorrupt) {
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
	newer := header{version: version + 1, sequence: 50, cells: 10}
	copy(data[newer.offset():], newer.encode())
	path := file(t, data)
	_, err := Open(path, 10, Options{})
	if !errors.Is(err, ErrVersion) {
		t.Fatalf("error %v, want ErrVersion", err)
	}
	for _, want := range []string{path, "has version 3", "reads version 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	wantUntouched(t, path, data)
}

func TestHeaderPageIsLaidOutAsDocumented(t *testing.T) {
	page := header{version: 1, sequence: 0x1112131415161718, cells: 0x2122232425262728}.encode()
	if len(page) != 4096 || string(page[:8]) != "weircell" {
		t.Errorf("%d bytes that begin with %q", len(page), page[:8])
	}
	e := binary.LittleEndian
	if e.Uint32(page[8:]) != 1 || e.Uint32(page[12:]) != 0 || e.Uint64(page[16:]) != 0x1112131415161718 || e.Uint64(page[24:]) != 0x2122232425262728 {
		t.Errorf("page begins with % x", page[:40])
	}
	if !bytes.Equal(page[40:], make([]byte, 4096-40)) {
		t.Error("the rest is not zero")
	}
}

// FuzzOpen gives Open any header pages before ten cells, with their checksums set right or left as they are: it opens
// the file or refuses it, and leaves what it refuses alone.
func FuzzOpen(f *testing.F) {
	seed := func(h header) []byte { return h.encode()[:checkedLen+8] }
	a := seed(header{version: version, sequence: 4, cells: 10})
	b := seed(header{version: version, sequence: 5, cells: 9})
	f.Add(a, b, false, false)
	f.Add(a[:39], b, false, true)
	f.Add([]byte{}, seed(header{version: version + 1, sequence: 1, cells: 1}), true, true)
	f.Add(seed(header{version: version, sequence: ^uint64(0), cells: 1 << 60}), b, false, false)
	f.Fuzz(func(t *testing.T, a, b []byte, sealA, sealB bool) {
		data := make([]byte, dataOffset+128)
		for i, page := range []struct {
			bytes []byte
			seal  bool
		}{{a, sealA}, {b, sealB}} {
			at := data[i*pageSize:][:pageSize]
			copy(at, page.bytes)
			if page.seal {
				binary.NativeEndian.PutUint64(at, magic)
				binary.NativeEndian.PutUint64(at[checkedLen:], xxh3.Hash(at[:checkedLen]))
			}
		}
		for i := range 10 {
			data[dataOffset+8*int(word(uint64(i)))] = byte(i + 1)
		}
		path := file(t, data)
		s, err := Open(path, 0, Options{})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Errorf("error %v is neither ErrCorrupt nor ErrVersion", err)
			}
			wantUntouched(t, path, data)
			return
		}
		if s.Len() > 2*cellsInLine {
			t.Fatalf("Len() = %d of a file of two lines", s.Len())
		}
		for i := range min(s.Len(), 10) {
			wantCell(t, s, i, i+1)
		}
		mustClose(t, s)
	})
}

// A power failure may tear every page that was written since the last sync: of the header's two there must be one at most.
func TestAtMostOneHeaderPageIsOnItsWay(t *testing.T) {
	path := temp(t)
	var synced []byte // the header as the disk has it at least
	read := func() []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b[:dataOffset]
	}
	syncs := 0
	check := func() {
		now := read()
		if synced != nil && !bytes.Equal(now[:pageSize], synced[:pageSize]) && !bytes.Equal(now[pageSize:], synced[pageSize:]) {
			t.Errorf("before sync %d both header pages had changed", syncs)
		}
		synced = now
	}
	s := mustOpen(t, path, 0, Options{Faults: disk.Faults{FailSync: func() error { syncs++; check(); return nil }}})
	synced = read() // as Open has left it
	for _, cells := range []uint64{10, 5000, 100_000} {
		if err := s.Grow(cells); err != nil {
			t.Fatal(err)
		}
		if now := read(); !bytes.Equal(now, synced) {
			t.Errorf("after growing to %d cells the header is not on the disk", cells)
		}
	}
	mustClose(t, s)
	if syncs < 6 {
		t.Errorf("only %d syncs", syncs)
	}
}
