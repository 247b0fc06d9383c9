package rules

import (
	"bytes"
	"strings"

	"weir/internal/filter/text"
)

// needle is a text that is searched for in a column, with a zero byte before or behind it where a value has
// to begin or end.
type needle struct {
	text []byte
	rare int // index of the byte of it that is met least often
}

func newNeedle(s string, begins, ends bool) needle {
	var b []byte
	if begins {
		b = append(b, 0)
	}
	b = append(b, s...)
	if ends {
		b = append(b, 0)
	}
	rare := 0
	for i := range b {
		if frequency(b[i]) < frequency(b[rare]) {
			rare = i
		}
	}
	return needle{b, rare}
}

// string returns what is searched for, without zero bytes.
func (n needle) string() string { return strings.Trim(string(n.text), "\x00") }

// frequency orders bytes of folded text by how often they occur.
func frequency(c byte) int {
	const often = " etaoinsrhldcumfgpwybvk" // the most frequent first
	switch i := strings.IndexByte(often, c); {
	case i >= 0:
		return 100 - i
	case c >= 0xc0: // the first of several bytes, which few alphabets have many of
		return 90
	case c >= 0x80:
		return 60
	}
	return 10
}

// index returns where n is in s, -1 if it is not. It looks for the rarest byte, which needs less than half
// the time of bytes.Index, and leaves to that a text in which the byte is not rare.
func (n needle) index(s []byte) int {
	last := len(n.text) - 1
	for from, misses := n.rare, 0; ; misses++ {
		if from >= len(s) {
			return -1
		}
		i := bytes.IndexByte(s[from:], n.text[n.rare])
		if i < 0 {
			return -1
		}
		at := from + i - n.rare
		if at+last >= len(s) {
			return -1
		}
		if s[at] == n.text[0] && s[at+last] == n.text[last] && bytes.Equal(s[at:at+last+1], n.text) {
			return at
		}
		from += i + 1
		if misses > 16+from/8 {
			at++
			if i = bytes.Index(s[at:], n.text); i >= 0 {
				i += at
			}
			return i
		}
	}
}

// find adds to out those items of in that have a value with what is searched for in a column. With words it
// has to stand by itself.
func (n needle) find(t *text.Table, f field, words bool, in, out items) {
	first, end := in.bounds()
	if first == end {
		return
	}
	all, cells := t.Column(f)
	stop := int(cells[end]) + 1
	item := first
	for from := int(cells[first]); ; {
		at := n.index(all[from:stop])
		if at < 0 {
			return
		}
		at += from
		begin, behind := at, at+len(n.text)
		if all[begin] == 0 {
			begin++
		}
		if all[behind-1] == 0 {
			behind--
		}
		for int(cells[item+1]) < behind {
			item++
		}
		if in.has(item) && (!words || wordEnds(all, begin) && wordEnds(all, behind)) {
			out.add(item)
		} else if in.has(item) {
			from = at + 1
			continue
		}
		from = int(cells[item+1])
		if from+1 >= stop {
			return
		}
		item++
	}
}
