package clustertest_test

import (
	"context"
	"time"

	"weir/internal/cluster/clustertest"
)

type (
	engine = clustertest.Cluster
	node   = clustertest.Node
)

// fault is something that happens to an engine under load. It returns when all nodes are well again.
type fault struct {
	name string
	// inject makes the fault in a shard's primary, and mends it.
	inject func(ctx context.Context, c *engine, primary *node) error
	// revealing says that without WAIT it must make repeats, or it was none.
	revealing bool
	// breaking says that it makes repeats though replicas are waited for: the engine's settings are not the
	// required ones.
	breaking bool
	// slow leaves it to make soak.
	slow bool
}

// slowSync is how long fsync takes on a slow disk.
const slowSync = 1500 * time.Millisecond

// faults is the table of docs/cluster.md.
var faults = []fault{
	{name: "Kill",
		inject: func(ctx context.Context, c *engine, p *node) error {
			return failover(ctx, c, p)
		}},
	{name: "StalledReplicaThenKill",
		inject: func(ctx context.Context, c *engine, p *node) error {
			others := c.Others(p)
			err := all(others, (*node).Stall)
			sleep(ctx, time.Second)
			if err != nil {
				return err
			}
			if err := p.Kill(); err != nil {
				return err
			}
			if err := all(others, (*node).Resume); err != nil {
				return err
			}
			return failover(ctx, c, p)
		}},
	{name: "Partition", revealing: true,
		inject: func(ctx context.Context, c *engine, p *node) error {
			if err := c.Isolate(p); err != nil {
				return err
			}
			defer c.Heal()
			_, err := c.AwaitFailover(ctx, p)
			return err
		}},
	{name: "SlowReplicationThenKill", revealing: true, slow: true,
		inject: func(ctx context.Context, c *engine, p *node) error {
			c.DelayReplication(200 * time.Millisecond)
			defer c.DelayReplication(0)
			sleep(ctx, time.Second)
			return failover(ctx, c, p)
		}},
	{name: "Stop", slow: true,
		inject: func(ctx context.Context, c *engine, p *node) error {
			if err := p.Stall(); err != nil {
				return err
			}
			sleep(ctx, 5*time.Second)
			return p.Resume()
		}},
	{name: "KillAndRestartAtOnce", slow: true,
		inject: func(_ context.Context, _ *engine, p *node) error {
			return restart(p)
		}},
	{name: "SlowSyncAlways", slow: true,
		inject: always(func(ctx context.Context, c *engine, p *node) error {
			return slowly(ctx, p, func() error { return restart(p) })
		})},
	{name: "SlowSyncLateRestart",
		inject: func(ctx context.Context, c *engine, p *node) error {
			return slowly(ctx, p, func() error { return failover(ctx, c, p) })
		}},
	{name: "SlowSyncRestartAtOnce", breaking: true, slow: true,
		inject: func(ctx context.Context, _ *engine, p *node) error {
			return slowly(ctx, p, func() error { return restart(p) })
		}},
	{name: "WholeShardKilled", slow: true, inject: wholeShard},
	{name: "Resharding2000Slots", slow: true, inject: resharding(1000)},
	{name: "Resharding200Slots", inject: resharding(100)},
	{name: "RollingRestart", slow: true,
		inject: func(ctx context.Context, c *engine, _ *node) error {
			for shard := range c.Options.Shards {
				old := c.Primary(ctx, shard)
				if _, err := c.Others(old)[0].Do(ctx, "CLUSTER", "FAILOVER"); err != nil {
					return err
				}
				if _, err := c.AwaitFailover(ctx, old); err != nil {
					return err
				}
				if err := restart(old); err != nil {
					return err
				}
				if err := c.AwaitHealthy(ctx); err != nil {
					return err
				}
			}
			return nil
		}},
}

// failover kills a primary, waits until a replica has taken over, and starts the old one again.
func failover(ctx context.Context, c *engine, p *node) error {
	if err := p.Kill(); err != nil {
		return err
	}
	if _, err := c.AwaitFailover(ctx, p); err != nil {
		return err
	}
	return p.Start()
}

// always makes a fault in an engine that syncs each write before it answers.
func always(inject func(context.Context, *engine, *node) error) func(context.Context, *engine, *node) error {
	return func(ctx context.Context, c *engine, p *node) error {
		for _, n := range c.Nodes {
			if _, err := n.Do(ctx, "CONFIG", "SET", "appendfsync", "always"); err != nil {
				return err
			}
			//nolint:errcheck // one that was restarted has it by its start
			defer n.Do(ctx, "CONFIG", "SET", "appendfsync", "everysec")
		}
		sleep(ctx, time.Second)
		return inject(ctx, c, p)
	}
}

// wholeShard kills a primary and its replicas, and starts them again.
func wholeShard(_ context.Context, c *engine, p *node) error {
	shard := append(c.Others(p), p)
	if err := all(shard, (*node).Kill); err != nil {
		return err
	}
	return all(shard, (*node).Start)
}

// resharding moves slots to another shard, and back.
func resharding(slots int) func(context.Context, *engine, *node) error {
	return func(ctx context.Context, c *engine, p *node) error {
		to := (p.Shard + 1) % c.Options.Shards
		if err := c.Reshard(ctx, p.Shard, to, slots); err != nil {
			return err
		}
		return c.Reshard(ctx, to, p.Shard, slots)
	}
}

func restart(n *node) error {
	if err := n.Kill(); err != nil {
		return err
	}
	return n.Start()
}

// slowly calls f when a node has had a slow disk for a while.
func slowly(ctx context.Context, n *node, f func() error) error {
	stop, err := n.SlowSync(slowSync)
	if err != nil {
		return err
	}
	defer stop()
	sleep(ctx, 2*slowSync)
	return f()
}

func all(nodes []*node, f func(*node) error) error {
	for _, n := range nodes {
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

// sleep lets a fault last.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
