package ingest

import (
	"encoding/json"
)

// scanner walks over one JSON text. It checks the structure as it goes, at the price of the bytes:
// nothing is decoded but what the caller asks for.
type scanner struct {
	b []byte
	i int
}

// maxDepth bounds the nesting of values that are passed over.
const maxDepth = 100

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// next returns the next byte that is no space without passing over it, 0 at the end.
func (s *scanner) next() byte {
	s.space()
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// accept passes over c if it comes next.
func (s *scanner) accept(c byte) bool {
	if s.next() != c || s.i == len(s.b) {
		return false
	}
	s.i++
	return true
}

// text passes over a string and returns what is between its quotes, escapes as they are.
func (s *scanner) text() ([]byte, bool) {
	if !s.accept('"') {
		return nil, false
	}
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start : s.i-1], true
		case c == '\\':
			s.i += 2
		case c < ' ':
			return nil, false
		default:
			s.i++
		}
	}
	return nil, false
}

// value passes over a value and returns its text.
func (s *scanner) value(depth int) ([]byte, bool) {
	c := s.next()
	start := s.i
	ok := false
	switch c {
	case '"':
		_, ok = s.text()
	case '{':
		ok = depth < maxDepth && s.object(func([]byte) bool {
			_, ok := s.value(depth + 1)
			return ok
		})
	case '[':
		ok = depth < maxDepth && s.array(func() bool {
			_, ok := s.value(depth + 1)
			return ok
		})
	default:
		ok = s.word()
	}
	if !ok {
		return nil, false
	}
	return s.b[start:s.i], true
}

// word passes over a number, true, false or null.
func (s *scanner) word() bool {
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', c == '-', c == '+', c == '.', c == 'E':
			s.i++
			continue
		}
		break
	}
	word := s.b[start:s.i]
	switch string(word) {
	case "true", "false", "null":
		return true
	}
	return isNumber(word)
}

// isNumber reports whether word is a number as JSON writes it.
func isNumber(word []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(word) && '0' <= word[n] && word[n] <= '9' {
			n++
		}
		word = word[n:]
		return n > 0
	}
	if len(word) > 0 && word[0] == '-' {
		word = word[1:]
	}
	if len(word) > 1 && word[0] == '0' && '0' <= word[1] && word[1] <= '9' || !digits() {
		return false
	}
	if len(word) > 0 && word[0] == '.' {
		if word = word[1:]; !digits() {
			return false
		}
	}
	if len(word) > 0 && (word[0] == 'e' || word[0] == 'E') {
		word = word[1:]
		if len(word) > 0 && (word[0] == '+' || word[0] == '-') {
			word = word[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(word) == 0
}

// object passes over an object. member is called with the raw name of each member and passes over
// its value.
func (s *scanner) object(member func(name []byte) bool) bool {
	if !s.accept('{') {
		return false
	}
	if s.accept('}') {
		return true
	}
	for {
		name, ok := s.text()
		if !ok || !s.accept(':') || !member(name) {
			return false
		}
		if s.accept('}') {
			return true
		}
		if !s.accept(',') {
			return false
		}
	}
}

// array passes over an array. element passes over one element.
func (s *scanner) array(element func() bool) bool {
	if !s.accept('[') {
		return false
	}
	if s.accept(']') {
		return true
	}
	for {
		if !element() {
			return false
		}
		if s.accept(']') {
			return true
		}
		if !s.accept(',') {
			return false
		}
	}
}

// unquote returns what a JSON string means, given its text with the quotes.
func unquote(raw []byte) ([]byte, error) {
	inside := raw[1 : len(raw)-1]
	for _, c := range inside {
		if c == '\\' {
			var s string
			err := json.Unmarshal(raw, &s)
			return []byte(s), err
		}
	}
	return inside, nil
}
