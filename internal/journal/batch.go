package journal

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// MaxBatch is how many bytes the records of a batch may take.
const MaxBatch = 64 << 20

// Batch collects records that are appended together: after a crash all of them are there or none. The zero value is
// empty and ready. It is for one goroutine at a time, and to be reused.
type Batch struct {
	buf     []byte // a frame: room for its header, then the records
	records int
}

// Add copies record into the batch. Any record will do, an empty one too.
func (b *Batch) Add(record []byte) {
	if len(b.buf) == 0 {
		var room [frameHeaderLen]byte
		b.buf = append(b.buf, room[:]...)
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(len(record)))
	b.buf = append(b.buf, record...)
	b.records++
}

// Len returns the number of records.
func (b *Batch) Len() int { return b.records }

// Size returns how many bytes the records take, which MaxBatch bounds.
func (b *Batch) Size() int { return max(len(b.buf)-frameHeaderLen, 0) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buf, b.records = b.buf[:0], 0 }

// frameHeaderLen is how many bytes of a frame come before its records.
const frameHeaderLen = 32

// frameHeader is what comes before the records of a batch in a segment.
type frameHeader struct {
	length   uint32   // bytes of records
	gap      uint32   // bytes between the frame before it and this one
	synced   Position // up to which the journal was on the disk when this was written
	checksum uint64   // of the records
}

// put writes h to b. The seed belongs to the place, so that a frame is valid nowhere else.
func (h frameHeader) put(b []byte, seed uint64) {
	e := binary.LittleEndian
	e.PutUint32(b[0:], h.length)
	e.PutUint32(b[4:], h.gap)
	e.PutUint64(b[8:], uint64(h.synced))
	e.PutUint64(b[16:], h.checksum)
	e.PutUint64(b[24:], xxh3.HashSeed(b[:24], seed))
}

// parseFrameHeader reads what put wrote with the same seed; ok is false when it is something else.
func parseFrameHeader(b []byte, seed uint64) (h frameHeader, ok bool) {
	e := binary.LittleEndian
	h = frameHeader{length: e.Uint32(b), gap: e.Uint32(b[4:]), synced: Position(e.Uint64(b[8:])), checksum: e.Uint64(b[16:])}
	return h, e.Uint64(b[24:]) == xxh3.HashSeed(b[:24], seed)
}

// eachRecord calls visit for the records of a frame; ok is false when they are not what Add made.
func eachRecord(records []byte, visit func(record []byte) error) (ok bool, err error) {
	for len(records) > 0 {
		length, n := binary.Uvarint(records)
		if n <= 0 || length > uint64(len(records)-n) {
			return false, nil
		}
		if err := visit(records[n : n+int(length) : n+int(length)]); err != nil {
			return true, err
		}
		records = records[n+int(length):]
	}
	return true, nil
}
