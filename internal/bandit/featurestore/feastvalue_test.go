package featurestore

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The bytes are out of a Redis that Feast 0.67 wrote.
func TestFeastKeysAreThoseFeastWrites(t *testing.T) {
	for _, test := range []struct {
		entity, id string
		as         form
		want       string
	}{
		{"item_id", "1001", formInt64,
			"\x01\x00\x00\x00\x02\x00\x00\x00\x07\x00\x00\x00item_id\x04\x00\x00\x00\x08\x00\x00\x00\xe9\x03\x00\x00\x00\x00\x00\x00"},
		{"i32_id", "5", formInt32,
			"\x01\x00\x00\x00\x02\x00\x00\x00\x06\x00\x00\x00i32_id\x03\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00"},
		{"article_id", "old", formString,
			"\x01\x00\x00\x00\x02\x00\x00\x00\n\x00\x00\x00article_id\x02\x00\x00\x00\x03\x00\x00\x00old"},
	} {
		if got := string(appendEntityKey(nil, test.entity, test.id, test.as)); got != test.want {
			t.Errorf("%s %s: key %q, want %q", test.entity, test.id, got, test.want)
		}
	}
	for _, test := range []struct{ view, feature, want string }{
		{"items", "alpha", "\x9f\xc3\xbb\x17"}, {"items", "beta", "\xc6\x12*\xe5"},
		{"small", "alpha", "\x17\x1aZ<"},
		{"users", "segment", "\xe4*3,"}, {"articles", "clicks", "?(\x01."},
		{"articles", "impressions", "\x01\xac\xc7\xac"},
	} {
		if got := featureField(test.view, test.feature); got != test.want {
			t.Errorf("%s:%s: field %q, want %q", test.view, test.feature, got, test.want)
		}
	}
}

func TestMurmur3OfEveryTailLength(t *testing.T) {
	// Of the reference implementation, smhasher's MurmurHash3.cpp by way of Python's mmh3.
	for s, want := range map[string]uint32{
		"": 0, "a": 0x3c2569b2, "ab": 0x9bbfd75f, "abc": 0xb3dd93fa, "abcd": 0x43ed676a, "abcde": 0xe89b9af6,
		"The quick brown fox jumps over the lazy dog": 0x2e4ff723,
	} {
		if got := murmur3(s); got != want {
			t.Errorf("murmur3(%q) = %#x, want %#x", s, got, want)
		}
	}
}

func TestFeastValues(t *testing.T) {
	for _, test := range []struct {
		name string
		b    string
		want value // as text
	}{
		{"double", ")\x00\x00\x00\x00\x00\x00\x0c@", value{kind: kindNumber, number: 3.5, text: "3.5"}},
		{"float", "5ffF@", value{kind: kindNumber, number: float64(float32(3.1)), text: "3.1"}},
		{"int32", "\x18\x02", value{kind: kindNumber, number: 2, text: "2"}},
		{"negative int32", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
			value{kind: kindNumber, number: -1, text: "-1"}},
		{"int64", " \x81\x80\x80\x80\x80\x80\x80\x10",
			value{kind: kindNumber, number: 1 << 53, text: "9007199254740993"}},
		{"string", "\x12\x05young", value{kind: kindText, text: "young"}},
		{"bool", "\x38\x01", value{kind: kindText, text: "true"}},
		{"null of no bytes", "", value{}},
		{"null", "\x98\x01\x00", value{}},
		{"decimal", string(protowire.AppendString(protowire.AppendTag(nil, valueDecimal, protowire.BytesType),
			"2.50")), value{kind: kindText, text: "2.50"}},
		{"list of doubles", "\x7a\x0a\x0a\x08\x00\x00\x00\x00\x00\x00\x0c@", value{kind: kindOther}},
		{"cut off", ")\x00\x00", value{kind: kindBroken}},
		{"text longer than what is there", "\x12\x20young", value{kind: kindBroken}},
		{"double as varint", "\x28\x01", value{kind: kindBroken}},
		{"a group without an end", "\x13\x08", value{kind: kindBroken}},
	} {
		if got := decodeValue([]byte(test.b), true); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestFeastTimestamps(t *testing.T) {
	at := time.Date(2020, 1, 1, 0, 0, 0, 500_000_000, time.UTC).UnixNano()
	if got := decodeTimestamp([]byte("\x08\x80\xc2\xaf\xf0\x05\x10\x80\xca\xb5\xee\x01")); got != at {
		t.Errorf("got %v, want %v", got, at)
	}
	for _, b := range []string{"", "\x08", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if got := decodeTimestamp([]byte(b)); got != 0 {
			t.Errorf("%q: got %v, want 0", b, got)
		}
	}
}

func FuzzDecodeValue(f *testing.F) {
	for _, seed := range []string{")\x00\x00\x00\x00\x00\x00\x0c@", "5ffF@", "\x18\x02",
		" \x81\x80\x80\x80\x80\x80\x80\x10",
		"\x12\x05young", "\x98\x01\x00", "\x7a\x0a\x0a\x08\x00\x00\x00\x00\x00\x00\x0c@",
		"\x08\x80\xc2\xaf\xf0\x05\x10\x80\xca\xb5\xee\x01", ""} {
		f.Add([]byte(seed))
	}
	o := DefaultOptions()
	f.Fuzz(func(t *testing.T, b []byte) {
		plain, text := decodeValue(b, false), decodeValue(b, true)
		if plain.kind != text.kind || math.Float64bits(plain.number) != math.Float64bits(text.number) {
			t.Errorf("%+v and as text %+v", plain, text)
		}
		if a, _ := o.arm([]value{plain, plain}); a.Known &&
			!(a.Alpha > 0 && a.Beta > 0 && a.Alpha < math.Inf(1)) {
			t.Errorf("%x is an arm %v", b, a)
		}
		if s, wrong := o.segment([]value{text}); wrong != "" && s != "" || len(s) > longestSegment {
			t.Errorf("%x is a segment %q, %q", b, s, wrong)
		}
		decodeTimestamp(b)
	})
}

func FuzzDecodeFeastAnswer(f *testing.F) {
	f.Add([]byte(feastSaid), 4)
	f.Add(
		[]byte(
			`{"results":[{"values":["7"]},{"values":["NaN"]},{"values":[1e999]}],"metadata":{"feature_names":{"val":["item_id","alpha","beta"]}}}`), 1)
	f.Add(
		[]byte(
			`{"results":[{"values":[7]},{"values":[[1]],"statuses":["PRESENT"]},{"values":[true]}],"metadata":{"feature_names":["item_id","alpha","beta"]}}`), 1)
	f.Add([]byte(`{"results":[],"metadata":{"feature_names":["alpha","beta"]}}`), 1)
	f.Fuzz(func(t *testing.T, answer []byte, n int) {
		if n < 1 || n > 100 {
			return
		}
		// Every other id cannot be written in the form, so the answer is not about it.
		rows := make([]int, n)
		for i := range rows {
			rows[i] = 2 * i
		}
		o := DefaultOptions()
		table := o.itemTable()
		values := make([]value, 2*n*len(table.features))
		_, err := decodeFeast(answer, table, rows, values)
		for i := range 2 * n {
			row := values[2*i : 2*i+2]
			a, wrong := o.arm(row)
			if i%2 == 1 && row[0].kind != kindAbsent {
				t.Errorf("a value for an entity that was not asked for: %+v", row)
			}
			if err == nil && a.Known && (wrong != "" || !(a.Alpha > 0 && a.Beta > 0)) {
				t.Errorf("%+v is an arm %v, %s", row, a, wrong)
			}
		}
	})
}

func FuzzRespScanner(f *testing.F) {
	for _, seed := range []string{"*2\r\n$3\r\nabc\r\n$-1\r\n", "*999999999\r\n", "$1048577\r\n",
		"%1\r\n+a\r\n:1\r\n", "=5\r\ntxt:a\r\n", "$1048576\r\n*9999999", "*-1\r\n"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		// However it is cut, what is said of it is the same.
		var whole, parts respScanner
		_, err := whole.pass(stream, nil)
		cut = min(max(cut, 1), len(stream)+1)
		var inParts error
		for rest := stream; len(rest) > 0 && inParts == nil; {
			n := min(cut, len(rest))
			_, inParts = parts.pass(rest[:n], nil)
			rest = rest[n:]
		}
		if (err == nil) != (inParts == nil) || err == nil && whole != parts {
			t.Errorf("whole: %v %+v, in parts of %d: %v %+v", err, whole, cut, inParts, parts)
		}
		if whole.skip > respLongest+2 || whole.skip < 0 {
			t.Errorf("%d bytes are let through", whole.skip)
		}
	})
}
