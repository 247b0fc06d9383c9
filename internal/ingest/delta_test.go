package ingest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// deltaFile writes rows of a name and an item in a delta encoding.
func deltaFile(t *testing.T, rows int, encoding parquet.Encoding, version parquet.DataPageVersion) []byte {
	t.Helper()
	var b bytes.Buffer
	name := schema.NewByteArrayNode("user", parquet.Repetitions.Optional, -1)
	root := group("root", required, name, int64Node("item", required)).(*schema.GroupNode)
	w := file.NewParquetWriter(&b, root,
		file.WithWriterProps(parquet.NewWriterProperties(parquet.WithDictionaryDefault(false),
			parquet.WithDataPageVersion(version), parquet.WithEncodingFor("user", encoding),
			parquet.WithEncodingFor("item", parquet.Encodings.DeltaBinaryPacked))))
	group, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	names, items, defined := make([]parquet.ByteArray, rows), make([]int64, rows), make([]int16, rows)
	for i := range rows {
		names[i], items[i], defined[i] = fmt.Appendf(nil, "user %0*d", i%7, i), int64(i*i%9973), 1
	}
	column, err := group.NextColumn()
	if err == nil {
		_, err = column.(*file.ByteArrayColumnChunkWriter).WriteBatch(names, defined, nil)
	}
	if err == nil {
		err = column.Close()
	}
	if err == nil {
		column, err = group.NextColumn()
	}
	if err == nil {
		_, err = column.(*file.Int64ColumnChunkWriter).WriteBatch(items, nil, nil)
	}
	if err == nil {
		err = column.Close()
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPagesOfDeltasAreReadUnlessTheirBlocksAreTooLarge(t *testing.T) {
	for _, encoding := range []parquet.Encoding{parquet.Encodings.DeltaByteArray,
		parquet.Encodings.DeltaLengthByteArray} {
		for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
			for _, rows := range []int{1, 2, 31, 33, 128, 129, 130, 5000} {
				data := deltaFile(t, rows, encoding, version)
				n := 0
				if err := read(t, Options{Stdin: bytes.NewReader(data)},
					func(b *Batch) { n += b.Rows }); err != nil || n != rows {
					t.Errorf("%v, version %d: %d of %d rows, %v", encoding, version, n, rows, err)
				}
			}
		}
	}
}

func TestBlocksOfDeltasAreBounded(t *testing.T) {
	header := func(numbers ...uint64) (b []byte) {
		for _, x := range numbers {
			b = binary.AppendUvarint(b, x)
		}
		return b
	}
	if rest, err := skipDeltas(append(header(128, 4, 1, 7), 9), true); err != nil || len(rest) != 1 {
		t.Errorf("one value: %v %v", rest, err)
	}
	for _, b := range [][]byte{header(1<<32-128, 1, 3, 0), header(0, 1, 3, 0), header(128, 0, 3, 0),
		header(128, 256, 3, 0)} {
		if _, err := skipDeltas(b, false); err != errDelta {
			t.Errorf("% x: got %v", b, err)
		}
	}
	pages := &boundedPages{memory: newBudget(Options{Memory: least}, 4)}
	err := pages.check(file.NewDataPageV1(nil, 1<<30, parquet.Encodings.DeltaLengthByteArray, 0, 0, 0))
	if err = pages.memory.explain(err); err == nil || !strings.Contains(err.Error(), "raise --memory") {
		t.Errorf("a page of 2^30 values: %v", err)
	}
}
