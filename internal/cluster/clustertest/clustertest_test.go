package clustertest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"weir/internal/cluster/clustertest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

func onBoth(t *testing.T, test func(t *testing.T, ctx context.Context, s clustertest.Server)) {
	t.Parallel()
	for _, s := range clustertest.Servers() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test(t, ctx, s)
		})
	}
}

func TestTestsShareACluster(t *testing.T) {
	onBoth(t, func(t *testing.T, _ context.Context, s clustertest.Server) {
		o := clustertest.Options{Server: s, Shards: 1, Replicas: 1}
		c := clustertest.Start(t, o)
		if again := clustertest.Start(t, o); again != c {
			t.Error("the second is another cluster")
		}
		if got := len(c.Addrs()); got != 2 {
			t.Errorf("%d nodes, want a primary and a replica", got)
		}
	})
}

// TestFaultsAreMade makes faults one after the other in one cluster.
func TestFaultsAreMade(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s clustertest.Server) {
		c := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1, Proxies: true, Own: true})
		for _, fault := range []struct {
			name string
			make func(*testing.T, context.Context, *clustertest.Cluster)
		}{
			{"resharded slots keep their keys", reshard},
			{"a sync that is slow delays a write", slow},
			{"a replica follows a killed primary", kill},
			{"an isolated primary still answers clients", isolate},
		} {
			t.Run(fault.name, func(t *testing.T) {
				fault.make(t, ctx, c)
				if err := c.AwaitHealthy(ctx); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

func reshard(t *testing.T, ctx context.Context, c *clustertest.Cluster) {
	if _, err := c.Primary(ctx, 0).Do(ctx, "SET", "{06S}", "kept"); err != nil { // slot 0
		t.Fatal(err)
	}
	if err := c.Reshard(ctx, 0, 1, 50); err != nil {
		t.Fatal(err)
	}
	m, err := c.Primary(ctx, 1).Do(ctx, "GET", "{06S}")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := m.ToString(); got != "kept" {
		t.Errorf("the key is %q in the other shard", got)
	}
}

func slow(t *testing.T, ctx context.Context, c *clustertest.Cluster) {
	n := c.Primary(ctx, 1)
	if _, err := n.Do(ctx, "CONFIG", "SET", "appendfsync", "always"); err != nil {
		t.Fatal(err)
	}
	stop, err := n.SlowSync(200 * time.Millisecond)
	clustertest.Need(t, err)
	defer stop()
	begin := time.Now()
	if _, err := n.Do(ctx, "SET", "{06S}", "synced"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("a write took %v, with an fsync of 200ms in it", took)
	}
}

func kill(t *testing.T, ctx context.Context, c *clustertest.Cluster) {
	old := c.Primary(ctx, 1)
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	next, err := c.AwaitFailover(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	if next.Shard != 1 || next == old {
		t.Errorf("the next primary is %s", next.Addr())
	}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	if now := c.Primary(ctx, 1); now != next {
		t.Errorf("the old primary took its slots back")
	}
}

func isolate(t *testing.T, ctx context.Context, c *clustertest.Cluster) {
	old := c.Primary(ctx, 1)
	if err := c.Isolate(old); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Do(ctx, "SET", "{06S}", "lost"); err != nil {
		t.Errorf("right after the cut: %v", err)
	}
	next, err := c.AwaitFailover(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	c.Heal()
	if err := c.AwaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := next.Do(ctx, "GET", "{06S}")
	if text, _ := m.ToString(); err == nil && text == "lost" {
		t.Error("the new primary has what the isolated one was told")
	}
}
