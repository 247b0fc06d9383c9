package syndication

import (
	"slices"
	"strings"
)

// Ref names an item of a feed.
type Ref struct {
	Feed *Feed
	Item int
}

// Refs appends the items of keep in their order.
func (f *Feed) Refs(dst []Ref, keep Bits) []Ref {
	for i := range f.Items {
		if keep.Has(i) {
			dst = append(dst, Ref{f, i})
		}
	}
	return dst
}

// Arrange appends the bytes of the feed with these items instead of its own, as pieces: what sorting,
// limiting and merging need. Items of other feeds keep their bytes too, with the namespaces declared in
// them that the feed does not declare, if both feeds have the same format and are in UTF-8; otherwise all
// is converted to the feed's format. It returns the charset too, which is UTF-8 then, and f's otherwise.
func (f *Feed) Arrange(dst [][]byte, items []Ref, self string) ([][]byte, string) {
	for _, r := range items {
		if r.Feed != f && (r.Feed.Format != f.Format || r.Feed.Charset != "utf-8" || f.Charset != "utf-8") {
			return append(dst, f.Convert(nil, f.Format, items, self)), "utf-8"
		}
	}
	if f.insert == 0 && len(f.Items) == 0 {
		return append(dst, f.Convert(nil, f.Format, items, self)), "utf-8"
	}
	w := f.writer(dst, self)
	if len(f.Items) > 0 {
		w.to(f.Items[0].Start)
	} else if f.Charset == "utf-8" {
		w.to(f.insert)
	}
	for n, r := range items {
		it := &r.Feed.Items[r.Item]
		if f.Format == JSON && n > 0 {
			w.dst = append(w.dst, f.encodeASCII(","))
		}
		declared := f.missing(r.Feed)
		if len(declared) == 0 {
			w.add(r.Feed.Source[it.Start:it.End])
			continue
		}
		name := nameEnd(r.Feed.text, it.in.Start+1)
		w.dst = append(w.dst, r.Feed.Source[it.Start:name], declared, r.Feed.Source[name:it.End])
	}
	for i := range f.Items {
		if i > 0 && f.Format != JSON {
			w.to(f.Items[i].Start)
		}
		w.skip(f.Items[i].End)
	}
	return w.finish(), f.Charset
}

// missing returns the attributes that items of another feed need within f.
func (f *Feed) missing(other *Feed) []byte {
	if f == other || f.Format == JSON {
		return nil
	}
	var dst []byte
	uri := func(f *Feed, prefix string) string {
		for _, b := range slices.Backward(f.bound) {
			if b.prefix == prefix {
				return b.uri
			}
		}
		return ""
	}
	declare := func(prefix string) {
		want := uri(other, prefix)
		if uri(f, prefix) == want {
			return
		}
		dst = append(dst, " xmlns"...)
		if len(prefix) > 0 {
			dst = append(append(dst, ':'), prefix...)
		}
		dst = append(append(append(dst, `="`...), strings.ReplaceAll(want, `"`, "&quot;")...),
			'"')
	}
	bare := true
	for _, b := range other.bound {
		if uri(other, b.prefix) == b.uri {
			declare(b.prefix)
		}
		bare = bare && b.prefix != ""
	}
	if bare {
		declare("")
	}
	if other.base != f.base {
		dst = append(dst, ` xml:base="`...)
		dst = append(appendEscaped(dst, other.base), '"')
	}
	return dst
}
