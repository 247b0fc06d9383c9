package ingest

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lz4Lists are what lz4.parquet and lz4_v2.parquet hold, see testdata/make.py.
func lz4Lists() map[string][]string {
	rows := make([]int, 2000)
	for i := range rows {
		rows[i] = i
	}
	slices.SortFunc(rows, func(a, b int) int { return -cmp.Compare(a*1583%2003, b*1583%2003) })
	lists := map[string][]string{}
	for _, i := range rows {
		user := fmt.Sprint(i % 50)
		lists[user] = append(lists[user], fmt.Sprint(i*2654435761%1099511627689))
	}
	return lists
}

func TestPagesOfLZ4AreDecompressed(t *testing.T) {
	for _, name := range []string{"lz4.parquet", "lz4_v2.parquet"} {
		for range 5 { // buffers that are used again hold what looks right
			r, err := load(t, Options{}, 0, testFields(), filepath.Join("testdata", name))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			sameLists(t, r.lists, lz4Lists())
		}
	}
}

func TestBrokenPagesOfLZ4AreRefused(t *testing.T) {
	for _, name := range []string{"lz4.parquet", "lz4_v2.parquet"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		clear(data[1000:1200])
		_, err = load(t, Options{Stdin: bytes.NewReader(data)}, 0, testFields(), "-")
		if err == nil || !strings.Contains(err.Error(), "lz4") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
