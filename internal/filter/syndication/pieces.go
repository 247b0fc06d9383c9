package syndication

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// Bits is a set of items by index. Those beyond its end are not in it.
type Bits []uint64

// NewBits returns the set of none of n items.
func NewBits(n int) Bits { return make(Bits, (n+63)/64) }

// Has is true when the set has item i.
func (b Bits) Has(i int) bool { return i>>6 < len(b) && b[i>>6]>>(i&63)&1 != 0 }

// Set adds item i, which is below the n of NewBits.
func (b Bits) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// Clear removes item i.
func (b Bits) Clear(i int) { b[i>>6] &^= 1 << (i & 63) }

// Pieces appends the bytes of the feed without the items that are not in keep, as pieces of Source in their
// order. With a self, the URLs by which the feed refers to itself are replaced by it. What stands between
// items stays, except for the commas of JSON. Of a feed that was cut off what is not whole is left out, and
// its elements are closed.
func (f *Feed) Pieces(dst [][]byte, keep Bits, self string) [][]byte {
	w := f.writer(dst, self)
	kept := 0
	for i := range f.Items {
		it := &f.Items[i]
		if f.Format == JSON {
			if i == 0 {
				w.to(it.Start)
			} else if keep.Has(i) && kept > 0 {
				w.add(f.Source[f.Items[i-1].End:it.Start])
			}
			if keep.Has(i) {
				w.add(f.Source[it.Start:it.End])
				kept++
			}
			w.skip(it.End)
			continue
		}
		w.to(it.Start)
		if keep.Has(i) {
			w.to(it.End)
		} else {
			w.skip(it.End)
		}
	}
	return w.finish()
}

// pieceWriter makes pieces of a source, replacing self links.
type pieceWriter struct {
	f     *Feed
	dst   [][]byte
	at    int
	links []Range
	self  []byte
}

func (f *Feed) writer(dst [][]byte, self string) pieceWriter {
	w := pieceWriter{f: f, dst: dst}
	if self != "" {
		w.links, w.self = f.SelfLinks, f.quote(self)
	}
	return w
}

// add appends bytes, to the last piece where they follow it.
func (w *pieceWriter) add(b []byte) {
	if len(b) == 0 {
		return
	}
	if n := len(w.dst); n > 0 {
		last := w.dst[n-1]
		if cap(last) > len(last) && len(last) > 0 && &last[:len(last)+1][len(last)] == &b[0] {
			w.dst[n-1] = last[:len(last)+len(b)]
			return
		}
	}
	w.dst = append(w.dst, b)
}

// to appends the source up to a byte.
func (w *pieceWriter) to(end int) {
	for len(w.links) > 0 && w.links[0].Start < end {
		if l := w.links[0]; l.Start >= w.at {
			w.add(w.f.Source[w.at:l.Start])
			w.dst = append(w.dst, w.self)
			w.at = l.End
		}
		w.links = w.links[1:]
	}
	if end > w.at {
		w.add(w.f.Source[w.at:end])
		w.at = end
	}
}

// skip leaves the source out up to a byte.
func (w *pieceWriter) skip(end int) {
	w.at = max(w.at, end)
	for len(w.links) > 0 && w.links[0].Start < end {
		w.links = w.links[1:]
	}
}

func (w *pieceWriter) finish() [][]byte {
	w.to(w.f.end)
	if w.f.closed != "" {
		w.dst = append(w.dst, w.f.encodeASCII(w.f.closed))
	}
	return w.dst
}

// quote writes a URL as it stands within quotes in the source.
func (f *Feed) quote(url string) []byte {
	if f.Format == JSON {
		return f.encodeASCII(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(url))
	}
	return f.encodeASCII(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'",
		"&#39;").Replace(url))
}

// encodeASCII writes ASCII in the charset of the source.
func (f *Feed) encodeASCII(s string) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	if strings.HasSuffix(f.Charset, "be") {
		order = binary.BigEndian
	}
	var b []byte
	switch {
	case strings.HasPrefix(f.Charset, "utf-16"):
		for _, u := range utf16.Encode([]rune(s)) {
			b = order.AppendUint16(b, u)
		}
	case strings.HasPrefix(f.Charset, "utf-32"):
		for _, r := range s {
			b = order.AppendUint32(b, uint32(r))
		}
	default:
		b = []byte(s)
	}
	return b
}
