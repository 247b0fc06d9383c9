package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// planFields returns a plan as its JSON form has it: names and texts. What is not an object has no fields.
func planFields(plan any) map[string]string {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil
	}
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return nil
	}
	fields := make(map[string]string, len(tree))
	for name, v := range tree {
		if v = hide(name, v); v != nil {
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
	text, err := json.Marshal(r.Plan)
	if err != nil {
		return r
	}
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&tree) != nil || tree["headers"] == nil {
		return r
	}
	tree["headers"] = hide("headers", tree["headers"])
	out := *r
	out.Plan = tree
	return &out
}

// secretWords are parts of the names of fields whose values are for the target only.
var secretWords = []string{"auth", "cookie", "token", "secret", "password", "key", "session"}

// hide leaves the values of secret header fields out: reports are made to be passed on.
func hide(name string, v any) any {
	list, is := v.([]any)
	if name != "headers" || !is {
		return v
	}
	out := make([]any, len(list))
	for i, h := range list {
		out[i] = h
		field, _, found := strings.Cut(fmt.Sprint(h), ":")
		if found && slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(strings.ToLower(field), w) }) {
			out[i] = field + ": (not shown)"
		}
	}
	return out
}

// planRows returns a plan's fields in an order for people: what, how much, and the rest by name.
func planRows(plan any) [][2]string {
	fields := planFields(plan)
	first := []string{"url", "scenario", "target", "method", "mode", "rate", "connections", "stages", "users", "every", "duration", "warmup", "ramp"}
	var rows [][2]string
	for _, name := range first {
		if v, is := fields[name]; is {
			rows = append(rows, [2]string{name, v})
			delete(fields, name)
		}
	}
	delete(fields, "name")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		rows = append(rows, [2]string{name, fields[name]})
	}
	return rows
}
