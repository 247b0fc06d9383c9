package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"weir/internal/strictjson"
)

// FieldError is about one member of a plan.
type FieldError struct {
	Field  string // as JSON has it
	Detail string
}

func (e *FieldError) Error() string { return e.Detail }

// fields are the members of a plan's JSON, and where they are in Plan.
var fields = func() map[string]int {
	fields := make(map[string]int)
	t := reflect.TypeFor[Plan]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = i
	}
	return fields
}()

// HasField reports whether a plan's JSON can have a member.
func HasField(name string) bool {
	_, known := fields[name]
	return known
}

// nonzero are the members whose zero stands for the default when they are left out, and which cannot be 0.
var nonzero = []string{"users", "items", "max_item", "max_index", "feeds", "feed_pool", "duration", "max_connections", "warm"}

// noZero says what to do about a zero that somebody wrote, where it cannot be.
func noZero(name string, value any) string {
	return fmt.Sprintf("%s must not be %v; leave it out for the default", name, value)
}

// CheckFlags refuses the zeros of flags that were given, and cannot be.
func CheckFlags(given *pflag.FlagSet) error {
	var err error
	given.Visit(func(f *pflag.Flag) {
		zero := f.Value.String() == "0" || f.Value.String() == "0s"
		if zero && err == nil && slices.Contains(nonzero, strings.ReplaceAll(f.Name, "-", "_")) {
			err = errors.New(noZero("--"+f.Name, f.Value))
		}
	})
	return err
}

// ReadPlan reads a plan's JSON, member by member, so that an error about one is a FieldError. What is left
// out has the flags' defaults.
func ReadPlan(text []byte) (Plan, error) {
	p := Default()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return p, fmt.Errorf("a plan is a JSON object: %w", strictjson.Plain(err))
	}
	if members == nil {
		return p, errors.New("a plan is a JSON object, not null")
	}
	v := reflect.ValueOf(&p).Elem()
	for name, raw := range members {
		i, known := fields[name]
		if !known {
			return p, fmt.Errorf("plans have no member %.40q", name)
		}
		if bytes.Equal(raw, []byte("null")) {
			continue
		}
		field := v.Field(i)
		if err := json.Unmarshal(raw, field.Addr().Interface()); err != nil {
			return p, &FieldError{name, fmt.Sprintf("%s must be %s, got %.60s", name, kind(field.Type()), raw)}
		}
		if field.IsZero() && slices.Contains(nonzero, name) {
			return p, &FieldError{name, noZero(name, field.Interface())}
		}
	}
	return p, nil
}

// kind says what a member takes.
func kind(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Duration]():
		return `a duration like "30s" or "5m"`
	case reflect.TypeFor[[]string]():
		return "a list of texts"
	}
	return strictjson.Kind(t)
}
