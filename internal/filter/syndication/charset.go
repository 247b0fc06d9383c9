package syndication

import (
	"bytes"
	"mime"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// mapping says where in the source a byte of its text comes from. It has a point before each of <, >, " and
// ' and one after it, which is where all ranges begin and end but for white space; in JSON at each character.
type mapping struct {
	points []point
	unit   int // bytes of a white space character in the source
}

type point struct{ text, source int }

// source returns where a byte of the text is in the source.
func (m *mapping) source(text int) int {
	if m == nil {
		return text
	}
	k := sort.Search(len(m.points), func(i int) bool { return m.points[i].text >= text })
	if k < len(m.points) && m.points[k].text == text {
		return m.points[k].source
	}
	if k == len(m.points) {
		k--
	}
	return m.points[k].source - (m.points[k].text-text)*m.unit // white space before it
}

// place says where in the source the feed's items and links are.
func (m *mapping) place(f *Feed) {
	for i := range f.Items {
		it := &f.Items[i]
		start := it.in.Start
		for start > 0 && isSpace(f.text[start-1]) {
			start--
		}
		it.Range = Range{m.source(it.in.Start), m.source(it.in.End)}
		unit := 1
		if m != nil {
			unit = m.unit
		}
		it.Range.Start -= (it.in.Start - start) * unit
	}
	for i, l := range f.SelfLinks {
		f.SelfLinks[i] = Range{m.source(l.Start), m.source(l.End)}
	}
	if f.closed != "" {
		f.end = m.source(f.end)
	} else {
		f.end = len(f.Source)
	}
}

// decode sets Charset and text. What decides is, in this order: a byte order mark, the header field of
// HTTP, what the document declares, and what its bytes look like.
func (f *Feed) decode(contentType string) *mapping {
	b := f.Source
	wide := func(name string, size int, big bool) *mapping {
		f.Charset = name
		return f.widen(size, big)
	}
	switch {
	case bytes.HasPrefix(b, []byte("\xef\xbb\xbf")):
		f.Charset, f.text = "utf-8", b
		return nil
	case bytes.HasPrefix(b, []byte("\x00\x00\xfe\xff")), bytes.HasPrefix(b, []byte("\x00\x00\x00<")):
		return wide("utf-32be", 4, true)
	case bytes.HasPrefix(b, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(b, []byte("<\x00\x00\x00")):
		return wide("utf-32le", 4, false)
	case bytes.HasPrefix(b, []byte("\xfe\xff")), bytes.HasPrefix(b, []byte("\x00<")):
		return wide("utf-16be", 2, true)
	case bytes.HasPrefix(b, []byte("\xff\xfe")), bytes.HasPrefix(b, []byte("<\x00")):
		return wide("utf-16le", 2, false)
	}
	for _, label := range [...]string{charsetOf(contentType), declared(b)} {
		if label == "" {
			continue
		} else if strings.EqualFold(label, "utf-8") {
			break
		}
		e, err := htmlindex.Get(label)
		if err != nil {
			f.damaged("an unknown charset")
			continue
		}
		name, err := htmlindex.Name(e)
		if err != nil || strings.HasPrefix(name, "utf-") || name == "replacement" ||
			name == "x-user-defined" {
			break // bytes that begin like this are not in UTF-16
		}
		if m := f.narrow(name, e); m != nil {
			return m
		}
	}
	if f.Charset, f.text = "utf-8", b; utf8.Valid(b) {
		return nil
	}
	f.damaged("bytes that are not of the charset")
	if !hasMultibyte(b) {
		e, _ := htmlindex.Get("windows-1252")
		return f.narrow("windows-1252", e)
	}
	f.invalid = true
	return nil
}

// charsetOf returns the charset of a Content-Type.
func charsetOf(contentType string) string {
	if !strings.Contains(contentType, ";") {
		return ""
	}
	_, params, _ := mime.ParseMediaType(strings.ReplaceAll(contentType, "= ", "="))
	return strings.Trim(params["charset"], "' ")
}

// declared returns the charset that an XML declaration names.
func declared(b []byte) string {
	b = b[skipSpace(b, 0):]
	end := bytes.Index(b, []byte("?>"))
	if !bytes.HasPrefix(b, []byte("<?xml")) || end < 0 {
		return ""
	}
	var room [4]attribute
	t, ok, err := readTag(b, len("<?xml"), room[:0], len(room))
	if !ok || err != nil {
		return ""
	}
	for _, a := range t.attrs {
		if string(a.name) == "encoding" {
			return string(b[a.value.Start:a.value.End])
		}
	}
	return ""
}

// hasMultibyte is true when there is a whole character of UTF-8 that is not ASCII in bytes that are not all
// UTF-8.
func hasMultibyte(b []byte) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if size > 1 && r != utf8.RuneError {
			return true
		}
		b = b[size:]
	}
	return false
}

// marks are the characters at which a mapping has points.
const marks = `<>"'`

// narrow decodes a charset of which ASCII is a part. The marks are no part of other characters in any but
// ISO-2022-JP, which is read a byte at a time.
func (f *Feed) narrow(name string, e encoding.Encoding) *mapping {
	d := e.NewDecoder().Transformer
	isJSON := bytes.HasPrefix(trim(f.Source), []byte("{"))
	m := &mapping{unit: 1}
	b, text := f.Source, make([]byte, 0, len(f.Source)+len(f.Source)/2)
	var room [256]byte
	for at := 0; at < len(b); {
		n := 1
		switch {
		case name == "iso-2022-jp" || isJSON:
		case strings.IndexByte(marks, b[at]) < 0:
			if n = bytes.IndexAny(b[at:], marks); n < 0 {
				n = len(b) - at
			}
			n = min(n, len(room)/4)
		}
		m.points = append(m.points, point{len(text), at})
		wrote, read, err := d.Transform(room[:], b[at:at+n], at+n == len(b))
		for k := n + 1; read == 0 && err != nil && at+k <= len(b) && k < 16; k++ {
			wrote, read, err = d.Transform(room[:], b[at:at+k], at+k == len(b))
		}
		if read == 0 {
			read = 1
			wrote = copy(room[:], "\uFFFD")
		}
		text = append(text, room[:wrote]...)
		at += read
	}
	m.points = append(m.points, point{len(text), len(b)})
	if bytes.Contains(text, []byte("\uFFFD")) {
		f.damaged("bytes that are not of the charset")
	}
	f.Charset, f.text = name, text
	return m
}

// widen decodes UTF-16 and UTF-32.
func (f *Feed) widen(size int, big bool) *mapping {
	m := &mapping{unit: size}
	b, text := f.Source, make([]byte, 0, len(f.Source))
	unit := func(at int) rune {
		var r rune
		for k := range size {
			if big {
				r = r<<8 | rune(b[at+k])
			} else {
				r |= rune(b[at+k]) << (8 * k)
			}
		}
		return r
	}
	at, isJSON := 0, false
	for at+size <= len(b) {
		r, n := unit(at), size
		if size == 2 && utf16.IsSurrogate(r) && at+2*size <= len(b) {
			if c := utf16.DecodeRune(r, unit(at+2)); c != utf8.RuneError {
				r, n = c, 4
			}
		}
		start := len(text)
		if at > 0 || r != 0xfeff {
			text = utf8.AppendRune(text, r)
		}
		isJSON = isJSON || r == '{' && len(trim(text)) == 1
		if isJSON || r < utf8.RuneSelf && strings.IndexByte(marks, byte(r)) >= 0 {
			m.points = append(m.points, point{start, at}, point{len(text), at + n})
		}
		at += n
	}
	if at < len(b) {
		f.damaged("bytes that are not of the charset")
	}
	m.points = append(m.points, point{len(text), at})
	f.text = text
	return m
}
