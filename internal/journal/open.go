package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/disk"
)

// listing is what a directory holds.
type listing struct {
	bases      []Position // of the segments, ascending
	checkpoint bool
	temporary  []string // what a killed process left of files it had not finished
}

func list(dir string) (l listing, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if base, ok := parseSegmentName(name); ok {
			l.bases = append(l.bases, base)
			continue
		}
		if name == checkpointName {
			l.checkpoint = true
			continue
		}
		if strings.HasSuffix(name, ".tmp") && (strings.HasPrefix(name, "."+checkpointName+".") || strings.HasPrefix(name, ".") && strings.Contains(name, segmentSuffix+".")) {
			l.temporary = append(l.temporary, name)
		}
	}
	slices.Sort(l.bases)
	return l, nil
}

// makeDir makes dir if it is not there; its parent is.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: create %s first or choose another directory", err, filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("%w: make %s writable for this user or choose another directory", err, filepath.Dir(dir))
	}
	return disk.SyncDir(filepath.Dir(dir))
}

// open finds out what the directory holds, gives it to load and replay, and makes j ready for Append. It
// changes nothing before it is sure that it understands everything.
func (j *Journal) open(load func(io.Reader) error, replay func(record []byte) error) error {
	if err := makeDir(j.dir); err != nil {
		return err
	}
	var err error
	if j.lock, err = disk.LockDir(j.dir); err != nil {
		return err
	}
	l, err := list(j.dir)
	if err != nil {
		return err
	}
	if len(l.bases) == 0 && !l.checkpoint {
		if err := j.begin(); err != nil {
			return err
		}
		return j.tidy(l.temporary)
	}
	c, err := j.openCheckpoint(l.checkpoint)
	if err != nil {
		return err
	}
	readers, err := j.openSegments(l.bases, c)
	defer func() {
		for _, r := range readers {
			r.f.Close() //nolint:errcheck // it was only read
		}
	}()
	if err != nil {
		return err
	}
	if err := c.load(load); err != nil {
		return err
	}
	if err := j.replay(readers, c.position, replay); err != nil {
		return err
	}
	j.bases = l.bases
	j.checkpointed.Store(uint64(c.position))
	j.checkpointTime.Store(c.written.UnixNano())
	j.removeBefore(c.position)
	return j.tidy(l.temporary)
}

// begin makes the first segment of a journal.
func (j *Journal) begin() error {
	var random [8]byte
	rand.Read(random[:]) //nolint:errcheck // never fails
	j.id = binary.LittleEndian.Uint64(random[:])
	var err error
	if j.f, err = createSegment(j.dir, j.id, 0); err != nil {
		return err
	}
	j.bases = []Position{0}
	j.checkpointTime.Store(time.Now().UnixNano())
	j.ready(headerLen)
	return nil
}

// ready says that the journal ends at end, and that all of it is on the disk.
func (j *Journal) ready(end Position) {
	j.end.Store(uint64(end))
	j.synced.Store(uint64(end))
	j.fence = end
}

// openSegments opens the segments from the one that holds the checkpoint's position on, and checks that they are all there. Those it has opened
// it returns also with an error.
func (j *Journal) openSegments(bases []Position, c *checkpoint) (readers []*reader, err error) {
	first, found := slices.BinarySearch(bases, c.position)
	if !found {
		first--
	}
	if first < 0 {
		if c.f == nil {
			return nil, fmt.Errorf("%w: %s has no file %s, and no checkpoint that would do without: %s", ErrCorrupt, j.dir, segmentName(0), restore)
		}
		return nil, fmt.Errorf("%w: %s has no segment with position %d, where its checkpoint ends: %s", ErrCorrupt, j.dir, c.position, restore)
	}
	for _, base := range bases[first:] {
		r, err := openReader(filepath.Join(j.dir, segmentName(base)), base)
		if err != nil {
			return readers, err
		}
		readers = append(readers, r)
	}
	j.id = readers[0].id
	if c.f != nil {
		j.id = c.id
	}
	for i, r := range readers {
		if r.id != j.id {
			return readers, fmt.Errorf("%w: %s belongs to another journal than the files beside it: %s", ErrCorrupt, r.f.Name(), restore)
		}
		if i == 0 {
			continue
		}
		if before := readers[i-1]; before.base+Position(before.size) != r.base {
			return readers, fmt.Errorf("%w: %s ends at position %d, but the file after it is %s: a file between them is missing, or one was changed: %s",
				ErrCorrupt, before.f.Name(), before.base+Position(before.size), filepath.Base(r.f.Name()), restore)
		}
	}
	last := readers[len(readers)-1]
	if end := last.base + Position(last.size); end < c.position {
		return readers, fmt.Errorf("%w: %s was cut at offset %d, its checkpoint goes on to offset %d: %s",
			ErrCorrupt, last.f.Name(), last.size, c.position-last.base, restore)
	}
	return readers, nil
}

// replay gives what follows the checkpoint to visit and makes the last segment ready for more.
func (j *Journal) replay(readers []*reader, from Position, visit func(record []byte) error) error {
	counted := func(record []byte) error {
		j.replayed++
		return visit(record)
	}
	var window []byte // one is enough for all
	for i, r := range readers {
		off := max(int64(from-r.base), headerLen)
		if r.base > from {
			off = headerLen
		}
		r.window, r.from = window[:0], 0
		end, err := r.replay(off, counted)
		if err != nil {
			return err
		}
		window = r.window
		if i == len(readers)-1 {
			return j.resume(r, end)
		}
		if end != r.size {
			return damaged(r, end)
		}
	}
	return nil
}

func damaged(r *reader, off int64) error {
	return fmt.Errorf("%w: %s is damaged at offset %d, and there is more behind it that was on the disk: %s", ErrCorrupt, r.f.Name(), off, restore)
}

// resume opens the last segment for writing, cuts off what is torn, and makes sure that what was replayed is on the disk.
func (j *Journal) resume(r *reader, end int64) (err error) {
	if end < r.size {
		was, err := r.wasSynced(end)
		if err != nil {
			return err
		}
		if was {
			return damaged(r, end)
		}
	}
	if j.f, err = os.OpenFile(r.f.Name(), os.O_RDWR, 0); err != nil {
		return fmt.Errorf("%w: make the file and its directory writable or choose another directory", err)
	}
	j.base = r.base
	if j.cut = r.size - end; j.cut > 0 {
		j.log.Warn("journal: the end was not written whole before a crash and is cut off", "file", r.f.Name(), "offset", end, "bytes", j.cut)
		if err := j.f.Truncate(end); err != nil {
			return err
		}
	}
	if err := j.faults.SyncData(j.f); err != nil {
		return err
	}
	j.ready(j.base + Position(end))
	if r.empty {
		j.marked = j.Position()
	}
	return nil
}

// tidy removes what a killed process left of files that it had not finished.
func (j *Journal) tidy(names []string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(j.dir, name)); err != nil {
			return err
		}
	}
	return nil
}
