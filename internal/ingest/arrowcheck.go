package ingest

import (
	"encoding/binary"
	"errors"
	"io"
)

// arrow-go believes the lengths in a schema and reserves memory for them, and running out of that
// cannot be recovered from. So a schema is looked through first: no vector in it may be longer
// than the bytes there are. See Schema.fbs, File.fbs and Message.fbs of the Arrow format and
// https://flatbuffers.dev/internals for the encoding.

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
	message, err := flatRoot(head[8 : 8+size])
	if err != nil {
		return err
	}
	const header = 2
	return checkSchemaAt(message, header)
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
	root, err := flatRoot(footer)
	if err != nil {
		return err
	}
	const schema = 1
	return checkSchemaAt(root, schema)
}

// maxNesting bounds types within types.
const maxNesting = 100

// maxArrowFooter is a thousand times that of a file of a thousand record batches.
const maxArrowFooter = 64 << 20

// A flatTable is a table in a flatbuffer.
type flatTable struct {
	buf []byte
	pos int
}

func flatRoot(buf []byte) (flatTable, error) {
	if len(buf) < 4 {
		return flatTable{}, errArrowSchema
	}
	return flatTable{buf, 0}.follow(0)
}

// follow returns the table that the offset at pos leads to.
func (t flatTable) follow(pos int) (flatTable, error) {
	if pos < 0 || pos+4 > len(t.buf) {
		return flatTable{}, errArrowSchema
	}
	to := uint64(pos) + uint64(binary.LittleEndian.Uint32(t.buf[pos:]))
	if to+4 > uint64(len(t.buf)) {
		return flatTable{}, errArrowSchema
	}
	return flatTable{t.buf, int(to)}, nil
}

// field returns where the field with a number is, 0 when it is absent.
func (t flatTable) field(number int) (int, error) {
	vtable := int64(t.pos) - int64(int32(binary.LittleEndian.Uint32(t.buf[t.pos:])))
	if vtable < 0 || vtable+4 > int64(len(t.buf)) {
		return 0, errArrowSchema
	}
	size := int(binary.LittleEndian.Uint16(t.buf[vtable:]))
	at := 4 + 2*number
	if at+2 > size {
		return 0, nil
	}
	if vtable+int64(at)+2 > int64(len(t.buf)) {
		return 0, errArrowSchema
	}
	offset := int(binary.LittleEndian.Uint16(t.buf[vtable+int64(at):]))
	if offset == 0 {
		return 0, nil
	}
	return t.pos + offset, nil
}

// vector returns where the elements of a vector of offsets begin and how many there are.
func (t flatTable) vector(number int) (from, n int, err error) {
	at, err := t.field(number)
	if err != nil || at == 0 {
		return 0, 0, err
	}
	v, err := t.follow(at)
	if err != nil {
		return 0, 0, err
	}
	length := binary.LittleEndian.Uint32(t.buf[v.pos:])
	if uint64(length) > uint64(len(t.buf)-v.pos-4)/4 {
		return 0, 0, errArrowSchema
	}
	return v.pos + 4, int(length), nil
}

func checkSchemaAt(t flatTable, number int) error {
	at, err := t.field(number)
	if err != nil {
		return err
	}
	if at == 0 {
		return errArrowSchema
	}
	schema, err := t.follow(at)
	if err != nil {
		return err
	}
	const fields, metadata = 1, 2
	if _, _, err := schema.vector(metadata); err != nil {
		return err
	}
	left := len(t.buf) / 4 // tables there can be
	return schema.checkFields(fields, &left, 0)
}

// checkFields checks a vector of fields and all below them.
func (t flatTable) checkFields(number int, left *int, depth int) error {
	from, n, err := t.vector(number)
	if err != nil {
		return err
	}
	if *left -= n; *left < 0 || depth > maxNesting {
		return errArrowSchema
	}
	for i := range n {
		f, err := t.follow(from + 4*i)
		if err != nil {
			return err
		}
		const children, metadata = 5, 6
		if _, _, err := f.vector(metadata); err != nil {
			return err
		}
		if err := f.checkFields(children, left, depth+1); err != nil {
			return err
		}
	}
	return nil
}
