package learning

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/cluster"
	"weir/internal/metrics"
)

// Shared keeps what events teach where several nodes learn the same: in a stream of a cluster's engine. All
// nodes append to it, and each takes what it knows from there alone, its own events included. So what a node
// knows is the same as what any other knows that has come as far, to the last bit: the order of the stream
// decides which of two events with one id counts, which comes before something is forgotten, and in which
// order sums are added up; and its entries say what the time was. A node keeps nothing: it begins with a
// checkpoint that some node has put into the engine, and reads on from there.
//
// There is one stream and not several, since every node has to take in all events: that is what bounds their
// rate, at a tenth of what one shard takes in. Whole batches stay together, and sums of events that fade
// have an order.
//
// A batch is accepted when as many replicas have it as the cluster's client asks for and this node has taken
// it in; ErrUnsure means that it may count, and sent again with the same ids it counts once.
type Shared struct {
	*memory
	tasks
	o    Options
	c    *cluster.Client
	slot uint16
	keys struct{ stream, tail, header, lease string }

	queue struct {
		sync.Mutex
		batches []Batch
		events  int // that wait or are under way
		closed  bool
		flights map[string]*flight // by their nonce
		ids     int                // that these bring
		arms    int
	}
	wake  chan struct{} // has room for one
	sends chan struct{} // a place for each entry on its way to the engine

	// Guarded by mu: how far this node is.
	at      place
	records []record // of an entry

	ready   chan error // receives once: nil when all that there was is taken in
	failing atomic.Pointer[error]
	lost    atomic.Pointer[error]
	behind  atomic.Int64 // since when, Unix microseconds; 0 where nothing is missing
	since   atomic.Int64 // bytes of entries since the last checkpoint
	erase   atomic.Int32 // checkpoints until nothing that was forgotten is in the engine

	entries, anew, published, publishErrors, failed *metrics.Counter
}

// flight is an entry that is appended.
type flight struct {
	batches           []Batch // none of a Forget
	results           []int   // duplicates by batch, or what was forgotten; nil until it is taken in
	events, ids, arms int
	acked             time.Time
	done              func(results []int, err error)
}

// Entries and events that are on their way at a time. Few and large entries are cheap for the engine.
const (
	maxSends       = 2
	maxEntryEvents = 1024
)

// patience is how long an accepted entry may take to be read.
const patience = 5 * time.Second

// ErrUnsure is of a batch that may count.
var ErrUnsure = errors.New("the cluster has not confirmed these events, so they may count or not: send " +
	"them again, with the same ids, and they count once")

var _ Learner = (*Shared)(nil)

// OpenShared takes up what the engine holds. dir is for the names of arms, which begin anew with each start.
func OpenShared(ctx context.Context, dir string, c *cluster.Client, o Options) (*Shared, error) {
	if o.Erase == 0 {
		o.Erase = time.Hour
	}
	s := newShared(c, o, new(memory))
	s.init(o)
	s.behind.Store(time.Now().UnixMicro())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(dir, "names")); err != nil {
		return nil, err
	}
	var err error
	if s.names, err = openNames(dir, &s.learned, o.Faults, o.Log); err != nil {
		return nil, err
	}
	if err := c.Load(ctx, library); err != nil {
		return nil, errors.Join(fmt.Errorf("events in the cluster: %w", err), s.names.close())
	}
	s.registerShared(o.Metrics)
	running, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.start(o, "reading of events", func() { s.follow(running) })
	s.start(o, "sending of events", func() { s.send(running) })
	s.start(o, "checkpoints of events", func() { s.publishes(running) })
	select {
	case err = <-s.ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("events in the cluster: %w", err), s.Close())
	}
	return s, nil
}

// newShared returns one that knows what is in a memory, and does nothing yet.
func newShared(c *cluster.Client, o Options, m *memory) *Shared {
	s := &Shared{memory: m, o: o, c: c, at: beginning, wake: make(chan struct{}, 1),
		sends: make(chan struct{}, maxSends), ready: make(chan error, 1)}
	s.keys.stream, s.keys.tail = c.Key("{events}:stream"), c.Key("{events}:tail")
	s.keys.header, s.keys.lease = c.Key("{events}:checkpoint"), c.Key("{events}:lease")
	s.slot = cluster.Slot(s.keys.stream)
	s.queue.flights = make(map[string]*flight)
	return s
}

// hard returns why nothing is taken before a restart.
func (s *Shared) hard() error {
	if err := s.overfull.Load(); err != nil {
		return *err
	}
	if err := s.lost.Load(); err != nil {
		return *err
	}
	if s.broken.Load() {
		return errBroken
	}
	return nil
}

// Err implements Learner. It says as well that the engine cannot be read at the moment.
func (s *Shared) Err() error {
	if err := s.hard(); err != nil {
		return err
	}
	if err := s.failing.Load(); err != nil {
		return fmt.Errorf("events of the cluster cannot be read: %w", *err)
	}
	return nil
}

// Durability implements Learner.
func (s *Shared) Durability() string {
	return fmt.Sprintf("an accepted event is with a primary of the cluster and %d of its replicas "+
		"(--cluster-replicas), and survives the end of any node; what survives that of the engine's servers "+
		"is for their settings to say", s.c.Replicas())
}

// Lag implements Learner.
func (s *Shared) Lag() time.Duration { return 0 }

// State implements Learner.
func (s *Shared) State() State {
	s.mu.Lock()
	state := s.copyAt(time.Now().UnixMicro())
	s.mu.Unlock()
	state.clean()
	return state
}

// Learn implements Learner.
func (s *Shared) Learn(b Batch) {
	q := &s.queue
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
	s.wakeUp()
}

func (s *Shared) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send appends batches to the stream until Close, as many in an entry as have come meanwhile.
func (s *Shared) send(ctx context.Context) {
	defer func() {
		q := &s.queue
		q.Lock()
		q.closed = true
		left := q.batches
		q.batches = nil
		q.Unlock()
		for _, b := range left {
			b.Done(0, ErrNotSaved)
		}
	}()
	for {
		select {
		case s.sends <- struct{}{}:
		case <-ctx.Done():
			return
		}
		group, closed := s.take()
		for len(group) == 0 && !closed {
			select {
			case <-s.wake:
			case <-ctx.Done():
				return
			}
			group, closed = s.take()
		}
		if len(group) == 0 {
			return
		}
		s.sendGroup(group)
	}
}

// take returns batches for one entry.
func (s *Shared) take() (group []Batch, closed bool) {
	q := &s.queue
	q.Lock()
	defer q.Unlock()
	n, events := 0, 0
	for n < len(q.batches) && (n == 0 || events+len(q.batches[n].Events) <= maxEntryEvents) {
		events += len(q.batches[n].Events)
		n++
	}
	group = slices.Clone(q.batches[:n])
	q.batches = slices.Delete(q.batches, 0, n)
	return group, q.closed
}

// sendGroup appends those batches for which there is room as an entry, and answers the others.
func (s *Shared) sendGroup(group []Batch) {
	data := []byte{entryBatches}
	f := &flight{done: func([]int, error) {}}
	var records []record
	for _, b := range group {
		client := who(b.Client)
		ids, arms, err := s.admit(b, client, f)
		if err != nil {
			s.finished(len(b.Events), 0, 0)
			b.Done(0, err)
			continue
		}
		records = records[:0]
		for i := range b.Events {
			records = append(records, record{Event: b.Events[i]})
		}
		data = appendBatch(data, client, records)
		f.batches = append(f.batches, b)
		f.events, f.ids, f.arms = f.events+len(b.Events), f.ids+ids, f.arms+arms
	}
	if len(f.batches) == 0 {
		<-s.sends
		return
	}
	f.done = func(results []int, err error) {
		for i, b := range f.batches {
			if err != nil {
				b.Done(0, err)
			} else {
				b.Done(results[i], nil)
			}
		}
	}
	s.append(context.Background(), f, data, func() { <-s.sends })
}

// admit reports how many ids and arms of a batch are new, or why there is no room for them. Other nodes
// admit at the same time, so a fifth of the room is left to what is under way.
func (s *Shared) admit(b Batch, client uint64, f *flight) (ids, fresh int, err error) {
	if err := s.hard(); err != nil {
		return 0, 0, err
	}
	q := &s.queue
	q.Lock()
	underWay, making := q.ids+f.ids, q.arms+f.arms
	q.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	made := make(map[arms.Key]struct{})
	for i := range b.Events {
		e := &b.Events[i]
		if e.ID != (arms.Key{}) {
			if s.ids.has(e.ID) {
				continue
			}
			ids++
		}
		for level, k := range e.Arms {
			if k != (arms.Key{}) && !s.learned[level].Has(k) {
				made[k] = struct{}{} // keys of levels differ
			}
		}
	}
	fresh = len(made)
	switch limit := s.ids.limit - s.ids.limit/5; {
	case ids > 0 && s.ids.len()+underWay+ids > limit:
		return 0, 0, ErrIDs
	case ids > 0 && client != 0 && s.ids.clients[0][client]+s.ids.clients[1][client]+ids > s.ids.perClient:
		return 0, 0, ErrClientID
	}
	if margin := s.maxArms / 5; fresh > 0 && s.room()-margin < making+fresh {
		s.compact()
		if s.room()-margin < making+fresh {
			return 0, 0, ErrArms
		}
	}
	return ids, fresh, nil
}

// append appends an entry. sent is called once the engine has answered, f.done once its answer is known.
func (s *Shared) append(ctx context.Context, f *flight, data []byte, sent func()) {
	nonce := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	q := &s.queue
	q.Lock()
	q.flights[nonce] = f
	q.ids, q.arms = q.ids+f.ids, q.arms+f.arms
	q.Unlock()
	args := library.Call("events_add", []string{s.keys.stream, s.keys.tail}, nonce, string(data))
	s.c.Submit(ctx, cluster.Command{Slot: s.slot, Durable: true, Args: args},
		func(_ cluster.Reply, err error) {
			sent()
			s.acked(nonce, err)
		})
}

// acked notes what the engine said of an entry.
func (s *Shared) acked(nonce string, err error) {
	q := &s.queue
	q.Lock()
	f := q.flights[nonce]
	if f == nil {
		q.Unlock()
		return
	}
	f.acked = time.Now()
	results := f.results
	if err != nil || results != nil {
		delete(q.flights, nonce)
	}
	q.Unlock()
	if s.broken.Load() {
		defer s.sweep(0)
	}
	switch said := (cluster.Error)(""); {
	case err == nil:
	case errors.Is(err, cluster.ErrUnavailable), errors.As(err, &said):
		s.failed.Add(0, 1)
		err = fmt.Errorf("%w (%w)", ErrNotSaved, err)
	default:
		s.failed.Add(0, 1)
		err = ErrUnsure
	}
	if err != nil || results != nil {
		s.finish(f, results, err)
	}
}

// taken notes that an entry was taken in. Whoever sent it from here is answered.
func (s *Shared) taken(nonce string, results []int) {
	q := &s.queue
	q.Lock()
	f := q.flights[nonce]
	if f == nil {
		q.Unlock()
		return
	}
	f.results = results
	acked := !f.acked.IsZero()
	if acked {
		delete(q.flights, nonce)
	}
	q.Unlock()
	if acked {
		s.finish(f, results, nil)
	}
}

// sweep answers entries that are accepted and have not been read for long, as it is when no replica can be
// reached. Their events count; of duplicates those are known that came before.
func (s *Shared) sweep(patience time.Duration) {
	q := &s.queue
	q.Lock()
	var late []*flight
	for nonce, f := range q.flights {
		if !f.acked.IsZero() && time.Since(f.acked) > patience {
			delete(q.flights, nonce)
			late = append(late, f)
		}
	}
	q.Unlock()
	for _, f := range late {
		if len(f.batches) == 0 {
			s.finish(f, nil, errors.New("it is saved, and this node has yet to come as far"))
			continue
		}
		results := make([]int, len(f.batches))
		s.mu.Lock()
		for i, b := range f.batches {
			for j := range b.Events {
				if id := b.Events[j].ID; id != (arms.Key{}) && s.ids.has(id) {
					results[i]++
				}
			}
		}
		s.mu.Unlock()
		s.finish(f, results, nil)
	}
}

func (s *Shared) finish(f *flight, results []int, err error) {
	s.finished(f.events, f.ids, f.arms)
	f.done(results, err)
}

// finished gives room back.
func (s *Shared) finished(events, ids, arms int) {
	q := &s.queue
	q.Lock()
	q.events, q.ids, q.arms = q.events-events, q.ids-ids, q.arms-arms
	q.Unlock()
}

// Forget implements Learner. It is forgotten on all nodes, as far as they have come.
func (s *Shared) Forget(f Forgetting) (int, error) {
	forgets := []record{{Event: Event{Arms: f.Arms}, forget: true, forgetIDs: f.IDs}}
	if f.User != "" {
		// The arms that any event has made which was accepted before are known here once an entry that comes
		// later is.
		if _, err := s.forget(nil); err != nil {
			return 0, err
		}
		var err error
		if forgets, err = s.armsOf(f.User); err != nil || len(forgets) == 0 {
			return 0, err
		}
		for i := range forgets {
			forgets[i].forget = true
		}
	}
	n, err := s.forget(forgets)
	if !f.IDs {
		s.stats.forgotten.Add(0, uint64(n))
	}
	return n, err
}

func (s *Shared) forget(forgets []record) (n int, err error) {
	if err := s.hard(); err != nil {
		return 0, err
	}
	s.queue.Lock()
	closed := s.queue.closed
	s.queue.Unlock()
	if closed {
		return 0, ErrNotSaved
	}
	done := make(chan struct{})
	f := &flight{done: func(results []int, e error) {
		if err = e; e == nil {
			n = results[0]
		}
		close(done)
	}}
	s.append(context.Background(), f, appendBatch([]byte{entryBatches}, 0, forgets), func() {})
	<-done
	return n, err
}

// Close implements Learner.
func (s *Shared) Close() error {
	q := &s.queue
	q.Lock()
	q.closed = true
	q.Unlock()
	s.wakeUp()
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline) && s.hard() == nil; {
		q.Lock()
		left := len(q.flights) + len(q.batches)
		q.Unlock()
		if left == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.end()
	s.sweep(0)
	return s.names.close()
}

func (s *Shared) registerShared(r *metrics.Registry) {
	s.register(r, s.Durability())
	s.entries = r.Counter("weir_bandit_stream_entries_total", "Entries of the stream of events taken in.")
	s.anew = r.Counter("weir_bandit_stream_restarts_total",
		"Times a running node began anew with a checkpoint, as the stream was not what it had read before.")
	s.published = r.Counter("weir_bandit_stream_checkpoints_total",
		"Checkpoints that this node has put into the cluster.")
	s.publishErrors = r.Counter("weir_bandit_stream_checkpoint_errors_total",
		"Checkpoints that could not be put into the cluster.")
	s.failed = r.Counter("weir_bandit_stream_refused_total",
		"Entries that the cluster did not accept, or did not confirm.")
	r.Gauge("weir_bandit_stream_lag_seconds",
		"For how long this node has not known all that is in the stream of events; 0 if it does.",
		func() float64 {
			if since := s.behind.Load(); since > 0 {
				return time.Since(time.UnixMicro(since)).Seconds()
			}
			return 0
		})
	r.Gauge("weir_bandit_stream_since_checkpoint_bytes", "Bytes in the stream of events since a checkpoint.",
		func() float64 { return float64(s.since.Load()) })
	r.Gauge("weir_bandit_stream_waiting_events", "Events that wait for the cluster.", func() float64 {
		s.queue.Lock()
		defer s.queue.Unlock()
		return float64(s.queue.events)
	})
}

// micros returns the time in an entry's id, in Unix microseconds.
func micros(id string) (int64, error) {
	ms, _, _ := strings.Cut(id, "-")
	var n int64
	_, err := fmt.Sscan(ms, &n)
	return n * 1000, err
}
