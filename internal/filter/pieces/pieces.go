// Package pieces answers with parts of a document, plain or compressed, without copying or compressing
// anything for an answer.
//
// A Document is cut once: into what each item takes, and what stands around items. Each part is deflated
// into blocks that end on a byte and may refer to the item before it. An answer has these where that item
// stays as well; where it does not, the part is deflated by itself, when an answer first asks for that. So the blocks
// are a deflate stream, and with a header, an end and a combined CRC-32 a gzip file. That costs size, since
// no part profits from all that stands before it: docs/filtering.md says how much.
//
// An answer is a list of slices. They point into the source and the blocks, neither of which may change
// while they are used. New and Isolate read the source, which may be mapped memory; to others a fault is up to
// who reads the slices. A Document may be used by many goroutines.
//
// Sources: RFC 1951 (deflate), RFC 1952 (gzip), and crc32_combine of zlib.
package pieces

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"

	"weir/internal/filter/syndication"
)

// Levels are those of zlib, of blocks after others and of those alone, of which an answer has few.
const (
	linkedLevel = 4
	aloneLevel  = 2
)

// What a part is, where it is not the item of that index.
const (
	always = -1 // stands in every answer
	self   = -2 // is replaced where the answer has a URL of its own, which stands in every answer
)

// Document is described by the package. Its slices have an element for each part.
type Document struct {
	source []byte
	items  int
	owner  []int32  // the index of an item, or always, or self
	comma  []bool   // whether the part separates an item from one before it; nil where nothing does
	start  []uint32 // in source, and where the last ends
	after  []uint32 // in source, where that begins to which linked blocks may refer
	linked blocks   // of parts that stand after what is before them in the source
	sums   []uint32
	tail   []byte // of every answer: what closes elements of a source that was cut off

	alone  []atomic.Pointer[[]byte] // parts by themselves, as far as answers have asked for them
	memory atomic.Int64             // that alone takes
}

// blocks are deflated parts.
type blocks struct {
	start []uint32 // in bytes, and where the last ends
	bytes []byte
}

func (b *blocks) of(from, to int) []byte { return b.bytes[b.start[from]:b.start[to]] }

// Tail of a gzip file.
type Tail struct {
	Sum  uint32 // CRC-32
	Size int    // of the text, in bytes
}

// New cuts a feed and compresses its parts. The document has slices of f.Source.
func New(f *syndication.Feed) (*Document, error) {
	if len(f.Source) > math.MaxUint32 {
		return nil, fmt.Errorf("a feed of %d bytes is too large", len(f.Source))
	}
	d := &Document{source: f.Source, items: len(f.Items)}
	d.cut(f)
	d.deflate()
	return d, nil
}

// cut finds the parts by what the feed gives of itself when everything stays.
func (d *Document) cut(f *syndication.Feed) {
	everything := syndication.NewBits(len(f.Items))
	for i := range f.Items {
		everything.Set(i)
	}
	end := 0
	for _, piece := range f.Pieces(nil, everything, "") {
		if at, ok := d.place(piece); ok {
			end = at + len(piece)
		} else {
			d.tail = piece
		}
	}
	parts := 2*len(f.Items) + 2*len(f.SelfLinks) + 1
	d.owner = make([]int32, 0, parts)
	d.start = make([]uint32, 0, parts+1)
	links := f.SelfLinks
	at := 0
	to := func(end int, owner int32) { // what follows, up to end, self links within apart
		for len(links) > 0 && links[0].Start < end {
			l := links[0]
			links = links[1:]
			if l.Start < at || l.End > end || owner != always {
				continue // within an item it is the item's
			}
			d.add(at, l.Start, owner)
			d.add(l.Start, l.End, self)
			at = l.End
		}
		d.add(at, end, owner)
		at = max(at, end)
	}
	for i := range f.Items {
		it := &f.Items[i]
		if f.Format == syndication.JSON && i > 0 {
			if d.comma == nil {
				d.comma = make([]bool, 0, parts)
			}
			d.comma = append(d.comma, make([]bool, len(d.owner)-len(d.comma))...)
			n := len(d.owner)
			to(it.Start, int32(i))
			for range len(d.owner) - n {
				d.comma = append(d.comma, true)
			}
		} else {
			to(it.Start, always)
		}
		to(it.End, int32(i))
	}
	to(end, always)
	d.start = append(d.start, uint32(end))
	if d.comma != nil {
		d.comma = append(d.comma, make([]bool, len(d.owner)-len(d.comma))...)
	}
}

// add adds a part, which need not be next to the one before it, of nothing for one.
func (d *Document) add(start, end int, owner int32) {
	if start < end || owner == self {
		d.owner = append(d.owner, owner)
		d.start = append(d.start, uint32(start))
	}
}

// place returns where in the source a slice of it begins.
func (d *Document) place(piece []byte) (int, bool) {
	at := cap(d.source) - cap(piece)
	return at, len(piece) > 0 && at >= 0 && at < len(d.source) && &d.source[at] == &piece[0]
}

// compressors are of both levels; they take more than half a megabyte.
var compressors = sync.Pool{New: func() any {
	c := new(compressor)
	for level, w := range map[int]**flate.Writer{aloneLevel: &c.alone, linkedLevel: &c.linked} {
		var err error
		if *w, err = flate.NewWriter(nil, level); err != nil {
			panic("BUG: " + err.Error())
		}
	}
	return c
}}

type compressor struct{ alone, linked *flate.Writer }

// deflate compresses all parts.
func (d *Document) deflate() {
	c := compressors.Get().(*compressor)
	defer compressors.Put(c)
	d.sums, d.after = make([]uint32, len(d.owner)), make([]uint32, len(d.owner))
	d.alone = make([]atomic.Pointer[[]byte], len(d.owner))
	d.linked.grow(len(d.owner), len(d.source)/3)
	before := uint32(0) // where the item before a part begins, or the document
	for p, owner := range d.owner {
		text := d.source[d.start[p]:d.start[p+1]]
		d.sums[p], d.after[p] = crc32.ChecksumIEEE(text), before
		if before < d.start[p] {
			d.linked.add(c.linked, d.source[before:d.start[p]], text)
		} else {
			d.linked.add(c.linked, nil, nil) // never asked for
		}
		if owner >= 0 && (d.comma == nil || !d.comma[p]) {
			before = d.start[p]
		}
	}
	d.linked.bytes = slices.Clip(bytes.Clone(d.linked.bytes))
}

// isolated returns where in a run of parts those begin whose blocks may refer to what stands before them.
func (d *Document) isolated(from, to int) (mid int) {
	mid = from + 1
	for mid < to && d.after[mid] < d.start[from] {
		mid++
	}
	return mid
}

// Isolate deflates the parts by themselves that an answer has so and that were not asked for yet, which is
// some 20 us a part. It returns how many bytes they take.
func (d *Document) Isolate(keep syndication.Bits, replace bool) (grown int) {
	var c *compressor
	d.runs(keep, replace, func(from, to int, replaced bool) {
		for p := from; !replaced && p < d.isolated(from, to); p++ {
			if d.alone[p].Load() != nil {
				continue
			}
			if c == nil {
				c = compressors.Get().(*compressor)
			}
			var b blocks
			b.add(c.alone, nil, d.source[d.start[p]:d.start[p+1]])
			text := bytes.Clone(b.bytes)
			if d.alone[p].CompareAndSwap(nil, &text) {
				grown += cap(text) + 32
			}
		}
	})
	if c != nil {
		compressors.Put(c)
	}
	d.memory.Add(int64(grown))
	return grown
}

func (b *blocks) grow(parts, size int) {
	b.start = append(make([]uint32, 0, parts+1), 0)
	b.bytes = make([]byte, 0, size+64*parts)
}

// Write implements io.Writer.
func (b *blocks) Write(p []byte) (int, error) {
	b.bytes = append(b.bytes, p...)
	return len(p), nil
}

// add compresses a part that stands after some text.
func (b *blocks) add(w *flate.Writer, after, text []byte) {
	begin := len(b.bytes)
	w.ResetDict(b, after)
	w.Write(text) //nolint:errcheck // b takes everything
	w.Flush()     //nolint:errcheck // as above
	if len(b.bytes)-begin > stored(len(text)) {
		b.bytes = appendStored(b.bytes[:begin], text)
	}
	b.start = append(b.start, uint32(len(b.bytes)))
}

// stored returns how long n bytes are in stored blocks.
func stored(n int) int { return n + 5*((n+math.MaxUint16-1)/math.MaxUint16) }

// appendStored appends text as stored blocks, none of which is the last.
func appendStored(dst, text []byte) []byte {
	for len(text) > 0 {
		n := min(len(text), math.MaxUint16)
		dst = append(dst, 0, byte(n), byte(n>>8), ^byte(n), ^byte(n>>8))
		dst, text = append(dst, text[:n]...), text[n:]
	}
	return dst
}

// Items returns how many items there are to choose of.
func (d *Document) Items() int { return d.items }

// Memory returns how many bytes d takes, without the source.
func (d *Document) Memory() int {
	return 300 + int(d.memory.Load()) + 8*len(d.alone) + cap(d.linked.bytes) + 4*(cap(d.owner)+cap(d.start)+
		cap(d.after)+cap(d.linked.start)+cap(d.sums)) + cap(d.comma) + cap(d.tail)
}

// runs calls yield for each run of parts that an answer has, and with replaced where the URL of the answer
// itself takes the place of a part.
func (d *Document) runs(keep syndication.Bits, replace bool, yield func(from, to int, replaced bool)) {
	begun, kept := -1, false
	for p, owner := range d.owner {
		stays := owner < 0
		if !stays && keep.Has(int(owner)) {
			if stays = d.comma == nil || !d.comma[p] || kept; d.comma == nil || !d.comma[p] {
				kept = true
			}
		}
		if begun >= 0 && (!stays || owner == self && replace) {
			yield(begun, p, false)
			begun = -1
		}
		switch {
		case owner == self && replace:
			yield(p, p+1, true)
		case stays && begun < 0:
			begun = p
		}
	}
	if begun >= 0 {
		yield(begun, len(d.owner), false)
	}
}

// Plain appends an answer with the items of keep. Where url is not nil it takes the place of the URLs by
// which the feed refers to itself; it is written as they are in the source.
func (d *Document) Plain(dst [][]byte, keep syndication.Bits, url []byte) [][]byte {
	d.runs(keep, url != nil, func(from, to int, replaced bool) {
		if replaced {
			dst = append(dst, url)
		} else if d.start[from] < d.start[to] {
			dst = append(dst, d.source[d.start[from]:d.start[to]])
		}
	})
	if len(d.tail) > 0 {
		dst = append(dst, d.tail)
	}
	return dst
}

// Tail returns what is at the end of the gzip file of an answer.
func (d *Document) Tail(keep syndication.Bits, url []byte) (t Tail) {
	add := func(sum uint32, n int) { t = Tail{combine(t.Sum, sum, uint32(n)), t.Size + n} }
	d.runs(keep, url != nil, func(from, to int, replaced bool) {
		if replaced {
			add(crc32.ChecksumIEEE(url), len(url))
			return
		}
		for p := from; p < to; p++ {
			add(d.sums[p], int(d.start[p+1]-d.start[p]))
		}
	})
	if len(d.tail) > 0 {
		add(crc32.ChecksumIEEE(d.tail), len(d.tail))
	}
	return t
}

// header is that of a gzip file without a name, made at no time by nobody.
var header = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}

// Gzip appends the same answer as a gzip file. What cannot point into d is appended to memory, which is
// returned as well and must not change while the answer is used; a memory that is large enough is not
// allocated anew. ok is false, and the answer of no use, where Isolate has to come first.
func (d *Document) Gzip(dst [][]byte, memory []byte, keep syndication.Bits, url []byte,
	t Tail) (list [][]byte, grown []byte, ok bool) {
	ok = true
	dst = append(dst, header)
	d.runs(keep, url != nil, func(from, to int, replaced bool) {
		if !replaced {
			mid := d.isolated(from, to)
			for p := from; p < mid; p++ {
				text := d.alone[p].Load()
				if text == nil {
					ok = false
					return
				}
				dst = append(dst, *text)
			}
			if linked := d.linked.of(mid, to); len(linked) > 0 {
				dst = append(dst, linked)
			}
			return
		}
		begin := len(memory)
		memory = appendStored(memory, url)
		dst = append(dst, memory[begin:])
	})
	begin := len(memory)
	memory = appendStored(memory, d.tail)
	memory = append(memory, 3, 0) // a last block of nothing
	memory = binary.LittleEndian.AppendUint32(memory, t.Sum)
	memory = binary.LittleEndian.AppendUint32(memory, uint32(t.Size))
	return append(dst, memory[begin:]), memory, ok
}
