package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/disk"
	"weir/internal/disk/record"

	"github.com/zeebo/xxh3"
)

// examples are small snapshots of every kind, by name.
func examples(t testing.TB) map[string][]byte {
	t.Helper()
	r := rand.New(rand.NewPCG(8, 1))
	files := make(map[string][]byte)
	add := func(name string, o Options, users []user) {
		path, _ := write(t, o, users)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	users := randomUsers(r, 40, 9, 3, 10_000_000)
	add("dense", Options{UserCount: 40, MaxUser: users[39].id, MaxItem: 10_000_000}, users)
	users = randomUsers(r, 40, 9, 1<<50, 1<<60)
	add("hashed", Options{UserCount: 40, MaxUser: users[39].id, MaxItem: 1 << 60}, users)
	users = randomUsers(r, 40, 9, 3, 2)
	for i := range users {
		users[i].name = fmt.Sprintf("%06d", users[i].id)
	}
	add("named", Options{Users: String, Items: String, MaxItem: 2,
		Names: names(3, func(i uint64) string { return strings.Repeat("n", int(i)) })}, users)
	add("without users", Options{}, nil)
	return files
}

// fieldsAt is where the fields of the header begin.
const fieldsAt = 16

// rehash makes the checksums of a damaged file right again, those of all sections that are in the
// file and that of the header, so that the damage reaches what is behind the checksums.
func rehash(data []byte) {
	if len(data) < headerBytes {
		return
	}
	le := binary.LittleEndian
	fields := data[fieldsAt:][:fieldsLen]
	for k := sectionKind(1); k <= sectionCount; k++ {
		e := fields[atTable+int(k-1)*tableEntry:]
		offset, length := le.Uint64(e), le.Uint64(e[8:])
		if offset > uint64(len(data)) || length > uint64(len(data))-offset {
			continue
		}
		le.PutUint64(e[16:], xxh3.Hash(data[offset:offset+length]))
	}
	le.PutUint64(fields[atFileBytes:], uint64(len(data)))
	copy(data, Format.Page(fields))
}

// walkAll opens a file and reads everything there is in it. Damage is an error; it must not be a panic.
func walkAll(t *testing.T, data []byte) {
	t.Helper()
	s, err := openMemory("feeds.weir", data)
	if err != nil {
		if !errors.Is(err, record.ErrKind) && !errors.Is(err, record.ErrVersion) &&
			!errors.Is(err, record.ErrCorrupt) {
			t.Fatalf("Open fails with an error of no kind: %v", err)
		}
		return
	}
	defer s.Close()
	var items []uint64
	for rank := range min(s.Slots()+1, 100) {
		list, err := s.List(rank)
		if err != nil {
			if !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("List fails with an error of no kind: %v", err)
			}
			continue
		}
		n := list.Len()
		if items = list.Append(items[:0], 0, n); len(items) != n {
			t.Fatalf("%d items of a list of %d", len(items), n)
		}
		for _, item := range items[:min(n, 10)] {
			s.NameJSON(item)
			s.Name(item)
		}
		list.Append(items[:0], n/2, n/2+10)
		s.Resident(rank)
		id, name, ok := s.UserKey(rank)
		if !ok {
			continue
		}
		// A user who is found is the one who was asked for, however damaged the index.
		if at, ok := s.FindNumber(id); ok && !s.Dense() {
			if found, _, _ := s.UserKey(at); found != id {
				t.Fatalf("user %d was asked for, %d found", id, found)
			}
		}
		if at, ok := s.FindString(name); ok {
			if _, found, _ := s.UserKey(at); !bytes.Equal(found, name) {
				t.Fatalf("user %q was asked for, %q found", name, found)
			}
		}
		s.FindNumber(id + 1)
		s.FindString(append(slices.Clone(name), 'x'))
	}
	for _, item := range s.Fallback() {
		s.NameJSON(item)
	}
	s.Sections()
	_ = s.Verify(context.Background(), nil)
	_ = s.Warm(context.Background())
}

// edit changes data as 8 bytes say: where, how, and by what.
func edit(data []byte, e []byte) []byte {
	le := binary.LittleEndian
	at, value := int(le.Uint16(e))%(len(data)+1), le.Uint32(e[4:])
	if e[3]&1 == 1 { // most of the header is empty, aim at what is not
		at %= min(fieldsAt+fieldsLen, len(data)) + 1
	}
	rest := data[at:]
	switch {
	case e[2]%8 == 0:
		return data[:at]
	case e[2]%8 == 1:
		return append(data, make([]byte, value%1000)...)
	case len(rest) < 8:
	case e[2]%8 == 2:
		le.PutUint64(rest, uint64(value)<<32)
	case e[2]%8 == 3:
		le.PutUint64(rest, uint64(int64(int32(value))))
	case e[2]%8 == 4:
		copy(rest, data[int(value)%len(data):])
	default:
		rest[0] ^= byte(value)
	}
	return data
}

// FuzzReadDamagedFiles reads good files that were edited, with their checksums made right or not. Inputs
// are edits and not files, which are so large that a fuzzer spends its time on making them smaller.
func FuzzReadDamagedFiles(f *testing.F) {
	files := examples(f)
	kinds := slices.Sorted(maps.Keys(files))
	for i := range kinds {
		f.Add(byte(i), []byte{}, true)
		f.Add(byte(i), []byte{0x58, 0, 2, 1, 0, 0, 1, 0}, true)
		f.Add(byte(i), []byte{0x10, 0x10, 0, 0, 0, 0, 0, 0}, true)
	}
	f.Fuzz(func(t *testing.T, kind byte, edits []byte, repaired bool) {
		data := slices.Clone(files[kinds[int(kind)%len(kinds)]])
		for ; len(edits) >= 8 && len(data) < 1<<20; edits = edits[8:] {
			data = edit(data, edits)
		}
		if repaired {
			rehash(data)
		}
		walkAll(t, data)
	})
}

func TestEveryByteIsCoveredByAChecksum(t *testing.T) {
	for name, data := range examples(t) {
		// Padding is not: from the end of a section to its next, and behind the last.
		covered := make([]bool, len(data))
		for i := range headerBytes {
			covered[i] = true
		}
		h, err := decodeHeader("file", data[:min(len(data), headerBytes)], uint64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range h.sections {
			for i := s.offset; i < s.offset+s.length; i++ {
				covered[i] = true
			}
		}
		for i := range data {
			unused := i > fieldsAt+fieldsLen+8 && i < headerBytes && i%97 != 0
			if !covered[i] || unused || name != "named" && i%7 != 0 { // "named" has every section
				continue
			}
			bad := slices.Clone(data)
			bad[i] ^= 1 << (i % 8)
			s, err := openMemory("feeds.weir", bad)
			if err == nil {
				err = s.Verify(context.Background(), nil)
				s.Close()
			}
			if err == nil {
				t.Fatalf("%s: byte %d of %d was changed and nobody noticed", name, i, len(data))
			}
			if i >= headerBytes && !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("%s: byte %d: %v is no ErrCorrupt", name, i, err)
			}
		}
	}
}

func TestDamageBehindRightChecksumsDoesNotPanic(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for _, data := range examples(t) {
		for range 500 {
			bad := slices.Clone(data)
			for range 1 + r.IntN(4) {
				at := r.IntN(len(bad))
				if r.IntN(2) == 0 { // most of the header is empty, aim at what is not
					at = fieldsAt + []int{atKinds, atSlots, atUserCount, atMaxItem, atNameCount, atLongest,
						atTable + 8, atTable + r.IntN(7*tableEntry)}[r.IntN(8)] + r.IntN(4)
				}
				bad[at] = byte([]int{0, 1, 0x7f, 0x80, 0xff, r.IntN(256)}[r.IntN(6)])
			}
			rehash(bad)
			walkAll(t, bad)
		}
	}
}

// A list that was damaged since it was opened is refused when it is read, and so are the names of its items.
func TestEveryFlippedBitOfAListIsRefusedWhenItIsRead(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 1))
	files := examples(t)
	long := []user{{id: 1, items: randomItems(r, 1000, 10_000_000)}, {id: 2},
		{id: 3, items: randomItems(r, 401, 10_000_000)}}
	path, _ := write(t, Options{UserCount: 3, MaxUser: 3, MaxItem: 10_000_000}, long)
	var err error
	if files["long"], err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	// read returns all that is said of all lists, one text a rank, and "" for one that is refused.
	read := func(s *Snapshot) (all []string) {
		for rank := range s.Slots() {
			l, err := s.List(rank)
			n := l.Len()
			for from := 0; err == nil && from <= n; from += 7 {
				err = s.Check(l, from, from+7)
			}
			if err != nil && !errors.Is(err, record.ErrCorrupt) {
				t.Fatal(err)
			}
			text := ""
			if err == nil {
				text = fmt.Sprint(l.Tag(), l.Append(nil, 0, n))
				for _, item := range l.Append(nil, 0, n) {
					text += s.Name(item)
				}
			}
			all = append(all, text)
		}
		return all
	}
	for name, data := range files {
		data = slices.Clone(data)
		s, err := openMemory(name, data)
		if err != nil {
			t.Fatal(err)
		}
		want := read(s)
		refused := 0
		for _, k := range []sectionKind{sectionLists, sectionNames} {
			at := s.h.sections[k]
			for i := at.offset; i < at.offset+at.length; i++ {
				data[i] ^= 1 << (i % 8)
				for rank, text := range read(s) {
					if text == "" && want[rank] != "" {
						refused++
					} else if text != want[rank] {
						t.Fatalf("%s: byte %d of the %s was changed, and rank %d reads as %s, not %s", name,
							i-at.offset, k, rank, text, want[rank])
					}
				}
				data[i] ^= 1 << (i % 8)
			}
		}
		if refused == 0 && s.ListBytes() > 0 {
			t.Errorf("%s: nothing was refused", name)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	good := examples(t)["dense"]
	change := func(fn func(b []byte)) []byte {
		b := slices.Clone(good)
		fn(b)
		return b
	}
	newer := Format
	newer.Version++
	for name, c := range map[string]struct {
		data []byte
		kind error
		says string
	}{
		"empty":   {nil, record.ErrKind, "make one with weir import"},
		"another": {[]byte("user,item\n1,2\n"), record.ErrKind, "make one with weir import"},
		"newer": {append(newer.Page(nil), good[headerBytes:]...), record.ErrVersion,
			"version 4, this program reads version 3"},
		"header only": {good[:headerBytes], record.ErrCorrupt, "it has 4096 bytes, not"},
		"cut header":  {good[:1000], record.ErrCorrupt, "after 1000 bytes"},
		"cut":         {good[:len(good)-100], record.ErrCorrupt, "copy it again"},
		"longer":      {append(slices.Clone(good), 0), record.ErrCorrupt, "copy it again"},
		"bad header": {change(func(b []byte) { b[fieldsAt+atSlots]++ }), record.ErrCorrupt,
			"the checksum of its header"},
		"many users": {change(func(b []byte) { b[fieldsAt+atUserCount+3] = 1; rehash(b) }), record.ErrCorrupt,
			"users in 77 slots"},
		"many slots": {change(func(b []byte) { b[fieldsAt+atSlots+4] = 1; rehash(b) }), record.ErrCorrupt,
			"in 4294967373 slots"},
		"long lists": {change(func(b []byte) { b[fieldsAt+atLongest+2] = 1; rehash(b) }), record.ErrCorrupt,
			"lists of 0 to"},
		"no padding": {padded(good, 0), record.ErrCorrupt, "fallback items: it is at"},
		"too little": {padded(good, loadSlack-1), record.ErrCorrupt, "fallback items: it is at"},
	} {
		path := filepath.Join(t.TempDir(), "feeds.weir")
		if err := os.WriteFile(path, c.data, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error is %v, want %v with %q", name, err, c.kind, c.says)
		}
	}
}

// padded is a file with so many bytes of padding behind its last section.
func padded(data []byte, padding uint64) []byte {
	h, err := decodeHeader("file", data[:min(len(data), headerBytes)], uint64(len(data)))
	if err != nil {
		panic(err)
	}
	last := h.sections[sectionFallback]
	data = slices.Clone(data[:last.offset+last.length+padding])
	rehash(data)
	return data
}

func TestSectionsThatCannotBe(t *testing.T) {
	le := binary.LittleEndian
	// The widths are chosen so that the sizes they ask for overflow to the size that is there.
	x := le.AppendUint64(nil, 62)
	if _, err := decodeIndex(append(x, make([]byte, 3*entryBytes+4)...), 3); !errors.Is(err,
		record.ErrCorrupt) {
		t.Errorf("a directory of 62 bits: %v", err)
	}
	l := append(make([]byte, 16), 64, 0, 0, 0, 0, 0, 0, 0)
	if _, err := decodeLine("offsets", append(l, make([]byte, 3*8+loadSlack)...), 3); !errors.Is(err,
		record.ErrCorrupt) {
		t.Errorf("residuals of 64 bits: %v", err)
	}
	// Of 57 bits any load holds all, of one more it does not.
	for width, want := range map[byte]bool{maxLoadBits: true, maxLoadBits + 1: false} {
		l := append(make([]byte, 16), width, 0, 0, 0, 0, 0, 0, 0)
		if _, err := decodeLine("offsets", append(l, make([]byte, int(width)+loadSlack)...),
			8); (err == nil) != want {
			t.Errorf("residuals of %d bits: %v", width, err)
		}
	}
	if _, err := decodeLine("offsets", make([]byte, lineHeader-1+loadSlack), 0); !errors.Is(err,
		record.ErrCorrupt) {
		t.Errorf("a line without a header: %v", err)
	}
	if _, err := decodeIndex(nil, 0); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("an index without a header: %v", err)
	}
}

func TestNamesThatAreNotWithinTheirSectionAreNull(t *testing.T) {
	path, _ := write(t, Options{Items: String, MaxItem: 2,
		Names: slices.Values([]string{"a", strings.Repeat("b", 28), "c"})}, nil)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := decodeHeader("file", data[:min(len(data), headerBytes)], uint64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	// With neither base nor stride a name begins where its residual says: 10, 0, 17, 10 or so.
	for base, want := range map[uint64][3]bool{0: {true, true, true}, 1 << 40: {true, true, true}} {
		at := h.sections[sectionNameEnds].offset
		binary.LittleEndian.PutUint64(data[at:], base)
		binary.LittleEndian.PutUint64(data[at+8:], 0)
		rehash(data)
		s := openBytes(t, data)
		for i, null := range want {
			if got := s.NameJSON(uint64(i)); (string(got) == "null") != null {
				t.Errorf("names from %d on: name %d is %s, want null %v", base, i, got, null)
			}
		}
	}
}

// bigSnapshot is one of three blocks of lists.
func bigSnapshot(t *testing.T) string {
	users := make([]user, 200)
	items := randomItems(rand.New(rand.NewPCG(10, 1)), 65_000, 1<<32-1)
	for i := range users {
		users[i] = user{id: uint64(i), items: items}
	}
	path, _ := write(t, Options{UserCount: 200, MaxUser: 199, MaxItem: 1<<32 - 1, Fallbacks: []uint64{1}},
		users)
	return path
}

func TestWarmStopsBelowTheDamagedBlock(t *testing.T) {
	path := bigSnapshot(t)
	s := open(t, path)
	if s.Warmed() != 0 || s.Resident(0) {
		t.Fatal("lists are said to be in memory before they were read")
	}
	if err := s.Warm(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s.Warmed() != s.ListBytes() || !s.Resident(0) || !s.Resident(199) {
		t.Fatalf("%d of %d bytes are warm", s.Warmed(), s.ListBytes())
	}

	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[headerBytes+blockBytes+12345]++
	if err := disk.WriteFileAtomic(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	bad := open(t, path)
	for what, err := range map[string]error{"Warm": bad.Warm(context.Background()),
		"Verify": bad.Verify(context.Background(), nil)} {
		want := fmt.Sprintf("block 1 of the lists, bytes %d to %d", headerBytes+blockBytes,
			headerBytes+2*blockBytes-1)
		if !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error is %v, want one of %s", what, err, want)
		}
	}
	if bad.Warmed() != blockBytes {
		t.Errorf("the watermark is at %d, want %d", bad.Warmed(), blockBytes)
	}
	const length = headBytes + 4*65_000 + 4*65_000/chunkBytes*sumBytes + sumBytes
	if !bad.Resident(0) || !bad.Resident(blockBytes/length-1) || bad.Resident(blockBytes/length) ||
		bad.Resident(199) || bad.Resident(1<<40) {
		t.Error("Resident is not what is wholly below the watermark")
	}
	if s.ChangedOnDisk() != nil {
		t.Errorf("the old file is said to be changed although it was renamed over: %v", s.ChangedOnDisk())
	}
}

func TestWarmAndVerifyStopWhenAsked(t *testing.T) {
	s := open(t, bigSnapshot(t))
	ctx, stop := context.WithCancel(context.Background())
	var last, size int64
	err := s.Verify(ctx, func(done, total int64) {
		if done < last {
			t.Errorf("progress went back from %d to %d", last, done)
		}
		if last, size = done, total; done > total/2 {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) || last >= size || size != s.Stats().Bytes {
		t.Errorf("Verify ended at %d of %d with %v", last, size, err)
	}
	if err := s.Warm(ctx); !errors.Is(err, context.Canceled) || s.Warmed() != 0 {
		t.Errorf("Warm went to %d and ended with %v", s.Warmed(), err)
	}
	if err := s.Verify(context.Background(), func(done, total int64) { last = done }); err != nil ||
		last != size {
		t.Errorf("Verify ended at %d of %d with %v", last, size, err)
	}
}

func TestChangedOnDisk(t *testing.T) {
	path := bigSnapshot(t)
	s := open(t, path)
	if err := s.ChangedOnDisk(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if err := s.ChangedOnDisk(); err == nil || !strings.Contains(err.Error(), "changed in place") {
		t.Errorf("a byte more: %v", err)
	}
}

// openBytes opens a file of data.
func openBytes(t testing.TB, data []byte) *Snapshot {
	t.Helper()
	path := filepath.Join(t.TempDir(), "feeds.weir")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

// Some tools write a file and set its time back.
func TestAnotherLengthIsAChangeWhateverTheTime(t *testing.T) {
	path := bigSnapshot(t)
	s := open(t, path)
	was := s.File()
	if err := errors.Join(os.Truncate(path, was.Size()+1),
		os.Chtimes(path, was.ModTime(), was.ModTime())); err != nil {
		t.Fatal(err)
	}
	if err := s.ChangedOnDisk(); err == nil {
		t.Error("a longer file is said to be as it was")
	}
}

// A record is below the watermark when the longest there is would be.
func TestTheWatermarkIsPassedByWholeRecords(t *testing.T) {
	s := open(t, bigSnapshot(t))
	at := s.records.at(1)
	for below, resident := range map[uint64]bool{0: false, s.recordBound - 1: false, s.recordBound: true} {
		s.warmed.Store(at + below)
		if s.Resident(1) != resident {
			t.Errorf("with %d bytes of it, at most %d, below the watermark: %t", below, s.recordBound,
				!resident)
		}
	}
}

func TestRanksAreAtMostWhatASnapshotHas(t *testing.T) {
	for largest, dense := range map[uint64]bool{MaxSlots - 1: true, MaxSlots: false} {
		if denseEnough(1<<31, largest) != dense {
			t.Errorf("ids up to %d as ranks: %t", largest, !dense)
		}
	}
}
