package ingest

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"weir/internal/jsonscan"
)

// parseNumber reads an unsigned decimal number of digits alone.
func parseNumber[T []byte | string](s T) (uint64, bool) {
	if len(s) == 0 || len(s) > 20 {
		return 0, false
	}
	n := uint64(0)
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 {
			return 0, false
		}
		if i == 19 && (n > math.MaxUint64/10 || n == math.MaxUint64/10 && d > 5) {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// parseWhole reads what parseNumber does and, as pandas writes whole numbers in columns with gaps, "5.0".
func parseWhole[T []byte | string](s T) (uint64, bool) {
	end := len(s)
	for end > 0 && s[end-1] == '0' {
		end--
	}
	if end > 0 && end < len(s) && s[end-1] == '.' {
		s = s[:end-1]
	}
	return parseNumber(s)
}

// looksNumeric reports whether an id of a sample is a number. One with a leading zero is a name:
// as a number it could not be told from the one without.
func looksNumeric(s []byte) bool {
	_, ok := parseWhole(s)
	return ok && (s[0] != '0' || len(s) == 1 || s[1] == '.')
}

// A sample is what the first ids of a column of text look like.
type sample struct {
	digits, whole int  // ids that are numbers: of digits alone, or like 5.0
	others, names int  // numbers that are no ids, like -1 and 1.5, and what is no number
	zeros         bool // digits with a leading zero
}

func (s *sample) add(id []byte) {
	_, digits := parseNumber(id)
	switch numeric := looksNumeric(id); {
	case numeric && digits:
		s.digits++
	case numeric:
		s.whole++
	case bytes.ContainsAny(id, "-.eE") && isNumber(id): // digits alone are too many for a number
		s.others++
	default:
		s.names++
		s.zeros = s.zeros || digits
	}
}

// isNumber reports whether text is a number as JSON writes it.
func isNumber(text []byte) bool {
	s := jsonscan.Scanner{B: text}
	_, err := s.Number()
	return err == nil && s.I == len(text)
}

// kind tells numbers from names, and takes nothing for numbers, which go along with either in other
// files. Some names among many numbers, and numbers that are no ids, are bad rows, which will be
// refused with a word on how to have them; taken for names, all would be names without a word.
func (s *sample) kind() Kind {
	if s.names > 0 && s.digits+s.whole <= s.names+s.others || s.zeros {
		return String
	}
	return Number
}

// fractional reports whether most of the sample is not written as whole numbers are.
func (s *sample) fractional() bool { return s.digits <= s.whole+s.others+s.names }

// wantNumber says what an id has to be, and how to have it otherwise.
func (f *Field) wantNumber() string {
	return "a number from 0 to 18446744073709551615 (" + f.KindFlag + " string takes names)"
}

func (f *Field) wantString() string {
	return "a name of 1 to " + strconv.Itoa(MaxString) + " bytes of UTF-8"
}

func (f *Field) wantList() string {
	return "a list of at most " + strconv.Itoa(MaxList) + " ids"
}

// goodString reports whether s can be an id.
func goodString(s []byte) bool {
	return len(s) > 0 && len(s) <= MaxString && utf8.Valid(s)
}

// appendID appends the id in text to the column, or says what was expected instead.
func (c *Column) appendID(f *Field, kind Kind, s []byte) (want string) {
	if kind == String {
		if !goodString(s) && !(f.Nullable && len(s) == 0) {
			return f.wantString()
		}
		c.appendText(s)
		return ""
	}
	n, ok := parseNumber(s)
	if !ok {
		if n, ok = parseWhole(s); !ok {
			return f.wantNumber()
		}
	}
	c.Numbers = append(c.Numbers, n)
	return ""
}

// appendFloat appends the number in text to the column, or says what was expected instead.
func (c *Column) appendFloat(f *Field, s []byte) (want string) {
	x, err := strconv.ParseFloat(string(s), 64)
	if err != nil || !f.accepts(x) {
		return f.wantFloat()
	}
	c.Floats = append(c.Floats, x)
	return ""
}
