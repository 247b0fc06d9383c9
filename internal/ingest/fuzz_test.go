package ingest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// readAll reads bytes as whatever they are. All that is asked of it is to come back.
func readAll(t *testing.T, data []byte, users Kind) {
	fields := testFields()
	fields[0].IDs = users
	in, err := Open(t.Context(), []string{"-"}, Options{Stdin: bytes.NewReader(data), TempDir: t.TempDir()})
	if err != nil {
		return
	}
	defer in.Close()
	plan, err := in.Plan(fields)
	if err != nil {
		return
	}
	plan.Read(t.Context(), &Account{Max: 1 << 40}, func(b *Batch) error {
		user, item := &b.Columns[0], &b.Columns[1]
		if user.values() != b.Rows {
			t.Fatalf("%d users in %d rows", user.values(), b.Rows)
		}
		switch {
		case plan.Lists && len(item.Lists) != b.Rows:
			t.Fatalf("%d lists in %d rows", len(item.Lists), b.Rows)
		case plan.Lists && b.Rows > 0 && int(item.Lists[b.Rows-1]) != item.values():
			t.Fatalf("the lists have %d items of %d", item.Lists[b.Rows-1], item.values())
		case !plan.Lists && item.values() != b.Rows:
			t.Fatalf("%d items in %d rows", item.values(), b.Rows)
		}
		for i := range user.Ends {
			if !goodString(user.String(i)) {
				t.Fatalf("user %q", user.String(i))
			}
		}
		return nil
	})
}

// addFixtures seeds a fuzz target with the fixtures of some formats.
func addFixtures(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, byte(0))
			f.Add(data, byte(String))
		}
	}
}

func FuzzParquet(f *testing.F) {
	addFixtures(f, "*.parquet")
	f.Fuzz(func(t *testing.T, data []byte, users byte) {
		if bytes.HasPrefix(data, []byte("PAR1")) {
			readAll(t, data, Kind(users%3))
		}
	})
}

func FuzzArrow(f *testing.F) {
	addFixtures(f, "*.arrow", "*.arrows")
	f.Fuzz(func(t *testing.T, data []byte, users byte) {
		if bytes.HasPrefix(data, []byte("ARROW1")) || bytes.HasPrefix(data, []byte("\xff\xff\xff\xff")) {
			readAll(t, data, Kind(users%3))
		}
	})
}

func FuzzText(f *testing.F) {
	for _, t := range textFixtures() {
		f.Add(t.data, byte(0))
		f.Add(t.data[:min(len(t.data), 200)], byte(Number))
	}
	f.Add([]byte("user,items\n\"a\"\"b\",\"[1, 2]\"\n\"open,1\n"), byte(String))
	f.Add([]byte(`{"input":{"userId":"1"},"output":null,"error":{"a":[1,{}]}}`+"\n"), byte(Number))
	f.Fuzz(func(t *testing.T, data []byte, users byte) { readAll(t, data, Kind(users%3)) })
}
