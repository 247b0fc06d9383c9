package learning

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"weir/internal/bandit/arms"
	"weir/internal/cluster"
	disklog "weir/internal/disk/record"
)

// What the engine is asked for when a checkpoint is put into it: parts of that size; a lease, so that one
// node does it at a time; and that parts which nobody publishes go away.
const (
	partBytes = 1 << 20
	leaseTime = time.Minute
	partsTime = time.Hour
)

// publishes puts a checkpoint into the engine when entries have become many, and some time after something
// was forgotten; and answers what waits for too long.
func (s *Shared) publishes(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	erased := time.Now()
	for {
		select {
		case <-ctx.Done():
			s.sweep(0)
			return
		case <-tick.C:
		}
		s.sweep(patience)
		erase := time.Since(erased) >= s.o.Erase
		if erase {
			erased = time.Now()
			if err := s.names.compact(&s.learned); err != nil {
				s.o.Log.Warn("names of arms could not be written anew", "error", err)
			}
		}
		if s.hard() != nil || s.behind.Load() != 0 ||
			s.since.Load() <= s.o.Checkpoint && !(erase && s.erase.Load() > 0) {
			continue
		}
		start := time.Now()
		if done, err := s.publish(ctx); err != nil && ctx.Err() == nil {
			s.publishErrors.Add(0, 1)
			s.o.Log.Error("what the events have taught could not be put into the cluster; it is tried again "+
				"in a minute", "error", err)
			pause(ctx, leaseTime)
		} else if done {
			s.published.Add(0, 1)
			s.o.Log.Info("bandit checkpoint", "arms", s.arms(), "took", time.Since(start))
		}
	}
}

// publish puts a checkpoint into the engine, unless another node is about to or was faster.
//
// Two are of interest: entries stay from the one before on, so that a node that is somewhat behind goes on.
func (s *Shared) publish(ctx context.Context) (done bool, err error) {
	id := fmt.Sprintf("%016x", rand.Uint64())
	do := func(args ...string) (cluster.Reply, error) {
		return s.c.Do(ctx, cluster.Command{Slot: s.slot, Args: args})
	}
	lease := strconv.FormatInt(leaseTime.Milliseconds(), 10)
	r, err := do("SET", s.keys.lease, id, "NX", "PX", lease)
	if err != nil || r.IsNil() {
		return false, err
	}
	defer do("UNLINK", s.keys.lease) //nolint:errcheck // it ends by itself
	old, err := s.get(ctx, s.keys.header)
	if err != nil {
		return false, err
	}
	before := header{place: beginning}
	if old != "" {
		if err := json.Unmarshal([]byte(old), &before); err != nil {
			return false, err
		}
	}
	h := header{Parts: s.keys.header + ":" + id, Before: before.ID}
	s.mu.Lock()
	h.place = s.at
	state, latest, marks := s.exact()
	s.mu.Unlock()
	out := &partWriter{flush: func(part string) error {
		_, err := do("HSET", h.Parts, strconv.Itoa(h.Count), part)
		if err == nil && h.Count == 0 {
			_, err = do("EXPIRE", h.Parts, strconv.Itoa(int(partsTime.Seconds())))
		}
		if err == nil {
			_, err = do("SET", s.keys.lease, id, "XX", "PX", lease)
		}
		h.Count++
		return err
	}}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return false, err
	}
	line := make([]byte, 0, 24)
	for _, at := range latest {
		line = le.AppendUint64(line, uint64(at))
	}
	if _, err = z.Write(line); err == nil {
		err = state.write(z)
	}
	if err == nil {
		err = taught(&marks, s.names.frames, func(frame []byte) error {
			frame = frame[disklog.FrameHeader:]
			if _, err := z.Write(le.AppendUint32(nil, uint32(len(frame)))); err != nil {
				return err
			}
			_, err := z.Write(frame)
			return err
		})
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = out.end()
	}
	if err != nil {
		do("UNLINK", h.Parts) //nolint:errcheck // it expires
		return false, err
	}
	text, err := json.Marshal(h)
	if err != nil {
		return false, err
	}
	was := before.Parts
	if was == "" {
		was = h.Parts
	}
	nonce := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	r, err = s.c.Do(ctx, cluster.Command{Slot: s.slot, Durable: true, Args: library.Call("events_checkpoint",
		[]string{s.keys.stream, s.keys.tail, s.keys.header, h.Parts, was},
		old, h.ID, h.Nonce, string(text), h.Before, nonce, string(rune(entryCheckpoint)))})
	if err != nil {
		return false, err
	}
	n, err := r.ToInt64()
	if n == 0 {
		do("UNLINK", h.Parts) //nolint:errcheck // it expires
	}
	return n == 1, err
}

// exact returns what is known so that it can be restored to the bit: as it is worth when a half-life ends.
// The caller holds the lock.
func (s *Shared) exact() (state State, latest [Levels]int64, marks [Levels]*arms.Marks) {
	at := time.Now().UnixMicro()
	for level, t := range s.learned {
		latest[level] = t.Latest()
		at = max(at, latest[level])
	}
	return s.copyAt(s.learned[0].Whole(at)), latest, marksOf(&s.learned)
}

// partWriter cuts what is written into parts.
type partWriter struct {
	part  []byte
	flush func(part string) error
}

func (w *partWriter) Write(b []byte) (int, error) {
	for written := 0; ; {
		n := min(len(b)-written, partBytes-len(w.part))
		w.part = append(w.part, b[written:written+n]...)
		if written += n; len(w.part) < partBytes {
			return len(b), nil
		}
		if err := w.end(); err != nil {
			return written, err
		}
	}
}

func (w *partWriter) end() error {
	if len(w.part) == 0 {
		return nil
	}
	err := w.flush(string(w.part))
	w.part = w.part[:0]
	return err
}
