package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// loadText loads one file of text under the name "in".
func loadText(t *testing.T, text string, o Options, maxBad int64, fields []Field) (result, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return load(t, o, maxBad, fields, "in")
}

const (
	wantNumber = "a number from 0 to 18446744073709551615 "
	users      = "(--user-ids string takes names)"
	items      = "(--item-ids string takes names)"
)

func TestBadRowsOfTextSayWhereAndWhat(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for _, tt := range []struct {
		name, text string
		kinds      Kind // of users
		want       []string
	}{
		{"user", "user,item\n1,2\nx,3\n4,5\n", Number,
			[]string{"in: row 3: user: expected " + wantNumber + users + `, found "x"`}},
		{"item", "user,item\n1,2\n3,-4\n", Number,
			[]string{"in: row 3: item: expected " + wantNumber + items + `, found "-4"`}},
		{"too large", "1,2\n18446744073709551616,3\n18446744073709551615,4\n", Number,
			[]string{"in: row 2: user: expected " + wantNumber + users + `, found "18446744073709551616"`}},
		{"cells", "user,x,item\n1,2,3\n4,5\n", Number, []string{"in: row 3: expected 3 columns, found 2"}},
		{"more cells", "user,item\n1,2,\n3,4,5\n6,7,,\" \"\n8,9,,10\n", Number,
			[]string{"in: row 3: expected 2 columns, found 3", "in: row 5: expected 2 columns, found 4"}},
		{"quote", "user,item\n1,2\n\n3,\"4\n", Number,
			[]string{`in: row 4: expected a closing quote, found "\"4"`}},
		{"rank", "user,item,rank\n1,2,3\n4,5,NaN\n6,7,\n", Number,
			[]string{`in: row 3: rank: expected a number, found "NaN"`,
				`in: row 4: rank: expected a number, found ""`}},
		{"empty name", "user,item\nada,2\n,3\n", String,
			[]string{`in: row 3: user: expected a name of 1 to 255 bytes of UTF-8, found ""`}},
		{"long name", "user,item\nada,2\n" + long + ",3\n", String,
			[]string{`in: row 3: user: expected a name of 1 to 255 bytes of UTF-8, found "` + long[:40] +
				`"...`}},
		{"broken name", "user,item\nada,2\n\xff,3\n", String,
			[]string{`in: row 3: user: expected a name of 1 to 255 bytes of UTF-8, found "\xff"`}},
		{"list in a cell", "user,items\n1,2|3\n4,5|x|6\n", Number,
			[]string{"in: row 3: item: expected " + wantNumber + items + `, found "x"`}},
		{"no JSON", `{"user":1,"items":[2]}` + "\nsome text\n", Number,
			[]string{`in: row 2: expected one JSON object, found "some text"`}},
		{"JSON and more", `{"user":1,"items":[2]}` + "\n\n" + `{"user":1,"items":[2]} {}` + "\n", Number,
			[]string{`in: row 3: expected one JSON object, found "{\"user\":1,\"items\":[2]} {}"`}},
		{"no user", `{"user":1,"items":[2]}` + "\n" + `{"items":[2]}`, Number,
			[]string{"in: row 2: user: expected " + wantNumber + users + ", found nothing"}},
		{"null items", `{"user":1,"items":[2]}` + "\n" + `{"user":3,"items":null}`, Number,
			[]string{"in: row 2: item: expected a list of at most 65535 ids, found null"}},
		{"no list", `{"user":1,"items":[2]}` + "\n" + `{"user":3,"items":4}`, Number,
			[]string{`in: row 2: item: expected a list of at most 65535 ids, found "4"`}},
		{"fraction", `{"user":1,"items":[2]}` + "\n" + `{"user":3,"items":[4, 5.5]}`, Number,
			[]string{"in: row 2: item: expected " + wantNumber + items + `, found "5.5"`}},
		{"nested list", `{"user":1,"items":[2]}` + "\n" + `{"user":3,"items":[[4]]}`, Number,
			[]string{"in: row 2: item: expected " + wantNumber + items + `, found the list "[4]"`}},
		{"Personalize", `{"input":{"userId":"1"},"output":{"recommendedItems":["2"]},"error":null}` + "\n" +
			`{"input":{"userId":"3"},"output":null,"error":"Internal server error"}`, Number,
			[]string{`in: row 2: expected recommendations, found the error "Internal server error"`}},
		{"too many", `{"user":1,"items":[2]}` + "\n" + `{"user":3,"items":[` + strings.Repeat("4,", 65535) +
			`4]}`, Number,
			[]string{"in: row 2: item: expected a list of at most 65535 ids, found more than that"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fields := testFields()
			fields[0].IDs = tt.kinds
			fields[1].IDs = Number
			r, err := loadText(t, tt.text, Options{}, 10, fields)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.bad, tt.want) {
				t.Errorf("bad rows:\n%s\nwant:\n%s", strings.Join(r.bad, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestBadRowsOfTypedSources(t *testing.T) {
	number := func(field, flag string) string {
		return field + ": expected " + wantNumber + flag + ", found "
	}
	const list = "item: expected a list of at most 65535 ids, found "
	for file, want := range map[string][]string{
		"bad.parquet": {
			"row 2: " + number("user", users) + "null", "row 3: " + number("user", users) + "-3",
			"row 4: " + list + "null", "row 5: " + number("item", items) + "null",
			"row 6: " + number("item", items) + "-7"},
		"bad.arrow": {
			"row 2: " + number("user", users) + "null", "row 3: " + number("user", users) + "-3",
			"row 4: " + list + "null", "row 5: " + number("item", items) + "null",
			"row 6: " + number("item", items) + "-7"},
		"bad_floats.parquet": {"row 2: " + number("user", users) + "2.5",
			"row 3: " + number("user", users) + "NaN",
			"row 4: score: expected a number, found NaN"},
		"long.parquet": {"row 1: " + list + "more than that"},
		"long.arrow":   {"row 1: " + list + "65536"},
	} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join("testdata", file)
			r, err := load(t, Options{}, 10, testFields(), path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				want[i] = path + ": " + want[i]
			}
			if !slices.Equal(r.bad, want) {
				t.Errorf("bad rows:\n%s\nwant:\n%s", strings.Join(r.bad, "\n"), strings.Join(want, "\n"))
			}
			switch {
			case strings.HasPrefix(file, "bad."):
				wanted := map[string][]string{"1": {"11"}}
				for u := 7; u < 16; u++ {
					wanted[fmt.Sprint(u)] = []string{fmt.Sprint(u)}
				}
				sameLists(t, r.lists, wanted)
			case strings.HasPrefix(file, "long"):
				if len(r.lists) != 2 || len(r.lists["2"]) != 65535 || len(r.lists["3"]) != 1 {
					t.Errorf("%d users, the second has %d items", len(r.lists), len(r.lists["2"]))
				}
			}
		})
	}
}

func TestBadRowsAreToleratedUpToTheLimit(t *testing.T) {
	var text bytes.Buffer
	text.WriteString("user,item\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "%d,%d\n", i, i)
	}
	for i := range 15 {
		fmt.Fprintf(&text, "no%d,1\n", i)
	}
	for i := range 1000 {
		fmt.Fprintf(&text, "%d,%d\n", i+1000, i)
	}
	fields := testFields()
	fields[0].IDs = Number
	for _, tt := range []struct {
		max  int64
		want string
	}{
		{15, ""},
		{14, `too many bad rows: more than --max-bad 14, the last: in: row 1016: user: expected ` +
			wantNumber + users + `, found "no14"`},
		{0, `too many bad rows: in: row 1002: user: expected ` + wantNumber + users +
			`, found "no0" (--max-bad N tolerates N of them)`},
	} {
		r, err := loadText(t, text.String(), Options{}, tt.max, fields)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("--max-bad %d: %v", tt.max, err)
		case tt.want == "" && len(r.lists) != 2000:
			t.Errorf("--max-bad %d: %d users, want 2000", tt.max, len(r.lists))
		case tt.want == "" && len(r.bad) != 10:
			t.Errorf("--max-bad %d: %d reported, want the first 10", tt.max, len(r.bad))
		case tt.want != "" && (err == nil || err.Error() != tt.want || !errors.Is(err, ErrBadRows)):
			t.Errorf("--max-bad %d: %v, want %s", tt.max, err, tt.want)
		}
	}
}

func TestKindsOfIDs(t *testing.T) {
	for _, tt := range []struct {
		name, text  string
		users, item Kind
		want        map[string][]string
		note        string
	}{
		{"digits are numbers", "user,item\n1,20\n", Auto, Auto, map[string][]string{"1": {"20"}},
			"user from column user (numbers); item from column item (numbers)"},
		{"many names make names of all", "user,item\n1,20\nada,20\n", Auto, Auto,
			map[string][]string{"1": {"20"}, "ada": {"20"}},
			"user from column user (strings); item from column item (numbers)"},
		{"leading zeros are names", "user,item\n1,007\n1,7\n", Auto, Auto,
			map[string][]string{"1": {"007", "7"}},
			"user from column user (numbers); item from column item (strings)"},
		{"too large for a number", "user,item\n99999999999999999999,1\n", Auto, Auto,
			map[string][]string{"99999999999999999999": {"1"}},
			"user from column user (strings); item from column item (numbers)"},
		{"whole floats are numbers", "user,item\n1.0,5.0\n2,9007199254740993.0\n10.00,20\n", Auto, Auto,
			map[string][]string{"1": {"5"}, "2": {"9007199254740993"}, "10": {"20"}},
			"user from column user (numbers); item from column item (numbers)"},
		{"whole floats in lists", "user,items\n1.0,5.0|0.0\n", Auto, Auto,
			map[string][]string{"1": {"5", "0"}},
			"user from column user (numbers); item from lists of column items (numbers)"},
		{"whole floats in JSON", `{"user":1.0,"items":[5.0, "6.0", 18446744073709551615.0]}`, Auto, Auto,
			map[string][]string{"1": {"5", "6", "18446744073709551615"}},
			"user from column user (numbers); item from lists of column items (numbers)"},
		{"ids beside whole floats in JSON", `{"user":1.0,"items":[{"rating":5.0,"film":7}]}`, Auto, Auto,
			map[string][]string{"1": {"7"}},
			"user from column user (numbers); item from lists of column items.film (numbers)"},
		{"leading zeros of floats", "user,item\n1,007.0\n", Auto, Auto, map[string][]string{"1": {"007.0"}},
			"user from column user (numbers); item from column item (strings)"},
		{"versions among names", "user,item\n1,1.5\n1,tea\n", Auto, Auto,
			map[string][]string{"1": {"1.5", "tea"}},
			"user from column user (numbers); item from column item (strings)"},
		{"whole floats as strings", "user,item\n1.0,5.0\n", Auto, String, map[string][]string{"1": {"5.0"}},
			"user from column user (numbers); item from column item (strings)"},
		{"forced to strings", "user,item\n1,20\n", String, String, map[string][]string{"1": {"20"}},
			"user from column user (strings); item from column item (strings)"},
		{"numbers and strings in JSON", `{"user":"1","items":[5]}` + "\n" + `{"user":2,"items":["6"]}`, Auto,
			Auto,
			map[string][]string{"1": {"5"}, "2": {"6"}},
			"user from column user (numbers); item from lists of column items (numbers)"},
		{"escapes", `{"user":"\u00e4\n","items":["\"q\""]}`, Auto, Auto, map[string][]string{"ä\n": {`"q"`}},
			"user from column user (strings); item from lists of column items (strings)"},
		{"without a header", "5,6\n5,7\n", Auto, Auto, map[string][]string{"5": {"6", "7"}},
			"user from column 1 (numbers); item from column 2 (numbers)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fields := testFields()
			fields[0].IDs, fields[1].IDs = tt.users, tt.item
			r, err := loadText(t, tt.text, Options{}, 0, fields)
			if err != nil {
				t.Fatal(err)
			}
			sameLists(t, r.lists, tt.want)
			if !slices.Equal(r.notes, []string{tt.note}) {
				t.Errorf("it says %q, want %q", r.notes, tt.note)
			}
		})
	}
}

func TestNamesAmongManyNumbersAreBadRows(t *testing.T) {
	for _, text := range []string{"1,2\n3,4\nada,5\n", `{"user":1,"item":2}` + "\n" +
		`{"user":"3","item":4}` + "\n" + `{"user":"ada","item":5}`} {
		_, err := loadText(t, text, Options{}, 0, testFields())
		want := "too many bad rows: in: row 3: user: expected " + wantNumber + users +
			`, found "ada" (--max-bad N tolerates N of them)`
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestNumbersThatAreNoIDsAreBadRows(t *testing.T) {
	for _, bad := range []string{"-1", "1.5", "1e3", "5.01", "-0.0"} {
		for _, text := range []string{"user,item\n" + bad + ",2\n3.0,4\n", "user,item\n3,4\n" + bad + ",2\n" +
			bad + ",3\n", `{"user":3.0,"item":4}` + "\n" + `{"user":` + bad + `,"item":2}`} {
			_, err := loadText(t, text, Options{}, 0, testFields())
			want := "user: expected " + wantNumber + users + `, found "` + bad +
				`" (--max-bad N tolerates N of them)`
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}

func TestTypedSourcesConvertWhenForced(t *testing.T) {
	fields := testFields()
	fields[0].IDs, fields[1].IDs = String, String
	r, err := load(t, Options{}, 0, fields, "testdata/als.parquet")
	if err != nil {
		t.Fatal(err)
	}
	sameLists(t, r.lists, fixtureLists(false, true))

	r, err = load(t, Options{}, 0, testFields(), "testdata/uuid.parquet")
	if err != nil {
		t.Fatal(err)
	}
	sameLists(t, r.lists, map[string][]string{
		"\x01\x02\x03\x04\x05\x06\a\b\t\n\v\f\r\x0e\x0f\x10": {"1"},
		"\x02\x03\x04\x05\x06\a\b\t\n\v\f\r\x0e\x0f\x10\x11": {"2"},
		"\x03\x04\x05\x06\a\b\t\n\v\f\r\x0e\x0f\x10\x11\x12": {"3"},
		"\x04\x05\x06\a\b\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13": {"4"},
	})
}
