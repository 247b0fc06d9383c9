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
func appendEntity(dst, s []byte) ([]byte, int) {
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
	switch name := s[1:n]; string(name) {
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
			return appendReference(dst, string(name[1:]), string(s[:n+1]))
		}
		if u := html.UnescapeString(string(s[:n+1])); u != string(s[:n+1]) && u[len(u)-1] != ';' {
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
func appendText(dst, s []byte) ([]byte, flaws) { return appendWords(dst, s, '&') }

// appendVerbatim appends the text of a CDATA section.
func appendVerbatim(dst, s []byte) ([]byte, flaws) { return appendWords(dst, s, 0) }

// appendWords appends text in which references, if any, begin with a byte. It takes eight bytes at a time up to
// one that is not to be copied.
func appendWords(dst, s []byte, reference uint64) (_ []byte, found flaws) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for {
		dst = slices.Grow(dst, len(s)+8)
		n, to := len(dst), dst[:cap(dst)]
		for len(s) >= 8 {
			x := binary.LittleEndian.Uint64(s)
			binary.LittleEndian.PutUint64(to[n:n+8], x)
			// The lowest high bit is of a byte below 0x20, or of the one that references begin with.
			y := x ^ reference*ones
			if others := ((x-0x20*ones)&^x | (y-ones)&^y) & highs; others != 0 {
				k := bits.TrailingZeros64(others) / 8
				n, s = n+k, s[k:]
				break
			}
			n, s = n+8, s[8:]
		}
		dst = to[:n]
		for len(s) > 0 && s[0] >= ' ' && s[0] != byte(reference) {
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

// indexControl returns the index of the first control character but \t and \n, -1 when there is none. It
// looks at eight bytes at a time.
func indexControl(s []byte) int {
	const ones = 0x0101010101010101
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := binary.LittleEndian.Uint64(s[i:])
		if (x-0x20*ones)&^x&(0x80*ones) == 0 {
			continue
		}
		if k := slices.IndexFunc(s[i:i+8], isControl); k >= 0 {
			return i + k
		}
	}
	if k := slices.IndexFunc(s[i:], isControl); k >= 0 {
		return i + k
	}
	return -1
}

func isControl(c byte) bool { return c < ' ' && c != '\n' && c != '\t' }
