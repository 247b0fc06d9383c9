package bandit

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner reads JSON (RFC 8259) that is in memory as a whole, in one pass and without making
// anything of what it passes over. Its methods leave it behind what they have read; after the first error they
// are not to be called any more.
//
// It accepts what encoding/json accepts, but for text that is no UTF-8 or holds half of a
// surrogate pair, which that replaces and this refuses.
type scanner struct {
	b []byte
	i int
	// What is being read, for messages: requests[2].items[5]. Indices below 0 are none.
	list    string // of which it is part
	listed  int
	field   string
	element int
}

// badRequest is a request that cannot be answered, and why.
type badRequest struct {
	status int
	detail string
}

func (e *badRequest) Error() string { return e.detail }

// malformed is the error of what is not JSON.
func (s *scanner) malformed(what string) error {
	return &badRequest{400, "the body is not JSON: " + what + " at byte " + strconv.Itoa(s.i)}
}

// wrong is the error of a field that has another value than it may have.
func (s *scanner) wrong(want string) error {
	return &badRequest{422, s.where() + " must be " + want}
}

// where names what is being read.
func (s *scanner) where() string {
	name := s.field
	if s.element >= 0 {
		name += "[" + strconv.Itoa(s.element) + "]"
	}
	if s.listed >= 0 {
		at := s.list + "[" + strconv.Itoa(s.listed) + "]"
		if name == "" {
			return at
		}
		name = at + "." + name
	}
	if name == "" {
		return "the body"
	}
	return name
}

// reset makes the scanner ready for another body.
func (s *scanner) reset(body []byte) { *s = scanner{b: body, listed: -1, element: -1} }

// space passes over white space and returns the next byte, 0 at the end.
func (s *scanner) space() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// expect passes over a byte.
func (s *scanner) expect(c byte) error {
	if s.space() != c {
		return s.malformed("expected '" + string(rune(c)) + "'")
	}
	s.i++
	return nil
}

// end makes sure that nothing follows.
func (s *scanner) end() error {
	if s.space() != 0 || s.i < len(s.b) {
		return s.malformed("something follows the value")
	}
	return nil
}

// first begins an object or array whose opening byte was read: more says whether it holds
// anything. next goes from one element to the following.
func (s *scanner) first(closing byte) (more bool) {
	if s.space() == closing {
		s.i++
		return false
	}
	return true
}

func (s *scanner) next(closing byte) (more bool, err error) {
	switch s.space() {
	case ',':
		s.i++
		return true, nil
	case closing:
		s.i++
		return false, nil
	}
	return false, s.malformed("expected ',' or '" + string(rune(closing)) + "'")
}

// something refuses a body of nothing.
func (s *scanner) something(send string) error {
	if s.space() == 0 && s.i == len(s.b) {
		return &badRequest{422, "the body is empty: send " + send}
	}
	return nil
}

// object calls member for every member of an object, with the scanner before its value. member sets
// what messages call it.
func (s *scanner) object(member func(key []byte) error) error {
	if s.space() != '{' {
		return s.wrongValue("an object")
	}
	s.i++
	more := s.first('}')
	for more {
		if s.space() != '"' {
			return s.malformed("expected a name in quotes")
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if more, err = s.next('}'); err != nil {
			return err
		}
	}
	return nil
}

// wrongValue tells a value of another type from what is no value.
func (s *scanner) wrongValue(want string) error {
	c := s.space()
	at := s.i
	if err := s.skip(); err != nil {
		return err
	}
	if c == 0 && at == len(s.b) {
		return s.malformed("it ends too early")
	}
	return s.wrong(want)
}

// member makes the member of that name the one that messages name. It is an error when it is none of the known ones, or was seen
// before, by a bit for each of them.
func (s *scanner) member(key []byte, known []string, seen *uint) error {
	for i, name := range known {
		if string(key) != name {
			continue
		}
		s.field = name
		if *seen&(1<<i) != 0 {
			return s.wrong("there once")
		}
		*seen |= 1 << i
		return nil
	}
	last := len(known) - 1
	return s.unknown(key, strings.Join(known[:last], ", ")+" and "+known[last])
}

// unknown is the error of a member that there is not; key is its name.
func (s *scanner) unknown(key []byte, known string) error {
	s.field, s.element = "", -1
	return &badRequest{422, s.where() + " may have " + known + ", and not " + strconv.Quote(string(key))}
}

// id reads a string or a whole number, which must follow, and returns where its token is and, where
// there is no escape in it, its text.
func (s *scanner) id(want string) (token, text []byte, err error) {
	c := s.space()
	from := s.i
	switch {
	case c == '"':
		if text, err = s.text(); err != nil {
			return nil, nil, err
		}
		if len(text) == 0 || len(text) > MaxID {
			return nil, nil, s.wrong(want)
		}
		return s.b[from:s.i], text, nil
	case c == '-' || c-'0' <= 9:
		integer, err := s.number()
		if err != nil {
			return nil, nil, err
		}
		if !integer || s.i-from > MaxID {
			return nil, nil, s.wrong(want)
		}
		return s.b[from:s.i], s.b[from:s.i], nil
	}
	return nil, nil, s.wrongValue(want)
}

// text reads a string whose opening quote follows. Without escapes the result is a part of the
// body, with escapes it is memory of its own.
func (s *scanner) text() ([]byte, error) {
	s.i++
	from := s.i
	ascii := true
	for i := from; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			if !ascii && !utf8.Valid(s.b[from:i]) {
				s.i = from
				return nil, s.malformed("text that is not UTF-8")
			}
			return s.b[from:i:i], nil
		case c == '\\':
			return s.escaped(from)
		case c < ' ':
			s.i = i
			return nil, s.malformed("a control character in text")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.i = len(s.b)
	return nil, s.malformed("text without an end")
}

// escaped reads a string with escapes, which are rare: encoding/json knows what they mean.
func (s *scanner) escaped(from int) ([]byte, error) {
	i := from
	for ; i < len(s.b) && s.b[i] != '"'; i++ {
		if s.b[i] == '\\' {
			i++
		}
	}
	if i >= len(s.b) {
		s.i = len(s.b)
		return nil, s.malformed("text without an end")
	}
	raw := s.b[from-1 : i+1]
	s.i = from
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, s.malformed("text with an escape that there is not, or a control character,")
	}
	if !utf8.Valid(raw) || halfPair(raw) {
		return nil, s.malformed("text that is not Unicode")
	}
	s.i = i + 1
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

// number passes over a number and says whether it is written as a whole one.
func (s *scanner) number() (integer bool, err error) {
	b, i := s.b, s.i
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
	if from := i; !digits() || zero && i > from+1 {
		s.i = min(i, len(b))
		return false, s.malformed("a number that is none")
	}
	integer = true
	if i < len(b) && b[i] == '.' {
		i++
		if integer = false; !digits() {
			s.i = i
			return false, s.malformed("a number that is none")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if integer = false; !digits() {
			s.i = i
			return false, s.malformed("a number that is none")
		}
	}
	s.i = i
	return integer, nil
}

// float reads a number.
func (s *scanner) float(want string) (float64, error) {
	if c := s.space(); c != '-' && c-'0' > 9 {
		return 0, s.wrongValue(want)
	}
	from := s.i
	if _, err := s.number(); err != nil {
		return 0, err
	}
	x, err := strconv.ParseFloat(string(s.b[from:s.i]), 64)
	if err != nil { // too large for a float64
		return 0, s.wrong(want)
	}
	return x, nil
}

// uint reads a whole number from least to most.
func (s *scanner) uint(least, most uint64, want string) (uint64, error) {
	if c := s.space(); c != '-' && c-'0' > 9 {
		return 0, s.wrongValue(want)
	}
	from := s.i
	integer, err := s.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(s.b[from:s.i]), 10, 64)
	if !integer || err != nil || n < least || n > most {
		return 0, s.wrong(want)
	}
	return n, nil
}

// bool reads true or false.
func (s *scanner) bool() (bool, error) {
	c := s.space()
	if c != 't' && c != 'f' {
		return false, s.wrongValue("true or false")
	}
	return c == 't', s.literal([]string{"false", "true"}[btoi(c == 't')])
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.malformed("a value that is none")
	}
	s.i += len(word)
	return nil
}

// null reads a null, if one follows.
func (s *scanner) null() (bool, error) {
	if s.space() != 'n' {
		return false, nil
	}
	return true, s.literal("null")
}

// maxDepth bounds what skip goes into.
const maxDepth = 64

// skip passes over a value of any type.
func (s *scanner) skip() error { return s.skipDeep(0) }

func (s *scanner) skipDeep(depth int) error {
	if depth > maxDepth {
		return s.malformed("values within values, too deep,")
	}
	switch c := s.space(); {
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || c-'0' <= 9:
		_, err := s.number()
		return err
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '[':
		s.i++
		for more := s.first(']'); more; {
			err := s.skipDeep(depth + 1)
			if err != nil {
				return err
			}
			if more, err = s.next(']'); err != nil {
				return err
			}
		}
		return nil
	case c == '{':
		s.i++
		for more := s.first('}'); more; {
			if s.space() != '"' {
				return s.malformed("expected a name in quotes")
			}
			_, err := s.text()
			if err != nil {
				return err
			}
			if err := s.expect(':'); err != nil {
				return err
			}
			if err := s.skipDeep(depth + 1); err != nil {
				return err
			}
			if more, err = s.next('}'); err != nil {
				return err
			}
		}
		return nil
	case c == 0 && s.i == len(s.b):
		return s.malformed("it ends too early")
	}
	return s.malformed("a value that is none")
}
