package journal

import (
	"encoding/binary"

	"weir/internal/disk/record"
)

// MaxBatch is how many bytes the records of a batch may take.
const MaxBatch = 64 << 20

// Batch collects records that are appended together: after a crash all of them are there or none. The zero
// value is empty and ready. It is for one goroutine at a time, and to be reused.
type Batch struct {
	buf     []byte // a frame: room for its header, then the records
	records int
}

// Add copies a record into the batch. Any will do, an empty one too.
func (b *Batch) Add(rec []byte) {
	if len(b.buf) == 0 {
		var room [record.FrameHeader]byte
		b.buf = append(b.buf, room[:]...)
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(len(rec)))
	b.buf = append(b.buf, rec...)
	b.records++
}

// Len returns the number of records.
func (b *Batch) Len() int { return b.records }

// Size returns how many bytes the records take, which MaxBatch bounds.
func (b *Batch) Size() int { return max(len(b.buf)-record.FrameHeader, 0) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.buf, b.records = b.buf[:0], 0 }

// eachRecord calls visit for the records of a frame; ok is false when they are not what Add made.
func eachRecord(records []byte, visit func(rec []byte) error) (ok bool, err error) {
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
