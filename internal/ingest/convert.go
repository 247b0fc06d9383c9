package ingest

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/decimal"
	"github.com/apache/arrow-go/v18/parquet"
)

// A form is what stored values mean.
type form uint8

const (
	formNone form = iota // nothing of use
	formInteger
	formUnsigned
	formFloat
	formText
	formUUID
	formDecimal
)

// storedType is what the values of a column mean.
type storedType struct {
	form  form
	scale int // of a decimal: the value is divided by 10^scale
}

// describe says what the column can be used for and what to call it.
func (s storedType) describe() (ids Kind, float bool, typ string) {
	switch {
	case s.form == formText || s.form == formUUID:
		return String, false, "string"
	case s.form == formFloat:
		return Number, true, "float"
	case s.scale != 0:
		return Auto, true, "decimal"
	}
	return Number, true, "integer"
}

// A badValue is a row or value that will not do: index is that of the value in a column of single values, of
// the row in a column of lists.
type badValue struct {
	index       int
	want, found string
}

// converter appends stored values to a column in the kind that was settled on.
type converter struct {
	storedType
	field *Field
	kind  Kind

	values any // what append takes from: a slice, or an Arrow array of strings or decimals
	// What was rejected since the caller emptied it, by the index of the value in the column.
	bad     []badValue
	scratch []byte

	// Of a dictionary, whose values are converted once.
	dictionary any
	indices    []int32 // nil when there is none
	entries    Column
	badEntries map[int]badValue
}

// append appends values from..to, with placeholders for those that will not do.
func (v *converter) append(c *Column, from, to int) {
	if v.indices != nil {
		v.appendEntries(c, v.indices[from:to])
		return
	}
	switch values := v.values.(type) {
	case []int8:
		appendIntegers(v, c, values[from:to])
	case []int16:
		appendIntegers(v, c, values[from:to])
	case []int32:
		appendIntegers(v, c, values[from:to])
	case []int64:
		if v.form == formUnsigned {
			appendUnsigned(v, c, values[from:to])
			return
		}
		appendIntegers(v, c, values[from:to])
	case []uint8:
		appendIntegers(v, c, values[from:to])
	case []uint16:
		appendIntegers(v, c, values[from:to])
	case []uint32:
		appendIntegers(v, c, values[from:to])
	case []uint64:
		appendIntegers(v, c, values[from:to])
	case []decimal.Decimal32:
		appendIntegers(v, c, values[from:to])
	case []decimal.Decimal64:
		appendIntegers(v, c, values[from:to])
	case []float32:
		for _, x := range values[from:to] {
			v.float(c, float64(x))
		}
	case []float64:
		for _, x := range values[from:to] {
			v.float(c, x)
		}
	case []parquet.ByteArray:
		for _, b := range values[from:to] {
			v.bytes(c, b)
		}
	case []parquet.FixedLenByteArray:
		for _, b := range values[from:to] {
			v.bytes(c, b)
		}
	case []decimal.Decimal128:
		for _, d := range values[from:to] {
			v.words(c, uint64(d.HighBits()), d.LowBits())
		}
	case []decimal.Decimal256:
		for _, d := range values[from:to] {
			w := d.Array()
			v.words(c, w[3], w[2], w[1], w[0])
		}
	case interface{ Value(int) string }:
		for i := from; i < to; i++ {
			v.scratch = append(v.scratch[:0], values.Value(i)...)
			v.bytes(c, v.scratch)
		}
	case interface{ Value(int) []byte }:
		for i := from; i < to; i++ {
			v.bytes(c, values.Value(i))
		}
	}
}

// useDictionary makes n values the ones that indices point to.
func (v *converter) useDictionary(values any, n int) {
	v.entries.rewind(mark{})
	v.badEntries, v.indices, v.values, v.bad = nil, nil, values, v.bad[:0]
	v.append(&v.entries, 0, n)
	for _, bad := range v.bad {
		if v.badEntries == nil {
			v.badEntries = make(map[int]badValue)
		}
		v.badEntries[bad.index] = bad
	}
	v.bad = v.bad[:0]
}

// appendEntries appends values of the dictionary.
func (v *converter) appendEntries(c *Column, indices []int32) {
	if v.badEntries != nil {
		at := c.values()
		for i, x := range indices {
			if b, is := v.badEntries[int(x)]; is {
				v.bad = append(v.bad, badValue{at + i, b.want, b.found})
			}
		}
	}
	switch {
	case v.field.Type == Float:
		for _, x := range indices {
			c.Floats = append(c.Floats, v.entries.Floats[x])
		}
	case v.kind == String:
		for _, x := range indices {
			c.appendText(v.entries.String(int(x)))
		}
	default:
		for _, x := range indices {
			c.Numbers = append(c.Numbers, v.entries.Numbers[x])
		}
	}
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

// reject appends a placeholder for a value that will not do.
func (v *converter) reject(c *Column, found string) {
	v.bad = append(v.bad, badValue{c.values(), v.want(), found})
	v.placeholder(c)
}

// null appends a null.
func (v *converter) null(c *Column) {
	if v.field.Nullable {
		v.placeholder(c)
		return
	}
	v.reject(c, "null")
}

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// appendIntegers is the hot loop of an import: one addition to memory a value, the test for negative ones on
// the whole run.
func appendIntegers[T integer](v *converter, c *Column, values []T) {
	if v.field.Type == Float {
		for _, x := range values {
			f := float64(x)
			if v.scale != 0 {
				f = scaled(f, v.scale)
			}
			if !v.field.accepts(f) {
				v.reject(c, strconv.FormatFloat(f, 'g', -1, 64))
				continue
			}
			c.Floats = append(c.Floats, f)
		}
		return
	}
	or := T(0)
	for _, x := range values {
		or |= x
	}
	if or < 0 {
		at := c.values()
		for i, x := range values {
			if x < 0 {
				v.bad = append(v.bad, badValue{at + i, v.want(), strconv.FormatInt(int64(x), 10)})
			}
		}
	}
	appendUnsigned(v, c, values)
}

// appendUnsigned appends ids whose bits are those of the numbers.
func appendUnsigned[T integer](v *converter, c *Column, values []T) {
	switch {
	case v.field.Type == Float:
		for _, x := range values {
			v.float(c, float64(uint64(x)))
		}
	case v.kind == String:
		for _, x := range values {
			v.scratch = strconv.AppendUint(v.scratch[:0], uint64(x), 10)
			c.appendText(v.scratch)
		}
	default:
		n := len(c.Numbers)
		c.Numbers = slices.Grow(c.Numbers, len(values))[:n+len(values)]
		out := c.Numbers[n:]
		for i, x := range values {
			out[i] = uint64(x)
		}
	}
}

// float appends a floating-point number. As an id it has to be whole: pandas makes floats of integer columns
// that had gaps.
func (v *converter) float(c *Column, x float64) {
	whole := v.field.Type == ID && x >= 0 && x <= 1<<53 && x == math.Trunc(x)
	switch {
	case v.field.Type == Float && v.field.accepts(x):
		c.Floats = append(c.Floats, x)
	case whole && v.kind == Number:
		c.Numbers = append(c.Numbers, uint64(x))
	case whole:
		v.scratch = strconv.AppendUint(v.scratch[:0], uint64(x), 10)
		c.appendText(v.scratch)
	default:
		v.reject(c, strconv.FormatFloat(x, 'g', -1, 64))
	}
}

// bytes appends a value that is stored as bytes.
func (v *converter) bytes(c *Column, b []byte) {
	switch v.form {
	case formDecimal:
		v.decimal(c, b)
		return
	case formUUID:
		v.scratch = appendUUID(v.scratch[:0], b)
		b = v.scratch
	}
	want := ""
	if v.field.Type == ID {
		want = c.appendID(v.field, v.kind, b)
	} else {
		want = c.appendFloat(v.field, bytes.TrimSpace(b))
	}
	if want != "" {
		v.reject(c, shorten(b))
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
