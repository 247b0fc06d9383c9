// Package arms keeps the posteriors of a bandit's arms: those that a pipeline has computed, in an immutable
// mapped file (File), and what events have taught since, in memory (Learned).
//
// An arm is an item, an item for a segment of users, or an item for one user. All of them are found by a
// Key of 128 bits, so that an arm takes 32 bytes whatever its ids look like, and one look at memory. Shapes
// are those of a Beta distribution, alpha and beta, both above 0.
//
// The file begins with a header of disk/record, whose fields are uint64s: homes of arms, cells of arms,
// homes of users, cells of users, arms, users, segments, arms of segments, arms of users, bytes of the
// names, bytes of the file, XXH3 of the arms, of the users, of the names. Little-endian, as all:
//
//	4096  arms: cells of 32 bytes, lower half of the key, mask of scopes (4 bytes), upper 4 bytes of the
//
// key, alpha, beta 	then  users: cells of 32 bytes, key in the same form, number of the segment, 0
//
//	then  names of the segments: uint16 length, bytes
//
// A cell whose upper 4 bytes of the key are 0 is empty. The mask of an item says for which segments and
// users it may have an arm, a bit for each scope, so that nobody looks for what is not there; an item that
// has arms only for these has a cell with alpha and beta 0. Two cells share a cache line and are one home:
// that of a key K is (order * homes) >> 64, order being K.Lo xor K.Hi with its lower 4 bytes 0, and K is
// there or in one of the cells that follow, with no empty cell between. All keys are in ascending order of
// that, so that one that is missing is missed where a greater one is found. The last cell of a section is
// empty.
package arms

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"runtime"

	"weir/internal/disk"
	"weir/internal/disk/record"

	"github.com/zeebo/xxh3"
)

// Format is what a file begins with.
var Format = record.Format{Magic: "weirarms", Version: 1, Is: "a file of arms",
	Replace: "make one with weir import-arms"}

const (
	headerBytes = record.PageSize
	cellBytes   = 32
	homeCells   = 2 // a cache line of 64 bytes
)

// Limits of the format.
const (
	MaxSegments = 1 << 16 // different segments
	MaxName     = 255     // bytes of a segment's name
)

// Stats describes a file.
type Stats struct {
	Arms        uint64 // all of them
	SegmentArms uint64 // for a segment
	UserArms    uint64 // for one user
	Users       uint64 // whose segment is known
	Segments    uint64
	Bytes       int64
}

// header is the first page.
type header struct {
	armHomes, armCells, userHomes, userCells uint64

	stats Stats
	names uint64 // bytes
	bytes uint64 // of the file
	sums  [3]uint64
}

// numbers are the fields of the header, in their order.
func (h *header) numbers() []*uint64 {
	return []*uint64{&h.armHomes, &h.armCells, &h.userHomes, &h.userCells, &h.stats.Arms, &h.stats.Users,
		&h.stats.Segments,
		&h.stats.SegmentArms, &h.stats.UserArms, &h.names, &h.bytes, &h.sums[0], &h.sums[1], &h.sums[2]}
}

func (h *header) encode() []byte {
	var fields []byte
	for _, n := range h.numbers() {
		fields = binary.LittleEndian.AppendUint64(fields, *n)
	}
	return Format.Page(fields)
}

func (h *header) decode(path string, page []byte) error {
	numbers := h.numbers()
	fields, err := Format.Parse(path, page, 8*len(numbers))
	if err != nil {
		return err
	}
	for i, n := range numbers {
		*n = binary.LittleEndian.Uint64(fields[8*i:])
	}
	h.stats.Bytes = int64(h.bytes)
	const most = 1 << 40
	switch {
	case h.armCells > most || h.userCells > most || h.names > MaxSegments*(2+MaxName) ||
		h.stats.Segments > MaxSegments,
		h.bytes != headerBytes+(h.armCells+h.userCells)*cellBytes+h.names:
		return Format.Corrupt(path, 0, "the sizes in its header do not go together")
	case h.armHomes > most || h.userHomes > most,
		homeCells*h.armHomes >= max(h.armCells, 1), homeCells*h.userHomes >= max(h.userCells, 1):
		return Format.Corrupt(path, 0, "a section of it has no last cell")
	}
	return nil
}

// File is an opened file of arms. It may be used by any number of goroutines.
//
// The file stays mapped until nobody refers to the File any more; whoever reads from it keeps it
// alive meanwhile by holding it in a variable that is used afterwards (runtime.KeepAlive).
type File struct {
	path     string
	mapping  *disk.Mapping
	header   header
	arms     table
	users    table
	segments []Segment
	info     os.FileInfo
}

// Segment is a segment of users.
type Segment struct {
	Name  string
	Scope Scope
}

// table is a section of cells.
type table struct {
	bytes []byte
	homes uint64
}

// Open maps a file and reads its header and its segments. Load reads the rest.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, headerBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return nil, err
	}
	a := &File{path: path}
	if err := a.header.decode(path, head[:n]); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	a.info = info
	if info.Size() != a.header.stats.Bytes {
		return nil, Format.Corrupt(path, info.Size(), "it has %d bytes and not the %d of its header",
			info.Size(), a.header.stats.Bytes)
	}
	if a.mapping, err = disk.MapReadOnly(f); err != nil {
		return nil, err
	}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, a.mapping.Close())
	}
	runtime.AddCleanup(a, func(m *disk.Mapping) { m.Close() },
		a.mapping) //nolint:errcheck // nobody is left to be told
	return a, nil
}

// open finds the sections.
func (a *File) open() error {
	b := a.mapping.Bytes()[headerBytes:]
	cut := func(n uint64) []byte {
		s := b[:n:n]
		b = b[n:]
		return s
	}
	a.arms = table{cut(a.header.armCells * cellBytes), a.header.armHomes}
	a.users = table{cut(a.header.userCells * cellBytes), a.header.userHomes}
	return disk.Guard(func() error { return a.readSegments(b) })
}

func (a *File) readSegments(b []byte) error {
	if xxh3.Hash(b) != a.header.sums[2] {
		return a.damaged("the checksum of its segments is wrong")
	}
	for range a.header.stats.Segments {
		if len(b) < 2 || len(b) < 2+int(binary.LittleEndian.Uint16(b)) {
			return a.damaged("the names of its segments are cut off")
		}
		n := 2 + int(binary.LittleEndian.Uint16(b))
		name := b[2:n]
		a.segments = append(a.segments, Segment{string(name), SegmentScope(KeyOf(name))})
		b = b[n:]
	}
	return nil
}

// Load brings the file into memory and checks all of it; progress may be nil. Before it has returned nil,
// nothing is to be looked up.
func (a *File) Load(ctx context.Context, progress func(done, total int64)) error {
	defer runtime.KeepAlive(a) // it stays mapped until here
	const step = 16 << 20
	done := int64(0)
	for i, t := range []table{a.arms, a.users} {
		h := xxh3.New()
		for at := 0; at < len(t.bytes); at += step {
			part := t.bytes[at:min(at+step, len(t.bytes))]
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := a.mapping.Populate(headerBytes+int(done), len(part)); err != nil {
				return err
			}
			err := disk.Guard(func() error {
				h.Write(part) //nolint:errcheck // never fails
				if i == 0 {
					return a.checkArms(part)
				}
				return a.checkUsers(part)
			})
			if err != nil {
				return err
			}
			if done += int64(len(part)); progress != nil {
				progress(done, a.header.stats.Bytes)
			}
		}
		if n := len(t.bytes); n > 0 && !empty(t.bytes[n-cellBytes:]) {
			return a.damaged("the last cell of a section is not empty")
		}
		if h.Sum64() != a.header.sums[i] {
			return a.damaged("the checksum of its %s is wrong", [...]string{"arms", "users"}[i])
		}
	}
	return a.mapping.Random()
}

// damaged is the error of a file that is damaged behind its header.
func (a *File) damaged(format string, args ...any) error {
	return Format.Corrupt(a.path, headerBytes, format, args...)
}

// checkArms checks what a checksum cannot: a file may have been made by somebody else.
func (a *File) checkArms(cells []byte) error {
	for ; len(cells) > 0; cells = cells[cellBytes:] {
		if empty(cells) {
			continue
		}
		alpha, beta := shapes(cells)
		if alpha == 0 && beta == 0 && maskOf(cells) != 0 {
			continue
		}
		if !ValidShape(alpha) || !ValidShape(beta) {
			return a.damaged("an arm has alpha %v and beta %v", alpha, beta)
		}
	}
	return nil
}

func (a *File) checkUsers(cells []byte) error {
	for ; len(cells) > 0; cells = cells[cellBytes:] {
		if s := binary.LittleEndian.Uint64(cells[16:]); !empty(cells) && s >= uint64(len(a.segments)) {
			return a.damaged("a user is of segment %d of %d", s, len(a.segments))
		}
	}
	return nil
}

// MaxShape is the greatest alpha or beta that is written. Greater ones are divided by the same number, so that
// the mean stays: at 1e9 the standard deviation is below a 60,000th already.
const MaxShape = 1e9

// ValidShape reports whether x can be a parameter of a Beta distribution: finite and above 0.
func ValidShape(x float64) bool { return x > 0 && x <= math.MaxFloat64 }

// Stats returns what the header says.
func (a *File) Stats() Stats { return a.header.stats }

// Info returns which file it is.
func (a *File) Info() os.FileInfo { return a.info }

// Segments returns all segments. The slice is not to be changed.
func (a *File) Segments() []Segment { return a.segments }

// Find returns the posterior of an arm.
func (a *File) Find(k Key) (alpha, beta float64, ok bool) {
	cell := a.arms.find(k)
	if cell == nil {
		return 0, 0, false
	}
	alpha, beta = shapes(cell)
	return alpha, beta, alpha > 0
}

// FindItem is Find for an item's own arm, and says besides for which scopes the item may have one.
func (a *File) FindItem(k Key) (alpha, beta float64, scopes Mask, ok bool) {
	cell := a.arms.find(k)
	if cell == nil {
		return 0, 0, 0, false
	}
	alpha, beta = shapes(cell)
	return alpha, beta, maskOf(cell), alpha > 0
}

func maskOf(cell []byte) Mask { return Mask(binary.LittleEndian.Uint32(cell[8:])) }

// Segment returns the segment of a user.
func (a *File) Segment(user Key) (*Segment, bool) {
	cell := a.users.find(user)
	if cell == nil {
		return nil, false
	}
	return &a.segments[binary.LittleEndian.Uint64(cell[16:])], true
}

func empty(cell []byte) bool { return binary.LittleEndian.Uint32(cell[12:]) == 0 }

func shapes(cell []byte) (alpha, beta float64) {
	return math.Float64frombits(binary.LittleEndian.Uint64(cell[16:])),
		math.Float64frombits(binary.LittleEndian.Uint64(cell[24:]))
}

// home returns where in the bytes the home of a key begins.
func (t *table) home(k Key) uint64 { return k.place(t.homes) * homeCells * cellBytes }

// prefetch asks the processor for the home of a key.
func (t *table) prefetch(k Key) {
	at := t.home(k)
	disk.PrefetchBytes(t.bytes[at : at+1])
}

// find returns the cell of a key, nil if it has none.
func (t *table) find(k Key) []byte {
	if t.homes == 0 {
		return nil
	}
	home := t.bytes[t.home(k):]
	for i := range homeCells {
		if cell := home[i*cellBytes : (i+1)*cellBytes : (i+1)*cellBytes]; isOf(cell, k) {
			return cell
		}
	}
	return t.beyondHome(k)
}

// beyondHome is find for a key that is not in its home. Whether it can be behind, the last cell of the home
// says.
func (t *table) beyondHome(k Key) []byte {
	order := k.order()
	for cells := t.bytes[t.home(k)+(homeCells-1)*cellBytes:]; ; {
		lo, hi := binary.LittleEndian.Uint64(cells), uint64(binary.LittleEndian.Uint32(cells[12:]))
		if hi == 0 || lo^hi<<keptShift > order {
			return nil
		}
		if cells = cells[cellBytes:]; isOf(cells, k) {
			return cells[:cellBytes:cellBytes]
		}
	}
}

// isOf reports whether a cell is that of a key.
func isOf(cell []byte, k Key) bool {
	return binary.LittleEndian.Uint64(cell) == k.Lo &&
		uint64(binary.LittleEndian.Uint32(cell[12:])) == k.Hi>>keptShift
}
