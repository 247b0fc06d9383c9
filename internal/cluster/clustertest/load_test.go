package clustertest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/bandit/learning"
	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/positions"
	"weir/internal/progress"
)

const (
	users     = 2000
	advancers = 64
	pace      = 5 * time.Millisecond // of each, so that the machine is the engine's
	// settled is how many items are given before a fault and after it.
	settled = 3000
)

// TestFaultsGiveNothingTwice makes each fault while two nodes advance the same users. An ordinary run leaves
// out those that are slow, and the controls that reveal nothing.
func TestFaultsGiveNothingTwice(t *testing.T) {
	t.Parallel()
	times := clustertest.Rounds()
	for _, s := range clustertest.Servers() {
		for _, odd := range []bool{false, true} { // a half each on a cluster of its own
			t.Run(fmt.Sprintf("%s/%t", s, odd), func(t *testing.T) {
				t.Parallel()
				c := clustertest.Start(t,
					clustertest.Options{Server: s, Replicas: 1, Proxies: true, Own: true})
				for i, f := range clustertest.Faults {
					if i%2 == 1 == odd && !(times == 0 && f.Slow) {
						give(t, c, f, times)
					}
				}
			})
		}
	}
}

// give makes a fault so many times, once if 0, with WAIT and, as a control, without.
func give(t *testing.T, c *clustertest.Cluster, f clustertest.Fault, times int) {
	for _, replicas := range []int{1, 0} {
		control := replicas == 0
		if times == 0 && control && !f.Revealing {
			continue
		}
		t.Run(fmt.Sprintf("%s/Wait%d", f.Name, replicas), func(t *testing.T) {
			var sum outcome
			rounds := max(1, times)
			if control {
				rounds = 1
			}
			for i := range rounds {
				sum.add(advanceUnder(t, c, f, replicas, i))
			}
			t.Logf("%s, %s, WAIT %d, %d times: %d items, %d twice, %d skipped, %d refused; "+
				"%d indices, %d twice; %d events, %d lost, %d twice", c.Options.Server, f.Name, replicas,
				rounds, sum.given, sum.twice, sum.skipped, sum.refused, sum.indices, sum.indicesTwice,
				sum.events, sum.eventsLost, sum.eventsTwice)
			switch {
			case (control && f.Revealing || !control && f.Breaking) && sum.twice == 0:
				t.Errorf("void: nothing was given twice where it must be, so the fault was none")
			case !control && !f.Breaking && sum.faulty() > 0:
				t.Errorf("something came twice or was lost")
			}
		})
	}
}

// outcome is what became of items and advances, of indices and of events.
type outcome struct {
	given, twice, skipped, refused  int64
	indices, indicesTwice           int64
	events, eventsLost, eventsTwice int64 // of one node, the worst
}

func (o *outcome) add(b outcome) {
	o.given += b.given
	o.twice += b.twice
	o.skipped += b.skipped
	o.refused += b.refused
	o.indices += b.indices
	o.indicesTwice += b.indicesTwice
	o.events += b.events
	o.eventsLost += b.eventsLost
	o.eventsTwice += b.eventsTwice
}

// faulty is how much there is of what must not be.
func (o outcome) faulty() int64 { return o.twice + o.indicesTwice + o.eventsLost + o.eventsTwice }

// refusal says whether an error is one that clients see as 503.
func refusal(err error) bool {
	return errors.Is(err, cluster.ErrUnavailable) || errors.Is(err, cluster.ErrUnreplicated) ||
		errors.Is(err, cluster.ErrUnknown)
}

// steps are the indices that were given. It is for any number of goroutines.
type steps struct {
	mu           sync.Mutex
	seen         map[uint64]bool
	taken, twice int64
}

func newSteps() *steps { return &steps{seen: make(map[uint64]bool)} }

// take moves an index by one, unless another did.
func (s *steps) take(ctx context.Context, index progress.Index) error {
	at, err := index.Get(ctx)
	if err != nil {
		return err
	}
	if ok, err := index.CompareAndSwap(ctx, at, at+1); !ok {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken++; s.seen[at+1] {
		s.twice++
	}
	s.seen[at+1] = true
	return nil
}

// advanceUnder has two nodes advance the same users, makes a fault, has both take up new lists meanwhile, and
// goes on.
func advanceUnder(t *testing.T, c *clustertest.Cluster, f clustertest.Fault, replicas, round int) (
	o outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var nodes [2]*weir
	for i := range nodes {
		nodes[i] = openNode(ctx, t, cluster.Options{Addrs: c.Addrs(), Replicas: replicas,
			Prefix: clustertest.Prefix(t) + "-" + strconv.Itoa(round)})
		defer nodes[i].close(t)
	}
	l := newLedger(2 * users)
	under, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for i := range advancers {
		all.Go(func() {
			for under.Err() == nil {
				w, user := nodes[i%2], rand.IntN(users)
				in, move, err := w.do(ctx, user, progress.Advance(1+rand.IntN(5)))
				var moved *positions.MovedError
				switch {
				case err == nil:
					l.give(in, move.From, move.To)
					sleep(under, pace)
					continue
				case errors.Is(err, progress.ErrSuperseded):
					continue // the newer lists are a moment away
				case errors.As(err, &moved):
					l.counted.Add(int64(moved.By))
				case !errors.Is(err, cluster.ErrUnavailable):
					t.Errorf("an advance: %v", err)
					return
				}
				l.refused.Add(1)
				sleep(under, 5*time.Millisecond)
			}
		})
	}
	indices := newSteps()
	for _, w := range nodes {
		for range 4 {
			all.Go(func() {
				for under.Err() == nil {
					if err := indices.take(ctx, w.index); err != nil && !refusal(err) {
						t.Errorf("an index: %v", err)
						return
					} else if err != nil {
						sleep(under, 5*time.Millisecond)
					}
				}
			})
		}
	}
	learners := []*learning.Shared{nodes[0].learner, nodes[1].learner}
	var told events
	for range reporters {
		all.Go(func() { told.report(under, t, learners) })
	}
	give := func(n int64) {
		t.Helper()
		for goal := l.given.Load() + n; l.given.Load() < goal; sleep(ctx, time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatalf("%d of %d items were given: %v", l.given.Load(), goal, ctx.Err())
			}
		}
	}
	give(settled)
	published := make(chan error, 1)
	go func() {
		sleep(ctx, 300*time.Millisecond)
		published <- publish(ctx, nodes[:], 2)
	}()
	// The shard of the events comes first.
	shard := int(cluster.Slot("{events}"))*c.Options.Shards>>14 + round
	if err := f.Inject(ctx, c, c.Primary(ctx, shard%c.Options.Shards)); err != nil {
		clustertest.Need(t, err)
	}
	if err := c.AwaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	give(settled)
	stop()
	all.Wait()
	for user := range users {
		in, move, err := nodes[user%2].do(ctx, user, progress.Get())
		for errors.Is(err, cluster.ErrUnavailable) && ctx.Err() == nil {
			in, move, err = nodes[user%2].do(ctx, user, progress.Get())
		}
		if err != nil {
			t.Fatal(err)
		}
		o.skipped += int64(l.settle(in, move.From))
		if in != user { // the lists before are left as they were
			o.skipped += int64(l.settle(user, int(l.lists[user].end.Load())))
		}
	}
	late := openLearner(ctx, t, nodes[0].client)
	patience := 20 * time.Second
	if replicas == 0 {
		patience = 0 // what a control has lost never comes
	}
	for _, learner := range append(learners, late) {
		lost, twice := told.settle(ctx, learner, patience)
		o.eventsLost, o.eventsTwice = max(o.eventsLost, lost), max(o.eventsTwice, twice)
	}
	if err := late.Close(); err != nil {
		t.Error(err)
	}
	o.events = int64(len(told.accepted))
	o.indices, o.indicesTwice = indices.taken, indices.twice
	o.given, o.twice, o.refused = l.given.Load(), l.twice.Load(), l.refused.Load()
	if counted := l.counted.Load(); replicas > 0 && o.skipped > counted {
		t.Errorf("%d items were skipped, and %d counted as such", o.skipped, counted)
	}
	return o
}

// weir is the parts of a node that keep something in the engine.
type weir struct {
	client    *cluster.Client
	positions *positions.Positions
	index     progress.Index
	learner   *learning.Shared
	now       atomic.Pointer[served]
}

// served is what a node serves from.
type served struct {
	lists lists
	progress.Generation
}

func openNode(ctx context.Context, t *testing.T, o cluster.Options) *weir {
	t.Helper()
	client, err := cluster.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	w := &weir{client: client, learner: openLearner(ctx, t, client)}
	if w.positions, err = positions.Open(ctx, client, positions.Options{}); err != nil {
		t.Fatal(err)
	}
	if w.index, err = positions.OpenIndex(ctx, client, "fibonacci"); err != nil {
		t.Fatal(err)
	}
	if err := publish(ctx, []*weir{w}, 1); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *weir) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(w.learner.Close(), w.client.Close()); err != nil {
		t.Error(err)
	}
}

// publish has all nodes take up lists before one serves them.
func publish(ctx context.Context, nodes []*weir, of lists) error {
	var next []*served
	for _, w := range nodes {
		g, err := w.positions.Prepare(of)
		for err != nil && ctx.Err() == nil {
			sleep(ctx, 10*time.Millisecond)
			g, err = w.positions.Prepare(of)
		}
		if err != nil {
			return err
		}
		next = append(next, &served{of, g})
	}
	for i, w := range nodes {
		w.now.Store(next[i])
		sleep(ctx, 20*time.Millisecond)
	}
	return nil
}

// do does an operation, and says which list of the ledger it was in.
func (w *weir) do(ctx context.Context, user int, op progress.Op) (in int, move progress.Move, err error) {
	at := w.now.Load()
	u, _ := at.lists.User(uint64(user))
	list, _ := at.lists.List(uint64(user))
	done := make(chan struct{})
	at.Submit(ctx, u, list, op, func(m progress.Move, e error) {
		move, err = m, e
		close(done)
	})
	<-done
	return int(list.Tag) - 1, move, err
}

// lists are two thousand, by their version. Half of the users are spread numbers, half are names. In the
// second version a half of each has other lists than in the first.
type lists uint64

const apart = 100 // between numbers

func (l lists) Version() uint64                     { return uint64(l) }
func (l lists) Slots() uint64                       { return users * apart }
func (l lists) Dense() bool                         { return true }
func (l lists) Rank(u progress.User) (uint64, bool) { return u.Rank, true }

func (l lists) User(rank uint64) (progress.User, bool) {
	if rank%2 == 0 {
		return progress.User{Rank: rank, Number: rank * apart}, true
	}
	return progress.User{Rank: rank, Name: fmt.Appendf(nil, "user-%d", rank)}, true
}

func (l lists) List(rank uint64) (progress.List, bool) {
	tag := 1 + rank
	if rank%4 > 1 {
		tag += users * (uint64(l) - 1)
	}
	return progress.List{Tag: tag, Len: progress.MaxLen}, true
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
