package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Plan is what was found of the fields in the sources of an Input, the same in all of them.
type Plan struct {
	// Kinds are the kinds of the fields, Auto for a Float.
	Kinds []Kind
	// Found says which of the fields there are, Sparse ones in any of the sources.
	Found []bool
	// Lists says that a field holds lists, one row being a whole list.
	Lists bool

	in     *Input
	fields []Field
	chosen [][]choice // by source, nil for an empty one
}

// Plan looks for the fields in every source.
func (in *Input) Plan(fields []Field) (*Plan, error) {
	p := &Plan{in: in, fields: fields, chosen: make([][]choice, len(in.tables))}
	first := -1
	for i, t := range in.tables {
		columns := t.columns()
		if len(columns) == 0 {
			continue
		}
		_, grows := t.(*jsonlTable)
		chosen, err := choose(fields, columns, grows)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; %s", in.Sources[i], err, in.offered(i))
		}
		p.chosen[i] = chosen
		if first < 0 {
			first = i
		} else if err := p.agree(first, i); err != nil {
			return nil, err
		}
	}
	for f := range fields {
		kind, err := p.kind(f)
		if err != nil {
			return nil, err
		}
		p.Kinds = append(p.Kinds, kind)
		p.Found = append(p.Found,
			slices.ContainsFunc(p.chosen, func(c []choice) bool { return c != nil && c[f].column >= 0 }))
		p.Lists = p.Lists || p.chosen[first][f].list
	}
	return p, nil
}

// Leave gives up a field that was found, all of whose values will do then. It has to be Optional.
func (p *Plan) Leave(f int) {
	p.Found[f] = false
	for _, chosen := range p.chosen {
		if chosen != nil {
			chosen[f] = choice{column: -1}
		}
	}
}

// Missing says of fields that were not found in the first source that has columns which column is called
// like one of them and cannot be it, and what columns there are.
func (p *Plan) Missing(fields ...int) string {
	i := slices.IndexFunc(p.chosen, func(c []choice) bool { return c != nil })
	columns, says := p.in.tables[i].columns(), ""
	for _, f := range fields {
		if field := &p.fields[f]; field.Column == "" && p.chosen[i][f].column < 0 {
			if c := field.misfit(columns); c != "" {
				says += fmt.Sprintf("column %s cannot be the %s, expected %s; ", c, field.Name,
					field.wanted())
			}
		}
	}
	return says + p.in.offered(i)
}

// offered says what the columns of a source are.
func (in *Input) offered(source int) string {
	t := in.tables[source]
	says := offered(t.columns())
	if csv, ok := t.(*csvTable); ok && !csv.named {
		says += ", by their numbers, as there is no header"
	}
	return says
}

// UnlikeError says that files which were given as one are not of one make.
type UnlikeError struct{ reason string }

func (e *UnlikeError) Error() string { return e.reason }

// agree refuses sources that are not of one make: their rows could not be put in one order.
func (p *Plan) agree(a, b int) error {
	for f := range p.fields {
		x, y := p.chosen[a][f], p.chosen[b][f]
		if x.list != y.list || (x.column < 0) != (y.column < 0) && !p.fields[f].Sparse {
			say := func(c choice) string {
				switch {
				case c.list:
					return "a list"
				case c.column < 0:
					return "missing"
				}
				return "a single value"
			}
			return &UnlikeError{fmt.Sprintf("the %s is %s in %s and %s in %s: name the columns alike",
				p.fields[f].Name, say(x), p.in.Sources[a], say(y), p.in.Sources[b])}
		}
	}
	return nil
}

// kind settles on one kind of id for a field in all sources. Schemas are binding; text, whose
// digits may be either, goes along with them.
func (p *Plan) kind(f int) (Kind, error) {
	field := &p.fields[f]
	if field.Type == Float {
		return Auto, nil
	}
	if field.IDs != Auto {
		return field.IDs, nil
	}
	kind, by := Auto, -1
	for i, chosen := range p.chosen {
		if chosen == nil || chosen[f].column < 0 {
			continue
		}
		k := chosen[f].kind
		_, isText := p.in.tables[i].(textTable)
		switch {
		case kind == Auto:
			kind, by = k, i
		case kind == k:
		case isText && k == Number:
			// digits will do as names
		default:
			if _, isText := p.in.tables[by].(textTable); isText && kind == Number {
				kind, by = k, i
				continue
			}
			if isText && allText(p.in.tables) {
				kind, by = String, i
				continue
			}
			return Auto, fmt.Errorf("the %s is a %s in %s and a %s in %s: %s string reads both as strings",
				field.Name, kind, p.in.Sources[by], k, p.in.Sources[i], field.KindFlag)
		}
	}
	return kind, nil
}

func allText(tables []table) bool {
	return !slices.ContainsFunc(tables, func(t table) bool {
		_, text := t.(textTable)
		return !text && len(t.columns()) > 0
	})
}

// textTable marks the sources whose kinds are guessed from their first rows.
type textTable interface{ text() }

// String says what was found, in one line.
func (p *Plan) String() string {
	var parts []string
	for f := range p.fields {
		if !p.Found[f] {
			continue
		}
		var names []string
		for i, chosen := range p.chosen {
			if chosen == nil || chosen[f].column < 0 {
				continue
			}
			c := p.in.tables[i].columns()[chosen[f].column]
			name := c.name
			if c.member != "" {
				name += "." + c.member
			}
			if !slices.Contains(names, name) && len(names) < 3 {
				names = append(names, name)
			}
		}
		kind := ""
		if p.Kinds[f] != Auto {
			kind = " (" + p.Kinds[f].String() + "s)"
		}
		list := ""
		for _, chosen := range p.chosen {
			if chosen != nil && chosen[f].list {
				list = "lists of "
			}
		}
		parts = append(parts, fmt.Sprintf("%s from %scolumn %s%s", p.fields[f].Name, list,
			strings.Join(names, ", "), kind))
	}
	return strings.Join(parts, "; ")
}

// Read decodes every source, in order, and hands its batches to fn one at a time. Bad rows go to the
// account. It ends with the first error, be it fn's own, the account's or the context's. What was guessed
// is said through Options.Note first.
func (p *Plan) Read(ctx context.Context, account *Account, fn func(*Batch) error) error {
	p.in.options.Note(p.String())
	for i, t := range p.in.tables {
		if p.chosen[i] == nil {
			continue
		}
		to := target{
			file: p.in.Sources[i], source: i, fields: p.fields, chosen: p.chosen[i], kinds: p.Kinds,
			bytes: &p.in.Progress.Bytes,
		}
		if err := p.readOne(ctx, t, to, account, fn); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) readOne(ctx context.Context, t table, to target, account *Account,
	fn func(*Batch) error) (err error) {
	var own error    // not the decoder's: needs no file name
	calling := false // a panic is not the decoder's
	decode := func() (err error) {
		defer func() {
			if !calling {
				recoverInto(&err, recover())
			}
		}()
		return t.read(ctx, to, func(b *Batch) error {
			calling = true
			own = p.deliver(ctx, b, to.source, account, fn)
			calling = false
			return own
		})
	}
	err = decode()
	switch {
	case err == nil || own != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err() // what a decoder makes of it says less
	}
	return fmt.Errorf("%s: %w", to.file, err)
}

func (p *Plan) deliver(ctx context.Context, b *Batch, source int, account *Account,
	fn func(*Batch) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, bad := range b.bad {
		if err := account.Add(bad); err != nil {
			return err
		}
	}
	p.in.Progress.Rows.Add(b.seen)
	if b.Rows == 0 {
		return nil
	}
	b.Source = source
	return fn(b)
}
