package record

import (
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

// File is what a log is read from: an *os.File, or memory.
type File interface {
	io.ReaderAt
	Stat() (fs.FileInfo, error)
}

// Reader reads the frames of a log's file. It writes nothing.
type Reader struct {
	f        File
	path     string
	format   Format
	id       uint64
	base     uint64
	size     int64
	reserved bool // every frame begins on a page
	// What was read last: a part of the file that begins at from.
	window []byte
	from   int64

	synced uint64 // the most that any frame said was on the disk
	marked bool   // the last frame was empty
}

// ReadLog reads and checks the header of f, which is called path in errors.
func ReadLog(f File, path string, k Format) (*Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r := &Reader{f: f, path: path, format: k, size: info.Size()}
	page, err := r.bytes(0, min(PageSize, r.size))
	if err != nil {
		return nil, err
	}
	fields, err := k.Parse(path, page, logFields)
	if err != nil {
		return nil, err
	}
	r.id, r.base = binary.LittleEndian.Uint64(fields), binary.LittleEndian.Uint64(fields[8:])
	return r, nil
}

// ID returns the id of the log.
func (r *Reader) ID() uint64 { return r.id }

// Base returns the position of the first byte of the file.
func (r *Reader) Base() uint64 { return r.base }

// Size returns the size of the file in bytes.
func (r *Reader) Size() int64 { return r.size }

// End returns the position behind the last byte of the file.
func (r *Reader) End() uint64 { return r.base + uint64(r.size) }

// Marked says that the last frame that was read is empty.
func (r *Reader) Marked() bool { return r.marked }

// windowLen is how much of a file is read at once, unless a frame is longer.
const windowLen = 256 << 10

// bytes returns the n bytes at off, until the next call, or nil when the file ends before.
func (r *Reader) bytes(off, n int64) ([]byte, error) {
	if off < 0 || n > r.size-off {
		return nil, nil
	}
	if off < r.from || off+n > r.from+int64(len(r.window)) {
		want := min(max(n, windowLen), r.size-off)
		if int64(cap(r.window)) < want {
			r.window = make([]byte, want)
		}
		r.window, r.from = r.window[:want], off
		if n, err := r.f.ReadAt(r.window, off); n < len(r.window) {
			r.window = r.window[:0]
			if err == io.EOF {
				return nil, fmt.Errorf(
					"%s became shorter while it was read: another program writes it: stop that", r.path)
			}
			return nil, err
		}
	}
	return r.window[off-r.from : off-r.from+n], nil
}

// Frames gives the payloads of the frames from offset off on to visit, with the offset where each ends, and
// returns where the last whole one ends. A payload is valid during the call. An error of visit ends it.
func (r *Reader) Frames(off int64, visit func(payload []byte, end int64) error) (end int64, err error) {
	for {
		payload, end, err := r.next(off)
		if err != nil || end == 0 {
			return off, err
		}
		if err := visit(payload, end); err != nil {
			return off, err
		}
		off = end
	}
}

// next returns the payload of the frame that follows off, and where it ends. end is 0 when there is no
// whole one.
func (r *Reader) next(off int64) (payload []byte, end int64, err error) {
	for _, gap := range [2]int64{0, pad(off)} {
		h, ok, err := r.header(off + gap)
		if err != nil {
			return nil, 0, err
		}
		if !ok || int64(h.gap) != gap {
			continue
		}
		payload, err := r.bytes(off+gap+FrameHeader, int64(h.length))
		if err != nil {
			return nil, 0, err
		}
		if payload == nil && h.length > 0 || xxh3.Hash(payload) != h.checksum {
			return nil, 0, nil
		}
		r.synced, r.marked = max(r.synced, h.synced), len(payload) == 0
		return payload, off + gap + FrameHeader + int64(h.length), nil
	}
	return nil, 0, nil
}

// header returns the frame header at off; ok is false when there is none.
func (r *Reader) header(off int64) (h frameHeader, ok bool, err error) {
	b, err := r.bytes(off, FrameHeader)
	if b == nil || err != nil {
		return frameHeader{}, false, err
	}
	h, ok = parseFrameHeader(b, r.seed(off))
	return h, ok, nil
}

// seed is what the checksum of the frame header at off begins with.
func (r *Reader) seed(off int64) uint64 { return r.id + r.base + uint64(off) }

// Damaged says whether a frame behind off, wherever it begins, knows that off was on the disk: then what is
// at off, where Frames ended, is no torn end.
func (r *Reader) Damaged(off int64) (bool, error) {
	at, step := off, int64(1)
	if r.reserved {
		at, step = off+pad(off), PageSize
	}
	for ; at+FrameHeader <= r.size; at += step {
		b, err := r.bytes(at, FrameHeader)
		if err != nil {
			return false, err
		}
		// Of a million places one, if any, has a number here that can be right; only then a checksum is
		// worth its time.
		synced := binary.LittleEndian.Uint64(b[8:])
		if synced <= r.base+uint64(off) || synced > r.base+uint64(at) {
			continue
		}
		if _, ok := parseFrameHeader(b, r.seed(at)); ok {
			return true, nil
		}
	}
	return false, nil
}

// damage is the error of a log that is damaged at offset off.
func (r *Reader) damage(off int64) error {
	return r.format.Corrupt(r.path, off, "a frame is damaged, and a later one proves that it was on the disk")
}

// Resume makes a log of what was read, to append behind offset end, where Frames ended. What follows is cut
// off, what may not be on the disk is written out again, and synced. f is the same file, writable.
func (r *Reader) Resume(f *os.File, end int64, faults disk.Faults) (*Log, error) {
	l := &Log{f: f, format: r.format, faults: faults, id: r.id, base: r.base, end: end}
	if r.reserved { // what follows stays: it may be whole frames that were never synced
		l.reserved, l.stale = true, true
		return l, nil
	}
	if end < r.size {
		if err := f.Truncate(end); err != nil {
			return nil, err
		}
	}
	if err := r.rewrite(l, end); err != nil {
		return nil, err
	}
	return l, l.Sync()
}

// rewrite writes out again what no frame knows to be synced. A sync that failed, after which this process
// was started, can have left pages in the cache that the system takes for written; the next sync would
// report success and write nothing of them.
func (r *Reader) rewrite(l *Log, end int64) error {
	at := int64(PageSize)
	if r.synced > r.base {
		at = max(at, int64(r.synced-r.base))
	}
	for at += pad(at); at < end; {
		b, err := r.bytes(at, min(windowLen, end-at))
		if err != nil {
			return err
		}
		if err := l.faults.WriteAt(l.f, b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}
