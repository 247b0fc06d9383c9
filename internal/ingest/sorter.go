package ingest

import (
	"math"
	"sync"

	"weir/internal/disk"
)

// SortOptions say what is sorted.
type SortOptions struct {
	// Dir holds the spill file; "" is the system's directory for temporary files.
	Dir string
	// Memory is what the buffers take, in bytes, both while filling and while merging.
	Memory int64
	// Keys is Number or String.
	Keys Kind
	// Apart refuses a key that is in two sources or, of lists, in two rows, with a [SharedKeyError].
	Apart bool
}

// Sorter groups values by key in bounded memory: keys ascend, numbers by size and strings by their
// bytes; the values of one key are in ascending order of what goes with them, and in that of the
// input where that is equal or missing.
//
// What is added fills a buffer; a full one is sorted in the background and appended to the spill
// file as a run, while another fills. Merge then reads all runs side by side. How much can be
// sorted grows with the square of Memory: with 1 GiB it is terabytes.
type Sorter struct {
	// MaxKey and MaxValue are the largest so far; MaxKey is for numbers. Values counts them all.
	MaxKey, MaxValue, Values uint64

	o       SortOptions
	file    *disk.TempFile
	size    int64 // of the file
	runs    []run
	filling *buffer
	resting *buffer // the other one, when nobody sorts it
	width   int
	wide    bool // values of lists take 64 bits

	sorting sync.WaitGroup
	failed  error // of the background; read after sorting.Wait
	scratch *buffer
}

// NewSorter returns a sorter that has created its spill file. Close removes it.
func NewSorter(o SortOptions) (*Sorter, error) {
	file, err := newTempFile(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Memory = max(o.Memory, 1<<10)
	return &Sorter{o: o, file: file, filling: &buffer{}, resting: &buffer{}, scratch: &buffer{}}, nil
}

// Close removes the spill file.
func (s *Sorter) Close() error {
	s.sorting.Wait()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// A buffer holds either lists, as records of key, place and length, or single values, as records of
// key, value and order in the width that fits them.
type buffer struct {
	source  int
	names   *Table // of the keys, when these are strings; record keys are then numbers in it
	lists   []record[uint64, uint64]
	small   []uint32 // values of lists
	large   []uint64 // of lists with values of more than 32 bits
	ordered bool
	rows12  []record[uint32, uint32]
	rows16  []record[uint32, uint64]
	rows24  []record[uint64, uint64]
}

func (b *buffer) reset(source int) {
	b.source = source
	b.lists, b.small, b.large = b.lists[:0], b.small[:0], b.large[:0]
	b.rows12, b.rows16, b.rows24 = b.rows12[:0], b.rows16[:0], b.rows24[:0]
	if b.names != nil {
		b.names.reset()
	}
}

func (b *buffer) empty() bool {
	return len(b.lists)+len(b.rows12)+len(b.rows16)+len(b.rows24) == 0
}

// size is how many bytes of the budget are used.
func (b *buffer) size() int64 {
	n := 24*int64(len(b.lists)) + 4*int64(len(b.small)) + 8*int64(len(b.large))
	n += 12*int64(len(b.rows12)) + 16*int64(len(b.rows16)) + 24*int64(len(b.rows24))
	if b.names != nil {
		n += b.names.Size()
	}
	return n
}

// begin makes room in the filling buffer for n values of a source.
func (s *Sorter) begin(source, n int) error {
	b := s.filling
	// Filling, sorting and the sort's scratch share the memory.
	full := b.size() > s.o.Memory/3
	if full || s.o.Apart && b.source != source {
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.filling.source = source
	if s.o.Keys == String && s.filling.names == nil {
		s.filling.names = NewTable()
	}
	s.Values += uint64(n)
	return nil
}

// key returns what stands for key i of a column in the records of the filling buffer.
func (s *Sorter) key(keys *Column, i int) uint64 {
	if s.o.Keys == String {
		return uint64(s.filling.names.Add(keys.String(i)))
	}
	k := keys.Numbers[i]
	s.MaxKey = max(s.MaxKey, k)
	return k
}

// AddLists adds a batch of rows that are each a key and a list. values are those of all lists, in
// turn, and ends says where each list ends.
func (s *Sorter) AddLists(source int, keys *Column, values []uint64, ends []uint32) error {
	or := uint64(0)
	for _, v := range values {
		or |= v
		s.MaxValue = max(s.MaxValue, v)
	}
	if or > math.MaxUint32 && !s.wide {
		if err := s.flush(); err != nil {
			return err
		}
		s.wide = true
	}
	if err := s.begin(source, len(values)); err != nil {
		return err
	}
	b := s.filling
	base := len(b.small) + len(b.large)
	if s.wide {
		b.large = append(b.large, values...)
	} else {
		b.small = narrow(reserve(b.small, s.o.Memory/12), values)
	}
	from := 0
	for i, end := range ends {
		b.lists = append(b.lists, record[uint64, uint64]{s.key(keys, i), uint64(base + from),
			uint64(int(end) - from)})
		from = int(end)
	}
	return nil
}

// AddRows adds a batch of rows that are each a key and one value. order, ascending, says how the
// values of one key are to be arranged; nil is as they come, for all batches alike. It has no NaN.
func (s *Sorter) AddRows(source int, keys *Column, values []uint64, order []float64) error {
	width := 0
	for _, o := range order {
		if float64(float32(o)) != o {
			width = 1
			break
		}
	}
	or := uint64(0)
	for _, v := range values {
		or |= v
		s.MaxValue = max(s.MaxValue, v)
	}
	if s.o.Keys == Number {
		for _, k := range keys.Numbers {
			or |= k
		}
	}
	if or > math.MaxUint32 {
		width = 2
	}
	if width > s.width {
		if err := s.flush(); err != nil {
			return err
		}
		s.width = width
	}
	if err := s.begin(source, len(values)); err != nil {
		return err
	}
	b := s.filling
	b.ordered = order != nil
	switch s.width {
	case 0:
		b.rows12 = reserve(b.rows12, s.o.Memory/36)
		for i, v := range values {
			r := record[uint32, uint32]{key: uint32(s.key(keys, i)), value: uint32(v)}
			if order != nil {
				r.order = sortable32(float32(order[i]))
			}
			b.rows12 = append(b.rows12, r)
		}
	case 1:
		b.rows16 = reserve(b.rows16, s.o.Memory/48)
		for i, v := range values {
			r := record[uint32, uint64]{key: uint32(s.key(keys, i)), value: uint32(v)}
			if order != nil {
				r.order = sortable64(order[i])
			}
			b.rows16 = append(b.rows16, r)
		}
	default:
		b.rows24 = reserve(b.rows24, s.o.Memory/72)
		for i, v := range values {
			r := record[uint64, uint64]{key: s.key(keys, i), value: v}
			if order != nil {
				r.order = sortable64(order[i])
			}
			b.rows24 = append(b.rows24, r)
		}
	}
	return nil
}

// flush hands the filling buffer to the background and goes on with the other one.
func (s *Sorter) flush() error {
	s.sorting.Wait()
	if s.failed != nil {
		return s.failed
	}
	full := s.filling
	if full.empty() {
		return nil
	}
	s.filling, s.resting = s.resting, full
	s.filling.reset(full.source)
	s.sorting.Go(func() { s.failed = s.write(full) })
	return nil
}

// finish sorts what is left. Nothing is added after it.
func (s *Sorter) finish() error {
	if err := s.flush(); err != nil {
		return err
	}
	s.sorting.Wait()
	s.filling, s.resting, s.scratch = nil, nil, nil
	return s.failed
}

// reserve gives an empty slice its final room at once. Memory that is not written to costs nothing,
// and growing by copies would cost twice the room.
func reserve[T any](s []T, n int64) []T {
	const most = 1 << 16 // room for the batch that goes over
	if cap(s) == 0 {
		return make([]T, 0, n+most)
	}
	return s
}

func narrow(dst []uint32, values []uint64) []uint32 {
	n := len(dst)
	dst = append(dst, make([]uint32, len(values))...)
	out := dst[n:]
	for i, v := range values {
		out[i] = uint32(v)
	}
	return dst
}

// sortable32 maps floats to numbers that are in the same order.
func sortable32(x float32) uint32 {
	b := math.Float32bits(x + 0) // -0 is 0
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

func sortable64(x float64) uint64 {
	b := math.Float64bits(x + 0)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// widen makes of a sortable32 the sortable64 of the same number.
func widen(s uint32) uint64 {
	b := s &^ (1 << 31)
	if s>>31 == 0 {
		b = ^s
	}
	return sortable64(float64(math.Float32frombits(b)))
}
