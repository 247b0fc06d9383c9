package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestOpenAPIExamplesAreAsTheirSchemas(t *testing.T) {
	doc := readAPI(t)
	found := 0
	test := func(where string, content apiContent) {
		for mediaType, c := range content {
			examples := make(map[string]any)
			for name, example := range c.Examples {
				examples[name] = example.Value
			}
			if c.Example != nil {
				examples["example"] = c.Example
			}
			for name, example := range examples {
				found++
				var value any // with the types that JSON has
				if text, err := json.Marshal(example); err != nil {
					t.Errorf("%s %s: %v", where, name, err)
				} else if err := json.Unmarshal(text, &value); err != nil {
					t.Errorf("%s %s: %v", where, name, err)
				} else if err := doc.fits(value, c.Schema); err != nil {
					t.Errorf("%s, %s, %s: %v", where, mediaType, name, err)
				}
			}
		}
	}
	for path, p := range doc.Paths {
		for method, call := range p.Methods {
			test(method+" "+path, call.RequestBody.Content)
			for status, response := range call.Responses {
				test(method+" "+path+" "+status, doc.response(response).Content)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d examples found", found)
	}
}

// fits says in what a JSON value is not as a schema has it. It knows the words that docs/openapi.yaml
// uses, and fails at others.
func (d *apiDoc) fits(value any, schema apiSchema) error {
	for word, is := range schema {
		var err error
		switch word {
		case "description", "example":
		case "$ref":
			name := strings.TrimPrefix(is.(string), "#/components/schemas/")
			named, ok := d.Components.Schemas[name]
			if !ok {
				return fmt.Errorf("there is no schema %q", is)
			}
			err = d.fits(value, named)
		case "oneOf":
			var misfits []error
			for _, s := range is.([]any) {
				if misfit := d.fits(value, s.(apiSchema)); misfit != nil {
					misfits = append(misfits, misfit)
				}
			}
			if fitting := len(is.([]any)) - len(misfits); fitting != 1 {
				err = fmt.Errorf("%d of the alternatives fit: %w", fitting, errors.Join(misfits...))
			}
		case "type":
			types, ok := is.([]any)
			if !ok {
				types = []any{is}
			}
			if !slices.ContainsFunc(types, func(t any) bool { return typeFits(value, t) }) {
				err = fmt.Errorf("%v is of another type than %v", value, types)
			}
		case "const":
			if value != is {
				err = fmt.Errorf("%v is not %v", value, is)
			}
		case "enum":
			if !slices.Contains(is.([]any), value) {
				err = fmt.Errorf("%v is none of %v", value, is)
			}
		case "format":
			if is != "date-time" {
				return fmt.Errorf("a schema has the format %q, which this test does not know", is)
			}
			if text, ok := value.(string); ok {
				_, err = time.Parse(time.RFC3339, text)
			}
		case "pattern":
			if s, ok := value.(string); ok && !regexp.MustCompile(is.(string)).MatchString(s) {
				err = fmt.Errorf("%q does not match %s", s, is)
			}
		case "minimum":
			if n, ok := value.(float64); ok && n < numberOf(is) {
				err = fmt.Errorf("%v is below %v", n, is)
			}
		case "maximum":
			if n, ok := value.(float64); ok && n > numberOf(is) {
				err = fmt.Errorf("%v is above %v", n, is)
			}
		case "exclusiveMinimum":
			if n, ok := value.(float64); ok && n <= numberOf(is) {
				err = fmt.Errorf("%v is not above %v", n, is)
			}
		case "minLength":
			if s, ok := value.(string); ok && utf8.RuneCountInString(s) < is.(int) {
				err = fmt.Errorf("%q is shorter than %v", s, is)
			}
		case "maxLength":
			if s, ok := value.(string); ok && utf8.RuneCountInString(s) > is.(int) {
				err = fmt.Errorf("%q is longer than %v", s, is)
			}
		case "minItems":
			if a, ok := value.([]any); ok && len(a) < is.(int) {
				err = fmt.Errorf("%d elements are fewer than %v", len(a), is)
			}
		case "maxItems":
			if a, ok := value.([]any); ok && len(a) > is.(int) {
				err = fmt.Errorf("%d elements are more than %v", len(a), is)
			}
		case "items":
			array, _ := value.([]any)
			for _, v := range array {
				if err = d.fits(v, is.(apiSchema)); err != nil {
					break
				}
			}
		case "required":
			object, _ := value.(map[string]any)
			for _, name := range is.([]any) {
				if _, ok := object[name.(string)]; !ok && object != nil {
					err = fmt.Errorf("the member %v is missing", name)
				}
			}
		case "properties":
		case "additionalProperties":
			err = d.membersFit(value, schema)
		default:
			err = fmt.Errorf("a schema has the word %q, which this test does not know", word)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// membersFit checks the members of an object. Schemas of objects here say what other members there may be.
func (d *apiDoc) membersFit(value any, schema apiSchema) error {
	object, _ := value.(map[string]any)
	known, _ := schema["properties"].(apiSchema)
	others, mayBe := schema["additionalProperties"].(apiSchema)
	for name, v := range object {
		s, ok := known[name].(apiSchema)
		if !ok {
			if s = others; !mayBe {
				return fmt.Errorf("the member %s is not described", name)
			}
		}
		if err := d.fits(v, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func typeFits(value, name any) bool {
	switch v := value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

// numberOf returns a number of a document, whole ones beyond those of an int included.
func numberOf(is any) float64 {
	switch n := is.(type) {
	case int:
		return float64(n)
	case uint64:
		return float64(n)
	case float64:
		return n
	}
	panic(fmt.Sprintf("a schema has %v where a number has to be", is))
}
