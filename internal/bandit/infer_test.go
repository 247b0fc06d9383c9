package bandit

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/internal/bandit/arms"
	"weir/internal/server"
)

// Some clients write null for what they leave out.
func TestNullIsAbsentInTheProtocol(t *testing.T) {
	s := serve(t, open(t, t.TempDir()), server.Config{})
	ask := func(body string) string { return s.post("/v2/models/bandit/infer", body, nil) }
	plain := ask(
		`{"parameters":{"seed":1},"inputs":[{"name":"items","shape":[2],"datatype":"INT64","data":[1,2]}]}`)
	nulls := ask(
		`{"id":null,"parameters":{"seed":1,"binary_data_output":null},"outputs":null,"inputs":[{"name":"items","shape":[2],"datatype":"INT64",` +
			`"parameters":null,"data":[1,2]}]}`)
	if nulls != plain {
		t.Errorf("with nulls %s, without %s", nulls, plain)
	}
	ask(
		`{"outputs":[{"name":"scores","parameters":{"binary_data":null}}],"inputs":[{"name":"items","shape":[1],"datatype":"INT64",` +
			`"parameters":{"binary_data_size":null},"data":[1]}]}`)
	s.problem(s.do("POST", s.url+"/v2/models/bandit/infer", `{"inputs":null}`), 422,
		`inputs must have a tensor "items"`)
}

// Clients of the protocol look for the error of whatever they have asked, and fail to say what it is where
// it is not there.
func TestWhatIsNotOfTheProtocolIsRefusedInItsWords(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, open(t, t.TempDir()), kernel)
		for _, path := range []string{"/v2/", "/v2/models", "/v2/models//infer", "/v2/models/bandit/config",
			"/v2/repository/index"} {
			s.problem(s.do("GET", s.url+path, ""), 404, "there is nothing at this path")
		}
		s.problem(s.do("GET", s.url+"/v2/models/bandit/infer", ""), 405,
			"this path answers OPTIONS, POST, not GET")
		s.problem(s.do("POST", s.url+"/v2/models/bandit/infer", strings.Repeat(" ", maxBody+1)), 413,
			fmt.Sprintf("the body is longer than %d bytes", maxBody))
	})
}

// anInference is a request of the Open Inference Protocol as the reference reads it.
type anInference struct {
	items, user, segment []string
	seed                 uint64
	seeded, binary       bool
	top                  int
	id                   string
	outputs              [outputs]output
}

// aTensor is an input as the reference reads it.
type aTensor struct {
	datatype string
	size     uint64
	data     json.RawMessage
	raw      []byte
	rawSize  uint64
	isRaw    bool
}

// unique makes a map of an object; twice says that a name occurs twice, which JSON leaves open.
func unique(raw []byte) (m map[string]json.RawMessage, twice, ok bool) {
	list, ok := object(raw)
	m = make(map[string]json.RawMessage)
	for _, x := range list {
		_, there := m[x.name]
		twice = twice || there
		m[x.name] = x.value
	}
	return m, twice, ok
}

// referenceInference reads a request whose first length bytes are JSON. open means that the reference does
// not know either.
func referenceInference(body []byte, length, maxItems int) (r anInference, open, ok bool) {
	if length > len(body) {
		return r, false, false
	}
	head, raw := body[:length], body[length:]
	if !json.Valid(head) || !unicode(head) {
		return r, false, false
	}
	if deep(head) {
		return r, true, false
	}
	top, twice, ok := unique(head)
	if !ok {
		return r, false, false
	}
	open = twice
	if v, there := top["id"]; there && (v[0] != '"' || json.Unmarshal(v, &r.id) != nil) {
		return r, open, false
	}
	if v, there := top["parameters"]; there {
		m, twice, ok := unique(v)
		open = open || twice
		if !ok {
			return r, open, false
		}
		if seed, there := m["seed"]; there {
			if r.seed, r.seeded = unsigned(seed, 0, math.MaxUint64); !r.seeded {
				return r, open, false
			}
		}
		if top, there := m["top"]; there {
			n, ok := unsigned(top, 1, math.MaxInt32)
			if r.top = int(n); !ok {
				return r, open, false
			}
		}
		if v, there := m["binary_data_output"]; there {
			if string(v) != "true" && string(v) != "false" {
				return r, open, false
			}
			r.binary = string(v) == "true"
		}
	}
	if v, there := top["outputs"]; there {
		list, ok := array(v)
		if !ok {
			return r, open, false
		}
		for _, raw := range list {
			m, twice, ok := unique(raw)
			open = open || twice
			var name string
			if !ok || json.Unmarshal(m["name"], &name) != nil || name != "scores" && name != "items" {
				return r, open, false
			}
			o := output{asked: true}
			if v, there := m["parameters"]; there {
				m, twice, ok := unique(v)
				open = open || twice
				if !ok {
					return r, open, false
				}
				if v, there := m["binary_data"]; there {
					if string(v) != "true" && string(v) != "false" {
						return r, open, false
					}
					o.said, o.binary = true, string(v) == "true"
				}
				if v, there := m["classification"]; there {
					n, ok := unsigned(v, 0, math.MaxInt32)
					if o.classes = int(n); !ok || n > 0 && name == "items" {
						return r, open, false
					}
				}
			}
			r.outputs[slices.Index(outputNames[:], name)] = o
		}
	}
	tensors := make(map[string]aTensor)
	if v, there := top["inputs"]; there {
		list, ok := array(v)
		if !ok {
			return r, open, false
		}
		for _, v := range list {
			name, t, twice, ok := referenceTensor(v)
			open = open || twice
			if _, there := tensors[name]; !ok || there {
				return r, open, false
			}
			if t.isRaw {
				if t.rawSize > uint64(len(raw)) {
					return r, open, false
				}
				t.raw, raw = raw[:t.rawSize], raw[t.rawSize:]
			}
			tensors[name] = t
		}
	}
	if len(raw) > 0 {
		return r, open, false
	}
	for name, to := range map[string]*[]string{"items": &r.items, "user": &r.user, "segment": &r.segment} {
		t, there := tensors[name]
		if !there && name != "items" {
			continue
		}
		most := uint64(1)
		if name == "items" {
			most = uint64(maxItems)
		}
		if !there || t.size < 1 || t.size > most {
			return r, open, false
		}
		if *to, ok = t.elements(); !ok || uint64(len(*to)) != t.size {
			return r, open, false
		}
	}
	return r, open, true
}

func referenceTensor(v []byte) (name string, t aTensor, open, ok bool) {
	m, open, ok := unique(v)
	if !ok || json.Unmarshal(m["name"], &name) != nil ||
		!slices.Contains([]string{"items", "user", "segment"}, name) ||
		json.Unmarshal(m["datatype"], &t.datatype) != nil ||
		!slices.Contains([]string{"BYTES", "INT64", "UINT64", "INT32", "UINT32"}, t.datatype) {
		return name, t, open, false
	}
	shape, ok := array(m["shape"])
	if !ok || len(shape) == 0 {
		return name, t, open, false
	}
	t.size = 1
	for _, v := range shape {
		n, ok := unsigned(v, 0, math.MaxInt32)
		if t.size *= n; !ok || t.size > math.MaxInt32 {
			return name, t, open, false
		}
	}
	t.data = m["data"]
	if v, there := m["parameters"]; there {
		m, twice, ok := unique(v)
		open = open || twice
		if !ok {
			return name, t, open, false
		}
		if v, there := m["binary_data_size"]; there {
			t.isRaw = true
			if t.rawSize, ok = unsigned(v, 0, math.MaxInt64); !ok {
				return name, t, open, false
			}
		}
	}
	return name, t, open, t.isRaw == (t.data == nil)
}

// elements returns the ids of a tensor as text.
func (t *aTensor) elements() (list []string, ok bool) {
	if !t.isRaw {
		return t.nested(t.data, 0)
	}
	raw := t.raw
	for len(raw) > 0 {
		switch t.datatype {
		case "BYTES":
			if len(raw) < 4 || uint64(binary.LittleEndian.Uint32(raw)) > uint64(len(raw)-4) {
				return nil, false
			}
			n := 4 + binary.LittleEndian.Uint32(raw)
			if n == 4 || n > 4+255 || !utf8.Valid(raw[4:n]) {
				return nil, false
			}
			list, raw = append(list, string(raw[4:n])), raw[n:]
			continue
		case "INT64", "UINT64":
			if len(raw) < 8 {
				return nil, false
			}
			v := binary.LittleEndian.Uint64(raw)
			if raw = raw[8:]; t.datatype == "INT64" {
				list = append(list, strconv.FormatInt(int64(v), 10))
				continue
			}
			list = append(list, strconv.FormatUint(v, 10))
		default:
			if len(raw) < 4 {
				return nil, false
			}
			v := binary.LittleEndian.Uint32(raw)
			if raw = raw[4:]; t.datatype == "INT32" {
				list = append(list, strconv.Itoa(int(int32(v))))
				continue
			}
			list = append(list, strconv.FormatUint(uint64(v), 10))
		}
	}
	return list, true
}

func (t *aTensor) nested(v json.RawMessage, depth int) (list []string, ok bool) {
	values, ok := array(v)
	if !ok || depth > 8 {
		return nil, false
	}
	for _, v := range values {
		if v[0] == '[' {
			inner, ok := t.nested(v, depth+1)
			if list = append(list, inner...); !ok {
				return nil, false
			}
			continue
		}
		text, ok := anID(v)
		if !ok || (v[0] == '"') != (t.datatype == "BYTES") {
			return nil, false
		}
		into := map[string]any{"INT64": new(int64), "UINT64": new(uint64), "INT32": new(int32),
			"UINT32": new(uint32)}[t.datatype]
		if into != nil && text != "-0" && json.Unmarshal(v, into) != nil {
			return nil, false
		}
		list = append(list, text)
	}
	return list, true
}

// parser is a bandit that only reads.
func parser(maxItems int) *Bandit {
	cfg := Defaults()
	cfg.MaxItems = maxItems
	b := &Bandit{cfg: cfg}
	b.live.Store(&cfg)
	return b
}

func checkInference(t *testing.T, body []byte, length int) {
	t.Helper()
	const maxItems = 6
	b := parser(maxItems)
	want, open, ok := referenceInference(body, length, maxItems)
	var header []byte
	if length != len(body) {
		header = strconv.AppendInt(nil, int64(length), 10)
	}
	for _, texts := range []bool{false, true} {
		var sc scratch
		head, raw, err := splitInference(header, bytes.Clone(body))
		if err == nil {
			err = b.parseInference(&sc, head, raw, texts, maxItems)
		}
		if err != nil {
			if bad := refusal(err); bad == nil || bad.status != 400 && bad.status != 422 || bad.detail == "" {
				t.Fatalf("%q: %#v is no refusal", body, err)
			}
		}
		if open {
			continue
		}
		if ok != (err == nil) {
			t.Fatalf("%q, %d: %v, the reference accepts: %t", body, length, err, ok)
		}
		if err != nil {
			continue
		}
		q, in := &sc.query, &sc.inference
		one := func(what string, got []byte, want []string) {
			if (got != nil) != (want != nil) || got != nil && string(got) != want[0] {
				t.Errorf("%q: %s is %q, want %q", body, what, got, want)
			}
		}
		one("user", q.user, want.user)
		one("segment", q.segment, want.segment)
		if q.seed != want.seed || q.seeded != want.seeded || in.binary != want.binary ||
			in.outputs != want.outputs || q.top != want.top || len(q.keys) != len(want.items) {
			t.Fatalf("%q: %+v %+v, want %+v", body, q, in, want)
		}
		for i, text := range want.items {
			if q.keys[i] != arms.KeyOf([]byte(text)) || texts && string(q.items[i].text) != text {
				t.Errorf("%q: item %d is %x, want %q", body, i, q.keys[i], text)
			}
		}
	}
}

// request puts JSON and binary data together.
type inferBody struct{ head, raw string }

func bytesElements(texts ...string) string {
	var b []byte
	for _, s := range texts {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return string(b)
}

func words64(values ...uint64) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return string(b)
}

func words32(values ...uint32) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return string(b)
}

// input is the JSON of a tensor whose data are binary.
func input(name, datatype string, shape string, size int) string {
	return fmt.Sprintf(`{"name":%q,"shape":%s,"datatype":%q,"parameters":{"binary_data_size":%d}}`, name,
		shape, datatype, size)
}

var inferBodies = []inferBody{
	{`{"inputs":[{"name":"items","shape":[2],"datatype":"BYTES","data":["a","b"]}]}`, ""},
	{`{"id":"x\"\u0041","inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["u"]},{"name":"items","shape":[1,3],"datatype":"INT64","data":[[7,-8,9223372036854775807]]},
	  {"name":"segment","shape":[1,1],"datatype":"UINT64","data":[[18446744073709551615]]}],"outputs":[{"name":"scores","parameters":{"binary_data":true}}],"parameters":{"seed":5,"binary_data_output":false}}`, ""},
	{`{"inputs":[` + input("items", "BYTES", "[2]", 12) + `]}`, bytesElements("ab", "cd")},
	{`{"inputs":[` + input("user", "BYTES", "[1]", 5) + `,` + input("items", "INT64", "[3]", 24) + `,` +
		input("segment", "INT32", "[1]", 4) + `]}`, bytesElements("u") + words64(7, math.MaxUint64, 1<<63) +
		words32(math.MaxUint32)},
	{`{"inputs":[` + input("items", "UINT64", "[2]", 16) + `,` + input("user", "UINT32", "[1]", 4) +
		`],"parameters":{"binary_data_output":true}}`, words64(math.MaxUint64, 0) + words32(math.MaxUint32)},
	{`{"inputs":[` + input("items", "INT32", "[1,2]", 8) +
		`,{"name":"user","shape":[1],"datatype":"BYTES","data":["u"]}]}`, words32(5, 1<<31)},
	{`{"inputs":[` + input("items", "UINT32", "[6]", 24) + `]}`, words32(1, 2, 3, 4, 5, 6)},
	{`{"inputs":[` + input("items", "UINT32", "[7]", 28) + `]}`, words32(1, 2, 3, 4, 5, 6, 7)},
	{`{"inputs":[` + input("items", "INT32", "[2]", 8) +
		`],"parameters":{"top":1},"outputs":[{"name":"scores","parameters":{"classification":2}},{"name":"items","parameters":{"binary_data":true}}]}`, words32(5, 1<<31)},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}],"parameters":{"top":0}}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"items","parameters":{"classification":1}}]}`, ""},
	// Shapes and sizes that lie.
	{`{"inputs":[` + input("items", "UINT32", "[3]", 8) + `]}`, words32(1, 2)},
	{`{"inputs":[` + input("items", "UINT32", "[1]", 8) + `]}`, words32(1, 2)},
	{`{"inputs":[` + input("items", "UINT32", "[2]", 12) + `]}`, words32(1, 2)},
	{`{"inputs":[` + input("items", "UINT32", "[2]", 4) + `]}`, words32(1, 2)},
	{`{"inputs":[` + input("items", "UINT32", "[2]", 7) + `]}`, words32(1, 2)[:7]},
	{`{"inputs":[` + input("items", "BYTES", "[2]", 5) + `]}`, bytesElements("a")},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 10) + `]}`, bytesElements("a", "b")},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 4) + `]}`, bytesElements("")},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 260) + `]}`, bytesElements(strings.Repeat("x", 256))},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 259) + `]}`, bytesElements(strings.Repeat("x", 255))},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 3) + `]}`, "\x01\x00\x00"},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 5) + `]}`, "\xff\xff\xff\xff\x00"},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 7) + `]}`, bytesElements("\xff\xfe\x00")},
	{`{"inputs":[` + input("items", "BYTES", "[0]", 0) + `]}`, ""},
	{`{"inputs":[` + input("items", "BYTES", "[2147483647]", 5) + `]}`, bytesElements("a")},
	{`{"inputs":[` + input("items", "BYTES", "[2147483648]", 5) + `]}`, bytesElements("a")},
	{`{"inputs":[` + input("items", "BYTES", "[65536,65536]", 5) + `]}`, bytesElements("a")},
	{`{"inputs":[` + input("items", "BYTES", "[-1]", 5) + `]}`, bytesElements("a")},
	{`{"inputs":[` + input("items", "BYTES", "[]", 5) + `]}`, bytesElements("a")},
	{`{"inputs":[` + input("items", "BYTES", `["1"]`, 5) + `]}`, bytesElements("a")},
	{`{"inputs":[` + input("items", "BYTES", `1`, 5) + `]}`, bytesElements("a")},
	{`{"inputs":[` + input("user", "BYTES", "[2]", 10) + `,` + input("items", "BYTES", "[1]", 5) + `]}`,
		bytesElements("a", "b", "c")},
	{`{"inputs":[{"name":"items","shape":[2],"datatype":"BYTES","data":["a"]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a","b"]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[2],"datatype":"BYTES","data":[["a"],[["b"]]]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":[7]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":["7"]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":[7.0]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":[9223372036854775807]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":[9223372036854775808]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":[-9223372036854775808]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":[-9223372036854775809]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":[99999999999999999999999]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64","data":[-0]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"UINT64","data":[18446744073709551615]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"UINT64","data":[18446744073709551616]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"UINT64","data":[-1]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT32","data":[2147483647]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT32","data":[2147483648]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT32","data":[-2147483648]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT32","data":[-2147483649]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"UINT32","data":[4294967295]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"UINT32","data":[4294967296]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"UINT32","data":[-5]}]}`, ""},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 6) + `]}`, bytesElements("\xc3\xa4")},
	{`{"inputs":[` + input("items", "BYTES", "[1]", 5) + `]}`, bytesElements("\xff")},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"FP32","data":[7]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"bytes","data":["7"]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":7,"data":["7"]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"data":["7"]}]}`, ""},
	{`{"inputs":[{"name":"items","datatype":"BYTES","data":["7"]}]}`, ""},
	{`{"inputs":[{"shape":[1],"datatype":"BYTES","data":["7"]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES"}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"],"parameters":{"binary_data_size":5}}]}`, bytesElements("a")}, {`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":"a"}]}`, ""}, {`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":null}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"],"more":{"x":[1]},"parameters":{"more":1}}],"more":[{}],"parameters":{"sequence_id":7,"priority":0}}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]},{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`, ""}, {`{"inputs":[{"name":"age","shape":[1],"datatype":"BYTES","data":["a"]}]}`, ""},
	{`{"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","data":["a"]}]}`, ""}, {`{"inputs":[]}`, ""},
	{`{"inputs":{}}`, ""}, {`{"inputs":null}`, ""}, {`{"inputs":[7]}`, ""}, {`{}`, ""}, {`[]`, ""}, {``, ""},
	{`{"inputs":`, ""},
	{`{"id":7,"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}],"parameters":{"seed":-1}}`,
		""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}],"parameters":{"binary_data_output":1}}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"classes"}]}`, ""}, {`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{}]}`, ""}, {`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"scores","parameters":{"binary_data":"yes"}}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`, "x"},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":[` + strings.Repeat("[", 9) + `"a"` +
		strings.Repeat("]", 9) + `]}]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":` + strings.Repeat("[", 9) + `"a"` +
		strings.Repeat("]", 9) + `}]}`, ""}, {`{"inputs":[` + input("items", "BYTES", "[1]", -1) + `]}`, ""},
	{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":9223372036854775807}}]}`, "x"},
}

func TestInferencesAreReadAsByEncodingJSON(t *testing.T) {
	for _, b := range inferBodies {
		checkInference(t, []byte(b.head+b.raw), len(b.head))
		for i := range b.head {
			checkInference(t, []byte(b.head[:i]), i)
			checkInference(t, []byte(b.head+b.raw), i)
		}
		for i := range b.raw {
			checkInference(t, []byte(b.head+b.raw[:i]), len(b.head))
		}
	}
}

func FuzzInfer(f *testing.F) {
	for _, b := range inferBodies {
		f.Add([]byte(b.head+b.raw), len(b.head))
	}
	f.Fuzz(func(t *testing.T, body []byte, length int) {
		if length < 0 || length > len(body)+5 {
			length = len(body)
		}
		checkInference(t, body, length)
	})
}

// inferred is the JSON of an answer of the protocol.
type inferred struct {
	ID           *string `json:"id"`
	ModelName    string  `json:"model_name"`
	ModelVersion string  `json:"model_version"`
	Outputs      []struct {
		Name, Datatype string
		Shape          []int
		Data           []float64
		Parameters     map[string]int
	}
}

// infer sends a request that must be answered, and returns the scores.
func (s *served) infer(b inferBody, path string) (inferred, []float64) {
	s.t.Helper()
	var fields []string
	if b.raw != "" {
		fields = []string{"Inference-Header-Content-Length", strconv.Itoa(len(b.head)), "Content-Type",
			"application/octet-stream"}
	}
	a := s.do("POST", s.url+path, b.head+b.raw, fields...)
	if a.status != 200 || a.header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("%.200q: %d %v %.300s", b.head, a.status, a.header, a.body)
	}
	head, raw := a.body, ""
	if n := a.header.Get("Inference-Header-Content-Length"); n != "" {
		at, err := strconv.Atoi(n)
		if err != nil || at > len(a.body) || a.header.Get("Content-Type") != "application/octet-stream" {
			s.t.Fatalf("%v of %d bytes", a.header, len(a.body))
		}
		head, raw = a.body[:at], a.body[at:]
	}
	var got inferred
	d := json.NewDecoder(strings.NewReader(head))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil || len(got.Outputs) != 1 || got.ModelVersion != "1" {
		s.t.Fatalf("%s: %v", head, err)
	}
	o := got.Outputs[0]
	scores := o.Data
	if raw != "" {
		for at := 0; at < len(raw); at += 8 {
			scores = append(scores, math.Float64frombits(binary.LittleEndian.Uint64([]byte(raw[at:]))))
		}
		if o.Data != nil || o.Parameters["binary_data_size"] != len(raw) {
			s.t.Errorf("%s says little of %d bytes", head, len(raw))
		}
	}
	if o.Name != "scores" || o.Datatype != "FP64" || len(o.Shape) != 1 || o.Shape[0] != len(scores) {
		s.t.Errorf("%s with %d scores", head, len(scores))
	}
	return got, scores
}

func TestTheInferenceProtocolGivesTheScoresOfPredict(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		path := dir + "/arms.weir"
		writeArms(t, path, []arm{{item: "7", alpha: 3, beta: 4}, {item: "-8", alpha: 30, beta: 4},
			{item: "18446744073709551615", alpha: 3, beta: 40},
			{user: "5", item: "7", alpha: 300, beta: 400}, {segment: "young", item: "-8", alpha: 1, beta: 2},
			{item: "a", alpha: 9, beta: 9}}, "u", "young")
		s := serve(t, open(t, dir, func(c *Config) { c.Arms, c.Model = path, "picks" }), kernel)
		const infer = "/v2/models/picks/infer"
		many := make([]uint64, 300)
		for i := range many {
			many[i] = uint64(i)
		}
		for _, c := range []struct {
			query string // of POST /predict
			body  inferBody
		}{
			{`{"items":["a","7"],"seed":5}`,
				inferBody{`{"inputs":[{"name":"items","shape":[2],"datatype":"BYTES","data":["a","7"]}],"parameters":{"seed":5}}`, ""}},
			{`{"user":5,"items":[7,-8],"seed":6}`,
				inferBody{`{"inputs":[{"name":"user","shape":[1],"datatype":"INT64","data":[5]},{"name":"items","shape":[2,1],"datatype":"INT64","data":[[7],[-8]]}],"parameters":{"seed":6}}`, ""}},
			{`{"user":"u","items":[7,-8],"seed":7}`,
				inferBody{`{"inputs":[` + input("items", "INT32", "[2]", 8) + `,` +
					input("user", "BYTES", "[1]", 5) + `],"parameters":{"seed":7}}`, words32(7, 1<<32-8) +
					bytesElements("u")}},
			{`{"segment":"young","items":[7,-8],"seed":8}`,
				inferBody{`{"inputs":[` + input("items", "INT64", "[2]", 16) + `,` +
					input("segment", "BYTES", "[1]", 9) + `],"parameters":{"seed":8}}`, words64(7, 1<<64-8) +
					bytesElements("young")}},
			{`{"items":[18446744073709551615,1],"seed":9}`,
				inferBody{`{"inputs":[` + input("items", "UINT64", "[2]", 16) + `],"parameters":{"seed":9}}`,
					words64(math.MaxUint64, 1)}},
			{`{"items":[7,4294967295],"seed":10}`,
				inferBody{`{"inputs":[` + input("items", "UINT32", "[2]", 8) + `],"parameters":{"seed":10}}`,
					words32(7, math.MaxUint32)}},
			{`{"items":["a","b"],"seed":11}`, inferBody{`{"inputs":[` + input("items", "BYTES", "[2]", 10) +
				`],"parameters":{"seed":11}}`, bytesElements("a", "b")}},
			{`{"items":[` + strings.TrimSuffix(strings.ReplaceAll(fmt.Sprint(many), " ", ","), "]")[1:] +
				`],"seed":12}`,
				inferBody{`{"inputs":[` + input("items", "UINT64", "[300]", 2400) +
					`],"parameters":{"seed":12}}`, words64(many...)}},
		} {
			var want prediction
			s.post("/predict", c.query, &want)
			_, got := s.infer(c.body, infer)
			_, versioned := s.infer(c.body, "/v2/models/picks/versions/1/infer")
			binary := c.body
			binary.head = strings.Replace(binary.head, `"seed"`, `"binary_data_output":true,"seed"`, 1)
			_, exact := s.infer(binary, infer)
			asked := c.body
			asked.head = asked.head[:len(asked.head)-1] +
				`,"outputs":[{"name":"scores","parameters":{"binary_data":true}}]}`
			_, outputs := s.infer(asked, infer)
			if !slices.Equal(got, exact) || !slices.Equal(got, versioned) || !slices.Equal(got, outputs) ||
				len(got) != len(want.Scores) {
				t.Fatalf("%.100s: %v, as binary data %v", c.query, got, exact)
			}
			for i, x := range got {
				if math.Abs(x-want.Scores[i]) > 5.01e-9*x {
					t.Errorf("%.100s: item %d has %v, by /predict %v", c.query, i, x, want.Scores[i])
				}
			}
		}
		got, _ := s.infer(
			inferBody{`{"id":"a \"b\" \u00e4","inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`, ""}, infer)
		if got.ID == nil || *got.ID != `a "b" ä` || got.ModelName != "picks" {
			t.Errorf("%+v", got)
		}
		if got, _ := s.infer(
			inferBody{`{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`, ""},
			infer); got.ID != nil {
			t.Errorf("an id that nobody gave: %q", *got.ID)
		}
	})
}

// outputsOf are the outputs of an answer, as JSON, and the elements of those that are binary.
func (s *served) outputsOf(body inferBody) map[string]string {
	s.t.Helper()
	var fields []string
	if body.raw != "" {
		fields = []string{headerLength, strconv.Itoa(len(body.head))}
	}
	a := s.do(http.MethodPost, s.url+"/v2/models/bandit/infer", body.head+body.raw, fields...)
	head, raw, err := splitInference([]byte(a.header.Get(headerLength)), []byte(a.body))
	if a.header.Get(headerLength) == "" {
		head, raw, err = []byte(a.body), nil, nil
	}
	var got struct {
		Outputs []struct {
			Name, Datatype string
			Shape          []int
			Data           json.RawMessage
			Parameters     struct {
				Size *int `json:"binary_data_size"`
			}
		}
	}
	if e := json.Unmarshal(head, &got); a.status != 200 || err != nil || e != nil {
		s.t.Fatalf("%s: %d %s, %v %v", body.head, a.status, a.body, err, e)
	}
	all := make(map[string]string)
	for _, o := range got.Outputs {
		data := string(o.Data)
		if o.Parameters.Size != nil {
			data, raw = strconv.Quote(string(raw[:*o.Parameters.Size])), raw[*o.Parameters.Size:]
		}
		all[o.Name] = fmt.Sprint(o.Datatype, o.Shape, data)
	}
	if len(raw) > 0 {
		s.t.Errorf("%s: %d bytes of the answer are no output's", body.head, len(raw))
	}
	return all
}

// Posteriors so narrow that their samples are in the order of their means.
func TestTheBestAreGivenAsClientsOfTheProtocolAskForThem(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		dir := t.TempDir()
		writeArms(t, dir+"/arms.weir", []arm{{item: "7", alpha: 1e8, beta: 3e8},
			{item: "-8", alpha: 3e8, beta: 1e8},
			{item: "9", alpha: 1e8, beta: 1e8}, {item: `a:"b"`, alpha: 1e8, beta: 1e8}})
		s := serve(t, open(t, dir, func(c *Config) { c.Arms = dir + "/arms.weir" }), kernel)
		check := func(body inferBody, want map[string]string) {
			t.Helper()
			got := s.outputsOf(body)
			for name := range want {
				if pattern := regexp.MustCompile("^" + want[name] + "$"); !pattern.MatchString(got[name]) {
					t.Errorf("%s: %s is %q, want %q", body.head, name, got[name], want[name])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s: outputs %v, want %v", body.head, got, want)
			}
		}
		quoted := func(s string) string { return regexp.QuoteMeta(strconv.Quote(s)) }
		const near = `0\.\d*`
		ints := `{"name":"items","shape":[3],"datatype":"INT32","data":[7,-8,9]}`
		text := `{"name":"items","shape":[2],"datatype":"BYTES","data":["7","a:\"\u0062\""]}`
		raw := input("items", "INT64", "[3]", 24)
		bytes := words64(7, 1<<64-8, 9)
		for _, c := range []struct {
			inputs, rest string
			raw          string
			want         map[string]string
		}{
			{ints, `"parameters":{"top":2}`, "",
				map[string]string{"scores": `FP64\[2\]\[0\.7\d*,0\.(5|49)\d*\]`,
					"items": `INT32\[2\]\[-8,9\]`}},
			{ints, `"parameters":{"top":9},"outputs":[{"name":"items"}]`, "",
				map[string]string{"items": `INT32\[3\]\[-8,9,7\]`}},
			{ints, `"outputs":[{"name":"items"}]`, "", map[string]string{"items": `INT32\[3\]\[7,-8,9\]`}},
			{text, `"parameters":{"top":1}`, "", map[string]string{"scores": `FP64\[1\]\[` + near + `\]`,
				"items": `BYTES\[1\]\["a:\\"b\\""\]`}},
			{text, `"parameters":{"top":1,"binary_data_output":true},"outputs":[{"name":"items"}]`, "",
				map[string]string{"items": `BYTES\[1\]` + quoted(bytesElements(`a:"b"`))}},
			{raw, `"parameters":{"top":1,"binary_data_output":true},"outputs":[{"name":"items"}]`, bytes,
				map[string]string{"items": `INT64\[1\]` + quoted(words64(1<<64-8))}},
			{ints, `"outputs":[{"name":"scores","parameters":{"classification":2}}]`, "",
				map[string]string{"scores": `BYTES\[2\]\["0\.7\d*:1:-8","0\.(5|49)\d*:2:9"\]`}},
			{raw, `"outputs":[{"name":"scores","parameters":{"classification":9}}]`, bytes,
				map[string]string{"scores": `BYTES\[3\]\["` + near + `:1:-8","` + near + `:2:9","` + near +
					`:0:7"\]`}},
			{text, `"outputs":[{"name":"scores","parameters":{"classification":1,"binary_data":true}}]`, "",
				map[string]string{"scores": `BYTES\[1\]"\\x13\\x00\\x00\\x00` + near + `:1:a:\\"b\\""`}},
			{ints,
				`"parameters":{"top":2},"outputs":[{"name":"scores","parameters":{"classification":1}},{"name":"items"}]`, "",
				map[string]string{"scores": `BYTES\[1\]\["0\.7\d*:0:-8"\]`, "items": `INT32\[2\]\[-8,9\]`}},
		} {
			check(inferBody{`{"inputs":[` + c.inputs + `],` + c.rest + `}`, c.raw}, c.want)
		}
	})
}

func TestTheInferenceProtocolTellsOfItself(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		s := serve(t, open(t, t.TempDir(), func(c *Config) { c.Model = `a "model"` }), kernel)
		for path, want := range map[string]string{
			"/v2":             `{"name":"weir","version":"2","extensions":["binary_tensor_data","classification","parameters"]}`,
			"/v2/health/live": `{"live":true}`, "/v2/health/ready": `{"ready":true}`,
			"/v2/models/a%20%22model%22/ready":            `{"ready":true}`,
			"/v2/models/a%20%22model%22/versions/1/ready": `{"ready":true}`,
			"/v2/models/a%20%22model%22": `{"name":"a \"model\"","versions":["1"],"platform":"weir","inputs":[{"name":"items","datatype":"BYTES","shape":[-1]},` +
				`{"name":"user","datatype":"BYTES","shape":[1]},{"name":"segment","datatype":"BYTES","shape":[1]}],"outputs":[{"name":"scores","datatype":"FP64","shape":[-1]},{"name":"items","datatype":"BYTES","shape":[-1]}]}`,
		} {
			if a := s.do("GET", s.url+path, ""); a.status != 200 || a.body != want ||
				a.header.Get("Content-Type") != "application/json" {
				t.Errorf("GET %s: %d %s, want %s", path, a.status, a.body, want)
			}
		}
		wrong := func(method, path, body string, status int, says ...string) {
			t.Helper()
			a := s.do(method, s.url+path, body)
			s.problem(a, status, says...)
			var e struct{ Error, Detail string }
			if err := json.Unmarshal([]byte(a.body), &e); err != nil || e.Error == "" || e.Error != e.Detail {
				t.Errorf("%s %s: %s has no error as the protocol wants it: %v", method, path, a.body, err)
			}
		}
		const items = `{"inputs":[{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}]}`
		wrong("GET", "/v2/models/other", "", 404,
			`there is no model "other", only "a \"model\"" (--bandit-model)`)
		wrong("GET", "/v2/models/other/ready", "", 404, `no model "other"`)
		wrong("GET", "/v2/models/a%20%22model%22/versions/2", "", 404, `no version "2", only 1`)
		wrong("GET", "/v2/models/a%20%22model%22/versions/2/ready", "", 404, `no version "2"`)
		wrong("POST", "/v2/models/other/infer", items, 404, `no model "other"`)
		wrong("POST", "/v2/models/other/infer", strings.Repeat(" ", inferInline)+items, 404,
			`no model "other"`)
		wrong("POST", "/v2/models/a%20%22model%22/versions/x/infer", items, 404, `no version "x"`)
		const infer = "/v2/models/a%20%22model%22/infer"
		wrong("POST", infer, "{", 400, "the body is not JSON")
		wrong("POST", infer, `{"inputs":[{"name":"items","shape":[2],"datatype":"BYTES","data":["a"]}]}`, 422,
			"items must be a tensor of as many elements as its shape says, 2")
		s.model.Store(nil)
		wrong("GET", "/v2/health/ready", "", 503, "the arms are being loaded")
		wrong("GET", "/v2/models/a%20%22model%22/ready", "", 503, "the arms are being loaded")
		wrong("POST", infer, items, 503, "the arms are being loaded")
		if a := s.do("GET", s.url+"/v2/health/live", ""); a.status != 200 {
			t.Errorf("while the arms are loaded it is not alive: %d", a.status)
		}
	})
}

func TestBadInferencesNameTheField(t *testing.T) {
	s := serve(t, open(t, t.TempDir(), func(c *Config) { c.MaxItems = 3 }), server.Config{})
	const good = `{"name":"items","shape":[1],"datatype":"BYTES","data":["a"]}`
	for _, c := range []struct {
		body   inferBody
		length string
		status int
		says   string
	}{
		{inferBody{``, ""}, "", 400, "the body is not JSON: it ends too early at byte 0"},
		{inferBody{`[]`, ""}, "", 422, "the body must be an object"},
		{inferBody{`{}`, ""}, "", 422, `inputs must have a tensor "items"`},
		{inferBody{`{"inputs":7}`, ""}, "", 422, "inputs must be an array of tensors"},
		{inferBody{`{"inputs":[7]}`, ""}, "", 422, "inputs[0] must be an object"},
		{inferBody{`{"inputs":[` + good + `,{"name":"x"}]}`, ""}, "", 422,
			"inputs[1].name must be items, user or segment"},
		{inferBody{`{"inputs":[` + good + `,` + good + `]}`, ""}, "", 422,
			"inputs[1].name must be there once"},
		{inferBody{`{"inputs":[{"name":"items","shape":[1],"datatype":"FP64","data":[1]}]}`, ""}, "", 422,
			"inputs[0].datatype must be BYTES, INT64, UINT64, INT32 or UINT32"},
		{inferBody{`{"inputs":[{"name":"items","shape":[1.5],"datatype":"INT64","data":[1]}]}`, ""}, "", 422,
			"inputs[0].shape must be an array of sizes"},
		{inferBody{`{"inputs":[{"name":"items","shape":[65536,65536],"datatype":"INT64","data":[1]}]}`, ""},
			"", 422, "inputs[0].shape must be of at most 2147483647 elements"},
		{inferBody{`{"inputs":[{"name":"items","datatype":"INT64","data":[1]}]}`, ""}, "", 422,
			"inputs[0].shape must be there"},
		{inferBody{`{"inputs":[{"name":"items","shape":[1],"datatype":"INT64"}]}`, ""}, "", 422,
			"inputs[0].data must be there, or binary_data_size among the parameters, and not both"},
		{inferBody{`{"inputs":[{"name":"items","shape":[2],"datatype":"BYTES","data":["a",7]}]}`, ""}, "",
			422, "items[1] must be a text of 1 to 255 bytes, as its datatype says"},
		{inferBody{`{"inputs":[{"name":"items","shape":[2],"datatype":"INT64","data":[1,"a"]}]}`, ""}, "",
			422, "items[1] must be a whole number from -9223372036854775808 to 9223372036854775807, as its " +
				"datatype says"},
		{inferBody{`{"inputs":[{"name":"items","shape":[4],"datatype":"INT64","data":[1,2,3,4]}]}`, ""}, "",
			422, "items must be a tensor of 1 to 3 elements (--bandit-max-items)"},
		{inferBody{`{"inputs":[{"name":"items","shape":[0],"datatype":"INT64","data":[]}]}`, ""}, "", 422,
			"items must be a tensor of 1 to 3 elements"},
		{inferBody{`{"inputs":[` + good + `,{"name":"user","shape":[2],"datatype":"INT64","data":[1,2]}]}`,
			""}, "", 422, "user must be a tensor of one element"},
		{inferBody{`{"inputs":[` + good + `],"outputs":[{"name":"scores"},{"name":"x"}]}`, ""}, "", 422,
			"outputs[1].name must be scores or items"},
		{inferBody{`{"inputs":[` + good + `],"outputs":[{}]}`, ""}, "", 422,
			"outputs[0].name must be there: scores or items"},
		{inferBody{`{"inputs":[` + good +
			`],"outputs":[{"name":"scores","parameters":{"classification":-1}}]}`, ""}, "", 422,
			"outputs[0].parameters.classification must be a whole number"},
		{inferBody{`{"inputs":[` + good + `],"outputs":[{"name":"items","parameters":{"classification":1}}]}`,
			""}, "", 422, "outputs[0].parameters.classification must be of scores"},
		{inferBody{`{"inputs":[` + good + `],"parameters":{"top":0}}`, ""}, "", 422,
			"parameters.top must be a whole number from 1 on"},
		{inferBody{`{"inputs":[` + good + `],"parameters":{"seed":-1}}`, ""}, "", 422,
			"parameters.seed must be a whole number from 0 to 18446744073709551615"},
		{inferBody{`{"inputs":[` + good + `],"parameters":{"binary_data_output":7}}`, ""}, "", 422,
			"parameters.binary_data_output must be true or false"},
		{inferBody{`{"inputs":[` + input("items", "INT64", "[1]", 9) + `]}`, "12345678"}, "", 422,
			"the binary data end before those that binary_data_size says"},
		{inferBody{`{"inputs":[` + input("items", "INT64", "[1]", 8) + `]}`, "123456789"}, "", 422,
			"1 bytes of binary data are no input's"},
		{inferBody{`{"inputs":[` + input("items", "INT64", "[2]", 8) + `]}`, "12345678"}, "", 422,
			"items must be of 16 bytes (binary_data_size), as its shape and datatype say"},
		{inferBody{`{"inputs":[` + input("items", "BYTES", "[2]", 5) + `]}`, bytesElements("a")}, "", 422,
			"items must be a tensor of as many elements as its shape says, 2"},
		{inferBody{`{"inputs":[` + input("items", "BYTES", "[2]", 8) + `]}`, bytesElements("a")[:5] +
			"\xff\xff\xff"}, "", 422, "items[1] must be a length of 4 bytes and as many bytes"},
		{inferBody{`{"inputs":[` + input("items", "BYTES", "[2]", 10) + `]}`, bytesElements("a", "\xff")}, "",
			422, "items[1] must be text in UTF-8"},
		{inferBody{`{"inputs":[` + good + `,` + input("user", "BYTES", "[1]", 5) + `]}`,
			bytesElements("\xff")}, "", 422, "user[0] must be text in UTF-8"},
		{inferBody{`{"inputs":[` + good +
			`,{"name":"user","shape":[1],"datatype":"UINT32","data":[4294967296]}]}`, ""}, "", 422,
			"user[0] must be a whole number from 0 to 4294967295"},
		{inferBody{`{"inputs":[` + good + `]}`, ""}, "x", 400,
			"Inference-Header-Content-Length must be the number of bytes of JSON"},
		{inferBody{`{"inputs":[` + good + `]}`, ""}, "-1", 400, "Inference-Header-Content-Length"},
		{inferBody{`{"inputs":[` + good + `]}`, ""}, "1000", 400, "Inference-Header-Content-Length"},
		{inferBody{`{"inputs":[` + good + `]}`, ""}, "99999999999999999999", 400,
			"Inference-Header-Content-Length"},
	} {
		var fields []string
		switch {
		case c.length != "":
			fields = []string{headerLength, c.length}
		case c.body.raw != "":
			fields = []string{headerLength, strconv.Itoa(len(c.body.head))}
		}
		s.problem(s.do(http.MethodPost, s.url+"/v2/models/bandit/infer", c.body.head+c.body.raw, fields...),
			c.status, c.says)
	}
}
