package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// TestNodesGiveNothingTwice asks three processes on an engine for feeds and indices and tells them of events.
// It kills and restarts them, and the engine's primaries, one after the other, and publishes new lists
// meanwhile. What is not answered was asked of a node that left; what is refused is 503, and is counted.
func TestNodesGiveNothingTwice(t *testing.T) {
	systest.LongRun(t, "processes and servers to kill")
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

// restartPrimary takes a primary away by lose, waits for the failover, and restarts it.
func (f *fleet) restartPrimary(shard int, lose func(*clustertest.Node) error) {
	f.t.Helper()
	ctx := f.t.Context()
	old := f.engine.Primary(ctx, shard)
	if err := lose(old); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.engine.AwaitFailover(ctx, old); err != nil {
		f.t.Fatal(err)
	}
	if err := old.Kill(); err != nil {
		f.t.Fatal(err)
	}
	if err := old.Start(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.engine.AwaitHealthy(ctx); err != nil {
		f.t.Fatal(err)
	}
	f.more()
}
