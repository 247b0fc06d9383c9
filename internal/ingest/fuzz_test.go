package ingest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime/metrics"
	"testing"
)

// readAll reads a source as whatever it is. All that is asked of it is to come back, within bounded memory.
func readAll(t *testing.T, open func(Options) (table, error), users Kind) {
	allocs := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(allocs)
	before := allocs[0].Value.Uint64()
	defer func() {
		if metrics.Read(allocs); allocs[0].Value.Uint64()-before > 8*least {
			t.Errorf("it takes %d MiB", (allocs[0].Value.Uint64()-before)>>20)
		}
	}()
	o := Options{Memory: least, Note: func(string) {}}
	var source table
	err := newBudget(o, 1).try(func() (err error) {
		source, err = open(o)
		return err
	})
	if err != nil || len(source.columns()) == 0 {
		return
	}
	in := &Input{Sources: []string{"fuzzed"}, options: o, tables: []table{source}}
	fields := testFields()
	fields[0].IDs = users
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

// memoryFile is a file in memory.
type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

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
		readAll(t, func(o Options) (table, error) {
			return openParquet(memoryFile{bytes.NewReader(data)}, int64(len(data)), o)
		}, Kind(users%3))
	})
}

func FuzzArrow(f *testing.F) {
	addFixtures(f, "*.arrow", "*.arrows")
	f.Fuzz(func(t *testing.T, data []byte, users byte) {
		readAll(t, func(o Options) (table, error) {
			file := bytes.HasPrefix(data, []byte(arrowMagic))
			return openArrow(data, file, o, func() (*stream, error) { return fuzzedStream(t, data) })
		}, Kind(users%3))
	})
}

func fuzzedStream(t *testing.T, data []byte) (*stream, error) {
	return newStream(t.Context(), io.NopCloser(bytes.NewReader(data)))
}

func FuzzText(f *testing.F) {
	for _, t := range textFixtures() {
		f.Add(t.data, byte(0))
		f.Add(t.data[:min(len(t.data), 200)], byte(Number))
	}
	f.Add([]byte("user,items\n\"a\"\"b\",\"[1, 2]\"\n\"open,1\n"), byte(String))
	f.Add([]byte(`{"input":{"userId":"1"},"output":null,"error":{"a":[1,{}]}}`+"\n"), byte(Number))
	f.Fuzz(func(t *testing.T, data []byte, users byte) {
		readAll(t, func(o Options) (table, error) {
			open := func() (*stream, error) { return fuzzedStream(t, data) }
			switch format, err := detect(data); {
			case err != nil:
				return nil, err
			case format == formatJSONL:
				return openJSONL(data, true, open)
			case format == formatCSV:
				return openCSV(data, true, open, nil)
			}
			return emptyTable{}, nil
		}, Kind(users%3))
	})
}
