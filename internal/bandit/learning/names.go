package learning

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"weir/internal/bandit/arms"
	"weir/internal/disk"
	disklog "weir/internal/disk/record"
)

// Name is what an arm is called: ids as they were sent. Of is its segment or user, "" of an item's own arm.
type Name struct{ Item, Of string }

// Named is an arm that was taught of, with its name.
type Named struct {
	Level arms.Level
	Key   arms.Key
	Name
}

// Cursor is a place among the names; the zero Cursor is before all.
type Cursor struct {
	Log   uint64 // of which file
	Frame int64  // where a frame begins
	Skip  int    // entries of it that are behind
}

// names is the file of the names of arms, in the order in which they were taught of first. Sums are kept by
// keys, from which no id can be told; names are for those who want to read them, and to find what there is
// of a user. They are no part of what is promised: an arm whose name was lost in a power failure, or could
// not be written, gets it again when an event teaches of it.
//
// An entry is the level (1 byte), the key (16 bytes), and item and segment or user, each behind its length
// (1 byte). A frame is the new arms of one commit.
type names struct {
	path   string
	faults disk.Faults
	log    *slog.Logger

	mu      sync.Mutex // guards all below
	file    *disklog.Log
	frame   []byte // under way
	missing [Levels]map[arms.Key]struct{}
	stale   bool // there are names of arms that are forgotten, or twice
	closed  bool

	lacking atomic.Int64 // how many are missing
}

var namesFormat = disklog.Format{Magic: "weirname", Version: 1, Is: "a file of names of arms",
	Replace: "it can be deleted: arms get their names again as events come"}

// missingLimit bounds the arms that are known to have no name.
const missingLimit = 1 << 20

// openNames opens the file in dir. What is damaged is given up.
func openNames(dir string, tables *[Levels]*arms.Learned, faults disk.Faults, log *slog.Logger) (*names,
	error) {
	n := &names{path: filepath.Join(dir, "names"), faults: faults, log: log}
	marks := marksOf(tables)
	for level := range tables {
		n.missing[level] = make(map[arms.Key]struct{})
	}
	open := func() (lost int64, err error) {
		n.file, lost, err = disklog.OpenLog(n.path, namesFormat,
			disklog.LogOptions{Faults: faults, AcceptLoss: true},
			func(b []byte) error {
				return eachName(b, func(a Named, _ []byte) bool {
					if !marks[a.Level].Mark(a.Key) {
						n.stale = true
					}
					return true
				})
			})
		return lost, err
	}
	lost, err := open()
	if errors.Is(err, disklog.ErrCorrupt) || errors.Is(err, disklog.ErrVersion) {
		log.Warn("the names of arms cannot be read and are begun anew", "path", n.path, "error", err)
		if err = os.Remove(n.path); err == nil {
			lost, err = open()
		}
	}
	if err != nil {
		return nil, err
	}
	if lost > 0 {
		log.Warn("some names of arms are lost", "path", n.path, "bytes", lost)
	}
	for level, m := range marks {
		m.Unmarked(func(k arms.Key) bool { return n.lack(arms.Level(level), k) })
	}
	return n, nil
}

// has reports whether an arm that was taught of has a name.
func (n *names) has(level arms.Level, k arms.Key) bool {
	if n.lacking.Load() == 0 {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, missing := n.missing[level][k]
	return !missing
}

// add adds an arm to the frame under way.
func (n *names) add(level arms.Level, k arms.Key, name *Name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name == nil || len(name.Item) > 255 || len(name.Of) > 255 {
		n.lack(level, k)
		return
	}
	if len(n.frame) == 0 {
		n.frame = append(n.frame, make([]byte, disklog.FrameHeader)...)
	}
	n.frame = appendName(n.frame, level, k, name)
	if _, missing := n.missing[level][k]; missing {
		delete(n.missing[level], k)
		n.lacking.Add(-1)
	}
}

// appendName appends an entry.
func appendName(dst []byte, level arms.Level, k arms.Key, name *Name) []byte {
	if len(name.Item) > 255 || len(name.Of) > 255 {
		return dst
	}
	dst = appendKey(append(dst, byte(level)), k)
	dst = append(append(dst, byte(len(name.Item))), name.Item...)
	return append(append(dst, byte(len(name.Of))), name.Of...)
}

// lack notes that an arm has no name, and reports whether more can be noted.
func (n *names) lack(level arms.Level, k arms.Key) bool {
	if len(n.missing[level]) >= missingLimit {
		return false
	}
	if _, known := n.missing[level][k]; !known {
		n.missing[level][k] = struct{}{}
		n.lacking.Add(1)
	}
	return true
}

// flush writes the frame under way.
func (n *names) flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.frame) == 0 {
		return
	}
	if err := n.file.Append(n.frame); err != nil {
		n.log.Warn("names of arms could not be written", "path", n.path, "error", err)
		eachName(n.frame[disklog.FrameHeader:], func(a Named, _ []byte) bool { //nolint:errcheck // our own
			return n.lack(a.Level, a.Key)
		})
	}
	n.frame = n.frame[:0]
}

// forgot notes that names are of arms that were forgotten.
func (n *names) forgot() {
	n.mu.Lock()
	n.stale = true
	n.mu.Unlock()
}

func (n *names) isStale() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stale
}

var errNames = errors.New("a file of names of arms is malformed")

// eachName calls f with the entries of a frame, and their bytes, until it returns false.
func eachName(b []byte, f func(a Named, entry []byte) bool) error {
	for len(b) > 0 {
		entry := b
		var text [2]string
		if len(b) < 19 || b[0] >= Levels {
			return errNames
		}
		a := Named{Level: arms.Level(b[0]), Key: arms.Key{Lo: le.Uint64(b[1:]), Hi: le.Uint64(b[9:])}}
		b = b[17:]
		for i := range text {
			if len(b) == 0 || len(b) < 1+int(b[0]) {
				return errNames
			}
			text[i], b = string(b[1:1+b[0]]), b[1+b[0]:]
		}
		a.Item, a.Of = text[0], text[1]
		if !f(a, entry[:len(entry)-len(b)]) {
			return nil
		}
	}
	return nil
}

// ErrCursor is of a Cursor that leads nowhere any more.
var ErrCursor = errors.New("the list of arms was written anew meanwhile, as some are forgotten: " +
	"begin it again")

// errEnough ends a walk.
var errEnough = errors.New("enough")

// each calls f with the entries from a place on, until it returns false, and returns the place behind the
// last one that f was called with; the zero Cursor when that was the last there is.
func (n *names) each(from Cursor, f func(Named) bool) (Cursor, error) {
	in, err := os.Open(n.path) // the one at the path now: it may be replaced meanwhile
	if err != nil {
		return Cursor{}, err
	}
	defer in.Close()
	r, err := disklog.ReadLog(in, n.path, namesFormat)
	if err != nil {
		return Cursor{}, err
	}
	if from != (Cursor{}) && from.Log != r.ID() {
		return Cursor{}, ErrCursor
	}
	at := Cursor{r.ID(), max(from.Frame, disklog.PageSize), from.Skip}
	_, err = r.Frames(at.Frame, func(b []byte, end int64) error {
		i, more := 0, true
		err := eachName(b, func(a Named, _ []byte) bool {
			if i++; i > at.Skip {
				more = f(a)
			}
			return more
		})
		if err == nil && !more {
			at.Skip, err = i, errEnough
		} else if err == nil {
			at = Cursor{r.ID(), end, 0}
		}
		return err
	})
	if err == errEnough {
		return at, nil
	}
	return Cursor{}, err
}

// frames walks the frames of names from somewhere.
type frames func(f func(frame []byte) error) error

// frames walks those of the file.
func (n *names) frames(f func([]byte) error) error {
	in, err := os.Open(n.path)
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := disklog.ReadLog(in, n.path, namesFormat)
	if err != nil {
		return err
	}
	_, err = r.Frames(disklog.PageSize, func(b []byte, _ int64) error { return f(b) })
	return err
}

// marksOf returns a mark for every arm.
func marksOf(tables *[Levels]*arms.Learned) (marks [Levels]*arms.Marks) {
	for level, t := range tables {
		marks[level] = t.Marks()
	}
	return marks
}

// taught calls write with frames of those names that are of arms which are taught of, each once. They have
// room for their header in front.
func taught(marks *[Levels]*arms.Marks, from frames, write func(frame []byte) error) error {
	frame := make([]byte, disklog.FrameHeader)
	flush := func() error {
		if len(frame) == disklog.FrameHeader {
			return nil
		}
		err := write(frame)
		frame = frame[:disklog.FrameHeader]
		return err
	}
	err := from(func(b []byte) error {
		err := eachName(b, func(a Named, entry []byte) bool {
			if marks[a.Level].Mark(a.Key) {
				frame = append(frame, entry...)
			}
			return true
		})
		if err == nil && len(frame) > 64<<10 {
			err = flush()
		}
		return err
	})
	return errors.Join(err, flush())
}

// compact writes the file anew without the names of arms that are not taught of, if there are any.
func (n *names) compact(tables *[Levels]*arms.Learned) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stale {
		return nil
	}
	marks := marksOf(tables)
	return n.rewrite(&marks, n.frames)
}

// replace writes the file anew from elsewhere.
func (n *names) replace(tables *[Levels]*arms.Learned, from frames) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frame = n.frame[:0]
	marks := marksOf(tables)
	err := n.rewrite(&marks, from)
	n.lacking.Store(0)
	for level, m := range marks {
		n.missing[level] = make(map[arms.Key]struct{})
		m.Unmarked(func(k arms.Key) bool { return n.lack(arms.Level(level), k) })
	}
	return err
}

// rewrite puts a file in place of the one there is, for who holds the lock.
func (n *names) rewrite(marks *[Levels]*arms.Marks, from frames) (err error) {
	temp := n.path + ".new"
	out, err := os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close(), os.Remove(temp))
		}
	}()
	id := disklog.NewID()
	if _, err := out.Write(disklog.LogPage(namesFormat, id, 0)); err != nil {
		return err
	}
	log := disklog.NewLog(out, namesFormat, id, 0, n.faults)
	if err = taught(marks, from, log.Append); err == nil {
		err = log.Sync()
	}
	if err == nil {
		err = os.Rename(temp, n.path)
	}
	if err != nil {
		return err
	}
	n.file.Close() //nolint:errcheck // nothing of it is needed
	n.file, n.stale = log, false
	return n.faults.SyncDir(filepath.Dir(n.path))
}

// close may be called again.
func (n *names) close() error {
	n.flush()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	return errors.Join(n.file.Sync(), n.file.Close())
}
