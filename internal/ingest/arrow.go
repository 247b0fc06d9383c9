package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/parquet-go/parquet-go/encoding"
)

// arrowTable reads Arrow IPC, a file's record batches or a stream's. Memory is left to the garbage
// collector, so nothing is retained or released.
type arrowTable struct {
	file   readerAtCloser          // of the file format
	size   int64                   // of the file
	open   func() (*stream, error) // of the stream format
	offers []column
	leaves []arrowLeaf // by offer
}

// An arrowLeaf leads from a record batch to an array of values, by indices of fields.
type arrowLeaf struct {
	path    []int // to the values or to the lists
	list    bool
	member  []int // from a list's elements to the values
	physics physics
}

// maxArrowBody bounds the record batches that are believed in. Arrow keeps a whole one in memory.
const maxArrowBody = 1 << 30

// A boundedAllocator refuses what no record batch needs. The panic is how arrow-go is left; Open and
// Read make an error of it.
type boundedAllocator struct{ *memory.GoAllocator }

func (a boundedAllocator) Allocate(size int) []byte {
	if size > maxArrowBody {
		panic(fmt.Sprintf("a buffer of %d bytes", size))
	}
	return a.GoAllocator.Allocate(size)
}

func (a boundedAllocator) Reallocate(size int, b []byte) []byte {
	if size > maxArrowBody {
		panic(fmt.Sprintf("a buffer of %d bytes", size))
	}
	return a.GoAllocator.Reallocate(size, b)
}

// arrowOptions are how files and streams are opened.
func arrowOptions() []ipc.Option {
	return []ipc.Option{ipc.WithBodySizeLimit(maxArrowBody), ipc.WithAllocator(boundedAllocator{memory.NewGoAllocator()})}
}

func openArrowFile(file readerAtCloser, size int64) (table, error) {
	if err := checkArrowFile(file, size); err != nil {
		return nil, damaged(err)
	}
	r, err := ipc.NewFileReader(io.NewSectionReader(file, 0, size), arrowOptions()...)
	if err != nil {
		return nil, damaged(err)
	}
	t := &arrowTable{file: file, size: size}
	return t, t.describe(r.Schema())
}

func openArrowStream(head []byte, open func() (*stream, error)) (table, error) {
	if err := checkArrowStream(head); err != nil {
		return nil, damaged(err)
	}
	r, err := ipc.NewReader(bytes.NewReader(head), arrowOptions()...)
	if err != nil {
		return nil, damaged(err)
	}
	t := &arrowTable{open: open}
	return t, t.describe(r.Schema())
}

func (t *arrowTable) columns() []column { return t.offers }

func (t *arrowTable) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

func (t *arrowTable) describe(schema *arrow.Schema) error {
	for i, f := range schema.Fields() {
		t.walk(f.Name, f, []int{i})
	}
	if !hasValues(t.offers) {
		return fmt.Errorf("no column of this Arrow data holds numbers or strings, alone or in lists")
	}
	return nil
}

// walk lists the leaves of a field that no list encloses.
func (t *arrowTable) walk(name string, field arrow.Field, path []int) {
	switch typ := field.Type.(type) {
	case arrow.ListLikeType:
		t.walkMembers(name, "", typ.ElemField(), path, nil)
	case *arrow.StructType:
		for i, f := range typ.Fields() {
			t.walk(name+"."+f.Name, f, append(path[:len(path):len(path)], i))
		}
	default:
		t.add(column{name: name}, field, arrowLeaf{path: path})
	}
}

func (t *arrowTable) walkMembers(name, member string, field arrow.Field, path, inside []int) {
	if s, ok := field.Type.(*arrow.StructType); ok {
		for i, f := range s.Fields() {
			m := f.Name
			if member != "" {
				m = member + "." + m
			}
			t.walkMembers(name, m, f, path, append(inside[:len(inside):len(inside)], i))
		}
		return
	}
	t.add(column{name: name, member: member, shape: list}, field, arrowLeaf{path: path, list: true, member: inside})
}

func (t *arrowTable) add(offer column, field arrow.Field, l arrowLeaf) {
	p := arrowPhysics(field.Type)
	if name, _ := field.Metadata.GetValue(ipc.ExtensionTypeKeyName); name == "arrow.uuid" && p.form == formFixed {
		p.form = formUUID
	}
	l.physics = p
	if offer.typ = field.Type.String(); p.form != formNone {
		offer.ids, offer.float, offer.typ = p.describe()
	}
	t.offers = append(t.offers, offer)
	t.leaves = append(t.leaves, l)
}

// arrowPhysics says how the values of a type are stored once arrowValues has widened the short ones.
func arrowPhysics(typ arrow.DataType) physics {
	switch typ := typ.(type) {
	case *arrow.DictionaryType:
		return arrowPhysics(typ.ValueType)
	case *arrow.FixedSizeBinaryType:
		return physics{formFixed, 0}
	case *arrow.Decimal32Type:
		return physics{formInt32, int(typ.Scale)}
	case *arrow.Decimal64Type:
		return physics{formInt64, int(typ.Scale)}
	case *arrow.Decimal128Type:
		return physics{formFixedDecimal, int(typ.Scale)}
	case *arrow.Decimal256Type:
		return physics{formFixedDecimal, int(typ.Scale)}
	}
	switch typ.ID() {
	case arrow.INT8, arrow.INT16, arrow.UINT8, arrow.UINT16, arrow.INT32:
		return physics{formInt32, 0}
	case arrow.UINT32:
		return physics{formUint32, 0}
	case arrow.INT64:
		return physics{formInt64, 0}
	case arrow.UINT64:
		return physics{formUint64, 0}
	case arrow.FLOAT32:
		return physics{formFloat, 0}
	case arrow.FLOAT64:
		return physics{formDouble, 0}
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return physics{formBytes, 0}
	}
	return physics{}
}

func (t *arrowTable) read(ctx context.Context, to target, emit func(*Batch) error) error {
	a := &arrowReader{to: to}
	for f, c := range to.chosen {
		if c.column < 0 {
			a.fields = append(a.fields, nil)
			continue
		}
		a.fields = append(a.fields, &arrowField{
			arrowLeaf: t.leaves[c.column],
			values:    converter{physics: t.leaves[c.column].physics, field: &to.fields[f], kind: to.kinds[f]},
		})
	}
	if t.file != nil {
		return t.readFile(a, emit)
	}
	s, err := t.open()
	if err != nil {
		return err
	}
	defer s.close()
	r, err := ipc.NewReader(s, arrowOptions()...)
	if err != nil {
		return damaged(err)
	}
	for r.Next() {
		if err := a.batch(r.RecordBatch(), emit); err != nil {
			return err
		}
		s.counted.report(to.bytes)
	}
	return damaged(r.Err())
}

func (t *arrowTable) readFile(a *arrowReader, emit func(*Batch) error) error {
	r, err := ipc.NewFileReader(io.NewSectionReader(t.file, 0, t.size), arrowOptions()...)
	if err != nil {
		return damaged(err)
	}
	for i := range r.NumRecords() {
		b, err := r.RecordBatchAt(i)
		if err != nil {
			return damaged(err)
		}
		if err := a.batch(b, emit); err != nil {
			return err
		}
		n := int64(r.NumRecords())
		a.to.bytes.Add(t.size*int64(i+1)/n - t.size*int64(i)/n)
	}
	return nil
}

// arrowReader turns record batches into batches.
type arrowReader struct {
	to     target
	fields []*arrowField // nil for one that is missing
	out    Batch
	rows   int64 // before this record batch
}

// arrowField is where the values of a field are in the present record batch.
type arrowField struct {
	arrowLeaf
	values converter
	above  []arrow.Array  // whose nulls make nulls of rows
	lists  array.ListLike // nil for single values
	inner  []arrow.Array  // whose nulls, and the values' own, make nulls of values
	bad    []badValue
}

func (a *arrowReader) batch(rec arrow.RecordBatch, emit func(*Batch) error) error {
	for _, f := range a.fields {
		if f != nil {
			if err := f.use(rec); err != nil {
				return err
			}
		}
	}
	rows := int(rec.NumRows())
	for from := 0; from < rows; {
		to := a.extent(from, rows)
		b := &a.out
		b.reset(len(a.to.fields))
		b.Rows, b.seen, b.first = to-from, int64(to-from), a.rows+int64(from)+1
		for i, f := range a.fields {
			if f == nil {
				continue
			}
			c := &b.Columns[i]
			f.bad = f.bad[:0]
			if f.lists != nil {
				f.appendLists(c, from, to)
			} else {
				f.take(c, from, to)
			}
			for _, bad := range f.bad {
				row := bad.index
				if c.Lists != nil && !bad.isRow {
					row = rowOf(c.Lists, bad.index)
				}
				b.reject(row, BadRow{File: a.to.file, Row: a.rows + int64(from+row) + 1, Field: f.values.field.Name, Want: bad.want, Found: bad.found})
			}
		}
		b.drop()
		if err := emit(b); err != nil {
			return err
		}
		from = to
	}
	a.rows += int64(rows)
	return nil
}

// extent returns the row up to which a batch should go that begins at from.
func (a *arrowReader) extent(from, rows int) int {
	for _, f := range a.fields {
		if f == nil || f.lists == nil {
			continue
		}
		values := 0
		for i := from; i < rows; i++ {
			if start, end := f.lists.ValueOffsets(i); !f.lists.IsNull(i) {
				values += int(end - start)
			}
			if values >= batchValues || i-from >= batchRows {
				return i + 1
			}
		}
		return rows
	}
	return min(rows, from+batchValues)
}

// use goes to the arrays of a record batch.
func (f *arrowField) use(rec arrow.RecordBatch) error {
	f.above, f.inner, f.lists = f.above[:0], f.inner[:0], nil
	arr := rec.Column(f.path[0])
	for _, i := range f.path[1:] {
		f.above = append(f.above, arr)
		arr = arr.(*array.Struct).Field(i)
	}
	if f.list {
		f.lists = arr.(array.ListLike)
		f.above = append(f.above, arr)
		arr = f.lists.ListValues()
		for _, i := range f.member {
			f.inner = append(f.inner, arr)
			arr = arr.(*array.Struct).Field(i)
		}
	} else {
		f.inner = append(f.inner, f.above...)
	}
	f.inner = append(f.inner, arr)
	return f.values.useArray(arr)
}

func (f *arrowField) appendLists(c *Column, from, to int) {
	if c.Lists == nil {
		c.Lists = make([]uint32, 0, to-from)
	}
	for i := from; i < to; i++ {
		start, end := f.lists.ValueOffsets(i)
		switch {
		case anyNull(f.above, i):
			f.rejectRow(i-from, "null")
		case end-start > MaxList:
			f.rejectRow(i-from, fmt.Sprint(end-start))
		default:
			f.take(c, int(start), int(end))
		}
		c.Lists = append(c.Lists, uint32(c.values()))
	}
}

func (f *arrowField) rejectRow(row int, found string) {
	f.bad = append(f.bad, badValue{index: row, want: f.values.field.wantList(), found: found, isRow: true})
}

// take appends values from..to, with placeholders for nulls.
func (f *arrowField) take(c *Column, from, to int) {
	nulls := false
	for _, a := range f.inner {
		nulls = nulls || a.NullN() > 0
	}
	if !nulls {
		f.bad = f.values.append(c, from, to, f.bad)
		return
	}
	for i := from; i < to; i++ {
		if anyNull(f.inner, i) {
			if !f.values.field.Nullable {
				f.bad = append(f.bad, badValue{index: c.values(), want: f.values.want(), found: "null"})
			}
			f.values.placeholder(c)
			continue
		}
		f.bad = f.values.append(c, i, i+1, f.bad)
	}
}

func anyNull(arrays []arrow.Array, i int) bool {
	for _, a := range arrays {
		if a.IsNull(i) {
			return true
		}
	}
	return false
}

// useArray makes arr the one that append takes from.
func (v *converter) useArray(arr arrow.Array) error {
	if arr.Len() > maxArrowBody/4 {
		return fmt.Errorf("a record batch of %d values: write smaller ones", arr.Len())
	}
	v.indices = nil
	if d, ok := arr.(*array.Dictionary); ok {
		all := d.Dictionary()
		if v.source != any(all) {
			if all.Len() > maxArrowBody/4 {
				return fmt.Errorf("a dictionary of %d values", all.Len())
			}
			v.source = all
			values, err := arrowValues(all)
			if err != nil {
				return err
			}
			v.useDictionary(values, all.Len())
		}
		v.indices = make([]int32, d.Len())
		for i := range v.indices {
			if !d.IsNull(i) {
				v.indices[i] = int32(d.GetValueIndex(i))
			}
		}
		return nil
	}
	var err error
	v.values, err = arrowValues(arr)
	return err
}

// arrowValues returns the values of an array as they are or, where they are stored in a way of
// their own, copied.
func arrowValues(arr arrow.Array) (encoding.Values, error) {
	switch arr := arr.(type) {
	case *array.Int8:
		return encoding.Int32Values(widened[int32](arr.Int8Values())), nil
	case *array.Int16:
		return encoding.Int32Values(widened[int32](arr.Int16Values())), nil
	case *array.Uint8:
		return encoding.Int32Values(widened[int32](arr.Uint8Values())), nil
	case *array.Uint16:
		return encoding.Int32Values(widened[int32](arr.Uint16Values())), nil
	case *array.Int32:
		return encoding.Int32Values(arr.Int32Values()), nil
	case *array.Uint32:
		return encoding.Uint32Values(arr.Uint32Values()), nil
	case *array.Int64:
		return encoding.Int64Values(arr.Int64Values()), nil
	case *array.Uint64:
		return encoding.Uint64Values(arr.Uint64Values()), nil
	case *array.Float32:
		return encoding.FloatValues(arr.Float32Values()), nil
	case *array.Float64:
		return encoding.DoubleValues(arr.Float64Values()), nil
	case *array.FixedSizeBinary:
		size := arr.DataType().(*arrow.FixedSizeBinaryType).ByteWidth
		var data []byte
		for i := range arr.Len() {
			data = append(data, arr.Value(i)...)
		}
		return encoding.FixedLenByteArrayValues(data, size), nil
	case *array.Decimal32:
		return encoding.Int32Values(widened[int32](arr.Values())), nil
	case *array.Decimal64:
		return encoding.Int64Values(widened[int64](arr.Values())), nil
	case *array.Decimal128:
		var data []byte
		for _, n := range arr.Values() {
			data = bigEndian(data, n.LowBits(), uint64(n.HighBits()))
		}
		return encoding.FixedLenByteArrayValues(data, 16), nil
	case *array.Decimal256:
		var data []byte
		for _, n := range arr.Values() {
			words := n.Array()
			data = bigEndian(data, words[:]...)
		}
		return encoding.FixedLenByteArrayValues(data, 32), nil
	case *array.String:
		return textValues(arr.Len(), arr.Value), nil
	case *array.LargeString:
		return textValues(arr.Len(), arr.Value), nil
	case *array.StringView:
		return textValues(arr.Len(), arr.Value), nil
	case *array.Binary:
		return textValues(arr.Len(), arr.Value), nil
	case *array.LargeBinary:
		return textValues(arr.Len(), arr.Value), nil
	case *array.BinaryView:
		return textValues(arr.Len(), arr.Value), nil
	}
	return encoding.Values{}, fmt.Errorf("values of type %s are not read", arr.DataType())
}

func textValues[T string | []byte](n int, value func(int) T) encoding.Values {
	var data []byte
	ends := []uint32{0} // n is not to be believed: a broken array panics at the first value beyond its end
	for i := range n {
		data = append(data, value(i)...)
		ends = append(ends, uint32(len(data)))
	}
	return encoding.ByteArrayValues(data, ends)
}

func widened[W int32 | int64, T ~int8 | ~int16 | ~uint8 | ~uint16 | ~int32 | ~int64](values []T) []W {
	wide := make([]W, len(values))
	for i, v := range values {
		wide[i] = W(v)
	}
	return wide
}
