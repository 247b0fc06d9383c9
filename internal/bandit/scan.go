package bandit

import (
	"strconv"
	"strings"

	"weir/internal/jsonscan"
)

// scanner reads the bodies of requests, and names what is wrong with them.
type scanner struct {
	jsonscan.Scanner
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
func (s *scanner) reset(body []byte) {
	*s = scanner{Scanner: jsonscan.Scanner{B: body}, listed: -1, element: -1}
}

// something refuses a body of nothing.
func (s *scanner) something(send string) error {
	if s.Space() == 0 && s.I == len(s.B) {
		return &badRequest{422, "the body is empty: send " + send}
	}
	return nil
}

// object calls member for every member of an object, with the scanner before its value. member sets what
// messages call it.
func (s *scanner) object(member func(key []byte) error) error {
	if s.Space() != '{' {
		return s.wrongValue("an object")
	}
	return s.Object(member)
}

// wrongValue tells a value of another type from what is no value.
func (s *scanner) wrongValue(want string) error {
	if err := s.Skip(); err != nil {
		return err
	}
	return s.wrong(want)
}

// member makes the member of that name the one that messages name. It is an error when it is none of the
// known ones, or was seen before, by a bit for each of them.
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

// id reads a string or a whole number, which must follow, and returns where its token is and, where there
// is no escape in it, its text.
func (s *scanner) id(want string) (token, text []byte, err error) {
	c := s.Space()
	from := s.I
	switch {
	case c == '"':
		if text, err = s.Text(); err != nil {
			return nil, nil, err
		}
		if len(text) == 0 || len(text) > MaxID {
			return nil, nil, s.wrong(want)
		}
		return s.B[from:s.I], text, nil
	case jsonscan.IsNumber(c):
		whole, err := s.Number()
		if err != nil {
			return nil, nil, err
		}
		if !whole || s.I-from > MaxID {
			return nil, nil, s.wrong(want)
		}
		return s.B[from:s.I], s.B[from:s.I], nil
	}
	return nil, nil, s.wrongValue(want)
}

// number reads a number's text and says whether it is written as a whole one.
func (s *scanner) number(want string) (text []byte, whole bool, err error) {
	if !jsonscan.IsNumber(s.Space()) {
		return nil, false, s.wrongValue(want)
	}
	from := s.I
	whole, err = s.Number()
	return s.B[from:s.I], whole, err
}

// float reads a number.
func (s *scanner) float(want string) (float64, error) {
	text, _, err := s.number(want)
	if err != nil {
		return 0, err
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil { // too large for a float64
		return 0, s.wrong(want)
	}
	return x, nil
}

// uint reads a whole number from least to most.
func (s *scanner) uint(least, most uint64, want string) (uint64, error) {
	text, whole, err := s.number(want)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	if !whole || err != nil || n < least || n > most {
		return 0, s.wrong(want)
	}
	return n, nil
}

// bool reads true or false.
func (s *scanner) bool() (bool, error) {
	switch s.Space() {
	case 't':
		return true, s.Literal("true")
	case 'f':
		return false, s.Literal("false")
	}
	return false, s.wrongValue("true or false")
}
