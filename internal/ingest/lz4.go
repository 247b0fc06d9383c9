package ingest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// lz4Chunk stands in for a column chunk of LZ4 pages, and makes their headers say that there is nothing in them.
// parquet-go decompresses a page into a buffer of the size in the header, and goes on with that buffer, whatever is in it, if what
// comes out has just this size. But its LZ4 codec takes another buffer if that one is less than three times the compressed
// page (https://github.com/parquet-go/parquet-go/issues/608). The codec's other buffers are ever larger as long as a page does not
// decompress, a broken one never does: pages are decompressed here first, which costs a third more than that alone.
//
// It is read from start to end, once.
type lz4Chunk struct {
	section *bufio.Reader
	headers *thrift.Decoder
	start   int64  // of the chunk in the file
	passed  int64  // bytes that were read
	page    []byte // what is left of the present page, with its header
	scratch []byte
}

// pagesOf returns the pages of a column chunk, which is described by of.
func pagesOf(file io.ReaderAt, chunk parquet.ColumnChunk, of *format.ColumnMetaData) parquet.Pages {
	c, ok := chunk.(*parquet.FileColumnChunk)
	if !ok || of.Codec != format.Lz4Raw {
		return chunk.Pages()
	}
	start := of.DataPageOffset
	if of.DictionaryPageOffset != 0 {
		start = of.DictionaryPageOffset
	}
	section := bufio.NewReaderSize(io.NewSectionReader(file, start, of.TotalCompressedSize), readSize)
	protocol := new(thrift.CompactProtocol)
	return c.PagesFrom(&lz4Chunk{section: section, headers: thrift.NewDecoder(protocol.NewReader(section)), start: start})
}

func (c *lz4Chunk) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset != c.start+c.passed {
		return 0, errors.New("the dictionary is not where it should be")
	}
	for n < len(p) {
		if len(c.page) == 0 {
			if err = c.next(); err != nil {
				break
			}
		}
		k := copy(p[n:], c.page)
		n, c.page = n+k, c.page[k:]
	}
	c.passed += int64(n)
	return n, err
}

// next goes to the next page. It returns io.EOF after the last.
func (c *lz4Chunk) next() error {
	var h format.PageHeader
	if err := c.headers.Decode(&h); err != nil {
		return err
	}
	var data bytes.Buffer // the size is not to be believed
	if n, err := io.CopyN(&data, c.section, int64(h.CompressedPageSize)); err != nil || n != int64(h.CompressedPageSize) {
		return errBrokenPage
	}
	if err := c.check(&h, data.Bytes()); err != nil {
		return err
	}
	h.UncompressedPageSize = 0
	header, err := thrift.Marshal(new(thrift.CompactProtocol), &h)
	c.page = append(header, data.Bytes()...)
	return err
}

var errBrokenPage = errors.New("a page of LZ4 cannot be decompressed")

// check makes sure that a page can be decompressed, to what its header says.
func (c *lz4Chunk) check(h *format.PageHeader, data []byte) error {
	size := int(h.UncompressedPageSize)
	if v2 := &h.DataPageHeaderV2; v2.Valid {
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V {
			return nil
		}
		levels := int(v2.V.RepetitionLevelsByteLength) + int(v2.V.DefinitionLevelsByteLength)
		if levels < 0 || levels > len(data) {
			return errBrokenPage
		}
		data, size = data[levels:], size-levels
	}
	const most = 255 // LZ4 makes of a byte
	if size < 0 || size > most*len(data) {
		return errBrokenPage
	}
	c.scratch = grow(c.scratch, size)
	if n, err := lz4.UncompressBlock(data, c.scratch[:size]); err != nil || n != size {
		return fmt.Errorf("%w: there are %d bytes in it, not %d", errBrokenPage, n, size)
	}
	return nil
}
