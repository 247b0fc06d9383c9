package bandit

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"weir/internal/bandit/arms"
	"weir/internal/jsonscan"
)

// The reference for what the scanner reads: encoding/json, member by member.

// member is a member of an object.
type member struct {
	name  string
	value json.RawMessage
}

// object takes a JSON value apart that must be an object.
func object(raw []byte) (list []member, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, false
		}
		list = append(list, member{name.(string), value})
	}
	return list, true
}

// array takes a JSON value apart that must be an array.
func array(raw []byte) (list []json.RawMessage, ok bool) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, false
	}
	return list, json.Unmarshal(raw, &list) == nil
}

// unicode reports whether all text of a body is Unicode, the one thing in which the scanner is stricter:
// every escape of a surrogate must be one of a pair.
func unicode(body []byte) bool {
	if !utf8.Valid(body) {
		return false
	}
	escapes := regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`).ReplaceAllFunc(body, func(e []byte) []byte {
		switch {
		case len(e) == 6 && strings.ContainsRune("89abAB", rune(e[3])) && (e[2] == 'd' || e[2] == 'D'):
			return []byte("<high>")
		case len(e) == 6 && strings.ContainsRune("cdefCDEF", rune(e[3])) && (e[2] == 'd' || e[2] == 'D'):
			return []byte("<low>")
		}
		return []byte("?")
	})
	rest := bytes.ReplaceAll(escapes, []byte("<high><low>"), nil)
	return !bytes.Contains(rest, []byte("<high>")) && !bytes.Contains(rest, []byte("<low>"))
}

var whole = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// anID reads an id.
func anID(raw []byte) (text string, ok bool) {
	if raw[0] == '"' {
		err := json.Unmarshal(raw, &text)
		return text, err == nil && len(text) >= 1 && len(text) <= 255
	}
	return string(raw), whole.Match(raw) && len(raw) <= 255
}

func anOptionalID(raw []byte) (text []byte, ok bool) {
	if string(raw) == "null" {
		return nil, true
	}
	s, ok := anID(raw)
	return []byte(s), ok
}

// unsigned reads a whole number from least to most.
func unsigned(raw []byte, least, most uint64) (uint64, bool) {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	return n, err == nil && n >= least && n <= most
}

// aQuery is a query as the reference reads it.
type aQuery struct {
	user, segment []byte
	tokens, texts []string
	top           int
	seed          uint64
	seeded        bool
	explain       bool
}

// referenceQuery reads the body of POST /predict.
func referenceQuery(body []byte, maxItems int) (q aQuery, ok bool) {
	if !json.Valid(body) || !unicode(body) {
		return q, false
	}
	list, ok := object(body)
	if !ok {
		return q, false
	}
	seen := make(map[string]bool)
	for _, m := range list {
		if seen[m.name] {
			return q, false
		}
		seen[m.name] = true
		ok := false
		switch m.name {
		case "user":
			q.user, ok = anOptionalID(m.value)
		case "segment":
			q.segment, ok = anOptionalID(m.value)
		case "top":
			var n uint64
			n, ok = unsigned(m.value, 1, math.MaxInt32)
			q.top = int(n)
		case "seed":
			q.seed, ok = unsigned(m.value, 0, math.MaxUint64)
			q.seeded = true
		case "explain":
			ok = string(m.value) == "true" || string(m.value) == "false"
			q.explain = string(m.value) == "true"
		case "items":
			var items []json.RawMessage
			if items, ok = array(m.value); !ok || len(items) == 0 || len(items) > maxItems {
				return q, false
			}
			for _, i := range items {
				text, ok := anID(i)
				if !ok {
					return q, false
				}
				q.tokens, q.texts = append(q.tokens, string(i)), append(q.texts, text)
			}
		}
		if !ok {
			return q, false
		}
	}
	return q, seen["items"]
}

// sameText compares ids; nil is none.
func sameText(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// refusal returns what an error of the scanner is answered with, nil when that is not a refusal.
func refusal(err error) (bad *badRequest) {
	if malformed := (*jsonscan.SyntaxError)(nil); errors.As(err, &malformed) {
		return &badRequest{400, malformed.Error()}
	}
	errors.As(err, &bad)
	return bad
}

// checkRefusal checks an error of the scanner: a body that is JSON is not called anything else.
func checkRefusal(t *testing.T, body []byte, err error) {
	t.Helper()
	bad := refusal(err)
	if bad == nil || bad.detail == "" || bad.status != 400 && bad.status != 422 {
		t.Fatalf("%q: %#v is no refusal", body, err)
	}
	if !utf8.ValidString(bad.detail) {
		t.Errorf("%q: %q is no text", body, bad.detail)
	}
	if bad.status == 400 && json.Valid(body) && unicode(body) && !deep(body) {
		t.Errorf("%q is JSON: %v", body, err)
	}
}

// deep reports whether values are nested as far as the scanner does not follow.
func deep(body []byte) bool {
	return bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > jsonscan.MaxDepth
}

func checkQuery(t *testing.T, body []byte) {
	t.Helper()
	const maxItems = 5
	var s scanner
	var q query
	s.reset(body)
	err := parseQuery(&s, &q, maxItems)
	want, ok := referenceQuery(body, maxItems)
	if ok != (err == nil) {
		t.Fatalf("%q: %v, the reference accepts: %t", body, err, ok)
	}
	if err != nil {
		checkRefusal(t, body, err)
		return
	}
	if !sameText(q.user, want.user) || !sameText(q.segment, want.segment) || q.top != want.top ||
		q.seed != want.seed || q.seeded != want.seeded ||
		q.explain != want.explain || len(q.items) != len(want.texts) || len(q.keys) != len(want.texts) {
		t.Fatalf("%q: %+v, want %+v", body, q, want)
	}
	for i, item := range q.items {
		if string(item.token) != want.tokens[i] || string(item.text) != want.texts[i] ||
			q.keys[i] != arms.KeyOf([]byte(want.texts[i])) {
			t.Errorf("%q: item %d is %s, %q, %x, want %s, %q", body, i, item.token, item.text, q.keys[i],
				want.tokens[i], want.texts[i])
		}
	}
}

// predictBodies are bodies that are right, wrong, and nearly one or the other.
var predictBodies = []string{
	`{"user":"u1","items":["a","b",7]}`,
	`{"items":["0",0,"00","01","9",9,"9999999999999999999",9999999999999999999,"10000000000000000000","18446744073709551615","18446744073709551616","1","1a","1\u0030","1 "," 1",1 ,"12\"",-1,-0]}`,
	`{"items":["18446744073709551616",18446744073709551616]}`,
	`{"items":["18446744073709551615",10000000000000000000]}`, `{"items":["00","-1"]}`,
	`{"items":["1a","0"]}`,
	`{"items":[1.0]}`, `{"items":[1e3]}`, `{"items":[01]}`, `{"items":["1"2]}`, `{"items":[1`, `{"items":["1`,
	`{"items":["1"`, `{"items":[1]`, `{"items":[1}`, `{"items":[1"2"]}`, `{"items":[""]}`,
	` { "items" : [ 1 , 2 ] , "user" : 18446744073709551616 , "top" : 2 , "seed" : 18446744073709551615 , "explain" : true , "segment" : "s" } ` + "\r\n\t",
	`{"items":["a"],"user":null,"segment":null}`,
	`{"items":["a"],"user":""}`, `{"items":[""]}`, `{"items":["` + strings.Repeat("x", 255) + `"]}`,
	`{"items":["` + strings.Repeat("x", 256) + `"]}`,
	`{"items":["` + strings.Repeat("ä", 127) + `x"]}`, `{"items":["` + strings.Repeat(`\u00e4`, 128) + `"]}`,
	`{"items":[` + strings.Repeat("1", 255) + `]}`, `{"items":[` + strings.Repeat("1", 256) + `]}`,
	`{"items":[1,2,3,4,5]}`, `{"items":[1,2,3,4,5,6]}`, `{"items":[]}`, `{"items":{}}`, `{"items":null}`,
	`{"items":"a"}`, `{"items":7}`, `{}`, `[]`, `null`, ``, ` `,
	`{"items":[1.5]}`, `{"items":[1e3]}`, `{"items":[-7]}`, `{"items":[-0]}`, `{"items":[007]}`,
	`{"items":[0]}`, `{"items":[+1]}`, `{"items":[.5]}`, `{"items":[1.]}`,
	`{"items":[1e]}`, `{"items":[-]}`, `{"items":[true]}`, `{"items":[null]}`, `{"items":[[1]]}`,
	`{"items":[{}]}`, `{"items":[NaN]}`, `{"items":[Infinity]}`,
	`{"items":[1,]}`, `{"items":[,1]}`, `{"items":[1 2]}`, `{"items":[1]`, `{"items":[1`, `{"items":[`,
	`{"items":`, `{"items"`, `{"ite`, `{`, `{"items":[1]}}`, `{"items":[1]},`,
	`{"items":[1],}`, `{"items":[1] "user":1}`, `{items:[1]}`, `{'items':[1]}`, `{"items":['a']}`,
	`{"items":["a]}`, `{"items":["a\"]}`, "{\"items\":[\"a\n\"]}", "{\"items\":[\"a\x00\"]}",
	"{\"items\":[\"\x7f\"]}",
	`{"items":["\u0041\n\t\"\\\/\b\f\r"]}`, `{"items":["\x41"]}`, `{"items":["\u00"]}`,
	`{"items":["\u00zz"]}`, `{"items":["\ud83d\ude00"]}`, `{"items":["\ud83d"]}`, `{"items":["\ude00"]}`,
	`{"items":["\ud83d\ud83d\ude00"]}`, `{"items":["\ud83dx","\ufffd"]}`, `{"items":["\ud83d\ufffd"]}`,
	`{"items":["\\ud83d"]}`, `{"items":["\\\ud83d"]}`, `{"items":["\ufffd"]}`, "{\"items\":[\"\uFFFD\"]}",
	"{\"items\":[\"\xff\"]}", "{\"items\":[\"\\n\xff\"]}", "{\"items\":[\"\xed\xa0\x80\"]}", "{\"\xff\":1}",
	"{\"items\":[1]}\x00", "\ufeff{\"items\":[1]}", "{\"items\":[1]\x00}",
	`{"items":[1],"items":[2]}`, `{"items":[1],"user":null,"user":null}`,
	`{"items":[1],"segment":"a","segment":"a"}`, `{"top":1,"items":[1],"top":1}`,
	`{"items":[1],"seed":1,"seed":1}`, `{"explain":true,"explain":true,"items":[1]}`, `{"Items":[1]}`,
	`{"\u0069tems":[1]}`, `{"items":[1],"more":1}`, `{"items":[1],"":{"a":[1,{"b":"}"}]}}`,
	`{"items":[1],"top":0}`, `{"items":[1],"top":1}`, `{"items":[1],"top":2147483647}`,
	`{"items":[1],"top":2147483648}`, `{"items":[1],"top":-1}`, `{"items":[1],"top":1.0}`,
	`{"items":[1],"top":"1"}`, `{"items":[1],"top":null}`,
	`{"items":[1],"seed":0}`, `{"items":[1],"seed":-0}`, `{"items":[1],"seed":18446744073709551616}`,
	`{"items":[1],"seed":1e2}`, `{"items":[1],"seed":null}`, `{"items":[1],"seed":"x"}`,
	`{"items":[1],"explain":false}`, `{"items":[1],"explain":1}`, `{"items":[1],"explain":null}`,
	`{"items":[1],"explain":tru}`, `{"items":[1],"explain":truee}`, `{"items":[1],"explain":"true"}`,
	`{"user":{"a":1},"items":[1]}`, `{"user":[1],"items":[1]}`, `{"user":true,"items":[1]}`,
	`{"user":1.5,"items":[1]}`, `{"user":nul,"items":[1]}`,
	`{"items":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, `{"items":` +
		strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, strings.Repeat("[", 100_000),
	strings.Repeat(`{"a":`, 100_000),
}

func TestPredictBodiesAreReadAsByEncodingJSON(t *testing.T) {
	for _, body := range predictBodies {
		checkQuery(t, []byte(body))
		// And cut off anywhere, which must be refused as it is there.
		if len(body) < 300 {
			for i := range body {
				checkQuery(t, []byte(body[:i]))
			}
		}
	}
}

func FuzzPredictBody(f *testing.F) {
	for _, body := range predictBodies {
		if len(body) < 1000 {
			f.Add([]byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkQuery(t, body) })
}

// anEvent is an event as the reference reads it.
type anEvent struct {
	user, segment, id []byte
	item              string
	reward            float64
	at                int64
}

// referenceEvent reads one event.
func referenceEvent(raw []byte) (e anEvent, ok bool) {
	list, ok := object(raw)
	if !ok {
		return e, false
	}
	seen := make(map[string]bool)
	for _, m := range list {
		if seen[m.name] {
			return e, false
		}
		seen[m.name] = true
		ok := false
		switch m.name {
		case "user":
			e.user, ok = anOptionalID(m.value)
		case "segment":
			e.segment, ok = anOptionalID(m.value)
		case "id":
			e.id, ok = anOptionalID(m.value)
		case "item":
			e.item, ok = anID(m.value)
		case "reward":
			ok = json.Unmarshal(m.value, &e.reward) == nil && string(m.value) != "null" && e.reward >= 0 &&
				e.reward <= 1
		case "ts":
			var text string
			var seconds float64
			switch {
			case string(m.value) == "null":
				ok = true
			case json.Unmarshal(m.value, &text) == nil:
				var at time.Time
				err := at.UnmarshalText([]byte(text))
				ok = err == nil && at.Year() >= 1970
				e.at = max(1, at.UnixMicro())
			case json.Unmarshal(m.value, &seconds) == nil:
				ok = seconds >= 0 && seconds < 253402300800
				e.at = max(1, int64(math.Round(seconds*1e6)))
			}
		}
		if !ok {
			return e, false
		}
	}
	return e, seen["item"] && seen["reward"]
}

// referenceEvents reads the body of POST /events.
func referenceEvents(body []byte, most int) (list []anEvent, ok bool) {
	if !unicode(body) {
		return nil, false
	}
	var values []json.RawMessage
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if err != nil && err.Error() == "EOF" {
			break
		}
		if err != nil {
			return nil, false
		}
		values = append(values, raw)
	}
	if len(values) == 1 && values[0][0] == '[' {
		if values, ok = array(values[0]); !ok {
			return nil, false
		}
	} else if len(values) == 0 {
		return nil, false
	}
	for _, raw := range values {
		e, ok := referenceEvent(raw)
		if list = append(list, e); !ok || len(list) > most {
			return nil, false
		}
	}
	return list, true
}

func checkEvents(t *testing.T, body []byte) {
	t.Helper()
	const most = 3
	var s scanner
	s.reset(body)
	got, err := parseEvents(&s, nil, most)
	want, ok := referenceEvents(body, most)
	if ok != (err == nil) {
		t.Fatalf("%q: %v, the reference accepts: %t", body, err, ok)
	}
	if err != nil {
		checkRefusal(t, body, err)
		return
	}
	if !slices.EqualFunc(got, want, func(e event, w anEvent) bool {
		return sameText(e.user, w.user) && sameText(e.segment, w.segment) && sameText(e.id, w.id) &&
			string(e.item) == w.item && e.reward == w.reward && e.at == w.at
	}) {
		t.Fatalf("%q: %+v, want %+v", body, got, want)
	}
}

var eventBodies = []string{
	`{"user":"u1","item":"a","reward":1}`,
	`{"user":7,"item":8,"reward":0.25,"ts":1700000000.123456,"id":"e1","segment":"young"}`,
	`[{"item":"a","reward":0},{"item":"b","reward":1e-3,"ts":"2026-01-31T12:00:00Z"}]`,
	`[{"item":"a","reward":0},{"item":"b","reward":1},{"item":"c","reward":1}]`,
	`[{"item":"a","reward":0},{"item":"b","reward":1},{"item":"c","reward":1},{"item":"d","reward":1}]`,
	`{"item":"a","reward":1}` + "\n" + `{"item":"b","reward":1}` + "\n\n",
	`{"item":"a","reward":1}{"item":"b","reward":1}`,
	"{\"item\":\"a\",\n\"reward\":1}\r\n{\"item\":\"b\",\"reward\":1}",
	`{"item":"a","reward":1},{"item":"b","reward":1}`, `{"item":"a","reward":1} 7`,
	`[{"item":"a","reward":1}] {"item":"a","reward":1}`, `[{"item":"a","reward":1},]`, `[,]`, `[`, `[]`,
	`[[]]`, `[7]`, ``, ` `, "\x00", `null`, `7`, `"x"`, `{}`,
	`{"item":"a"}`, `{"reward":1}`, `{"item":null,"reward":1}`, `{"item":"","reward":1}`,
	`{"item":"a","reward":null}`, `{"item":"a","reward":"1"}`, `{"item":"a","reward":true}`,
	`{"item":"a","reward":NaN}`,
	`{"item":"a","reward":-0}`, `{"item":"a","reward":-0.0}`, `{"item":"a","reward":-1e-300}`,
	`{"item":"a","reward":1.0000000000000001}`, `{"item":"a","reward":1.1}`, `{"item":"a","reward":1e400}`,
	`{"item":"a","reward":1e-400}`, `{"item":"a","reward":01}`,
	`{"item":"a","reward":1,"reward":1}`, `{"item":"a","reward":1,"item":"a"}`,
	`{"id":"a","item":"a","reward":1,"id":"a"}`, `{"user":1,"item":"a","reward":1,"user":1}`,
	`{"ts":1,"item":"a","reward":1,"ts":1}`, `{"segment":1,"item":"a","reward":1,"segment":1}`,
	`{"item":"a","reward":1,"Reward":1}`, `{"item":"a","reward":1,"weight":1}`,
	`{"item":"a","reward":1,"user":null,"id":null,"segment":null,"ts":null}`,
	`{"item":"a","reward":1,"id":""}`, `{"item":"a","reward":1,"id":7}`, `{"item":"a","reward":1,"id":[7]}`,
	`{"item":"a","reward":1,"user":{}}`, `{"item":"a","reward":1,"segment":1.5}`,
	`{"item":"a","reward":1,"ts":0}`, `{"item":"a","reward":1,"ts":-1}`, `{"item":"a","reward":1,"ts":1e-9}`,
	`{"item":"a","reward":1,"ts":253402300799.9999999}`, `{"item":"a","reward":1,"ts":253402300800}`,
	`{"item":"a","reward":1,"ts":1700000000000}`, `{"item":"a","reward":1,"ts":1e999}`,
	`{"item":"a","reward":1,"ts":"yesterday"}`, `{"item":"a","reward":1,"ts":""}`,
	`{"item":"a","reward":1,"ts":"2026-01-31"}`, `{"item":"a","reward":1,"ts":"2026-01-31T12:00:00"}`,
	`{"item":"a","reward":1,"ts":"2026-01-31T12:00:00.123456789+05:30"}`,
	`{"item":"a","reward":1,"ts":"1969-12-31T23:59:59Z"}`,
	`{"item":"a","reward":1,"ts":"1970-01-01T00:00:00+14:00"}`,
	`{"item":"a","reward":1,"ts":"2026-02-30T12:00:00Z"}`,
	`{"item":"a","reward":1,"ts":"2026-01-31T12:00:00\u005a"}`, `{"item":"a","reward":1,"ts":true}`,
	`{"item":"a","reward":1,"ts":{}}`,
	`{"item":"\ud800","reward":1}`, "{\"item\":\"\xff\",\"reward\":1}", `{"item":"a","reward":1`,
	`{"item":"a","reward":`, `{"item":"a","reward":1}` + "\x00",
}

func TestEventBodiesAreReadAsByEncodingJSON(t *testing.T) {
	for _, body := range eventBodies {
		checkEvents(t, []byte(body))
		for i := range body {
			checkEvents(t, []byte(body[:i]))
		}
	}
}

func FuzzEventsBody(f *testing.F) {
	for _, body := range eventBodies {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkEvents(t, body) })
}

func TestWhatIsInlineIsFew(t *testing.T) {
	query := func(items int, id, more string) []byte {
		return []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat(id+",", items), ",") +
			`]` + more + `}`)
	}
	const all = `,"user":"u","segment":"s","top":3,"seed":7,"explain":true`
	for _, id := range []string{"7", `"a"`, `"` + strings.Repeat("x", 255) + `"`} {
		for _, more := range []string{"", all} {
			// All that ask for so few are said to; none that asks for many more.
			if body := query(inlineItems, id, more); !few(body, inlineItems) && len(id) < 200 {
				t.Errorf("%d items are not few: %.50s", inlineItems, body)
			}
			if body := query(inlineItems+membersBesides+1, id, more); few(body, inlineItems) {
				t.Errorf("%d items are few: %.50s", inlineItems+membersBesides+1, body)
			}
		}
	}
	if few([]byte(strings.Repeat(" ", inlineItems*(MaxID+3)+1)), inlineItems) {
		t.Error("a body that takes long to pass over is few")
	}
}
