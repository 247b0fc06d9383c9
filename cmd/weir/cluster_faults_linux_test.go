package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// TestNodesGiveNothingTwice asks three processes on an engine for feeds and indices and tells them of events.
// It kills and restarts them, and the engine's primaries, one after the other, and publishes new lists
// meanwhile. What is not answered was asked of a node that left; what is refused is 503, and is counted.
func TestNodesGiveNothingTwice(t *testing.T) {
	systest.LongRun(t, "processes and servers to kill")
	t.Parallel()
	for _, s := range clustertest.Servers() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, clustertest.Options{Server: s})
			f.killNode(0, f.more)
			f.more()
			for i := range f.at {
				f.replace(i, fmt.Sprint("new", i))
				f.more()
			}
			f.publish(f.more)
			// An operator restarts all primaries, one after the other.
			for shard := range f.engine.Options.Shards {
				f.restartPrimary(shard, func(n *clustertest.Node) error {
					_, err := f.engine.Others(n)[0].Do(t.Context(), "CLUSTER", "FAILOVER")
					return err
				})
			}
			// One is killed.
			f.restartPrimary(rand.IntN(f.engine.Options.Shards), (*clustertest.Node).Kill)
			f.wantNone(f.settle())
		})
	}
}

// TestAPublicationIsServedByAllNodesOrNone kills a node, and then the primary that has the record of
// publications, at any moment of a publication. Whatever weir publish comes to say, all nodes serve the lists
// of before or the new ones, and no user is given items of older lists than before.
func TestAPublicationIsServedByAllNodesOrNone(t *testing.T) {
	systest.LongRun(t, "processes and servers to kill")
	t.Parallel()
	for _, s := range clustertest.Servers() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, clustertest.Options{Server: s})
			record := int(cluster.Slot("{lists}")) * f.engine.Options.Shards >> 14
			moment := func() { time.Sleep(rand.N(900 * time.Millisecond)) } // one takes a second
			runs := f.publish(func() {
				moment()
				f.killNode(rand.IntN(fleetNodes), f.more)
			})
			runs += f.publish(func() {
				moment()
				f.restartPrimary(record, (*clustertest.Node).Kill)
			})
			f.more()
			t.Logf("2 publications took %d commands", runs)
			f.wantNone(f.settle())
		})
	}
}

// restartPrimary takes a primary away by lose, waits for the failover, and restarts it.
func (f *fleet) restartPrimary(shard int, lose func(*clustertest.Node) error) {
	f.t.Helper()
	ctx := f.t.Context()
	var old *clustertest.Node
	systest.Eventually(f.t, "a primary that is lost", func() bool {
		old = f.engine.Primary(ctx, shard)
		return old != nil && lose(old) == nil
	})
	_, err := f.engine.AwaitFailover(ctx, old)
	if err == nil {
		err = old.Kill()
	}
	if err == nil {
		err = old.Start()
	}
	if err == nil {
		err = f.engine.AwaitHealthy(ctx)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.more()
}
