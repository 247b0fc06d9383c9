package ingest

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// A run is what one buffer became: groups of values in ascending order of their keys. It is stored
// by sections, each read from front to back:
//
//	keys    varint of the difference to the key before, or a length byte and a string
//	counts  varint of the number of values
//	values  4 or 8 bytes each, little endian
//	orders  8 bytes each, or nothing
//
// In a run of lists a key may have several groups, in the order of the input.
type run struct {
	source      int
	groups      uint64
	lists       bool
	wide        bool // values take 8 bytes: one of them does not fit 4
	ordered     bool
	keys        section
	counts      section
	values      section
	orders      section
	stringsKeys bool
}

// A section is a range of the spill file.
type section struct{ from, to int64 }

// write sorts a buffer and appends it to the spill file as a run.
func (s *Sorter) write(b *buffer) error {
	r := run{source: b.source, lists: b.lists, ordered: b.ordered, wide: b.bits > math.MaxUint32,
		stringsKeys: b.names != nil}
	var ranked []uint32 // numbers of the keys that are strings, in order
	if b.names != nil {
		ranked = b.names.Sorted()
		rank := make([]uint32, len(ranked))
		for i, n := range ranked {
			rank[n] = uint32(i)
		}
		for i := range b.records {
			b.records[i].key = uint64(rank[b.records[i].key])
		}
	}
	if len(s.scratch) < len(b.records) {
		s.scratch = make([]record, cap(b.records))
	}
	sorted := radixSort(b.records, s.scratch[:len(b.records)])
	w := sectionWriter{s: s}
	last := uint64(0)
	for i := range sorted {
		key := sorted[i].key
		switch {
		case !b.lists && i > 0 && key == sorted[i-1].key:
			continue
		case b.names != nil:
			w.text(b.names.Get(ranked[key]))
		default:
			w.varint(key - last)
			last = key
		}
		r.groups++
	}
	r.keys = w.end()
	for from, i := 0, 0; i < len(sorted); i++ {
		switch {
		case b.lists:
			w.varint(sorted[i].order)
		case i+1 == len(sorted) || sorted[i+1].key != sorted[i].key:
			w.varint(uint64(i + 1 - from))
			from = i + 1
		}
	}
	r.counts = w.end()
	var one [1]uint64
	for i := range sorted {
		values := one[:]
		if one[0] = sorted[i].value; b.lists {
			values = b.values[one[0] : one[0]+sorted[i].order]
		}
		w.values(values, r.wide)
	}
	r.values = w.end()
	if b.ordered {
		for i := range sorted {
			w.uint64(sorted[i].order)
		}
	}
	r.orders = w.end()
	if w.err != nil {
		return tempError(w.err)
	}
	s.runs = append(s.runs, r)
	return nil
}

// sectionWriter appends to the spill file.
type sectionWriter struct {
	s    *Sorter
	from int64
	buf  []byte
	err  error
}

const spillBuffer = 1 << 20

// room makes sure that n more bytes fit into the buffer.
func (w *sectionWriter) room(n int) {
	if w.buf == nil {
		w.from = w.s.size
		w.buf = make([]byte, 0, spillBuffer)
	}
	if len(w.buf)+n > cap(w.buf) {
		w.flush()
	}
}

func (w *sectionWriter) flush() {
	if w.err == nil {
		var n int
		n, w.err = w.s.file.WriteAt(w.buf, w.s.size)
		w.s.size += int64(n)
	}
	w.buf = w.buf[:0]
}

func (w *sectionWriter) uint32(v uint32) {
	w.room(4)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, v)
}

func (w *sectionWriter) uint64(v uint64) {
	w.room(8)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, v)
}

// values writes numbers of 4 or, wide, 8 bytes.
func (w *sectionWriter) values(values []uint64, wide bool) {
	for _, v := range values {
		if wide {
			w.uint64(v)
		} else {
			w.uint32(uint32(v))
		}
	}
}

func (w *sectionWriter) varint(v uint64) {
	w.room(binary.MaxVarintLen64)
	w.buf = binary.AppendUvarint(w.buf, v)
}

func (w *sectionWriter) text(s []byte) {
	w.room(1 + MaxString)
	w.buf = append(append(w.buf, byte(len(s))), s...)
}

// end ends a section and begins the next.
func (w *sectionWriter) end() section {
	w.room(0)
	w.flush()
	done := section{w.from, w.s.size}
	w.from = w.s.size
	return done
}

// A cursor reads a section from front to back.
type cursor struct {
	file io.ReaderAt
	section
	buf []byte
	pos int
}

func newCursor(file io.ReaderAt, s section, size int) cursor {
	return cursor{file: file, section: s, buf: make([]byte, 0, min(int64(size), s.to-s.from))}
}

// fill makes at least n bytes available at buf[pos:], or all that is left.
func (c *cursor) fill(n int) error {
	if len(c.buf)-c.pos >= n || c.from == c.to {
		return nil
	}
	rest := copy(c.buf, c.buf[c.pos:])
	c.pos = 0
	if cap(c.buf) < n {
		c.buf = append(make([]byte, 0, n), c.buf[:rest]...)
	}
	want := int(min(int64(cap(c.buf)-rest), c.to-c.from))
	c.buf = c.buf[:rest+want]
	got, err := c.file.ReadAt(c.buf[rest:], c.from)
	c.from += int64(got)
	if got == want {
		return nil
	}
	return fmt.Errorf("reading back a temporary file: %w", err)
}

func (c *cursor) varint() (uint64, error) {
	if err := c.fill(binary.MaxVarintLen64); err != nil {
		return 0, err
	}
	v, n := binary.Uvarint(c.buf[c.pos:])
	if n <= 0 {
		return 0, errSpill
	}
	c.pos += n
	return v, nil
}

// text returns a string that is valid until the next call.
func (c *cursor) text() ([]byte, error) {
	if err := c.fill(1 + MaxString); err != nil {
		return nil, err
	}
	b := c.buf[c.pos:]
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return nil, errSpill
	}
	c.pos += 1 + int(b[0])
	return b[1 : 1+int(b[0])], nil
}

var errSpill = fmt.Errorf("a temporary file has been changed: %w", io.ErrUnexpectedEOF)
