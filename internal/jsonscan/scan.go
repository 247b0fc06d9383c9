// Package jsonscan reads JSON (RFC 8259) that is in memory as a whole, in one pass and without making
// anything of what it passes over.
//
// Methods of a [Scanner] pass over white space first and leave it behind what they have read; after the
// first error, a [*SyntaxError], they are not to be called any more. What they return is part of the text,
// except for strings with escapes, which are copies.
//
// It accepts what encoding/json accepts, with two exceptions: text that is not UTF-8 or holds half of a
// surrogate pair, which encoding/json replaces, is refused, unless a Lenient scanner merely passes over it;
// and values nested more than [MaxDepth] deep are refused.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// A Scanner is at byte I of the text B.
type Scanner struct {
	B []byte
	I int
	// Lenient does not look into strings that are passed over.
	Lenient bool
}

// TooDeep is what is wrong with values nested more than MaxDepth deep.
const TooDeep = "values within values, too deep,"

// SyntaxError says what is wrong at a byte.
type SyntaxError struct {
	What string
	At   int
}

func (e *SyntaxError) Error() string { return e.What + " at byte " + strconv.Itoa(e.At) }

// MaxDepth bounds the nesting of values that are passed over.
const MaxDepth = 64

// Malformed returns an error about the present byte.
func (s *Scanner) Malformed(what string) error { return &SyntaxError{what, s.I} }

// Space passes over white space and returns the next byte, 0 at the end.
func (s *Scanner) Space() byte {
	for ; s.I < len(s.B); s.I++ {
		switch c := s.B[s.I]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// Expect passes over a byte.
func (s *Scanner) Expect(c byte) error {
	if s.Space() != c {
		return s.Malformed("expected '" + string(rune(c)) + "'")
	}
	s.I++
	return nil
}

// End makes sure that nothing follows.
func (s *Scanner) End() error {
	if s.Space() != 0 || s.I < len(s.B) {
		return s.Malformed("something follows the value")
	}
	return nil
}

// First begins an object or array whose opening byte was read: more says whether it holds anything. Next goes
// from one element to the following.
func (s *Scanner) First(closing byte) (more bool) {
	if s.Space() == closing {
		s.I++
		return false
	}
	return true
}

// Next passes over a comma or the closing byte.
func (s *Scanner) Next(closing byte) (more bool, err error) {
	switch s.Space() {
	case ',':
		s.I++
		return true, nil
	case closing:
		s.I++
		return false, nil
	}
	return false, s.Malformed("expected ',' or '" + string(rune(closing)) + "'")
}

// Object calls member for every member of an object, with the scanner before its value.
func (s *Scanner) Object(member func(key []byte) error) error {
	if err := s.Expect('{'); err != nil {
		return err
	}
	for more := s.First('}'); more; {
		if s.Space() != '"' {
			return s.Malformed("expected a name in quotes")
		}
		key, err := s.Text()
		if err == nil {
			err = s.Expect(':')
		}
		if err == nil {
			err = member(key)
		}
		if err == nil {
			more, err = s.Next('}')
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Array calls element for every element of an array, with the scanner before it.
func (s *Scanner) Array(element func() error) error {
	if err := s.Expect('['); err != nil {
		return err
	}
	for more := s.First(']'); more; {
		err := element()
		if err == nil {
			more, err = s.Next(']')
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Text reads a string, whose opening quote is the next byte.
func (s *Scanner) Text() ([]byte, error) {
	s.I++
	from := s.I
	ascii := true
	for i := from; i < len(s.B); i++ {
		switch c := s.B[i]; {
		case c == '"':
			s.I = i + 1
			if !ascii && !utf8.Valid(s.B[from:i]) {
				s.I = from
				return nil, s.Malformed("text that is not UTF-8")
			}
			return s.B[from:i:i], nil
		case c == '\\':
			return s.escaped(from)
		case c < ' ':
			s.I = i
			return nil, s.Malformed("a control character in text")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.I = len(s.B)
	return nil, s.Malformed("text without an end")
}

// escaped reads a string with escapes, which are rare: encoding/json knows what they mean.
func (s *Scanner) escaped(from int) ([]byte, error) {
	i := from
	for ; i < len(s.B) && s.B[i] != '"'; i++ {
		if s.B[i] == '\\' {
			i++
		}
	}
	if i >= len(s.B) {
		s.I = len(s.B)
		return nil, s.Malformed("text without an end")
	}
	raw := s.B[from-1 : i+1]
	s.I = from
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, s.Malformed("text with an escape that there is not, or a control character,")
	}
	if !utf8.Valid(raw) || halfPair(raw) {
		return nil, s.Malformed("text that is not Unicode")
	}
	s.I = i + 1
	return []byte(text), nil
}

// halfPair reports whether a string with valid escapes has half of a surrogate pair among them.
func halfPair(raw []byte) bool {
	unit := func(i int) uint64 {
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return 0
		}
		u, _ := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16) // what encoding/json took has four digits
		return u
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		switch u := unit(i); {
		case u>>10 == 0xd800>>10 && unit(i+6)>>10 == 0xdc00>>10:
			i += 11
		case u>>11 == 0xd800>>11:
			return true
		default:
			i++
		}
	}
	return false
}

// IsNumber reports whether a value that begins with c is a number.
func IsNumber(c byte) bool { return c == '-' || c-'0' <= 9 }

// Number passes over a number and says whether it is written as a whole one.
func (s *Scanner) Number() (whole bool, err error) {
	b, i := s.B, s.I
	if i < len(b) && b[i] == '-' {
		i++
	}
	digits := func() bool {
		from := i
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
		return i > from
	}
	zero := i < len(b) && b[i] == '0'
	from := i
	ok := digits() && !(zero && i > from+1)
	whole = true
	if ok && i < len(b) && b[i] == '.' {
		i++
		whole, ok = false, digits()
	}
	if ok && i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		whole, ok = false, digits()
	}
	if s.I = i; !ok {
		return false, s.Malformed("a number that is none")
	}
	return whole, nil
}

// Literal passes over true, false or null.
func (s *Scanner) Literal(word string) error {
	if !bytes.HasPrefix(s.B[s.I:], []byte(word)) {
		return s.Malformed("a value that is none")
	}
	s.I += len(word)
	return nil
}

// Null reads a null, if one follows.
func (s *Scanner) Null() (bool, error) {
	if s.Space() != 'n' {
		return false, nil
	}
	return true, s.Literal("null")
}

// Skip passes over a value of any type.
func (s *Scanner) Skip() error { return s.skip(0) }

// Value passes over a value and returns its text.
func (s *Scanner) Value() ([]byte, error) {
	s.Space()
	from := s.I
	err := s.skip(0)
	return s.B[from:s.I], err
}

func (s *Scanner) skip(depth int) error {
	if depth > MaxDepth {
		return s.Malformed(TooDeep)
	}
	switch c := s.Space(); {
	case c == '"':
		return s.skipText()
	case IsNumber(c):
		_, err := s.Number()
		return err
	case c == 't':
		return s.Literal("true")
	case c == 'f':
		return s.Literal("false")
	case c == 'n':
		return s.Literal("null")
	case c == '[':
		return s.Array(func() error { return s.skip(depth + 1) })
	case c == '{':
		return s.Object(func([]byte) error { return s.skip(depth + 1) })
	case c == 0 && s.I == len(s.B):
		return s.Malformed("it ends too early")
	}
	return s.Malformed("a value that is none")
}

// skipText passes over a string.
func (s *Scanner) skipText() error {
	if !s.Lenient {
		_, err := s.Text()
		return err
	}
	for i := s.I + 1; i < len(s.B); i++ {
		switch c := s.B[i]; {
		case c == '"':
			s.I = i + 1
			return nil
		case c == '\\':
			i++
		case c < ' ':
			s.I = i
			return s.Malformed("a control character in text")
		}
	}
	s.I = len(s.B)
	return s.Malformed("text without an end")
}
