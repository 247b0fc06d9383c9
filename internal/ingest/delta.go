package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// boundedPages refuses pages for whose numbers arrow-go's decoders of deltas would allocate more than an
// import may take: they make room for as many lengths as a page's header counts, and for whole miniblocks.
// See https://parquet.apache.org/docs/file-format/data-pages/encodings/.
type boundedPages struct {
	file.PageReader
	memory   *budget
	rep, def int16 // the highest levels
	err      error
}

var errDelta = errors.New("a page of deltas is broken")

// maxDeltaBlock is a thousand times the values that writers put into a block.
const maxDeltaBlock = 128 << 10

// Next goes to the next page.
func (p *boundedPages) Next() bool {
	if !p.PageReader.Next() {
		return false
	}
	p.err = p.check(p.Page())
	return p.err == nil
}

// Err returns why Next returned false, nil at the end.
func (p *boundedPages) Err() error {
	if p.err != nil {
		return p.err
	}
	return p.PageReader.Err()
}

func (p *boundedPages) check(page file.Page) (err error) {
	encoding := parquet.Encoding(page.Encoding())
	ofBytes := encoding == parquet.Encodings.DeltaByteArray
	if !ofBytes && encoding != parquet.Encodings.DeltaLengthByteArray &&
		encoding != parquet.Encodings.DeltaBinaryPacked {
		return nil
	}
	if n := 8 * int64(page.NumValues()); encoding != parquet.Encodings.DeltaBinaryPacked &&
		n > p.memory.most {
		p.memory.refused.Store(n)
		return fmt.Errorf("a page of %d values", page.NumValues())
	}
	defer func() {
		if recover() != nil { // it leads out of the page
			err = errDelta
		}
	}()
	data := page.Data()
	switch page := page.(type) {
	case *file.DataPageV1:
		data = skipLevels(data, page.RepetitionLevelEncoding(), p.rep, page.NumValues())
		data = skipLevels(data, page.DefinitionLevelEncoding(), p.def, page.NumValues())
	case *file.DataPageV2:
		data = data[page.RepetitionLevelByteLen()+page.DefinitionLevelByteLen():]
	}
	data, err = skipDeltas(data, ofBytes)
	if err == nil && ofBytes { // lengths of prefixes are followed by those of suffixes
		_, err = skipDeltas(data, false)
	}
	return err
}

// skipLevels returns what follows the levels of n values.
func skipLevels(data []byte, encoding parquet.Encoding, highest int16, n int32) []byte {
	switch {
	case highest == 0:
		return data
	case encoding == parquet.Encodings.RLE:
		return data[4+int(binary.LittleEndian.Uint32(data)):]
	}
	return data[(int(n)*bits.Len16(uint16(highest))+7)/8:]
}

// skipDeltas checks the header of packed deltas. It returns what follows all of them if that is asked for.
func skipDeltas(data []byte, all bool) ([]byte, error) {
	number := func() uint64 {
		x, n := binary.Uvarint(data)
		data = data[n:]
		return x
	}
	block, minis, left := number(), number(), number()
	if block == 0 || minis == 0 || block > maxDeltaBlock || minis > block {
		return nil, errDelta
	}
	number() // the first value
	for left = max(left, 1) - 1; all && left > 0; {
		number() // the lowest delta
		widths := data[:minis]
		data = data[minis:]
		for _, width := range widths {
			if left == 0 {
				break
			}
			data = data[block/minis*uint64(width)/8:]
			left -= min(left, block/minis)
		}
	}
	return data, nil
}
