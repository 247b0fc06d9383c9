package ingest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A run is what one buffer became: groups of values in ascending order of their keys. It is stored
// by sections, each read from front to back:
//
//	keys    varint of the difference to the key before, or a length byte and a string
//	counts  varint of the number of values
//	values  4 or 8 bytes each, little endian
//	orders  4 or 8 bytes each, or nothing
//
// In a run of lists a key may have several groups, in the order of the input.
type run struct {
	source      int
	groups      uint64
	lists       bool
	wide        bool // values take 8 bytes
	ordered     bool
	wideOrders  bool
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
	r := run{source: b.source, stringsKeys: b.names != nil}
	var ranked []uint32 // numbers of the keys that are strings, in order
	if b.names != nil {
		ranked = b.names.Sorted()
		rank := make([]uint32, len(ranked))
		for i, n := range ranked {
			rank[n] = uint32(i)
		}
		b.rank(rank)
	}
	name := func(key uint64) []byte { return b.names.Get(ranked[key]) }
	var err error
	switch {
	case len(b.lists) > 0:
		err = s.writeLists(&r, b, name)
	case len(b.rows12) > 0:
		err = writeRows(s, &r, b, &b.rows12, &s.scratch.rows12, name)
	case len(b.rows16) > 0:
		err = writeRows(s, &r, b, &b.rows16, &s.scratch.rows16, name)
	default:
		err = writeRows(s, &r, b, &b.rows24, &s.scratch.rows24, name)
	}
	if err != nil {
		return tempError(err)
	}
	s.runs = append(s.runs, r)
	return nil
}

// rank puts ranks in the place of the numbers of names.
func (b *buffer) rank(rank []uint32) {
	for i := range b.lists {
		b.lists[i].key = uint64(rank[b.lists[i].key])
	}
	for i := range b.rows12 {
		b.rows12[i].key = rank[b.rows12[i].key]
	}
	for i := range b.rows16 {
		b.rows16[i].key = rank[b.rows16[i].key]
	}
	for i := range b.rows24 {
		b.rows24[i].key = uint64(rank[b.rows24[i].key])
	}
}

func (s *Sorter) writeLists(r *run, b *buffer, name func(uint64) []byte) error {
	scratch := &s.scratch.lists
	if len(*scratch) < len(b.lists) {
		*scratch = make([]record[uint64, uint64], len(b.lists))
	}
	lists := radixSort(b.lists, (*scratch)[:len(b.lists)])
	r.lists, r.groups = true, uint64(len(lists))
	r.wide = len(b.large) > 0
	w := sectionWriter{s: s}
	keys := keyWriter{w: &w, strings: r.stringsKeys, name: name}
	for i := range lists {
		keys.add(lists[i].key)
	}
	r.keys = w.end()
	for i := range lists {
		w.varint(lists[i].order)
	}
	r.counts = w.end()
	for i := range lists {
		from, to := lists[i].value, lists[i].value+lists[i].order
		if r.wide {
			for _, v := range b.large[from:to] {
				w.uint64(v)
			}
		} else {
			for _, v := range b.small[from:to] {
				w.uint32(v)
			}
		}
	}
	r.values = w.end()
	return w.err
}

func writeRows[K, O word](s *Sorter, r *run, b *buffer, rows, scratch *[]record[K, O],
	name func(uint64) []byte) error {
	if len(*scratch) < len(*rows) {
		*scratch = make([]record[K, O], cap(*rows))
	}
	sorted := radixSort(*rows, (*scratch)[:len(*rows)])
	r.ordered = b.ordered
	switch any(sorted).(type) {
	case []record[uint32, uint64]:
		r.wideOrders = true
	case []record[uint64, uint64]:
		r.wide, r.wideOrders = true, true
	}
	w := sectionWriter{s: s}
	keys := keyWriter{w: &w, strings: r.stringsKeys, name: name}
	for i := range sorted {
		if i == 0 || sorted[i].key != sorted[i-1].key {
			keys.add(uint64(sorted[i].key))
			r.groups++
		}
	}
	r.keys = w.end()
	from := 0
	for i := range sorted {
		if sorted[i].key != sorted[from].key {
			w.varint(uint64(i - from))
			from = i
		}
	}
	w.varint(uint64(len(sorted) - from))
	r.counts = w.end()
	for i := range sorted {
		if r.wide {
			w.uint64(uint64(sorted[i].value))
		} else {
			w.uint32(uint32(sorted[i].value))
		}
	}
	r.values = w.end()
	if r.ordered {
		for i := range sorted {
			if r.wideOrders {
				w.uint64(uint64(sorted[i].order))
			} else {
				w.uint32(uint32(sorted[i].order))
			}
		}
	}
	r.orders = w.end()
	return w.err
}

// keyWriter encodes ascending keys.
type keyWriter struct {
	w       *sectionWriter
	strings bool
	name    func(uint64) []byte
	last    uint64
}

func (k *keyWriter) add(key uint64) {
	if k.strings {
		k.w.text(k.name(key))
		return
	}
	k.w.varint(key - k.last)
	k.last = key
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
