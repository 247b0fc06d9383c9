package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// nameWriter writes the names of items as they will be served, as JSON string literals each with its
// checksum, and remembers where each begins and what stands for it in tags.
type nameWriter struct {
	ends       lineBuilder
	identities []uint64 // by index; 8 bytes of heap a name while a snapshot is written
	literal    bytes.Buffer
	encoder    *json.Encoder
}

func newNameWriter(dir string) *nameWriter {
	n := &nameWriter{ends: lineBuilder{runs: spool{dir: dir}}}
	n.encoder = json.NewEncoder(&n.literal)
	n.encoder.SetEscapeHTML(false)
	return n
}

// writeTo writes all literals to out.
func (n *nameWriter) writeTo(out io.Writer, names iter.Seq[string]) error {
	for name := range names {
		if err := n.add(out, name); err != nil {
			return err
		}
	}
	return n.ends.add(0) // the end of the last name
}

func (n *nameWriter) add(out io.Writer, name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("item name %q is not UTF-8, which JSON needs; convert the names first", name)
	}
	if len(name) > MaxItemName {
		return fmt.Errorf("an item name has %d bytes, at most %d are possible; it begins with %.40q",
			len(name), MaxItemName, name)
	}
	n.literal.Reset()
	if err := n.encoder.Encode(name); err != nil {
		return fmt.Errorf("item name %q: %w", name, err)
	}
	literal := bytes.TrimSuffix(n.literal.Bytes(), []byte("\n"))
	n.identities = append(n.identities, identityOf([]byte(name)))
	literal = binary.LittleEndian.AppendUint16(literal, uint16(xxh3.Hash(literal)))
	if err := n.ends.add(uint32(len(literal))); err != nil {
		return err
	}
	_, err := out.Write(literal)
	return err
}
