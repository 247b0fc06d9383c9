package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestRowsKnowTheirNumbers(t *testing.T) {
	for name, text := range map[string]string{
		"rows.csv": "item,alpha\na,1\n\nb,x\nc,3\n\"d\nd\",4\ne,5\n",
		"rows.jsonl": "\n{\"item\":\"a\",\"alpha\":1}\n\n{\"item\":\"b\"}\n{\"item\":\"c\",\"alpha\":3}\n" +
			"nonsense\n{\"item\":\"e\",\"alpha\":5}\n",
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		in, err := Open(t.Context(), []string{path}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		plan, err := in.Plan([]Field{{Name: "item", IDs: String, Guess: []string{"item"}},
			{Name: "alpha", Type: Float, Guess: []string{"alpha"}}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := plan.Read(t.Context(), &Account{Max: 10}, func(b *Batch) error {
			for i := range b.Rows {
				got = append(got, fmt.Sprintf("%d %s", b.Number(i), b.Columns[0].String(i)))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := []string{"2 a", "5 c", "6 d\nd", "8 e"}
		if name == "rows.jsonl" {
			want = []string{"2 a", "5 c", "7 e"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestRowsOfColumnsKnowTheirNumbersWithoutBadOnes(t *testing.T) {
	b := &Batch{first: 101, Rows: 8}
	b.Columns = []Column{{Numbers: []uint64{101, 102, 103, 104, 105, 106, 107, 108}}}
	for _, row := range []int{4, 0, 3, 7} {
		b.reject(row, badValue{}, &Field{}, "")
	}
	b.drop()
	if b.Rows != 4 {
		t.Fatalf("%d rows are left", b.Rows)
	}
	for i := range b.Rows {
		if got, want := b.Number(i), int64(b.Columns[0].Numbers[i]); got != want {
			t.Errorf("row %d is number %d, want %d", i, got, want)
		}
	}
}
