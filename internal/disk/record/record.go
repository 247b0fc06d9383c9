// Package record is how weir's files last: one header, one log of frames, and one syncer for what is
// written in place. Files replaced as a whole are written by disk.CreateAtomic, with a header of this
// package.
//
// What it promises:
//
//   - A header tells a file of another kind (ErrKind), of another version (ErrVersion) and a damaged one
//     (ErrCorrupt) apart, whatever version wrote it: what names another is ErrVersion even if its
//     checksum is wrong. Rewriting it in place cannot tear it.
//   - A frame of a Log is there as a whole or not at all, and valid in its place alone.
//   - Reading a log tells a torn end from damage. Torn is what was never synced: it is cut off. Damage to
//     what a later frame knows to have been on the disk is refused with the file and the offset, and the
//     file is left as it is.
//   - A Syncer syncs at every interval in which something was written. A failed sync poisons it, for
//     nobody can tell what has reached the disk: everything later fails with ErrPoisoned, until the next
//     start.
//
// # Header
//
// Every file begins with a page of 4096 bytes. Numbers are little-endian:
//
//	offset  size  field
//	     0     8  magic, the kind of the file
//	     8     4  version of its format
//	    12     4  n, bytes of fields, at most 480
//	    16     n  fields of the kind
//	  16+n     8  XXH3-64 of the bytes before
//
// and zeros. What is not zero lies within 512 bytes, which disks write as a whole.
//
// # Log
//
// The fields of a log are its id, a random number of 8 bytes, and the position of the file's first byte in
// 8 bytes more: logs of several files count positions over all of them. Frames follow:
//
//	offset  size  field
//	     0     4  bytes of payload
//	     4     4  gap: bytes between the frame before and this one, less than 4096
//	     8     8  position up to which the log was on the disk when the frame was written
//	    16     8  XXH3-64 of the payload
//	    24     8  XXH3-64 of the bytes before, its seed the log's id plus the position of the frame
//	    32        payload
//
// So what a file held before it was cut or begun anew, or another file on the same blocks, is never taken
// for a frame. The first frame after the start of a sync begins on a page of its own, so that no page is
// written again that has been synced, and a disk that tears a page while the power goes harms none that
// was. In files whose space is taken beforehand every frame begins on a page; elsewhere there is usually no
// gap.
//
// # What is torn, and what is damaged
//
// Frames end where the first invalid one begins, at P. The disk writes pages in any order, so behind P
// there may be whole frames even though nothing there was ever synced. But each knows up to where the log
// was on the disk when it was written: if one says that this was behind P, then P was on the disk, and the
// file is damaged. If none does, P and all behind it is torn. The header of a frame alone is enough to
// know, and it is looked for wherever one may begin, since the length at P cannot be trusted.
//
// What cannot be told is damage to the very last frames, those that were synced and that no frame follows:
// it looks like a torn end. An empty frame, appended once all is synced, leaves no such frames.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/zeebo/xxh3"
)

// Errors of this package; the message says more.
var (
	// ErrCorrupt is a file that is damaged, cut off or of another kind.
	ErrCorrupt = errors.New("file is damaged")
	// ErrKind is a file that does not begin as its kind does. It is an ErrCorrupt, too.
	ErrKind error = kindError{}
	// ErrVersion is a file of another version of its format.
	ErrVersion = errors.New("file has another format version")
	// ErrPoisoned means that an earlier write to the disk failed, and that nothing is written any more.
	ErrPoisoned = errors.New("nothing is written after a failed write to the disk")
	// ErrUncertain means that nobody can tell what a failed write has left.
	ErrUncertain = errors.New("it is not known what is on the disk")
)

type kindError struct{}

func (kindError) Error() string        { return "another kind of file" }
func (kindError) Is(target error) bool { return target == ErrCorrupt }

const (
	// PageSize is the size of a header, and what frames are aligned to where they are.
	PageSize = 4096
	// MaxFields is how many bytes the fields of a header can have.
	MaxFields = 480

	fieldsAt = 16
)

// Format is a kind of file.
type Format struct {
	Magic   string // 8 bytes
	Version uint32
	Is      string // what such a file is, as "a file of arms"
	Replace string // what to do about a file that cannot be used, as "make one with weir import-arms"
}

// Page returns the header of a file with these fields.
func (k Format) Page(fields []byte) []byte {
	if len(k.Magic) != 8 || len(fields) > MaxFields {
		panic(fmt.Sprintf("BUG: a header with magic %q and %d bytes of fields", k.Magic, len(fields)))
	}
	page := make([]byte, 0, PageSize)
	page = append(page, k.Magic...)
	page = binary.LittleEndian.AppendUint32(page, k.Version)
	page = binary.LittleEndian.AppendUint32(page, uint32(len(fields)))
	page = append(page, fields...)
	page = binary.LittleEndian.AppendUint64(page, xxh3.Hash(page))
	return page[:PageSize]
}

// Parse checks the header that a file called name begins with and returns its fields, which have the length
// n. page is the file's first PageSize bytes, less only if the file has less.
func (k Format) Parse(name string, page []byte, n int) (fields []byte, err error) {
	if len(page) < len(k.Magic) || string(page[:len(k.Magic)]) != k.Magic {
		return nil, fmt.Errorf("%w: %s is not %s, it does not begin with %q: %s", ErrKind, name, k.Is,
			k.Magic, k.Replace)
	}
	if len(page) < PageSize {
		return nil, k.Corrupt(name, 0, "it ends within its header, after %d bytes", len(page))
	}
	version, length := binary.LittleEndian.Uint32(page[8:]), int(binary.LittleEndian.Uint32(page[12:]))
	switch whole := whole(page); {
	case version != k.Version && whole:
		return nil, fmt.Errorf(
			"%w: %s has version %d, this program reads version %d: use the program that wrote it, or %s",
			ErrVersion, name, version, k.Version, k.Replace)
	case version != k.Version: // whose header may be checked in another way
		return nil, fmt.Errorf("%w: %s has version %d, this program reads version %d; if version %d wrote "+
			"it, its header is damaged: %s",
			ErrVersion, name, version, k.Version, k.Version, k.Replace)
	case !whole:
		return nil, k.Corrupt(name, 0, "the checksum of its header is wrong")
	}
	if length != n {
		return nil, k.Corrupt(name, 0, "its header has %d bytes of fields and not %d", length, n)
	}
	return page[fieldsAt : fieldsAt+n : fieldsAt+n], nil
}

// whole says whether a page is a header whose checksum is right, of whatever format.
func whole(page []byte) bool {
	length := binary.LittleEndian.Uint32(page[12:])
	if length > MaxFields {
		return false
	}
	end := fieldsAt + length
	return binary.LittleEndian.Uint64(page[end:]) == xxh3.Hash(page[:end]) &&
		!slices.ContainsFunc(page[end+8:PageSize], func(b byte) bool { return b != 0 })
}

// Mend rights the header of the file at path if a single bit of it is wrong, which the checksum proves,
// and says whether it did. Any other file stays as it is.
func Mend(path string) (mended bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	page := make([]byte, PageSize)
	if _, err := f.ReadAt(page, 0); err == io.EOF {
		return false, nil
	} else if err != nil || whole(page) {
		return false, err
	}
	for bit := range 8 * PageSize {
		page[bit/8] ^= 1 << (bit % 8)
		if whole(page) {
			_, err := f.WriteAt(page, 0)
			return err == nil, errors.Join(err, f.Sync())
		}
		page[bit/8] ^= 1 << (bit % 8)
	}
	return false, nil
}

// Corrupt returns an ErrCorrupt that says what is wrong at an offset of the file called name, and what to do.
func (k Format) Corrupt(name string, offset int64, format string, args ...any) error {
	return fmt.Errorf("%w: %s, at offset %d: %s: %s", ErrCorrupt, name, offset, fmt.Sprintf(format, args...),
		k.Replace)
}
