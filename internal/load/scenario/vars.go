package scenario

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// form is how a variable is written into its place in a request.
type form int

const (
	formText   form = iota // as it is
	formField              // in a header: as it is, without control characters
	formURL                // percent-encoded
	formRawURL             // as it is, made of what a URL may have
	formPath               // the same, and begins with a slash
	formString             // escaped, within a JSON text
	formJSON               // a JSON value
)

// vars is a CSV file with a head, of which only the columns that are asked for are kept.
type vars struct {
	takes   []string // names of values that are taken from answers
	name    string   // of the file
	columns []string
	text    string
	rows    int
	used    []*values
}

type values struct {
	column int
	form   form
	slab   []byte
	ends   []uint32 // ends[row] to ends[row+1] is that row's
}

func (v *values) at(row int) []byte { return v.slab[v.ends[row]:v.ends[row+1]] }

func openVars(name, text string) (*vars, error) {
	v := &vars{name: name, text: strings.TrimPrefix(text, "\ufeff")}
	r := v.reader()
	head, err := r.Read()
	if err != nil {
		return nil, v.fault(err)
	}
	for i, column := range head {
		column = strings.TrimSpace(column)
		for _, other := range v.columns {
			if column == other && column != "" {
				return nil, fmt.Errorf("%s:1: the column %q is there twice: expected a head in which every "+
					"column has its own name", name, column)
			}
		}
		if strings.ContainsAny(column, "{}\r\n") {
			return nil, fmt.Errorf("%s:1: the name of column %d, %q, holds braces or a line end: expected "+
				"a name that can stand in {{name}}", name, i+1, column)
		}
		v.columns = append(v.columns, column)
	}
	return v, nil
}

func (v *vars) reader() *csv.Reader {
	r := csv.NewReader(strings.NewReader(v.text))
	r.ReuseRecord = true
	return r
}

// slot is that of a value taken from answers, -1 for none of that name.
func (v *vars) slot(name string) int {
	if v == nil {
		return -1
	}
	return slices.Index(v.takes, name)
}

// column returns a column in a form. It has its rows once fill was called.
func (v *vars) column(name string, f form) (*values, error) {
	if v == nil || v.columns == nil {
		return nil, fmt.Errorf("{{%s}} is a variable, and there are none: expected --vars FILE, a CSV file "+
			"with the column %[1]q", name)
	}
	for i, column := range v.columns {
		if column != name {
			continue
		}
		for _, u := range v.used {
			if u.column == i && u.form == f {
				return u, nil
			}
		}
		u := &values{column: i, form: f, ends: []uint32{0}}
		v.used = append(v.used, u)
		return u, nil
	}
	return nil, fmt.Errorf("{{%s}} is no column of %s: expected one of %s", name, v.name,
		strings.Join(v.columns, ", "))
}

// fill reads all rows into the columns that are used.
func (v *vars) fill() error {
	if v == nil || v.columns == nil {
		return nil
	}
	r := v.reader()
	if _, err := r.Read(); err != nil {
		return v.fault(err)
	}
	for ; ; v.rows++ {
		record, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return v.fault(err)
		}
		for _, u := range v.used {
			if u.slab, err = u.form.append(u.slab, record[u.column]); err != nil {
				line, _ := r.FieldPos(u.column)
				return fmt.Errorf("%s:%d: column %s: %w", v.name, line, v.columns[u.column], err)
			}
			if len(u.slab) > 1<<31 {
				return fmt.Errorf(
					"%s: the column %s is longer than 2 GiB as requests need it; use a part of the file",
					v.name, v.columns[u.column])
			}
			u.ends = append(u.ends, uint32(len(u.slab)))
		}
	}
	if v.rows == 0 {
		return fmt.Errorf("%s: the file has a head and no rows: expected a row of variables at least", v.name)
	}
	v.text = ""
	return nil
}

func (v *vars) fault(err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		if errors.Is(err, csv.ErrFieldCount) {
			return fmt.Errorf("%s:%d: the row has not as many fields as the head: expected %d, %s", v.name,
				parse.Line, len(v.columns), strings.Join(v.columns, ", "))
		}
		return fmt.Errorf("%s:%d: not CSV: %w", v.name, parse.Line, parse.Err)
	}
	if err == io.EOF {
		return fmt.Errorf("%s: the file has no head: expected a line of names of columns, as in user,item",
			v.name)
	}
	return fmt.Errorf("%s: %w", v.name, err)
}

func (f form) append(b []byte, value string) ([]byte, error) {
	switch f {
	case formField:
		if at := badInValue(value); at >= 0 {
			return b, fmt.Errorf(
				"%.40q holds a control character at byte %d, which a header cannot: leave it out", value,
				at+1)
		}
	case formURL:
		// So that it is one segment of a path, or one value of a query.
		return append(b, strings.ReplaceAll(url.QueryEscape(value), "+", "%20")...), nil
	case formPath, formRawURL:
		if f == formPath && !strings.HasPrefix(value, "/") {
			return b, fmt.Errorf("expected a path that begins with /, got %.40q", value)
		}
		for i := range len(value) {
			if mustEncode(rune(value[i])) {
				return b, fmt.Errorf("%.40q has the byte %q, which a URL cannot: percent-encode it, or "+
					"write {{name}} with two braces", value, value[i])
			}
		}
	case formString:
		if !utf8.ValidString(value) {
			return b, fmt.Errorf("%.40q is not UTF-8, which JSON wants", value)
		}
		var quoted bytes.Buffer
		e := json.NewEncoder(&quoted)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			panic("BUG: text is no JSON: " + err.Error())
		}
		return append(b, quoted.Bytes()[1:quoted.Len()-len("\"\n")]...), nil
	case formJSON:
		if !json.Valid([]byte(value)) {
			return b, fmt.Errorf(
				"%.40q is no JSON value, as a number or true is: put the variable within quotes", value)
		}
	}
	return append(b, value...), nil
}
