package snapshot

import (
	"encoding/binary"
	"fmt"

	"weir/internal/disk/record"
)

// Format is what a file begins with.
var Format = record.Format{Magic: "weirfeed", Version: 3, Is: "a weir snapshot",
	Replace: "make one with weir import or weir generate"}

// Limits of the format.
const (
	MaxListLen  = 1<<16 - 1 // items of one list
	MaxUserName = 255       // bytes of a user's name
	MaxItemName = 1<<16 - 1 // bytes of an item's name, before it is written as JSON
	MaxSlots    = 1<<32 - 1 // ranks of one snapshot
)

const (
	headerBytes = record.PageSize
	pageBytes   = 4096     // alignment of the lists
	blockBytes  = 16 << 20 // lists are checksummed in blocks of this size
	headBytes   = 8        // of a record: tag and length
	maxListsLen = 1 << 47  // what a line with 16 fractional bits can reach
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
	names := [...]string{"", "lists", "list checksums", "list offsets", "user index", "item names",
		"item name offsets", "fallback items"}
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
	atKinds     = 0 // of users, of items, dense, number of sections
	atSlots     = 8
	atUserCount = 16
	atItemCount = 24
	atMaxItem   = 32
	atNameCount = 40
	atShortest  = 48
	atLongest   = 52
	atFileBytes = 56
	atPublished = 64
	atTable     = 72
	tableEntry  = 24
	fieldsLen   = atTable + int(sectionCount)*tableEntry
)

func (h *header) encode() []byte {
	b := make([]byte, fieldsLen)
	le := binary.LittleEndian
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
		le.PutUint64(e, h.sections[k].offset)
		le.PutUint64(e[8:], h.sections[k].length)
		le.PutUint64(e[16:], h.sections[k].sum)
	}
	return Format.Page(b)
}

// decodeHeader reads and checks the first page of a file of size bytes that is called path.
func decodeHeader(path string, page []byte, size uint64) (header, error) {
	var h header
	le := binary.LittleEndian
	b, err := Format.Parse(path, page, fieldsLen)
	if err != nil {
		return h, err
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
		return h, Format.Corrupt(path, 0, "kinds % x are not of version %d", b[atKinds:atKinds+4],
			Format.Version)
	case h.dense && h.users != Number:
		return h, Format.Corrupt(path, 0, "users that are strings cannot be ranks")
	case h.slots > MaxSlots || h.userCount > h.slots:
		return h, Format.Corrupt(path, 0, "%d users in %d slots", h.userCount, h.slots)
	case h.shortest > h.longest || h.longest > MaxListLen:
		return h, Format.Corrupt(path, 0, "lists of %d to %d items", h.shortest, h.longest)
	case h.items == String && h.nameCount > 0 && h.maxItem != h.nameCount-1:
		return h, Format.Corrupt(path, 0, "largest item %d of %d names", h.maxItem, h.nameCount)
	case h.fileBytes != size:
		return h, Format.Corrupt(path, 0, "it has %d bytes, not %d: copy it again", size, h.fileBytes)
	}
	for k := sectionKind(1); k <= sectionCount; k++ {
		e := b[atTable+int(k-1)*tableEntry:]
		s := section{offset: le.Uint64(e), length: le.Uint64(e[8:]), sum: le.Uint64(e[16:])}
		// At least loadSlack bytes follow every section, so that the last load stays in the file.
		if s.offset < headerBytes || s.offset > size || s.length > size-s.offset ||
			size-s.offset-s.length < loadSlack {
			return h, Format.Corrupt(path, 0, "%v: it is at %d..+%d of %d bytes", k, s.offset, s.length, size)
		}
		h.sections[k] = s
	}
	return h, nil
}

// damaged is a record.ErrCorrupt that names the section and what is wrong with it.
func damaged(section, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", record.ErrCorrupt, section, fmt.Sprintf(format, args...))
}

// HeaderBytes is how much of a file Measure needs.
const HeaderBytes = headerBytes

// Measure reads the beginning of a file of lists that need not all be there, and returns how long the whole
// file is and which version of the lists it holds. name is for errors, which are those of Open.
func Measure(name string, header []byte) (bytes int64, p Publication, err error) {
	b, err := Format.Parse(name, header, fieldsLen)
	if err != nil {
		return 0, 0, err
	}
	size := binary.LittleEndian.Uint64(b[atFileBytes:])
	h, err := decodeHeader(name, header, size)
	return int64(size), h.publication, err
}
