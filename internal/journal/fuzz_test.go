package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/zeebo/xxh3"

	"weir/internal/disk/record"
)

// sound makes a journal of a checkpoint and three segments, the same every time, and returns its files and
// its records. It has not been closed: the end of the last segment was never synced.
func sound(t testing.TB) (map[string][]byte, []string) {
	t.Helper()
	dir := t.TempDir()
	j, k := mustOpen(t, dir, Options{Segment: 2 * record.PageSize, id: 0x0123456789abcdef})
	k.records = numbered(t, j, 0, 150)
	if err := j.Checkpoint(j.Position(), k.save); err != nil {
		t.Fatal(err)
	}
	for n := len(k.records); j.segments.Load() < 3; n++ {
		k.records = append(k.records, numbered(t, j, n, n+1)...)
	}
	k.records = append(k.records, numbered(t, j, 1000, 1010)...)
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	k.records = append(k.records, strings.Repeat("x", record.PageSize))
	mustAppend(t, j, k.records[len(k.records)-1])
	k.records = append(k.records, numbered(t, j, 2000, 2010)...)
	all := make(map[string][]byte)
	for _, name := range files(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	return all, k.records
}

// editLen is how many bytes of a fuzzer's input say what one edit is.
const editLen = 8

// edit changes one of the files. It returns whether checksums were made right again, so that anything may
// be found.
func edit(all map[string][]byte, e []byte) (forged bool) {
	names := slices.Sorted(maps.Keys(all))
	if len(names) == 0 {
		return false
	}
	name, other := names[int(e[1])%len(names)], names[int(e[2])%len(names)]
	b := all[name]
	at := int(binary.LittleEndian.Uint16(e[3:])) % (len(b) + 1)
	n := min(int(binary.LittleEndian.Uint16(e[5:])), len(b)-at)
	switch e[0] % 10 {
	case 0:
		if at < len(b) {
			b[at] ^= e[7]
		}
	case 1:
		clear(b[at : at+n])
	case 2:
		all[name] = b[:at]
	case 3:
		all[name] = append(b, bytes.Repeat(e[7:8], n)...)
	case 4:
		delete(all, name)
	case 5:
		all[name], all[other] = all[other], b
	case 6:
		copy(b[at:at+n], all[other])
	case 7:
		all[name] = slices.Delete(b, at, at+n)
	case 8:
		return forge(name, b, at)
	case 9: // a file of an earlier time, or that somebody copied
		all[segmentName(Position(at))] = bytes.Clone(b)
	}
	return false
}

// forge makes the checksums right of the header of a file and of the frame at at.
func forge(name string, b []byte, at int) bool {
	e := binary.LittleEndian
	if name == checkpointName {
		if len(b) < record.PageSize {
			return false
		}
		e.PutUint64(b[32:], uint64(len(b)-record.PageSize))
		e.PutUint64(b[40:], xxh3.Hash(b[record.PageSize:]))
		e.PutUint64(b[48:], xxh3.Hash(b[:48]))
		return true
	}
	if len(b) < record.PageSize {
		return false
	}
	e.PutUint64(b[32:], xxh3.Hash(b[:32]))
	at = max(at, record.PageSize)
	if at+record.FrameHeader > len(b) {
		return true
	}
	id, base := e.Uint64(b[16:]), e.Uint64(b[24:])
	frame := b[at:]
	length := min(e.Uint32(frame), uint32(len(frame)-record.FrameHeader))
	e.PutUint32(frame, length)
	e.PutUint64(frame[16:], xxh3.Hash(frame[record.FrameHeader:][:length]))
	e.PutUint64(frame[24:], xxh3.HashSeed(frame[:24], id+base+uint64(at)))
	return true
}

// FuzzReadingOfDamagedFiles edits the files of a sound journal. What is read then is a prefix of what was
// written, or it is refused.
func FuzzReadingOfDamagedFiles(f *testing.F) {
	good, want := sound(f)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, input []byte) {
		all := make(map[string][]byte)
		for name, b := range good {
			all[name] = bytes.Clone(b)
		}
		forged := false
		for e := input; len(e) >= editLen; e = e[editLen:] {
			if edit(all, e) {
				forged = true
			}
		}
		const dir = "/somewhere"
		memory := make(fstest.MapFS)
		for name, b := range all {
			memory[name] = &fstest.MapFile{Data: b}
		}
		k := new(keeper)
		stock, err := takeStock(memory, dir, false)
		if err == nil {
			defer stock.close() //nolint:errcheck // only read
			if !stock.empty() {
				err = stock.read(k.load, k.replay)
			}
		}
		switch {
		case len(input) < editLen && err != nil:
			t.Fatal(err)
		case forged: // all but a crash
		case err == nil && (len(k.records) > len(want) || !slices.Equal(k.records, want[:len(k.records)])):
			t.Fatalf("%d records that are no prefix of the %d that were written", len(k.records), len(want))
		case len(input) < editLen && len(k.records) != len(want):
			t.Fatalf("%d records of %d", len(k.records), len(want))
		case err != nil && !errors.Is(err, record.ErrCorrupt):
			t.Fatalf("error %v, want ErrCorrupt", err)
		case err != nil && !strings.Contains(err.Error(), dir):
			t.Fatalf("error %v does not say where", err)
		}
	})
}

// FuzzRecords takes any bytes for the records of a frame, and puts what it finds into a batch again.
func FuzzRecords(f *testing.F) {
	f.Add([]byte{})
	f.Add(batchOf("one", "", "three").buf[record.FrameHeader:])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add([]byte{5, 'x'})
	f.Add([]byte{2, 'x'})
	f.Fuzz(func(t *testing.T, input []byte) {
		read := func(b []byte) (records [][]byte, ok bool) {
			ok, err := eachRecord(b, func(r []byte) error {
				records = append(records, bytes.Clone(r))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return records, ok
		}
		records, ok := read(input)
		var b Batch
		for _, r := range records {
			b.Add(r)
		}
		if ok && b.Size() > len(input) { // lengths may have been written longer than they need
			t.Fatalf("%d bytes were read as records of %d", len(input), b.Size())
		}
		if b.Len() == 0 {
			return
		}
		again, ok := read(b.buf[record.FrameHeader:])
		if !ok || !slices.EqualFunc(records, again, bytes.Equal) {
			t.Fatalf("%q came back as %q", records, again)
		}
	})
}
