package record

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

// FrameHeader is how many bytes of a frame come before its payload.
const FrameHeader = 32

// frameHeader is what comes before a payload.
type frameHeader struct {
	length   uint32 // bytes of payload
	gap      uint32 // bytes between the frame before it and this one
	synced   uint64 // position up to which the log was on the disk when this was written
	checksum uint64 // of the payload
}

// put writes h to b. The seed belongs to the place, so that a frame is valid nowhere else.
func (h frameHeader) put(b []byte, seed uint64) {
	e := binary.LittleEndian
	e.PutUint32(b[0:], h.length)
	e.PutUint32(b[4:], h.gap)
	e.PutUint64(b[8:], h.synced)
	e.PutUint64(b[16:], h.checksum)
	e.PutUint64(b[24:], xxh3.HashSeed(b[:24], seed))
}

// parseFrameHeader reads what put wrote with the same seed; ok is false when it is something else.
func parseFrameHeader(b []byte, seed uint64) (h frameHeader, ok bool) {
	e := binary.LittleEndian
	h = frameHeader{length: e.Uint32(b), gap: e.Uint32(b[4:]), synced: e.Uint64(b[8:]),
		checksum: e.Uint64(b[16:])}
	return h, e.Uint64(b[24:]) == xxh3.HashSeed(b[:24], seed)
}

// pad returns how many bytes are missing from off to the next page.
func pad(off int64) int64 { return -off & (PageSize - 1) }

const logFields = 16

// LogPage returns the header of a log's file whose first byte is at position base.
func LogPage(k Format, id, base uint64) []byte {
	fields := binary.LittleEndian.AppendUint64(make([]byte, 0, logFields), id)
	return k.Page(binary.LittleEndian.AppendUint64(fields, base))
}

// NewID returns the id of a new log.
func NewID() uint64 {
	var random [8]byte
	rand.Read(random[:]) //nolint:errcheck // never fails
	return binary.LittleEndian.Uint64(random[:])
}

// Log is a file of frames that grows at its end. It is for one goroutine at a time, but for Fence and
// Durable around a sync that goes on while frames are appended.
type Log struct {
	f      *os.File
	format Format
	faults disk.Faults
	id     uint64
	base   uint64 // position of the first byte
	end    int64  // behind the last frame
	fence  int64  // the end when a sync began last: what follows begins on a page of its own
	synced uint64 // position up to which all is on the disk
	// Of a log whose space is taken beforehand; else the file grows.
	reserved bool
	stale    bool // Restart comes before the next Append
	size     int64
}

// LogOptions are how OpenLog opens a log.
type LogOptions struct {
	Faults disk.Faults // for tests
	// Reserved makes a log whose space Reserve takes beforehand. Restart comes before its first Append.
	Reserved bool
	// AcceptLoss gives up what follows damage, as if it were a torn end.
	AcceptLoss bool
}

// OpenLog opens the log at path, or makes an empty one when there is none, and gives the payloads of its
// frames to visit, in their order; each is valid during the call. What is torn is cut off, what may be
// missing after a power failure is written out again, and all of it is on the disk when OpenLog returns; of
// a reserved log nothing is, until Restart. A damaged log, or one of another format, is left as it is. lost
// is how many bytes AcceptLoss gave up.
func OpenLog(path string, k Format, o LogOptions, visit func(payload []byte) error) (l *Log,
	lost int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		if err = disk.WriteFileAtomic(path, LogPage(k, NewID(), 0), 0o600); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR, 0)
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: make the file and its directory writable or choose another directory",
			err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	// A process killed right after a rename may have left a name that only the cache knows.
	if err := o.Faults.SyncDir(filepath.Dir(path)); err != nil {
		return nil, 0, err
	}
	r, err := ReadLog(f, path, k)
	if err != nil {
		return nil, 0, err
	}
	r.reserved = o.Reserved
	end, err := r.Frames(PageSize, func(payload []byte, _ int64) error { return visit(payload) })
	if err != nil {
		return nil, 0, err
	}
	if damaged, err := r.Damaged(end); err != nil {
		return nil, 0, err
	} else if damaged && !o.AcceptLoss {
		return nil, 0, r.damage(end)
	} else if damaged {
		lost = r.size - end
	}
	l, err = r.Resume(f, end, o.Faults)
	return l, lost, err
}

// NewLog returns the log of a file that LogPage alone was written to.
func NewLog(f *os.File, k Format, id, base uint64, faults disk.Faults) *Log {
	return &Log{f: f, format: k, faults: faults, id: id, base: base, end: PageSize, fence: PageSize,
		synced: base + PageSize}
}

// Append writes a frame at the end: all of it or nothing. frame is its payload behind FrameHeader bytes,
// which Append fills. It survives the end of the process when Append returns nil, and a power failure once
// it is synced. A failed Append can be tried again, unless the error wraps ErrUncertain.
func (l *Log) Append(frame []byte) error {
	gap := l.gap()
	at := l.end + gap
	if l.reserved && !l.Has(len(frame)) {
		return fmt.Errorf("BUG: a frame of %d bytes at offset %d of the %d of %s", len(frame), at,
			l.size, l.f.Name())
	}
	payload := frame[FrameHeader:]
	frameHeader{length: uint32(len(payload)), gap: uint32(gap), synced: l.synced,
		checksum: xxh3.Hash(payload)}.
		put(frame, l.id+l.base+uint64(at))
	if err := l.faults.WriteAt(l.f, frame, at); err != nil {
		if l.reserved { // what is there is no frame, and the next one is written over it
			return err
		}
		if terr := l.f.Truncate(l.end); terr != nil {
			return fmt.Errorf("%w: %w", ErrUncertain, errors.Join(err, terr))
		}
		return err
	}
	l.end = at + int64(len(frame))
	return nil
}

// gap returns how many bytes are left free before the next frame.
func (l *Log) gap() int64 {
	if l.end == l.fence || l.reserved {
		return pad(l.end)
	}
	return 0
}

// After returns what the end will be once a frame of n bytes, its header included, is appended.
func (l *Log) After(n int) (end uint64) { return l.base + uint64(l.end+l.gap()) + uint64(n) }

// Has says whether a reserved log has room for a frame of n bytes, its header included. Before Restart it
// has none.
func (l *Log) Has(n int) bool { return !l.stale && l.end+l.gap()+int64(n) <= l.size }

// End returns the position behind the last frame.
func (l *Log) End() uint64 { return l.base + uint64(l.end) }

// Base returns the position of the first byte of the file.
func (l *Log) Base() uint64 { return l.base }

// File returns the file, to be synced.
func (l *Log) File() *os.File { return l.f }

// Fence begins a sync: what is appended from now on shares no page with what was before. It returns the end.
func (l *Log) Fence() (end uint64) {
	l.fence = l.end
	return l.End()
}

// Durable says that a sync of the file, which began when the end was there, has succeeded.
func (l *Log) Durable(end uint64) { l.synced = end }

// Sync waits until all frames are on the disk. After an error nobody can tell what is; do not append.
func (l *Log) Sync() error {
	end := l.Fence()
	if err := l.faults.SyncData(l.f); err != nil {
		return err
	}
	l.Durable(end)
	return nil
}

// Reserve takes space for a file of size bytes, so that appends to it do not fail for want of it. The
// caller syncs.
func (l *Log) Reserve(size int64) error {
	if size <= l.size {
		return nil
	}
	if err := l.faults.Allocate(l.f, 0, size); err != nil {
		return err
	}
	l.size = size
	return nil
}

// Restart begins a reserved log anew: its frames are forgotten, its space stays taken. Whether or not that
// reaches the disk before a crash, the frames must not be needed any more.
func (l *Log) Restart() error {
	l.id = NewID()
	if err := l.faults.WriteAt(l.f, LogPage(l.format, l.id, l.base), 0); err != nil {
		return err
	}
	l.end, l.stale = PageSize, false
	return l.Sync()
}

// Cut takes back what was appended since the end was there, in a log that is not reserved.
func (l *Log) Cut(end uint64) error {
	l.end = int64(end - l.base)
	return l.f.Truncate(l.end)
}

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }
