package ingest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) }

// rowOf returns the row that value i of a list column is in.
func rowOf(lists []uint32, i int) int {
	row, found := slices.BinarySearch(lists, uint32(i))
	for found && row < len(lists) && lists[row] == uint32(i) {
		row++ // lists says where rows end: the value is in the next that is not empty
	}
	return row
}

// A form is how a value is stored.
type form uint8

const (
	formNone form = iota
	formInt32
	formUint32
	formInt64
	formUint64
	formFloat
	formDouble
	formBytes
	formFixed
	formUUID
	formDecimal      // bytes, each value with a length of its own
	formFixedDecimal // bytes, all of one length
)

// physics is how the values of a Parquet column are stored and what they mean.
type physics struct {
	form  form
	scale int // of a decimal: the value is divided by 10^scale
}

func physicsOf(t parquet.Type) physics {
	unsigned, uuid, decimal, scale := false, false, false, 0
	if l := t.LogicalType(); l != nil {
		switch l := l.Value.(type) {
		case *format.IntType:
			unsigned = !l.IsSigned
		case *format.DecimalType:
			decimal, scale = true, int(l.Scale)
		case *format.UUIDType:
			uuid = true
		case *format.StringType, *format.EnumType, *format.JsonType, nil:
		default:
			return physics{} // dates and times are no ids
		}
	} else if c := t.ConvertedType(); c != nil {
		switch *c {
		case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
			unsigned = true
		case deprecated.Date, deprecated.TimeMillis, deprecated.TimeMicros,
			deprecated.TimestampMillis, deprecated.TimestampMicros, deprecated.Interval, deprecated.Decimal:
			return physics{}
		}
	}
	switch t.Kind() {
	case parquet.Int32:
		if unsigned {
			return physics{formUint32, 0}
		}
		return physics{formInt32, scale}
	case parquet.Int64:
		if unsigned {
			return physics{formUint64, 0}
		}
		return physics{formInt64, scale}
	case parquet.Float:
		return physics{formFloat, 0}
	case parquet.Double:
		return physics{formDouble, 0}
	case parquet.ByteArray:
		if decimal {
			return physics{formDecimal, scale}
		}
		return physics{formBytes, 0}
	case parquet.FixedLenByteArray:
		switch {
		case uuid:
			return physics{formUUID, 0}
		case decimal:
			return physics{formFixedDecimal, scale}
		}
		return physics{formFixed, 0}
	}
	return physics{}
}

// describe says what the column can be used for and what to call it.
func (p physics) describe() (ids Kind, float bool, typ string) {
	switch p.form {
	case formBytes, formFixed, formUUID:
		return String, false, "string"
	case formFloat, formDouble:
		return Number, true, "float"
	}
	if p.scale != 0 {
		return Auto, true, "decimal"
	}
	return Number, true, "integer"
}

// converter appends the values of pages to a column in the kind that was settled on. Values of a
// dictionary are converted once.
type converter struct {
	physics
	field *Field
	kind  Kind

	values  encoding.Values
	indices []int32 // into dictionary; nil when the page holds the values themselves
	source  any     // of the dictionary
	dict    Column
	dictBad map[int]badValue
	scratch []byte
}

// use makes page the one that append takes from.
func (v *converter) use(page parquet.Page) {
	v.indices, v.values = nil, page.Data()
	if d := page.Dictionary(); d != nil {
		v.indices = v.values.Int32()
		if d != v.source {
			v.source = d
			v.useDictionary(d.Page().Data(), int(d.Page().NumValues()))
		}
	}
}

// useDictionary makes the n values the ones that indices point to.
func (v *converter) useDictionary(values encoding.Values, n int) {
	v.dict.rewind(mark{})
	v.dictBad = nil
	v.values = values
	for _, bad := range v.convert(&v.dict, 0, n, nil) {
		if v.dictBad == nil {
			v.dictBad = make(map[int]badValue)
		}
		v.dictBad[bad.index] = bad
	}
}

// append appends values from..to of the page.
func (v *converter) append(c *Column, from, to int, bad []badValue) []badValue {
	if v.indices == nil {
		return v.convert(c, from, to, bad)
	}
	indices := v.indices[from:to]
	if v.dictBad != nil {
		at := c.values()
		for i, x := range indices {
			if b, is := v.dictBad[int(x)]; is {
				b.index = at + i
				bad = append(bad, b)
			}
		}
	}
	switch {
	case v.field.Type == Float:
		for _, x := range indices {
			c.Floats = append(c.Floats, v.dict.Floats[x])
		}
	case v.kind == String:
		for _, x := range indices {
			c.appendText(v.dict.String(int(x)))
		}
	default:
		n := len(c.Numbers)
		c.Numbers = slices.Grow(c.Numbers, len(indices))[:n+len(indices)]
		out, dict := c.Numbers[n:], v.dict.Numbers
		for i, x := range indices {
			out[i] = dict[x]
		}
	}
	return bad
}

// want says what the field expects.
func (v *converter) want() string {
	switch {
	case v.field.Type == Float:
		return v.field.wantFloat()
	case v.kind == String:
		return v.field.wantString()
	}
	return v.field.wantNumber()
}

// placeholder appends a value for a row that will be dropped.
func (v *converter) placeholder(c *Column) {
	switch {
	case v.field.Type == Float:
		c.Floats = append(c.Floats, 0)
	case v.kind == String:
		c.appendText(nil)
	default:
		c.Numbers = append(c.Numbers, 0)
	}
}

// convert appends values from..to as they are stored, with placeholders for those that will not do.
func (v *converter) convert(c *Column, from, to int, bad []badValue) []badValue {
	reject := func(found string) {
		bad = append(bad, badValue{index: c.values(), want: v.want(), found: found})
		v.placeholder(c)
	}
	switch v.form {
	case formInt32:
		return convertInts(v, c, v.values.Int32()[from:to], bad)
	case formUint32:
		return convertInts(v, c, v.values.Uint32()[from:to], bad)
	case formInt64:
		return convertInts(v, c, v.values.Int64()[from:to], bad)
	case formUint64:
		return convertInts(v, c, v.values.Uint64()[from:to], bad)
	case formFloat:
		for _, x := range v.values.Float()[from:to] {
			v.float(c, float64(x), reject)
		}
	case formDouble:
		for _, x := range v.values.Double()[from:to] {
			v.float(c, x, reject)
		}
	case formBytes:
		data, ends := v.values.ByteArray()
		for i := from; i < to; i++ {
			v.text(c, data[ends[i]:ends[i+1]], reject)
		}
	case formFixed:
		data, size := v.values.FixedLenByteArray()
		for i := from; i < to; i++ {
			v.text(c, data[i*size:(i+1)*size], reject)
		}
	case formUUID:
		data, _ := v.values.FixedLenByteArray()
		for i := from; i < to; i++ {
			v.scratch = appendUUID(v.scratch[:0], data[i*16:(i+1)*16])
			v.text(c, v.scratch, reject)
		}
	case formDecimal:
		data, ends := v.values.ByteArray()
		for i := from; i < to; i++ {
			v.decimal(c, data[ends[i]:ends[i+1]], reject)
		}
	case formFixedDecimal:
		data, size := v.values.FixedLenByteArray()
		for i := from; i < to; i++ {
			v.decimal(c, data[i*size:(i+1)*size], reject)
		}
	}
	return bad
}

// convertInts is the hot loop of an import: one addition to memory a value, the test for negative
// ones on the whole run.
func convertInts[T int32 | uint32 | int64 | uint64](v *converter, c *Column, values []T, bad []badValue) []badValue {
	if v.field.Type == Float {
		for _, x := range values {
			f := float64(x)
			if v.scale != 0 {
				f = scaled(f, v.scale)
			}
			if !v.field.accepts(f) {
				bad = append(bad, badValue{index: c.values(), want: v.want(), found: strconv.FormatFloat(f, 'g', -1, 64)})
			}
			c.Floats = append(c.Floats, f)
		}
		return bad
	}
	at := c.values()
	or := T(0)
	for _, x := range values {
		or |= x
	}
	if or < 0 {
		for i, x := range values {
			if x < 0 {
				bad = append(bad, badValue{index: at + i, want: v.want(), found: strconv.FormatInt(int64(x), 10)})
			}
		}
	}
	if v.kind == String {
		for _, x := range values {
			v.scratch = strconv.AppendUint(v.scratch[:0], uint64(x), 10)
			c.appendText(v.scratch)
		}
		return bad
	}
	n := len(c.Numbers)
	c.Numbers = slices.Grow(c.Numbers, len(values))[:n+len(values)]
	out := c.Numbers[n:]
	for i, x := range values {
		out[i] = uint64(x)
	}
	return bad
}

// float appends a floating-point number. As an id it has to be whole: pandas makes floats of
// integer columns that had gaps.
func (v *converter) float(c *Column, x float64, reject func(string)) {
	switch {
	case v.field.Type == Float && v.field.accepts(x):
		c.Floats = append(c.Floats, x)
	case v.field.Type == ID && x >= 0 && x <= 1<<53 && x == math.Trunc(x) && v.kind == Number:
		c.Numbers = append(c.Numbers, uint64(x))
	case v.field.Type == ID && x >= 0 && x <= 1<<53 && x == math.Trunc(x):
		v.scratch = strconv.AppendUint(v.scratch[:0], uint64(x), 10)
		c.appendText(v.scratch)
	default:
		reject(strconv.FormatFloat(x, 'g', -1, 64))
	}
}

// text appends a string.
func (v *converter) text(c *Column, s []byte, reject func(string)) {
	want := ""
	switch {
	case v.field.Type == ID:
		want = c.appendID(v.field, v.kind, s)
	default:
		want = c.appendFloat(v.field, bytes.TrimSpace(s))
	}
	if want != "" {
		reject(shorten(s))
	}
}

// appendUUID appends the usual text of a UUID.
func appendUUID(dst, u []byte) []byte {
	for i, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:16]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}
