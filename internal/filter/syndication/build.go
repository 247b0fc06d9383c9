package syndication

import (
	"bytes"
	"encoding/base64"
	"strings"
	"time"
)

// builder makes an item's strings and lists out of a few allocations for all items.
type builder struct {
	arena      strings.Builder
	invalid    bool // the document is not all UTF-8
	persons    []Person
	names      []string
	enclosures []Enclosure
}

// arenaSize is how much memory for strings is allocated at a time.
const arenaSize = 8 << 10

// keep copies bytes into the arena. What is not UTF-8 becomes U+FFFD.
func (b *builder) keep(s []byte) string {
	if b.invalid {
		s = bytes.ToValidUTF8(s, []byte("\uFFFD"))
	}
	if len(s) > b.arena.Cap()-b.arena.Len() {
		b.arena = strings.Builder{}
		b.arena.Grow(max(len(s), arenaSize))
	}
	m := b.arena.Len()
	b.arena.Write(s)
	return b.arena.String()[m:]
}

// valid returns a part of the document. What is not UTF-8 becomes U+FFFD.
func (b *builder) valid(s string) string {
	if b.invalid {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}

// maxCompared bounds how many a new person or name is compared with.
const maxCompared = 100

// addPerson adds somebody who is not there yet.
func addPerson(list []Person, p Person) []Person {
	if p == (Person{}) {
		return list
	}
	for i := range min(len(list), maxCompared) {
		if q := &list[i]; q.Name == p.Name && (q.Email == p.Email || p.Email == "" && p.URL == "") {
			return list
		}
	}
	return append(list, p)
}

// addName adds a text that is not there yet.
func addName(list []string, s string) []string {
	if s == "" {
		return list
	}
	for _, t := range list[:min(len(list), maxCompared)] {
		if t == s {
			return list
		}
	}
	return append(list, s)
}

// chunk is for how many persons and enclosures memory is allocated at a time.
const chunk = 32

// begin starts the lists of an item.
func (b *builder) begin(it *Item) {
	if cap(b.persons)-len(b.persons) < 2 {
		b.persons = make([]Person, 0, chunk)
	}
	if cap(b.names)-len(b.names) < 8 {
		b.names = make([]string, 0, 4*chunk)
	}
	it.Authors = b.persons[len(b.persons):]
	it.Categories = b.names[len(b.names):]
	it.Enclosures = b.enclosures[len(b.enclosures):]
}

// end ends the lists of an item.
func (b *builder) end(it *Item) {
	b.persons = it.Authors[len(it.Authors):]
	b.names = it.Categories[len(it.Categories):]
	b.enclosures = it.Enclosures[len(it.Enclosures):]
}

// person takes a text like "Name <address>", "address (Name)" or "Name (address)" apart.
func person(s string) Person {
	s = strings.TrimSpace(s)
	open, close := strings.IndexByte(s, '('), byte(')')
	if open < 0 {
		open, close = strings.IndexByte(s, '<'), '>'
	}
	if open >= 0 {
		if n := strings.IndexByte(s[open:], close); n > 0 {
			in, out := strings.TrimSpace(s[open+1:open+n]),
				strings.Trim(strings.TrimSpace(s[:open]+s[open+n+1:]), `"`)
			switch {
			case strings.Contains(in, "@"):
				return Person{Name: out, Email: strings.TrimPrefix(in, "mailto:")}
			case strings.Contains(out, "@"):
				return Person{Name: in, Email: strings.TrimPrefix(out, "mailto:")}
			}
			return Person{Name: s}
		}
	}
	at := strings.IndexByte(s, '@')
	if at <= 0 {
		return Person{Name: s}
	}
	// A word with an @ is the address, and the others are the name.
	from, to := strings.LastIndexByte(s[:at], ' ')+1, len(s)
	if n := strings.IndexByte(s[at:], ' '); n >= 0 {
		to = at + n
	}
	return Person{Name: strings.TrimSpace(s[:from] + s[to:]), Email: s[from:to]}
}

// setText sets a text that is not set by what is preferred.
func setText(dst *string, have *uint8, rank uint8, s string) bool {
	if s == "" || *dst != "" && *have <= rank {
		return false
	}
	*dst, *have = s, rank
	return true
}

// setTime does so with a time.
func setTime(dst *time.Time, have *uint8, rank uint8, t time.Time) {
	if !t.IsZero() && (dst.IsZero() || rank < *have) {
		*dst, *have = t, rank
	}
}

// setFirst sets a text of which the first counts.
func setFirst(dst *string, s string) {
	if *dst == "" {
		*dst = s
	}
}

func decodeBase64(s string) ([]byte, bool) {
	plain, err := base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
		if r <= ' ' {
			return -1
		}
		return r
	}, s))
	return plain, err == nil
}
