// Package text holds what a feed's items say in the form that rules compare: without markup, case and
// accents, and laid out so that one search looks at all items.
//
// A Table has a column a field and a row an item. A cell holds any number of values: none where the item does
// not have the field, several where it has several categories. All values of a column lie one after the
// other, each between zero bytes, which no value contains. So a search through a column finds the items that
// contain something, and with a zero byte before or behind it those with a value that begins, ends or is so.
//
// A Table is filled once, column by column, and then only read, by any number of goroutines.
package text

import "iter"

// Field is a column of a Table.
type Field uint8

const (
	Title Field = iota
	Summary
	Content
	Author
	Category
	URL
	GUID
	EnclosureURL
	EnclosureType
	Language
	Fields // how many there are
)

// Table is the text of a feed's items. The zero Table has none.
type Table struct {
	bytes []byte
	// Where the cell of item i in column f begins, as an index of bytes: the zero byte before its first value,
	// which is the one behind the value before. What follows the last cell of all comes last.
	starts []uint32
	items  int
}

// NewTable returns a table for a number of items, with room for about size bytes.
func NewTable(items, size int) *Table {
	return &Table{
		bytes:  append(make([]byte, 0, size+int(Fields)*(items+1)), 0),
		starts: make([]uint32, 0, int(Fields)*items+1),
		items:  items,
	}
}

// Items returns how many rows there are.
func (t *Table) Items() int { return t.items }

// Next begins the next cell: the title of the first item, that of the second, and so on, then their summaries,
// in the order of fields.
func (t *Table) Next() { t.starts = append(t.starts, uint32(len(t.bytes)-1)) }

// Add adds a value to the cell that was begun last. A value without text is none.
func (t *Table) Add(value string, form Form) {
	before := len(t.bytes)
	if t.bytes = Append(t.bytes, value, form); len(t.bytes) > before {
		t.bytes = append(t.bytes, 0)
	}
}

// Column returns the values of a field of the items from first up to but without end, with the zero bytes
// around them, and where in the table they begin.
func (t *Table) Column(f Field, first, end int) (values []byte, at int) {
	if len(t.bytes) == 0 {
		return nil, 0
	}
	from, to := t.Start(f, first), t.Start(f, end)
	return t.bytes[from : to+1], from
}

// Start returns where in the table the values of an item begin. The values of the item that is one further
// begin where these end.
func (t *Table) Start(f Field, item int) int {
	if i := int(f)*t.items + item; i < len(t.starts) {
		return int(t.starts[i])
	}
	return max(0, len(t.bytes)-1)
}

// Has reports whether an item has a field.
func (t *Table) Has(f Field, item int) bool { return t.Start(f, item+1) > t.Start(f, item) }

// Values yields the values of an item's field. They stay what they are as long as the table is there.
func (t *Table) Values(f Field, item int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest, _ := t.Column(f, item, item+1); len(rest) > 1; {
			n := 1
			for rest[n] != 0 {
				n++
			}
			if !yield(rest[1:n:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}
