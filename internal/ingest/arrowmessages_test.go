package ingest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// viewsFile writes a file of two rows of string views.
func viewsFile(t *testing.T) []byte {
	t.Helper()
	types := arrow.NewSchema([]arrow.Field{{Name: "user", Type: arrow.BinaryTypes.StringView},
		{Name: "item", Type: arrow.BinaryTypes.StringView}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, types)
	for _, name := range []string{"a name that is too long for its view", "another of the same kind"} {
		b.Field(0).(*array.StringViewBuilder).Append(name)
		b.Field(1).(*array.StringViewBuilder).Append("item of " + name)
	}
	var out bytes.Buffer
	w, err := ipc.NewFileWriter(&out, ipc.WithSchema(types))
	if err == nil {
		err = w.Write(b.NewRecordBatch())
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestViewsOfMoreBuffersThanThereAreAreRefused(t *testing.T) {
	file := viewsFile(t)
	rows := 0
	if err := read(t, Options{Stdin: bytes.NewReader(file)}, func(b *Batch) { rows += b.Rows }); err != nil ||
		rows != 2 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	counts := append([]byte{2, 0, 0, 0}, append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 1, 0, 0, 0, 0, 0, 0, 0)...)
	at := bytes.Index(file, counts)
	if at < 0 {
		t.Fatal("there are no counts of buffers")
	}
	for _, high := range []byte{1, 0x80} { // 2^32 and more, and below 0
		hostile := bytes.Clone(file)
		hostile[at+4+8*int(high&1)+4+int(high>>7)*3] = high
		err := read(t, Options{Stdin: bytes.NewReader(hostile)}, func(*Batch) {})
		if err == nil || !strings.Contains(err.Error(), errArrow.Error()) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAnArrowFileCutOffAnywhereIsRefused(t *testing.T) {
	file := viewsFile(t)
	for n := len(file) - 1; n >= 8; n-- {
		if err := read(t, Options{Stdin: bytes.NewReader(file[:n])}, func(*Batch) {}); err == nil {
			t.Fatalf("%d of %d bytes are read", n, len(file))
		}
	}
}
