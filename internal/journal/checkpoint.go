package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/zeebo/xxh3"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

const checkpointName = "checkpoint"

var checkpointFormat = record.Format{Magic: "weirckpt", Version: 1, Is: "a checkpoint", Replace: restore}

// checkpoint is the state of the journal's user as of a position; the zero value has none, as of the
// beginning.
type checkpoint struct {
	f        file // nil if there is none
	path     string
	id       uint64
	position Position
	length   uint64 // of the state
	checksum uint64 // of the state
	written  time.Time
}

// openCheckpoint reads the header of the checkpoint, if it exists.
func (s *stock) openCheckpoint(exists bool) (*checkpoint, error) {
	c := &checkpoint{path: filepath.Join(s.dir, checkpointName), written: time.Now()}
	if !exists {
		return c, nil
	}
	f, err := openFile(s.fsys, checkpointName)
	if err != nil {
		return nil, err
	}
	c.f = f
	if err := c.readHeader(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return c, nil
}

const checkpointFields = 32

func (c *checkpoint) readHeader() error {
	info, err := c.f.Stat()
	if err != nil {
		return err
	}
	c.written = info.ModTime()
	page := make([]byte, record.PageSize)
	n, err := c.f.ReadAt(page, 0)
	if err != nil && err != io.EOF {
		return err
	}
	h, err := checkpointFormat.Parse(c.path, page[:n], checkpointFields)
	if err != nil {
		return err
	}
	e := binary.LittleEndian
	c.id, c.position, c.length, c.checksum = e.Uint64(h), Position(e.Uint64(h[8:])), e.Uint64(h[16:]),
		e.Uint64(h[24:])
	if size := uint64(info.Size()); c.length != size-record.PageSize {
		return checkpointFormat.Corrupt(c.path, info.Size(),
			"it has %d bytes, not the %d it was written with", size, c.length+record.PageSize)
	}
	return nil
}

func (c *checkpoint) header() []byte {
	e := binary.LittleEndian
	h := e.AppendUint64(make([]byte, 0, checkpointFields), c.id)
	h = e.AppendUint64(h, uint64(c.position))
	h = e.AppendUint64(h, c.length)
	return checkpointFormat.Page(e.AppendUint64(h, c.checksum))
}

// load gives the state to the user, once it is known to be whole.
func (c *checkpoint) load(load func(io.Reader) error) error {
	if c.f == nil {
		return nil
	}
	state := io.NewSectionReader(c.f, record.PageSize, int64(c.length))
	hash := xxh3.New()
	if _, err := io.CopyBuffer(hash, struct{ io.Reader }{state}, make([]byte, 1<<20)); err != nil {
		return err
	}
	if hash.Sum64() != c.checksum {
		return checkpointFormat.Corrupt(c.path, record.PageSize, "the checksum of its state is wrong")
	}
	if _, err := state.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := load(bufio.NewReaderSize(state, 1<<16)); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return nil
}

// Checkpoint replaces the checkpoint by what write writes: the state as of position at, which Position
// returned once. Then it removes the segments that nobody needs any more. Append may go on meanwhile. When
// Checkpoint fails, the former checkpoint and all that followed it are still there, and it can be tried
// again.
func (j *Journal) Checkpoint(at Position, write func(io.Writer) error) error {
	j.checkpointing.Lock()
	defer j.checkpointing.Unlock()
	err := j.checkpoint(at, write)
	if err != nil {
		j.metrics.checkpointErrors.Add(0, 1)
		return fmt.Errorf("checkpoint: %w", err)
	}
	j.metrics.checkpoints.Add(0, 1)
	return nil
}

func (j *Journal) checkpoint(at Position, write func(io.Writer) error) (err error) {
	j.mu.Lock()
	err = j.usable()
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if at < j.Checkpointed() || at > j.Position() {
		return fmt.Errorf("BUG: position %d is not between the last checkpoint, %d, and the end, %d", at,
			j.Checkpointed(), j.Position())
	}
	a, err := disk.CreateAtomic(filepath.Join(j.dir, checkpointName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Abort()) }()
	if _, err := a.Seek(record.PageSize, io.SeekStart); err != nil {
		return err
	}
	sum := &summer{w: a, hash: xxh3.New()}
	buffered := bufio.NewWriterSize(sum, 1<<18)
	if err := write(buffered); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	j.step("checkpoint written")
	c := checkpoint{id: j.id, position: at, length: sum.n, checksum: sum.hash.Sum64()}
	if _, err := a.WriteAt(c.header(), 0); err != nil {
		return err
	}
	// A checkpoint must not know more than the segments on the disk: after a power failure they would go on
	// from before its position, and what comes then would be taken for a part of it.
	if at > Position(j.synced.Load()) {
		if err := j.Sync(); err != nil {
			return err
		}
	}
	j.step("log synced")
	if err := a.Commit(); err != nil {
		return err
	}
	j.step("checkpoint renamed")
	j.checkpointed.Store(uint64(at))
	j.checkpointTime.Store(time.Now().UnixNano())
	j.removeBefore(at)
	return nil
}

// removeBefore removes the segments that end at or before at. What cannot be removed is tried again the
// next time.
func (j *Journal) removeBefore(at Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.bases) > 1 && j.bases[1] <= at {
		path := filepath.Join(j.dir, segmentName(j.bases[0]))
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			j.log.Warn("journal: a segment before the checkpoint could not be removed", "file", path,
				"error", err)
			break
		}
		j.bases = j.bases[1:]
		j.step("segment removed")
	}
	j.segments.Store(int64(len(j.bases)))
}

// summer counts and sums what is written through it.
type summer struct {
	w    io.Writer
	hash *xxh3.Hasher
	n    uint64
}

func (s *summer) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.hash.Write(p[:n]) //nolint:errcheck // never fails
	s.n += uint64(n)
	return n, err
}
