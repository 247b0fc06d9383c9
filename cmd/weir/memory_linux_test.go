//go:build !race

package main

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"weir/internal/ingest/ingesttest"
)

// The lists below take 50 MB, the users 2 million, and the counters of items all they may.
func TestGenerateNeedsLessThan200MiB(t *testing.T) {
	most(t, 200, "generate", "--users", "2000000", "--items", "5", "--max-item", "16777215", "-o",
		filepath.Join(t.TempDir(), "feeds.weir"))
}

// What the flag allows is half as much again, and 32 MiB. A user with all the rows is what costs most for
// each of them.
func TestImportKeepsToItsMemory(t *testing.T) {
	dir := t.TempDir()
	rows := []byte("user,item,score\n2,1,1\n")
	for i := range int64(4_000_000) {
		rows = append(rows, "1,"...)
		rows = strconv.AppendInt(rows, i*7919%9_999_991, 10)
		rows = strconv.AppendInt(append(rows, ','), i%1000, 10)
		rows = append(rows, '\n')
	}
	source := filepath.Join(dir, "rows.csv")
	if err := os.WriteFile(source, rows, 0o600); err != nil {
		t.Fatal(err)
	}
	most(t, 64+32+32, "import", "--memory", "64MiB", "--max-bad", "1", source, "-o",
		filepath.Join(dir, "feeds.weir"))
}

// What a file of a few KiB unpacks to is bounded as well: lists and pages that need more are refused, or
// are bad rows, and never what ends the process.
func TestImportOfFilesThatUnpackToGigabytesKeepsToItsMemory(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, w io.Writer)
		says string
	}{
		"a list of 120 million items, Parquet": {parquetList(120_000_000, 1<<20),
			"expected a list of at most 65535 ids"},
		"one page of 400 MB, Parquet":        {parquetList(50_000_000, 1<<30), "raise --memory"},
		"a list of 120 million items, Arrow": {arrowList(120_000_000, ipc.WithZstd()), "raise --memory"},
		"a record batch of 121 MiB, Arrow":   {arrowList(121 << 20 / 8), "raise --memory"},
		"a list of 120 million items, JSON": {func(t *testing.T, w io.Writer) {
			z := gzip.NewWriter(w)
			io.WriteString(z, `{"user":1,"items":[7`)
			for range 120 {
				io.WriteString(z, strings.Repeat(",7", 1_000_000))
			}
			if _, err := io.WriteString(z, "]}\n"); err != nil || z.Close() != nil {
				t.Fatal(err)
			}
		}, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			source := filepath.Join(dir, "source")
			f, err := os.Create(source)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			c.make(t, f)
			peak, out, err := runPeak(t, "import", "--memory", "64MiB", source, "-o",
				filepath.Join(dir, "feeds.weir"))
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
				!strings.Contains(out, c.says) {
				t.Errorf("%v: %s, want a refusal that says %q", err, out, c.says)
			}
			if info, err := os.Stat(source); err != nil || peak > 64+32+32 {
				t.Errorf("%v: it needed %d MiB at its peak for %d bytes", err, peak, info.Size())
			}
		})
	}
}

// parquetList returns what writes a list of zeros, in pages of a size.
func parquetList(n int, page int64) func(*testing.T, io.Writer) {
	return func(t *testing.T, w io.Writer) { ingesttest.LongList(t, w, n, 1, compress.Codecs.Zstd, page) }
}

// arrowList returns what writes a list of zeros.
func arrowList(n int, o ...ipc.Option) func(*testing.T, io.Writer) {
	return func(t *testing.T, w io.Writer) {
		types := ingesttest.Schema(arrow.Field{Name: "user", Type: arrow.PrimitiveTypes.Int64},
			arrow.Field{Name: "items", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)})
		users, items := arrow.Int64Traits.CastToBytes([]int64{1}), memory.NewBufferBytes(make([]byte, 8*n))
		list := array.NewData(arrow.PrimitiveTypes.Int64, n, []*memory.Buffer{nil, items}, nil, 0, 0)
		ends := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, int32(n)}))
		record := array.NewRecordBatch(types, []arrow.Array{
			array.NewInt64Data(array.NewData(types.Field(0).Type, 1,
				[]*memory.Buffer{nil, memory.NewBufferBytes(users)}, nil, 0, 0)),
			array.NewListData(array.NewData(types.Field(1).Type, 1, []*memory.Buffer{nil, ends},
				[]arrow.ArrayData{list}, 0, 0)),
		}, 1)
		p := ipc.NewWriter(w, append(o, ipc.WithSchema(types))...)
		if err := errors.Join(p.Write(record), p.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// most runs a command, which may take so many MiB of memory.
func most(t *testing.T, mib int, args ...string) {
	t.Helper()
	peak, out, err := runPeak(t, args...)
	if err != nil || peak > mib {
		t.Errorf("it needed %d MiB at its peak, want at most %d: %v: %s", peak, mib, err, out)
	}
}

// runPeak runs a command, and returns the most memory that it had, in MiB.
func runPeak(t *testing.T, args ...string) (mib int, out string, err error) {
	t.Helper()
	peak := filepath.Join(t.TempDir(), "peak")
	cmd := exec.Command("weir", args...)
	cmd.Env = append(os.Environ(), peakFile+"="+peak)
	said, err := cmd.CombinedOutput()
	data, perr := os.ReadFile(peak)
	kib, aerr := strconv.Atoi(string(data))
	if perr != nil || aerr != nil {
		t.Fatalf("%v, %v: %s", perr, aerr, said)
	}
	t.Logf("peak of %d KiB", kib)
	return (kib + 1023) / 1024, string(said), err
}
