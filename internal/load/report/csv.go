package report

import (
	"encoding/csv"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// WriteCSV writes the trace, one line a point under a line of names, which are those of the JSON form. What
// is null there is empty here.
func WriteCSV(w io.Writer, r *Result) error {
	out := csv.NewWriter(w)
	typ := reflect.TypeFor[Point]()
	row := make([]string, typ.NumField())
	for i := range row {
		row[i], _, _ = strings.Cut(typ.Field(i).Tag.Get("json"), ",")
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for i := range r.Trace {
		v := reflect.ValueOf(&r.Trace[i]).Elem()
		for j := range row {
			row[j] = cell(v.Field(j))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// cell writes a field of a Point. A text that a spreadsheet would take for a formula is quoted as text.
func cell(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return cell(v.Elem())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.String:
		if s := v.String(); s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
			return "'" + s
		}
		return v.String()
	}
	panic("BUG: a trace's point has a field of a kind that CSV does not write: " + v.Kind().String())
}
