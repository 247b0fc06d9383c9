package syndication

import "strings"

// attribute is a name and the bytes of its value, escapes as they are.
type attribute struct {
	name  string
	value Range
}

// nameEnds are the bytes at which the name of an element or attribute ends; colon is in the name.
var nameEnds = func() (t [256]uint8) {
	for _, c := range " \t\r\n/>=<\"'" {
		t[c] = ends
	}
	t[':'] = colon
	return
}()

const (
	ends  = 1
	colon = 2
)

// tag is a start tag, or an end tag without attributes.
type tag struct {
	name  string
	local int // where in name the local name begins, behind the prefix
	start int // of '<'
	end   int // after '>'
	empty bool
	attrs []attribute
}

// nameEnd returns where the name at b[k] ends.
func nameEnd(b string, k int) int {
	for k < len(b) && nameEnds[b[k]] != ends {
		k++
	}
	return k
}

// read reads the tag whose name begins at i, with at most so many attributes; the memory of t.attrs is used
// again. It is false when the document ends within the tag. A tag without its '>' ends before the next '<'.
func (t *tag) read(b string, i, most int) (ok bool, err error) {
	k, local := i, 0
	for k < len(b) {
		if c := nameEnds[b[k]]; c != 0 {
			if c == ends {
				break
			} else if local == 0 {
				local = k - i + 1
			}
		}
		k++
	}
	t.name, t.local, t.start, t.empty, t.attrs = b[i:k], local, i-1, false, t.attrs[:0]
	if k < len(b) && b[k] == '>' {
		t.end = k + 1
		return true, nil
	}
	for k < len(b) {
		switch c := b[k]; c {
		case ' ', '\n', '\t', '\r', '=', '"', '\'':
			k++
			continue
		case '>':
			t.end = k + 1
			return true, nil
		case '<':
			t.end = k
			return true, nil
		case '/':
			t.empty = k+1 < len(b) && b[k+1] == '>'
			k++
			continue
		}
		a := attribute{}
		n := k
		k = nameEnd(b, k)
		a.name = b[n:k]
		eq := skipSpace(b, k)
		if eq < len(b) && b[eq] == '=' {
			k = skipSpace(b, eq+1)
			a.value, k = readValue(b, k)
			if k < 0 {
				return false, nil
			}
		}
		if len(t.attrs) == most {
			return false, &LimitError{"attributes", most}
		}
		t.attrs = append(t.attrs, a)
	}
	return false, nil
}

// readValue reads the value at k, in quotes or not, and returns where to go on, -1 when the document ends
// first. A quote that is not closed before the tag and another one begin ends with the tag.
func readValue(b string, k int) (Range, int) {
	if k < len(b) && (b[k] == '"' || b[k] == '\'') {
		n := strings.IndexByte(b[k+1:], b[k])
		value := b[k+1:]
		if n >= 0 {
			value = value[:n]
		}
		gt := strings.IndexByte(value, '>')
		if gt >= 0 && (n < 0 || strings.IndexByte(value[gt:], '<') >= 0) {
			return Range{k + 1, k + 1 + gt}, k + 1 + gt
		}
		if n < 0 {
			return Range{}, -1
		}
		return Range{k + 1, k + 1 + n}, k + n + 2
	}
	start := k
	for k < len(b) && !isSpace(b[k]) && b[k] != '>' && b[k] != '<' {
		if b[k] == '/' && k+1 < len(b) && b[k+1] == '>' {
			break
		}
		k++
	}
	return Range{start, k}, k
}

// skipMarkup returns the end of the comment, processing instruction, CDATA section or declaration at b[i]
// == '<', -1 when the document ends within. What a document type declares is passed over.
func skipMarkup(b string, i int) int {
	rest := b[i:]
	after := func(n int, end string) int {
		if j := strings.Index(rest[min(n, len(rest)):], end); j >= 0 {
			return i + n + j + len(end)
		}
		return -1
	}
	switch {
	case strings.HasPrefix(rest, "<!--"):
		return after(4, "-->")
	case strings.HasPrefix(rest, cdataStart):
		return after(len(cdataStart), "]]>")
	case strings.HasPrefix(rest, "<?"):
		return after(2, "?>")
	}
	if len(rest) < 9 || !strings.EqualFold(rest[2:9], "DOCTYPE") {
		return after(2, ">")
	}
	for k, depth := 9, 0; k < len(rest); k++ {
		switch c := rest[k]; c {
		case '"', '\'':
			n := strings.IndexByte(rest[k+1:], c)
			if n < 0 {
				return -1
			}
			k += n + 1
		case '[':
			depth++
		case ']':
			depth--
		case '<':
			if strings.HasPrefix(rest[k:], "<!--") {
				n := strings.Index(rest[k+4:], "-->")
				if n < 0 {
					return -1
				}
				k += n + 6
			}
		case '>':
			if depth <= 0 {
				return i + k + 1
			}
		}
	}
	return -1
}

const cdataStart = "<![CDATA["

// split takes the name apart.
func (t *tag) split() (prefix, local string) {
	if t.local <= 1 {
		return "", t.name
	}
	return t.name[:t.local-1], t.name[t.local:]
}

// endsAt reports whether b begins with the end tag of t, written as the start tag is.
func (t *tag) endsAt(b string) bool {
	k := len(t.name) + 2
	return len(b) > k && b[1] == '/' && b[k] == '>' && b[2:k] == t.name && b[0] == '<'
}
