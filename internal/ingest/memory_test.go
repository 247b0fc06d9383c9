package ingest

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"weir/internal/ingest/ingesttest"
)

const least = 64 << 20 // of --memory

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestPagesThatNeedMoreThanTheMemoryAreRefused(t *testing.T) {
	for name, codec := range map[string]compress.Compression{"zstd": compress.Codecs.Zstd,
		"gzip": compress.Codecs.Gzip, "Brotli": compress.Codecs.Brotli} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			ingesttest.LongList(t, &b, 8<<20, 1, codec, 1<<30)
			data := b.Bytes()
			if len(data) > 1<<20 {
				t.Fatalf("the file has %d bytes", len(data))
			}
			var err error
			n := allocated(func() {
				_, err = load(t, Options{Stdin: bytes.NewReader(data), Memory: least}, 0, testFields(), "-")
			})
			const want = "standard input: a page or record batch needs a buffer of "
			if err == nil || !strings.HasPrefix(err.Error(), want) ||
				!strings.Contains(err.Error(), "raise --memory") {
				t.Errorf("got %v, want %s", err, want)
			}
			if n > least {
				t.Errorf("it takes %d MiB", n>>20)
			}
		})
	}
}

func TestAListThatIsTooLongIsABadRowInLittleMemory(t *testing.T) {
	var b bytes.Buffer
	ingesttest.LongList(t, &b, 20<<20, 3, compress.Codecs.Snappy, 1<<20)
	data := b.Bytes()
	var r result
	var err error
	n := allocated(func() {
		r, err = load(t, Options{Stdin: bytes.NewReader(data), Memory: least}, 1, testFields(), "-")
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "standard input: row 1: item: expected a list of at most 65535 ids, found more than that"
	if len(r.bad) != 1 || r.bad[0] != want {
		t.Errorf("bad rows %q, want %q", r.bad, want)
	}
	sameLists(t, r.lists, map[string][]string{"2": {"5"}, "3": {"5"}})
	if n > least {
		t.Errorf("it takes %d MiB", n>>20)
	}
}

// read reads standard input.
func read(t *testing.T, o Options, use func(*Batch)) error {
	t.Helper()
	in, err := Open(t.Context(), []string{"-"}, o)
	if err != nil {
		return err
	}
	defer in.Close()
	plan, err := in.Plan(testFields())
	if err != nil {
		return err
	}
	return plan.Read(t.Context(), &Account{}, func(b *Batch) error {
		use(b)
		return nil
	})
}

func TestRecordBatchesThatNeedMoreThanTheMemoryAreRefused(t *testing.T) {
	types := arrow.NewSchema([]arrow.Field{{Name: "user", Type: arrow.PrimitiveTypes.Int64},
		{Name: "item", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, types)
	zeros := make([]int64, 4<<20)
	b.Field(0).(*array.Int64Builder).AppendValues(zeros, nil)
	b.Field(1).(*array.Int64Builder).AppendValues(zeros, nil)
	record := b.NewRecordBatch()
	for _, compressed := range []bool{false, true} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("compressed %v, stream %v", compressed, stream), func(t *testing.T) {
				var out bytes.Buffer
				options := []ipc.Option{ipc.WithSchema(types)}
				if compressed {
					options = append(options, ipc.WithZstd())
				}
				var w interface {
					Write(arrow.RecordBatch) error
					Close() error
				} = ipc.NewWriter(&out, options...)
				if !stream {
					var err error
					if w, err = ipc.NewFileWriter(&out, options...); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Write(record); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				_, err := load(t, Options{Stdin: bytes.NewReader(out.Bytes()), Memory: least}, 0,
					testFields(), "-")
				if err == nil || !strings.Contains(err.Error(), "raise --memory") {
					t.Errorf("got %v", err)
				}
				rows := 0
				err = read(t, Options{Stdin: bytes.NewReader(out.Bytes())}, func(b *Batch) { rows += b.Rows })
				if err != nil || rows != len(zeros) {
					t.Errorf("with more memory: %d rows, %v", rows, err)
				}
			})
		}
	}
}
