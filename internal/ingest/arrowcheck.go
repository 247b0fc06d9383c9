package ingest

import (
	"encoding/binary"
	"errors"
	"io"

	flatbuffers "github.com/google/flatbuffers/go"
)

// arrow-go allocates what the lengths in a schema say, and running out of memory cannot be recovered from.
// So a schema is checked first: the vectors in it may not be longer than the bytes there are. See
// Schema.fbs, File.fbs and Message.fbs of the Arrow format; tables and their fields are named by the
// offsets that these give them.

var errArrowSchema = errors.New("the Arrow schema is broken")

// checkArrowStream checks the schema that a stream begins with. What is cut off is left to arrow-go.
func checkArrowStream(head []byte) error {
	if len(head) < 8 {
		return nil
	}
	size := binary.LittleEndian.Uint32(head[4:])
	if uint64(size) > uint64(len(head)-8) {
		return errArrowSchema
	}
	const header = 8
	return checkArrowSchema(head[8:8+size], header)
}

// checkArrowFile checks the schema in the footer of a file.
func checkArrowFile(file io.ReaderAt, size int64) error {
	const tail = 10 // length of the footer and "ARROW1"
	var end [tail]byte
	if size < tail {
		return errArrowSchema
	}
	if _, err := file.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-tail || length > maxArrowFooter {
		return errArrowSchema
	}
	footer := make([]byte, length)
	if _, err := file.ReadAt(footer, size-tail-length); err != nil {
		return err
	}
	const schema = 6
	return checkArrowSchema(footer, schema)
}

// maxNesting bounds types within types.
const maxNesting = 100

// maxArrowFooter is a thousand times that of a file of a thousand record batches.
const maxArrowFooter = 64 << 20

// checkArrowSchema checks the schema that a field of the root leads to.
func checkArrowSchema(buf []byte, field flatbuffers.VOffsetT) (err error) {
	defer func() {
		if recover() != nil { // it leads out of buf
			err = errArrowSchema
		}
	}()
	root := flatbuffers.Table{Bytes: buf, Pos: flatbuffers.GetUOffsetT(buf)}
	at := root.Offset(field)
	if at == 0 {
		return errArrowSchema
	}
	schema := flatbuffers.Table{Bytes: buf, Pos: root.Indirect(root.Pos + flatbuffers.UOffsetT(at))}
	left := len(buf) / 4 // tables there can be
	const fields, metadata = 6, 8
	if !checkFields(schema, fields, metadata, &left, 0) {
		return errArrowSchema
	}
	return nil
}

// checkFields checks the vector of fields of a table, that of its metadata, and all below them.
func checkFields(t flatbuffers.Table, fields, metadata flatbuffers.VOffsetT, left *int, depth int) bool {
	vector := func(field flatbuffers.VOffsetT) (at flatbuffers.UOffsetT, n int) {
		o := flatbuffers.UOffsetT(t.Offset(field))
		if o == 0 {
			return 0, 0
		}
		return t.Vector(o), t.VectorLen(o)
	}
	_, pairs := vector(metadata)
	at, n := vector(fields)
	if *left -= n + pairs; n < 0 || pairs < 0 || *left < 0 || depth > maxNesting {
		return false
	}
	for i := range n {
		child := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at + flatbuffers.UOffsetT(4*i))}
		const fields, metadata = 14, 16
		if !checkFields(child, fields, metadata, left, depth+1) {
			return false
		}
	}
	return true
}
