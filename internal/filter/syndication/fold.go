package syndication

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Normalize returns a text as [Text] holds it: case folded (Unicode's full folding), compatibility characters replaced
// and accents stripped, white space collapsed and trimmed, control characters left out.
func Normalize(s string) string { return string(appendNormal(nil, s, false)) }

// appendNormal appends the normal form of a text, or of what HTML shows.
func appendNormal(dst []byte, s string, html bool) []byte {
	start := len(dst)
	space := func() {
		if len(dst) > start && dst[len(dst)-1] != ' ' {
			dst = append(dst, ' ')
		}
	}
	var scratch [64]byte
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z':
			dst = append(dst, c+'a'-'A')
			i++
		case c <= ' ' || c == 0x7f:
			if isSpace(c) {
				space()
			}
			i++
		case html && c == '<':
			n, breaks := skipElement(s[i:])
			if n == 0 {
				dst = append(dst, c)
				n = 1
			} else if breaks {
				space()
			}
			i += n
		case html && c == '&':
			text, n := appendEntity(scratch[:0], s[i:])
			if n == 0 {
				dst = append(dst, c)
				n = 1
			}
			for len(text) > 0 {
				r, size := utf8.DecodeRune(text)
				if dst = appendFolded(dst, r); r == '\u00a0' || r <= ' ' {
					dst = dst[:len(dst)-1]
					space()
				}
				text = text[size:]
			}
			i += n
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if unicode.IsSpace(r) {
				space()
			} else {
				dst = appendFolded(dst, r)
			}
			i += size
		}
	}
	if len(dst) > start && dst[len(dst)-1] == ' ' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// skipElement returns the length of the HTML tag or comment at s[0] == '<', with what is in scripts and styles, and
// whether it separates words; 0 for a '<' that begins none.
func skipElement(s string) (n int, breaks bool) {
	if len(s) < 2 {
		return 0, false
	}
	k := 1
	if s[1] == '/' {
		k = 2
	} else if s[1] == '!' {
		if strings.HasPrefix(s, "<!--") {
			if n := strings.Index(s[4:], "-->"); n >= 0 {
				return n + 7, false
			}
			return len(s), false
		}
	}
	name := k
	for k < len(s) && (s[k]|0x20 >= 'a' && s[k]|0x20 <= 'z' || s[k] >= '0' && s[k] <= '9' && k > name) {
		k++
	}
	if k == name && s[1] != '!' && s[1] != '?' {
		return 0, false
	}
	end := strings.IndexByte(s[k:], '>')
	if end < 0 {
		return len(s), true
	}
	n = k + end + 1
	switch strings.ToLower(s[name:k]) {
	case "a", "abbr", "b", "bdi", "bdo", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "mark", "q", "s", "samp", "small",
		"span", "strong", "sub", "sup", "tt", "u", "var", "wbr":
		return n, false
	case "script", "style":
		if name == 1 {
			close := "</" + s[name:k]
			if j := strings.Index(s[n:], close); j >= 0 {
				return n + j, true
			}
			return len(s), true
		}
	}
	return n, true
}

// folded[r] is what becomes of a character: itself or another, -1 for none, 0 for several.
var folded = sync.OnceValue(func() *[0x2100]int32 {
	t := new([0x2100]int32)
	for r := range rune(len(t)) {
		f := []rune(foldSlowly(r))
		switch len(f) {
		case 0:
			t[r] = -1
		case 1:
			t[r] = f[0]
		}
	}
	return t
})

// appendFolded appends what becomes of a character.
func appendFolded(dst []byte, r rune) []byte {
	if t := folded(); r < rune(len(t)) {
		switch f := t[r]; {
		case f > 0:
			return utf8.AppendRune(dst, f)
		case f < 0:
			return dst
		}
	} else if r >= 0x3400 && r < 0xd7b0 { // Han, Yi and Hangul
		return utf8.AppendRune(dst, r)
	}
	return append(dst, foldSlowly(r)...)
}

func isAccent(r rune) bool {
	return r >= 0x300 && r < 0x370 || r >= 0x1ab0 && r < 0x1b00 || r >= 0x1dc0 && r < 0x1e00 || r >= 0x20d0 && r < 0x2100 || r >= 0xfe20 && r < 0xfe30
}

// foldSlowly folds a character as Unicode's tables say. Marks that are letters of their own, as in Thai or Devanagari,
// stay.
func foldSlowly(r rune) string {
	s := strings.Map(func(r rune) rune {
		if isAccent(r) {
			return -1
		}
		return r
	}, norm.NFKD.String(cases.Fold().String(string(r))))
	return norm.NFC.String(cases.Fold().String(s))
}
