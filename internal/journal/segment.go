package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

const (
	segmentMagic  = "weirjrnl"
	version       = 1
	pageSize      = 4096
	headerLen     = pageSize // of a segment
	segmentSuffix = ".journal"

	restore = "restore the whole directory from a backup, or move it away to begin with nothing"
)

// pad returns how many bytes are missing from off to the next page.
func pad(off int64) int64 { return -off & (pageSize - 1) }

// segmentName returns the name of the file whose first byte is at base.
func segmentName(base Position) string { return fmt.Sprintf("%020d%s", uint64(base), segmentSuffix) }

// parseSegmentName is the reverse of segmentName.
func parseSegmentName(name string) (base Position, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	return Position(n), err == nil && segmentName(Position(n)) == name
}

// createSegment makes a segment without frames at base. It appears as a whole, so there is never one without a header.
func (j *Journal) createSegment(base Position) (f *os.File, err error) {
	path := filepath.Join(j.dir, segmentName(base))
	a, err := disk.CreateAtomic(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Abort()) }()
	page := make([]byte, headerLen)
	e := binary.LittleEndian
	copy(page, segmentMagic)
	e.PutUint32(page[8:], version)
	e.PutUint64(page[16:], j.id)
	e.PutUint64(page[24:], uint64(base))
	e.PutUint64(page[32:], xxh3.Hash(page[:32]))
	if _, err := a.Write(page); err != nil {
		return nil, err
	}
	j.step("new segment written")
	if err := a.Commit(); err != nil {
		if _, serr := os.Lstat(path); serr == nil {
			err = fmt.Errorf("%w: %w", errUncertain, err)
		}
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// errUncertain means that a segment is in place, and that nobody knows whether it will be after a power failure.
var errUncertain = errors.New("the directory could not be synced")

// file is one that is read anywhere: *os.File, or in tests memory.
type file interface {
	fs.File
	io.ReaderAt
}

// openFile opens the file name of fsys.
func openFile(fsys fs.FS, name string) (file, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	if f, ok := f.(file); ok {
		return f, nil
	}
	return nil, errors.Join(fmt.Errorf("%s is no file that can be read anywhere", name), f.Close())
}

// reader reads the frames of a segment.
type reader struct {
	f    file
	path string
	base Position
	id   uint64 // of the journal
	size int64
	// What was read last: a part of the file that begins at from.
	window []byte
	from   int64

	synced Position // the most that any frame said was on the disk
	marked bool     // the last frame had no records: a mark of Close
}

// end returns the position behind the last byte of the file.
func (r *reader) end() Position { return r.base + Position(r.size) }

// windowLen is how much of a file is read at once, unless a frame is longer.
const windowLen = 256 << 10

// openReader opens the segment at base and checks its header; the caller closes r.f.
func (s *stock) openReader(base Position) (*reader, error) {
	f, err := openFile(s.fsys, segmentName(base))
	if err != nil {
		return nil, err
	}
	r := &reader{f: f, path: filepath.Join(s.dir, segmentName(base)), base: base}
	if err := r.readHeader(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *reader) readHeader() error {
	info, err := r.f.Stat()
	if err != nil {
		return err
	}
	r.size = info.Size()
	page, err := r.bytes(0, headerLen)
	if err != nil {
		return err
	}
	e := binary.LittleEndian
	if page == nil || string(page[:8]) != segmentMagic || e.Uint64(page[32:]) != xxh3.Hash(page[:32]) {
		return fmt.Errorf("%w: the header of %s is damaged, at offset 0, or it is another kind of file: %s", ErrCorrupt, r.path, restore)
	}
	if v := e.Uint32(page[8:]); v != version {
		return versionError(r.path, v)
	}
	r.id = e.Uint64(page[16:])
	if base := Position(e.Uint64(page[24:])); base != r.base {
		return fmt.Errorf("%w: %s says that it begins at position %d, it was renamed: %s", ErrCorrupt, r.path, base, restore)
	}
	return nil
}

func versionError(path string, v uint32) error {
	return fmt.Errorf("%w: %s has version %d, this program reads version %d: use the program that wrote it, or move the directory away to begin with nothing",
		ErrVersion, path, v, version)
}

// bytes returns the n bytes at off, until the next call, or nil when the file ends before.
func (r *reader) bytes(off, n int64) ([]byte, error) {
	if off < 0 || n > r.size-off {
		return nil, nil
	}
	if off < r.from || off+n > r.from+int64(len(r.window)) {
		want := min(max(n, windowLen), r.size-off)
		if int64(cap(r.window)) < want {
			r.window = make([]byte, want)
		}
		r.window, r.from = r.window[:want], off
		if _, err := r.f.ReadAt(r.window, off); err == io.EOF {
			return nil, fmt.Errorf("%s became shorter while it was read: another program writes it: stop that", r.path)
		} else if err != nil {
			return nil, err
		}
	}
	return r.window[off-r.from : off-r.from+n], nil
}

// next returns the records of the frame that follows off, and where it ends. end is 0 when there is no whole one.
func (r *reader) next(off int64) (records []byte, end int64, err error) {
	for _, gap := range [2]int64{0, pad(off)} {
		h, ok, err := r.header(off + gap)
		if err != nil {
			return nil, 0, err
		}
		if !ok || int64(h.gap) != gap {
			continue
		}
		records, err := r.bytes(off+gap+frameHeaderLen, int64(h.length))
		if err != nil {
			return nil, 0, err
		}
		if records == nil || xxh3.Hash(records) != h.checksum {
			return nil, 0, nil
		}
		r.synced, r.marked = max(r.synced, h.synced), len(records) == 0
		return records, off + gap + frameHeaderLen + int64(h.length), nil
	}
	return nil, 0, nil
}

// header returns the frame header at off; ok is false when there is none.
func (r *reader) header(off int64) (h frameHeader, ok bool, err error) {
	b, err := r.bytes(off, frameHeaderLen)
	if b == nil || err != nil {
		return frameHeader{}, false, err
	}
	h, ok = parseFrameHeader(b, seed(r.id, r.base, off))
	return h, ok, nil
}

// seed is what the checksum of the frame header at off begins with.
func seed(id uint64, base Position, off int64) uint64 { return id + uint64(base) + uint64(off) }

// wasSynced says whether a frame after off, wherever it begins, knows that off was on the disk.
func (r *reader) wasSynced(off int64) (bool, error) {
	for at := off; at+frameHeaderLen <= r.size; at++ {
		b, err := r.bytes(at, frameHeaderLen)
		if err != nil {
			return false, err
		}
		// Of a million places one, if any, has a number here that can be right; only then a checksum is worth its time.
		synced := Position(binary.LittleEndian.Uint64(b[8:]))
		if synced <= r.base+Position(off) || synced > r.base+Position(at) {
			continue
		}
		if _, ok := parseFrameHeader(b, seed(r.id, r.base, at)); ok {
			return true, nil
		}
	}
	return false, nil
}

// replay gives the records of all frames from off on to visit, and returns where the last whole one ends.
func (r *reader) replay(off int64, visit func(record []byte) error) (int64, error) {
	for {
		records, end, err := r.next(off)
		if err != nil || end == 0 {
			return off, err
		}
		ok, err := eachRecord(records, visit)
		if err != nil {
			return off, fmt.Errorf("%s, batch before offset %d: %w", r.path, end, err)
		}
		if !ok {
			return off, fmt.Errorf("%w: %s has a batch before offset %d that no program wrote: %s", ErrCorrupt, r.path, end, restore)
		}
		off = end
	}
}
