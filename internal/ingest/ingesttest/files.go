// Package ingesttest makes Parquet and Arrow for tests, of rows that are written as JSON: an array of
// objects, whose missing members are nulls.
package ingesttest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
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
