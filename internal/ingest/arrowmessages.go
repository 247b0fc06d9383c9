package ingest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"
)

var errArrow = errors.New("an Arrow message is broken")

// arrowMagic begins and ends a file; what follows it, and its padding, is a stream and a footer.
const arrowMagic = "ARROW1"

// maxArrowMeta bounds what a message says of itself, and the footer of a file.
const maxArrowMeta = 64 << 20

// arrowMessages reads the messages of a stream. It implements [ipc.MessageReader], whose own does not check
// what is allocated by the numbers in a message.
type arrowMessages struct {
	from   io.Reader
	memory *budget
	file   bool // a footer follows
	last   *ipc.Message
}

func (r *arrowMessages) Retain() {}

// Release gives back the last message.
func (r *arrowMessages) Release() {
	if r.last != nil {
		r.last.Release()
		r.last = nil
	}
}

// Message returns the next message, valid until the one after it is read.
func (r *arrowMessages) Message() (*ipc.Message, error) {
	r.Release()
	var head [4]byte
	_, err := io.ReadFull(r.from, head[:])
	if err == nil && binary.LittleEndian.Uint32(head[:]) == 1<<32-1 { // none before Arrow 0.15
		if _, err = io.ReadFull(r.from, head[:]); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	size := binary.LittleEndian.Uint32(head[:])
	switch {
	case err == io.EOF && r.file:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case size == 0:
		return nil, r.end()
	case size < 8 || size > maxArrowMeta:
		return nil, errArrow
	}
	meta, err := r.buffer(int(size))
	if err != nil {
		return nil, err
	}
	defer meta.Release()
	n, err := checkArrowMessage(meta.Bytes())
	if err != nil {
		return nil, err
	}
	body, err := r.buffer(n)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	r.last = ipc.NewMessage(meta, body)
	return r.last, nil
}

// end returns io.EOF, unless a footer is missing.
func (r *arrowMessages) end() error {
	if r.file {
		footer, err := io.ReadAll(io.LimitReader(r.from, maxArrowMeta))
		if err != nil {
			return err
		}
		if !bytes.HasSuffix(footer, []byte(arrowMagic)) {
			return io.ErrUnexpectedEOF
		}
	}
	return io.EOF
}

func (r *arrowMessages) buffer(n int) (*memory.Buffer, error) {
	b := memory.NewResizableBuffer(r.memory)
	b.Resize(n)
	_, err := io.ReadFull(r.from, b.Bytes())
	if err == nil {
		return b, nil
	}
	b.Release()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// maxNesting bounds types within types.
const maxNesting = 100

// checkArrowMessage returns the length of a message's body. arrow-go allocates what the lengths in a
// message say, and running out of memory cannot be recovered from: so no vector may be longer than the
// message, and no array of views may have more buffers than there are. See Schema.fbs and Message.fbs of
// the Arrow format; tables and their fields are named by the offsets that these give them.
func checkArrowMessage(buf []byte) (body int, err error) {
	defer func() {
		if recover() != nil { // it leads out of buf
			err = errArrow
		}
	}()
	const typ, header, bodyLength, metadata = 6, 8, 10, 12
	const isSchema, isDictionary, isBatch = 1, 2, 3
	root := flatbuffers.Table{Bytes: buf, Pos: flatbuffers.GetUOffsetT(buf)}
	length := root.GetInt64Slot(bodyLength, 0)
	_, pairs := vector(root, metadata)
	left := len(buf)/4 - pairs // tables there can be
	good := left >= 0 && pairs >= 0 && length >= 0
	switch t := child(root, header); root.GetByteSlot(typ, 0) {
	case isSchema:
		const fields, metadata = 6, 8
		good = good && checkFields(t, fields, metadata, &left, 0)
	case isDictionary:
		const data = 6
		good = good && checkBatch(child(t, data))
	case isBatch:
		good = good && checkBatch(t)
	}
	if !good {
		return 0, errArrow
	}
	return int(length), nil
}

// child returns the table in a field of t; without one it panics.
func child(t flatbuffers.Table, field flatbuffers.VOffsetT) flatbuffers.Table {
	o := flatbuffers.UOffsetT(t.Offset(field))
	if o == 0 {
		panic(errArrow)
	}
	return flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(t.Pos + o)}
}

// vector returns where the elements of a vector are, and how many.
func vector(t flatbuffers.Table, field flatbuffers.VOffsetT) (at flatbuffers.UOffsetT, n int) {
	if o := flatbuffers.UOffsetT(t.Offset(field)); o != 0 {
		return t.Vector(o), t.VectorLen(o)
	}
	return 0, 0
}

// checkBatch checks how many buffers the arrays of views in a record batch have.
func checkBatch(t flatbuffers.Table) bool {
	const buffers, variadicCounts = 8, 12
	_, left := vector(t, buffers)
	at, n := vector(t, variadicCounts)
	for i := range n {
		count := t.GetInt64(at + flatbuffers.UOffsetT(8*i))
		if count < 0 || count > int64(left) {
			return false
		}
		left -= int(count)
	}
	return n >= 0
}

// checkFields checks the vector of fields of a table, that of its metadata, and all below them.
func checkFields(t flatbuffers.Table, fields, metadata flatbuffers.VOffsetT, left *int, depth int) bool {
	_, pairs := vector(t, metadata)
	at, n := vector(t, fields)
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
