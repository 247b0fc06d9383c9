package ingest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetTable reads Parquet by its column chunks. parquet-go's rows and structs are not used: they
// cost a hundred times the decoding, and do not know every layout of lists that is about. The
// levels are Dremel's, see https://parquet.apache.org/docs/file-format/nestedencoding/.
type parquetTable struct {
	file   readerAtCloser
	size   int64
	data   *parquet.File
	offers []column
	leaves []leaf // by offer
}

// A leaf is a column that holds values.
type leaf struct {
	index   int // among the chunks of a row group
	physics physics
	maxDef  byte
	listDef byte // the definition level from which on there is an element; 0: no list
}

const (
	batchRows   = 8192
	batchValues = 1 << 16
	readSize    = 256 << 10 // of a column chunk
)

func openParquet(file readerAtCloser, size int64) (table, error) {
	data, err := parquet.OpenFile(file, size,
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(readSize))
	if err != nil {
		return nil, damaged(err)
	}
	t := &parquetTable{file: file, size: size, data: data}
	for _, c := range data.Root().Columns() {
		t.walk(c, c.Name())
	}
	if !hasValues(t.offers) {
		return nil, fmt.Errorf("no column of this Parquet file holds numbers or strings, alone or in lists")
	}
	return t, nil
}

// walk lists the leaves below a column that no list encloses yet.
func (t *parquetTable) walk(c *parquet.Column, name string) {
	switch {
	case c.Repeated():
		t.walkElement(c, name, byte(c.MaxDefinitionLevel()))
	case c.Leaf():
		t.add(c, column{name: name}, 0)
	case len(c.Columns()) == 1 && c.Columns()[0].Repeated():
		r := c.Columns()[0]
		t.walkElement(r, name, byte(r.MaxDefinitionLevel()))
	default:
		for _, child := range c.Columns() {
			t.walk(child, name+"."+child.Name())
		}
	}
}

// walkElement lists the leaves of a list's elements, given its repeated node. In the standard
// layout and in Hive's the node wraps the element, in two older ones it is the element: these are
// told apart as the format's backward-compatibility rules say.
func (t *parquetTable) walkElement(c *parquet.Column, name string, listDef byte) {
	element := c
	if !c.Leaf() && len(c.Columns()) == 1 && c.Name() != "array" && c.Name() != name+"_tuple" {
		element = c.Columns()[0]
	}
	if element.Leaf() {
		t.add(element, column{name: name, shape: list}, listDef)
		return
	}
	var members func(c *parquet.Column, path string)
	members = func(c *parquet.Column, path string) {
		for _, child := range c.Columns() {
			if child.Leaf() {
				t.add(child, column{name: name, member: path + child.Name(), shape: list}, listDef)
			} else {
				members(child, path+child.Name()+".")
			}
		}
	}
	members(element, "")
}

func (t *parquetTable) add(c *parquet.Column, offer column, listDef byte) {
	p := physicsOf(c.Type())
	switch lists := c.MaxRepetitionLevel(); {
	case lists > 1 || (lists == 1) != (listDef > 0):
		offer.typ = "list of lists"
	case p.form == formNone:
		offer.typ = c.Type().String()
	default:
		offer.ids, offer.float, offer.typ = p.describe()
	}
	t.offers = append(t.offers, offer)
	t.leaves = append(t.leaves, leaf{index: c.Index(), physics: p, maxDef: byte(c.MaxDefinitionLevel()), listDef: listDef})
}

func (t *parquetTable) columns() []column { return t.offers }
func (t *parquetTable) close() error      { return t.file.Close() }

func (t *parquetTable) read(ctx context.Context, to target, emit func(*Batch) error) error {
	row := int64(1)
	reported := int64(0)
	var b Batch
	for i := range t.data.RowGroups() {
		err := t.readGroup(ctx, i, &b, row, to, func(b *Batch) error {
			row += b.seen
			bytes := int64(float64(t.size) * (float64(row-1) / float64(max(1, t.data.NumRows()))))
			to.bytes.Add(bytes - reported)
			reported = bytes
			return emit(b)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readGroup reads row group i, whose first row has the number row.
func (t *parquetTable) readGroup(ctx context.Context, i int, b *Batch, row int64, to target, emit func(*Batch) error) error {
	group, meta := t.data.RowGroups()[i], t.data.Metadata().RowGroups[i]
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	readers := make([]*leafReader, len(to.fields))
	var lists *leafReader
	for f, c := range to.chosen {
		if c.column < 0 {
			continue
		}
		l := t.leaves[c.column]
		r := &leafReader{leaf: l, pages: make(chan pageOrError, 2)}
		r.values = converter{physics: l.physics, field: &to.fields[f], kind: to.kinds[f]}
		readers[f] = r
		if c.list {
			lists = r
		}
		chunk, of := group.ColumnChunks()[l.index], &meta.Columns[l.index].MetaData
		if !slices.Contains(codecs, of.Codec) {
			return fmt.Errorf("column %s is compressed with %s: Snappy, gzip, zstd, LZ4_RAW and Brotli are read", t.offers[c.column].name, of.Codec)
		}
		running.Go(func() { readPages(ctx, pagesOf(t.file, chunk, of), r.pages) })
	}
	for left := group.NumRows(); left > 0; {
		b.reset(len(to.fields))
		b.Rows = int(min(left, batchRows))
		if lists == nil {
			b.Rows = int(min(left, batchValues))
		}
		for f, r := range readers {
			if r == lists && r != nil {
				rows, err := r.readLists(&b.Columns[f], b.Rows, batchValues)
				if err != nil {
					return err
				}
				if rows == 0 {
					return fmt.Errorf("a row group of %d rows ends %d rows early", group.NumRows(), left)
				}
				b.Rows = rows
			}
		}
		for f, r := range readers {
			if r == nil {
				continue
			}
			if r != lists {
				if err := r.readSingles(&b.Columns[f], b.Rows); err != nil {
					return err
				}
			}
			r.reject(b, f, row, to.file)
		}
		b.seen, b.first = int64(b.Rows), row
		left -= b.seen
		row += b.seen
		b.drop()
		if err := emit(b); err != nil {
			return err
		}
	}
	return nil
}

// codecs are those that pages are decompressed of.
var codecs = []format.CompressionCodec{format.Uncompressed, format.Snappy, format.Gzip, format.Zstd, format.Lz4Raw, format.Brotli}

type pageOrError struct {
	page parquet.Page
	err  error
}

// readPages decodes the pages of a column chunk ahead of their use.
func readPages(ctx context.Context, pages parquet.Pages, out chan<- pageOrError) {
	defer close(out)
	defer pages.Close()
	read := func() (p pageOrError) {
		defer func() { recoverInto(&p.err, recover()) }()
		p.page, p.err = pages.ReadPage()
		return p
	}
	for {
		p := read()
		if p.err == nil && p.page == nil {
			continue
		}
		if p.err != nil && isEOF(p.err) {
			return
		}
		p.err = damaged(p.err)
		select {
		case out <- p:
		case <-ctx.Done():
			return
		}
		if p.err != nil {
			return
		}
	}
}

// leafReader turns the pages of one column chunk into a column of a batch.
type leafReader struct {
	leaf
	pages  chan pageOrError
	values converter

	page     parquet.Page
	rep, def []byte
	levels   int  // of the page
	pos      int  // among the levels
	value    int  // among the values
	full     bool // no nulls in this page
	bad      []badValue
}

// A badValue is the row of a batch or, from the converter, the value of a column that will not do.
type badValue struct {
	index       int
	want, found string
	isRow       bool
}

// advance goes to the next page. It is false after the last.
func (r *leafReader) advance() (bool, error) {
	for {
		if r.page != nil {
			parquet.Release(r.page)
			r.page = nil
		}
		p, ok := <-r.pages
		if !ok {
			return false, nil
		}
		if p.err != nil {
			return false, p.err
		}
		r.page = p.page
		r.rep, r.def = p.page.RepetitionLevels(), p.page.DefinitionLevels()
		r.levels = int(p.page.NumValues())
		r.pos, r.value = 0, 0
		r.full = r.maxDef == 0 || bytes.Count(r.def, []byte{r.maxDef}) == r.levels
		r.values.use(p.page)
		if r.levels > 0 {
			return true, nil
		}
	}
}

// readSingles appends n rows of one value each.
func (r *leafReader) readSingles(c *Column, n int) error {
	for row := 0; row < n; {
		if r.page == nil || r.pos == r.levels {
			if ok, err := r.advance(); err != nil {
				return err
			} else if !ok {
				return fmt.Errorf("column %s ends early", r.values.field.Name)
			}
		}
		run := min(n-row, r.levels-r.pos)
		if r.full {
			r.take(c, run)
		} else {
			r.takeNullable(c, run)
		}
		r.pos += run
		row += run
	}
	return nil
}

// readLists appends whole lists, until there are rows or more than values of them or the chunk ends.
func (r *leafReader) readLists(c *Column, rows, values int) (int, error) {
	if c.Lists == nil {
		c.Lists = make([]uint32, 0, rows)
	}
	first := 0    // value of the open row
	open := false // a row may go on in the next page
	finish := func() {
		if open {
			c.Lists = append(c.Lists, uint32(c.values()))
		}
		open = false
	}
	for {
		if r.page == nil || r.pos == r.levels {
			if ok, err := r.advance(); err != nil {
				return 0, err
			} else if !ok {
				finish()
				return len(c.Lists), nil
			}
		}
		if r.rep[r.pos] == 0 {
			finish()
			if len(c.Lists) >= rows || c.values() >= values {
				return len(c.Lists), nil
			}
			open, first = true, c.values()
		} else if !open {
			return 0, fmt.Errorf("column %s begins within a row", r.values.field.Name)
		}
		n := bytes.IndexByte(r.rep[r.pos+1:], 0) + 1
		if n == 0 {
			n = r.levels - r.pos
		}
		switch {
		case c.values()-first+n > MaxList:
			r.skip(n)
			if len(r.bad) == 0 || !r.bad[len(r.bad)-1].isRow || r.bad[len(r.bad)-1].index != len(c.Lists) {
				f := r.values.field
				r.bad = append(r.bad, badValue{index: len(c.Lists), want: f.wantList(), found: "more than that", isRow: true})
			}
		case r.full:
			r.take(c, n)
		case r.def[r.pos] < r.listDef:
			if r.def[r.pos] < r.listDef-1 {
				f := r.values.field
				r.bad = append(r.bad, badValue{index: len(c.Lists), want: f.wantList(), found: "null", isRow: true})
			}
		default:
			r.takeNullable(c, n)
		}
		r.pos += n
	}
}

// take appends the next n values.
func (r *leafReader) take(c *Column, n int) {
	r.bad = r.values.append(c, r.value, r.value+n, r.bad)
	r.value += n
}

// takeNullable appends what the next n levels stand for, with a placeholder for nulls.
func (r *leafReader) takeNullable(c *Column, n int) {
	def := r.def[r.pos : r.pos+n]
	for len(def) > 0 {
		run := 0
		for run < len(def) && def[run] == r.maxDef {
			run++
		}
		if run > 0 {
			r.take(c, run)
			def = def[run:]
			continue
		}
		if !r.values.field.Nullable {
			r.bad = append(r.bad, badValue{index: c.values(), want: r.values.want(), found: "null"})
		}
		r.values.placeholder(c)
		def = def[1:]
	}
}

// skip passes over n levels.
func (r *leafReader) skip(n int) {
	if r.full {
		r.value += n
		return
	}
	r.value += bytes.Count(r.def[r.pos:r.pos+n], []byte{r.maxDef})
}

// reject hands the bad values of the batch over. first is the number of its first row.
func (r *leafReader) reject(b *Batch, f int, first int64, file string) {
	for _, bad := range r.bad {
		row := bad.index
		if lists := b.Columns[f].Lists; lists != nil && !bad.isRow {
			row = rowOf(lists, bad.index)
		}
		b.reject(row, BadRow{File: file, Row: first + int64(row), Field: r.values.field.Name, Want: bad.want, Found: bad.found})
	}
	r.bad = r.bad[:0]
}
