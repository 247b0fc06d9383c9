package bandit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/journal"
)

// A checkpoint of the journal is what all events before it have taught, little-endian:
//
//	8 bytes   the time it is worth at, Unix microseconds
//	3 times   the number of arms of a level, 8 bytes, and for each key, sum for alpha, sum for beta: 32 bytes
//	8 bytes   when the first of the two days of ids began
//	2 times   the number of ids of a day, 8 bytes, and the keys, 16 bytes each; the later day first
//
// after a byte for its format.
const checkpointFormat = 1

// checkpoints writes a checkpoint whenever the journal has become long.
func (b *Bandit) checkpoints() {
	for {
		select {
		case <-b.background.Done():
			return
		case <-b.events.full:
		}
		if !b.long() {
			continue // events went on asking for it while it was written
		}
		start := time.Now()
		if err := b.checkpoint(); err != nil {
			b.stats.checkpointErrors.Add(0, 1)
			b.log.Error("what the events have taught could not be written; their journal goes on, and it is tried again in a minute", "error", err)
			select { // every event asks for it now, and each try copies all that was learned
			case <-b.background.Done():
				return
			case <-time.After(time.Minute):
			}
			continue
		}
		b.log.Info("bandit checkpoint", "arms", b.learnedArms(), "took", time.Since(start).Round(time.Millisecond))
	}
}

// long reports whether the journal has become long enough for a checkpoint.
func (b *Bandit) long() bool {
	j := b.events.journal
	return j.Position()-j.Checkpointed() > journal.Position(b.cfg.Checkpoint)
}

// checkpoint writes what was learned. Events wait while it is copied, about 10 ms for a million arms and 50 ms for a million
// ids, and go on while it is written.
func (b *Bandit) checkpoint() error {
	e := &b.events
	e.Lock()
	at := e.journal.Position()
	now := time.Now().UnixMicro()
	var learned [levels][]arms.Arm
	for level, l := range b.learned {
		learned[level] = l.Copy(make([]arms.Arm, 0, l.Len()), now)
	}
	began := e.ids.began
	var days [2][]arms.Key
	for i, ids := range []map[arms.Key]struct{}{e.ids.today, e.ids.yesterday} {
		days[i] = make([]arms.Key, 0, len(ids))
		for k := range ids {
			days[i] = append(days[i], k)
		}
	}
	e.Unlock()

	for level := range learned { // what was forgotten, or has faded to nothing
		learned[level] = slices.DeleteFunc(learned[level], func(a arms.Arm) bool { return !(a.Alpha+a.Beta > 0) })
	}
	return e.journal.Checkpoint(at, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<20)
		le := binary.LittleEndian
		line := append(make([]byte, 0, 64), checkpointFormat)
		flush := func() error {
			_, err := out.Write(line)
			line = line[:0]
			return err
		}
		line = le.AppendUint64(line, uint64(now))
		for _, list := range learned {
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
		line = le.AppendUint64(line, uint64(began))
		for _, keys := range days {
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
	})
}

// readCheckpoint takes up what a checkpoint holds.
func (b *Bandit) readCheckpoint(r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<20)
	var failed error
	var word [8]byte
	read := func() uint64 {
		if failed == nil {
			_, failed = io.ReadFull(in, word[:])
		}
		if failed != nil {
			return 0
		}
		return binary.LittleEndian.Uint64(word[:])
	}
	format, err := in.ReadByte()
	if err != nil {
		return err
	}
	if format != checkpointFormat {
		return fmt.Errorf("the checkpoint of the events has format %d, this weir reads %d: use the weir that wrote it", format, checkpointFormat)
	}
	at := int64(read())
	for _, l := range b.learned {
		n := read()
		l.Reserve(int(min(n, math.MaxInt32)), at)
		for ; n > 0 && failed == nil; n-- {
			a := arms.Arm{Key: arms.Key{Lo: read(), Hi: read()}}
			a.Alpha, a.Beta = math.Float64frombits(read()), math.Float64frombits(read())
			if failed == nil {
				if err := l.Restore(a, at); err != nil {
					return fmt.Errorf("%w: raise --bandit-max-learned above %d", err, b.cfg.MaxLearned)
				}
			}
		}
	}
	e := &b.events
	e.ids.began = int64(read())
	for _, ids := range []map[arms.Key]struct{}{e.ids.today, e.ids.yesterday} {
		for n := read(); n > 0 && failed == nil; n-- {
			ids[arms.Key{Lo: read(), Hi: read()}] = struct{}{}
		}
	}
	if failed == nil {
		if _, err := in.ReadByte(); err != io.EOF {
			failed = errors.New("it is longer than it says")
		}
	}
	if failed != nil {
		return fmt.Errorf("the checkpoint of the events is malformed: %w", failed)
	}
	return nil
}
