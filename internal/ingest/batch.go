// Package ingest reads rows out of what data pipelines write: Parquet, Arrow IPC, CSV, TSV and JSONL,
// each plain or compressed with gzip or zstd, from files, directories of part files and standard input.
//
// [Open] recognises sources by their content. [Input.Plan] finds the caller's fields among their columns,
// by name or by guess, and settles whether ids are numbers or strings. [Plan.Read] says what was guessed,
// decodes one source after the other into batches of columns, in the order of the input, and gives an
// account of bad rows. [Sorter] brings more rows than fit into memory into the order of their keys; [Table]
// turns strings into numbers.
//
// arrow-go decodes pages of Parquet and record batches of Arrow, within the memory that [Options] allow; a
// converter turns its values into ids and numbers. Text is parsed in blocks. Both fill columns in parallel
// where the format allows it, without allocating or calling through an interface for every row.
//
// Whatever is in a file, reading it ends in rows or an error that names the file, never in a panic.
package ingest

import (
	"cmp"
	"slices"
)

// A Batch is a few thousand consecutive good rows of one source, column by column. It belongs to
// the reader and is overwritten once the function it was handed to returns.
type Batch struct {
	// Source is the index into [Input.Sources].
	Source int
	// Rows is the number of rows.
	Rows int
	// Columns are the fields, in the order in which they were asked for. An optional field that
	// no source has is the zero Column.
	Columns []Column

	bad   []BadRow // rows left out, in order
	lines []int64  // of the rows of text, in the order of the rows
	first int64    // number of the first row of other sources, bad ones included
	next  int64    // of the first row of the next batch
	seen  int64    // rows of the source this batch stands for, bad ones included
	marks []mark   // of the columns before the present row of text
	spare []bool   // which rows to leave out; all false between uses
}

// Number returns what BadRow.Row is of row i, for a caller who finds fault with it.
func (b *Batch) Number(i int) int64 {
	if len(b.lines) > 0 {
		return b.lines[i]
	}
	n := b.first + int64(i)
	for _, bad := range b.bad { // in order, and left out of the batch
		if bad.Row > n {
			break
		}
		n++
	}
	return n
}

// A Column holds the values of one field. Of Numbers, Floats and Text one is in use, as
// [Plan.Kinds] says.
type Column struct {
	Numbers []uint64
	Floats  []float64
	// Text is the strings one after the other; string i ends at Ends[i].
	Text []byte
	Ends []uint32
	// Lists says where lists end: row i's values are those before Lists[i] that no earlier row has.
	// It is nil when every row has one value.
	Lists []uint32
}

// String returns string i, valid as long as the batch.
func (c *Column) String(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = c.Ends[i-1]
	}
	return c.Text[start:c.Ends[i]]
}

// List returns the range of row i's values.
func (c *Column) List(i int) (from, to int) {
	if i > 0 {
		from = int(c.Lists[i-1])
	}
	return from, int(c.Lists[i])
}

func (c *Column) appendText(s []byte) {
	c.Text = append(c.Text, s...)
	c.Ends = append(c.Ends, uint32(len(c.Text)))
}

// A mark remembers the lengths of a column, to take a bad row's values back.
type mark struct{ numbers, floats, text, ends, lists int }

func (c *Column) mark() mark {
	return mark{len(c.Numbers), len(c.Floats), len(c.Text), len(c.Ends), len(c.Lists)}
}

func (c *Column) rewind(m mark) {
	c.Numbers, c.Floats = c.Numbers[:m.numbers], c.Floats[:m.floats]
	c.Text, c.Ends, c.Lists = c.Text[:m.text], c.Ends[:m.ends], c.Lists[:m.lists]
}

// reset makes room for the next rows of a source.
func (b *Batch) reset(columns, rows int) {
	if b.Columns == nil {
		b.Columns = make([]Column, columns)
	}
	b.Rows, b.seen, b.first, b.next = rows, int64(rows), b.next, b.next+int64(rows)
	b.lines = b.lines[:0]
	b.bad = b.bad[:0]
	for i := range b.Columns {
		b.Columns[i].rewind(mark{})
	}
}

// reject marks a row of the batch as bad: drop takes it out. Only the first complaint about a row is kept.
func (b *Batch) reject(row int, bad badValue, field *Field, file string) {
	for len(b.spare) <= row {
		b.spare = append(b.spare, false)
	}
	if !b.spare[row] {
		b.spare[row] = true
		b.bad = append(b.bad, BadRow{file, b.first + int64(row), field.Name, bad.want, bad.found})
	}
}

// drop takes the rejected rows out of every column.
func (b *Batch) drop() {
	if len(b.bad) == 0 {
		return
	}
	slices.SortFunc(b.bad, func(x, y BadRow) int { return cmp.Compare(x.Row, y.Row) })
	for len(b.spare) < b.Rows {
		b.spare = append(b.spare, false)
	}
	for i := range b.Columns {
		b.Columns[i].drop(b.spare[:b.Rows])
	}
	b.Rows -= len(b.bad)
	clear(b.spare)
}

// drop takes out the rows that bad marks.
func (c *Column) drop(bad []bool) {
	if len(c.Numbers)+len(c.Floats)+len(c.Ends)+len(c.Lists) == 0 {
		return
	}
	was := *c
	c.rewind(mark{})
	for row, out := range bad {
		if !out { // nothing is written beyond what has been read, so the same memory serves both
			c.appendRows(&was, row, row+1)
		}
	}
}

// appendRows appends rows of another column.
func (c *Column) appendRows(o *Column, from, to int) {
	if o.Lists != nil {
		if c.Lists == nil {
			c.Lists = make([]uint32, 0, to-from)
		}
		ends, first := o.Lists[from:to], uint32(0)
		if from > 0 {
			first = o.Lists[from-1]
		}
		at := uint32(c.values())
		from, to = int(first), int(o.Lists[to-1])
		for _, end := range ends {
			c.Lists = append(c.Lists, at+end-first)
		}
	}
	if len(o.Numbers) > 0 {
		c.Numbers = append(c.Numbers, o.Numbers[from:to]...)
	}
	if len(o.Floats) > 0 {
		c.Floats = append(c.Floats, o.Floats[from:to]...)
	}
	if len(o.Ends) > 0 && to > from {
		start, at := uint32(0), uint32(len(c.Text))
		if from > 0 {
			start = o.Ends[from-1]
		}
		ends := o.Ends[from:to]
		c.Text = append(c.Text, o.Text[start:ends[len(ends)-1]]...)
		for _, end := range ends {
			c.Ends = append(c.Ends, at+end-start)
		}
	}
}

// values returns the number of values in the column.
func (c *Column) values() int { return len(c.Numbers) + len(c.Floats) + len(c.Ends) }
