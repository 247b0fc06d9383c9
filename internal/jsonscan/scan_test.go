package jsonscan

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// value makes of a text what encoding/json makes of it.
func value(s *Scanner) (v any, err error) {
	switch c := s.Space(); {
	case c == '{':
		m := map[string]any{}
		return m, s.Object(func(key []byte) (err error) {
			name := string(key)
			m[name], err = value(s)
			return err
		})
	case c == '[':
		l := []any{}
		err = s.Array(func() error {
			v, err := value(s)
			l = append(l, v)
			return err
		})
		return l, err
	case c == '"':
		text, err := s.Text()
		return string(text), err
	case IsNumber(c):
		raw, err := s.Value()
		return json.Number(raw), err
	case c == 't':
		return true, s.Literal("true")
	case c == 'f':
		return false, s.Literal("false")
	case c == 'n':
		_, err := s.Null()
		return nil, err
	}
	return nil, s.Skip()
}

func reference(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// replaced reports whether encoding/json replaces some of the text.
func replaced(text []byte) bool {
	for i, c := range text {
		if rest := text[i:]; c == '\\' && len(rest) > 2 && rest[1] == 'u' &&
			(rest[2] == 'd' || rest[2] == 'D') {
			return true // perhaps half of a pair
		}
	}
	return !utf8.Valid(text)
}

var texts = []string{`{"a":[1,-2.5e+7,"x",true,false,null,{}],"b":""}`, `[]`, `0`, `01`, `-`, `1.`,
	`"\u00e4"`, `"a`, `{"a"}`, `[1,]`, ` 1 `, `nul`,
	`1E5`, `"\ud83d\ude00"`, `"\ud83d"`, `"\x"`, "\"\x01\"", "\"\xff\"", `{"\u0061":1}`, `[1 2]`,
	`{"a":1,"a":2}`, `{,}`, `"\u0000"`, `1e`, `--1`, "\x00", ``}

func check(t *testing.T, text []byte) {
	strict := Scanner{B: text}
	got, err := value(&strict)
	if err == nil {
		err = strict.End()
	}
	skip, lenient := Scanner{B: text}, Scanner{B: text, Lenient: true}
	for _, s := range []*Scanner{&skip, &lenient} {
		passed := s.Skip()
		if passed == nil {
			passed = s.End()
		}
		if err == nil && passed != nil || !s.Lenient && err != nil && passed == nil {
			t.Errorf("%q: read with %v, passed over with %v", text, err, passed)
		}
	}
	deep := bytes.Count(text, []byte{'['})+bytes.Count(text, []byte{'{'}) > MaxDepth
	switch valid := json.Valid(text); {
	case err == nil && !valid:
		t.Errorf("%q is accepted", text)
	case err != nil && valid && !replaced(text) && !deep:
		t.Errorf("%q is refused: %v", text, err)
	case err == nil:
		if want, _ := reference(text); !reflect.DeepEqual(got, want) &&
			!strings.Contains(string(text), "\\u") {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestTextsAreReadAsByEncodingJSON(t *testing.T) {
	for _, text := range texts {
		for i := range text {
			check(t, []byte(text[:i]))
		}
		check(t, []byte(text))
	}
	if _, err := (&Scanner{B: []byte(`"\ud83d\ude00\u00e4"`)}).Text(); err != nil {
		t.Error(err)
	}
}

func TestValuesAreFollowedOnlySoDeep(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		s := Scanner{B: []byte(strings.Repeat(open, 1_000_000))}
		if err := s.Skip(); err == nil || !strings.Contains(err.Error(), "too deep") {
			t.Error(err)
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(check)
}
