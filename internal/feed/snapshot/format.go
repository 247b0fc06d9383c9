package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
)

// Version is the version of the file format this package writes and reads.
const Version = 1

// Limits of the format.
const (
	MaxListLen  = 1<<16 - 1 // items of one list
	MaxUserName = 255       // bytes of a user's name
	MaxItemName = 1<<16 - 1 // bytes of an item's name, before it is written as JSON
	MaxSlots    = 1<<32 - 1 // ranks of one snapshot
)

const (
	magic       = "weirfeed"
	headerBytes = 4096
	pageBytes   = 4096     // alignment of the lists
	blockBytes  = 16 << 20 // lists are checksummed in blocks of this size
	headBytes   = 8        // of a record: tag and length
	maxListsLen = 1 << 47  // what a line with 16 fractional bits can reach
)

// Errors of Open, Warm and Verify; the message says more.
var (
	// ErrNotSnapshot is a file that does not begin as a snapshot does.
	ErrNotSnapshot = errors.New("not a weir snapshot")
	// ErrVersion is a snapshot of another version of the format.
	ErrVersion = errors.New("unknown version of the snapshot format")
	// ErrCorrupt is a snapshot that is damaged or cut off.
	ErrCorrupt = errors.New("snapshot is damaged")
)

// Kind is what ids are.
type Kind uint8

const (
	Number Kind = iota // uint64
	String             // UTF-8 text of items, any bytes of users
)

func (k Kind) String() string {
	switch k {
	case Number:
		return "number"
	case String:
		return "string"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// sectionKind names a section in the table of the header.
type sectionKind uint32

const (
	sectionLists    sectionKind = 1 + iota // the records
	sectionBlocks                          // checksums of the lists
	sectionRecords                         // where each record begins
	sectionIndex                           // users by hash, unless the ids are the ranks
	sectionNames                           // item names as JSON strings
	sectionNameEnds                        // where each name begins
	sectionFallback                        // items for those who have none
	sectionCount    = sectionFallback
)

func (k sectionKind) String() string {
	names := [...]string{"", "lists", "list checksums", "list offsets", "user index", "item names", "item name offsets", "fallback items"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("section %d", uint32(k))
}

// section is an entry of the table in the header.
type section struct {
	offset, length uint64 // bytes; the padding behind is not counted
	sum            uint64 // xxh3 of the section; of the lists, that of their checksums
}

// header is the first page of a file.
type header struct {
	users, items      Kind
	dense             bool
	slots             uint64 // ranks
	userCount         uint64 // lists that are present
	itemCount         uint64 // items of all lists
	maxItem           uint64
	nameCount         uint64
	shortest, longest uint32 // items of a list
	fileBytes         uint64
	publication       Publication
	sections          [sectionCount + 1]section // by kind; length 0 where absent
}

// Where the fields of the header are.
const (
	atVersion   = 8
	atKinds     = 12
	atSlots     = 16
	atUserCount = 24
	atItemCount = 32
	atMaxItem   = 40
	atNameCount = 48
	atShortest  = 56
	atLongest   = 60
	atFileBytes = 64
	atPublished = 72
	atTable     = 128
	tableEntry  = 32
	atSum       = headerBytes - 8
)

func (h *header) encode() []byte {
	b := make([]byte, headerBytes)
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint32(b[atVersion:], Version)
	b[atKinds] = byte(h.users)
	b[atKinds+1] = byte(h.items)
	if h.dense {
		b[atKinds+2] = 1
	}
	b[atKinds+3] = byte(sectionCount)
	le.PutUint64(b[atSlots:], h.slots)
	le.PutUint64(b[atUserCount:], h.userCount)
	le.PutUint64(b[atItemCount:], h.itemCount)
	le.PutUint64(b[atMaxItem:], h.maxItem)
	le.PutUint64(b[atNameCount:], h.nameCount)
	le.PutUint32(b[atShortest:], h.shortest)
	le.PutUint32(b[atLongest:], h.longest)
	le.PutUint64(b[atFileBytes:], h.fileBytes)
	le.PutUint64(b[atPublished:], uint64(h.publication))
	for k := sectionKind(1); k <= sectionCount; k++ {
		e := b[atTable+int(k-1)*tableEntry:]
		le.PutUint32(e, uint32(k))
		le.PutUint64(e[8:], h.sections[k].offset)
		le.PutUint64(e[16:], h.sections[k].length)
		le.PutUint64(e[24:], h.sections[k].sum)
	}
	le.PutUint64(b[atSum:], xxh3.Hash(b[:atSum]))
	return b
}

// decodeHeader reads and checks the first page of a file of size bytes.
func decodeHeader(b []byte, size uint64) (header, error) {
	var h header
	le := binary.LittleEndian
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return h, fmt.Errorf("%w: it does not begin with %q; make one with weir import or weir generate", ErrNotSnapshot, magic)
	}
	if len(b) < headerBytes {
		return h, damaged("header", "the file ends after %d bytes, expected at least %d", len(b), headerBytes)
	}
	if v := le.Uint32(b[atVersion:]); v != Version {
		return h, fmt.Errorf("%w: the file is of version %d, this weir reads version %d; import the lists again with this weir, or use the one that wrote the file", ErrVersion, v, Version)
	}
	if found, want := xxh3.Hash(b[:atSum]), le.Uint64(b[atSum:]); found != want {
		return h, damaged("header", "its checksum is %016x, expected %016x", found, want)
	}
	h = header{
		users: Kind(b[atKinds]), items: Kind(b[atKinds+1]), dense: b[atKinds+2] == 1,
		slots:     le.Uint64(b[atSlots:]),
		userCount: le.Uint64(b[atUserCount:]), itemCount: le.Uint64(b[atItemCount:]),
		maxItem: le.Uint64(b[atMaxItem:]), nameCount: le.Uint64(b[atNameCount:]),
		shortest: le.Uint32(b[atShortest:]), longest: le.Uint32(b[atLongest:]),
		fileBytes: le.Uint64(b[atFileBytes:]), publication: Publication(le.Uint64(b[atPublished:])),
	}
	switch {
	case h.users > String || h.items > String || b[atKinds+2] > 1 || b[atKinds+3] != byte(sectionCount):
		return h, damaged("header", "kinds % x are not of version %d", b[atKinds:atKinds+4], Version)
	case h.dense && h.users != Number:
		return h, damaged("header", "users that are strings cannot be ranks")
	case h.slots > MaxSlots || h.userCount > h.slots:
		return h, damaged("header", "%d users in %d slots", h.userCount, h.slots)
	case h.shortest > h.longest || h.longest > MaxListLen:
		return h, damaged("header", "lists of %d to %d items", h.shortest, h.longest)
	case h.items == String && h.nameCount > 0 && h.maxItem != h.nameCount-1:
		return h, damaged("header", "largest item %d of %d names", h.maxItem, h.nameCount)
	case h.fileBytes != size:
		return h, damaged("header", "the file has %d bytes, expected %d; copy or import it again", size, h.fileBytes)
	}
	for k := sectionKind(1); k <= sectionCount; k++ {
		e := b[atTable+int(k-1)*tableEntry:]
		s := section{offset: le.Uint64(e[8:]), length: le.Uint64(e[16:]), sum: le.Uint64(e[24:])}
		if sectionKind(le.Uint32(e)) != k {
			return h, damaged("header", "entry %d of the section table is of kind %d", k, le.Uint32(e))
		}
		// At least loadSlack bytes follow every section, so that the last load stays in the file.
		if s.offset < headerBytes || s.offset > size || s.length > size-s.offset || size-s.offset-s.length < loadSlack {
			return h, damaged(k.String(), "it is at %d..+%d of %d bytes", s.offset, s.length, size)
		}
		h.sections[k] = s
	}
	return h, nil
}

// damaged is an ErrCorrupt that names the section and what is wrong with it.
func damaged(section, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrCorrupt, section, fmt.Sprintf(format, args...))
}
