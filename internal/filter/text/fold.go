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
// bytes at a time as long as only case distinguishes them from their form, which needs a quarter of the time of
// one at a time.
func appendWords(dst []byte, start int, s string, form Form) []byte {
	var w words
	if form&HTML != 0 {
		w.lt, w.amp = '<'*ones, '&'*ones
	}
	if form&KeepCase == 0 {
		w.fold = highs
	}
	for i := 0; ; {
		dst = slices.Grow(dst, len(s)-i+16)
		n, to := len(dst), dst[:cap(dst)]
		after := uint64(1)
		if n == start || to[n-1] == ' ' { // another blank is no part of the form
			after = 0
		}
		for i < len(s) {
			var x uint64
			if rest := s[i:]; len(rest) >= 8 {
				x = word(rest)
			} else if len(s) >= 8 { // what is missing are zeros, which are not plain
				x = word(s[len(s)-8:]) >> (64 - 8*len(rest))
			} else {
				for k := len(rest) - 1; k >= 0; k-- {
					x = x<<8 | uint64(rest[k])
				}
			}
			others, folded, blank := w.look(x, after)
			binary.LittleEndian.PutUint64(to[n:], folded)
			if others == 0 {
				n, i, after = n+8, i+8, blank
				continue
			}
			k := bits.TrailingZeros64(others) / 8
			n, i = n+k, i+k
			if i == len(s) || s[i] < utf8.RuneSelf || form&(KeepCase|KeepAccents) != 0 {
				break
			}
			// Letters of most languages become a few bytes.
			r, size := utf8.DecodeRuneInString(s[i:])
			f := foldedRune(r)
			if f.len() == 0 || f == spaces || n+f.len()+len(s)-i+8 > len(to) {
				break
			}
			binary.LittleEndian.PutUint64(to[n:], uint64(f))
			n, i, after = n+f.len(), i+size, 1
		}
		dst = to[:n]
		if i >= len(s) {
			return dst
		}
		dst, i = appendOther(dst, start, s, i, form)
	}
}

const ones, highs = 0x0101010101010101, 0x8080808080808080

// words looks at eight bytes at a time.
type words struct{ lt, amp, fold uint64 }

// look returns a word whose lowest bit is the high one of the first byte of x that is not plain, if any: no
// graphic character of ASCII nor a single blank, or markup. All before are right in folded. after is 0 behind a
// blank, which another one is no part of the form after, and below 0x80 otherwise; last is so for what follows.
func (w *words) look(x, after uint64) (others, folded, last uint64) {
	blanks := x ^ ' '*ones
	pairs := blanks | blanks<<8 | after
	others = ((x - ' '*ones) | (x + ones) | ((x ^ w.lt) - ones) | ((x ^ w.amp) - ones) | (pairs - ones)) & highs
	capitals := (x + (0x80-'A')*ones) &^ (x + (0x80-'Z'-1)*ones) & w.fold
	return others, x | capitals>>2, blanks >> 56
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
	if form&(KeepCase|KeepAccents) == 0 {
		if f := foldedRune(r); f == spaces {
			return appendBlank(dst, start)
		} else if f != long {
			n := len(dst) + f.len()
			return binary.LittleEndian.AppendUint64(dst, uint64(f))[:n]
		}
	}
	s := foldRune(r, form)
	if s == " " {
		return appendBlank(dst, start)
	}
	return append(dst, s...)
}

// folded is up to seven bytes that a character becomes, and in the eighth how many they are.
type folded uint64

const (
	spaces folded = ' ' | 1<<56
	long   folded = 0xff // what has more bytes
)

func (f folded) len() int { return int(f >> 56) }

// pages holds the folded forms of 256 characters each, from when one of them is met.
var pages [(unicode.MaxRune + 1) / 256]atomic.Pointer[[256]folded]

// foldedRune returns foldRune(r, 0), kept.
func foldedRune(r rune) folded {
	slot := &pages[r/256]
	page := slot.Load()
	if page == nil {
		page = new([256]folded)
		for i := range page {
			var room [8]byte
			if n := copy(room[:7], foldRune(r&^255+rune(i), 0)); n < 7 {
				room[7] = byte(n)
				page[i] = folded(binary.LittleEndian.Uint64(room[:]))
			} else {
				page[i] = long
			}
		}
		slot.Store(page)
	}
	return page[r%256]
}

// word returns the first eight bytes of s.
func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 |
		uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
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
