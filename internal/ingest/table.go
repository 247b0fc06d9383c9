package ingest

import (
	"bytes"
	"hash/maphash"
	"iter"
	"slices"
)

// Table numbers strings in the order of their first appearance. It takes about 24 bytes a string
// beside the string itself, and half as much again for a moment when it grows. Strings are at
// most [MaxString] bytes and there are fewer than 2^32.
type Table struct {
	seed   maphash.Seed
	chunks [][]byte // a length byte and the string, one after the other
	refs   []uint64 // string i is at byte refs[i]&chunkMask of chunk refs[i]>>chunkBits
	slots  []uint64 // the upper half of a hash and 1 + the number of a string; 0 is free
}

const (
	chunkBits = 18
	chunkMask = 1<<chunkBits - 1
	firstSize = 1 << 10 // slots
)

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{seed: maphash.MakeSeed(), slots: make([]uint64, firstSize)}
}

// Len returns the number of strings.
func (t *Table) Len() int { return len(t.refs) }

// Size returns about how many bytes the table takes.
func (t *Table) Size() int64 {
	return int64(len(t.chunks))<<chunkBits + int64(len(t.refs))*8 + int64(len(t.slots))*8
}

// Get returns string i, which must not be changed.
func (t *Table) Get(i uint32) []byte {
	ref := t.refs[i]
	chunk := t.chunks[ref>>chunkBits][ref&chunkMask:]
	return chunk[1 : 1+int(chunk[0])]
}

// Add returns the number of s, its own copy of which it keeps.
func (t *Table) Add(s []byte) uint32 {
	hash := maphash.Bytes(t.seed, s)
	mask := uint64(len(t.slots) - 1)
	at := hash & mask
	for ; t.slots[at] != 0; at = (at + 1) & mask {
		slot := t.slots[at]
		if slot>>32 == hash>>32 {
			if i := uint32(slot) - 1; bytes.Equal(t.Get(i), s) {
				return i
			}
		}
	}
	i := uint32(len(t.refs))
	t.refs = append(t.refs, t.store(s))
	t.slots[at] = hash>>32<<32 | uint64(i+1)
	if 4*len(t.refs) > 3*len(t.slots) {
		t.grow()
	}
	return i
}

// store copies s into a chunk.
func (t *Table) store(s []byte) uint64 {
	last := len(t.chunks) - 1
	if last < 0 || len(t.chunks[last])+1+len(s) > 1<<chunkBits {
		t.chunks = append(t.chunks, make([]byte, 0, 1<<chunkBits))
		last++
	}
	ref := uint64(last)<<chunkBits | uint64(len(t.chunks[last]))
	t.chunks[last] = append(append(t.chunks[last], byte(len(s))), s...)
	return ref
}

func (t *Table) grow() {
	t.slots = make([]uint64, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for i := range t.refs {
		hash := maphash.Bytes(t.seed, t.Get(uint32(i)))
		at := hash & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = hash>>32<<32 | uint64(i+1)
	}
}

// Sorted returns the numbers of the strings in the order of their bytes.
func (t *Table) Sorted() []uint32 {
	order := make([]uint32, t.Len())
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(t.Get(a), t.Get(b)) })
	return order
}

// All ranges over the strings in a given order.
func (t *Table) All(order []uint32) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, i := range order {
			if !yield(string(t.Get(i))) {
				return
			}
		}
	}
}

// reset empties the table and keeps its memory but for the strings.
func (t *Table) reset() {
	clear(t.slots)
	t.refs = t.refs[:0]
	for i := range t.chunks {
		t.chunks[i] = nil
	}
	t.chunks = t.chunks[:0]
}
