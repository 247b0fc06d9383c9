package snapshot

import (
	"encoding/binary"
)

// List is the list of one user. It is small, to be passed by value, and valid until the
// snapshot is closed. The zero List is empty.
type List struct {
	head   uint64
	packed []byte // and loadSlack bytes behind
	pack   *packing
}

// Len is the number of items.
func (l List) Len() int { return int(l.head & (1<<16 - 1)) }

// Tag is 48 bits that stand for the user and the items. It is 0 for users who are absent, and only
// for them: an empty list has a tag.
func (l List) Tag() uint64 { return l.head >> 16 }

// Append appends the items from..to-1 to dst, numbers or indices of names; the range is cut to
// the list. An item may be beyond the largest in a damaged file that was not warmed.
func (l List) Append(dst []uint64, from, to int) []uint64 {
	n := l.Len()
	from, to = max(0, from), min(to, n)
	if from >= to {
		return dst
	}
	return l.pack.appendItems(dst, l.packed, n, from, to)
}

// List is the list of a rank, the zero List for ranks of absent users. It fails for ranks beyond
// Slots and with ErrCorrupt where the file is damaged.
func (s *Snapshot) List(rank uint64) (List, error) {
	record := s.record(rank)
	if len(record) < headBytes+loadSlack {
		return List{}, s.noRecord(rank)
	}
	head := binary.LittleEndian.Uint64(record)
	body := record[headBytes:]
	if !s.h.dense {
		key := 8
		if s.h.users == String {
			key = 2 + int(binary.LittleEndian.Uint16(body))
		}
		if key > len(body)-loadSlack {
			return List{}, s.noRecord(rank)
		}
		body = body[key:]
	}
	if s.pack.bytes(int(head&(1<<16-1))) > len(body)-loadSlack {
		return List{}, s.noRecord(rank)
	}
	return List{head, body, &s.pack}, nil
}

// noRecord is the error of a rank whose record is not within the lists.
func (s *Snapshot) noRecord(rank uint64) error {
	if rank >= s.h.slots {
		return damaged("lists", "rank %d is asked for, there are %d", rank, s.h.slots)
	}
	return damaged("lists", "the record of rank %d is at %d, beyond their end at %d", rank, s.records.at(rank), s.end)
}
