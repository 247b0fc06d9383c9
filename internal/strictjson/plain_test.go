package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestErrorsNameWhatWasWritten(t *testing.T) {
	type inner struct {
		Soft *float64 `json:"soft"`
		On   bool     `json:"on"`
	}
	type target struct {
		Users  int              `json:"users"`
		Seed   uint64           `json:"seed"`
		Name   string           `json:"name"`
		List   []string         `json:"list"`
		Blob   []byte           `json:"blob"`
		Inner  inner            `json:"inner"`
		ByName map[string]inner `json:"by_name"`
	}
	for text, want := range map[string]string{
		`{"users":"5"}`:                "users must be a whole number, not a text",
		`{"users":1.5}`:                "users must be a whole number, not 1.5",
		`{"seed":-1}`:                  "seed must be a whole number from 0, not -1",
		`{"name":7}`:                   "name must be a text, not a number",
		`{"blob":7}`:                   "blob must be a text, not a number",
		`{"list":"a"}`:                 "list must be a list, not a text",
		`{"list":{}}`:                  "list must be a list, not an object",
		`{"inner":[]}`:                 "inner must be an object, not an array",
		`{"inner":{"soft":true}}`:      "inner.soft must be a number, not a bool",
		`{"by_name":{"x":{"on":"1"}}}`: "by_name.on must be true or false, not a text",
		`[]`:                           "it must be an object, not an array",
		`{"speed":1}`:                  `there is no field "speed"`,
		`{"users":1`:                   "it ends before its JSON does",
		``:                             "it is empty",
		`{users}`: "not JSON: invalid character 'u' looking for beginning of object " +
			"key string at byte 2",
	} {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		err := d.Decode(new(target))
		if err == nil {
			t.Errorf("%s is read", text)
		} else if got := Plain(err).Error(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if err := json.Unmarshal([]byte(`{"users":1`), new(target)); Plain(err).Error() !=
		"it ends before its JSON does" {
		t.Errorf("what is cut off: %v", Plain(err))
	}
	if Plain(nil) != nil {
		t.Error("nothing is wrong, and it is an error")
	}
}
