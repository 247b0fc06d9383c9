package learning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/bandit/arms"
	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/metrics"
	"weir/internal/systest"
)

// nodes are Learners of one cluster, each as of a machine of its own.
type nodes struct {
	t      *testing.T
	o      cluster.Options
	change func(*Options)
}

func (n nodes) client() *cluster.Client {
	n.t.Helper()
	o := n.o
	o.Prefix = clustertest.Prefix(n.t)
	c, err := cluster.Open(n.t.Context(), o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() }) //nolint:errcheck // it has none
	return c
}

func (n nodes) open() *Shared {
	n.t.Helper()
	o := Options{Memory: 1 << 24, ClientIDs: 1, Checkpoint: 1 << 30,
		Go:      func(_ string, fn func(context.Context)) { go fn(context.Background()) },
		Metrics: metrics.New(1), Log: slog.New(slog.DiscardHandler)}
	if n.change != nil {
		n.change(&o)
	}
	s, err := OpenShared(n.t.Context(), n.t.TempDir(), n.client(), o)
	if err != nil {
		n.t.Fatal(err)
	}
	closing := sync.OnceValue(s.Close)
	n.t.Cleanup(func() {
		if err := closing(); err != nil {
			n.t.Error(err)
		}
	})
	return s
}

// share starts a cluster of one shard that other tests use too.
func share(t *testing.T, change func(*Options)) nodes {
	c := clustertest.Start(t, clustertest.Options{Shards: 1, Replicas: 1})
	return nodes{t, cluster.Options{Addrs: c.Addrs(), Replicas: 1, Timeout: 5 * time.Second}, change}
}

func (s *Shared) teach(events ...Event) (duplicates int, err error) {
	done := make(chan struct{})
	s.Learn(Batch{Events: events, Done: func(n int, e error) { duplicates, err = n, e; close(done) }})
	<-done
	return duplicates, err
}

func (s *Shared) place() place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// known is all that a node knows, as bits, at a time.
type known struct {
	arms  [Levels]map[arms.Key][2]float64
	ids   [2]map[arms.Key]struct{}
	began int64
	names map[arms.Key]Name
}

func (s *Shared) known(t *testing.T, now int64) (k known) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for level, table := range s.learned {
		k.arms[level] = make(map[arms.Key][2]float64)
		for _, a := range table.Copy(nil, now) {
			if a.Alpha+a.Beta > 0 {
				k.arms[level][a.Key] = [2]float64{a.Alpha, a.Beta}
			}
		}
	}
	k.ids = [2]map[arms.Key]struct{}{maps.Clone(s.ids.today), maps.Clone(s.ids.yesterday)}
	k.began, k.names = s.ids.began, make(map[arms.Key]Name)
	if _, err := s.Each(Cursor{}, func(a Named) bool { k.names[a.Key] = a.Name; return true }); err != nil {
		t.Error(err)
	}
	return k
}

// agree waits until all have come as far, and compares what they know.
func agree(t *testing.T, all ...*Shared) {
	t.Helper()
	for _, s := range all[1:] {
		systest.Eventually(t, "nodes that are as far", func() bool { return s.place() == all[0].place() })
	}
	now := time.Now().Add(time.Minute).UnixMicro()
	want := all[0].known(t, now)
	for i, s := range all[1:] {
		got := s.known(t, now)
		for level := range want.arms {
			if !maps.Equal(got.arms[level], want.arms[level]) {
				t.Errorf("node %d has other sums at level %d", i+1, level)
			}
		}
		if !maps.Equal(got.ids[0], want.ids[0]) || !maps.Equal(got.ids[1], want.ids[1]) ||
			got.began != want.began {
			t.Errorf("node %d has other ids", i+1)
		}
		if !maps.Equal(got.names, want.names) {
			t.Errorf("node %d has other names: %d, want %d", i+1, len(got.names), len(want.names))
		}
	}
}

func TestNodesAgreeToTheBit(t *testing.T) {
	t.Parallel()
	n := share(t, func(o *Options) { o.HalfLife, o.Checkpoint = 250*time.Millisecond, 20_000 })
	all := []*Shared{n.open(), n.open(), n.open()}
	var working sync.WaitGroup
	var accepted atomic.Int64
	for i, s := range all {
		for worker := range 4 {
			r := rand.New(rand.NewPCG(uint64(i), uint64(worker)))
			working.Go(func() {
				for round := range 150 {
					var events []Event
					for range 1 + r.IntN(8) {
						e := Event{Reward: r.Float64()}
						if r.IntN(3) > 0 { // nodes race for it, with rewards that differ
							e.ID = key(1<<40 + uint64(r.IntN(2000)))
						}
						item, user := uint64(r.IntN(50)), uint64(r.IntN(5))
						e.Arms = Arms{arms.Item: key(item), arms.Pair: key(1<<30 + item<<8 + user)}
						e.Names = [Levels]*Name{arms.Item: {Item: fmt.Sprint(item)},
							arms.Pair: {Item: fmt.Sprint(item), Of: fmt.Sprint(user)}}
						if r.IntN(4) == 0 {
							e.At = time.Now().Add(-time.Duration(r.IntN(3000)) * time.Millisecond).UnixMicro()
						}
						events = append(events, e)
					}
					dup, err := s.teach(events...)
					if err != nil {
						t.Error(err)
					}
					accepted.Add(int64(len(events) - dup))
					if round%50 == 49 && round < 149 {
						f := []Forgetting{{User: "3"}, {IDs: true}, {Arms: Arms{key(7)}}, {All: true}}[worker]
						if _, err := s.Forget(f); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	working.Wait()
	agree(t, all...)
	if accepted.Load() == 0 || all[0].Len(arms.Item) == 0 {
		t.Error("nothing was learned")
	}
	systest.Eventually(t, "a checkpoint", func() bool {
		return all[0].published.Value()+all[1].published.Value()+all[2].published.Value() > 0
	})
	agree(t, append(all, n.open())...)
}

func TestANodeBeginsWithACheckpointAndWhatFollows(t *testing.T) {
	t.Parallel()
	n := share(t, func(o *Options) { o.HalfLife = time.Minute })
	s := n.open()
	for round := range uint64(3) {
		for i := range uint64(100) {
			e := event(i, round<<20+i)
			e.Reward = 1 / float64(i+3)
			e.Names[arms.Item] = &Name{Item: fmt.Sprint(i)}
			if dup, err := s.teach(e); dup != 0 || err != nil {
				t.Fatal(dup, err)
			}
		}
		if done, err := s.publish(t.Context()); !done || err != nil {
			t.Fatalf("published %v, error %v", done, err)
		}
	}
	r, err := s.c.Do(t.Context(), cluster.Command{Slot: s.slot, Args: []string{"XLEN", s.keys.stream}})
	if entries, _ := r.ToInt64(); err != nil || entries < 100 || entries > 110 {
		t.Errorf("the stream has %d entries, error %v, want those since the checkpoint before the last",
			entries, err)
	}
	if _, err := s.teach(event(1, 0)); err != nil {
		t.Fatal(err)
	}
	other := n.open()
	agree(t, s, other)
	if len(other.known(t, 0).names) != 100 {
		t.Error("a new node has no names")
	}
	if dup, err := other.teach(event(5, 5)); dup != 1 || err != nil {
		t.Errorf("a new node takes an event again: %d duplicates, error %v", dup, err)
	}
	// Two that publish at the same time are one.
	if _, err := s.c.Do(t.Context(), cluster.Command{Slot: s.slot, Args: []string{"SET", s.keys.lease, "x",
		"PX", "60000"}}); err != nil {
		t.Fatal(err)
	}
	if done, err := s.publish(t.Context()); done || err != nil {
		t.Errorf("beside another node it is published: %v, error %v", done, err)
	}
}

// A failover may take back what no batch was accepted by, and a node has read already.
func TestANodeUnlearnsWhatAFailoverTookBack(t *testing.T) {
	t.Parallel()
	for _, published := range []bool{false, true} {
		t.Run(fmt.Sprint("checkpoint ", published), func(t *testing.T) {
			n := share(t, nil)
			s := n.open()
			if _, err := s.teach(event(1, 1)); err != nil {
				t.Fatal(err)
			}
			if published {
				if done, err := s.publish(t.Context()); !done || err != nil {
					t.Fatal(done, err)
				}
			}
			systest.Eventually(t, "all read", func() bool {
				tail, err := s.get(t.Context(), s.keys.tail)
				return err == nil && tail == s.place().Nonce
			})
			before := s.place()
			if _, err := s.teach(event(2, 2), event(4, 4)); err != nil {
				t.Fatal(err)
			}
			do := func(args ...string) {
				t.Helper()
				_, err := s.c.Do(t.Context(), cluster.Command{Slot: s.slot, Durable: true, Args: args})
				if err != nil {
					t.Fatal(err)
				}
			}
			do("XDEL", s.keys.stream, s.place().ID)
			do("SET", s.keys.tail, before.Nonce)
			other := n.open()
			if dup, err := other.teach(event(2, 2), event(3, 3)); dup != 0 || err != nil {
				t.Fatalf("%d duplicates, error %v", dup, err)
			}
			agree(t, other, s)
			if a, _, _ := s.View(arms.Item, 0).Find(key(2)); a != 1 || s.anew.Value() == 0 {
				t.Errorf("an event counts %v times; the node began anew %d times", a, s.anew.Value())
			}
			if a, _, _ := s.View(arms.Item, 0).Find(key(4)); a != 0 {
				t.Error("what was taken back counts")
			}
		})
	}
}

func TestWhatTheEngineHasLostIsNotForgotten(t *testing.T) {
	t.Parallel()
	n := share(t, nil)
	s := n.open()
	if _, err := s.teach(event(1, 1)); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{s.keys.tail, s.keys.stream} {
		if _, err := s.c.Do(t.Context(), cluster.Command{Slot: s.slot, Durable: true,
			Args: []string{"DEL", k}}); err != nil {
			t.Fatal(err)
		}
	}
	systest.Eventually(t, "a node that knows", func() bool { return errors.Is(s.Err(), errLost) })
	if a, _, _ := s.View(arms.Item, 0).Find(key(1)); a != 1 {
		t.Error("the node has forgotten what it had learned")
	}
	if _, err := s.teach(event(2, 2)); !errors.Is(err, errLost) {
		t.Errorf("an event is taken: %v", err)
	}
}

func TestNodesRefuseWhatHasNoRoom(t *testing.T) {
	t.Parallel()
	n := share(t, func(o *Options) { o.Memory = 100 * (armBytes + idBytes/idShare) })
	s := n.open()
	var err error
	for i := uint64(0); err == nil && i < 1000; i++ {
		_, err = s.teach(event(i, 0))
	}
	if !errors.Is(err, ErrArms) {
		t.Fatalf("1000 arms find room for 100: %v", err)
	}
	if _, err := s.teach(event(0, 0)); err != nil || s.Err() != nil {
		t.Errorf("an arm that there is: %v, %v", err, s.Err())
	}
	for i := uint64(1); err == nil || errors.Is(err, ErrArms) && i < 1000; i++ {
		_, err = s.teach(event(0, i))
	}
	if !errors.Is(err, ErrIDs) {
		t.Errorf("ids without end: %v", err)
	}
	agree(t, s, n.open())
}

// load teaches, each event again until it is accepted, and returns what was accepted, by item.
func load(ctx context.Context, s *Shared, worker int) (accepted map[uint64]int, refused int) {
	accepted = make(map[uint64]int)
	for i := 0; ctx.Err() == nil; i++ {
		item, id := uint64(i%20), uint64(worker)<<32+uint64(i)+1
		for {
			_, err := s.teach(event(item, id), event(item+100, 1<<39+id))
			if err == nil {
				break
			}
			refused++
			time.Sleep(5 * time.Millisecond)
		}
		accepted[item]++
	}
	return accepted, refused
}

func TestEventsCountOnceWhateverBecomesOfThePrimary(t *testing.T) {
	t.Parallel()
	for _, server := range clustertest.Servers() {
		t.Run(string(server), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: server, Shards: 3, Replicas: 1,
				Proxies: true, Own: true})
			n := nodes{t, cluster.Options{Addrs: c.Addrs(), Replicas: 1},
				func(o *Options) { o.Checkpoint = 10_000 }}
			all := []*Shared{n.open(), n.open(), n.open()}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var working sync.WaitGroup
			var mu sync.Mutex
			accepted, refused := make(map[uint64]int), 0
			for worker := range 6 {
				working.Go(func() {
					a, r := load(ctx, all[worker%3], worker)
					mu.Lock()
					defer mu.Unlock()
					refused += r
					for item, n := range a {
						accepted[item] += n
					}
				})
			}
			under := func(fault string, begin, end func(*clustertest.Node) error) {
				t.Helper()
				was := all[0].entries.Value()
				systest.Eventually(t, "load", func() bool { return all[0].entries.Value() > was+100 })
				primary := c.Primary(t.Context(), int(all[0].slot)*3/16384)
				err := begin(primary)
				if err == nil {
					_, err = c.AwaitFailover(t.Context(), primary)
				}
				if err == nil {
					err = end(primary)
				}
				if err == nil {
					err = c.AwaitHealthy(t.Context())
				}
				if err != nil {
					t.Fatalf("%s: %v", fault, err)
				}
			}
			for range max(1, clustertest.Rounds()) {
				under("killed", (*clustertest.Node).Kill, (*clustertest.Node).Start)
				under("stalled", (*clustertest.Node).Stall, (*clustertest.Node).Resume)
				under("isolated", c.Isolate, func(*clustertest.Node) error { c.Heal(); return nil })
			}
			stop()
			working.Wait()
			agree(t, append(all, n.open())...)
			for item, n := range accepted {
				for _, k := range []uint64{item, item + 100} {
					if a, _, _ := all[1].View(arms.Item, 0).Find(key(k)); a != float64(n) {
						t.Errorf("item %d is at %v, and %d events were accepted", k, a, n)
					}
				}
			}
			t.Log("refused meanwhile:", refused, "began anew:", all[0].anew.Value()+all[1].anew.Value()+
				all[2].anew.Value(), "checkpoints:", all[0].published.Value()+all[1].published.Value()+
				all[2].published.Value())
		})
	}
}

func TestWithoutTheEngineEventsAreRefusedAndWhatIsKnownStays(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Shards: 3, Replicas: 0, Own: true})
	s := nodes{t, cluster.Options{Addrs: c.Addrs(), Timeout: 300 * time.Millisecond}, nil}.open()
	if _, err := s.teach(event(1, 1)); err != nil {
		t.Fatal(err)
	}
	primary := c.Primary(t.Context(), int(s.slot)*3/16384)
	if err := primary.Stall(); err != nil {
		t.Fatal(err)
	}
	var busy, refused atomic.Int64
	many := make([]Event, 10_000)
	for i := range many {
		many[i] = event(2, 100+uint64(i))
	}
	var waiting sync.WaitGroup
	for range 2 * queueLimit / len(many) {
		waiting.Add(1)
		s.Learn(Batch{Events: many, Done: func(_ int, err error) {
			if errors.Is(err, ErrBusy) {
				busy.Add(1)
			} else if err != nil {
				refused.Add(1)
			}
			waiting.Done()
		}})
	}
	waiting.Wait()
	if busy.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d batches are refused as there are too many, %d as the engine is not there", busy.Load(),
			refused.Load())
	}
	if a, _, _ := s.View(arms.Item, 0).Find(key(1)); a != 1 {
		t.Error("what is known is gone")
	}
	systest.Eventually(t, "a node that says so", func() bool { return s.Err() != nil })
	if err := primary.Resume(); err != nil {
		t.Fatal(err)
	}
	systest.Eventually(t, "events that are accepted", func() bool {
		_, err := s.teach(many...)
		return err == nil
	})
	systest.Eventually(t, "a node that is well", func() bool {
		return s.Err() == nil && s.behind.Load() == 0
	})
	if a, _, _ := s.View(arms.Item, 0).Find(key(2)); a != float64(len(many)) {
		t.Errorf("%v events count, want %d", a, len(many))
	}
}

func FuzzEntries(f *testing.F) {
	e := event(1, 2)
	e.Names[arms.Item] = &Name{Item: "a"}
	f.Add(appendBatch(nil, 7, []record{{Event: e}, {forget: true, forgetIDs: true}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		batches, records, err := readBatches(b, nil, nil)
		if err != nil {
			return
		}
		var again []byte
		from := 0
		for _, batch := range batches {
			again = appendBatch(again, batch.client, records[from:batch.end])
			from = batch.end
		}
		if b2, r2, err := readBatches(again, nil, nil); err != nil || len(b2) != len(batches) ||
			len(r2) != len(records) {
			t.Errorf("%d batches are written and read as %d: %v", len(batches), len(b2), err)
		}
	})
}

func TestABoxMovesIntoTheEngineAndBack(t *testing.T) {
	t.Parallel()
	n := share(t, func(o *Options) { o.HalfLife, o.Sync = time.Hour, time.Hour })
	dir := t.TempDir()
	var o Options
	box := open(t, dir, func(is *Options) { n.change(is); o = *is })
	e := event(1, 1)
	e.Arms[arms.Pair], e.Names = key(2), [Levels]*Name{arms.Item: {Item: "1"}, arms.Pair: {"1", "user"}}
	box.teach(t, e, event(3, 3))
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	c := n.client()
	for range 2 { // again, as after an interruption
		m, err := Import(t.Context(), dir, c, o)
		if m != (Moved{3, 2}) || err != nil {
			t.Fatalf("%+v, error %v", m, err)
		}
	}
	node := n.open()
	if dup, err := node.teach(event(1, 1), event(3, 4)); dup != 1 || err != nil {
		t.Errorf("%d duplicates, error %v", dup, err)
	}
	agree(t, node, n.open())
	if _, err := Import(t.Context(), dir, c, o); !errors.Is(err, ErrServed) {
		t.Errorf("a box is imported over what nodes have learned: %v", err)
	}
	out := t.TempDir()
	for range 2 {
		m, err := Export(t.Context(), out, c, o)
		if m != (Moved{3, 3}) || err != nil {
			t.Fatalf("%+v, error %v", m, err)
		}
	}
	box = open(t, out, n.change)
	if a := box.alpha(3); a < 1.9 || a > 2 {
		t.Errorf("an item with two events is at %v", a)
	}
	if dup, err := box.learn("", event(1, 1), event(3, 3), event(3, 4)); dup != 3 || err != nil {
		t.Errorf("%d duplicates, error %v", dup, err)
	}
	if forgotten, err := box.Forget(Forgetting{User: "user"}); forgotten != 1 || err != nil {
		t.Errorf("%d arms of a user are forgotten, error %v", forgotten, err)
	}
}
