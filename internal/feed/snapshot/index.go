package snapshot

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// index finds users by the hash of their id: the entries in ascending order of hash, and a
// directory that says for every value of the hash's top bits where its entries begin. An entry
// is u64: the next 32 bits of the hash above, the rank below. Buckets hold 4 to 8 entries, one
// cache line. Different users may share an entry's hash bits: the id in the record decides.
type index struct {
	bits      uint // of the directory
	count     uint64
	entries   []byte // count u64
	directory []byte // 2^bits + 1 u32
}

const (
	indexHeader = 8       // bytes before the entries: how many bits the directory takes
	entryBytes  = 8       // an entry
	runEntries  = 2 << 20 // entries sorted in memory at a time: 32 MiB
)

// directoryBits is the size of the directory for n users.
func directoryBits(n uint64) uint { return uint(max(0, bits.Len64(n/4)-1)) }

func decodeIndex(b []byte, slots uint64) (index, error) {
	name := sectionIndex.String()
	if len(b) < indexHeader {
		return index{}, damaged(name, "it has %d bytes, expected at least %d", len(b), indexHeader)
	}
	x := index{count: slots}
	if d := binary.LittleEndian.Uint64(b); d > 32 {
		return index{}, damaged(name, "a directory of %d bits, expected at most 32", d)
	} else {
		x.bits = uint(d)
	}
	if want := indexHeader + slots*entryBytes + (1<<x.bits+1)*4; uint64(len(b)) != want {
		return index{}, damaged(name, "it has %d bytes, expected %d for %d users", len(b), want, slots)
	}
	x.entries = b[indexHeader : indexHeader+slots*entryBytes]
	x.directory = b[indexHeader+slots*entryBytes:]
	return x, nil
}

// bucket is the range of entries that may be of a hash, and the upper half such an entry has.
func (x *index) bucket(hash uint64) (from, to, fragment uint64) {
	top := hash >> (64 - x.bits) // 0 when bits is 0: Go shifts everything out
	from = uint64(binary.LittleEndian.Uint32(x.directory[top*4:]))
	to = uint64(binary.LittleEndian.Uint32(x.directory[top*4+4:]))
	return from, min(to, x.count), hash << x.bits >> 32
}

// entry is the i-th entry.
func (x *index) entry(i uint64) (fragment, rank uint64) {
	e := binary.LittleEndian.Uint64(x.entries[i*entryBytes:])
	return e >> 32, e & (1<<32 - 1)
}

// indexBuilder sorts hashes of users in bounded memory: runs of runEntries are sorted and
// spooled, then merged.
type indexBuilder struct {
	run     []hashed
	limit   int
	runs    spool
	lengths []int // entries of each spooled run
	next    uint64
}

type hashed struct {
	hash uint64
	rank uint32
}

func compareHashed(a, b hashed) int {
	if a.hash != b.hash {
		return cmp.Compare(a.hash, b.hash)
	}
	return cmp.Compare(a.rank, b.rank)
}

// spooledHash is the bytes of a hashed in a spool.
const spooledHash = 12

// add takes the hash of the next rank.
func (b *indexBuilder) add(hash uint64) error {
	if len(b.run) == b.limit {
		if err := b.spoolRun(); err != nil {
			return err
		}
	}
	b.run = append(b.run, hashed{hash, uint32(b.next)})
	b.next++
	return nil
}

func (b *indexBuilder) spoolRun() error {
	slices.SortFunc(b.run, compareHashed)
	var e [spooledHash]byte
	for _, h := range b.run {
		binary.LittleEndian.PutUint64(e[:], h.hash)
		binary.LittleEndian.PutUint32(e[8:], h.rank)
		if _, err := b.runs.Write(e[:]); err != nil {
			return err
		}
	}
	b.lengths = append(b.lengths, len(b.run))
	b.run = b.run[:0]
	return nil
}

// sorted calls fn with every entry in ascending order of hash.
func (b *indexBuilder) sorted(fn func(hashed) error) error {
	if len(b.lengths) == 0 {
		slices.SortFunc(b.run, compareHashed)
		for _, h := range b.run {
			if err := fn(h); err != nil {
				return err
			}
		}
		return nil
	}
	if err := b.spoolRun(); err != nil {
		return err
	}
	b.run = nil
	heap := make([]*hashRun, 0, len(b.lengths))
	var offset int64
	for _, n := range b.lengths {
		length := int64(n) * spooledHash
		in, err := b.runs.read(offset, length, 16<<10)
		if err != nil {
			return err
		}
		offset += length
		r := &hashRun{in: in}
		if ok, err := r.advance(); err != nil {
			return err
		} else if ok {
			heap = append(heap, r)
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	for len(heap) > 0 {
		if err := fn(heap[0].first); err != nil {
			return err
		}
		ok, err := heap[0].advance()
		if err != nil {
			return err
		}
		if !ok {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		sink(heap, 0)
	}
	return nil
}

// hashRun is a spooled run that is being merged.
type hashRun struct {
	first hashed
	in    *bufio.Reader
	entry [spooledHash]byte // here, because as a local it would be allocated for each entry
}

// advance reads the next entry into first; false is the end.
func (r *hashRun) advance() (bool, error) {
	if _, err := io.ReadFull(r.in, r.entry[:]); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("temporary file beside the snapshot: %w", err)
	}
	r.first = hashed{binary.LittleEndian.Uint64(r.entry[:]), binary.LittleEndian.Uint32(r.entry[8:])}
	return true, nil
}

// sink restores the heap below i.
func sink(heap []*hashRun, i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(heap) && compareHashed(heap[child].first, heap[least].first) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// writeTo writes the index section. The directory follows the entries and is spooled meanwhile:
// of four thousand million users it takes 2 GiB.
func (b *indexBuilder) writeTo(out io.Writer, dir string) error {
	x := directoryBits(b.next)
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], uint64(x))
	if _, err := out.Write(word[:]); err != nil {
		return err
	}
	directory := spool{dir: dir}
	defer directory.close()
	var written, begun uint64 // entries, and directory values
	var begin [4]byte
	beginTo := func(top uint64) error {
		for ; begun <= top; begun++ {
			binary.LittleEndian.PutUint32(begin[:], uint32(written))
			if _, err := directory.Write(begin[:]); err != nil {
				return err
			}
		}
		return nil
	}
	err := b.sorted(func(h hashed) error {
		if err := beginTo(h.hash >> (64 - x)); err != nil {
			return err
		}
		written++
		binary.LittleEndian.PutUint64(word[:], h.hash<<x>>32<<32|uint64(h.rank))
		_, err := out.Write(word[:])
		return err
	})
	if err != nil {
		return err
	}
	if err := beginTo(1 << x); err != nil {
		return err
	}
	in, err := directory.read(0, -1, 64<<10)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

func (b *indexBuilder) close() { b.runs.close() }
