package mock

import (
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// Charset is how the characters of XML become bytes.
type Charset uint8

// charsets are those that feeds are met in, and the languages that they are for. A character that one has no code for is
// written as a numeric reference. (ISO-2022-JP is not among them: its encoder writes references without leaving the
// Japanese mode.)
var charsets = [...]struct {
	name      string
	encoding  encoding.Encoding // nil is UTF-8
	languages []int
}{
	{"utf-8", nil, []int{english, german, french, spanish, polish, russian, greek, japanese_, chinese, korean_}},
	{"iso-8859-1", charmap.ISO8859_1, []int{english, german, french, spanish}},
	{"iso-8859-2", charmap.ISO8859_2, []int{polish}},
	{"iso-8859-7", charmap.ISO8859_7, []int{greek}},
	{"iso-8859-15", charmap.ISO8859_15, []int{english, german, french, spanish}},
	{"windows-1250", charmap.Windows1250, []int{polish}},
	{"windows-1251", charmap.Windows1251, []int{russian}},
	{"windows-1252", charmap.Windows1252, []int{english, german, french, spanish}},
	{"koi8-r", charmap.KOI8R, []int{russian}},
	{"shift_jis", japanese.ShiftJIS, []int{japanese_}},
	{"euc-jp", japanese.EUCJP, []int{japanese_}},
	{"gbk", simplifiedchinese.GBK, []int{chinese}},
	{"gb18030", simplifiedchinese.GB18030, []int{chinese}},
	{"euc-kr", korean.EUCKR, []int{korean_}},
	{"utf-16", unicode.UTF16(unicode.BigEndian, unicode.UseBOM), []int{english, russian, japanese_}},
}

func charsetNames() []string {
	names := make([]string, len(charsets))
	for i := range charsets {
		names[i] = charsets[i].name
	}
	return names
}

// encode turns UTF-8 XML into the charset.
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
