package bandit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/journal"
	"weir/internal/server"
)

// events takes in what users did: into the journal first, then into the sums of the arms.
type events struct {
	sync.Mutex // guards all of it but the journal's own methods
	journal    *journal.Journal
	ids        eventIDs
	batch      journal.Batch
	records    []record // of the batch
	buffer     []byte
	remembered atomic.Int64 // ids
	complained int64        // when a failure was last logged, Unix microseconds
	full       chan struct{}
}

// record is an event in the journal: which arms it counts for was decided when it came, so that it
// is the same when it is replayed, whatever arms there are then.
//
//	byte 0   format: 1
//	byte 1   flags: for the arm of the item, of the segment, of the user; has an id
//	8 bytes  when it happened, 8 bytes when it came, Unix microseconds; 8 bytes its reward
//	then     the keys of those arms and of the id, 16 bytes each
//
// Or it says that what events before it have taught is forgotten, of all arms where there are no keys:
//
//	byte 0   format: 2
//	byte 1   flags: of the arm of the item, of the segment, of the user
//	8 bytes  when it came
//	then     the keys of those arms
type record struct {
	forget   bool // the second kind
	at, came int64
	reward   float64
	arms     [levels]arms.Key // by level; the zero Key where it counts for none
	id       arms.Key         // zero for none
}

const (
	recordEvent  = 1
	recordForget = 2
	eventHead    = 26
	forgetHead   = 10
	flagID       = 1 << levels
)

func (r *record) append(dst []byte) []byte {
	at := len(dst)
	le := binary.LittleEndian
	if r.forget {
		dst = append(dst, recordForget, 0)
		dst = le.AppendUint64(dst, uint64(r.came))
	} else {
		dst = append(dst, recordEvent, 0)
		dst = le.AppendUint64(dst, uint64(r.at))
		dst = le.AppendUint64(dst, uint64(r.came))
		dst = le.AppendUint64(dst, math.Float64bits(r.reward))
	}
	for level, k := range r.arms {
		if k != (arms.Key{}) {
			dst[at+1] |= 1 << level
			dst = appendKey(dst, k)
		}
	}
	if r.id != (arms.Key{}) {
		dst[at+1] |= flagID
		dst = appendKey(dst, r.id)
	}
	return dst
}

func appendKey(dst []byte, k arms.Key) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, k.Lo), k.Hi)
}

func readKey(b []byte) arms.Key {
	return arms.Key{Lo: binary.LittleEndian.Uint64(b), Hi: binary.LittleEndian.Uint64(b[8:])}
}

func (r *record) read(b []byte) error {
	le := binary.LittleEndian
	var flags byte
	switch {
	case len(b) >= eventHead && b[0] == recordEvent:
		flags = b[1]
		r.at, r.came, r.reward = int64(le.Uint64(b[2:])), int64(le.Uint64(b[10:])), math.Float64frombits(le.Uint64(b[18:]))
		b = b[eventHead:]
	case len(b) >= forgetHead && b[0] == recordForget && b[1]&flagID == 0:
		flags, r.forget = b[1], true
		r.came = int64(le.Uint64(b[2:]))
		b = b[forgetHead:]
	default:
		return errors.New("a record of the journal of events is of a format that this weir does not know")
	}
	key := func(flag byte) (k arms.Key) {
		if flags&flag != 0 && len(b) >= 16 {
			k = readKey(b)
			b = b[16:]
			flags &^= flag
		}
		return k
	}
	for level := range r.arms {
		r.arms[level] = key(1 << level)
	}
	r.id = key(flagID)
	if flags != 0 || len(b) != 0 || !(r.reward >= 0 && r.reward <= 1) {
		return errors.New("a record of the journal of events is malformed")
	}
	return nil
}

// Errors of accept.
var (
	errNotSaved = errors.New("events cannot be saved at the moment, so none of this request counts")
	errTooMany  = errors.New("there is no room for more arms that events teach of (--bandit-max-learned)")
	errIDs      = errors.New("there is no room for more ids of events (--bandit-max-event-ids)")
	errBusy     = errors.New("busy")
)

// accept takes in events, all of them or none. Those whose id was seen within a day do not count
// again. With wait false it returns errBusy rather than wait for other events to be saved.
func (b *Bandit) accept(list []event, segments []string, wait bool, stripe int) (duplicates int, err error) {
	e := &b.events
	if wait {
		e.Lock()
	} else if !e.TryLock() {
		return 0, errBusy
	}
	defer e.Unlock()
	if b.model.Load() == nil {
		return 0, errLoading
	}
	now := time.Now().UnixMicro()
	e.ids.turn(now)
	e.batch.Reset()
	e.records = e.records[:0]
	kept := false
	defer func() {
		if !kept { // what was noted to find repetitions within the request
			for _, r := range e.records {
				if r.id != (arms.Key{}) {
					e.ids.remove(r.id)
				}
			}
		}
		e.remembered.Store(int64(e.ids.len()))
	}()
	var fresh [levels]int
	for i := range list {
		segment := list[i].segment
		if segment == nil && segments != nil && segments[i] != "" {
			segment = []byte(segments[i])
		}
		r := b.resolve(&list[i], segment, now)
		if r.id != (arms.Key{}) {
			if e.ids.has(r.id) {
				duplicates++
				continue
			}
			if e.ids.len() >= e.ids.limit {
				return 0, errIDs
			}
			e.ids.add(r.id)
		}
		for level, k := range r.arms {
			if k != (arms.Key{}) && !b.learned[level].Has(k) {
				fresh[level]++
			}
		}
		e.records = append(e.records, r)
		e.buffer = r.append(e.buffer[:0])
		e.batch.Add(e.buffer)
	}
	for level, n := range fresh {
		if n > 0 && !b.hasRoom(level, n) {
			return 0, errTooMany
		}
	}
	if err := b.save(now, stripe); err != nil {
		return 0, err
	}
	kept = true
	for i := range e.records {
		if err := b.apply(&e.records[i]); err != nil {
			panic("BUG: an event that was found to have room has none: " + err.Error())
		}
	}
	b.stats.duplicates.Add(stripe, uint64(duplicates))
	for i := range e.records {
		if late := now - e.records[i].at; late > 0 { // else it does not say when it happened
			b.stats.lag.Observe(stripe, time.Duration(late)*time.Microsecond, 1)
		}
	}
	return duplicates, nil
}

// save writes the batch to the journal.
func (b *Bandit) save(now int64, stripe int) error {
	e := &b.events
	if err := e.journal.Append(&e.batch); err != nil {
		b.stats.unsaved.Add(stripe, 1)
		if now-e.complained >= int64(time.Second/time.Microsecond) {
			e.complained = now
			b.log.Error("events could not be saved", "error", err)
		}
		return errNotSaved
	}
	if b.long() {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
	return nil
}

// hasRoom reports whether the arms that the batch makes find room, at most n of a level. Where that is not so at first it takes back that of
// arms that were forgotten.
func (b *Bandit) hasRoom(level, n int) bool {
	l := b.learned[level]
	return n <= l.Room() || b.events.newArms(b, level) <= l.Room() || l.Compact() > 0 && b.events.newArms(b, level) <= l.Room()
}

// newArms returns how many arms of a level the batch makes, where several events are of the same one.
func (e *events) newArms(b *Bandit, level int) int {
	arm := make(map[arms.Key]struct{})
	for i := range e.records {
		if k := e.records[i].arms[level]; k != (arms.Key{}) && !b.learned[level].Has(k) {
			arm[k] = struct{}{}
		}
	}
	return len(arm)
}

// resolve decides which arms an event counts for: those of its user, of the user's segment and of its
// item that there are, and those that Config.Learn makes.
func (b *Bandit) resolve(ev *event, segment []byte, now int64) record {
	r := record{at: now, came: now, reward: ev.reward}
	if ev.at != 0 {
		r.at = min(ev.at, now) // the future does not weigh more
	}
	if ev.id != nil {
		r.id = arms.KeyOf(ev.id)
	}
	item := arms.KeyOf(ev.item)
	r.arms[arms.Item] = item
	m := b.model.Load()
	count := func(level arms.Level, scope arms.Scope) {
		k := scope.Key(item)
		have := b.cfg.Learn >= level || b.learned[level].Teaches(k)
		if !have && m.file != nil {
			_, _, have = m.file.Find(k)
		}
		if have {
			r.arms[level] = k
		}
	}
	var scope *arms.Scope
	if ev.user != nil {
		user := arms.KeyOf(ev.user)
		count(arms.Pair, arms.UserScope(user))
		if segment == nil && m.file != nil {
			if known, ok := m.file.Segment(user); ok {
				scope = &known.Scope
			}
		}
	}
	if segment != nil {
		own := arms.SegmentScope(arms.KeyOf(segment))
		scope = &own
	}
	if scope != nil {
		count(arms.Segmented, *scope)
	}
	runtime.KeepAlive(m.file) // it stays mapped until here
	return r
}

// apply adds an event to the sums of its arms.
func (b *Bandit) apply(r *record) error {
	for level, k := range r.arms {
		if k == (arms.Key{}) {
			continue
		}
		if err := b.learned[level].Add(k, r.reward, r.at); err != nil {
			return err
		}
	}
	return nil
}

// openEvents opens the journal and takes up what it knows.
func (b *Bandit) openEvents(dir string, env server.Env) error {
	e := &b.events
	e.ids = newEventIDs(b.cfg.MaxEventIDs)
	e.full = make(chan struct{}, 1)
	start, replayed := time.Now(), 0
	var err error
	e.journal, err = journal.Open(dir, journal.Options{
		Sync: b.cfg.Sync, Log: env.Log, Metrics: env.Metrics, Name: "bandit", Faults: b.cfg.faults,
	}, b.readCheckpoint, func(bytes []byte) error {
		var r record
		if err := r.read(bytes); err != nil {
			return err
		}
		replayed++
		if r.forget {
			b.unlearn(&r)
			return nil
		}
		e.ids.turn(r.came)
		if r.id != (arms.Key{}) {
			e.ids.add(r.id)
		}
		if err := b.apply(&r); err != nil {
			return fmt.Errorf("%w: raise --bandit-max-learned above %d", err, b.cfg.MaxLearned)
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.remembered.Store(int64(e.ids.len()))
	if n := b.learnedArms(); n > 0 {
		b.log.Info("bandit remembers", "arms", n, "replayed", replayed, "ids", e.ids.len(), "took", time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// learnedArms returns how many arms events have taught of.
func (b *Bandit) learnedArms() int {
	n := 0
	for _, l := range b.learned {
		n += l.Len()
	}
	return n
}

// closeEvents writes what was learned as a whole, so that nothing has to be replayed, and closes the journal.
func (b *Bandit) closeEvents() error {
	j := b.events.journal
	if j.Err() == nil && j.Position() > j.Checkpointed() {
		if err := b.checkpoint(); err != nil {
			b.log.Warn("what the events have taught could not be written as a whole; nothing is lost, the next start reads their journal", "error", err)
		}
	}
	return j.Close()
}
