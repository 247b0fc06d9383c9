package strictjson

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Plain returns an error that says what err, of encoding/json, does, without Go's names. Others are
// returned as they are, as is nil.
func Plain(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s must be %s, not %s", cmp.Or(wrong.Field, "it"), Kind(wrong.Type),
			found(wrong.Value))
	}
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case err == io.EOF:
		return errors.New("it is empty")
	case errors.Is(err, io.ErrUnexpectedEOF), ok && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return errors.New("it ends before its JSON does")
	case ok:
		return fmt.Errorf("not JSON: %w at byte %d", err, syntax.Offset)
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

// found names what was there, which encoding/json says as "string", "bool", "array", "object", "number", or
// "number 1.5".
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
