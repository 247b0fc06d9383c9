package cells

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"sync/atomic"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

// A sync writes the cells that changed since the last one to the redo log, one after the other, instead of
// the pages of 448 cells that they lie in. Of 200,000 random advances a second in 5 million cells it writes
// 5 MB and not 45, and no page has to fault again afterwards. When the log is full, the cells themselves
// are synced, a checkpoint, and the log begins anew.
//
// Open does what the log says again, in order, over what it finds of the cells. After the loss of power
// these may be older or newer than the log; after kill -9 they are newer, and must not be taken back. Each
// line of cells counts its changes, and an entry has the count of when it was read, so that is easily told:
// where the line has counted more since, everything the entry's sync has read was there before, and the
// entry is passed over. For that to be true
//
//   - a swap counts after it has changed the cell and before it returns, so of what was acknowledged
//     after an entry was read the count tells;
//   - an entry is read between two looks at a count that has not changed, so a line that has counted more
//     than the entry says is from after all of the entry was read;
//   - a line is written by the disk as a whole, being part of a sector;
//   - an entry that is done again leaves its count in the line.
//
// The log is a record.Log whose space is taken beforehand. A frame holds up to 2,730 entries of 24 bytes,
// native byte order: index and value of a cell, count of its line. Restart ends a checkpoint: whether or
// not it reaches the disk, what is found there is right.
type redoLog struct {
	*record.Log
	frame []byte   // entries on their way into the file, behind the frame's header
	ahead []uint64 // cells that were asked for into the processor's cache
}

const (
	redoEntryLen = 24
	redoFrameLen = 64 << 10
	redoAhead    = 512          // cells
	redoScanned  = 8 << 20 / 64 // words of marks that are looked at without a rest

	// The log is as long as the cells' file, so that in the long run each is written as much as the other,
	// but not longer than this.
	maxRedoLen = 256 << 20
)

var redoFormat = record.Format{Magic: "weirredo", Version: 1, Is: "a redo log of cursors",
	Replace: howToRepair}

// redoPath returns where the log of the cells at path is: beside the file itself, whatever links lead to it.
func redoPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path + ".redo"
}

// openRedo opens the log of the cells at path, or makes an empty one, and gives its entries to set, in
// their order.
func openRedo(path string, o Options, set func(i, value, count uint64)) (*redoLog, int64, error) {
	lo := record.LogOptions{Faults: o.Faults, Reserved: true, AcceptLoss: o.AcceptLoss}
	log, lost, err := record.OpenLog(redoPath(path), redoFormat, lo, func(b []byte) error {
		e := binary.NativeEndian
		for ; len(b) >= redoEntryLen; b = b[redoEntryLen:] {
			set(e.Uint64(b), e.Uint64(b[8:]), e.Uint64(b[16:]))
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return &redoLog{Log: log, frame: make([]byte, record.FrameHeader, redoFrameLen),
		ahead: make([]uint64, 0, redoAhead+64)}, lost, nil
}

// removeRedo removes a log without cells: it belongs to a file that is gone.
func removeRedo(path string) error {
	path = redoPath(path)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// append writes the cells that are marked in changed, and unmarks them, and waits until they are on the
// disk. It returns false when the log has no room for them; some are unmarked then all the same, and the
// caller makes a checkpoint. It calls rest at least every 2,730 changed cells and every eight million that
// are not.
func (l *redoLog) append(changed, words []atomic.Uint64, rest func()) (fits bool, err error) {
	begin := l.End()
	l.frame, l.ahead = l.frame[:record.FrameHeader], l.ahead[:0]
	for w := range changed {
		if w%redoScanned == redoScanned-1 {
			rest()
		}
		if changed[w].Load() == 0 {
			continue
		}
		// Unmark before reading: whoever swaps in between marks it again.
		for marks := changed[w].Swap(0); marks != 0; marks &= marks - 1 {
			i := uint64(w*64 + bits.TrailingZeros64(marks))
			disk.PrefetchWord(&words[word(i)])
			l.ahead = append(l.ahead, i)
		}
		if len(l.ahead) < redoAhead {
			continue
		}
		if l.read(words); len(l.frame) > redoFrameLen-cap(l.ahead)*redoEntryLen {
			if fits, err := l.flush(); !fits || err != nil {
				return false, err
			}
			rest()
		}
	}
	l.read(words)
	if fits, err := l.flush(); !fits || err != nil || l.End() == begin {
		return fits, err
	}
	if err := l.Sync(); err != nil {
		return false, err
	}
	disk.Uncache(l.File(), int64(begin),
		int64(l.End()-begin)) //nolint:errcheck // nobody will read it soon; only memory
	return true, nil
}

// read makes entries of the cells in ahead.
func (l *redoLog) read(words []atomic.Uint64) {
	for _, i := range l.ahead {
		value, count := readCounted(words, i)
		e := binary.NativeEndian
		l.frame = e.AppendUint64(e.AppendUint64(e.AppendUint64(l.frame, i), value), count)
	}
	l.ahead = l.ahead[:0]
}

// flush writes the frame, if there is anything in it; false means that there is no room.
func (l *redoLog) flush() (fits bool, err error) {
	if len(l.frame) == record.FrameHeader {
		return l.Has(len(l.frame)), nil
	}
	if !l.Has(len(l.frame)) {
		return false, nil
	}
	err = l.Append(l.frame)
	l.frame = l.frame[:record.FrameHeader]
	return err == nil, err
}

// scrub overwrites all behind the header with zeros. The log is empty.
func (l *redoLog) scrub() error {
	info, err := l.File().Stat()
	if err != nil {
		return err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(record.PageSize); at < info.Size(); at += int64(len(zeros)) {
		if _, err := l.File().WriteAt(zeros[:min(int64(len(zeros)), info.Size()-at)], at); err != nil {
			return err
		}
	}
	return l.Sync()
}
