// Package jsonerr says what is wrong with JSON in the words of who wrote it: members by their own names, and what was
// expected of them, where encoding/json names Go's types and fields.
package jsonerr

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Plain returns an error that says what err, of encoding/json, does, without Go's names. Other errors are returned as they
// are.
func Plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := wrong.Field
		if what == "" {
			what = "it"
		}
		return fmt.Errorf("%s must be %s, not %s", what, Kind(wrong.Type), found(wrong.Value))
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.HasPrefix(syntax.Error(), "unexpected end") {
		return fmt.Errorf("not JSON: %w at byte %d", err, syntax.Offset)
	} else if ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends before its JSON does")
	}
	if err == io.EOF {
		return errors.New("it is empty")
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no field %s", field)
	}
	return err
}

// Kind says what JSON a value of t is read from.
func Kind(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a text"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a text"
		}
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return Kind(t.Elem())
	}
	return "a text"
}

// found names what was there, which encoding/json says as "string", "bool", "array", "object", "number", or "number 1.5".
func found(value string) string {
	switch value {
	case "array", "object":
		return "an " + value
	case "string":
		return "a text"
	}
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return number
	}
	return "a " + value
}
