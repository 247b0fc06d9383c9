package arms

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/disk/record"

	"github.com/zeebo/xxh3"
)

// sample is a small file with everything in it.
func sample(t testing.TB) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12))
	var rows []added
	for i, k := range hard(r, 40) {
		rows = append(rows, added{level: Level(i % 3), key: k, a: 1 + r.Float64(), b: 1 + r.Float64()})
	}
	for i, k := range hard(r, 20) {
		rows = append(rows, added{key: k, segment: []string{"young", "old", "new"}[i%3]})
	}
	path, _ := write(t, Options{}, rows)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// use opens and loads what is said to be a file of arms and, if that works, asks it for everything. It must
// not panic.
func use(t testing.TB, dir string, data []byte) error {
	t.Helper()
	path := filepath.Join(dir, "arms.weir")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	f, err := Open(path)
	if err != nil {
		if !strings.Contains(err.Error(), path) {
			t.Errorf("%q does not name the file", err)
		}
		return err
	}
	if err := f.Load(t.Context(), nil); err != nil {
		return err
	}
	keys := append(words(data[min(len(data), headerBytes):]), Key{0, numberHalf}, Key{0, math.MaxUint64},
		Key{math.MaxUint64, numberHalf}, Key{1, leastHash})
	for at := headerBytes; at+cellBytes <= len(data); at += cellBytes {
		keys = append(keys, words(data[at:at+16])...)
	}
	var found Found
	f.FindAll(&found, keys)
	for i, k := range keys {
		if a, b, scopes, _ := f.FindItem(k); a != found.Alpha[i] || b != found.Beta[i] ||
			scopes != found.Scopes[i] {
			t.Errorf("arm %x is %v %v %v, and among others %v %v %v", k, a, b, scopes, found.Alpha[i],
				found.Beta[i], found.Scopes[i])
		}
		if a, b, ok := f.Find(k); ok && (!ValidShape(a) || !ValidShape(b)) {
			t.Errorf("arm %x is %v %v", k, a, b)
		}
		f.Segment(k)
	}
	return nil
}

func damaged(err error) bool {
	return errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrVersion)
}

func TestDamageIsRefused(t *testing.T) {
	dir := t.TempDir()
	good := sample(t)
	if err := use(t, dir, good); err != nil {
		t.Fatal(err)
	}
	for at := range good {
		if at >= 130 && at < headerBytes-10 && at%197 != 0 || at > headerBytes && at%5 != 0 {
			continue // zeros, some of them will do
		}
		for _, flip := range []byte{1, 0x80} {
			bad := append([]byte(nil), good...)
			bad[at] ^= flip
			if err := use(t, dir, bad); !damaged(err) {
				t.Fatalf("byte %d changed: %v", at, err)
			}
		}
	}
	for n := range good {
		if n > 100 && n%61 != 0 {
			continue
		}
		if err := use(t, dir, good[:n]); !damaged(err) {
			t.Fatalf("cut off at %d: %v", n, err)
		}
	}
	if err := use(t, dir, append(good, 0)); !damaged(err) {
		t.Errorf("a byte more: %v", err)
	}
	later := Format
	later.Version++
	newer := later.Page(nil)
	for name, want := range map[string]error{
		"":                            record.ErrKind,
		"weir":                        record.ErrKind,
		"weirarms":                    record.ErrCorrupt,
		"item,alpha,beta\n1,2,3\n":    record.ErrKind,
		"weirfeed" + string(good[8:]): record.ErrKind,
		string(newer) + string(good[headerBytes:]): record.ErrVersion,
	} {
		if err := use(t, dir, []byte(name)); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", name, err, want)
		}
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// forge makes a header whose checksums are right, whatever else it says, and puts it before a body.
func forge(h header, body []byte) []byte {
	cut := func(at, n uint64) []byte {
		at, n = min(at, uint64(len(body))), min(n, uint64(len(body)))
		return body[at:min(at+n, uint64(len(body)))]
	}
	arms, users := h.armCells%(1<<40)*cellBytes, h.userCells%(1<<40)*cellBytes
	h.sums = [3]uint64{xxh3.Hash(cut(0, arms)), xxh3.Hash(cut(arms, users)),
		xxh3.Hash(cut(arms+users, math.MaxInt64))}
	return append(h.encode(), body...)
}

func TestLiesWithRightChecksumsAreHarmless(t *testing.T) {
	dir := t.TempDir()
	good := sample(t)
	body := good[headerBytes:]
	var right header
	if err := right.decode("good", good[:headerBytes]); err != nil {
		t.Fatal(err)
	}
	if err := use(t, dir, forge(right, body)); err != nil {
		t.Fatal(err)
	}
	fields := map[string]func(*header) *uint64{
		"homes of arms":  func(h *header) *uint64 { return &h.armHomes },
		"cells of arms":  func(h *header) *uint64 { return &h.armCells },
		"homes of users": func(h *header) *uint64 { return &h.userHomes },
		"cells of users": func(h *header) *uint64 { return &h.userCells },
		"segments":       func(h *header) *uint64 { return &h.stats.Segments },
		"names":          func(h *header) *uint64 { return &h.names },
	}
	for name, field := range fields {
		was := *field(&right)
		for _, lie := range []uint64{0, 1, was - 1, was + 1, 2 * was, was << 32, 1 << 40, 1 << 59, 1 << 63,
			math.MaxUint64, was + 1<<59} {
			if lie == was {
				continue
			}
			h := right
			*field(&h) = lie
			for _, size := range []uint64{right.bytes,
				headerBytes + (h.armCells+h.userCells)*cellBytes + h.names} {
				h.bytes = size
				// Homes too few and names left over do no harm; anything else is refused.
				if err := use(t, dir, forge(h, body)); err == nil && !strings.HasPrefix(name, "homes") &&
					name != "segments" || err != nil && !damaged(err) {
					t.Errorf("%s are said to be %d instead of %d: %v", name, lie, was, err)
				}
			}
		}
	}
	// Homes without cells.
	for _, homes := range []uint64{1, 2, 1 << 20} {
		for _, h := range []header{{armHomes: homes}, {userHomes: homes}} {
			h.bytes = headerBytes
			if err := use(t, dir, forge(h, nil)); !damaged(err) {
				t.Errorf("%+v without cells: %v", h, err)
			}
		}
	}
	// Cells without an empty one at the end, which a search would run over.
	change := func(name string, at uint64, value uint64, want string) {
		t.Helper()
		b := append([]byte(nil), body...)
		binary.LittleEndian.PutUint64(b[at:], value)
		if err := use(t, dir, forge(right, b)); !errors.Is(err, record.ErrCorrupt) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", name, err, want)
		}
	}
	arms, users := right.armCells*cellBytes, right.userCells*cellBytes
	one := math.Float64bits(1)
	b := append([]byte(nil), body...)
	copy(b[arms-cellBytes:], make([]byte, cellBytes))
	binary.LittleEndian.PutUint64(b[arms-16:], one)
	binary.LittleEndian.PutUint64(b[arms-8:], one)
	binary.LittleEndian.PutUint64(b[arms-24:], 5<<keptShift)
	if err := use(t, dir, forge(right, b)); !errors.Is(err, record.ErrCorrupt) ||
		!strings.Contains(err.Error(), "not empty") {
		t.Errorf("arms without an end: %v", err)
	}
	change("users without an end", arms+users-24, 5<<keptShift, "not empty")
	var arm, user uint64
	for at := uint64(0); at < arms; at += cellBytes {
		if binary.LittleEndian.Uint64(body[at+8:]) != 0 {
			arm = at
		}
	}
	for at := arms; at < arms+users; at += cellBytes {
		if binary.LittleEndian.Uint64(body[at+8:]) != 0 {
			user = at
		}
	}
	for _, x := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)} {
		change(fmt.Sprint("alpha ", x), arm+16, math.Float64bits(x), "alpha")
		change(fmt.Sprint("beta ", x), arm+24, math.Float64bits(x), "beta")
	}
	for _, n := range []uint64{3, 4, 1 << 32, math.MaxUint64} {
		change(fmt.Sprint("segment ", n), user+16, n, "segment")
	}
	b = append([]byte(nil), body...)
	b[arms+users] = 0xff // the length of the first name
	b[arms+users+1] = 0xff
	if err := use(t, dir, forge(right, b)); !errors.Is(err, record.ErrCorrupt) ||
		!strings.Contains(err.Error(), "names") {
		t.Errorf("a name that is too long: %v", err)
	}
	b = append([]byte(nil), body...)
	last := arms + users
	for range right.stats.Segments - 1 {
		last += 2 + uint64(b[last])
	}
	b[last]++
	if err := use(t, dir, forge(right, b)); !errors.Is(err, record.ErrCorrupt) ||
		!strings.Contains(err.Error(), "names") {
		t.Errorf("a last name that is longer by one than the file: %v", err)
	}
}

func FuzzAFileOfAnybody(f *testing.F) {
	good := sample(f)
	var h header
	if err := h.decode("good", good[:headerBytes]); err != nil {
		f.Fatal(err)
	}
	f.Add(h.armHomes, h.armCells, h.userHomes, h.userCells, h.stats.Segments, h.names, good[headerBytes:])
	f.Add(uint64(5), uint64(0), uint64(0), uint64(0), uint64(0), uint64(0), []byte{})
	f.Add(uint64(0), uint64(1), uint64(0), uint64(1), uint64(0), uint64(0), make([]byte, 64))
	f.Add(uint64(1), uint64(2), uint64(1), uint64(2), uint64(1), uint64(4), good[headerBytes:headerBytes+132])
	f.Fuzz(func(t *testing.T, armHomes, armCells, userHomes, userCells, segments, names uint64, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		h := header{armHomes: armHomes, armCells: armCells, userHomes: userHomes, userCells: userCells,
			names: names}
		h.stats = Stats{Arms: armCells, Users: userCells, Segments: segments}
		h.bytes = uint64(headerBytes + len(body))
		if err := use(t, t.TempDir(), forge(h, body)); err != nil && !damaged(err) {
			t.Error(err)
		}
	})
}

func FuzzAHeaderOfAnybody(f *testing.F) {
	f.Add(sample(f)[:headerBytes])
	f.Add([]byte("weirarms"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h header
		if err := h.decode("some", b); err != nil {
			if !damaged(err) {
				t.Error(err)
			}
			return
		}
		if got := h.encode(); string(got[:128]) != string(b[:128]) {
			t.Errorf("%x is read and written as %x", b[:128], got[:128])
		}
	})
}
