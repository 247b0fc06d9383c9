package learning

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"weir/internal/bandit/arms"
	"weir/internal/cluster"
)

// library appends to the stream. An entry has the nonce of the one before it ("p") and its own ("n"), so a
// node that goes on with an entry sees whether that follows what it has learned: it does not where the node
// had read from a server what a failover has taken back, or where it is behind what was trimmed. The last
// nonce is in a key of its own beside the stream.
//
// A checkpoint is published where nobody else has done so meanwhile and the stream goes by the entry that
// the checkpoint is of. What follows that is replicated after it, so no failover keeps the one without the
// other.
var library = cluster.NewLibrary("events", `
local function append(stream, tail, nonce, data)
  local id = redis.call('XADD', stream, '*', 'p', redis.call('GET', tail) or '', 'n', nonce, 'd', data)
  redis.call('SET', tail, nonce)
  return id
end

define('events_add', function(keys, args)
  return append(keys[1], keys[2], args[1], args[2])
end)

-- keys: stream, tail, header, parts, parts of the checkpoint before
-- args: the header there was, entry and nonce that the checkpoint is of, its header, the first entry to keep,
--       nonce and data of the entry that tells of it
define('events_checkpoint', function(keys, args)
  if (redis.call('GET', keys[3]) or '') ~= args[1] then return 0 end
  if args[2] ~= '0-0' then
    local entry = redis.call('XRANGE', keys[1], args[2], args[2])[1]
    if not entry or entry[2][4] ~= args[3] then return 0 end
  end
  if redis.call('PERSIST', keys[4]) == 0 then return 0 end
  redis.call('SET', keys[3], args[4])
  if keys[5] ~= keys[4] then redis.call('UNLINK', keys[5]) end
  append(keys[1], keys[2], args[6], args[7])
  redis.call('XTRIM', keys[1], 'MINID', args[5])
  return 1
end)
`)

// place is how far in the stream a node is.
type place struct {
	ID    string `json:"id"`    // of the last entry taken in
	Nonce string `json:"nonce"` // of it
	First string `json:"first"` // nonce of the first entry ever, which tells one history from another
}

var beginning = place{ID: "0-0"}

// header tells of the newest checkpoint.
type header struct {
	place
	Parts  string `json:"parts"`  // key of the hash that has them
	Count  int    `json:"count"`  // of the parts
	Before string `json:"before"` // the ID of the checkpoint before
}

// entry is one of the stream.
type entry struct {
	id, before, nonce, data string
}

var (
	errDiverged = errors.New("the stream of events does not go on from what was read of it")
	errLost     = errors.New("the stream of events in the cluster is not the one that this node has " +
		"learned from, or is not whole: nothing more is learned. Restore the cluster's data; what it holds " +
		"counts after a restart")
)

// page is how many entries are read at a time, block for how long a read waits for some, and settled how
// long the stream may seem to lack what was read of it, as a replica is behind.
const (
	page    = 64
	block   = time.Second
	settled = 5 * time.Second
)

// erasedBy is how many checkpoints it takes until nothing of what was forgotten is left in the engine: one
// may have been under way, the next is without it, and that after it trims what came before.
const erasedBy = 3

// follow takes in the stream until ctx ends.
func (s *Shared) follow(ctx context.Context) {
	started, failing := time.Now(), time.Time{}
	var p pace
	for anew := true; ctx.Err() == nil; {
		var err error
		if anew {
			err = s.begin(ctx)
			anew, p = err != nil, pace{}
		}
		if err == nil {
			err = s.step(ctx, &p)
		}
		if err == nil && p.caughtUp {
			s.behind.Store(0)
			s.isReady(nil)
		} else {
			s.behind.CompareAndSwap(0, time.Now().UnixMicro())
		}
		switch hard := s.hard(); {
		case ctx.Err() != nil:
			return
		case hard != nil:
			s.o.Log.Error("events of the cluster are learned no more", "error", hard)
			s.isReady(hard)
			return
		case err == nil:
			failing = time.Time{}
			s.failing.Store(nil)
			continue
		case errors.Is(err, errDiverged):
			s.o.Log.Warn("bandit begins anew with a checkpoint", "error", err)
			s.anew.Add(0, 1)
			anew = true
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > 2*time.Second:
			if s.failing.Swap(&err) == nil {
				s.o.Log.Warn("events of the cluster cannot be read; it is tried on", "error", err)
			}
		}
		if time.Since(started) > 30*time.Second {
			s.isReady(err) // who has opened it waits no longer
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// pace is how a node gets on with the stream.
type pace struct {
	caughtUp bool
	until    string    // nonce of the entry with which it has, which was the last one when it was asked for
	lacking  time.Time // since when there seems to be less than was read; zero if not
}

// step takes in a page of entries. Where there are none, it asks the primary whether that is all.
func (s *Shared) step(ctx context.Context, p *pace) error {
	list, err := s.next(ctx, p.caughtUp)
	for i := 0; i < len(list) && err == nil; i++ {
		if err = s.takeIn(&list[i]); list[i].nonce == p.until {
			p.caughtUp = true
		}
	}
	switch {
	case err != nil || len(list) == page:
		p.caughtUp, p.until = false, ""
	case len(list) > 0 && p.caughtUp:
	default:
		p.until, err = s.get(ctx, s.keys.tail)
		p.caughtUp = err == nil && p.until == s.at.Nonce
	}
	switch {
	case err != nil || len(list) > 0 || p.caughtUp:
		p.lacking = time.Time{}
	case p.lacking.IsZero():
		p.lacking = time.Now()
	case time.Since(p.lacking) > settled:
		return errDiverged
	default:
		pause(ctx, 10*time.Millisecond)
	}
	return err
}

func (s *Shared) isReady(err error) {
	select {
	case s.ready <- err:
	default: // it was, or nobody has asked yet
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// get returns a string that the primary has, "" for none.
func (s *Shared) get(ctx context.Context, key string) (string, error) {
	r, err := s.c.Do(ctx, cluster.Command{Slot: s.slot, Args: []string{"GET", key}})
	if err != nil || r.IsNil() {
		return "", err
	}
	return r.ToString()
}

// next returns the entries after s.at. It waits for some where wait is true.
func (s *Shared) next(ctx context.Context, wait bool) ([]entry, error) {
	args := []string{"XREAD", "COUNT", strconv.Itoa(page)}
	if wait {
		args = append(args, "BLOCK", strconv.FormatInt(block.Milliseconds(), 10))
	}
	r, err := s.c.Read(ctx, s.slot, append(args, "STREAMS", s.keys.stream, s.at.ID)...)
	if err != nil || r.IsNil() {
		return nil, err
	}
	streams, err := r.ToArray()
	if err != nil || len(streams) != 1 {
		return nil, errors.Join(err, errEntry)
	}
	stream, err := streams[0].ToArray()
	if err != nil || len(stream) != 2 {
		return nil, errors.Join(err, errEntry)
	}
	return readEntries(stream[1])
}

func readEntries(r cluster.Reply) ([]entry, error) {
	elems, err := r.ToArray()
	if err != nil {
		return nil, err
	}
	list := make([]entry, len(elems))
	for i, e := range elems {
		pair, err := e.ToArray()
		if err != nil || len(pair) != 2 {
			return nil, errors.Join(err, errEntry)
		}
		list[i].id, err = pair[0].ToString()
		fields, also := pair[1].AsStrSlice()
		if err = errors.Join(err, also); err != nil || len(fields) != 6 {
			return nil, errors.Join(err, errEntry)
		}
		list[i].before, list[i].nonce, list[i].data = fields[1], fields[3], fields[5]
	}
	return list, nil
}

// takeIn takes in an entry, which is the next one.
func (s *Shared) takeIn(e *entry) error {
	if e.before != s.at.Nonce {
		return errDiverged
	}
	came, err := micros(e.id)
	if err != nil || len(e.data) == 0 {
		return errors.Join(err, errEntry)
	}
	var batches []received
	switch e.data[0] {
	case entryBatches:
		batches, s.records, err = readBatches([]byte(e.data[1:]), nil, s.records[:0])
		if err != nil {
			return err
		}
	case entryCheckpoint:
	default:
		return errEntry
	}
	s.mu.Lock()
	results := s.learn(batches, came)
	s.at.ID, s.at.Nonce = e.id, e.nonce
	if s.at.First == "" {
		s.at.First = e.nonce
	}
	s.mu.Unlock()
	if err := s.overfull.Load(); err != nil {
		return *err
	}
	s.entries.Add(0, 1)
	if e.data[0] == entryCheckpoint {
		s.since.Store(0)
		s.erase.Store(max(0, s.erase.Load()-1))
	} else {
		s.since.Add(int64(len(e.data)))
	}
	s.taken(e.nonce, results)
	return nil
}

// learn takes in batches that came at a time, and returns of each how many events of it had been there, or
// how much was forgotten.
func (s *Shared) learn(batches []received, came int64) []int {
	s.ids.turn(came)
	results := make([]int, len(batches))
	from := 0
	for i, b := range batches {
		for j := from; j < b.end; j++ {
			r := &s.records[j]
			r.came = came
			if r.forget {
				results[i] += s.unlearn(r)
				s.erase.Store(erasedBy)
				if !r.forgetIDs {
					s.names.forgot()
				}
				continue
			}
			if r.At == 0 || r.At > came {
				r.At = came
			}
			if r.ID != (arms.Key{}) {
				if s.ids.has(r.ID) {
					results[i]++
					continue
				}
				if s.ids.room(0) != nil {
					s.overflow()
					return results
				}
				s.ids.add(r.ID, b.client)
			}
			for level, k := range r.Arms {
				if k != (arms.Key{}) && !s.learned[level].Has(k) && !s.hasRoomForOne() {
					s.overflow()
					return results
				}
			}
			s.apply(r, came)
		}
		from = b.end
	}
	s.names.flush()
	s.remembered.Store(int64(s.ids.len()))
	return results
}

// begin takes up the newest checkpoint, in place of what was known.
func (s *Shared) begin(ctx context.Context) error {
	known := new(memory)
	known.init(s.o)
	c, err := s.read(ctx, known)
	if err != nil {
		return err
	}
	if c.First == "" { // it is of before the first entry, or there is none
		if c.First, err = s.first(ctx); err != nil {
			return err
		}
	}
	if s.at.First != "" && s.at.First != c.First {
		s.lost.Store(&errLost)
		return errLost
	}
	if err := known.overfull.Load(); err != nil {
		s.overflow()
		return *err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for level, t := range known.learned {
		s.learned[level].Replace(t, c.latest[level])
	}
	s.ids, s.at = known.ids, c.place
	s.since.Store(0)
	if c.Count > 0 {
		s.erase.Store(erasedBy) // it may be that something was forgotten
	}
	s.remembered.Store(int64(s.ids.len()))
	err = s.names.replace(&s.learned, func(f func([]byte) error) error {
		for _, frame := range c.names {
			if err := f(frame); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.o.Log.Warn("names of arms could not be written", "error", err)
	}
	return nil
}

// engineCheckpoint is what is not in a memory of the engine's checkpoint.
type engineCheckpoint struct {
	header
	latest [Levels]int64 // times of events
	names  [][]byte      // frames
}

// read reads the newest checkpoint, if there is one, into a memory that is empty.
func (s *Shared) read(ctx context.Context, known *memory) (c engineCheckpoint, err error) {
	c.place = beginning
	text, err := s.get(ctx, s.keys.header)
	if err != nil || text == "" {
		return c, err
	}
	if err = json.Unmarshal([]byte(text), &c.header); err == nil {
		err = s.load(ctx, &c, known)
	}
	if err != nil {
		err = fmt.Errorf("the checkpoint of events in the cluster: %w", err)
	}
	return c, err
}

// first returns the nonce of the first entry ever, "" where there is none yet; it is the stream's first one
// where there is no checkpoint.
func (s *Shared) first(ctx context.Context) (string, error) {
	tail, err := s.get(ctx, s.keys.tail)
	if err != nil || tail == "" {
		return "", err
	}
	r, err := s.c.Do(ctx, cluster.Command{Slot: s.slot, Args: []string{"XRANGE", s.keys.stream, "-", "+",
		"COUNT", "1"}})
	if err != nil {
		return "", err
	}
	list, err := readEntries(r)
	if err == nil && (len(list) == 0 || list[0].before != "") {
		s.lost.Store(&errLost)
		err = errLost
	}
	if err != nil {
		return "", err
	}
	return list[0].nonce, nil
}

// load reads a checkpoint: when the latest events were, as 8 bytes a level; the state as it is in the
// journal's checkpoints; and frames of names, each behind its length of 4 bytes. All of it is compressed,
// with a checksum, and cut into parts.
func (s *Shared) load(ctx context.Context, c *engineCheckpoint, known *memory) error {
	z, err := zstd.NewReader(&parts{ctx: ctx, s: s, h: c.header}, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	in := bufio.NewReaderSize(z, 1<<20)
	var word [8]byte
	for level := range c.latest {
		if _, err := io.ReadFull(in, word[:]); err != nil {
			return err
		}
		c.latest[level] = int64(le.Uint64(word[:]))
	}
	if err := known.readCheckpoint(in, math.MaxInt64); err != nil {
		return err
	}
	for {
		if _, err := io.ReadFull(in, word[:4]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		n := le.Uint32(word[:])
		if n > 1<<20 {
			return errNames
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		c.names = append(c.names, frame)
	}
}

// parts reads the parts of a checkpoint one after the other.
type parts struct {
	ctx  context.Context
	s    *Shared
	h    header
	next int
	left string
}

func (p *parts) Read(b []byte) (int, error) {
	if p.left == "" {
		if p.next == p.h.Count {
			return 0, io.EOF
		}
		r, err := p.s.c.Do(p.ctx, cluster.Command{Slot: p.s.slot,
			Args: []string{"HGET", p.h.Parts, strconv.Itoa(p.next)}})
		if err == nil {
			p.left, err = r.ToString()
		}
		if err != nil {
			return 0, fmt.Errorf("part %d of %d: %w", p.next, p.h.Count, err)
		}
		p.next++
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}
