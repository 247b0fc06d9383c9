package ingest

import (
	"fmt"
	"slices"
	"strings"
)

// Type is what a field is made of.
type Type uint8

const (
	// ID is a number below 2^64 or a string, whichever the sources hold.
	ID Type = iota
	// Float is any number.
	Float
)

// Kind is how ids are represented.
type Kind uint8

const (
	// Auto leaves the kind to the sources: to the schema where there is one, in text to the first rows.
	Auto Kind = iota
	// Number is a uint64.
	Number
	// String is 1 to [MaxString] bytes of UTF-8.
	String
)

func (k Kind) String() string { return [...]string{"auto", "number", "string"}[k] }

// MaxString is the longest id, in bytes.
const MaxString = 255

// MaxList is the longest list.
const MaxList = 65535

// A Field is a column the caller wants.
type Field struct {
	// Name is what messages call it.
	Name string
	Type Type
	// IDs forces the kind of an ID; KindFlag is the flag that does so, for messages.
	IDs      Kind
	KindFlag string
	// Guess are the names looked for, most likely first, when Column is empty: in lower case and
	// without '_', '-' and spaces. A dot leads into a struct.
	Guess []string
	// Column is the name chosen by the user, or, in text without a header, its number counted from
	// 1; Flag is the flag that chooses.
	Column, Flag string
	// List says that the field may be a list of values. GuessList, ListColumn and ListFlag are for
	// that case what Guess, Column and Flag are for single values. In a list of structs, Column or
	// Guess choose the member.
	List                 bool
	GuessList            []string
	ListColumn, ListFlag string
	// Rest says that the one column which is left over, when no other field has it, is the field's.
	Rest bool
	// Optional fields may be missing. They are left out of rows with lists.
	Optional bool
	// Elsewhere goes with Optional: a source that has not the column that is named has not the field.
	Elsewhere bool
	// Nullable IDs may be missing, null or empty in single rows, and are empty strings there. It goes with
	// IDs that are String.
	Nullable bool
	// Sparse goes with Nullable and Optional: the field may be missing from any source, and where each row
	// says what it has, as in JSON lines, from the first rows, which the columns are learned from.
	Sparse bool
	// Range says which numbers a Float may be, and Ranged what to call them; nil is any.
	Range  func(float64) bool
	Ranged string
	// Text says that a Float may be in a column of strings, too. In CSV it always may: all columns are text
	// there.
	Text bool
}

// A column is what a source offers: a leaf of its schema.
type column struct {
	name   string
	member string // of the structs in a list
	shape  shape
	// ids is the kind it has as an ID, Auto when it cannot be one; float says it can be a Float. What can
	// be neither is offered all the same, to be named in messages.
	ids    Kind
	float  bool
	null   bool   // as far as it was looked at
	typ    string // for messages
	sample sample // of text
}

// A shape says whether a column holds lists.
type shape uint8

const (
	single shape = iota
	list
	either // a cell of text can be read both ways
)

func (c column) String() string {
	s := c.name
	if c.member != "" {
		s += "." + c.member
	}
	switch {
	case c.typ == "":
		return s
	case c.shape == list && c.member == "":
		return s + " (list of " + strings.TrimPrefix(c.typ, "list of ") + ")"
	}
	return s + " (" + c.typ + ")"
}

// hasValues reports whether any of the columns can be a field.
func hasValues(columns []column) bool {
	return slices.ContainsFunc(columns, func(c column) bool { return c.ids != Auto || c.float })
}

// A choice is the column of a source that a field was found in.
type choice struct {
	column int  // -1: the field is missing
	late   bool // that is, from the first rows
	list   bool
	kind   Kind // of an ID
}

// plain reduces a name to what guesses are compared with.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_' || r == '-' || r == ' ':
			return -1
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// fits reports whether the field could be read from the column.
func (f *Field) fits(c column) bool {
	if f.Type == Float {
		return c.float || f.Text && c.ids != Auto
	}
	return c.ids != Auto || c.null && f.Nullable
}

// holdsLists reports whether a column has that name and nothing but lists.
func holdsLists(columns []column, name string) bool {
	return slices.ContainsFunc(columns, func(c column) bool { return c.name == name && c.shape == list })
}

// find chooses the column of a field, -1 when there is none. grows says that there may be more in later
// rows; taken are the columns of other fields.
func (f *Field) find(columns []column, grows bool, taken []int) (choice, error) {
	if f.List {
		if c, err := f.findList(columns, taken); err != nil || c.column >= 0 {
			return c, err
		}
	}
	at := func(want string, exact bool) int {
		return slices.IndexFunc(columns, func(c column) bool {
			name := c.name
			if !exact {
				name = plain(name)
			}
			return name == want && c.shape != list && c.member == ""
		})
	}
	if f.Column != "" {
		i := at(f.Column, true)
		if late := f.Sparse && grows; i < 0 && (f.Elsewhere || late) {
			return choice{column: -1, late: late}, nil
		}
		if i < 0 && holdsLists(columns, f.Column) {
			return choice{column: -1}, fmt.Errorf("%s %s: the column holds lists, not single values", f.Flag,
				f.Column)
		}
		if i < 0 {
			return choice{column: -1}, fmt.Errorf("%s %s: there is no such column", f.Flag, f.Column)
		}
		if !f.fits(columns[i]) {
			return choice{column: -1}, fmt.Errorf("%s %s: the column is %s, not %s", f.Flag, f.Column,
				columns[i].typ, f.wanted())
		}
		return choice{column: i, kind: columns[i].ids}, nil
	}
	for _, name := range f.Guess {
		// A column of strings that is called a or b may be anything, unless somebody names it.
		if i := at(name, false); i >= 0 && f.fits(columns[i]) && !slices.Contains(taken, i) &&
			(f.Type == ID || columns[i].float || len(name) > 1) {
			return choice{column: i, kind: columns[i].ids}, nil
		}
	}
	return choice{column: -1, late: f.Sparse && grows}, nil
}

// misfit returns the column that has a name of the field and cannot be it, "" when there is none.
func (f *Field) misfit(columns []column) string {
	for _, name := range f.Guess {
		for _, c := range columns {
			switch outer, _, inside := strings.Cut(c.name, "."); {
			case plain(c.name) == name && (c.shape == list || !f.fits(c)):
				return c.String()
			case inside && plain(outer) == name:
				return outer + " (object)"
			}
		}
	}
	return ""
}

// findList chooses the list column of a field: by its flag, by name, or because it is the only one.
func (f *Field) findList(columns []column, taken []int) (choice, error) {
	none := choice{column: -1}
	named := func(match func(column) bool) []int {
		var found []int
		for i, c := range columns {
			if c.shape != single && match(c) && !slices.Contains(taken, i) {
				found = append(found, i)
			}
		}
		return found
	}
	var members []int
	switch {
	case f.ListColumn != "":
		members = named(func(c column) bool { return c.name == f.ListColumn })
		if len(members) == 0 {
			return none, fmt.Errorf("%s %s: there is no such column of lists", f.ListFlag, f.ListColumn)
		}
	default:
		if f.Column != "" && slices.ContainsFunc(columns, func(c column) bool {
			return c.name == f.Column && c.shape != list
		}) {
			return none, nil
		}
		for _, name := range f.GuessList {
			if members = named(func(c column) bool { return plain(c.name) == name }); len(members) > 0 {
				break
			}
		}
		if len(members) == 0 {
			members = named(func(c column) bool { return c.shape == list && f.fits(c) })
			for _, i := range members {
				if columns[i].name != columns[members[0]].name {
					return none, nil // more than one: no reason to prefer either
				}
			}
		}
		if len(members) == 0 {
			return none, nil
		}
	}
	chosen, err := f.member(columns, members)
	if err != nil {
		return none, err
	}
	return choice{column: chosen, list: true, kind: columns[chosen].ids}, nil
}

// member chooses among the leaves of one list column.
func (f *Field) member(columns []column, members []int) (int, error) {
	name := columns[members[0]].name
	if f.Column != "" && columns[members[0]].member == "" && f.Column != name {
		return 0, fmt.Errorf(
			"%s %s: there is no such column of single values, and the lists in %s have no members", f.Flag,
			f.Column, name)
	}
	if f.Column != "" && columns[members[0]].member != "" {
		for _, i := range members {
			if columns[i].member == f.Column {
				return i, nil
			}
		}
		return 0, fmt.Errorf("%s %s: the structs in %s have no such member", f.Flag, f.Column, name)
	}
	for _, guess := range f.Guess {
		for _, i := range members {
			if plain(columns[i].member) == guess && f.fits(columns[i]) {
				return i, nil
			}
		}
	}
	// Spark's ALS names the member after the caller's item column, whatever that was, and puts it first.
	for _, i := range members {
		if f.fits(columns[i]) && !(columns[i].member != "" && columns[i].typ == "float") {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the lists of column %s hold %s, not %s", name, columns[members[0]].typ, f.wanted())
}

// accepts reports whether a number will do for a Float.
func (f *Field) accepts(x float64) bool { return x == x && (f.Range == nil || f.Range(x)) }

// wantFloat says what a Float expects.
func (f *Field) wantFloat() string {
	if f.Range == nil {
		return "a number"
	}
	return f.Ranged
}

// flag returns the flag that has chosen the field's column.
func (f *Field) flag() string {
	if f.ListColumn != "" {
		return f.ListFlag
	}
	return f.Flag
}

func (f *Field) wanted() string {
	if f.Type == Float {
		return "numbers"
	}
	return "ids"
}

// choose finds every field in the columns of one source, of which later rows may have more.
func choose(fields []Field, columns []column, grows bool) ([]choice, error) {
	chosen := make([]choice, len(fields))
	var taken []int
	lists, ordered := false, slices.ContainsFunc(fields, func(f Field) bool { return f.List })
	// What the user named is taken first, so that no guess takes it away.
	order := make([]int, 0, len(fields))
	for _, named := range []bool{true, false} {
		for i := range fields {
			if (fields[i].Column != "" || fields[i].ListColumn != "") == named {
				order = append(order, i)
			}
		}
	}
	for _, i := range order {
		f := &fields[i]
		c, err := f.find(columns, grows, taken)
		if err != nil && f.Optional && ordered && holdsLists(columns, f.Column) {
			err = fmt.Errorf("%w: lists are taken in their own order", err)
		}
		if err != nil {
			return nil, err
		}
		if c.column >= 0 {
			if slices.Contains(taken, c.column) { // guesses pass over what is taken
				other := slices.IndexFunc(order, func(o int) bool { return chosen[o].column == c.column })
				return nil, fmt.Errorf("column %s is given as %s and as %s", columns[c.column].name,
					fields[order[other]].flag(), f.flag())
			}
			taken = append(taken, c.column)
		}
		chosen[i] = c
		lists = lists || c.list
	}
	for i := range fields {
		f := &fields[i]
		if f.Optional && lists && chosen[i].column >= 0 {
			if f.Column != "" {
				return nil, fmt.Errorf("%s %s: lists are taken in their own order, and column %s holds lists",
					f.Flag, f.Column, listName(columns, chosen))
			}
			chosen[i] = choice{column: -1}
		}
		if chosen[i].column < 0 && f.Rest && f.Column == "" && f.ListColumn == "" {
			if c := f.rest(columns, taken); c >= 0 {
				chosen[i], taken = choice{column: c, kind: columns[c].ids}, append(taken, c)
			}
		}
		if chosen[i].column < 0 && !f.Optional {
			flags := f.Flag
			if f.List {
				flags += " or " + f.ListFlag
			}
			return nil, fmt.Errorf("no column looks like the %s: name it with %s", f.Name, flags)
		}
	}
	return chosen, nil
}

// rest returns the one column that is left over, -1 when there is none or there are several.
func (f *Field) rest(columns []column, taken []int) int {
	only := -1
	for i, c := range columns {
		if slices.Contains(taken, i) {
			continue
		}
		if only >= 0 || c.shape == list || !f.fits(c) {
			return -1
		}
		only = i
	}
	return only
}

func listName(columns []column, chosen []choice) string {
	for _, c := range chosen {
		if c.list {
			return columns[c.column].name
		}
	}
	return ""
}

// offered says what columns there are.
func offered(columns []column) string {
	const most = 20
	var names []string
	for i, c := range columns {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(columns)-most))
			break
		}
		names = append(names, c.String())
	}
	return "the columns are " + strings.Join(names, ", ")
}
