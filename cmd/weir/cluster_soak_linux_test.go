package main

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
)

// clusterSoakEnv is for how long TestClusterSoak makes faults, "1h" for one.
const clusterSoakEnv = "WEIR_CLUSTER_SOAK"

// TestClusterSoak makes all faults of an engine in turn, half of the time on each server, while three
// processes are asked for feeds and indices and told of events, and new lists are published in each fault.
// Between faults nodes are killed or replaced. Before it begins, a partition without WAIT must show items
// twice.
func TestClusterSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(clusterSoakEnv))
	if err != nil {
		t.Skipf("%s says for how long: 1h", clusterSoakEnv)
	}
	for _, s := range clustertest.Servers() {
		t.Run(string(s), func(t *testing.T) {
			t.Run("control", func(t *testing.T) { repeats(t, s) })
			end := time.Now().Add(length / 2)
			f := newFleet(t, clustertest.Options{Server: s, Proxies: true})
			for round := 0; round == 0 || time.Now().Before(end); round++ {
				for i, fault := range clustertest.Faults {
					if fault.Breaking || round+i > 0 && time.Now().After(end) {
						continue
					}
					// The shards of events, of the index and of the record come round.
					shard := []string{"{events}", "{sequence}", "{lists}"}[(round+i)%3]
					began := time.Now()
					runs := f.publish(func() {
						f.inject(fault, int(cluster.Slot(shard))*f.engine.Options.Shards>>14)
					})
					switch node := rand.IntN(fleetNodes); rand.IntN(4) {
					case 0:
						f.killNode(node, f.more)
					case 1:
						f.replace(node, "new"+time.Now().Format("150405.000"))
					}
					f.more()
					f.mu.Lock()
					sums := f.sums
					f.mu.Unlock()
					t.Logf("%s, round %d, %s: %.1f s, %d commands to publish; so far %d "+
						"answers, %d refused, %+v", s, round, fault.Name, time.Since(began).Seconds(), runs,
						f.answers.Load(), f.refused.Load(), sums)
					if sums.twice+sums.old+sums.again > 0 {
						t.Fatal("something came twice, or was of older lists")
					}
				}
			}
			f.wantNone(f.settle())
		})
	}
}

// inject makes a fault in a shard's primary, and waits until all nodes are well.
func (f *fleet) inject(fault clustertest.Fault, shard int) {
	f.t.Helper()
	if err := fault.Inject(f.t.Context(), f.engine, f.engine.Primary(f.t.Context(), shard)); err != nil {
		clustertest.Need(f.t, err)
	}
	if err := f.engine.AwaitHealthy(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// repeats has items come twice: without WAIT, what an isolated primary still answers is given again.
func repeats(t *testing.T, s clustertest.Server) {
	f := newFleet(t, clustertest.Options{Server: s, Proxies: true}, "--cluster-replicas", "0",
		"--cluster-unsafe")
	for _, fault := range clustertest.Faults {
		if fault.Name == "Partition" {
			for shard := range f.engine.Options.Shards {
				f.inject(fault, shard)
				f.more()
			}
		}
	}
	f.rest()
	if t.Logf("without WAIT: %+v", f.sums); f.sums.twice == 0 {
		t.Error("void: nothing came twice where it must, so the books show nothing")
	}
}
