package clustertest

import (
	"context"
	"time"
)

// Fault is something that happens to a cluster under load.
type Fault struct {
	Name string
	// Inject makes the fault in a shard's primary, and mends it: AwaitHealthy waits until all are well again.
	Inject injection
	// Revealing says that without WAIT it must make repeats, or it was none.
	Revealing bool
	// Breaking says that it makes repeats though replicas are waited for: the engine's settings are not the
	// required ones.
	Breaking bool
	// Slow leaves it to make soak.
	Slow bool
}

// slowSync is how long fsync takes on a slow disk.
const slowSync = 1500 * time.Millisecond

// Faults is the table of docs/cluster.md. Those of isolation and of late replication take Options.Proxies.
var Faults = []Fault{
	{Name: "Kill",
		Inject: func(ctx context.Context, c *Cluster, p *Node) error {
			return failover(ctx, c, p)
		}},
	{Name: "StalledReplicaThenKill",
		Inject: func(ctx context.Context, c *Cluster, p *Node) error {
			others := c.Others(p)
			err := each(others, (*Node).Stall)
			sleep(ctx, time.Second)
			if err != nil {
				return err
			}
			if err := p.Kill(); err != nil {
				return err
			}
			if err := each(others, (*Node).Resume); err != nil {
				return err
			}
			return failover(ctx, c, p)
		}},
	{Name: "Partition", Revealing: true,
		Inject: func(ctx context.Context, c *Cluster, p *Node) error {
			if err := c.Isolate(p); err != nil {
				return err
			}
			defer c.Heal()
			_, err := c.AwaitFailover(ctx, p)
			return err
		}},
	{Name: "SlowReplicationThenKill", Revealing: true, Slow: true,
		Inject: func(ctx context.Context, c *Cluster, p *Node) error {
			c.DelayReplication(200 * time.Millisecond)
			defer c.DelayReplication(0)
			sleep(ctx, time.Second)
			return failover(ctx, c, p)
		}},
	{Name: "Stop", Slow: true,
		Inject: func(ctx context.Context, c *Cluster, p *Node) error {
			if err := p.Stall(); err != nil {
				return err
			}
			sleep(ctx, 5*time.Second)
			return p.Resume()
		}},
	// A busy disk is a slow one: without always, what the file lacks is given again.
	{Name: "KillAndRestartAtOnceAlways", Slow: true,
		Inject: always(func(_ context.Context, _ *Cluster, p *Node) error {
			return restart(p)
		})},
	{Name: "SlowSyncAlways", Slow: true,
		Inject: always(func(ctx context.Context, c *Cluster, p *Node) error {
			return slowly(ctx, p, func() error { return restart(p) })
		})},
	{Name: "SlowSyncLateRestart",
		Inject: func(ctx context.Context, c *Cluster, p *Node) error {
			return slowly(ctx, p, func() error { return failover(ctx, c, p) })
		}},
	{Name: "SlowSyncRestartAtOnce", Breaking: true, Slow: true,
		Inject: func(ctx context.Context, _ *Cluster, p *Node) error {
			return slowly(ctx, p, func() error { return restart(p) })
		}},
	{Name: "WholeShardKilledAlways", Slow: true, Inject: always(wholeShard)},
	{Name: "Resharding2000Slots", Slow: true, Inject: resharding(1000, (*Cluster).migrateSlots)},
	{Name: "Resharding200Slots", Inject: resharding(100, (*Cluster).Reshard)},
	{Name: "RollingRestart", Slow: true,
		Inject: func(ctx context.Context, c *Cluster, _ *Node) error {
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
func failover(ctx context.Context, c *Cluster, p *Node) error {
	if err := p.Kill(); err != nil {
		return err
	}
	if _, err := c.AwaitFailover(ctx, p); err != nil {
		return err
	}
	return p.Start()
}

// injection is what a Fault has to make it.
type injection = func(ctx context.Context, c *Cluster, primary *Node) error

// always makes a fault in an engine that syncs each write before it answers.
func always(inject injection) injection {
	return func(ctx context.Context, c *Cluster, p *Node) error {
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
func wholeShard(_ context.Context, c *Cluster, p *Node) error {
	shard := append(c.Others(p), p)
	if err := each(shard, (*Node).Kill); err != nil {
		return err
	}
	return each(shard, (*Node).Start)
}

// resharding moves slots to another shard, and back.
func resharding(slots int, move func(c *Cluster, ctx context.Context, from, to, n int) error) injection {
	return func(ctx context.Context, c *Cluster, p *Node) error {
		to := (p.Shard + 1) % c.Options.Shards
		if err := move(c, ctx, p.Shard, to, slots); err != nil {
			return err
		}
		return move(c, ctx, to, p.Shard, slots)
	}
}

func restart(n *Node) error {
	if err := n.Kill(); err != nil {
		return err
	}
	return n.Start()
}

// slowly calls f when a node has had a slow disk for a while.
func slowly(ctx context.Context, n *Node, f func() error) error {
	stop, err := n.SlowSync(slowSync)
	if err != nil {
		return err
	}
	defer stop()
	sleep(ctx, 2*slowSync)
	return f()
}

// sleep lets a fault last.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
