package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shownPlan returns the members of a plan's JSON form, without the values of secret header fields. What is
// not an object has none.
func shownPlan(plan any) map[string]any {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil
	}
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&members) != nil {
		return nil
	}
	if headers, is := members["headers"].([]any); is {
		hide(headers)
	}
	return members
}

func planFields(plan any) map[string]string {
	fields := make(map[string]string)
	for name, v := range shownPlan(plan) {
		if v != nil {
			fields[name] = fieldText(v)
		}
	}
	return fields
}

func fieldText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = fieldText(v[i])
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+": "+fieldText(v[name]))
		}
		return strings.Join(parts, ", ")
	}
	return fmt.Sprint(v)
}

// WithoutSecrets returns r with a plan whose secret header fields have no values: a file may be passed on.
func WithoutSecrets(r *Result) *Result {
	shown := shownPlan(r.Plan)
	if shown["headers"] == nil {
		return r
	}
	out := *r
	out.Plan = shown
	return &out
}

// secretWords are parts of the names of fields whose values are for the target only.
var secretWords = []string{"auth", "cookie", "token", "secret", "password", "key", "session"}

// hide leaves the values of secret header fields out: reports are made to be passed on.
func hide(headers []any) {
	for i, h := range headers {
		field, _, found := strings.Cut(fmt.Sprint(h), ":")
		if found && slices.ContainsFunc(secretWords, func(w string) bool {
			return strings.Contains(strings.ToLower(field), w)
		}) {
			headers[i] = field + ": (not shown)"
		}
	}
}

// planRows returns a plan's fields in an order for people: what, how much, and the rest by name.
func planRows(plan any) [][]string {
	fields := planFields(plan)
	first := []string{"url", "scenario", "target", "method", "mode", "rate", "connections", "stages", "users",
		"every", "duration", "warmup", "ramp"}
	var rows [][]string
	for _, name := range first {
		if v, is := fields[name]; is {
			rows = append(rows, []string{name, v})
			delete(fields, name)
		}
	}
	delete(fields, "name")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		rows = append(rows, []string{name, fields[name]})
	}
	return rows
}
