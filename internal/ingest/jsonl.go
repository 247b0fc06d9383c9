package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/jsonscan"
)

// jsonlTable is text of one JSON object a line.
type jsonlTable struct {
	offers []column
	empty  []string // lists that had nothing in them, while the columns are learned
	open   func() (*stream, error)
}

func (t *jsonlTable) text()             {}
func (t *jsonlTable) columns() []column { return t.offers }
func (t *jsonlTable) close() error      { return nil }

// openJSONL learns the members of the objects from the first of them. whole says that head is all
// there is.
func openJSONL(head []byte, whole bool, open func() (*stream, error)) (table, error) {
	t := &jsonlTable{open: open}
	lines, broken, sampled := 0, error(nil), len(head)
	for len(head) > 0 && lines < sampleRows {
		line, rest, found := bytes.Cut(head, []byte{'\n'})
		if !found && !whole {
			break
		}
		head = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		lines++
		s := jsonscan.Scanner{B: line, Lenient: true}
		if err := s.Object(func(name []byte) error { return t.learn(&s, string(name), true) }); err != nil &&
			broken == nil {
			broken = fmt.Errorf("line %d is no JSON object: %s", lines, shorten(line))
		}
	}
	// Nothing is known of lists that were always empty: they are taken for lists of numbers, the strictest
	// there is.
	for _, name := range t.empty {
		if !slices.ContainsFunc(t.offers, func(c column) bool { return c.name == name && c.shape == list }) {
			t.offers = append(t.offers, column{name: name, shape: list, ids: Number, typ: "numbers"})
		}
	}
	t.offers = slices.DeleteFunc(t.offers, func(c column) bool { // it is known after all
		return c.null && slices.ContainsFunc(t.offers, func(o column) bool {
			return o.name == c.name && !o.null
		})
	})
	if len(t.offers) == 0 {
		if broken == nil {
			broken = fmt.Errorf("the first line is longer than %d MiB", sampled>>20)
		}
		return nil, broken
	}
	return t, nil
}

// learn takes note of one member of a sampled object, and of those of an object inside it.
func (t *jsonlTable) learn(s *jsonscan.Scanner, name string, top bool) error {
	switch c := s.Space(); {
	case c == '{' && top:
		return s.Object(func(member []byte) error { return t.learn(s, name+"."+string(member), false) })
	case c == '{':
		return s.Skip()
	case c == '[':
		some := false
		err := s.Array(func() error {
			some = true
			if s.Space() == '{' {
				return s.Object(func(member []byte) error { return t.sample(s, name, string(member), list) })
			}
			return t.sample(s, name, "", list)
		})
		if err == nil && !some && !slices.Contains(t.empty, name) {
			t.empty = append(t.empty, name)
		}
		return err
	}
	return t.sample(s, name, "", single)
}

// sample takes note of one value.
func (t *jsonlTable) sample(s *jsonscan.Scanner, name, member string, shape shape) error {
	raw, err := s.Value()
	if err != nil || shape == list && string(raw) == "null" {
		return err
	}
	var c *column
	for i := range t.offers {
		if o := &t.offers[i]; o.name == name && o.member == member && o.shape == shape {
			c = o
		}
	}
	if c == nil {
		t.offers = append(t.offers, column{name: name, member: member, shape: shape, typ: "null"})
		c = &t.offers[len(t.offers)-1]
		c.null = true
	}
	if string(raw) == "null" {
		return nil
	}
	c.null = false
	switch {
	case raw[0] == '"':
		c.sample.add(raw[1 : len(raw)-1])
	case jsonscan.IsNumber(raw[0]):
		c.sample.add(raw)
		c.float = true
	default:
		if c.ids == Auto {
			c.typ = map[byte]string{'t': "booleans", 'f': "booleans", '[': "lists", '{': "objects"}[raw[0]]
		}
		return nil
	}
	switch c.ids = c.sample.kind(); {
	case !c.float:
		c.typ = "strings"
	case c.sample.fractional():
		c.typ = "float"
	default:
		c.typ = "numbers"
	}
	return nil
}

// A wanted is a field to be found in every line: the names that lead to it.
type wanted struct {
	field         int
	outer, member string // outer.member, or outer alone
	element       string // of the objects in a list
	list          bool
	// Names as Field.Guess has them, in place of all that: it was not in the first rows.
	late []string
}

func (t *jsonlTable) read(ctx context.Context, to target, emit func(*Batch) error) error {
	s, err := t.open()
	if err != nil {
		return err
	}
	defer s.close()
	var fields []wanted
	for f, c := range to.chosen {
		w := wanted{field: f}
		name := to.fields[f].Column
		switch {
		case c.column >= 0:
			o := t.offers[c.column]
			name, w.element, w.list = o.name, o.member, c.list
		case !c.late:
			continue
		case name == "":
			w.late = to.fields[f].Guess
		}
		w.outer, w.member, _ = strings.Cut(name, ".")
		if w.member != "" && w.outer == "" {
			w.outer, w.member = name, ""
		}
		fields = append(fields, w)
	}
	cut := func(data []byte) int { return bytes.LastIndexByte(data, '\n') + 1 }
	return readText(ctx, s, 0, to, cut, func(blk block, b *Batch) {
		p := jsonlParser{to: to, fields: fields, b: b, late: make(map[string]int)}
		p.spans = make([][]byte, len(fields))
		p.block(blk)
	}, emit)
}

// jsonlParser reads the lines of one block.
type jsonlParser struct {
	to     target
	fields []wanted
	late   map[string]int // from the names of members that were not in the first rows to fields, -1 is none
	spans  [][]byte       // what was found of fields in this line
	fault  []byte         // the member "error", by which Amazon Personalize says why there is no output
	b      *Batch
}

func (p *jsonlParser) block(blk block) {
	data, line := blk.data, blk.line
	for ; len(data) > 0; line++ {
		row, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if len(bytes.TrimSpace(row)) == 0 {
			continue
		}
		p.b.row(p.to.file, line, func() (BadRow, bool) { return p.row(row) })
	}
}

// row appends the fields of one line to the batch.
func (p *jsonlParser) row(line []byte) (BadRow, bool) {
	clear(p.spans)
	p.fault = nil
	s := jsonscan.Scanner{B: line, Lenient: true}
	if s.Object(func(name []byte) error { return p.member(&s, name) }) != nil || s.End() != nil {
		return BadRow{Want: "one JSON object", Found: shorten(line)}, false
	}
	if p.fault != nil && string(p.fault) != "null" {
		return BadRow{Want: "recommendations", Found: "the error " + shorten(bytes.Trim(p.fault, `"`))}, false
	}
	for i := range p.fields {
		w := &p.fields[i]
		if bad, ok := p.append(w, p.spans[i]); !ok {
			bad.Field = p.to.fields[w.field].Name
			return bad, false
		}
	}
	return BadRow{}, true
}

// member passes over one member of a line and remembers where it is if it is asked for.
func (p *jsonlParser) member(s *jsonscan.Scanner, name []byte) (err error) {
	nested := false
	for i := range p.fields {
		w := &p.fields[i]
		if string(name) != w.outer || w.late != nil {
			continue
		}
		if w.member == "" {
			p.spans[i], err = s.Value()
			return err
		}
		nested = true
	}
	if nested && s.Space() == '{' {
		return s.Object(func(inner []byte) error {
			raw, err := s.Value()
			for i := range p.fields {
				if w := &p.fields[i]; string(name) == w.outer && string(inner) == w.member {
					p.spans[i] = raw
				}
			}
			return err
		})
	}
	raw, err := s.Value()
	if i := p.lateField(name); i >= 0 {
		p.spans[i] = raw
	}
	if string(name) == "error" {
		p.fault = raw
	}
	return err
}

// lateField returns which of the fields that were not in the first rows has that name, -1 if none.
func (p *jsonlParser) lateField(name []byte) int {
	i, known := p.late[string(name)]
	if !known {
		i = slices.IndexFunc(p.fields, func(w wanted) bool {
			return slices.Contains(w.late, plain(string(name)))
		})
		p.late[string(name)] = i
	}
	return i
}

// append decodes what was found of one field.
func (p *jsonlParser) append(w *wanted, raw []byte) (BadRow, bool) {
	field, col, kind := &p.to.fields[w.field], &p.b.Columns[w.field], p.to.kinds[w.field]
	if !w.list {
		want := p.scalar(field, col, kind, raw)
		return BadRow{Want: want, Found: found(raw)}, want == ""
	}
	if col.Lists == nil {
		col.Lists = make([]uint32, 0, 256)
	}
	if len(raw) == 0 || raw[0] != '[' {
		return BadRow{Want: field.wantList(), Found: found(raw)}, false
	}
	s := jsonscan.Scanner{B: raw, Lenient: true}
	n := 0
	var bad BadRow
	s.Array(func() error { //nolint:errcheck // what is bad is kept
		element, err := s.Value()
		if err != nil {
			return err
		}
		if w.element != "" {
			element = lookUp(element, w.element)
		}
		if n++; n > MaxList {
			bad = BadRow{Want: field.wantList(), Found: "more than that"}
		} else if want := p.scalar(field, col, kind, element); want != "" {
			bad = BadRow{Want: want, Found: found(element)}
		}
		if bad.Want != "" {
			return errStop
		}
		return nil
	})
	col.Lists = append(col.Lists, uint32(col.values()))
	return bad, bad.Want == ""
}

// errStop ends the reading of a list.
var errStop = errors.New("stop")

// lookUp returns a member of an object, nil when it has none of that name.
func lookUp(object []byte, name string) (value []byte) {
	s := jsonscan.Scanner{B: object, Lenient: true}
	s.Object(func(member []byte) error { //nolint:errcheck // the text has been passed over before
		raw, err := s.Value()
		if string(member) == name {
			value = raw
		}
		return err
	})
	return value
}

func (p *jsonlParser) scalar(field *Field, col *Column, kind Kind, raw []byte) (want string) {
	isText := len(raw) > 0 && raw[0] == '"'
	isNumber := len(raw) > 0 && jsonscan.IsNumber(raw[0])
	if isText {
		s, err := (&jsonscan.Scanner{B: raw}).Text()
		if err != nil {
			return field.wantString()
		}
		raw = s
	}
	switch {
	case field.Nullable && (len(raw) == 0 || !isText && string(raw) == "null"):
		return col.appendID(field, kind, nil)
	case field.Type == Float:
		if !isNumber && !(isText && field.Text) {
			return field.wantFloat()
		}
		return col.appendFloat(field, bytes.TrimSpace(raw))
	case isText || isNumber:
		return col.appendID(field, kind, raw)
	case kind == Number:
		return field.wantNumber()
	}
	return field.wantString()
}

// found says what was there instead.
func found(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return shorten(raw[1 : len(raw)-1])
	case 'n', 't', 'f':
		return string(raw) // a word
	case '[':
		return "the list " + shorten(raw)
	case '{':
		return "the object " + shorten(raw)
	}
	return shorten(raw)
}
