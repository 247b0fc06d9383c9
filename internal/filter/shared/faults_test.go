package shared_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/filter/shared"
	"weir/internal/filter/store"
	"weir/internal/systest"
)

// TestFaultsOfTheEngineLoseNothingThatWasAcknowledged has two nodes add filters while the shard that has them
// goes through its faults, one after the other.
func TestFaultsOfTheEngineLoseNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	for _, kind := range clustertest.Servers() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: kind, Replicas: 1, Own: true, Proxies: true})
			o := cluster.Options{Addrs: c.Addrs(), Replicas: 1, Timeout: time.Second}
			nodes := []*node{newNode(t, o), newNode(t, o), newNode(t, o)}
			slot := int(cluster.Slot(connect(t, o).Key("f:{filters}")))
			shard := slot * c.Options.Shards / 16384
			if err := nodes[0].Add(t.Context(), newFilter("first")); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for _, n := range nodes {
				wg.Go(func() { n.Follow(ctx) })
			}
			var mu sync.Mutex
			acknowledged, unclear := make(map[store.ID]bool), 0
			for _, n := range nodes[:2] {
				wg.Go(func() {
					for ctx.Err() == nil {
						f := newFilter("x")
						err := n.Add(ctx, f)
						mu.Lock()
						if err == nil {
							acknowledged[f.ID] = true
						} else {
							unclear++
						}
						mu.Unlock()
						if err != nil && ctx.Err() == nil && !errors.Is(err, cluster.ErrUnavailable) &&
							!errors.Is(err, cluster.ErrUnknown) && !errors.Is(err, cluster.ErrUnreplicated) {
							t.Error(err)
							return
						}
						time.Sleep(time.Millisecond) // leaves the machine to the engine
					}
				})
			}
			more := func(what string) {
				t.Helper()
				mu.Lock()
				before := len(acknowledged)
				mu.Unlock()
				systest.Eventually(t, "filters are added after "+what, func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(acknowledged) > before+20
				})
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			more("the start")
			patient, cancel := context.WithTimeout(t.Context(),
				time.Duration(1+clustertest.Rounds())*2*time.Minute)
			defer cancel()
			for range max(1, clustertest.Rounds()) {
				primary := c.Primary(patient, shard)
				must(primary.Kill())
				_, err := c.AwaitFailover(patient, primary)
				must(err)
				must(primary.Start()) // until then no replica can have a change
				must(c.AwaitHealthy(patient))
				more("a kill of the primary")

				primary = c.Primary(patient, shard)
				must(primary.Stall())
				_, err = c.AwaitFailover(patient, primary)
				must(err)
				must(primary.Resume())
				must(c.AwaitHealthy(patient))
				more("a stall of the primary")

				primary = c.Primary(patient, shard)
				must(c.Isolate(primary))
				_, err = c.AwaitFailover(patient, primary)
				must(err)
				c.Heal()
				must(c.AwaitHealthy(patient))
				more("a partition")
			}

			must(moveSlot(patient, c, slot, shard, (shard+1)%c.Options.Shards))
			more("a resharding")

			stop()
			wg.Wait()
			must(nodes[0].CatchUp(t.Context()))
			same(t, len(nodes[0].filters), append(nodes, newNode(t, o))...)
			for id := range acknowledged {
				if nodes[0].filters[id] == "" {
					t.Errorf("the filter %v is lost", id)
				}
			}
			t.Logf("%d added, %d unclear or refused; all rows read %d, %d and %d times", len(acknowledged), unclear,
				reloads(nodes[0]), reloads(nodes[1]), reloads(nodes[2]))
		})
	}
}

// moveSlot moves one slot, and its keys, from one shard to another.
func moveSlot(ctx context.Context, c *clustertest.Cluster, slot, from, to int) error {
	source, target, number := c.Primary(ctx, from), c.Primary(ctx, to), fmt.Sprint(slot)
	_, err := target.Do(ctx, "CLUSTER", "SETSLOT", number, "IMPORTING", source.ID)
	if err == nil {
		_, err = source.Do(ctx, "CLUSTER", "SETSLOT", number, "MIGRATING", target.ID)
	}
	if err != nil {
		return err
	}
	reply, err := source.Do(ctx, "CLUSTER", "GETKEYSINSLOT", number, "100")
	if err != nil {
		return err
	}
	keys, err := reply.AsStrSlice()
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(target.Addr()) //nolint:errcheck // it is one
	for _, key := range keys {                        // one by one, so that for a while each shard has some
		if _, err := source.Do(ctx, "MIGRATE", host, port, key, "0", "5000"); err != nil {
			return err
		}
	}
	for _, n := range []*clustertest.Node{target, source} {
		if _, err := n.Do(ctx, "CLUSTER", "SETSLOT", number, "NODE", target.ID); err != nil {
			return err
		}
	}
	return nil
}

func TestASourceIsFetchedByOneNodeAtATime(t *testing.T) {
	on(t, func(t *testing.T, o cluster.Options) {
		ctx := t.Context()
		a, b := newSources(t, o), newSources(t, o)
		const url = "https://example.org/rss"
		first, newer, err := a.Turn(ctx, url, 0)
		if err != nil || newer != nil {
			t.Fatal(newer, err)
		}
		soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if turn, _, err := b.Turn(soon, url, 0); err == nil || turn != nil {
			t.Error("two nodes have the lease")
		}
		other, _, err := b.Turn(ctx, url+"?other", 0)
		if err != nil {
			t.Errorf("another source: %v", err)
		}
		other.Cancel()
		waiting := make(chan *shared.State, 1)
		go func() {
			_, newer, _ := b.Turn(ctx, url, 0) //nolint:errcheck // newer is nil
			waiting <- newer
		}()
		state := shared.State{Fetch: store.Fetch{Tried: 1, Version: 1<<64 - 1, Error: "é"}}
		if ok, err := first.Done(ctx, state, []byte("what came")); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if got := <-waiting; got == nil || got.Fetch != state.Fetch {
			t.Errorf("who waits gets %+v", got)
		}
		if body, err := b.Body(ctx, url); err != nil || string(body) != "what came" {
			t.Errorf("%q %v", body, err)
		}
		second, _, err := b.Turn(ctx, url, 1)
		if err != nil {
			t.Fatal(err)
		}
		// What a lease of before brings does not count, nor does it end that of another.
		state.Tried = 2
		if ok, err := first.Done(ctx, state, nil); err != nil || ok {
			t.Errorf("a late answer is published: %v", err)
		}
		soon, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if turn, newer, _ := a.Turn(soon, url, 1); turn != nil || newer != nil { //nolint:errcheck // a timeout
			t.Errorf("%v %v while another has the lease", turn, newer)
		}
		second.Cancel()
		third, _, err := a.Turn(ctx, url, 1)
		if err != nil {
			t.Fatalf("after a lease was given up: %v", err)
		}
		large := make([]byte, 1<<20)
		for i := range large { // does not compress
			large[i] = byte(uint64(i)*0x9e3779b97f4a7c15>>57) ^ byte(uint64(i*i)*0x9e3779b97f4a7c15>>40)
		}
		if ok, err := third.Done(ctx, state, large); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if body, err := b.Body(ctx, url); err != nil || string(body) != "what came" {
			t.Errorf("what was too large has replaced %d bytes, %v", len(body), err)
		}
	})
}

func newSources(t *testing.T, o cluster.Options) *shared.Sources {
	s := shared.NewSources(connect(t, o))
	t.Cleanup(s.Close)
	return s
}

func TestTheLeaseOfAKilledNodeEnds(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Shards: 2, Replicas: 1})
	o := cluster.Options{Addrs: c.Addrs(), Prefix: clustertest.Prefix(t), Replicas: 1, Timeout: 10 * time.Second}
	s := newSources(t, o)
	systest.KillAfter(t, 1, leaserEnv+"="+fmt.Sprint(o.Addrs[0], " ", o.Prefix))
	begin := time.Now()
	turn, _, err := s.Turn(t.Context(), "https://example.org/", 0)
	if err != nil {
		t.Fatal(err)
	}
	turn.Cancel()
	if time.Since(begin) < time.Second {
		t.Error("there was no lease")
	}
}

const leaserEnv = "WEIR_TEST_SHARED_LEASER"

// leaser has a lease until it is killed, longer than one lasts that is not extended.
func leaser(addr, prefix string) error {
	ctx := context.Background()
	c, err := cluster.Open(ctx, cluster.Options{Addrs: []string{addr}, Prefix: prefix})
	if err != nil {
		return err
	}
	if err := c.Load(ctx, shared.Functions); err != nil {
		return err
	}
	s := shared.NewSources(c)
	if _, _, err := s.Turn(ctx, "https://example.org/", 0); err != nil {
		return err
	}
	time.Sleep(7 * time.Second)
	late, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if turn, _, err := s.Turn(late, "https://example.org/", 0); turn != nil {
		return fmt.Errorf("the lease was not extended: %w", err)
	}
	fmt.Println("leased")
	select {}
}
