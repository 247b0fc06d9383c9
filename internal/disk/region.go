package disk

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Granule is what a Region grows by: a multiple of every page size in use (4 to 64 KiB).
const Granule = 64 << 10

// Region is a file of 64-bit words mapped shared and writable, that can grow while it is used: address
// space for all it may become is reserved at once, and the file is mapped into that piece by piece, so no
// word ever moves. Words are in the byte order of the machine. Extend and Close are for one goroutine at a
// time; the words are for any.
type Region struct {
	words  []atomic.Uint64 // of the whole reservation
	mapped int64           // bytes of the file that are mapped
}

// Reserve takes address space, but no memory, for a file of up to size bytes, rounded up to whole granules.
// On systems where that cannot be done the error wraps errors.ErrUnsupported.
func Reserve(size int64) (*Region, error) {
	if size <= 0 {
		return nil, fmt.Errorf("reserve %d bytes of address space: the size must be positive", size)
	}
	rounded := RoundUp(size)
	if rounded < size || int64(int(rounded)) != rounded {
		return nil, fmt.Errorf("reserve %d bytes of address space: more than there are", size)
	}
	words, err := reserve(int(rounded))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of address space: %w: lower the greatest size or raise "+
			"the limit (ulimit -v)",
			rounded, err)
	}
	return &Region{words: words}, nil
}

// RoundUp returns size rounded up to whole granules.
func RoundUp(size int64) int64 { return (size + Granule - 1) / Granule * Granule }

// Words returns the whole reservation. Only the first Mapped()/8 words exist; to touch one beyond is a
// memory fault.
func (r *Region) Words() []atomic.Uint64 { return r.words }

// Mapped returns how many bytes of the file are mapped.
func (r *Region) Mapped() int64 { return r.mapped }

// Extend maps the bytes of f from Mapped() to size, which is a multiple of Granule, is not less than
// Mapped() and not more than was reserved. The file must be that long and its space allocated. It is the
// same file every time.
func (r *Region) Extend(f *os.File, size int64) error {
	if size%Granule != 0 || size < r.mapped || size > int64(len(r.words))*8 {
		return fmt.Errorf("map %s from %d to %d bytes of %d: out of range", f.Name(), r.mapped, size,
			len(r.words)*8)
	}
	if size == r.mapped {
		return nil
	}
	if err := r.extend(f, size); err != nil {
		return fmt.Errorf("map %s from %d to %d bytes: %w", f.Name(), r.mapped, size, err)
	}
	r.mapped = size
	return nil
}

// Flush hands what was written through the map to the file, for SyncData to write to the disk. On Linux the
// two are one and nothing is to be done.
func (r *Region) Flush() error {
	if r.mapped == 0 {
		return nil
	}
	return r.flush()
}

// Close gives the address space back. No word may be used afterwards. A second Close does nothing.
func (r *Region) Close() error {
	if r.words == nil {
		return nil
	}
	err := release(r.words)
	r.words, r.mapped = nil, 0
	return err
}

// Zeros is memory of 64-bit words, all zero, that can grow while it is used: no word ever moves. Extend and
// Close are for one goroutine at a time; the words are for any.
type Zeros struct {
	words  []atomic.Uint64 // of the whole reservation
	usable int
}

// ReserveZeros takes address space, but no memory, for up to n words. On systems where that cannot be done
// the error wraps errors.ErrUnsupported.
func ReserveZeros(n int) (*Zeros, error) {
	words, err := reserve(int(RoundUp(8 * int64(n))))
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of address space: %w", 8*n, err)
	}
	return &Zeros{words: words}, nil
}

// Words returns the whole reservation. To touch a word beyond those that Extend has made usable is a memory
// fault.
func (z *Zeros) Words() []atomic.Uint64 { return z.words }

// Extend makes the first n words usable, and a few more. Of these only the pages that are touched take
// memory.
func (z *Zeros) Extend(n int) error {
	n = min(int(RoundUp(8*int64(n)))/8, len(z.words))
	if n <= z.usable {
		return nil
	}
	if err := commit(z.words[z.usable:n]); err != nil {
		return fmt.Errorf("take %d bytes of memory: %w", 8*(n-z.usable), err)
	}
	z.usable = n
	return nil
}

// Close gives the address space back. No word may be used afterwards.
func (z *Zeros) Close() error { return release(z.words) }
