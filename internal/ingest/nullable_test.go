package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

	"weir/internal/ingest/ingesttest"
)

// nullableFields are an item, a segment that may be missing in single rows, and a share from 0 to 1.
func nullableFields() []Field {
	share := func(x float64) bool { return x >= 0 && x <= 1 }
	return []Field{
		{Name: "item", IDs: String, Flag: "--item-column", Guess: []string{"item"}},
		{Name: "segment", IDs: String, Flag: "--segment-column", Guess: []string{"segment"}, Optional: true,
			Nullable: true},
		{Name: "share", Type: Float, Flag: "--share-column", Guess: []string{"share"}, Optional: true,
			Range: share, Ranged: "a share from 0 to 1"},
	}
}

// rowsOf reads one file into lines of item/segment/share, and what was bad.
func rowsOf(t *testing.T, path string) (rows, bad []string) {
	t.Helper()
	return rowsOfFields(t, path, nullableFields())
}

func rowsOfFields(t *testing.T, path string, fields []Field) (rows, bad []string) {
	t.Helper()
	in, err := Open(t.Context(), []string{path}, Options{Note: func(string) {}, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	plan, err := in.Plan(fields)
	if err != nil {
		t.Fatal(err)
	}
	account := Account{Max: 100, Report: func(b BadRow) {
		bad = append(bad, strings.TrimPrefix(b.String(), path+": "))
	}}
	if err := plan.Read(t.Context(), &account, func(b *Batch) error {
		for i := range b.Rows {
			segment, share := "-", "-"
			if plan.Found[1] {
				segment = string(b.Columns[1].String(i))
			}
			if plan.Found[2] {
				share = fmt.Sprint(b.Columns[2].Floats[i])
			}
			if plan.Kinds[0] == Number {
				rows = append(rows, fmt.Sprintf("%d/%s", b.Columns[0].Numbers[i], share))
				continue
			}
			rows = append(rows, fmt.Sprintf("%s/%s/%s", b.Columns[0].String(i), segment, share))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows, bad
}

func TestNullableIDsMayBeMissingInSingleRows(t *testing.T) {
	text := func(name, text string) func(*testing.T, string) string {
		return func(t *testing.T, dir string) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	columns := func(item, segment, share arrow.DataType) *arrow.Schema {
		return ingesttest.Schema(arrow.Field{Name: "item", Type: item},
			arrow.Field{Name: "segment", Type: segment}, arrow.Field{Name: "share", Type: share})
	}
	const share = "share: expected a share from 0 to 1, found "
	const segment = "segment: expected a name of 1 to 255 bytes of UTF-8, found "
	for name, c := range map[string]struct {
		file      func(*testing.T, string) string
		rows, bad []string
	}{
		"CSV": {
			text("a.csv", "item,segment,share\na,young,0.5\nb,,1\nc, ,0\nd,null,1e-3\ne,x,1.5\nf,,-0.1\n"+
				"g,,NaN\nh,,\n,y,0.5\n"),
			[]string{"a/young/0.5", "b//1", "c//0", "d/null/0.001"},
			[]string{"row 6: " + share + `"1.5"`, "row 7: " + share + `"-0.1"`, "row 8: " + share + `"NaN"`,
				"row 9: " + share + `""`,
				`row 10: item: expected a name of 1 to 255 bytes of UTF-8, found ""`},
		},
		"TSV": {text("a.tsv", "item\tsegment\na\t\nb\tyoung\n"), []string{"a//-", "b/young/-"}, nil},
		"JSONL": {
			text("a.jsonl", `{"item":"a","segment":"young","share":0.5}
{"item":"b","segment":null,"share":1}
{"item":"c","share":0}
{"item":"d","segment":"","share":1}
{"item":"e","segment":"null","share":1}
{"item":5,"segment":7,"share":1}
{"item":"f","segment":"x","share":2}
{"item":"g","segment":"x","share":null}
{"item":"h","segment":"x"}
{"item":"i","segment":"x","share":"0.5"}
{"item":null,"segment":"x","share":1}
{"item":"k","segment":true,"share":1}
{"item":"l","segment":{"a":1},"share":1}
{"item":"m","segment":["a"],"share":1}
{"item":"null","segment":"x","share":1}
`),
			[]string{"a/young/0.5", "b//1", "c//0", "d//1", "e/null/1", "5/7/1", "null/x/1"},
			[]string{"row 7: " + share + `"2"`, "row 8: " + share + "null", "row 9: " + share + "nothing",
				"row 10: " + share + `"0.5"`,
				"row 11: item: expected a name of 1 to 255 bytes of UTF-8, found null", "row 12: " + segment +
					"true",
				"row 13: " + segment + `the object "{\"a\":1}"`, "row 14: " + segment + `the list "[\"a\"]"`},
		},
		"no such column": {text("a.csv", "item,share\na,1\n"), []string{"a/-/1"}, nil},
		"Parquet": {
			text("a.parquet", string(
				ingesttest.Parquet(t, columns(arrow.BinaryTypes.String, arrow.BinaryTypes.String,
					arrow.PrimitiveTypes.Float64),
					`[{"item":"a","segment":"young","share":0.5},{"item":"b","share":0.5},{"item":"c","segment":"","share":0.5},{"item":"d","share":2},
				{"item":"e"},{"item":"f","share":"NaN"},{"item":"g","segment":"young","share":0.5}]`))),
			[]string{"a/young/0.5", "b//0.5", "c//0.5", "g/young/0.5"},
			[]string{"row 4: " + share + "2", "row 5: " + share + "null", "row 6: " + share + "NaN"},
		},
		"Parquet of numbers": {
			text("a.parquet", string(
				ingesttest.Parquet(t, columns(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32,
					arrow.PrimitiveTypes.Int64),
					`[{"item":1,"segment":7,"share":1},{"item":2,"share":0},{"item":3,"share":2},{"item":4,"segment":7,"share":-1},
				{"item":-5,"share":1},{"item":6,"segment":-7,"share":1},{"item":7,"share":1}]`))),
			[]string{"1/7/1", "2//0", "7//1"},
			[]string{"row 3: " + share + "2", "row 4: " + share + "-1",
				"row 5: item: expected a name of 1 to 255 bytes of UTF-8, found -5",
				"row 6: " + segment + "-7"},
		},
		"Arrow": {
			text("a.arrows", string(
				ingesttest.Arrow(t, columns(arrow.BinaryTypes.String, arrow.BinaryTypes.String,
					arrow.PrimitiveTypes.Float64),
					`[{"item":"a","segment":"young","share":0.5},{"item":"b","share":1},{"item":"c","segment":"","share":0},{"item":"d","share":-1},
				{"item":"e","segment":"z"}]`))),
			[]string{"a/young/0.5", "b//1", "c//0"},
			[]string{"row 4: " + share + "-1", "row 5: " + share + "null"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows, bad := rowsOf(t, c.file(t, t.TempDir()))
			if !slices.Equal(rows, c.rows) {
				t.Errorf("rows are\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(c.rows, "\n"))
			}
			if !slices.Equal(bad, c.bad) {
				t.Errorf("bad are\n%s\nwant\n%s", strings.Join(bad, "\n"), strings.Join(c.bad, "\n"))
			}
		})
	}
}

func parquetBytes(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.parquet")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
