package journal

import (
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
	"weir/internal/disk/record"
)

// open finds out what the directory holds, gives it to load and replay, and makes j ready for Append.
func (j *Journal) open(acceptLoss bool, load func(io.Reader) error,
	replay func(rec []byte) error) (err error) {
	if err := makeDir(j.dir); err != nil {
		return err
	}
	if j.lock, err = disk.LockDir(j.dir); err != nil {
		return err
	}
	s, err := takeStock(os.DirFS(j.dir), j.dir, acceptLoss)
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
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: create %s first or choose another directory", err, filepath.Dir(dir))
	case err != nil:
		return fmt.Errorf("%w: make %s writable for this user or choose another directory", err,
			filepath.Dir(dir))
	}
	return disk.SyncDir(filepath.Dir(dir))
}

// begin makes the first segment of a journal.
func (j *Journal) begin() error {
	if j.id == 0 {
		j.id = record.NewID()
	}
	last, err := j.createSegment(0)
	if err != nil {
		return err
	}
	j.use(last)
	j.checkpointTime.Store(time.Now().UnixNano())
	return nil
}

// resume goes on with what was found, after all of it was understood: it cuts off what is torn and makes
// sure that what was replayed is on the disk.
func (j *Journal) resume(s *stock) (err error) {
	// A process killed right after a rename may have left a name that only the cache knows.
	if err := j.faults.SyncDir(j.dir); err != nil {
		return err
	}
	j.id, j.replayed = s.id, s.records
	j.checkpointed.Store(uint64(s.checkpoint.position))
	j.checkpointTime.Store(s.checkpoint.written.UnixNano())
	if s.loss != nil {
		j.log.Warn("journal: damage is accepted, with the loss of all that follows it", "dir", j.dir,
			"error", s.loss)
	}
	// From the last on, so that each that is left follows the one before it.
	for i, base := range slices.Backward(s.lost) {
		size, err := remove(filepath.Join(j.dir, segmentName(base)))
		if err == nil && i == 0 {
			err = j.faults.SyncDir(j.dir)
		}
		if err != nil {
			return err
		}
		j.cut += size
	}
	if len(s.segments) == 0 {
		last, err := j.createSegment(s.checkpoint.position)
		if err != nil {
			return err
		}
		j.bases = s.bases
		j.use(last)
		j.removeBefore(s.checkpoint.position)
		return nil
	}
	g := s.segments[len(s.segments)-1]
	f, err := os.OpenFile(g.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: make the file and its directory writable or choose another directory", err)
	}
	if cut := g.Size() - s.end; cut > 0 {
		j.cut += cut
		j.log.Warn("journal: the end was not written whole before a crash and is cut off", "file", g.path,
			"offset", s.end, "bytes", cut)
	}
	last, err := g.Resume(f, s.end, j.faults)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.bases = s.bases[:len(s.bases)-1]
	j.use(last)
	if g.Marked() {
		j.marked = j.Position()
	}
	j.removeBefore(s.checkpoint.position)
	return nil
}

// remove removes a file and returns what size it had.
func remove(path string) (size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), os.Remove(path)
}

// stock is what a directory holds of a journal.
type stock struct {
	fsys       fs.FS
	dir        string      // what fsys is, for messages
	acceptLoss bool        // damage ends what there is
	bases      []Position  // of the segments, ascending, those that are lost left out
	temporary  []string    // what a killed process left of files it had not finished
	checkpoint *checkpoint // nil only in an empty directory
	first      int         // the one in bases from which on the checkpoint does not make them superfluous
	segments   []*segment  // those from first on
	id         uint64
	records    uint64     // how many were replayed
	end        int64      // of what is whole in the last segment
	loss       error      // the damage that was accepted
	lost       []Position // segments that follow it
	opened     []*segment // to be closed
}

func (s *stock) empty() bool { return s.checkpoint == nil }

// takeStock opens the files of a journal, checks their headers and that none is missing. It writes nothing.
func takeStock(fsys fs.FS, dir string, acceptLoss bool) (*stock, error) {
	s := &stock{fsys: fsys, dir: dir, acceptLoss: acceptLoss}
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
	s.id = c.id
	first, found := slices.BinarySearch(s.bases, c.position)
	if !found && first == 0 {
		return s.accept(0, fmt.Errorf(
			"%w: no segment of %s has position %d, where its checkpoint ends or its records begin: %s",
			record.ErrCorrupt, s.dir, c.position, restore))
	}
	if !found {
		first--
	}
	s.first = first
	for i, base := range s.bases[first:] {
		g, err := s.openSegment(base)
		if err == nil {
			s.opened = append(s.opened, g)
			err = s.follows(g)
		}
		if err != nil {
			return s.accept(first+i, err)
		}
		s.segments = append(s.segments, g)
		s.id = g.ID()
	}
	if last := s.segments[len(s.segments)-1]; last.End() < uint64(c.position) {
		return s.accept(first, segmentFormat.Corrupt(last.path, last.Size(),
			"it was cut, its checkpoint goes on to offset %d", uint64(c.position)-last.Base()))
	}
	return nil
}

// follows checks that g belongs behind the segments that were opened before it.
func (s *stock) follows(g *segment) error {
	if (s.checkpoint.f != nil || len(s.segments) > 0) && g.ID() != s.id {
		return segmentFormat.Corrupt(g.path, 0, "it belongs to another journal than the files beside it")
	}
	if len(s.segments) == 0 {
		return nil
	}
	if before := s.segments[len(s.segments)-1]; before.End() != g.Base() {
		return segmentFormat.Corrupt(before.path, before.Size(),
			"it ends at position %d, and the file after it is %s: "+
				"a file between them is missing, or one was changed", before.End(), filepath.Base(g.path))
	}
	return nil
}

// accept gives up the segments from s.bases[i] on, where that is allowed and something is left to go on from.
func (s *stock) accept(i int, damage error) error {
	keep := i - s.first
	if !s.acceptLoss || keep == 0 && s.checkpoint.f == nil || errors.Is(damage, record.ErrVersion) {
		return damage
	}
	s.loss, s.lost, s.bases, s.segments = damage, s.bases[i:], s.bases[:i], s.segments[:keep]
	return nil
}

// read gives the state to load and what follows it to replay, and finds the end. It writes nothing.
func (s *stock) read(load func(io.Reader) error, replay func(rec []byte) error) error {
	if err := s.checkpoint.load(load); err != nil {
		return err
	}
	counted := func(rec []byte) error {
		s.records++
		return replay(rec)
	}
	for i, g := range s.segments {
		off := int64(record.PageSize)
		if from := uint64(s.checkpoint.position); from > g.Base() {
			off = max(off, int64(from-g.Base()))
		}
		end, err := g.replay(off, counted)
		if err != nil {
			return err
		}
		s.end = end
		if end == g.Size() {
			continue
		}
		if i == len(s.segments)-1 {
			if damaged, err := g.Damaged(end); !damaged || err != nil {
				return err
			}
		}
		damage := segmentFormat.Corrupt(g.path, end,
			"a batch is damaged, and what follows it proves that it was on the disk")
		if !s.acceptLoss {
			return damage
		}
		behind := s.first + i + 1
		s.loss, s.lost, s.bases, s.segments = damage, append(s.bases[behind:], s.lost...), s.bases[:behind],
			s.segments[:i+1]
		return nil
	}
	return nil
}

// close closes all files. They were only read, so that their errors mean nothing.
func (s *stock) close() error {
	var err error
	if s.checkpoint != nil && s.checkpoint.f != nil {
		err = s.checkpoint.f.Close()
	}
	for _, g := range s.opened {
		err = errors.Join(err, g.f.Close())
	}
	return err
}
