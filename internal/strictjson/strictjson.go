// Package strictjson reads JSON that people write, and says what is wrong with it in their words: members
// by their own names, and what was expected of them, where encoding/json is lenient and names Go's types
// and fields.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Read reads a body that is one JSON value into v, which points to a struct, or to a map of structs. The
// names of members are compared by their exact letters, each member may be there once, and nothing may
// follow. The error is for the client: it names the member.
func Read(body io.Reader, v any) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("it could not be read to its end: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return Plain(io.EOF)
	}
	err = json.Unmarshal(text, v)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); err == nil || wrong {
		// Whether a member is known comes before its type.
		err = cmp.Or(checkMembers(text, reflect.TypeOf(v), ""), err)
	}
	return Plain(err)
}

// checkMembers looks for members of a value that a t does not have, and for those that are there twice. The
// text is JSON; at is where in the body it is.
func checkMembers(text []byte, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if start, _ := d.Token(); start != json.Delim('{') || t.Kind() != reflect.Struct &&
		t.Kind() != reflect.Map {
		return nil
	}
	var known []string
	types := make(map[string]reflect.Type)
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			known = append(known, name)
			types[name] = f.Type
		}
	}
	for seen := []string(nil); d.More(); {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, member := token.(string), t
		if t.Kind() == reflect.Map {
			member = t.Elem()
		} else if member = types[name]; member == nil {
			return fmt.Errorf("%s may have %s, and not %.40q", cmp.Or(at, "the body"), enumerate(known), name)
		}
		within := strings.TrimPrefix(at+"."+name, ".")
		if slices.Contains(seen, name) {
			return fmt.Errorf("%.80s must be there once", within)
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := checkMembers(value, member, within); err != nil {
			return err
		}
	}
	return nil
}

// enumerate joins names as a sentence does: a, b and c.
func enumerate(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
