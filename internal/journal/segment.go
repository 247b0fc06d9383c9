package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

const (
	segmentSuffix = ".journal"

	restore = "restore the whole directory from a backup, move it away to begin with nothing, " +
		"or give up what follows the damage with weir repair --accept-loss"
)

var segmentFormat = record.Format{Magic: "weirjrnl", Version: 1, Is: "a segment of a journal",
	Replace: restore}

// segmentName returns the name of the file whose first byte is at base.
func segmentName(base Position) string { return fmt.Sprintf("%020d%s", uint64(base), segmentSuffix) }

// parseSegmentName is the reverse of segmentName.
func parseSegmentName(name string) (base Position, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	return Position(n), err == nil && segmentName(Position(n)) == name
}

// createSegment makes a segment without frames at base. It appears as a whole, so there is never one
// without a header. The error wraps record.ErrUncertain when nobody knows whether it will be there after a
// power failure.
func (j *Journal) createSegment(base Position) (l *record.Log, err error) {
	path := filepath.Join(j.dir, segmentName(base))
	a, err := disk.CreateAtomic(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Abort()) }()
	if _, err := a.Write(record.LogPage(segmentFormat, j.id, uint64(base))); err != nil {
		return nil, err
	}
	j.step("new segment written")
	if err := a.Commit(); err != nil {
		if _, serr := os.Lstat(path); serr == nil {
			err = fmt.Errorf("%w: %w", record.ErrUncertain, err)
		}
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return record.NewLog(f, segmentFormat, j.id, uint64(base), j.faults), nil
}

// file is one that is read anywhere: *os.File, or in tests memory.
type file interface {
	fs.File
	io.ReaderAt
}

// openFile opens the file name of fsys.
func openFile(fsys fs.FS, name string) (file, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	if f, ok := f.(file); ok {
		return f, nil
	}
	return nil, errors.Join(fmt.Errorf("%s is no file that can be read anywhere", name), f.Close())
}

// segment is a segment that is read.
type segment struct {
	*record.Reader
	f    file
	path string
}

// openSegment opens the segment at base and checks its header; the caller closes its f.
func (s *stock) openSegment(base Position) (*segment, error) {
	f, err := openFile(s.fsys, segmentName(base))
	if err != nil {
		return nil, err
	}
	g := &segment{f: f, path: filepath.Join(s.dir, segmentName(base))}
	if g.Reader, err = record.ReadLog(f, g.path, segmentFormat); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if g.Base() != uint64(base) {
		err := segmentFormat.Corrupt(g.path, 0, "it says that it begins at position %d, it was renamed",
			g.Base())
		return nil, errors.Join(err, f.Close())
	}
	return g, nil
}

// replay gives the records of all frames from off on to visit, and returns where the last whole one ends.
func (g *segment) replay(off int64, visit func(rec []byte) error) (end int64, err error) {
	return g.Frames(off, func(payload []byte, end int64) error {
		ok, err := eachRecord(payload, visit)
		if err != nil {
			return fmt.Errorf("%s, batch before offset %d: %w", g.path, end, err)
		}
		if !ok {
			return segmentFormat.Corrupt(g.path, end, "the batch before has records that no program wrote")
		}
		return nil
	})
}
