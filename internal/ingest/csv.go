package ingest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
)

// csvTable is text in rows of cells (RFC 4180, any of four delimiters).
type csvTable struct {
	offers    []column
	delimiter byte
	inner     []byte // by column, what separates the ids of a list
	named     bool   // there is a header
	skip      int64  // lines up to and including it
	open      func() (*stream, error)
}

func (t *csvTable) text()             {}
func (t *csvTable) columns() []column { return t.offers }
func (t *csvTable) close() error      { return nil }

// sampleRows is how many rows of text are looked at before the kinds of its columns are settled.
const sampleRows = 100

// openCSV finds out about delimiter, header and the kinds of cells. whole says that head is all
// there is.
func openCSV(head []byte, whole bool, open func() (*stream, error), header *bool) (table, error) {
	t := &csvTable{delimiter: sniffDelimiter(head), open: open}
	sampled := len(head)
	var rows [][][]byte
	lines := int64(0) // up to and including the first row
	for len(head) > 0 && len(rows) <= sampleRows {
		n := rowEnd(head, t.delimiter)
		if n < 0 {
			if !whole {
				break
			}
			n = len(head)
		}
		if len(rows) == 0 {
			lines += int64(bytes.Count(head[:n], []byte{'\n'}))
		}
		if line := trimEnd(head[:n]); len(line) > 0 {
			cells, _ := splitRow(line, t.delimiter, nil)
			for i, c := range cells {
				cells[i] = bytes.Clone(c)
			}
			rows = append(rows, cells)
		}
		head = head[n:]
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("the first row is longer than %d MiB: is a quote not closed?", sampled>>20)
	}
	if len(rows[0]) < 2 {
		return nil, fmt.Errorf("this looks like text of one column, %s: expected cells separated by a "+
			"comma, tab, semicolon or '|'", shorten(rows[0][0]))
	}
	names := rows[0]
	t.named = header != nil && *header || header == nil && looksLikeHeader(rows)
	if t.named {
		t.skip = lines
		rows = rows[1:]
	}
	for i, name := range names {
		c := column{name: string(bytes.TrimSpace(name)), shape: either, float: true, typ: "text"}
		if !t.named {
			c.name = strconv.Itoa(i + 1)
		}
		inner := sniffInner(rows, i)
		var ids sample
		for _, row := range rows {
			if i < len(row) {
				for id := range splitCell(row[i], inner) {
					ids.add(id)
				}
			}
		}
		c.ids = ids.kind()
		t.inner = append(t.inner, inner)
		t.offers = append(t.offers, c)
	}
	return t, nil
}

// numericCell reports whether a cell holds a number or a list of them.
func numericCell(cell []byte, inner byte) bool {
	if looksNumeric(bytes.TrimSpace(cell)) {
		return true
	}
	some := false
	for s := range splitCell(cell, inner) {
		if !looksNumeric(s) {
			return false
		}
		some = true
	}
	return some
}

// sniffDelimiter returns the delimiter that the first row has most of.
func sniffDelimiter(head []byte) byte {
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	best, most := byte(','), 0
	for _, d := range []byte("\t,;|") {
		if n := bytes.Count(line, []byte{d}); n > most && (best == ',' && most == 0 || d != '|') {
			best, most = d, n
		}
	}
	return best
}

// looksLikeHeader tells names of columns from values: where values are numbers names are not, and
// some names are well known.
func looksLikeHeader(rows [][][]byte) bool {
	for _, cell := range rows[0] {
		if numericCell(cell, ' ') {
			return false
		}
		if _, err := strconv.ParseFloat(string(cell), 64); err == nil {
			return false
		}
	}
	for _, cell := range rows[0] {
		name := plain(string(bytes.TrimSpace(cell)))
		if slices.Contains(headerNames, name) {
			return true
		}
	}
	if len(rows) > 1 {
		return slices.ContainsFunc(rows[1], func(cell []byte) bool { return numericCell(cell, '|') })
	}
	return false
}

// headerNames give a header away even when all values are names themselves.
var headerNames = []string{
	"user", "userid", "uid", "customer", "customerid", "visitor", "visitorid", "member", "memberid",
	"account", "accountid", "profileid",
	"item", "itemid", "items", "itemids", "productid", "movieid", "contentid", "articleid", "videoid",
	"trackid", "postid",
	"recommendations", "key", "rank", "score", "rating",
}

// rowEnd returns the length of the row data begins with, its line end included, or -1 when data
// ends before it does. A quote counts only at the start of a cell.
func rowEnd(data []byte, delimiter byte) int {
	end := bytes.IndexByte(data, '\n') + 1
	if end == 0 && bytes.IndexByte(data, '"') < 0 || end > 0 && bytes.IndexByte(data[:end], '"') < 0 {
		if end == 0 {
			return -1
		}
		return end
	}
	start := true
	for i := 0; i < len(data); i++ {
		switch {
		case data[i] == '"' && start:
			closing := quoteEnd(data[i+1:])
			if closing < 0 {
				return -1
			}
			i += 1 + closing
			start = false
		case data[i] == '\n':
			return i + 1
		default:
			start = data[i] == delimiter
		}
	}
	return -1
}

// quoteEnd returns where the quote that closes a cell is, given what follows the opening one.
func quoteEnd(data []byte) int {
	for i := 0; ; i += 2 {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		if i+1 >= len(data) || data[i+1] != '"' {
			return i
		}
	}
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	return bytes.TrimSuffix(line, []byte{'\r'})
}

// splitRow appends the cells of a line to cells; ok is false when a quote is not closed.
func splitRow(line []byte, delimiter byte, cells [][]byte) (_ [][]byte, ok bool) {
	for {
		if len(line) > 0 && line[0] == '"' {
			end := quoteEnd(line[1:])
			if end < 0 {
				return append(cells, line), false
			}
			cell, rest := line[1:1+end], line[2+end:]
			if bytes.IndexByte(cell, '"') >= 0 {
				cell = bytes.ReplaceAll(cell, []byte(`""`), []byte(`"`))
			}
			n := bytes.IndexByte(rest, delimiter)
			if n < 0 {
				return append(cells, cell), true
			}
			cells, line = append(cells, cell), rest[n+1:]
			continue
		}
		n := bytes.IndexByte(line, delimiter)
		if n < 0 {
			return append(cells, line), true
		}
		cells, line = append(cells, line[:n]), line[n+1:]
	}
}

// sniffInner returns what separates the ids of lists in a column: the first of "|;," that a sampled
// cell has, or a space.
func sniffInner(rows [][][]byte, column int) byte {
	for _, separator := range []byte("|;,") {
		for _, row := range rows {
			if column < len(row) && bytes.IndexByte(row[column], separator) >= 0 {
				return separator
			}
		}
	}
	return ' '
}

// splitCell ranges over the ids of a list in a cell, as in [1, 2] or 1|2, with or without quotes
// around each.
func splitCell(cell []byte, separator byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		cell := bytes.TrimSpace(cell)
		if len(cell) >= 2 && (cell[0] == '[' && cell[len(cell)-1] == ']' || cell[0] == '{' &&
			cell[len(cell)-1] == '}') {
			cell = bytes.TrimSpace(cell[1 : len(cell)-1])
		}
		for len(cell) > 0 {
			n := bytes.IndexByte(cell, separator)
			part, rest := cell, []byte(nil)
			if n >= 0 {
				part, rest = cell[:n], cell[n+1:]
			}
			cell = rest
			if part = bytes.TrimSpace(part); len(part) == 0 && separator == ' ' {
				continue // two spaces separate like one
			}
			if len(part) >= 2 && (part[0] == '"' || part[0] == '\'') && part[len(part)-1] == part[0] {
				part = part[1 : len(part)-1]
			}
			if !yield(part) {
				return
			}
		}
	}
}

func (t *csvTable) read(ctx context.Context, to target, emit func(*Batch) error) error {
	s, err := t.open()
	if err != nil {
		return err
	}
	defer s.close()
	cut := func(data []byte) int {
		if bytes.IndexByte(data, '"') < 0 {
			return bytes.LastIndexByte(data, '\n') + 1
		}
		size := 0
		for {
			n := rowEnd(data[size:], t.delimiter)
			if n < 0 {
				return size
			}
			size += n
		}
	}
	return readText(ctx, s, t.skip, to, cut, func(blk block, b *Batch) { t.parse(blk, b, to) }, emit)
}

// parse reads the rows of a block.
func (t *csvTable) parse(blk block, b *Batch, to target) {
	var cells [][]byte
	data, line := blk.data, blk.line
	for len(data) > 0 {
		n := rowEnd(data, t.delimiter)
		if n < 0 {
			n = len(data)
		}
		row, at := trimEnd(data[:n]), line
		line += int64(bytes.Count(data[:n], []byte{'\n'}))
		data = data[n:]
		if len(row) == 0 {
			continue
		}
		b.row(to.file, at, func() (BadRow, bool) {
			var ok bool
			if cells, ok = splitRow(row, t.delimiter, cells[:0]); !ok {
				return BadRow{Want: "a closing quote", Found: shorten(cells[len(cells)-1])}, false
			}
			return t.row(cells, b, to)
		})
	}
}

// fits reports whether a row that is shorter or longer than the first has the cells that are chosen, and
// nothing in those that it should not have.
func (t *csvTable) fits(cells [][]byte, to target) bool {
	for _, c := range to.chosen {
		if c.column >= len(cells) {
			return false
		}
	}
	surplus := cells[min(len(cells), len(t.offers)):]
	return !slices.ContainsFunc(surplus, func(cell []byte) bool { return len(bytes.TrimSpace(cell)) > 0 })
}

// row appends the cells of one row to the batch.
func (t *csvTable) row(cells [][]byte, b *Batch, to target) (BadRow, bool) {
	if len(cells) != len(t.offers) && !t.fits(cells, to) {
		return BadRow{Want: fmt.Sprintf("%d columns", len(t.offers)), Found: strconv.Itoa(len(cells))}, false
	}
	for f := range to.fields {
		field, c, col := &to.fields[f], to.chosen[f], &b.Columns[f]
		if c.column < 0 {
			continue
		}
		cell := cells[c.column]
		want, found := "", cell
		switch {
		case c.list:
			n := 0
			if col.Lists == nil {
				col.Lists = make([]uint32, 0, 256)
			}
			for s := range splitCell(cell, t.inner[c.column]) {
				if n++; n > MaxList {
					return BadRow{Field: field.Name, Want: field.wantList(), Found: "more than that"}, false
				}
				if want = col.appendID(field, to.kinds[f], s); want != "" {
					found = s
					break
				}
			}
			col.Lists = append(col.Lists, uint32(col.values()))
		case field.Type == Float:
			want = col.appendFloat(field, bytes.TrimSpace(cell))
		default:
			want = col.appendID(field, to.kinds[f], bytes.TrimSpace(cell))
		}
		if want != "" {
			return BadRow{Field: field.Name, Want: want, Found: shorten(found)}, false
		}
	}
	return BadRow{}, true
}
