// Package ingesttest makes Parquet and Arrow for tests, of rows that are written as JSON: an array of
// objects, whose missing members are nulls.
package ingesttest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// Schema returns a schema of columns of which all may be null.
func Schema(columns ...arrow.Field) *arrow.Schema {
	for i := range columns {
		columns[i].Nullable = true
	}
	return arrow.NewSchema(columns, nil)
}

// Parquet returns a file of the rows.
func Parquet(t testing.TB, schema *arrow.Schema, rows string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &b, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err == nil {
		err = errors.Join(w.Write(record(t, schema, rows)), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Arrow returns a stream of the rows in one record batch.
func Arrow(t testing.TB, schema *arrow.Schema, rows string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	if err := errors.Join(w.Write(record(t, schema, rows)), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func record(t testing.TB, schema *arrow.Schema, rows string) arrow.RecordBatch {
	t.Helper()
	r, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// LongList writes Parquet, rows of users 1, 2 and so on, the first with a list of n zeros, in pages of a
// size.
func LongList(t testing.TB, out io.Writer, n, users int, codec compress.Compression, page int64) {
	t.Helper()
	root := schema.MustGroup(schema.NewGroupNode("root", parquet.Repetitions.Required, schema.FieldList{
		schema.NewInt64Node("user", parquet.Repetitions.Required, -1),
		schema.NewInt64Node("items", parquet.Repetitions.Repeated, -1),
	}, -1))
	w := file.NewParquetWriter(out, root,
		file.WithWriterProps(parquet.NewWriterProperties(parquet.WithCompression(codec),
			parquet.WithDictionaryDefault(false), parquet.WithDataPageSize(page))))
	rows, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	column, err := rows.NextColumn()
	for u := 1; u <= users && err == nil; u++ {
		_, err = column.(*file.Int64ColumnChunkWriter).WriteBatch([]int64{int64(u)}, nil, nil)
	}
	if err == nil {
		err = column.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if column, err = rows.NextColumn(); err != nil {
		t.Fatal(err)
	}
	const step = 1 << 16
	values, ones, more := make([]int64, step), make([]int16, step), make([]int16, step)
	for i := range ones {
		ones[i], more[i] = 1, 1
	}
	for at := 0; at < n && err == nil; at += step {
		some := min(step, n-at)
		more[0] = min(1, int16(at/step))
		_, err = column.(*file.Int64ColumnChunkWriter).WriteBatch(values[:some], ones[:some], more[:some])
	}
	for u := 2; u <= users && err == nil; u++ {
		_, err = column.(*file.Int64ColumnChunkWriter).WriteBatch([]int64{5}, []int16{1}, []int16{0})
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
}
