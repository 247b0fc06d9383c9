package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// arrowTable reads Arrow IPC from front to back, whether it is a stream or a file.
type arrowTable struct {
	memory *budget
	file   bool // a stream between magic and footer
	open   func() (*stream, error)
	offers []column
	leaves []arrowLeaf // by offer
}

// An arrowLeaf leads from a record batch to an array of values, by indices of fields.
type arrowLeaf struct {
	path   []int // to the values or to the lists
	list   bool
	member []int // from a list's elements to the values
	stored storedType
}

// maxArrowRows bounds the rows of a record batch that are believed in: lengths of some columns cost nothing.
const maxArrowRows = 1 << 28

func openArrow(head []byte, file bool, o Options, open func() (*stream, error)) (table, error) {
	t := &arrowTable{open: open, file: file, memory: newBudget(o, 1)}
	r, err := t.messages(bytes.NewReader(head))
	if err != nil {
		return nil, t.memory.explain(err)
	}
	defer r.Release()
	return t, t.describe(r.Schema())
}

func (t *arrowTable) messages(from io.Reader) (r *ipc.Reader, err error) {
	if t.file {
		if _, err := io.ReadFull(from, make([]byte, 8)); err != nil { // the magic and its padding
			return nil, err
		}
	}
	err = t.memory.try(func() (err error) {
		m := &arrowMessages{from: from, memory: t.memory, file: t.file}
		r, err = ipc.NewReaderFromMessageReader(m, ipc.WithAllocator(t.memory))
		return err
	})
	return r, err
}

func (t *arrowTable) columns() []column { return t.offers }

func (t *arrowTable) close() error { return nil }

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
	t.add(column{name: name, member: member, shape: list}, field,
		arrowLeaf{path: path, list: true, member: inside})
}

func (t *arrowTable) add(offer column, field arrow.Field, l arrowLeaf) {
	l.stored = arrowType(field.Type)
	extension, _ := field.Metadata.GetValue(ipc.ExtensionTypeKeyName)
	if extension == "arrow.uuid" && field.Type.ID() == arrow.FIXED_SIZE_BINARY {
		l.stored.form = formUUID
	}
	if offer.typ = field.Type.String(); l.stored.form != formNone {
		offer.ids, offer.float, offer.typ = l.stored.describe()
	}
	t.offers = append(t.offers, offer)
	t.leaves = append(t.leaves, l)
}

// arrowType says what the values of a type mean.
func arrowType(typ arrow.DataType) storedType {
	switch typ := typ.(type) {
	case *arrow.DictionaryType:
		return arrowType(typ.ValueType)
	case arrow.DecimalType:
		return storedType{formDecimal, int(typ.GetScale())}
	}
	switch id := typ.ID(); {
	case arrow.IsInteger(id):
		return storedType{form: formInteger}
	case id == arrow.FLOAT32 || id == arrow.FLOAT64:
		return storedType{form: formFloat}
	case arrow.IsBaseBinary(id), id == arrow.FIXED_SIZE_BINARY, id == arrow.STRING_VIEW,
		id == arrow.BINARY_VIEW:
		return storedType{form: formText}
	}
	return storedType{}
}

func (t *arrowTable) read(ctx context.Context, to target, emit func(*Batch) error) error {
	a := &arrowReader{to: to, out: Batch{next: 1}}
	for f, c := range to.chosen {
		if c.column < 0 {
			a.fields = append(a.fields, nil)
			continue
		}
		l := t.leaves[c.column]
		a.fields = append(a.fields, &arrowField{
			arrowLeaf: l, values: converter{storedType: l.stored, field: &to.fields[f], kind: to.kinds[f]},
		})
	}
	s, err := t.open()
	if err != nil {
		return err
	}
	defer s.close()
	r, err := t.messages(s)
	if err != nil {
		return t.memory.explain(err)
	}
	defer r.Release()
	for r.Next() {
		if err := a.batch(r.RecordBatch(), emit); err != nil {
			return err
		}
		s.counted.report(to.bytes)
	}
	return t.memory.explain(r.Err())
}

// arrowReader turns record batches into batches.
type arrowReader struct {
	to     target
	fields []*arrowField // nil for one that is missing
	out    Batch
}

// arrowField is where the values of a field are in the present record batch.
type arrowField struct {
	arrowLeaf
	values converter
	above  []arrow.Array  // whose nulls make nulls of rows
	lists  array.ListLike // nil for single values
	inner  []arrow.Array  // whose nulls, and the values' own, make nulls of values
	nulls  bool           // some of inner has any
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
	for from, to := 0, 0; from < rows; from = to {
		to = a.extent(from, rows)
		b := &a.out
		b.reset(len(a.to.fields), to-from)
		for i, f := range a.fields {
			if f == nil {
				continue
			}
			f.values.bad = f.values.bad[:0]
			if f.lists != nil {
				f.appendLists(&b.Columns[i], from, to)
			} else {
				f.appendValues(&b.Columns[i], from, to)
			}
			for _, bad := range f.values.bad {
				b.reject(bad.index, bad, f.values.field, a.to.file)
			}
		}
		b.drop()
		if err := emit(b); err != nil {
			return err
		}
	}
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
			if start, end := f.lists.ValueOffsets(i); !f.lists.IsNull(i) && end-start <= MaxList {
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
	f.nulls = slices.ContainsFunc(f.inner, func(a arrow.Array) bool { return a.NullN() > 0 })
	return f.values.useArray(arr)
}

func (f *arrowField) appendLists(c *Column, from, to int) {
	if c.Lists == nil {
		c.Lists = make([]uint32, 0, to-from)
	}
	v := &f.values
	for i := from; i < to; i++ {
		start, end := f.lists.ValueOffsets(i)
		switch n := len(v.bad); {
		case anyNull(f.above, i):
			v.bad = append(v.bad, badValue{i - from, v.field.wantList(), "null"})
		case end-start > MaxList:
			v.bad = append(v.bad, badValue{i - from, v.field.wantList(), fmt.Sprint(end - start)})
		default:
			f.appendValues(c, int(start), int(end))
			for j := range v.bad[n:] {
				v.bad[n+j].index = i - from
			}
		}
		c.Lists = append(c.Lists, uint32(c.values()))
	}
}

// appendValues appends values from..to, with placeholders for nulls.
func (f *arrowField) appendValues(c *Column, from, to int) {
	if !f.nulls {
		f.values.append(c, from, to)
		return
	}
	for i := from; i < to; i++ {
		if anyNull(f.inner, i) {
			f.values.null(c)
		} else {
			f.values.append(c, i, i+1)
		}
	}
}

func anyNull(arrays []arrow.Array, i int) bool {
	return slices.ContainsFunc(arrays, func(a arrow.Array) bool { return a.IsNull(i) })
}

// useArray makes arr the one that append takes from.
func (v *converter) useArray(arr arrow.Array) (err error) {
	if arr.Len() > maxArrowRows {
		return fmt.Errorf("a record batch of %d values: write smaller ones", arr.Len())
	}
	d, ok := arr.(*array.Dictionary)
	if !ok {
		v.values, err = arrowValues(arr)
		return err
	}
	if all := d.Dictionary(); v.dictionary != any(all) {
		values, err := arrowValues(all)
		if err != nil {
			return err
		}
		v.dictionary = all
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

// arrowValues returns what a converter takes the values of an array from.
func arrowValues(arr arrow.Array) (any, error) {
	switch arr := arr.(type) {
	case *array.Int8:
		return arr.Int8Values(), nil
	case *array.Int16:
		return arr.Int16Values(), nil
	case *array.Int32:
		return arr.Int32Values(), nil
	case *array.Int64:
		return arr.Int64Values(), nil
	case *array.Uint8:
		return arr.Uint8Values(), nil
	case *array.Uint16:
		return arr.Uint16Values(), nil
	case *array.Uint32:
		return arr.Uint32Values(), nil
	case *array.Uint64:
		return arr.Uint64Values(), nil
	case *array.Float32:
		return arr.Float32Values(), nil
	case *array.Float64:
		return arr.Float64Values(), nil
	case *array.Decimal32:
		return arr.Values(), nil
	case *array.Decimal64:
		return arr.Values(), nil
	case *array.Decimal128:
		return arr.Values(), nil
	case *array.Decimal256:
		return arr.Values(), nil
	case interface{ Value(int) string }, interface{ Value(int) []byte }:
		return arr, nil
	}
	return nil, fmt.Errorf("values of type %s are not read", arr.DataType())
}
