package cells

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
)

const (
	magic      = 0x6c6c656372696577 // "weircell"
	version    = 2
	pageSize   = 4096
	dataOffset = 2 * pageSize
	checkedLen = 32 // bytes of a header page that its checksum covers

	maxCells = (math.MaxInt64 - dataOffset - disk.Granule) / 64 * cellsInLine // whose file size is a number
)

// header is what a header page says.
type header struct {
	version  uint32
	sequence uint64
	cells    uint64
}

// encode returns the page of h.
func (h header) encode() []byte {
	page := make([]byte, pageSize)
	e := binary.NativeEndian
	e.PutUint64(page[0:], magic)
	e.PutUint32(page[8:], h.version)
	e.PutUint64(page[16:], h.sequence)
	e.PutUint64(page[24:], h.cells)
	e.PutUint64(page[checkedLen:], xxh3.Hash(page[:checkedLen]))
	return page
}

// offset returns where h is written: sequence numbers alternate between the pages, so the newest page is never
// overwritten.
func (h header) offset() int64 { return int64(h.sequence%2) * pageSize }

// decodeHeader reads a page; ok is false when it is damaged. Every version of the format keeps magic, version and checksum in
// their places, so that this can tell another version from damage.
func decodeHeader(page []byte) (h header, ok bool) {
	e := binary.NativeEndian
	if e.Uint64(page) != magic || e.Uint64(page[checkedLen:]) != xxh3.Hash(page[:checkedLen]) {
		return header{}, false
	}
	return header{version: e.Uint32(page[8:]), sequence: e.Uint64(page[16:]), cells: e.Uint64(page[24:])}, true
}

// readHeader returns the newest valid header of f, and whether the other one is damaged. It checks that the file is as
// long as the header says. A longer one is fine: the process was killed while it grew.
func readHeader(f *os.File) (newest header, damaged bool, err error) {
	const repair = "restore it from a backup, its redo log as well, or move it away to begin with all cursors at zero"
	pages := make([]byte, dataOffset)
	if n, err := f.ReadAt(pages, 0); err == io.EOF {
		return header{}, false, fmt.Errorf("%w: %s has %d bytes, less than its header: %s", ErrCorrupt, f.Name(), n, repair)
	} else if err != nil {
		return header{}, false, err
	}
	a, aok := decodeHeader(pages[:pageSize])
	b, bok := decodeHeader(pages[pageSize:])
	switch {
	case !aok && !bok:
		return header{}, false, fmt.Errorf("%w: both header pages of %s are damaged, or it is another kind of file: %s",
			ErrCorrupt, f.Name(), repair)
	case !bok || (aok && a.sequence > b.sequence):
		newest = a
	default:
		newest = b
	}
	if newest.version != version {
		return header{}, false, fmt.Errorf("%w: %s has version %d, this program reads version %d: "+
			"use the program that wrote it, or move it away to begin with all cursors at zero", ErrVersion, f.Name(), newest.version, version)
	}
	info, err := f.Stat()
	if err != nil {
		return header{}, false, err
	}
	if newest.cells > maxCells || info.Size() < dataOffset+linesLen(newest.cells) {
		return header{}, false, fmt.Errorf("%w: %s was cut to %d bytes, too short for its %d cells: %s",
			ErrCorrupt, f.Name(), info.Size(), newest.cells, repair)
	}
	return newest, !aok || !bok, nil
}

// create makes a file without cells. It appears as a whole, so there is never a file without a header.
func create(path string) (err error) {
	a, err := disk.CreateAtomic(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Abort()) }()
	for sequence := range uint64(2) {
		h := header{version: version, sequence: sequence}
		if _, err := a.WriteAt(h.encode(), h.offset()); err != nil {
			return err
		}
	}
	return a.Commit()
}

// writeHeader makes both pages say that there are cells cells. Each is on the disk before the next is written, so one of
// them is whole at any moment; after the first the new number holds, after the second it no longer hangs by one page.
func (s *Store) writeHeader(cells uint64) error {
	for range 2 {
		h := header{version: version, sequence: s.sequence + 1, cells: cells}
		if _, err := s.f.WriteAt(h.encode(), h.offset()); err != nil {
			return err
		}
		if err := s.faults.SyncData(s.f); err != nil {
			return err
		}
		s.sequence = h.sequence
	}
	return nil
}

// fileSize returns how long the file of cells cells is.
func fileSize(cells uint64) int64 {
	return disk.RoundUp(dataOffset + linesLen(min(cells, maxCells)))
}
