package bandit

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/zstd"

	"weir/internal/bandit/arms"
	"weir/internal/ingest"
	"weir/internal/ingest/ingesttest"
)

// importOptions are those of the command without flags.
func importOptions(t testing.TB) ImportOptions {
	return ImportOptions{Prior: [2]float64{1, 1}, Ingest: ingest.Options{TempDir: t.TempDir(),
		Note: func(string) {}}}
}

// imported writes sources, whose names are in order, and imports them.
func imported(t *testing.T, o ImportOptions, sources map[string][]byte) (path string,
	stats ImportStats, err error) {
	t.Helper()
	dir := t.TempDir()
	var names []string
	for name, data := range sources {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	path = filepath.Join(dir, "arms.weir")
	stats, err = ImportArms(t.Context(), names, path, o)
	return path, stats, err
}

func TestEveryKindOfSourceGivesTheSameFile(t *testing.T) {
	want := filepath.Join(t.TempDir(), "want.weir")
	writeArms(t, want, []arm{{item: "a", alpha: 2, beta: 3}, {item: "7", alpha: 4.5, beta: 1},
		{segment: "young", item: "a", alpha: 20, beta: 30},
		{user: "u1", item: "7", alpha: 1, beta: 1e-3}, {user: "5", item: "a", alpha: 6, beta: 1e9}}, "u1",
		"young", "5", "old")
	wanted, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	text := "item,segment,user,alpha,beta\na,,,2,3\n7,,,4.5,1\na,young,,20,30\n7,,u1,1,1e-3\na,,5,6,1e9\n"
	users := []byte("user,segment\nu1,young\n5,old\n")

	var zipped, squeezed bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	gz.Write([]byte(text)) //nolint:errcheck // to memory
	gz.Close()             //nolint:errcheck // as above
	zst, err := zstd.NewWriter(&squeezed)
	if err != nil {
		t.Fatal(err)
	}
	zst.Write([]byte(text)) //nolint:errcheck // to memory
	zst.Close()             //nolint:errcheck // as above
	schema := ingesttest.Schema(arrow.Field{Name: "item", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "segment", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "user", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "alpha", Type: arrow.PrimitiveTypes.Float64},
		arrow.Field{Name: "beta", Type: arrow.PrimitiveTypes.Float64})
	const rows = `[{"item":"a","alpha":2,"beta":3},{"item":"7","user":"","alpha":4.5,"beta":1},{"item":"a","segment":"young","alpha":20,"beta":30},
		{"item":"7","user":"u1","alpha":1,"beta":1e-3},{"item":"a","user":"5","alpha":6,"beta":1e9}]`

	for name, source := range map[string][]byte{
		"csv": []byte(text), "tsv": []byte(strings.ReplaceAll(text, ",", "\t")), "gz": zipped.Bytes(),
		"zst": squeezed.Bytes(), "parquet": ingesttest.Parquet(t, schema, rows),
		"arrows": ingesttest.Arrow(t, schema, rows),
		"jsonl": []byte(`{"item":"a","alpha":2,"beta":3}
{"item":7,"alpha":4.5,"beta":1,"segment":null}
{"item":"a","segment":"young","alpha":20,"beta":30}
{"item":"7","user":"u1","alpha":1,"beta":0.001,"segment":""}
{"item":"a","user":5,"alpha":6,"beta":1e9}`),
	} {
		t.Run(name, func(t *testing.T) {
			path, stats, err := imported(t, importOptions(t),
				map[string][]byte{"1." + name: source, "2.csv": users})
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, wanted) {
				t.Errorf("another file: %v", err)
			}
			stats.Bytes = 0
			if want := (ImportStats{arms.Stats{Arms: 5, SegmentArms: 1, UserArms: 2, Users: 2, Segments: 2},
				7, 0}); !reflect.DeepEqual(stats, want) {
				t.Errorf("%+v, want %+v", stats, want)
			}
		})
	}
}

func TestWhatWasImportedIsServed(t *testing.T) {
	path, _, err := imported(t, importOptions(t), map[string][]byte{
		"items.csv":    []byte("item,clicks,impressions\na,1,4\nb,0,0\n18446744073709551615,5,5\n"),
		"segments.csv": []byte("item,segment,alpha,beta\na,young,20,30\nonly here,young,7,8\n"),
		"users.csv":    []byte("user,segment\nu1,young\n7,old\n"),
		"wins.jsonl":   []byte(`{"user":7,"item":"a","clicks":2,"impressions":2}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, t.TempDir(), func(c *Config) { c.Arms = path })
	for _, c := range []struct {
		user, item  string
		alpha, beta float64
		from        source
	}{
		{"", "a", 2, 4, fromItem}, {"", "b", 1, 1, fromItem}, {"", "18446744073709551615", 6, 1, fromItem},
		{"", "only here", 1, 1, fromPrior},
		{"u1", "a", 20, 30, fromSegment}, {"u1", "only here", 7, 8, fromSegment}, {"u1", "b", 1, 1, fromItem},
		{"7", "a", 3, 1, fromPair}, {"7", "only here", 1, 1, fromPrior},
	} {
		sc := f.getScratch()
		var user []byte
		if c.user != "" {
			user = []byte(c.user)
		}
		if !f.lookUp(sc, user, nil, []arms.Key{arms.KeyOf([]byte(c.item))}, nil) || sc.alpha[0] != c.alpha ||
			sc.beta[0] != c.beta || sc.source[0] != c.from {
			t.Errorf("user %q, item %s: %v %v of %s, want %v %v of %s", c.user, c.item, sc.alpha[0],
				sc.beta[0], sourceNames[sc.source[0]], c.alpha, c.beta, sourceNames[c.from])
		}
		f.putScratch(sc)
	}
}

func TestAnImportThatIsCalledOffLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	source, path := filepath.Join(dir, "a.csv"), filepath.Join(dir, "arms.weir")
	for name, text := range map[string]string{source: "item,alpha,beta\na,1,1\n", path: "old"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := importOptions(t)
	if _, err := ImportArms(ctx, []string{source}, path, o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if old, err := os.ReadFile(path); err != nil || string(old) != "old" {
		t.Errorf("%q %v", old, err)
	}
	for _, dir := range []string{dir, o.Ingest.TempDir} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".tmp") {
				t.Errorf("%s is left over", e.Name())
			}
		}
	}
}

func TestAnImportSaysHowFarItIs(t *testing.T) {
	o := importOptions(t)
	phases := make(map[string]int)
	o.Progress = func(phase string, rows, done, total int64) {
		phases[phase]++
		if phase == "writing" && (done > total || total < 1000) {
			t.Errorf("%s: %d of %d", phase, done, total)
		}
	}
	text := []byte("item,segment,alpha,beta\n")
	for i := range 1000 {
		text = append(append(text, "item"...), []byte{byte('a' + i%26), byte('a' + i/26%26),
			byte('a' + i/676), ',', 's', ',', '1', ',', '1', '\n'}...)
	}
	if _, _, err := imported(t, o, map[string][]byte{"a.csv": text}); err != nil {
		t.Fatal(err)
	}
	if phases["reading"] == 0 || phases["writing"] == 0 {
		t.Errorf("%v", phases)
	}
}

func TestAnImportWithoutArmsIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		sources map[string][]byte
		maxBad  int64
		says    string // "" is good
	}{
		"no rows": {map[string][]byte{"a.csv": []byte("item,alpha,beta\n")}, 0,
			"no arms to import: 0 rows were read and 0 of them were bad"},
		"no rows beside users": {map[string][]byte{"a.csv": []byte("item,alpha,beta\n"),
			"b.csv": []byte("user,segment\nu,s\n")}, 0, "no arms to import: 1 rows were read"},
		"bad rows": {map[string][]byte{"a.csv": []byte("item,alpha,beta\na,0,1\n,1,1\n")}, 9,
			"no arms to import: 2 rows were read and 2 of them were bad"},
		"users of no segment": {map[string][]byte{"a.csv": []byte("user,segment\nu,\n")}, 0,
			"no arms to import"},
		"users": {map[string][]byte{"a.csv": []byte("user,segment\nu,s\n")}, 0, ""},
		"more clicks than shown": {map[string][]byte{"a.csv": []byte(
			"item,clicks,impressions\na,1,1\nb,2,1.5\n")}, 0,
			"at most as many clicks as impressions, found 2 clicks and 1.5 impressions"},
		"as many": {map[string][]byte{"a.csv": []byte("item,clicks,impressions\na,1,1\nb,2,2\n")}, 0, ""},
	} {
		o := importOptions(t)
		o.MaxBad = c.maxBad
		path, _, err := imported(t, o, c.sources)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) ||
			strings.HasPrefix(c.says, "no arms") && !errors.Is(err, ErrNoArms) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if _, err := os.Stat(path); (err == nil) != (c.says == "") {
			t.Errorf("%s: there is a file: %v", name, err)
		}
	}
}

// A column that has the name and no numbers is what somebody has to be told of, and what is in it.
func TestPosteriorsThatAreNoNumbersAreNamed(t *testing.T) {
	item, alpha := arrow.Field{Name: "item", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "alpha", Type: arrow.FixedWidthTypes.Boolean}
	inParquet := ingesttest.Parquet(
		t, ingesttest.Schema(item, alpha,
			arrow.Field{Name: "beta", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32)}), "[]")
	inArrow := ingesttest.Arrow(t, ingesttest.Schema(item, alpha,
		arrow.Field{Name: "beta",
			Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Float64})}), "[]")
	const together, both, number = "alpha and beta go together", "clicks and impressions go together",
		"expected a finite number above 0, found "
	for _, c := range []struct {
		file string
		data []byte
		says []string
	}{
		{"a.jsonl", []byte(`{"item":"a","alpha":true,"beta":1}`),
			[]string{together, "column alpha (booleans) cannot be the alpha, expected numbers; the columns " +
				"are item (strings), alpha (booleans), beta (numbers)"}},
		{"a.jsonl", []byte(`{"item":"a","alpha":1,"beta":[2]}`),
			[]string{together, "column beta (list of numbers) cannot be the beta, expected numbers; "}},
		{"a.jsonl", []byte(`{"item":"a","alpha":1,"b":{"x":2}}`),
			[]string{together, "column b (object) cannot be the beta, expected numbers; "}},
		{"a.jsonl", []byte(`{"item":"a","alpha":1,"beta":null}`),
			[]string{together, "column beta (null) cannot be the beta, expected numbers; "}},
		{"a.jsonl", []byte(`{"item":"a","successes":false,"trials":2}`),
			[]string{both, "column successes (booleans) cannot be the clicks, expected numbers; "}},
		{"a.jsonl", []byte(`{"item":false,"alpha":1,"beta":2}`), []string{"no column looks like the item",
			"column item (booleans) cannot be the item, expected ids; "}},
		{"a.jsonl",
			[]byte("{\"item\":\"a\",\"alpha\":1,\"beta\":2}\n{\"item\":\"b\",\"alpha\":true,\"beta\":2}\n"),
			[]string{"row 2: alpha: " + number + "true "}},
		{"a.jsonl",
			[]byte("{\"item\":\"a\",\"alpha\":1,\"beta\":2}\n{\"item\":\"b\",\"alpha\":1,\"beta\":[2]}\n"),
			[]string{"row 2: beta: " + number + `the list "[2]"`}},
		{"a.jsonl",
			[]byte("{\"item\":\"a\",\"alpha\":1,\"beta\":2}\n{\"item\":\"b\",\"alpha\":{},\"beta\":2}\n"),
			[]string{"row 2: alpha: " + number + `the object "{}"`}},
		{"a.csv", []byte("a,1,2\nb,3,4\n"),
			[]string{"no column looks like the item: name it with --item-column",
				"; the columns are 1 (text), 2 (text), 3 (text), by their numbers, as there is no header"}},
		{"a.parquet", inParquet, []string{"column alpha (BOOLEAN) cannot be the alpha, expected numbers; " +
			"column beta (list of integer) cannot be the beta, expected numbers; "}},
		{"a.arrows", inArrow, []string{"column alpha (bool) cannot be the alpha, expected numbers; column " +
			"beta (object) cannot be the beta, expected numbers; "}},
	} {
		_, _, err := imported(t, importOptions(t), map[string][]byte{c.file: c.data})
		for _, says := range append(c.says, c.file+": ") {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v\nwant %s", c.data[:min(60, len(c.data))], err, says)
			}
		}
	}
}

func TestPosteriorsMayBeWrittenAsText(t *testing.T) {
	want, _, err := imported(t, importOptions(t),
		map[string][]byte{"a.csv": []byte("item,segment,alpha,beta\na,,1.5,2\nb,,0.25,1e3\na,young,4,5\n")})
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	table := func(write func(testing.TB, *arrow.Schema, string) []byte, a, b string,
		rows ...[3]string) []byte {
		schema := ingesttest.Schema(arrow.Field{Name: "item", Type: arrow.BinaryTypes.String},
			arrow.Field{Name: a, Type: arrow.BinaryTypes.LargeString},
			arrow.Field{Name: b, Type: arrow.BinaryTypes.String})
		var objects []string
		for _, row := range rows {
			objects = append(objects, fmt.Sprintf(`{"item":%q,%q:%q,%q:%q}`, row[0], a, row[1], b, row[2]))
		}
		return write(t, schema, "["+strings.Join(objects, ",")+"]")
	}
	stream := func(rows ...[3]string) []byte { return table(ingesttest.Arrow, "alpha", "beta", rows...) }
	byShape := func(rows ...[3]string) []byte { return table(ingesttest.Parquet, "alpha", "beta", rows...) }
	byCount := func(rows ...[3]string) []byte {
		return table(ingesttest.Parquet, "clicks", "impressions", rows...)
	}
	young := []byte("item,segment,alpha,beta\na,young,4,5\n")
	for name, c := range map[string]struct {
		data  []byte
		prior [2]float64
		says  string // "" is good
	}{
		"shapes.parquet": {byShape([3]string{"a", "1.5", " 2 "}, [3]string{"b", "0.25", "1e3"}),
			[2]float64{1, 1}, ""},
		"counts.parquet": {byCount([3]string{"a", "1.25", "2.25"}, [3]string{"b", "0", "999.0"}),
			[2]float64{0.25, 1}, ""},
		"shapes.jsonl": {[]byte(`{"item":"a","alpha":"1.5","beta":"2"}` + "\n" +
			`{"item":"b","alpha":"0.25","beta":1e3}`), [2]float64{1, 1}, ""},
		"digits.jsonl": {[]byte(`{"item":"a","alpha":"1.5","beta":"2"}` + "\n" +
			`{"item":"b","alpha":0.25,"beta":"1000"}`), [2]float64{1, 1}, ""},
		"counts.jsonl": {[]byte(`{"item":"a","clicks":"1.25","impressions":"2"}` + "\n" +
			`{"item":"b","clicks":"0","impressions":"998.75"}`), [2]float64{0.25, 1.25}, ""},
		"shapes.arrows": {stream([3]string{"a", "1.5", "2"}, [3]string{"b", "0.25", "1e3"}),
			[2]float64{1, 1}, ""},
		"no number.arrows": {stream([3]string{"a", "1.5", "2"}, [3]string{"b", "0.25", "x"}),
			[2]float64{1, 1}, `no number.arrows: row 2: beta: expected a finite number above 0, found "x"`},
		"words.parquet": {byShape([3]string{"a", "1.5", "2"}, [3]string{"b", "many", "2"}), [2]float64{1, 1},
			`words.parquet: row 2: alpha: expected a finite number above 0, found "many"`},
		"empty.parquet": {byShape([3]string{"a", "", "2"}), [2]float64{1, 1},
			`empty.parquet: row 1: alpha: expected a finite number above 0, found ""`},
		"words.jsonl": {[]byte(`{"item":"a","alpha":"1.5","beta":"2"}` + "\n" +
			`{"item":"b","alpha":"1","beta":"2,5"}`), [2]float64{1, 1},
			`words.jsonl: row 2: beta: expected a finite number above 0, found "2,5"`},
		"less.parquet": {byCount([3]string{"a", "-1", "2"}), [2]float64{1, 1},
			`less.parquet: row 1: clicks: expected a finite number, 0 or above, found "-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			o := importOptions(t)
			o.Prior = c.prior
			path, _, err := imported(t, o, map[string][]byte{name: c.data, "young.csv": young})
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %s", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, wanted) {
				t.Errorf("another file: %v", err)
			}
		})
	}
}

func TestColumnsThatAreOfNoUseMayHoldAnything(t *testing.T) {
	want, _, err := imported(t, importOptions(t),
		map[string][]byte{"a.csv": []byte("item,alpha,beta\na,2,3\n")})
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"one of a pair.csv":   "item,alpha,beta,shown\na,2,3,yesterday\n",
		"one of a pair.jsonl": `{"item":"a","alpha":2,"beta":3,"shown":"yesterday"}`,
		"the other pair.jsonl": `{"item":"a","alpha":2,"beta":3,"clicks":null,"impressions":"?","views":1}` +
			"\n",
		"letters.jsonl":         `{"item":"a","a":"red","b":"blue","clicks":1,"impressions":3}`,
		"one letter.csv":        "item,a,clicks,impressions\na,red,1,3\n",
		"letters in words.json": `{"item":"a","a":2,"b":3,"clicks":"red"}`,
	} {
		t.Run(name, func(t *testing.T) {
			o := importOptions(t)
			var notes []string
			o.Ingest.Note = func(s string) { notes = append(notes, s) }
			path, _, err := imported(t, o, map[string][]byte{name: []byte(text)})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, wanted) {
				t.Errorf("another file: %v", err)
			}
			if len(notes) != 1 || strings.Count(notes[0], "from column") != 3 {
				t.Errorf("%q", notes)
			}
		})
	}
}

// In JSON lines what a row has is said by the row: a segment may be named for the first time after any
// number of others.
func TestScopesMayBeNamedForTheFirstTimeInAnyRow(t *testing.T) {
	const rows = 500 // columns are learned from fewer
	items := func(more string) []byte {
		return []byte(strings.Repeat(`{"item":"a","alpha":1,"beta":1`+more+"}\n", rows))
	}
	tests := []struct {
		name    string
		head    []byte
		tail    string
		columns string // that are named
		counts  string
	}{
		{"left out", items(""), `{"item":"a","alpha":2,"beta":2,"segment":"s"}` + "\n" +
			`{"item":"b","alpha":2,"beta":2,"User_ID":7}`, "", "3 1 1 0"},
		{"null", items(`,"segment":null,"user":null`), `{"item":"a","alpha":2,"beta":2,"segment":"s"}` +
			"\n" + `{"item":"b","alpha":2,"beta":2,"user":7}`, "", "3 1 1 0"},
		{"named", items(""), `{"item":"a","alpha":2,"beta":2,"of":{"s":"s"}}`, "of.s", "2 1 0 0"},
		{"named and null", items(`,"x":null`), `{"item":"a","alpha":2,"beta":2,"x":"s"}`, "x", "2 1 0 0"},
		{"users", []byte(strings.Repeat(`{"user":"u","segment":null}`+"\n", rows)),
			`{"user":"v","segment":"s"}`, "", "0 0 0 1"},
	}
	for _, test := range tests {
		o := importOptions(t)
		o.SegmentColumn, o.Duplicates = test.columns, arms.Last
		_, stats, err := imported(t, o, map[string][]byte{"a.jsonl": append(test.head, test.tail...)})
		if got := fmt.Sprint(stats.Arms, stats.SegmentArms, stats.UserArms, stats.Users); err != nil ||
			got != test.counts {
			t.Errorf("%s: %s in all, of segments, of users, and users, %v; want %s", test.name, got, err,
				test.counts)
		}
	}

	o := importOptions(t)
	o.SegmentColumn = "sgement"
	if _, _, err := imported(t, o,
		map[string][]byte{"a.jsonl": []byte(`{"item":"a","alpha":1,"beta":1}`)}); err == nil ||
		!strings.Contains(err.Error(), "--segment-column sgement: no source has such a column") {
		t.Errorf("a name that is nowhere: %v", err)
	}
}

func TestFilesOfADirectoryMayLackScopesAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.jsonl": `{"item":"a","alpha":1,"beta":2}`,
		"b.jsonl": `{"item":"a","segment":"s","alpha":1,"beta":2}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "arms.weir")
	stats, err := ImportArms(t.Context(), []string{dir}, path, importOptions(t))
	if err != nil || stats.Arms != 2 || stats.SegmentArms != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.csv"), []byte("user,segment\nu,s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = ImportArms(t.Context(), []string{dir}, path, importOptions(t)); err == nil ||
		!strings.Contains(err.Error(), "as a source of its own") {
		t.Errorf("users among arms: %v", err)
	}
}
