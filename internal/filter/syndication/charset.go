package syndication

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"mime"
	"slices"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gogs/chardet"
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
func (m *mapping) place(f *Feed, text []byte) {
	for i := range f.Items {
		it := &f.Items[i]
		start := it.in.Start
		for start > 0 && isSpace(text[start-1]) {
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

// decode sets Charset and returns Source in UTF-8, which is Source itself where that is UTF-8. What decides is, in this order: a byte order mark, the header field of
// HTTP, what the document declares, and what its bytes look like. What is said and does not fit the bytes
// comes after what fits them.
func (f *Feed) decode(contentType string) ([]byte, *mapping) {
	b := f.Source
	if name, size, big := wide(b); size > 0 {
		f.Charset = name
		return f.widen(size, big)
	}
	f.Charset = "utf-8"
	if bytes.HasPrefix(b, []byte(byteOrderMark)) {
		return b, nil
	}
	said := [...]string{charsetOf(contentType), declared(b)}
	misfit := "" // what is said first that the bytes do not fit
	for _, label := range said {
		if label == "" {
			continue
		} else if strings.EqualFold(label, "utf-8") {
			break
		}
		name, e := lookUp(label)
		if e == nil {
			f.damaged("an unknown charset")
			continue
		}
		if name == "" {
			break // bytes that begin like this are not in UTF-16
		}
		if fits(e, b) {
			return f.narrow(name, e)
		}
		misfit = cmp.Or(misfit, name)
	}
	if said == [2]string{} && bytes.Contains(b, []byte("\x1b$")) {
		return f.narrow(lookUp("iso-2022-jp")) // a control character in all others
	}
	if misfit == "" && utf8.Valid(b) {
		return b, nil
	}
	whole, wrong := multibyte(b)
	if wrong == 0 && whole > 0 {
		return b, nil
	}
	f.damaged("bytes that are not of the charset")
	if wrong > 0 && whole >= wrong && misfit == "" {
		f.invalid = true // UTF-8 with a few bytes that are not
		return b, nil
	}
	return f.narrow(detect(b, cmp.Or(misfit, "windows-1252")))
}

// wide tells UTF-16 and UTF-32 by a byte order mark, or by the zeros around an ASCII character at the start.
func wide(b []byte) (name string, size int, big bool) {
	starts := func(mark string) bool { return bytes.HasPrefix(b, []byte(mark)) }
	zeros := 0 // bit 3 is the first byte
	for i, c := range b[:min(len(b), 4)] {
		if c == 0 {
			zeros |= 8 >> i
		}
	}
	switch {
	case starts("\x00\x00\xfe\xff"), zeros == 0b1110:
		return "utf-32be", 4, true
	case starts("\xff\xfe\x00\x00"), zeros == 0b0111:
		return "utf-32le", 4, false
	case starts("\xfe\xff"), starts("\x00<"), zeros == 0b1010:
		return "utf-16be", 2, true
	case starts("\xff\xfe"), starts("<\x00"), zeros == 0b0101:
		return "utf-16le", 2, false
	}
	return "", 0, false
}

// lookUp returns a charset and its name, which is empty for one of which ASCII is no part. It returns nil for
// a charset that is not known.
func lookUp(label string) (name string, e encoding.Encoding) {
	e, err := htmlindex.Get(label)
	if err != nil {
		return "", nil
	}
	name, err = htmlindex.Name(e)
	if err != nil || strings.HasPrefix(name, "utf-") || name == "replacement" || name == "x-user-defined" {
		name = ""
	}
	return name, e
}

// fits says whether bytes are of a charset, but for one in a thousand.
func fits(e encoding.Encoding, b []byte) bool {
	text, err := e.NewDecoder().Bytes(b)
	return err == nil && bytes.Count(text, []byte("\uFFFD")) <= len(b)/1000
}

// multibyte counts the characters beyond ASCII and the bytes that are none, were it UTF-8.
func multibyte(b []byte) (whole, wrong int) {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			wrong++
		case size > 1:
			whole++
		}
		b = b[size:]
	}
	return whole, wrong
}

// detected is how much of a document its charset is detected by, from the first byte that is not ASCII.
const detected = 64 << 10

// leastConfidence is that of a detection which is better than the assumption of windows-1252, in percent.
// What is known of charsets of one byte from three words is less.
const leastConfidence = 30

// detect returns the charset that bytes look most like, by how often they follow each other in languages, and
// otherwise, which need not fit, where that says nothing.
func detect(b []byte, otherwise string) (string, encoding.Encoding) {
	from := max(0, bytes.IndexFunc(b, func(r rune) bool { return r >= utf8.RuneSelf }))
	// It fails where it detects nothing. Results of the same confidence come in any order.
	results, _ := chardet.NewHtmlDetector().DetectAll(b[from:min(len(b), from+detected)])
	slices.SortFunc(results, func(x, y chardet.Result) int {
		return cmp.Or(y.Confidence-x.Confidence, strings.Compare(x.Charset, y.Charset))
	})
	for _, r := range results {
		if r.Confidence < leastConfidence {
			break
		}
		label := r.Charset
		if strings.HasPrefix(label, "ISO-8859-8") { // whose letters it has at the same places
			label = "windows-1255"
		}
		if name, e := lookUp(label); name == otherwise || name != "" && fits(e, b) {
			return name, e
		}
	}
	return lookUp(otherwise)
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
	doc := string(b[:end+2])
	var room [4]attribute
	t := tag{attrs: room[:0]}
	if ok, err := t.read(doc, len("<?xml"), len(room)); !ok || err != nil {
		return ""
	}
	for _, a := range t.attrs {
		if a.name == "encoding" {
			return doc[a.value.Start:a.value.End]
		}
	}
	return ""
}

// marks are the characters at which a mapping has points.
const marks = `<>"'`

// narrow decodes a charset of which ASCII is a part. The marks are no part of other characters in any but
// ISO-2022-JP, which is read a byte at a time.
func (f *Feed) narrow(name string, e encoding.Encoding) ([]byte, *mapping) {
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
	f.Charset = name
	return text, m
}

// widen decodes UTF-16 and UTF-32.
func (f *Feed) widen(size int, big bool) ([]byte, *mapping) {
	m := &mapping{unit: size}
	b, text := f.Source, make([]byte, 0, len(f.Source))
	var order binary.ByteOrder = binary.LittleEndian
	if big {
		order = binary.BigEndian
	}
	unit := func(at int) rune {
		if size == 2 {
			return rune(order.Uint16(b[at:]))
		}
		return rune(order.Uint32(b[at:]))
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
	return text, m
}
