package snapshot

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// chunkBytes is how much of a list's packed items a checksum is of. To check the ten items of a request,
// far from any cache, took 80 ns of 128 bytes, 130 of 240, 150 of 256; that of 64 was no more than noise
// below, and would make files 3 % larger.
const chunkBytes = 128

// sumBytes is the size of a list's checksum.
const sumBytes = 4

// chunks returns how many checksums a list has whose packed items take n bytes: at least one, for its head.
func chunks(n int) int { return max(1, (n+chunkBytes-1)/chunkBytes) }

// sumOf is the checksum of a chunk. It binds it to its place in the list, and to the list's head and owner.
func sumOf(chunk []byte, i int, head, owner uint64) uint32 {
	x := (xxh3.Hash(chunk) ^ head ^ owner) + uint64(i)
	return uint32(x * 0x9e3779b97f4a7c15 >> 32) // any flipped bit of x changes the upper half of the product
}

// List is the list of one user. It is small, to be passed by value, and valid until the
// snapshot is closed. The zero List is empty.
type List struct {
	head   uint64
	owner  uint64 // what stands for the user in checksums
	sums   []byte
	packed []byte // and loadSlack bytes behind
	pack   packing
}

// Len is the number of items.
func (l List) Len() int { return int(l.head & (1<<16 - 1)) }

// Tag is 48 bits that stand for the user and the items. It is 0 for users who are absent, and only
// for them: an empty list has a tag.
func (l List) Tag() uint64 { return l.head >> 16 }

// Append appends the items from..to-1 to dst, numbers or indices of names; the range is cut to
// the list. An item may be beyond the largest in a damaged file: see Check.
func (l List) Append(dst []uint64, from, to int) []uint64 {
	n := l.Len()
	from, to = max(0, from), min(to, n)
	if from >= to {
		return dst
	}
	return l.pack.appendItems(dst, l.packed, from, to)
}

// check compares chunk i with its checksum.
func (l *List) check(i int) bool {
	length := l.pack.bytes(l.Len())
	chunk := l.packed[min(i*chunkBytes, length):min((i+1)*chunkBytes, length)]
	return sumOf(chunk, i, l.head, l.owner) == binary.LittleEndian.Uint32(l.sums[i*sumBytes:])
}

// List is the list of a rank, the zero List for ranks of absent users. It fails for ranks beyond Slots and
// with record.ErrCorrupt where the file is damaged. Nothing of it is to be relied on, its tag and length
// neither, before Check.
func (s *Snapshot) List(rank uint64) (List, error) {
	record := s.record(rank)
	if len(record) < headBytes+loadSlack {
		return List{}, s.noRecord(rank)
	}
	l := List{head: binary.LittleEndian.Uint64(record), owner: rank, pack: s.pack}
	body := record[headBytes:]
	if l.head == 0 && s.h.dense {
		return List{}, nil
	}
	if l.head>>16 == 0 {
		return List{}, damaged("lists", "the list of rank %d has no tag", rank)
	}
	if !s.h.dense {
		key := 8
		l.owner = binary.LittleEndian.Uint64(body)
		if s.h.users == String {
			name, ok := userName(record)
			if !ok {
				return List{}, s.noRecord(rank)
			}
			key, l.owner = 2+len(name), xxh3.Hash(name)
		}
		if key > len(body)-loadSlack {
			return List{}, s.noRecord(rank)
		}
		body = body[key:]
	}
	packed := s.pack.bytes(l.Len())
	sums := chunks(packed) * sumBytes
	if sums+packed > len(body)-loadSlack {
		return List{}, s.noRecord(rank)
	}
	l.sums, l.packed = body[:sums], body[sums:]
	return l, nil
}

// Check fails with record.ErrCorrupt when the owner, tag or length of a list are damaged, its items
// from..to-1, or the names of items that are strings. It reads the chunks that hold the items, or the first
// one if there are none.
func (s *Snapshot) Check(l List, from, to int) error {
	if l.sums == nil {
		return nil // nobody's
	}
	from, to = max(0, from), min(to, l.Len())
	first, last := 0, 0
	if from < to {
		begin, end := s.pack.span(from, to)
		first, last = begin/chunkBytes, (end-1)/chunkBytes
	}
	for i := first; i <= last; i++ {
		if !l.check(i) {
			return damaged("lists", "the checksum of a list of %d items is wrong", l.Len())
		}
	}
	if s.h.items == Number {
		return nil
	}
	var few [64]uint64
	for ; from < to; from += len(few) {
		for _, item := range l.Append(few[:0], from, min(to, from+len(few))) {
			if _, ok := s.name(item); !ok {
				return damaged("item names", "the checksum of name %d is wrong", item)
			}
		}
	}
	return nil
}

// noRecord is the error of a rank whose record is not within the lists.
func (s *Snapshot) noRecord(rank uint64) error {
	if rank >= s.h.slots {
		return damaged("lists", "rank %d is asked for, there are %d", rank, s.h.slots)
	}
	return damaged("lists", "the record of rank %d is at %d, beyond their end at %d", rank,
		s.records.at(rank), s.end)
}
