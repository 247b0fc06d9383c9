package syndication

import (
	"encoding/binary"
	"html"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// appendEntity appends what the reference at s[0] == '&' stands for, and returns how many bytes of s it
// takes; 0 for an ampersand that begins none. Names are HTML's, which XML does not define.
func appendEntity(dst []byte, s string) ([]byte, int) {
	if len(s) >= 4 && s[2] == 't' && s[3] == ';' { // what most of them are in HTML that is escaped
		switch s[1] {
		case 'l':
			return append(dst, '<'), 4
		case 'g':
			return append(dst, '>'), 4
		}
	}
	n := 1
	for n < len(s) && n < 34 && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= '0' &&
		s[n] <= '9' || n == 1 && s[n] == '#') {
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
		if u := html.UnescapeString(s[:n+1]); u != s[:n+1] && u[len(u)-1] != ';' {
			return append(dst, u...), n + 1
		}
	}
	return dst, 0
}

// appendReference appends the character with a number. Those of windows-1252's C1 range are what HTML makes
// of them.
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
	case r < ' ' && r != '\t' && r != '\n' && r != '\r':
		return dst, len(whole) // which XML does not allow
	case r >= 0x80 && r < 0xa0:
		return append(dst, html.UnescapeString(whole)...), len(whole)
	}
	return utf8.AppendRune(dst, rune(r)), len(whole)
}

// flaws are what is wrong with a text.
type flaws uint8

const (
	bareAmpersand flaws = 1 << iota
	controlCharacter
)

// appendText appends character data: references are resolved, line ends are \n, and control characters are
// left out.
func appendText(dst []byte, s string) ([]byte, flaws) { return appendWords(dst, s, '&') }

// appendVerbatim appends the text of a CDATA section.
func appendVerbatim(dst []byte, s string) ([]byte, flaws) { return appendWords(dst, s, 0) }

// appendWords appends text in which references, if any, begin with a byte. It takes eight bytes at a time up to
// one that is not to be copied.
func appendWords(dst []byte, s string, reference byte) (_ []byte, found flaws) {
	for {
		dst = slices.Grow(dst, len(s)+8)
		n, to := len(dst), dst[:cap(dst)]
		for len(s) >= 8 {
			x := word(s)
			binary.LittleEndian.PutUint64(to[n:n+8], x)
			if found := special(x, reference); found != 0 {
				k := bits.TrailingZeros64(found) / 8
				n, s = n+k, s[k:]
				break
			}
			n, s = n+8, s[8:]
		}
		dst = to[:n]
		for len(s) > 0 && s[0] >= ' ' && s[0] != reference {
			dst, s = append(dst, s[0]), s[1:]
		}
		if len(s) == 0 {
			return dst, found
		}
		switch c := s[0]; {
		case c == '&':
			var n int
			if dst, n = appendEntity(dst, s); n == 0 {
				dst = append(dst, '&')
				n = 1
				found |= bareAmpersand
			}
			s = s[n:]
			continue
		case c == '\n', c == '\t':
			dst = append(dst, c)
		case c != '\r':
			found |= controlCharacter
		case len(s) == 1 || s[1] != '\n':
			dst = append(dst, '\n')
		}
		s = s[1:]
	}
}

// clean returns how much of s, at its beginning, appendWords appends as it is.
func clean(s string, reference byte) int {
	i := 0
	for i+8 <= len(s) {
		found := special(word(s[i:]), reference)
		if found == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(found) / 8
		if s[i] != '\n' && s[i] != '\t' {
			return i
		}
		i++
	}
	for i < len(s) && (s[i] >= ' ' && s[i] != reference || s[i] == '\n' || s[i] == '\t') {
		i++
	}
	return i
}

// special returns a word whose lowest bit is the high one of the first of eight bytes that is a control character
// or the one that references begin with, 0 when there is none.
func special(x uint64, reference byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	y := x ^ uint64(reference)*ones
	return ((x-' '*ones)&^x | (y-ones)&^y) & highs
}

// word returns the first eight bytes of s.
func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 |
		uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
