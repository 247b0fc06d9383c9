// Package text holds what a feed's items say in the form that rules compare: without markup, case and
// accents, and laid out so that one search looks at all items.
//
// A Table has a column a field and a row an item. A cell holds any number of values: none where the item
// does not have the field, several where it has several categories. All values of a column lie one after
// the other, each between zero bytes, which no value contains. So a search through a column finds the items
// that contain something, and with a zero byte before or behind it those with a value that begins, ends or
// is so.
//
// A Table is filled once, column by column, and then only read, by any number of goroutines.
package text

import (
	"iter"
	"slices"
	"sync"
)

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
	// Where the cell of item i in column f begins: the zero byte before its first value, which is the one
	// behind the value before. The last is where all ends.
	starts []uint32
	items  int
}

// NewTable returns a table for a number of items that fill fills with [Table.Next] and [Table.Add].
func NewTable(items int, fill func(*Table)) *Table {
	t := drafts.Get().(*Table)
	t.bytes, t.starts, t.items = append(t.bytes[:0], 0), append(t.starts[:0], 0), items
	fill(t)
	made := &Table{slices.Clone(t.bytes), slices.Clone(t.starts), items}
	if cap(t.bytes) <= mostDraft {
		drafts.Put(t)
	}
	return made
}

// drafts are tables to fill, so that each is allocated once, at its size.
var drafts = sync.Pool{New: func() any { return new(Table) }}

// mostDraft is how large a draft that is kept may be.
const mostDraft = 1 << 20

// Items returns how many rows there are.
func (t *Table) Items() int { return t.items }

// Next begins the next cell: the title of the first item, that of the second, and so on, then their
// summaries, in the order of fields. All cells have to be begun before the table is read.
func (t *Table) Next() { t.starts = append(t.starts, uint32(len(t.bytes)-1)) }

// Add adds a value to the cell that was begun last. A value without text is none.
func (t *Table) Add(value string, form Form) {
	before := len(t.bytes)
	if t.bytes = Append(t.bytes, value, form); len(t.bytes) > before {
		t.bytes = append(t.bytes, 0)
		t.starts[len(t.starts)-1] = uint32(len(t.bytes) - 1)
	}
}

// Column returns all bytes of the table, and where in them the values of a field begin and end: those of
// item i lie between starts[i] and starts[i+1], with a zero byte at both.
func (t *Table) Column(f Field) (bytes []byte, starts []uint32) {
	first := int(f) * t.items
	return t.bytes, t.starts[first : first+t.items+1]
}

// Values yields the values of an item's field. They stay what they are as long as the table is there.
func (t *Table) Values(f Field, item int) iter.Seq[[]byte] {
	bytes, starts := t.Column(f)
	return func(yield func([]byte) bool) {
		from := starts[item] + 1
		for i := from; i <= starts[item+1]; i++ {
			if bytes[i] == 0 {
				if !yield(bytes[from:i:i]) {
					return
				}
				from = i + 1
			}
		}
	}
}
