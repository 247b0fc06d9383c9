package featurestore

import (
	"math"
	"strconv"
	"sync/atomic"
)

// A form is how an id is written for the store, which has to match the type that its entity has there.
type form int32

const (
	formAuto form = iota // not known yet
	formString
	formInt64
	formInt32
)

var idForms = map[string]form{"auto": formAuto, "string": formString, "int64": formInt64, "int32": formInt32}

// idForm is the form of a table's ids: as configured, or found out. An entity has one type, so what once was
// found stays.
type idForm struct {
	configured form
	found      atomic.Int32
}

func (f *idForm) form() form {
	if f.configured != formAuto {
		return f.configured
	}
	return form(f.found.Load())
}

// learn is told the form of ids that the store is seen to have.
func (f *idForm) learn(found form) {
	if f.configured == formAuto && found != formAuto && form(f.found.Load()) != found {
		f.found.Store(int32(found))
	}
}

// integer returns the number that an id writes in the one way in which integers are written. "007" is none,
// nor is "+7": as a number they would be another id, "7".
func integer(id string) (int64, bool) {
	const longest = len("-9223372036854775808")
	if id == "" || len(id) > longest {
		return 0, false
	}
	digits := id
	if digits[0] == '-' {
		digits = digits[1:]
		if digits == "0" {
			return 0, false
		}
	}
	if digits == "" || digits[0] < '0' || digits[0] > '9' || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(id, 10, 64)
	return n, err == nil
}

// fits reports whether an id can be written in a form.
func (f form) fits(id string) bool {
	switch f {
	case formInt64, formInt32:
		n, ok := integer(id)
		return ok && (f == formInt64 || n >= math.MinInt32 && n <= math.MaxInt32)
	}
	return true
}
