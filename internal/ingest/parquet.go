package ingest

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// parquetTable reads Parquet by its column chunks, each in a goroutine of its own. arrow-go's records are not
// used: they hold whole rows, of which a single one may be larger than memory. The levels are Dremel's, see
// https://parquet.apache.org/docs/file-format/nestedencoding/.
type parquetTable struct {
	file   readerAtCloser
	size   int64
	data   *file.Reader
	memory *budget
	offers []column
	leaves []leaf // by offer
}

// A leaf is a column that holds values.
type leaf struct {
	index   int // among the chunks of a row group
	stored  storedType
	maxDef  int16
	listDef int16 // the definition level from which on there is an element; 0: no list
}

const (
	batchRows   = 8192
	batchValues = 1 << 16
	readSize    = 256 << 10 // of a column chunk
)

func openParquet(f readerAtCloser, size int64, o Options) (table, error) {
	boundCodecs()
	// A decoded dictionary takes several times its page.
	t := &parquetTable{file: f, size: size, memory: newBudget(o, 4)}
	props := parquet.NewReaderProperties(t.memory)
	props.BufferedStreamEnabled, props.BufferSize = true, readSize
	// The budget is the limit.
	props.MaxCompressedPageSize, props.MaxUncompressedPageSize = math.MaxInt32, math.MaxInt32
	var err error
	t.data, err = file.NewParquetReader(io.NewSectionReader(f, 0, size), file.WithReadProps(props))
	if err != nil {
		return nil, t.memory.explain(err)
	}
	w := schemaWalk{table: t}
	root := t.data.MetaData().Schema.Root()
	for i := range root.NumFields() {
		w.walk(root.Field(i), root.Field(i).Name(), 0)
	}
	if !hasValues(t.offers) {
		return nil, fmt.Errorf("no column of this Parquet file holds numbers or strings, alone or in lists")
	}
	return t, nil
}

// A schemaWalk goes through a schema in the order of the columns.
type schemaWalk struct {
	table *parquetTable
	index int // of the next leaf
}

func repeated(n schema.Node) bool { return n.RepetitionType() == parquet.Repetitions.Repeated }

// defined returns the definition level of a node, given that of its parent.
func defined(n schema.Node, parent int16) int16 {
	if n.RepetitionType() == parquet.Repetitions.Required {
		return parent
	}
	return parent + 1
}

// walk lists the leaves below a node that no list encloses yet.
func (w *schemaWalk) walk(n schema.Node, name string, def int16) {
	def = defined(n, def)
	group, isGroup := n.(*schema.GroupNode)
	switch {
	case repeated(n):
		w.walkElement(n, name, def)
	case !isGroup:
		w.add(n, column{name: name}, def, 0)
	case group.NumFields() == 1 && repeated(group.Field(0)):
		w.walkElement(group.Field(0), name, def+1)
	default:
		for i := range group.NumFields() {
			w.walk(group.Field(i), name+"."+group.Field(i).Name(), def)
		}
	}
}

// walkElement lists the leaves of a list's elements, given its repeated node. In the standard layout and in
// Hive's the node wraps the element, in two older ones it is the element: these are told apart by the
// format's backward-compatibility rules.
func (w *schemaWalk) walkElement(n schema.Node, name string, listDef int16) {
	element, def := n, listDef
	g, ok := n.(*schema.GroupNode)
	if ok && g.NumFields() == 1 && n.Name() != "array" && n.Name() != name+"_tuple" {
		element = g.Field(0)
		def = defined(element, def)
	}
	nested := repeated(element) && element != n
	w.walkMembers(element, column{name: name, shape: list}, def, listDef, nested)
}

// walkMembers lists the leaves of an element, in structs by their names. nested says that they are in lists
// within lists.
func (w *schemaWalk) walkMembers(n schema.Node, offer column, def, listDef int16, nested bool) {
	g, ok := n.(*schema.GroupNode)
	if !ok {
		if nested {
			listDef = 0
		}
		w.add(n, offer, def, listDef)
		return
	}
	for i := range g.NumFields() {
		c, f := offer, g.Field(i)
		if c.member != "" {
			c.member += "."
		}
		c.member += f.Name()
		w.walkMembers(f, c, defined(f, def), listDef, nested || repeated(f))
	}
}

func (w *schemaWalk) add(n schema.Node, offer column, def, listDef int16) {
	stored, typ := parquetType(n.(*schema.PrimitiveNode))
	switch {
	case offer.shape == list && listDef == 0:
		offer.typ = "list of lists"
	case stored.form == formNone:
		offer.typ = typ
	default:
		offer.ids, offer.float, offer.typ = stored.describe()
	}
	w.table.offers = append(w.table.offers, offer)
	w.table.leaves = append(w.table.leaves, leaf{index: w.index, stored: stored, maxDef: def,
		listDef: listDef})
	w.index++
}

// parquetType says how the values of a column are stored, and what the schema calls them.
func parquetType(n *schema.PrimitiveNode) (stored storedType, typ string) {
	typ = n.PhysicalType().String()
	switch l := n.LogicalType().(type) {
	case schema.IntLogicalType:
		if !l.IsSigned() {
			return storedType{form: formUnsigned}, typ
		}
	case schema.DecimalLogicalType:
		return storedType{formDecimal, int(l.Scale())}, typ
	case schema.UUIDLogicalType:
		return storedType{form: formUUID}, typ
	case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType, schema.NoLogicalType,
		schema.UnknownLogicalType, nil:
	default:
		typ, _, _ = strings.Cut(l.String(), "(")
		return storedType{}, typ // dates and times are no ids
	}
	switch n.PhysicalType() {
	case parquet.Types.Int32, parquet.Types.Int64:
		return storedType{form: formInteger}, typ
	case parquet.Types.Float, parquet.Types.Double:
		return storedType{form: formFloat}, typ
	case parquet.Types.ByteArray, parquet.Types.FixedLenByteArray:
		return storedType{form: formText}, typ
	}
	return storedType{}, typ
}

func (t *parquetTable) columns() []column { return t.offers }
func (t *parquetTable) close() error      { return t.file.Close() }

func (t *parquetTable) read(ctx context.Context, to target, emit func(*Batch) error) error {
	b := Batch{next: 1}
	rows, reported := max(1, t.data.NumRows()), int64(0)
	for i := range t.data.NumRowGroups() {
		err := t.readGroup(ctx, t.data.RowGroup(i), &b, to, func(b *Batch) error {
			bytes := int64(float64(t.size) * min(1, float64(b.next-1)/float64(rows)))
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

func (t *parquetTable) readGroup(ctx context.Context, g *file.RowGroupReader, b *Batch, to target,
	emit func(*Batch) error) error {

	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	readers := make([]*columnReader, len(to.fields))
	for f, c := range to.chosen {
		if c.column < 0 {
			continue
		}
		chunk, err := g.MetaData().ColumnChunk(t.leaves[c.column].index)
		if err != nil {
			return damaged(err)
		}
		if !slices.Contains(codecs, chunk.Compression()) {
			return fmt.Errorf("column %s is compressed with %s: Snappy, gzip, zstd, LZ4_RAW and Brotli are "+
				"read",
				t.offers[c.column].name, chunk.Compression())
		}
		r := &columnReader{leaf: t.leaves[c.column], done: ctx.Done()}
		r.filled, r.free = make(chan *piece, pieces), make(chan *piece, pieces)
		r.values = converter{storedType: r.stored, field: &to.fields[f], kind: to.kinds[f]}
		for range pieces {
			r.free <- &piece{}
		}
		readers[f] = r
		running.Go(func() {
			defer close(r.filled)
			if err := t.memory.explain(r.run(t, g)); err != nil {
				r.send(&piece{err: err})
			}
		})
	}
	for left := g.NumRows(); left > 0; left -= b.seen {
		rows := int(min(left, batchValues))
		for f, r := range readers {
			if r == nil {
				continue
			}
			if err := r.fill(); err != nil {
				return err
			}
			if r.current == nil {
				if err := ctx.Err(); err != nil {
					return err
				}
				return fmt.Errorf("a row group of %d rows ends %d rows early in column %s",
					g.NumRows(), left, to.fields[f].Name)
			}
			rows = min(rows, r.current.rows-r.row)
		}
		b.reset(len(to.fields), rows)
		for f, r := range readers {
			if r != nil {
				r.move(b, f, rows, to.file)
			}
		}
		b.drop()
		if err := emit(b); err != nil {
			return err
		}
	}
	return nil
}

// codecs are those that pages are decompressed of.
var codecs = []compress.Compression{
	compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip,
	compress.Codecs.Zstd, compress.Codecs.Lz4Raw, compress.Codecs.Brotli,
}

// A piece is some whole rows of one column.
type piece struct {
	values Column
	rows   int
	bad    []badValue
	err    error // instead of rows
}

// pieces is how many of them a column has: one is used, one waits and one is filled.
const pieces = 3

// columnReader turns one column chunk into pieces. A goroutine runs it ahead of their use.
type columnReader struct {
	leaf
	values       converter
	done         <-chan struct{}
	filled, free chan *piece

	out     *piece // being filled
	rep     []int16
	def     []int16
	element int  // of the open row
	open    bool // a row may go on in the next page

	current *piece // being used
	row     int    // the next of it
	bad     []badValue
}

// run decodes the whole chunk.
func (r *columnReader) run(t *parquetTable, g *file.RowGroupReader) (err error) {
	defer func() { recoverInto(&err, recover()) }()
	pages, err := g.GetColumnPageReader(r.index)
	if err != nil {
		return err
	}
	of := t.data.MetaData().Schema.Column(r.index)
	bounded := &boundedPages{PageReader: pages, memory: t.memory, rep: of.MaxRepetitionLevel(),
		def: of.MaxDefinitionLevel()}
	//lint:ignore SA1019 no other reader takes pages that are bounded before they are decoded
	chunk := file.NewColumnReader(of, bounded, t.memory, t.data.BufferPool())
	defer chunk.Close()
	r.rep, r.def = make([]int16, batchRows), make([]int16, batchRows)
	decode := r.decoder(chunk)
	r.take()
	for r.out != nil && chunk.HasNext() {
		n, err := decode()
		if err != nil {
			return err
		}
		if n <= 0 {
			return io.ErrUnexpectedEOF
		}
		if r.listDef == 0 {
			r.appendSingles(n)
		} else if err := r.appendLists(n); err != nil {
			return err
		}
	}
	if r.out == nil {
		return nil
	}
	if r.open {
		r.endRow()
	}
	r.send(r.out)
	return chunk.Err()
}

// decoder returns a function that reads the levels and values of some rows, all of one page.
func (r *columnReader) decoder(chunk file.ColumnChunkReader) func() (int64, error) {
	switch c := chunk.(type) {
	case *file.Int32ColumnChunkReader:
		return decoderOf(r, c.ReadBatchInPage)
	case *file.Int64ColumnChunkReader:
		return decoderOf(r, c.ReadBatchInPage)
	case *file.Float32ColumnChunkReader:
		return decoderOf(r, c.ReadBatchInPage)
	case *file.Float64ColumnChunkReader:
		return decoderOf(r, c.ReadBatchInPage)
	case *file.ByteArrayColumnChunkReader:
		return decoderOf(r, c.ReadBatchInPage)
	case *file.FixedLenByteArrayColumnChunkReader:
		return decoderOf(r, c.ReadBatchInPage)
	}
	return func() (int64, error) { return 0, fmt.Errorf("values of type %s are not read", chunk.Type()) }
}

func decoderOf[T any](r *columnReader,
	read func(n int64, values []T, def, rep []int16) (int64, int, error)) func() (int64, error) {

	values := make([]T, batchRows)
	return func() (int64, error) {
		levels, n, err := read(batchRows, values, r.def, r.rep)
		r.values.values = any(values[:n])
		if unsigned, ok := r.values.values.([]int32); ok && r.stored.form == formUnsigned {
			r.values.values = arrow.Uint32Traits.CastFromBytes(arrow.Int32Traits.CastToBytes(unsigned))
		}
		return levels, err
	}
}

// take gets an empty piece, nil once reading has ended.
func (r *columnReader) take() {
	select {
	case r.out = <-r.free:
		r.out.values.rewind(mark{})
		r.out.rows, r.out.bad = 0, r.out.bad[:0]
		if r.listDef > 0 && r.out.values.Lists == nil {
			r.out.values.Lists = make([]uint32, 0, batchRows)
		}
	case <-r.done:
		r.out = nil
	}
}

func (r *columnReader) send(p *piece) {
	select {
	case r.filled <- p:
	case <-r.done:
	}
}

// appendSingles appends n rows of one value each.
func (r *columnReader) appendSingles(n int64) {
	r.appendValues(r.def[:n], 0)
	r.out.rows += int(n)
	if r.out.rows >= batchRows {
		r.send(r.out)
		r.take()
	}
}

// appendLists appends what n levels stand for. The last row may go on in the next page.
func (r *columnReader) appendLists(n int64) error {
	rep, def := r.rep[:n], r.def[:n]
	for at, value := 0, 0; at < len(rep); {
		if rep[at] == 0 {
			if r.open {
				r.endRow()
			}
			if r.out.rows >= batchRows || r.out.values.values() >= batchValues {
				r.send(r.out)
				if r.take(); r.out == nil {
					return nil
				}
			}
			r.open, r.element = true, 0
		} else if !r.open {
			return fmt.Errorf("column %s begins within a row", r.values.field.Name)
		}
		end := at + 1
		for end < len(rep) && rep[end] != 0 {
			end++
		}
		run := def[at:end]
		r.element += len(run)
		switch {
		case r.element > MaxList:
			if r.element-len(run) <= MaxList {
				r.rejectRow("more than that")
			}
			for _, d := range run {
				if d == r.maxDef {
					value++
				}
			}
		case run[0] < r.listDef:
			if run[0] < r.listDef-1 {
				r.rejectRow("null")
			}
		default:
			value = r.appendValues(run, value)
		}
		at = end
	}
	return nil
}

func (r *columnReader) endRow() {
	r.out.values.Lists = append(r.out.values.Lists, uint32(r.out.values.values()))
	r.out.rows++
}

func (r *columnReader) rejectRow(found string) {
	r.out.bad = append(r.out.bad, badValue{r.out.rows, r.values.field.wantList(), found})
}

// appendValues appends what definition levels stand for, with placeholders for nulls. value is the first to
// be taken of the page; it returns the one after the last.
func (r *columnReader) appendValues(def []int16, value int) int {
	c, v := &r.out.values, &r.values
	v.bad = v.bad[:0]
	for len(def) > 0 {
		run := 0
		for run < len(def) && (r.maxDef == 0 || def[run] == r.maxDef) {
			run++
		}
		if run > 0 {
			v.append(c, value, value+run)
			value, def = value+run, def[run:]
			continue
		}
		v.null(c)
		def = def[1:]
	}
	for _, bad := range v.bad {
		if r.listDef > 0 {
			bad.index = r.out.rows
		}
		r.out.bad = append(r.out.bad, bad)
	}
	return value
}

// fill makes sure that there is a row, unless the chunk is at its end.
func (r *columnReader) fill() error {
	for r.current == nil || r.row == r.current.rows {
		if r.current != nil {
			r.free <- r.current
		}
		if r.current, r.row = <-r.filled, 0; r.current == nil {
			return nil
		}
		if r.current.err != nil {
			return r.current.err
		}
		r.bad = r.current.bad
	}
	return nil
}

// move appends the next rows to column f of a batch.
func (r *columnReader) move(b *Batch, f, rows int, file string) {
	b.Columns[f].appendRows(&r.current.values, r.row, r.row+rows)
	for len(r.bad) > 0 && r.bad[0].index < r.row+rows {
		b.reject(r.bad[0].index-r.row, r.bad[0], r.values.field, file)
		r.bad = r.bad[1:]
	}
	r.row += rows
}
