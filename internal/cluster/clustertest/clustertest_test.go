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
		o := clustertest.Options{Server: s, Replicas: 1}
		c := clustertest.Start(t, o)
		if again := clustertest.Start(t, o); again != c {
			t.Error("the second is another cluster")
		}
		if got := len(c.Addrs()); got != 6 {
			t.Errorf("%d nodes, want 3 shards with a replica each", got)
		}
	})
}

func TestReplicaFollowsAKilledPrimary(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s clustertest.Server) {
		c := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1, Own: true})
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
	})
}

func TestIsolatedPrimaryStillAnswersClients(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s clustertest.Server) {
		c := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1, Proxies: true, Own: true})
		old := c.Primary(ctx, 0)
		if err := c.Isolate(old); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Do(ctx, "SET", "{06S}", "lost"); err != nil { // slot 0
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
		if m, err := next.Do(ctx, "GET", "{06S}"); err == nil {
			t.Errorf("the new primary has what the isolated one was told: %v", m)
		}
	})
}

func TestReshardedSlotsKeepTheirKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s clustertest.Server) {
		c := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1, Own: true})
		from := c.Primary(ctx, 0)
		if _, err := from.Do(ctx, "SET", "{06S}", "kept"); err != nil {
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
		if err := c.AwaitHealthy(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestSlowSyncDelaysAnAlwaysSyncedWrite(t *testing.T) {
	onBoth(t, func(t *testing.T, ctx context.Context, s clustertest.Server) {
		c := clustertest.Start(t, clustertest.Options{Server: s, Config: "--appendfsync always", Own: true})
		n := c.Primary(ctx, 0)
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
	})
}
