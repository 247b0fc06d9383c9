package ingest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/internal/ingest/ingesttest"
)

// tree makes files below a new directory and goes there.
func tree(t *testing.T, files ...string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirectoriesOfPartFiles(t *testing.T) {
	const note = "user from column 1 (numbers); item from column 2 (numbers)"
	for _, tt := range []struct {
		name            string
		files           []string
		allowIncomplete bool
		want            map[string][]string
		notes           []string
		err             string
	}{
		{name: "a finished job", files: []string{"d/_SUCCESS", "d/part-1=1,2\n", "d/part-0=1,3\n",
			"d/.part-0.crc=x", "d/_meta/x=y", "d/empty="},
			want: map[string][]string{"1": {"3", "2"}}, notes: []string{note}},
		{name: "by day", files: []string{"d/_SUCCESS", "d/day-2/part-0=1,2\n", "d/day-1/part-0=1,3\n"},
			want: map[string][]string{"1": {"3", "2"}}, notes: []string{note}},
		{name: "no _SUCCESS", files: []string{"d/part-0=1,2\n"}, want: map[string][]string{"1": {"2"}},
			notes: []string{"d: no _SUCCESS in this directory, reading its 1 files all the same", note}},
		{name: "an unfinished job", files: []string{"d/part-0=1,2\n", "d/_temporary/0/part-1=1,3\n"},
			err: "d: there is no _SUCCESS but a _temporary: the job that writes it has not finished " +
				"(--allow-incomplete reads what is there)"},
		{name: "an unfinished job, allowed", files: []string{"d/part-0=1,2\n", "d/_temporary/0/part-1=1,3\n"},
			allowIncomplete: true,
			want:            map[string][]string{"1": {"2"}},
			notes: []string{"d: no _SUCCESS in this directory, reading its 1 files all the same",
				note}},
		{name: "nothing", files: []string{"d/_SUCCESS"}, err: "d: there are no part files in this directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree(t, tt.files...)
			r, err := load(t, Options{AllowIncomplete: tt.allowIncomplete}, 0, testFields(), "d")
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			sameLists(t, r.lists, tt.want)
			if !slices.Equal(r.notes, tt.notes) {
				t.Errorf("it says %q, want %q", r.notes, tt.notes)
			}
		})
	}
}

func TestSourcesThatCannotBeReadSayWhy(t *testing.T) {
	parquet, err := os.ReadFile("testdata/als.parquet")
	if err != nil {
		t.Fatal(err)
	}
	arrow, err := os.ReadFile("testdata/als.arrow")
	if err != nil {
		t.Fatal(err)
	}
	const columns = "; the columns are "
	for _, tt := range []struct {
		name, content string
		fields        func([]Field)
		want          string
	}{
		{name: "empty", want: "f: there are no rows to read"},
		{name: "spaces", content: " \n\n", want: "f: there are no rows to read"},
		{name: "ORC", content: "ORC\x00...",
			want: "f: this is ORC; Parquet, Arrow IPC, CSV, TSV and JSONL are read, plain or as .gz or .zst"},
		{name: "JSON array", content: `[{"user":1}]`,
			want: "f: this is a JSON array; one object a line is read (jq -c '.[]' makes that of it)"},
		{name: "binary", content: "ab\x00cd",
			want: "f: this is neither Parquet nor Arrow IPC, and text has no zero bytes"},
		{name: "one column", content: "hello\n",
			want: `f: this looks like text of one column, "hello": expected cells separated by a comma, tab, semicolon or '|'`},
		{name: "broken JSON", content: "{\"user\":\n", want: `f: line 1 is no JSON object: "{\"user\":"`},
		{name: "cut Parquet", content: string(parquet[:2000]),
			want: "f: the file is cut off or damaged: parquet: file is smaller than indicated metadata size"},
		{name: "cut Arrow", content: string(arrow[:2000]),
			want: "f: the file is cut off or damaged: unexpected EOF"},
		{name: "cut gzip", content: "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x33",
			want: "f: the file is cut off or damaged: unexpected EOF"},
		{name: "cut gzip header", content: "\x1f\x8b\x08\x00",
			want: "f: the file is cut off or damaged: unexpected EOF"},
		{name: "broken zstd", content: "\x28\xb5\x2f\xfd\x01\x50\x07",
			want: "f: the file is cut off or damaged: unknown dictionary"},
		{name: "zstd with a large window", content: "\x28\xb5\x2f\xfd\x00\x90\x19\x00\x00a,b",
			want: "f: the window of zstd is larger than 128 MiB: compress the file with a smaller one"},
		{name: "unknown columns", content: "a,b\n1,2\n",
			want: "f: no column looks like the user: name it with --user-column" + columns +
				"a (text), b (text)"},
		{name: "no items", content: `{"user":1,"x":"y","z":2}`,
			want: "f: no column looks like the item: name it with --item-column or --items-column" + columns +
				"user (numbers), x (strings), z (numbers)"},
		{name: "wrong name", content: "user,item\n1,2\n", fields: func(f []Field) { f[0].Column = "usr" },
			want: "f: --user-column usr: there is no such column" + columns + "user (text), item (text)"},
		{name: "wrong list name", content: string(parquet), fields: func(f []Field) {
			f[1].ListColumn = "userId"
		},
			want: "f: --items-column userId: there is no such column of lists" + columns +
				"userId (integer), recommendations.movieId (integer), recommendations.rating (float)"},
		{name: "wrong member", content: string(parquet), fields: func(f []Field) { f[1].Column = "film" },
			want: "f: --item-column film: the structs in recommendations have no such member" + columns +
				"userId (integer), recommendations.movieId (integer), recommendations.rating (float)"},
		{name: "rank of lists", content: `{"user":1,"items":[2],"n":3}`, fields: func(f []Field) {
			f[2].Column = "n"
		},
			want: "f: --rank-column n: lists are taken in their own order, and column items holds lists"},
		{name: "rank that is lists", content: `{"user":1,"items":[2],"n":[3]}`, fields: func(f []Field) {
			f[2].Column = "n"
		},
			want: "f: --rank-column n: the column holds lists, not single values: lists are taken in their " +
				"own order" + columns +
				"user (numbers), items (list of numbers), n (list of numbers)"},
		{name: "users that are lists", content: `{"user":1,"items":[2],"n":[3]}`, fields: func(f []Field) {
			f[0].Column = "n"
		},
			want: "f: --user-column n: the column holds lists, not single values" + columns +
				"user (numbers), items (list of numbers), n (list of numbers)"},
		{name: "wrong item beside lists", content: `{"user":1,"items":[2]}`, fields: func(f []Field) {
			f[1].Column = "film"
		},
			want: "f: --item-column film: there is no such column of single values, and the lists in items " +
				"have no members" + columns +
				"user (numbers), items (list of numbers)"},
		{name: "no single values", content: `{"user":{"id":1},"item":[[2]],"n":true,"m":null}`,
			want: "f: no column looks like the user: name it with --user-column" + columns +
				"user.id (numbers), item (list of lists), n (booleans), m (null)"},
		{name: "without a header", content: "1,ann\n2,bob\n", fields: func(f []Field) {
			f[0].Column = "user"
		},
			want: "f: --user-column user: there is no such column" + columns +
				"1 (text), 2 (text), by their numbers, as there is no header"},
		{name: "no numbers", content: `{"user":1,"item":2,"n":"x"}`, fields: func(f []Field) {
			f[2].Column = "n"
		},
			want: "f: --rank-column n: the column is strings, not numbers" + columns +
				"user (numbers), item (numbers), n (strings)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree(t, "f="+tt.content)
			fields := testFields()
			if tt.fields != nil {
				tt.fields(fields)
			}
			_, err := load(t, Options{}, 0, fields, "f")
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(tt.want, columns) &&
				err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestColumnsByFlag(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		fields     func([]Field)
		want       []string // of user 1
	}{
		{"named", "a,b,c\n1,2,2\n1,3,1\n",
			func(f []Field) { f[0].Column, f[1].Column, f[2].Column = "a", "b", "c" }, []string{"3", "2"}},
		{"numbered", "9;2;1\n8;3;1\n",
			func(f []Field) { f[0].Column, f[1].Column, f[2].Column = "3", "2", "1" }, []string{"3", "2"}},
		{"score", "user,item,s\n1,2,0.5\n1,3,0.75\n1,4,-1\n", func(f []Field) { f[3].Column = "s" },
			[]string{"3", "2", "4"}},
		{"a guess does not take a named column", "user,item,id\n7,2,1\n8,3,1\n",
			func(f []Field) { f[0].Column = "id" }, []string{"2", "3"}},
		{"a member of structs", `{"user":1,"recs":[{"a":5,"b":6}]}`,
			func(f []Field) { f[1].ListColumn, f[1].Column = "recs", "b" }, []string{"6"}},
		{"one of two lists", `{"user":1,"old":[2],"new":[3]}`, func(f []Field) { f[1].ListColumn = "new" },
			[]string{"3"}},
		{"nested", `{"meta":{"user":1},"items":[4]}`, func(f []Field) { f[0].Column = "meta.user" },
			[]string{"4"}},
		{"the only list", `{"user":1,"anything":[4]}`, func([]Field) {}, []string{"4"}},
		{"the one left over is the item", "user_id,book_id,rating\n1,2,3.5\n1,3,4.5\n", func([]Field) {},
			[]string{"3", "2"}},
		{"ranks stay in order of the input when equal", "user,item,rank\n1,2,1\n1,3,1\n1,4,0\n",
			func([]Field) {}, []string{"4", "2", "3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree(t, "f="+tt.text)
			fields := testFields()
			tt.fields(fields)
			r, err := load(t, Options{}, 0, fields, "f")
			if err != nil {
				t.Fatal(err)
			}
			sameLists(t, r.lists, map[string][]string{"1": tt.want})
		})
	}
}

func TestSourcesHaveToAgree(t *testing.T) {
	als, err := filepath.Abs("testdata/als.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		files []string
		want  string
	}{
		{"lists and rows", []string{`a={"user":1,"items":[2]}`, "b=user,item\n1,2\n"},
			"the item is a list in a and a single value in b: name the columns alike"},
		{"rank and none", []string{"a=user,item,rank\n1,2,3\n", "b=user,item\n1,2\n"},
			"the rank is a single value in a and missing in b: name the columns alike"},
		{"numbers and names", []string{`a={"user":"ada","items":[2]}`},
			"the user is a string in a and a number in " + als + ": --user-ids string reads both as strings"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree(t, tt.files...)
			var sources []string
			for _, f := range tt.files {
				name, _, _ := strings.Cut(f, "=")
				sources = append(sources, name)
			}
			if len(sources) == 1 {
				sources = append(sources, als)
			}
			_, err := load(t, Options{}, 0, testFields(), sources...)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	t.Run("a header alone decides nothing", func(t *testing.T) {
		tree(t, "a=user,item\n", "b=user,item\n1,2\n", "c=user,item\n")
		r, err := load(t, Options{}, 0, testFields(), "a", "b", "c")
		if err != nil {
			t.Fatal(err)
		}
		sameLists(t, r.lists, map[string][]string{"1": {"2"}})
		if want := "user from column user (numbers); item from column item (numbers)"; r.notes[0] != want {
			t.Errorf("it says %q, want %q", r.notes[0], want)
		}
	})
	t.Run("text goes along", func(t *testing.T) {
		tree(t, `a={"user":1,"items":[2]}`, `b={"user":"ada","items":[2]}`)
		r, err := load(t, Options{}, 0, testFields(), "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		sameLists(t, r.lists, map[string][]string{"1": {"2"}, "ada": {"2"}})
	})
}

func TestStandardInputIsReadOnce(t *testing.T) {
	_, err := Open(t.Context(), []string{"-", "-"}, Options{Stdin: strings.NewReader("1,2\n")})
	if err == nil || err.Error() != "-: the standard input can be read only once" {
		t.Errorf("got %v", err)
	}
}

// Text is cut into blocks: rows that straddle them, and rows longer than one, come out whole.
func TestRowsAcrossBlocks(t *testing.T) {
	long := strings.Repeat("x", 3*blockSize)
	for name, row := range map[string]func(b *strings.Builder, i string, pad string){
		"csv": func(b *strings.Builder, i, pad string) {
			b.WriteString(i + ",\"a\n" + pad + "\"\"b\"," + i + "\n")
		},
		"jsonl": func(b *strings.Builder, i, pad string) {
			b.WriteString(`{"user":` + i + `,"pad":"` + pad + `","items":[` + i + "]}\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if name == "csv" {
				b.WriteString("user,pad,item\n")
			}
			want := map[string][]string{}
			for i := range 20000 {
				n := strconv.Itoa(i)
				pad := long[:i%97]
				if i%5000 == 4999 {
					pad = long
				}
				row(&b, n, pad)
				want[n] = []string{n}
			}
			row(&b, "no", "")
			tree(t, "f="+b.String())
			fields := testFields()
			fields[0].IDs, fields[1].IDs = Number, Number
			r, err := load(t, Options{}, 1, fields, "f")
			if err != nil {
				t.Fatal(err)
			}
			sameLists(t, r.lists, want)
			line := map[string]string{"csv": "f: row 40002: ", "jsonl": "f: row 20001: "}[name]
			if len(r.bad) != 1 || !strings.HasPrefix(r.bad[0], line) {
				t.Errorf("bad rows %q, want one beginning %q", r.bad, line)
			}
		})
	}
}

// What is read is left alone, whatever it is called.
func TestSourcesAreKept(t *testing.T) {
	for _, name := range []string{"als.parquet", "als.arrow"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), ".weir-1.tmp")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t, Options{}, 0, testFields(), file); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}

func TestColumnsThatHoldNoIDsAreNamed(t *testing.T) {
	dated := ingesttest.Schema(arrow.Field{Name: "user", Type: arrow.FixedWidthTypes.Timestamp_us},
		arrow.Field{Name: "item", Type: &arrow.Decimal128Type{Precision: 18, Scale: 2}},
		arrow.Field{Name: "deep", Type: arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Uint32))},
		arrow.Field{Name: "rank", Type: arrow.PrimitiveTypes.Int32})
	noIDs := ingesttest.Schema(
		arrow.Field{Name: "user", Type: &arrow.Decimal128Type{Precision: 20, Scale: -1}},
		arrow.Field{Name: "item", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "days", Type: arrow.ListOf(arrow.FixedWidthTypes.Date32)})
	ipcFile, parquetFile := ingesttest.Arrow(t, noIDs, "[]"), ingesttest.Parquet(t, dated, "[]")
	for _, tt := range []struct {
		name, want   string
		data         []byte
		user, column string // flags
	}{
		{name: "Parquet, guessed", data: parquetFile,
			want: "f: no column looks like the user: name it with --user-column; the columns are user " +
				"(Timestamp), item (decimal), deep.list.element (list of lists), rank (integer)"},
		{name: "Parquet, by flag", data: parquetFile, user: "rank", column: "item",
			want: "f: --item-column item: the column is decimal, not ids;"},
		{name: "Arrow, guessed", data: ipcFile,
			want: "f: no column looks like the user: name it with --user-column; the columns are user " +
				"(decimal), item (integer), days (list of date32)"},
		{name: "Arrow, by flag", data: ipcFile, user: "user",
			want: "f: --user-column user: the column is decimal, not ids;"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree(t, "f="+string(tt.data))
			fields := testFields()
			fields[0].Column, fields[1].Column = tt.user, tt.column
			_, err := load(t, Options{}, 0, fields, "f")
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestOneColumnIsOneField(t *testing.T) {
	tree(t, "f=user,item,rank\n1,2,3\n")
	fields := testFields()
	fields[0].Column, fields[1].Column = "item", "item"
	_, err := load(t, Options{}, 0, fields, "f")
	if want := "f: column item is given as --user-column and as --item-column"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestFirstRowsMayBeAsLongAsAnyOther(t *testing.T) {
	var ids []string
	for i := range MaxList {
		ids = append(ids, "00000000-0000-4000-8000-"+strconv.Itoa(100000000000+i))
	}
	want := map[string][]string{"1": ids, "2": {"a", "b"}}
	for name, text := range map[string]string{
		"JSON lines": `{"items":["` + strings.Join(ids, `","`) + `"],"user":1}` + "\n" +
			`{"items":["a","b"],"user":2}`,
		"one long line of JSON": `{"user":2,"items":["a","b"]}` + "\n" + `{"user":1,"items":["` +
			strings.Join(ids, `","`) + `"]}` + "\n",
		"CSV with a header":      "user,items\n1," + strings.Join(ids, "|") + "\n2,a|b\n",
		"CSV without a header":   "1," + strings.Join(ids, "|") + "\n2,a|b\n",
		"CSV, a long second row": "user,items\n2,a|b\n1," + strings.Join(ids, "|") + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			tree(t, "f="+text)
			fields := testFields()
			if name == "CSV without a header" {
				fields[1].ListColumn = "2"
			}
			for _, source := range []string{"f", "-"} {
				r, err := load(t, Options{Stdin: strings.NewReader(text)}, 0, fields, source)
				if err != nil {
					t.Fatalf("%s: %v", source, err)
				}
				for user, list := range want {
					if !slices.Equal(r.lists[user], list) {
						t.Errorf("%s: user %s has %d items, want %d", source, user, len(r.lists[user]),
							len(list))
					}
				}
			}
		})
	}
}

func TestListsMayBeEmptyForALongTime(t *testing.T) {
	for name, tt := range map[string]struct{ later, note string }{
		"always": {``, "user from column user (numbers); item from lists of column items (numbers)"},
		"then of numbers": {`{"user":1,"items":[5,6]}`,
			"user from column user (numbers); item from lists of column items (numbers)"},
		"then of objects": {`{"user":1,"items":[{"score":0.5,"itemId":5},{"itemId":6}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rows := 2
			if tt.note != "" {
				rows = 2 * sampleRows
			}
			tree(t, "f="+strings.Repeat(`{"user":2,"items":[]}`+"\n", rows)+tt.later)
			r, err := load(t, Options{}, 0, testFields(), "f")
			if err != nil {
				t.Fatal(err)
			}
			want := map[string][]string{"2": {}}
			if tt.later != "" {
				want["1"] = []string{"5", "6"}
			}
			sameLists(t, r.lists, want)
			if tt.note != "" && !slices.Equal(r.notes, []string{tt.note}) {
				t.Errorf("it says %q, want %q", r.notes, tt.note)
			}
		})
	}
}

func TestHeadersAreRecognised(t *testing.T) {
	for _, tt := range []struct {
		text   string
		header bool
	}{
		{"user,item\nada,tea\n", true},
		{"customer,product\nada,tea\n", true},
		{"Customer ID,Product\nada,tea\n", true},
		{"name,movie_id\nada,tea\n", true},
		{"a,b\n1,2\n", true},
		{"ada,tea\nbob,coffee\n", false},
		{"1,2\n3,4\n", false},
	} {
		tree(t, "f="+tt.text)
		in, err := Open(t.Context(), []string{"f"}, Options{})
		if err != nil {
			t.Fatalf("%q: %v", tt.text, err)
		}
		if got := in.tables[0].columns()[0].name != "1"; got != tt.header {
			t.Errorf("%q: a header %v, want %v", tt.text, got, tt.header)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}
