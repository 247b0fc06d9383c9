package cells

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

const (
	dataOffset = record.PageSize // of the lines

	maxCells = (math.MaxInt64 - dataOffset - disk.Granule) / 64 * cellsInLine // whose file size is a number

	orderMark = 0x0102030405060708 // reads otherwise in the other byte order
)

const howToRepair = "restore it from a backup, its redo log as well, or go on with what is left of it by " +
	"weir repair --accept-loss"

var format = record.Format{Magic: "weircell", Version: 1, Is: "a file of cursors", Replace: howToRepair}

// header is what the first page says: in 32 bytes, little-endian but for the mark.
type header struct {
	cells uint64
	boot  uint64 // of the system in which the file was opened last
	clean bool   // it was closed since
}

func (h header) encode() []byte {
	e := binary.LittleEndian
	fields := binary.NativeEndian.AppendUint64(nil, orderMark)
	fields = e.AppendUint64(e.AppendUint64(fields, h.cells), h.boot)
	clean := uint64(0)
	if h.clean {
		clean = 1
	}
	return format.Page(e.AppendUint64(fields, clean))
}

// readHeader returns the header of f and how long f is, and checks that it is as long as it says. A
// longer one is fine: the process was killed while it grew.
func readHeader(f *os.File) (h header, size int64, err error) {
	page := make([]byte, record.PageSize)
	n, err := f.ReadAt(page, 0)
	if err != nil && err != io.EOF {
		return h, 0, err
	}
	fields, err := format.Parse(f.Name(), page[:n], 32)
	if err != nil {
		return h, 0, err
	}
	if binary.NativeEndian.Uint64(fields) != orderMark {
		return h, 0, fmt.Errorf("%s was written by a machine of another byte order: let weir serve it there",
			f.Name())
	}
	e := binary.LittleEndian
	h = header{cells: e.Uint64(fields[8:]), boot: e.Uint64(fields[16:]), clean: fields[24] != 0}
	info, err := f.Stat()
	if err != nil {
		return h, 0, err
	}
	if h.cells > maxCells || info.Size() < dataOffset+linesLen(h.cells) {
		return h, 0, format.Corrupt(f.Name(), info.Size(), "it ends there, too short for its %d cells",
			h.cells)
	}
	return h, info.Size(), nil
}

// writeHeader puts h in place, which cannot tear it, and waits until it is on the disk.
func (s *Store) writeHeader(h header) error {
	if err := s.faults.WriteAt(s.f, h.encode(), 0); err != nil {
		return err
	}
	if err := s.faults.SyncData(s.f); err != nil {
		return err
	}
	s.header = h
	return nil
}

// fileSize returns how long the file of cells cells is.
func fileSize(cells uint64) int64 {
	return disk.RoundUp(dataOffset + linesLen(min(cells, maxCells)))
}

// thisBoot tells one run of the system from another, 0 where that is not known.
func thisBoot() uint64 {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	return xxh3.Hash(id)
}
