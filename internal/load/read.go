package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/spf13/pflag"

	"weir/internal/strictjson"
)

// FieldError is about one member of a plan.
type FieldError struct {
	Field  string // as JSON has it
	Detail string
}

func (e *FieldError) Error() string { return e.Detail }

// noZero says what to do about a zero that somebody wrote, where it cannot be.
func noZero(name string, value any) string {
	return fmt.Sprintf("%s must not be %v; leave it out for the default", name, value)
}

// CheckFlags refuses the zeros of flags that were given, and cannot be.
func CheckFlags(given *pflag.FlagSet) error {
	var err error
	given.Visit(func(f *pflag.Flag) {
		zero := f.Value.String() == "0" || f.Value.String() == "0s"
		if field, _ := FieldOfFlag(f.Name); zero && err == nil && field.Default {
			err = errors.New(noZero("--"+f.Name, f.Value))
		}
	})
	return err
}

// ReadPlan reads a plan's JSON, member by member, so that an error about one is a FieldError. What is left
// out has the flags' defaults.
func ReadPlan(text []byte) (Plan, error) {
	p := Default()
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return p, fmt.Errorf("a plan is a JSON object: %w", strictjson.Plain(err))
	}
	if given == nil {
		return p, errors.New("a plan is a JSON object, not null")
	}
	v := reflect.ValueOf(&p).Elem()
	for name, raw := range given {
		f, known := field(func(f *Field) bool { return f.Name == name })
		if !known {
			return p, fmt.Errorf("plans have no member %.40q", name)
		}
		if bytes.Equal(raw, []byte("null")) {
			continue
		}
		member := v.FieldByIndex(members[name])
		if err := json.Unmarshal(raw, member.Addr().Interface()); err != nil {
			return p, &FieldError{name, fmt.Sprintf("%s must be %s, got %.60s", name,
				kind(member.Type()), raw)}
		}
		if member.IsZero() && f.Default {
			return p, &FieldError{name, noZero(name, member.Interface())}
		}
	}
	return p, nil
}

func kind(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Duration]():
		return `a duration like "30s" or "5m"`
	case reflect.TypeFor[[]string]():
		return "a list of texts"
	}
	return strictjson.Kind(t)
}
