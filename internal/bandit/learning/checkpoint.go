package learning

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/journal"
)

// A checkpoint of the journal is what all events before it have taught, little-endian:
//
//	8 bytes   the time it is worth at, Unix microseconds
//	3 times   the number of arms of a level, 8 bytes, and for each its key and sums for alpha and beta, 32
//	8 bytes   when the first of the two days of ids began
//	2 times   the number of ids of a day, 8 bytes, and the keys, 16 bytes each; the later day first
//
// after a byte for its format.
const checkpointFormat = 1

// checkpoints writes a checkpoint whenever the journal has become long, and some time after something was
// forgotten.
func (l *Local) checkpoints(ctx context.Context) {
	erase := time.NewTicker(l.o.Erase)
	defer erase.Stop()
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-l.full:
			due = l.long() // else events went on asking for it while it was written
		case <-erase.C:
			due = l.names.isStale()
		}
		if !due || l.Err() != nil {
			continue
		}
		start := time.Now()
		if err := l.checkpoint(); err != nil {
			l.stats.checkpointErrors.Add(0, 1)
			l.o.Log.Error("what the events have taught could not be written; their journal goes on, and it "+
				"is tried again in a minute", "error", err)
			select { // every event asks for it now, and each try copies all that was learned
			case <-ctx.Done():
				return
			case <-time.After(time.Minute):
			}
			continue
		}
		l.o.Log.Info("bandit checkpoint", "arms", l.arms(), "took", time.Since(start))
	}
}

// long reports whether the journal has become long enough for a checkpoint.
func (l *Local) long() bool {
	return l.journal.Position()-l.journal.Checkpointed() > journal.Position(l.o.Checkpoint)
}

// State implements Learner. Events wait while it is copied, about 10 ms for a million arms and 50 ms for a
// million ids.
func (l *Local) State() State {
	s, _ := l.state()
	return s
}

func (l *Local) state() (State, journal.Position) {
	l.mu.Lock()
	at := l.journal.Position()
	s := l.copyAt(time.Now().UnixMicro())
	l.mu.Unlock()
	s.clean()
	return s, at
}

// copyAt returns what is known as it is worth at a time, for who holds the lock.
func (l *memory) copyAt(at int64) State {
	s := State{At: at, Day: l.ids.began}
	for level, t := range l.learned {
		s.Arms[level] = t.Copy(make([]arms.Arm, 0, t.Len()), s.At)
	}
	for i, ids := range []map[arms.Key]struct{}{l.ids.today, l.ids.yesterday} {
		s.IDs[i] = slices.AppendSeq(make([]arms.Key, 0, len(ids)), maps.Keys(ids))
	}
	return s
}

// clean takes out what was forgotten, or has faded to nothing.
func (s *State) clean() {
	for level := range s.Arms {
		s.Arms[level] = slices.DeleteFunc(s.Arms[level], func(a arms.Arm) bool {
			return !(a.Alpha+a.Beta > 0)
		})
	}
}

// checkpoint writes what was learned. Events go on while it is written.
func (l *Local) checkpoint() error {
	if l.names.isStale() {
		if err := l.journal.Rotate(); err != nil {
			return err
		}
	}
	s, at := l.state()
	if err := l.journal.Checkpoint(at, s.write); err != nil {
		return err
	}
	return l.names.compact(&l.learned)
}

// write writes the checkpoint of a state.
func (s *State) write(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<20)
	line := append(make([]byte, 0, 64), checkpointFormat)
	flush := func() error {
		_, err := out.Write(line)
		line = line[:0]
		return err
	}
	line = le.AppendUint64(line, uint64(s.At))
	for _, list := range s.Arms {
		line = le.AppendUint64(line, uint64(len(list)))
		if err := flush(); err != nil {
			return err
		}
		for _, a := range list {
			line = appendKey(line, a.Key)
			line = le.AppendUint64(line, math.Float64bits(a.Alpha))
			line = le.AppendUint64(line, math.Float64bits(a.Beta))
			if err := flush(); err != nil {
				return err
			}
		}
	}
	line = le.AppendUint64(line, uint64(s.Day))
	for _, keys := range s.IDs {
		line = le.AppendUint64(line, uint64(len(keys)))
		if err := flush(); err != nil {
			return err
		}
		for _, k := range keys {
			line = appendKey(line, k)
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// readWhole is readCheckpoint where nothing may follow.
func (l *memory) readWhole(r io.Reader, now int64) error {
	in := bufio.NewReaderSize(r, 1<<20)
	err := l.readCheckpoint(in, now)
	if err == nil {
		if _, end := in.ReadByte(); end != io.EOF {
			err = malformed(errors.New("it is longer than it says"))
		}
	}
	return err
}

// readCheckpoint takes up what a checkpoint holds. Times beyond now are of a clock that was ahead: what was
// known then is known now.
func (l *memory) readCheckpoint(in *bufio.Reader, now int64) error {
	var failed error
	var word [8]byte
	read := func() uint64 {
		if failed == nil {
			_, failed = io.ReadFull(in, word[:])
		}
		if failed != nil {
			return 0
		}
		return le.Uint64(word[:])
	}
	format, err := in.ReadByte()
	if err != nil {
		return err
	}
	if format != checkpointFormat {
		return fmt.Errorf("the checkpoint of the events has format %d, this weir reads %d: use the weir "+
			"that wrote it", format, checkpointFormat)
	}
	at := min(int64(read()), now)
	for _, t := range l.learned {
		n := read()
		t.Reserve(int(min(n, math.MaxInt32)), at)
		for ; n > 0 && failed == nil; n-- {
			a := arms.Arm{Key: arms.Key{Lo: read(), Hi: read()}}
			a.Alpha, a.Beta = math.Float64frombits(read()), math.Float64frombits(read())
			if failed != nil {
				break
			}
			if !l.hasRoomForOne() {
				l.overflow()
			} else if err := t.Restore(a, at); err != nil {
				return err
			}
		}
	}
	l.ids.began = min(int64(read()), now)
	for _, ids := range []map[arms.Key]struct{}{l.ids.today, l.ids.yesterday} {
		for n := read(); n > 0 && failed == nil; n-- {
			id := arms.Key{Lo: read(), Hi: read()}
			if l.ids.len() < l.ids.limit {
				ids[id] = struct{}{}
			} else {
				l.overflow()
			}
		}
	}
	if failed != nil {
		return malformed(failed)
	}
	return nil
}

func malformed(err error) error {
	return fmt.Errorf("the checkpoint of the events is malformed: %w", err)
}
