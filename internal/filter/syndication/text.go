package syndication

import (
	"bytes"
	"html"
	"strconv"
	"unicode/utf8"
)

// appendEntity appends what the reference at s[0] == '&' stands for, and returns how many bytes of s it takes; 0 for an
// ampersand that begins none. Names are HTML's, which XML does not define.
func appendEntity(dst []byte, s string) ([]byte, int) {
	n := 1
	for n < len(s) && n < 34 && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= '0' && s[n] <= '9' || n == 1 && s[n] == '#') {
		n++
	}
	if n < 3 || n == len(s) || s[n] != ';' {
		return dst, 0
	}
	switch name := s[1:n]; name {
	case "amp":
		return append(dst, '&'), n + 1
	case "lt":
		return append(dst, '<'), n + 1
	case "gt":
		return append(dst, '>'), n + 1
	case "quot":
		return append(dst, '"'), n + 1
	case "apos":
		return append(dst, '\''), n + 1
	default:
		if name[0] == '#' {
			return appendReference(dst, name[1:], s[:n+1])
		}
		if u := html.UnescapeString(s[:n+1]); u != s[:n+1] {
			return append(dst, u...), n + 1
		}
	}
	return dst, 0
}

// appendReference appends the character with a number. Those of windows-1252's C1 range are what HTML makes of them.
func appendReference(dst []byte, digits, whole string) ([]byte, int) {
	base := 10
	if digits[0] == 'x' || digits[0] == 'X' {
		digits, base = digits[1:], 16
	}
	r, err := strconv.ParseUint(digits, base, 32)
	switch {
	case err != nil && len(digits) < 7:
		return dst, 0
	case err != nil || r > utf8.MaxRune || r == 0 || r >= 0xd800 && r < 0xe000:
		return append(dst, "\uFFFD"...), len(whole)
	case r >= 0x80 && r < 0xa0:
		return append(dst, html.UnescapeString(whole)...), len(whole)
	}
	return utf8.AppendRune(dst, rune(r)), len(whole)
}

// appendText appends character data: references are resolved, line ends are \n, and bytes that are not UTF-8 become
// U+FFFD. It is false when an ampersand was bare.
func appendText(dst, s []byte) ([]byte, bool) {
	good := true
	for {
		i := bytes.IndexByte(s, '&')
		if i < 0 {
			return appendVerbatim(dst, s), good
		}
		dst = appendVerbatim(dst, s[:i])
		var n int
		if dst, n = appendEntity(dst, string(s[i:min(len(s), i+36)])); n == 0 {
			dst = append(dst, '&')
			n, good = 1, false
		}
		s = s[i+n:]
	}
}

// appendVerbatim appends the text of a CDATA section.
func appendVerbatim(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\r')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(append(dst, s[:i]...), '\n')
		if s = s[i+1:]; len(s) > 0 && s[0] == '\n' {
			s = s[1:]
		}
	}
}
