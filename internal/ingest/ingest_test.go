package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/klauspost/compress/zstd"
)

// testFields are a user, an item or a list of them, a rank and a score.
func testFields() []Field {
	return []Field{
		{Name: "user", KindFlag: "--user-ids", Flag: "--user-column",
			Guess: []string{"user", "userid", "uid", "input.userid", "1"}},
		{Name: "item", KindFlag: "--item-ids", Flag: "--item-column", Guess: []string{"item", "itemid", "2"},
			Rest: true, List: true, ListFlag: "--items-column",
			GuessList: []string{"items", "recommendations", "output.recommendeditems"}},
		{Name: "rank", Type: Float, Flag: "--rank-column", Optional: true, Guess: []string{"rank"}},
		{Name: "score", Type: Float, Flag: "--score-column", Optional: true,
			Guess: []string{"score", "rating"}},
	}
}

// result is what was read: lists by user, both as text.
type result struct {
	lists map[string][]string
	bad   []string
	notes []string
}

// load reads sources through the sorter with very little memory.
func load(t testing.TB, o Options, maxBad int64, fields []Field, sources ...string) (result, error) {
	t.Helper()
	r := result{lists: map[string][]string{}}
	o.Note = func(s string) { r.notes = append(r.notes, s) }
	o.TempDir = t.TempDir()
	in, err := Open(t.Context(), sources, o)
	if err != nil {
		return r, err
	}
	defer in.Close()
	plan, err := in.Plan(fields)
	if err != nil {
		return r, err
	}
	sorter, err := NewSorter(SortOptions{Dir: t.TempDir(), Memory: 1 << 20, Keys: plan.Kinds[0]})
	if err != nil {
		return r, err
	}
	defer sorter.Close()
	names := NewTable()
	account := Account{Max: maxBad, Report: func(b BadRow) { r.bad = append(r.bad, b.String()) }}
	err = plan.Read(t.Context(), &account, func(b *Batch) error {
		user, item := &b.Columns[0], &b.Columns[1]
		values := item.Numbers
		if plan.Kinds[1] == String {
			values = nil
			for i := range item.Ends {
				values = append(values, uint64(names.Add(item.String(i))))
			}
		}
		if plan.Lists {
			return sorter.AddLists(b.Source, user, values, item.Lists)
		}
		var order []float64
		switch {
		case plan.Found[2]:
			order = b.Columns[2].Floats
		case plan.Found[3]:
			for _, x := range b.Columns[3].Floats {
				order = append(order, -x)
			}
		}
		return sorter.AddRows(b.Source, user, values, order)
	})
	if err != nil {
		return r, err
	}
	if got, rows := in.Progress.Bytes.Load(), in.Progress.Rows.Load(); rows == 0 ||
		got > in.Progress.Total.Load() && in.Progress.Total.Load() > 0 {
		t.Errorf("progress says %d bytes of %d and %d rows", got, in.Progress.Total.Load(), rows)
	}
	keys, err := sorter.CountKeys(t.Context())
	if err != nil {
		return r, err
	}
	err = sorter.Merge(t.Context(), nil, func(g *Groups) error {
		from := 0
		for i, end := range g.Ends {
			user := ""
			if plan.Kinds[0] == String {
				user = string(g.Keys.String(i))
			} else {
				user = fmt.Sprint(g.Keys.Numbers[i])
			}
			list := []string{}
			for _, v := range g.Values[from:end] {
				if plan.Kinds[1] == String {
					list = append(list, string(names.Get(uint32(v))))
				} else {
					list = append(list, fmt.Sprint(v))
				}
			}
			from = int(end)
			r.lists[user] = list
		}
		return nil
	})
	if uint64(len(r.lists)) != keys {
		t.Errorf("%d keys were counted and %d came", keys, len(r.lists))
	}
	return r, err
}

// wanted makes the lists that every fixture holds, see testdata/make.py.
func fixtureLists(names, empty bool) map[string][]string {
	lists := map[string][]string{}
	for u := 1; u <= 60; u++ {
		if u%7 == 0 && !empty {
			continue
		}
		user, list := fmt.Sprint(u), []string{}
		for k := range u % 7 {
			item := fmt.Sprint((u*31+k*17)%1000 + 1)
			if names {
				item = "Item №" + item
			}
			list = append(list, item)
		}
		if names {
			user = fmt.Sprintf("user-%03d", u)
		}
		lists[user] = list
	}
	return lists
}

func sameLists(t *testing.T, got, want map[string][]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d users, want %d", len(got), len(want))
	}
	for _, user := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(got[user], want[user]) {
			t.Errorf("user %s has %v, want %v", user, got[user], want[user])
		}
	}
}

// fixtures are the same lists in every format and layout.
func fixtures(t testing.TB) []fixture {
	all := []fixture{
		{name: "als.parquet", lists: true}, {name: "als_v2.parquet", lists: true},
		{name: "als.arrow", lists: true}, {name: "als.arrows", lists: true},
		{name: "int64.parquet", lists: true}, {name: "uint.parquet", lists: true},
		{name: "fixed.arrow", lists: true},
		{name: "names.parquet", lists: true, names: true}, {name: "names_plain.parquet", lists: true,
			names: true},
		{name: "decimal.parquet", lists: true}, {name: "decimal_plain.parquet", lists: true},
		{name: "decimal.arrow", lists: true},
		{name: "decimal_score.parquet"}, {name: "decimal_score.arrow"},
		{name: "names.arrow", lists: true, names: true}, {name: "rank.arrow", names: true},
		{name: "rank.parquet"}, {name: "score.parquet"}, {name: "rating.parquet"},
	}
	for i := range all {
		data, err := os.ReadFile(filepath.Join("testdata", all[i].name))
		if err != nil {
			t.Fatal(err)
		}
		all[i].data = data
	}
	return append(all, textFixtures()...)
}

type fixture struct {
	name         string
	data         []byte
	lists, names bool
}

// textFixtures are made here: text needs no other program.
func textFixtures() []fixture {
	texts := []struct {
		name         string
		lists, names bool
		head, format string // of a list: {user}, {items}; of a row: {user}, {item}, {rank}, {score}
		separator    string
	}{
		{"weir.jsonl", true, false, "", `{"user": {user}, "items": [{items}]}` + "\n", ", "},
		{"weir-strings.jsonl", true, true, "", `{"items":["{items}"],"x":{"user":[1,{}]},"user":"{user}"}` +
			"\r\n", `","`},
		{"personalize.jsonl", true, false, "",
			`{"input":{"userId":"{user}"},"output":{"recommendedItems":[{items}],"scores":[0.5]},"error":null}` + "\n", `,`},
		{"spark.jsonl", true, false, "",
			`{"userId":{user},"recommendations":[{"rating":0.1,"itemId":{items}}]}` + "\n",
			`},{"rating":0.5,"itemId":`},
		{"rows.jsonl", false, false, "", `{"user":{user},"item":{item},"score":{score}}` + "\n", ""},
		{"header.csv", false, false, "user_id,item_id,rank\n", "{user},{item},{rank}\n", ""},
		{"header.tsv", false, true, "user\tskip\titem\tscore\r\n",
			"{user}\t\"a\tb\"\t\"{item}\"\t{score}\r\n", ""},
		{"bom.csv", false, false, "\xef\xbb\xbfscore;\"item\";user\n", "{score};{item};{user}\n", ""},
		{"lists.csv", true, false, "user,items\n", "{user},\"[{items}]\"\n", ", "},
		{"bars.csv", true, true, "user,items\n", "{user},{items}\n", "|"},
	}
	var all []fixture
	for _, text := range texts {
		var b bytes.Buffer
		b.WriteString(text.head)
		for n := range 60 {
			u := (n + 1) * 37 % 61
			list := fixtureLists(text.names, true)[fmt.Sprint(u)]
			user := fmt.Sprint(u)
			if text.names {
				user = fmt.Sprintf("user-%03d", u)
				list = fixtureLists(true, true)[user]
			}
			if text.lists {
				row := strings.NewReplacer("{user}", user, "{items}",
					strings.Join(list, text.separator)).Replace(text.format)
				if len(list) == 0 {
					row = strings.NewReplacer(`[""]`, `[]`, `[{"rating":0.1,"itemId":}]`, `[]`).Replace(row)
				}
				b.WriteString(row)
				continue
			}
			for k := len(list) - 1; k >= 0; k-- { // the other way round
				b.WriteString(strings.NewReplacer("{user}", user, "{item}", list[k], "{rank}",
					fmt.Sprint(k+1),
					"{score}", fmt.Sprint(1/float64(k+2))).Replace(text.format))
			}
		}
		all = append(all, fixture{text.name, b.Bytes(), text.lists, text.names})
	}
	return all
}

func TestEveryFormatReadsTheSame(t *testing.T) {
	for _, f := range fixtures(t) {
		for _, method := range []string{"plain", "gz", "zst"} {
			t.Run(f.name+"/"+method, func(t *testing.T) {
				data := compressed(t, f.data, method)
				want := fixtureLists(f.names, f.lists)
				file := filepath.Join(t.TempDir(), "what")
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
				for _, source := range []string{file, "-"} {
					r, err := load(t, Options{Stdin: bytes.NewReader(data)}, 0, testFields(), source)
					if err != nil {
						t.Fatalf("%s: %v", source, err)
					}
					sameLists(t, r.lists, want)
				}
			})
		}
	}
}

func compressed(t testing.TB, data []byte, method string) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch method {
	case "gz":
		w = gzip.NewWriter(&b)
	case "zst":
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		w = z
	default:
		return data
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Lists as Hive and as old writers of Parquet nest them, which pyarrow does not write.
func TestOlderListLayouts(t *testing.T) {
	one := []int16{1, 1}
	item, rating := int32Node("item", optional), schema.NewFloat32Node("rating", required, -1)
	array := int32Node("array_element", optional)
	pair := group("array_element", optional, item, rating)
	for name, file := range map[string]struct {
		user, items schema.Node
		userDef     []int16
		def         []int16 // of the two items of the first user and of the empty list of the second
		ratings     []int16 // the same, nil when there are none
	}{
		"hive": {int64Node("user", optional),
			group("items", optional, group("bag", repeat, array)), one, []int16{3, 3, 1}, nil},
		"hive structs": {int64Node("user", required),
			group("items", optional, group("bag", repeat, pair)), nil, []int16{4, 4, 1}, []int16{3, 3, 1}},
		"two levels": {int64Node("user", required),
			group("items", optional, int32Node("array", repeat)), nil, []int16{2, 2, 1}, nil},
		"two levels of structs": {int64Node("user", required),
			group("items", optional, group("array", repeat, item, rating)), nil, []int16{3, 3, 1},
			[]int16{2, 2, 1}},
		"repeated": {int64Node("user", required), int32Node("items", repeat), nil, []int16{1, 1, 0}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rep := []int16{0, 1, 0}
			columns := []chunk{{[]int64{1, 2}, file.userDef, nil}, {[]int32{5, 6}, file.def, rep}}
			if file.ratings != nil {
				columns = append(columns, chunk{[]float32{1, 2}, file.ratings, rep})
			}
			data := parquetFile(t, schema.FieldList{file.user, file.items}, columns...)
			r, err := load(t, Options{Stdin: bytes.NewReader(data)}, 0, testFields(), "-")
			if err != nil {
				t.Fatal(err)
			}
			sameLists(t, r.lists, map[string][]string{"1": {"5", "6"}, "2": {}})
		})
	}
}

var required, optional, repeat = parquet.Repetitions.Required, parquet.Repetitions.Optional,
	parquet.Repetitions.Repeated

func group(name string, rep parquet.Repetition, fields ...schema.Node) schema.Node {
	return schema.MustGroup(schema.NewGroupNode(name, rep, fields, -1))
}

func int32Node(name string, rep parquet.Repetition) schema.Node {
	return schema.NewInt32Node(name, rep, -1)
}
func int64Node(name string, rep parquet.Repetition) schema.Node {
	return schema.NewInt64Node(name, rep, -1)
}

// A chunk is a column with its levels.
type chunk struct {
	values   any
	def, rep []int16
}

// parquetFile writes one row group, column by column.
func parquetFile(t testing.TB, fields schema.FieldList, columns ...chunk) []byte {
	t.Helper()
	var b bytes.Buffer
	w := file.NewParquetWriter(&b, schema.MustGroup(schema.NewGroupNode("root", required, fields, -1)))
	rows, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range columns {
		column, err := rows.NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		switch w := column.(type) {
		case *file.Int32ColumnChunkWriter:
			_, err = w.WriteBatch(c.values.([]int32), c.def, c.rep)
		case *file.Int64ColumnChunkWriter:
			_, err = w.WriteBatch(c.values.([]int64), c.def, c.rep)
		case *file.Float32ColumnChunkWriter:
			_, err = w.WriteBatch(c.values.([]float32), c.def, c.rep)
		case *file.ByteArrayColumnChunkWriter:
			_, err = w.WriteBatch(c.values.([]parquet.ByteArray), c.def, c.rep)
		case *file.FixedLenByteArrayColumnChunkWriter:
			_, err = w.WriteBatch(c.values.([]parquet.FixedLenByteArray), c.def, c.rep)
		}
		if err := errors.Join(err, column.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadEndsWithItsContext(t *testing.T) {
	in, err := Open(t.Context(), []string{"testdata/als.parquet"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	plan, err := in.Plan(testFields())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := plan.Read(ctx, &Account{}, func(*Batch) error { return nil }); err != context.Canceled {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
