package strictjson

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestABodyIsReadByTheExactNamesOfItsMembers(t *testing.T) {
	type limits struct {
		Soft *int `json:"soft"`
		On   bool `json:"on"`
	}
	type named struct {
		Position *int `json:"position"`
	}
	for _, c := range []struct {
		body string
		to   any
		want string // what the error says; empty for none
	}{
		{`{"position":1}`, new(named), ""},
		{` {"\u0070osition" : 1} `, new(named), ""},
		{`{"position":null}`, new(named), ""},
		{`{}`, new(named), ""},
		{`{"Position":1}`, new(named), `the body may have position, and not "Position"`},
		// U+017F folds to an s.
		{`{"po` + "\u017f" + `ition":1}`, new(named), `the body may have position, and not "po` +
			"\u017f" + `ition"`},
		{`{"position":1,"POSITION":"x"}`, new(named), `and not "POSITION"`},
		{`{"position":1,"position":2}`, new(named), "position must be there once"},
		{`{"position":1,"\u0070osition":1}`, new(named), "position must be there once"},
		{`{"position":"1"}`, new(named), "position must be a whole number, not a text"},
		{`{"position":1.5}`, new(named), "position must be a whole number, not 1.5"},
		{`7`, new(named), "it must be an object, not a number"},
		{`{"position":1} {}`, new(named), "after top-level value"},
		{`{"position":1`, new(named), "it ends before its JSON does"},
		{``, new(named), "it is empty"},
		{`{"a":{"soft":1,"on":true},"A":{"on":false}}`, new(map[string]limits), ""},
		{`{"a":{"soft":1,"Soft":2}}`, new(map[string]limits), `a may have soft and on, and not "Soft"`},
		{`{"a":{"on":true,"on":true}}`, new(map[string]limits), "a.on must be there once"},
		{`{"a":{},"b":{},"a":{}}`, new(map[string]limits), "a must be there once"},
		{`{"a":{"soft":"x"}}`, new(map[string]limits), "soft must be a whole number, not a text"},
	} {
		err := Read(strings.NewReader(c.body), c.to)
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.body, err, c.want)
		}
	}
	broken := errors.New("broken")
	if err := Read(iotest.ErrReader(broken), new(named)); !errors.Is(err, broken) {
		t.Errorf("a body that breaks off: %v", err)
	}
}
