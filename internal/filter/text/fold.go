package text

import (
	"encoding/binary"
	"html"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Form says what becomes of a text. The zero Form is what rules compare unless they are told otherwise.
type Form uint8

const (
	KeepCase    Form = 1 << iota // A and a differ
	KeepAccents                  // é and e differ
	HTML                         // the source is markup, and its text is wanted
)

// Append appends s in a form: by default without case and accents. White space becomes single blanks, and
// none at either end, control characters disappear, and what is not UTF-8 becomes U+FFFD. Each other
// character is replaced without regard to its neighbours, so a text that contains another contains it in
// every form as well.
func Append(dst []byte, s string, form Form) []byte {
	start := len(dst)
	return trimBlank(appendWords(dst, start, s, form), start)
}

// appendWords appends s in a form, with a blank at its end where it has white space there. It takes eight
// bytes at a time as long as only case distinguishes them from their form, which needs a third of the time of
// one at a time.
func appendWords(dst []byte, start int, s string, form Form) []byte {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	var lt, amp, fold uint64 = 0, 0, highs // control characters are not plain anyway
	if form&HTML != 0 {
		lt, amp = '<'*ones, '&'*ones
	}
	if form&KeepCase != 0 {
		fold = 0
	}
	i := 0
	for {
		dst = slices.Grow(dst, len(s)-i+8)
		n, to := len(dst), dst[:cap(dst)]
		before := uint64(0) // bit 7: whether a blank was before, which another one is no part of the form after
		if n == start || to[n-1] == ' ' {
			before = 0x80
		}
		for i < len(s) {
			var x uint64
			if w := s[i:]; len(w) >= 8 {
				x = uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 | uint64(
					w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
			} else { // what is missing are zeros, which are not plain
				for k := len(w) - 1; k >= 0; k-- {
					x = x<<8 | uint64(w[k])
				}
			}
			// The high bits of these are of bytes that are not one of two, no control character, and so on.
			low := x &^ highs
			graphic := (low + 0x60*ones) & ((low ^ lt) + 0x7f*ones) & ((low ^ amp) +
				0x7f*ones) &^ (low + ones) &^ x
			blanks := ^((low ^ ' '*ones) + 0x7f*ones) & highs
			others := ^graphic&highs | blanks&(blanks<<8|before)
			capitals := (low + (0x80-'A')*ones) &^ (low + (0x80-'Z'-1)*ones) & fold
			binary.LittleEndian.PutUint64(to[n:n+8], x|capitals>>2)
			if others != 0 {
				k := bits.TrailingZeros64(others) / 8
				n, i = n+k, i+k
				break
			}
			before = blanks >> 56
			n, i = n+8, i+8
		}
		dst = to[:n]
		if i >= len(s) {
			return dst
		}
		dst, i = appendOther(dst, start, s, i, form)
	}
}

// appendOther appends what stands at s[i] and is not plain, and returns where that ends.
func appendOther(dst []byte, start int, s string, i int, form Form) ([]byte, int) {
	switch c := s[i]; {
	case c >= 0x7f:
		r, n := utf8.DecodeRuneInString(s[i:])
		return appendRune(dst, start, r, form), i + n
	case c > ' ':
		return appendMarkup(dst, start, s, i, form)
	case unicode.IsSpace(rune(c)):
		dst = appendBlank(dst, start)
	}
	return dst, i + 1
}

func lower(c byte, form Form) byte {
	if 'A' <= c && c <= 'Z' && form&KeepCase == 0 {
		c += 'a' - 'A'
	}
	return c
}

func trimBlank(dst []byte, start int) []byte {
	if n := len(dst); n > start && dst[n-1] == ' ' {
		dst = dst[:n-1]
	}
	return dst
}

// Of returns s in a form.
func Of(s string, form Form) string { return string(Append(nil, s, form)) }

// Pattern returns what is searched for in texts of a form: as Of does, but with a blank at an end where s
// has white space there.
func Pattern(s string, form Form) string {
	const guard = "."
	b := Append(nil, guard+s+guard, form)
	return string(b[len(guard) : len(b)-len(guard)])
}

// appendBlank separates what follows from what is there.
func appendBlank(dst []byte, start int) []byte {
	if n := len(dst); n > start && dst[n-1] != ' ' {
		dst = append(dst, ' ')
	}
	return dst
}

func appendRune(dst []byte, start int, r rune, form Form) []byte {
	if form&(KeepCase|KeepAccents) != 0 {
		return appendFolded(dst, start, foldRune(r, form))
	}
	return appendFolded(dst, start, foldedRune(r))
}

func appendFolded(dst []byte, start int, folded string) []byte {
	if folded == " " {
		return appendBlank(dst, start)
	}
	return append(dst, folded...)
}

// pages holds the folded forms of 256 characters each, from when one of them is met.
var pages [(unicode.MaxRune + 1) / 256]atomic.Pointer[[256]string]

// foldedRune returns foldRune(r, 0), kept.
func foldedRune(r rune) string {
	slot := &pages[r/256]
	page := slot.Load()
	if page == nil {
		page = new([256]string)
		for i := range page {
			page[i] = foldRune(r&^255+rune(i), 0)
		}
		slot.Store(page)
	}
	return page[r%256]
}

// undecomposed are letters with a stroke or a ligature that Unicode does not take apart.
var undecomposed = strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d",
	"ħ", "h", "ı", "i", "ŧ", "t", "ẞ", "SS", "Æ", "AE", "Œ", "OE", "Ø", "O", "Ł", "L", "Đ", "D",
	"Ħ", "H", "Ŧ", "T")

// foldRune returns a character in a form: a blank for white space and for nothing else, and nothing for a
// control character.
func foldRune(r rune, form Form) string {
	switch {
	case unicode.IsSpace(r):
		return " "
	case unicode.IsControl(r):
		return ""
	case r < utf8.RuneSelf:
		return string(rune(lower(byte(r), form)))
	}
	s := string(r)
	switch r {
	case '\u00ad', '\u200b', '\u2060', '\ufeff': // where a line may or may not break
		return ""
	}
	// The syllables of Hangul are letters to whoever looks for them, and a spacing accent is no blank.
	switch d := norm.NFKD.String(s); {
	case hangul(r):
	case strings.Contains(d, " "):
		s = norm.NFD.String(s)
	default:
		s = d
	}
	if form&KeepAccents == 0 {
		s = undecomposed.Replace(strings.Map(func(r rune) rune {
			if accent(r) {
				return -1
			}
			return r
		}, s))
	}
	if form&KeepCase == 0 {
		s = strings.Map(fold, s)
	}
	return s
}

// fold returns what stands for all characters that differ from r in case alone, as the σ and ς of Σ do.
func fold(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

func hangul(r rune) bool { return 0xac00 <= r && r <= 0xd7a3 }

// accent reports whether r is a mark that a text can be read without: accents and points of Latin, Greek,
// Cyrillic, Hebrew and Arabic. The marks of other scripts are their vowels.
func accent(r rune) bool {
	switch {
	case r < 0x300:
		return false
	case r < 0x370, 0x483 <= r && r <= 0x489, 0x591 <= r && r <= 0x5c7, 0x610 <= r && r <= 0x61a,
		0x64b <= r && r <= 0x65f, r == 0x670, 0x6d6 <= r && r <= 0x6ed,
		0x1ab0 <= r && r <= 0x1aff, 0x1dc0 <= r && r <= 0x1dff, 0x20d0 <= r && r <= 0x20ff,
		0xfe20 <= r && r <= 0xfe2f:
		return unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r)
	}
	return false
}

// appendMarkup appends what the markup at s[i] stands for, and returns where it ends.
func appendMarkup(dst []byte, start int, s string, i int, form Form) ([]byte, int) {
	if s[i] == '&' {
		const longest = 33 // of HTML's entities
		end := max(1, strings.IndexByte(s[i:min(len(s), i+longest)], ';')+1)
		entity := s[i : i+end]
		switch entity { // what occurs often is looked up without an allocation
		case "&":
		case "&amp;":
			entity = "&"
		case "&lt;":
			entity = "<"
		case "&gt;":
			entity = ">"
		case "&quot;", "&#34;":
			entity = `"`
		case "&#39;", "&apos;":
			entity = "'"
		case "&nbsp;", "&#160;":
			entity = " "
		case "&#8217;", "&rsquo;":
			entity = "’"
		default:
			entity = html.UnescapeString(entity)
		}
		for _, r := range entity {
			dst = appendRune(dst, start, r, form)
		}
		return dst, i + end
	}
	rest := s[i+1:]
	if strings.HasPrefix(rest, "!--") {
		if end := strings.Index(rest, "-->"); end >= 0 {
			return dst, i + 1 + end + len("-->")
		}
		return dst, len(s)
	}
	name := strings.TrimPrefix(rest, "/")
	if name == "" || !letter(name[0]) && name[0] != '!' && name[0] != '?' {
		return append(dst, '<'), i + 1
	}
	n := 1
	for n < len(name) && (letter(name[n]) || '0' <= name[n] && name[n] <= '9') {
		n++
	}
	end := len(rest) - len(name) + n + 1
	if n == len(name) || name[n] != '>' { // it has attributes, or blanks
		if end = tagEnd(rest); end < 0 { // cut off within a tag
			return dst, len(s)
		}
	}
	name = name[:n]
	next := i + 1 + end
	if name[0]|0x20 == 's' && rest[0] != '/' &&
		(strings.EqualFold(name, "script") || strings.EqualFold(name, "style")) {
		next = skipElement(s, next, name)
	}
	if !inline(name) {
		dst = appendBlank(dst, start)
	}
	return dst, next
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// tagEnd returns where the tag ends that s begins in, -1 if it does not.
func tagEnd(s string) int {
	for i := 0; ; {
		end := strings.IndexByte(s[i:], '>')
		if end < 0 {
			return -1
		}
		equals := strings.IndexByte(s[i:i+end], '=')
		if equals < 0 {
			return i + end + 1
		}
		i += equals + 1
		if s[i] == '"' || s[i] == '\'' {
			closing := strings.IndexByte(s[i+1:], s[i])
			if closing < 0 {
				return -1
			}
			i += closing + 2
		}
	}
}

// skipElement returns where an element ends whose content begins at s[i] and is no text.
func skipElement(s string, i int, name string) int {
	for {
		at := strings.Index(s[i:], "</")
		if at < 0 {
			return len(s)
		}
		i += at + len("</")
		if len(s)-i >= len(name) && strings.EqualFold(s[i:i+len(name)], name) {
			if end := strings.IndexByte(s[i:], '>'); end >= 0 {
				return i + end + 1
			}
			return len(s)
		}
	}
}

// inline reports whether an element does not separate words.
func inline(name string) bool {
	if len(name) > len("strong") {
		return false
	}
	var lower [len("strong")]byte
	for i := range len(name) {
		lower[i] = name[i] | 0x20 // a digit stays one
	}
	switch string(lower[:len(name)]) {
	case "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd",
		"mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "tt", "u", "var", "wbr":
		return true
	}
	return false
}
