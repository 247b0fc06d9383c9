package store_test

import (
	"path/filepath"
	"reflect"
	"testing"

	"weir/internal/filter/store"
)

func TestRowsAreWhatFiltersAndSettingsWere(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "db")
	from, to := open(t, filepath.Join(t.TempDir(), "db")), open(t, path)
	kept, changed, removed := filter("https://a.example/"), filter("https://b.example/"), filter("https://c.example/")
	if err := from.Add(ctx, kept, changed); err != nil {
		t.Fatal(err)
	}
	if err := from.Set(ctx, "rules", "{}"); err != nil {
		t.Fatal(err)
	}
	before := changed
	before.Title = "before"
	if err := to.Add(ctx, before, removed); err != nil {
		t.Fatal(err)
	}
	matches := []store.Match{{Rule: 1, At: 2, Items: 3}}
	to.Matched(changed.ID, matches)
	if err := to.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	rows := []store.Row{{Key: removed.ID.String()}}
	for row, err := range from.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := to.Apply(ctx, append(rows, store.Row{Key: "no id", Value: "x"}), "2"); err == nil {
		t.Error("what is no row is applied")
	}
	if position, _ := to.Position(ctx); position != "" {
		t.Errorf("a change that has failed has left the position %q", position)
	}
	if err := to.Apply(ctx, rows, "3"); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	to = open(t, path)
	changed.Matches = matches
	for _, want := range []store.Filter{kept, changed} {
		if got, err := to.Get(ctx, want.ID); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %v, want %+v", got, err, want)
		}
	}
	if _, err := to.Get(ctx, removed.ID); err == nil {
		t.Error("what was removed is there")
	}
	if page, _, err := to.List(ctx, store.Query{Words: []string{"before"}, Limit: 9}); err != nil || len(page) > 0 {
		t.Errorf("found by what it was called before: %v %v", page, err)
	}
	var again []store.Row
	for row := range to.Rows(ctx) {
		again = append(again, row)
	}
	if value, err := to.Setting(ctx, "rules"); err != nil || value != "{}" || len(again) != len(rows)-1 {
		t.Errorf("%q %v, %d rows", value, err, len(again))
	}
	if position, err := to.Position(ctx); err != nil || position != "3" {
		t.Errorf("%q %v", position, err)
	}
	if err := to.Disown(ctx); err != nil {
		t.Fatal(err)
	}
	if position, err := to.Position(ctx); err != nil || position != "" {
		t.Errorf("%q %v", position, err)
	}
}

// FuzzRow: whatever a row says, it is a filter that says the same, or none.
func FuzzRow(f *testing.F) {
	one := filter("https://a.example/").Row()
	f.Add(one.Key, one.Value)
	f.Add(one.Key, "")
	f.Add(one.Key, "1 2 {}")
	f.Add("=rules", "{}")
	f.Add(one.Key, `-1 9223372036854775807 {"urls":["\ud800"],"limit":1e3}`)
	f.Fuzz(func(t *testing.T, key, value string) {
		r := store.Row{Key: key, Value: value}
		got, err := r.Filter()
		if err != nil || got == nil {
			return
		}
		again, err := got.Row().Filter()
		if err != nil || again.Row() != got.Row() {
			t.Errorf("%+v became %+v: %v", got, again, err)
		}
	})
}
