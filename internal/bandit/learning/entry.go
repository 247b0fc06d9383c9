package learning

import (
	"encoding/binary"
	"errors"

	"weir/internal/bandit/arms"
)

// An entry of the stream is, after a byte for its format, batches:
//
//	8 bytes  who sent it, a hash
//	uvarint  how many records; of each
//	   1 byte   the length of the record as it is in the journal, and the record; when it came is 0, since
//	            that is for the engine to say
//	   uvarint  the length of the names of its arms, and the names, as they are in their file
//
// or what was trimmed when a checkpoint was published: the id of the first entry that stayed.
const (
	entryBatches    = 1
	entryCheckpoint = 2
)

var errEntry = errors.New("an entry of the stream of events is of a format that this weir does not know: " +
	"nodes have to run the same version")

// appendBatch appends a batch to an entry.
func appendBatch(dst []byte, client uint64, records []record) []byte {
	dst = le.AppendUint64(dst, client)
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	var names []byte
	for i := range records {
		r := &records[i]
		at := len(dst)
		dst = r.append(append(dst, 0))
		dst[at] = byte(len(dst) - at - 1)
		names = names[:0]
		for level, name := range r.Names {
			if name != nil {
				names = appendName(names, arms.Level(level), r.Arms[level], name)
			}
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(names))), names...)
	}
	return dst
}

// received is a batch of an entry: those records up to end that are not of a batch before it.
type received struct {
	client uint64
	end    int
}

// readBatches appends what an entry holds.
func readBatches(b []byte, batches []received, records []record) ([]received, []record, error) {
	uvarint := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			b = nil
			return 0
		}
		b = b[size:]
		return n
	}
	for len(b) > 0 {
		if len(b) < 9 {
			return nil, nil, errEntry
		}
		client := le.Uint64(b)
		b = b[8:]
		for n := uvarint(); n > 0; n-- {
			if len(b) == 0 || len(b) < 1+int(b[0]) {
				return nil, nil, errEntry
			}
			var r record
			if err := r.read(b[1 : 1+b[0]]); err != nil {
				return nil, nil, errEntry
			}
			b = b[1+b[0]:]
			size := uvarint()
			if size > uint64(len(b)) {
				return nil, nil, errEntry
			}
			err := eachName(b[:size], func(a Named, _ []byte) bool {
				r.Names[a.Level] = &a.Name
				return true
			})
			if err != nil {
				return nil, nil, errEntry
			}
			b = b[size:]
			records = append(records, r)
		}
		batches = append(batches, received{client, len(records)})
	}
	return batches, records, nil
}
