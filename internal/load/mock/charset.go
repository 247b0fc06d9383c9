package mock

import (
	"slices"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// Charset is how the characters of XML become bytes.
type Charset uint8

// charsets are those that feeds are met in, and the languages that they are for. A character that one has
// no code for is written as a numeric reference. (ISO-2022-JP is not among them: its encoder writes
// references without leaving the Japanese mode.)
var charsets = [...]struct {
	name      string
	encoding  encoding.Encoding // nil is UTF-8
	languages []int
	invalid   string // bytes that are no characters of it; empty where all are
}{
	{"utf-8", nil, []int{english, german, french, spanish, polish, russian, greek, japanese_, chinese,
		korean_}, "\xff\xfe\xfd\xff"},
	{"iso-8859-1", charmap.ISO8859_1, []int{english, german, french, spanish}, ""},
	{"iso-8859-2", charmap.ISO8859_2, []int{polish}, ""},
	{"iso-8859-7", charmap.ISO8859_7, []int{greek}, "\xff\xae\xd2"},
	{"iso-8859-15", charmap.ISO8859_15, []int{english, german, french, spanish}, ""},
	{"windows-1250", charmap.Windows1250, []int{polish}, "\x81\x83\x88\x90\x98"},
	{"windows-1251", charmap.Windows1251, []int{russian}, "\x98"},
	{"windows-1252", charmap.Windows1252, []int{english, german, french, spanish}, "\x81\x8d\x8f\x90\x9d"},
	{"koi8-r", charmap.KOI8R, []int{russian}, ""},
	{"shift_jis", japanese.ShiftJIS, []int{japanese_}, "\xff\xfe\xfd\xff"},
	{"euc-jp", japanese.EUCJP, []int{japanese_}, "\xff\xfe\xfd\xff"},
	{"gbk", simplifiedchinese.GBK, []int{chinese}, "\xff\xfe\xfd\xff"},
	{"gb18030", simplifiedchinese.GB18030, []int{chinese}, "\xff\xfe\xfd\xff"},
	{"euc-kr", korean.EUCKR, []int{korean_}, "\xff\xfe\xfd\xff"},
	{"utf-16", unicode.UTF16(unicode.BigEndian, unicode.UseBOM), []int{english, russian, japanese_},
		"\xdc\x00"},
}

func charsetNames() []string {
	names := make([]string, len(charsets))
	for i := range charsets {
		names[i] = charsets[i].name
	}
	return names
}

// encodeInvalid is encode with invalid bytes at a place in the text.
func (c Charset) encodeInvalid(text []byte, at int) []byte {
	out, before := c.encode(text), len(c.encode(text[:at]))
	return slices.Concat(out[:before], []byte(charsets[c].invalid), out[before:])
}

func (c Charset) encode(text []byte) []byte {
	e := charsets[c].encoding
	if e == nil {
		return text
	}
	out, err := encoding.HTMLEscapeUnsupported(e.NewEncoder()).Bytes(text)
	if err != nil {
		panic("BUG: text of our own cannot be encoded: " + err.Error())
	}
	return out
}
