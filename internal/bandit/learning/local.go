package learning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/disk"
	"weir/internal/journal"
	"weir/internal/metrics"
)

// Options are how a Local keeps what it is taught.
type Options struct {
	HalfLife  time.Duration // after how long an event counts half as much; 0 is never
	Memory    int64         // bytes for arms and ids
	ClientIDs float64       // share of the ids' room that one client may have
	Sync      time.Duration // between syncs of the journal
	// Checkpoint is how many bytes of events are kept before what they have taught is written as a whole.
	Checkpoint int64
	// Erase is how often what was forgotten is taken out of the files; 0 is an hour.
	Erase time.Duration
	// Go runs a goroutine that may panic without ending the process, as server.Background does. Close ends
	// it.
	Go      func(name string, fn func(context.Context))
	Metrics *metrics.Registry
	Log     *slog.Logger
	Faults  disk.Faults // for tests
}

// queueLimit bounds the events that wait for the disk.
const queueLimit = 1 << 18

// Local keeps what events teach in memory and in a journal. One goroutine commits: it takes whatever
// batches have come meanwhile, writes them to the journal at once, adds them to the sums and answers them.
type Local struct {
	memory
	tasks
	o       Options
	journal *journal.Journal

	queue struct {
		sync.Mutex
		batches []Batch
		events  int
		closed  bool
	}
	wake chan struct{} // has room for one
	full chan struct{} // the journal is long; has room for one

	batch      journal.Batch // it and what follows are guarded by mu
	records    []record      // of the batch
	fresh      int           // arms that these make at most
	pending    []committed
	buffer     []byte
	complained int64 // when a failure was last logged, Unix microseconds

	unanswered []Batch // of the group that is being committed; of the goroutine that commits
}

// committed is a batch that is part of a group, or was refused.
type committed struct {
	Batch
	end        int // of its records
	duplicates int
	err        error
}

var _ Learner = (*Local)(nil)

// Open opens the journal in dir, and takes up what it knows.
func Open(dir string, o Options) (*Local, error) {
	o.Erase = cmp.Or(o.Erase, time.Hour)
	l := &Local{o: o, wake: make(chan struct{}, 1), full: make(chan struct{}, 1)}
	l.memory.init(o)
	start, replayed := time.Now(), 0
	now := start.UnixMicro()
	var err error
	l.journal, err = journal.Open(dir, journal.Options{
		Sync: o.Sync, Log: o.Log, Metrics: o.Metrics, Name: "bandit", Faults: o.Faults,
	}, func(r io.Reader) error { return l.readWhole(r, now) }, func(b []byte) error {
		replayed++
		return l.replay(b, now)
	})
	if err != nil {
		return nil, err
	}
	if l.names, err = openNames(dir, &l.learned, o.Faults, o.Log); err != nil {
		return nil, errors.Join(err, l.journal.Close())
	}
	if err := l.Err(); err != nil {
		o.Log.Error("bandit", "error", err)
	}
	l.remembered.Store(int64(l.ids.len()))
	if n := l.arms(); n > 0 {
		o.Log.Info("bandit remembers", "arms", n, "replayed", replayed, "ids", l.ids.len(), "took",
			time.Since(start))
	}
	l.register(o.Metrics, l.Durability())
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.start(o, "commits of events", func() { l.commits(ctx) })
	l.start(o, "checkpoints of events", func() { l.checkpoints(ctx) })
	return l, nil
}

// replay takes up a record of the journal. Times beyond now are of a clock that was ahead.
func (l *Local) replay(b []byte, now int64) error {
	var r record
	if err := r.read(b); err != nil {
		return err
	}
	r.At, r.came = min(r.At, now), min(r.came, now)
	if r.forget {
		l.unlearn(&r)
		return nil
	}
	l.ids.turn(r.came)
	if r.ID != (arms.Key{}) && !l.ids.has(r.ID) {
		if l.ids.room(0) != nil {
			l.overflow()
			return nil
		}
		l.ids.add(r.ID, 0)
	}
	for level, k := range r.Arms {
		if k == (arms.Key{}) {
			continue
		}
		if !l.learned[level].Has(k) && !l.hasRoomForOne() {
			l.overflow()
			continue
		}
		if err := l.learned[level].Add(k, r.Reward, r.At); err != nil {
			return err
		}
	}
	return nil
}

// Err implements Learner.
func (l *Local) Err() error {
	if l.journal.Err() != nil {
		return errors.New("events cannot be saved: a write to the disk failed; see the log, and restart " +
			"when the disk is sound")
	}
	if err := l.overfull.Load(); err != nil {
		return *err
	}
	if l.broken.Load() {
		return errBroken
	}
	return nil
}

// Durability implements Learner.
func (l *Local) Durability() string {
	return fmt.Sprintf("an accepted event survives the end of the process, kill -9 included; a power loss "+
		"takes those of the last %v "+
		"(--bandit-sync) and of the sync under way, see weir_sync_lag_seconds", l.journal.SyncInterval())
}

// SetSync changes how often the journal is synced.
func (l *Local) SetSync(every time.Duration) { l.journal.SetSync(every) }

// Lag implements Learner.
func (l *Local) Lag() time.Duration {
	_, age := l.journal.Lag()
	return age
}

// Learn implements Learner.
func (l *Local) Learn(b Batch) {
	q := &l.queue
	q.Lock()
	var err error
	switch {
	case q.closed:
		err = ErrNotSaved
	case q.events > 0 && q.events+len(b.Events) > queueLimit:
		err = ErrBusy
	default:
		q.batches = append(q.batches, b)
		q.events += len(b.Events)
	}
	q.Unlock()
	if err != nil {
		b.Done(0, err)
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// commits takes in batches until the context ends, and then what is left.
func (l *Local) commits(ctx context.Context) {
	defer l.refuseQueued()
	var group []Batch
	for ended := false; !ended; {
		select {
		case <-l.wake:
		case <-ctx.Done():
			ended = true
		}
		q := &l.queue
		q.Lock()
		group, q.batches = q.batches, group[:0]
		q.events, q.closed = 0, ended
		q.Unlock()
		l.unanswered = group
		l.commit(group)
		clear(group)
	}
}

// refuseQueued closes the queue and refuses what is left of it: nothing, unless a commit has panicked.
func (l *Local) refuseQueued() {
	q := &l.queue
	q.Lock()
	q.closed = true
	left := append(slices.Clone(l.unanswered), q.batches...)
	q.Unlock()
	for _, b := range left {
		b.Done(0, ErrNotSaved)
	}
}

// commit takes in a group of batches, in one write of the journal unless they are too much for one.
func (l *Local) commit(group []Batch) {
	// Fit into one write; so does each batch alone.
	const records = journal.MaxBatch / 2 / (eventHead + (Levels+1)*16)
	for len(group) > 0 {
		n, events := 0, 0
		for n < len(group) && (n == 0 || events+len(group[n].Events) <= records) {
			events += len(group[n].Events)
			n++
		}
		l.commitOnce(group[:n])
		group = group[n:]
	}
}

// commitOnce takes in batches that fit into one write, and answers them.
func (l *Local) commitOnce(group []Batch) {
	l.decide(group)
	for i := range l.pending {
		c := l.pending[i]
		l.pending[i] = committed{}
		l.unanswered = l.unanswered[1:]
		c.Done(c.duplicates, c.err)
	}
}

// decide fills l.pending with what becomes of the batches, once it is saved. No other goroutine uses that.
func (l *Local) decide(group []Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UnixMicro()
	l.ids.turn(now)
	for _, t := range l.learned {
		t.SetBack(now)
	}
	l.pending = l.pending[:0]
	written := 0 // of pending
	for _, b := range group {
		c := committed{Batch: b}
		if c.duplicates, c.err = l.admit(b, now); errors.Is(c.err, ErrArms) && len(l.records) > 0 {
			// It may be that batches before it make the same arms: they are written first.
			l.write(l.pending[written:], now)
			written = len(l.pending)
			c.duplicates, c.err = l.admit(b, now)
		}
		c.end = len(l.records)
		l.pending = append(l.pending, c)
	}
	l.write(l.pending[written:], now)
	l.remembered.Store(int64(l.ids.len()))
}

// admit appends the records of a batch, all or none.
func (l *Local) admit(b Batch, now int64) (duplicates int, err error) {
	if err := l.overfull.Load(); err != nil {
		return 0, *err
	}
	from, client := len(l.records), who(b.Client)
	defer func() {
		if err != nil {
			l.removeIDs(l.records[from:], client)
			l.records = l.records[:from]
		}
	}()
	fresh := 0
	for i := range b.Events {
		r := record{Event: b.Events[i], came: now}
		if r.At == 0 || r.At > now { // the future does not weigh more
			r.At = now
		}
		if r.ID != (arms.Key{}) {
			if l.ids.has(r.ID) {
				duplicates++
				continue
			}
			if err := l.ids.room(client); err != nil {
				return 0, err
			}
			l.ids.add(r.ID, client)
		}
		for level, k := range r.Arms {
			if k != (arms.Key{}) && !l.learned[level].Has(k) {
				fresh++
			}
		}
		l.records = append(l.records, r)
	}
	if fresh > 0 && !l.hasRoom(fresh) {
		return 0, ErrArms
	}
	return duplicates, nil
}

// removeIDs takes ids for not seen, of records that do not count after all.
func (l *Local) removeIDs(records []record, client uint64) {
	for i := range records {
		if id := records[i].ID; id != (arms.Key{}) {
			l.ids.remove(id, client)
		}
	}
}

// hasRoom reports whether the arms that the records make find room, fresh more at most than those before.
func (l *Local) hasRoom(fresh int) bool {
	if l.fresh += fresh; l.fresh <= l.room() {
		return true
	}
	if l.fresh = l.newArms(); l.fresh > l.room() {
		l.compact()
		l.fresh = l.newArms() // arms that were forgotten are new now
	}
	return l.fresh <= l.room()
}

// newArms returns how many arms the records make, where several events are of the same one.
func (l *Local) newArms() (n int) {
	for level, t := range l.learned {
		made := make(map[arms.Key]struct{})
		for i := range l.records {
			if k := l.records[i].Arms[level]; k != (arms.Key{}) && !t.Has(k) {
				made[k] = struct{}{}
			}
		}
		n += len(made)
	}
	return n
}

// write writes the records of batches to the journal and adds them to the sums.
func (l *Local) write(batches []committed, now int64) {
	l.batch.Reset()
	for i := range l.records {
		l.buffer = l.records[i].append(l.buffer[:0])
		l.batch.Add(l.buffer)
	}
	if err := l.save(now); err != nil {
		from := 0
		for i := range batches {
			c := &batches[i]
			l.removeIDs(l.records[from:c.end], who(c.Client))
			from = c.end
			c.duplicates, c.err = 0, cmp.Or(c.err, err)
		}
	} else {
		for i := range l.records {
			l.apply(&l.records[i], now)
		}
		l.names.flush()
	}
	l.records, l.fresh = l.records[:0], 0
}

// save writes the batch to the journal.
func (l *Local) save(now int64) error {
	if err := l.journal.Append(&l.batch); err != nil {
		l.stats.unsaved.Add(0, 1)
		if now-l.complained >= int64(time.Second/time.Microsecond) {
			l.complained = now
			l.o.Log.Error("events could not be saved", "error", err)
		}
		return ErrNotSaved
	}
	if l.long() {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
	return nil
}

// Forget implements Learner: in the journal first.
func (l *Local) Forget(f Forgetting) (n int, err error) {
	forgets := []record{{Event: Event{Arms: f.Arms}, forgetIDs: f.IDs}}
	if f.User != "" {
		if forgets, err = l.armsOf(f.User); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UnixMicro()
	forgets = slices.DeleteFunc(forgets, func(r record) bool { return !l.teaches(&r) })
	if len(forgets) == 0 {
		return 0, nil
	}
	if err := l.overfull.Load(); err != nil {
		return 0, *err
	}
	if l.broken.Load() {
		return 0, ErrNotSaved
	}
	for some := range slices.Chunk(forgets, journal.MaxBatch/64) {
		l.batch.Reset()
		for i := range some {
			some[i].came, some[i].forget = now, true
			l.buffer = some[i].append(l.buffer[:0])
			l.batch.Add(l.buffer)
		}
		if err := l.save(now); err != nil {
			return n, err
		}
		for i := range some {
			n += l.unlearn(&some[i])
		}
	}
	if !f.IDs {
		l.names.forgot()
	}
	l.remembered.Store(int64(l.ids.len()))
	if !f.IDs {
		l.stats.forgotten.Add(0, uint64(n))
	}
	return n, nil
}

// Close implements Learner. It writes what was learned as a whole, so that nothing has to be replayed.
func (l *Local) Close() error {
	l.end()
	if j := l.journal; l.Err() == nil && j.Position() > j.Checkpointed() {
		if err := l.checkpoint(); err != nil {
			l.o.Log.Warn("what the events have taught could not be written as a whole; nothing is lost, "+
				"the next start reads their journal", "error", err)
		}
	}
	return errors.Join(l.names.close(), l.journal.Close())
}
