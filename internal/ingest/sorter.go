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

	sorting sync.WaitGroup
	failed  error // of the background; read after sorting.Wait
	scratch []record
}

// NewSorter returns a sorter that has created its spill file. Close removes it.
func NewSorter(o SortOptions) (*Sorter, error) {
	file, err := newTempFile(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Memory = max(o.Memory, 1<<10)
	return &Sorter{o: o, file: file, filling: &buffer{}, resting: &buffer{}}, nil
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

// A buffer holds either lists, as records of key, place among the values and length, or single values, as
// records of key, value and order.
type buffer struct {
	source  int
	names   *Table // of the keys, when these are strings; record keys are then numbers in it
	records []record
	lists   bool
	ordered bool
	values  []uint64 // of lists
	bits    uint64   // of all values
}

func (b *buffer) reset(source int) {
	b.source, b.bits = source, 0
	b.records, b.values = b.records[:0], b.values[:0]
	if b.names != nil {
		b.names.reset()
	}
}

// size is how many bytes of the budget are used.
func (b *buffer) size() int64 {
	n := 24*int64(len(b.records)) + 8*int64(len(b.values))
	if b.names != nil {
		n += b.names.Size()
	}
	return n
}

// begin returns the filling buffer, with room for values of a source, which it takes account of.
func (s *Sorter) begin(source int, values []uint64) (*buffer, error) {
	// Filling, sorting and the sort's scratch share the memory.
	full := s.filling.size() > s.o.Memory/3
	if full || s.o.Apart && s.filling.source != source {
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	b := s.filling
	b.source = source
	if s.o.Keys == String && b.names == nil {
		b.names = NewTable()
	}
	for _, v := range values {
		b.bits |= v
		s.MaxValue = max(s.MaxValue, v)
	}
	s.Values += uint64(len(values))
	return b, nil
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
	b, err := s.begin(source, values)
	if err != nil {
		return err
	}
	b.lists = true
	at := len(b.values)
	b.values = append(reserve(b.values, s.o.Memory/24), values...)
	from := 0
	for i, end := range ends {
		b.records = append(b.records, record{s.key(keys, i), uint64(at + from), uint64(int(end) - from)})
		from = int(end)
	}
	return nil
}

// AddRows adds a batch of rows that are each a key and one value. order, ascending, says how the
// values of one key are to be arranged; nil is as they come, for all batches alike. It has no NaN.
func (s *Sorter) AddRows(source int, keys *Column, values []uint64, order []float64) error {
	b, err := s.begin(source, values)
	if err != nil {
		return err
	}
	b.ordered = order != nil
	b.records = reserve(b.records, s.o.Memory/72)
	for i, v := range values {
		r := record{key: s.key(keys, i), value: v}
		if order != nil {
			r.order = sortable(order[i])
		}
		b.records = append(b.records, r)
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
	if len(full.records) == 0 {
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

// sortable maps floats to numbers that are in the same order.
func sortable(x float64) uint64 {
	b := math.Float64bits(x + 0) // -0 is 0
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}
