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

// open finds out what the directory holds, gives it to load and replay, and makes j ready for Append.
func (j *Journal) open(load func(io.Reader) error, replay func(record []byte) error) (err error) {
	if err := makeDir(j.dir); err != nil {
		return err
	}
	if j.lock, err = disk.LockDir(j.dir); err != nil {
		return err
	}
	s, err := takeStock(os.DirFS(j.dir), j.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.empty() {
		err = j.begin()
	} else if err = s.read(load, replay); err == nil {
		err = j.resume(s)
	}
	if err != nil {
		return err
	}
	for _, name := range s.temporary {
		if err := os.Remove(filepath.Join(j.dir, name)); err != nil {
			j.log.Warn("journal: what a crash left of a file could not be removed", "error", err)
		}
	}
	return nil
}

// makeDir makes dir if it is not there; its parent is.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: create %s first or choose another directory", err, filepath.Dir(dir))
	case err != nil:
		return fmt.Errorf("%w: make %s writable for this user or choose another directory", err, filepath.Dir(dir))
	}
	return disk.SyncDir(filepath.Dir(dir))
}

// begin makes the first segment of a journal.
func (j *Journal) begin() (err error) {
	if j.id == 0 {
		var random [8]byte
		rand.Read(random[:]) //nolint:errcheck // never fails
		j.id = binary.LittleEndian.Uint64(random[:])
	}
	if j.f, err = j.createSegment(0); err != nil {
		return err
	}
	j.bases = []Position{0}
	j.checkpointTime.Store(time.Now().UnixNano())
	j.ready(headerLen)
	return nil
}

// resume goes on with what was found, after all of it was understood: it cuts off what is torn and makes sure that what was
// replayed is on the disk.
func (j *Journal) resume(s *stock) (err error) {
	// A process killed right after a rename may have left a name that only the cache knows.
	if err := j.syncDir(j.dir); err != nil {
		return err
	}
	last := s.readers[len(s.readers)-1]
	if j.f, err = os.OpenFile(last.path, os.O_RDWR, 0); err != nil {
		return fmt.Errorf("%w: make the file and its directory writable or choose another directory", err)
	}
	j.id, j.base, j.bases = last.id, last.base, s.bases
	if j.cut = last.size - s.end; j.cut > 0 {
		j.log.Warn("journal: the end was not written whole before a crash and is cut off", "file", last.path, "offset", s.end, "bytes", j.cut)
		if err := j.f.Truncate(s.end); err != nil {
			return err
		}
		last.size = s.end
	}
	if err := j.rewrite(last); err != nil {
		return err
	}
	if err := j.faults.SyncData(j.f); err != nil {
		return err
	}
	j.ready(j.base + Position(s.end))
	if last.marked {
		j.marked = j.Position()
	}
	j.replayed = s.records
	j.checkpointed.Store(uint64(s.checkpoint.position))
	j.checkpointTime.Store(s.checkpoint.written.UnixNano())
	j.removeBefore(s.checkpoint.position)
	return nil
}

// rewrite writes again what no frame knows to be synced. A sync that failed, after which this process was started, can have left
// pages in the cache that the system takes for written; the next sync would report success and write nothing of them.
func (j *Journal) rewrite(r *reader) error {
	at := int64(headerLen)
	if r.synced > r.base {
		at = max(at, int64(r.synced-r.base))
	}
	for at += pad(at); at < r.size; {
		b, err := r.bytes(at, min(windowLen, r.size-at))
		if err != nil {
			return err
		}
		if err := j.writeAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

// stock is what a directory holds of a journal.
type stock struct {
	fsys       fs.FS
	dir        string      // what fsys is, for messages
	bases      []Position  // of the segments, ascending
	temporary  []string    // what a killed process left of files it had not finished
	checkpoint *checkpoint // nil only in an empty directory
	readers    []*reader   // of the segments that the checkpoint does not make superfluous
	records    uint64      // how many were replayed
	end        int64       // of what is whole in the last segment
}

func (s *stock) empty() bool { return s.checkpoint == nil }

// takeStock opens the files of a journal, checks their headers and that none is missing. It writes nothing.
func takeStock(fsys fs.FS, dir string) (*stock, error) {
	s := &stock{fsys: fsys, dir: dir}
	exists, err := s.list()
	if err != nil {
		return nil, err
	}
	if len(s.bases) == 0 && !exists {
		return s, nil
	}
	if s.checkpoint, err = s.openCheckpoint(exists); err != nil {
		return nil, err
	}
	if err := s.openSegments(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stock) list() (checkpoint bool, err error) {
	entries, err := fs.ReadDir(s.fsys, ".")
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if base, ok := parseSegmentName(name); ok {
			s.bases = append(s.bases, base)
		} else if name == checkpointName {
			checkpoint = true
		} else if strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") &&
			(strings.HasPrefix(name, "."+checkpointName+".") || strings.Contains(name, segmentSuffix+".")) {
			s.temporary = append(s.temporary, name)
		}
	}
	slices.Sort(s.bases)
	return checkpoint, nil
}

// openSegments opens the segments from the one that holds the checkpoint's position on.
func (s *stock) openSegments() error {
	c := s.checkpoint
	first, found := slices.BinarySearch(s.bases, c.position)
	if !found {
		first--
	}
	if first < 0 && c.f == nil {
		return fmt.Errorf("%w: %s is missing, and there is no checkpoint that could do without: %s",
			ErrCorrupt, filepath.Join(s.dir, segmentName(0)), restore)
	}
	if first < 0 {
		return fmt.Errorf("%w: %s has no segment with position %d, where its checkpoint ends: %s", ErrCorrupt, s.dir, c.position, restore)
	}
	for _, base := range s.bases[first:] {
		r, err := s.openReader(base)
		if err != nil {
			return err
		}
		s.readers = append(s.readers, r)
	}
	for i, r := range s.readers {
		if r.id != s.readers[0].id || c.f != nil && r.id != c.id {
			return fmt.Errorf("%w: %s belongs to another journal than the files beside it: %s", ErrCorrupt, r.path, restore)
		}
		if i == 0 {
			continue
		}
		if before := s.readers[i-1]; before.end() != r.base {
			return fmt.Errorf("%w: %s ends at position %d, and the file after it is %s: a file between them is missing, or one was changed: %s",
				ErrCorrupt, before.path, before.end(), segmentName(r.base), restore)
		}
	}
	if last := s.readers[len(s.readers)-1]; last.end() < c.position {
		return fmt.Errorf("%w: %s was cut at offset %d, its checkpoint goes on to offset %d: %s",
			ErrCorrupt, last.path, last.size, c.position-last.base, restore)
	}
	return nil
}

// read gives the state to load and what follows it to replay, and finds the end. It writes nothing.
func (s *stock) read(load func(io.Reader) error, replay func(record []byte) error) error {
	if err := s.checkpoint.load(load); err != nil {
		return err
	}
	counted := func(record []byte) error {
		s.records++
		return replay(record)
	}
	var window []byte // one is enough for all
	for i, r := range s.readers {
		off := int64(headerLen)
		if from := s.checkpoint.position; from > r.base {
			off = max(off, int64(from-r.base))
		}
		r.window = window[:0]
		end, err := r.replay(off, counted)
		if err != nil {
			return err
		}
		window = r.window
		torn := false
		if i == len(s.readers)-1 {
			s.end = end
			was, err := r.wasSynced(end)
			if err != nil {
				return err
			}
			torn = !was
		}
		if end < r.size && !torn {
			return fmt.Errorf("%w: %s is damaged at offset %d, and there is more behind it, so that it was on the disk once: %s",
				ErrCorrupt, r.path, end, restore)
		}
	}
	return nil
}

// close closes all files. They were only read, so that their errors mean nothing.
func (s *stock) close() error {
	var err error
	if s.checkpoint != nil && s.checkpoint.f != nil {
		err = s.checkpoint.f.Close()
	}
	for _, r := range s.readers {
		err = errors.Join(err, r.f.Close())
	}
	return err
}
