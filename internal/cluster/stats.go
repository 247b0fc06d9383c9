package cluster

import (
	"errors"
	"time"

	"weir/internal/metrics"
)

// stats is what is counted.
type stats struct {
	commands, batches                          *metrics.Counter
	moved, asked                               *metrics.Counter
	unavailable, unreplicated, unknown, others *metrics.Counter
	connects                                   *metrics.Counter
	wait                                       *metrics.Histogram
}

func (s *stats) register(c *Client) {
	m := c.o.Metrics
	m.Gauge("weir_cluster_shards", "Shards with slots.",
		func() float64 { return float64(len(c.table.Load().shards)) })
	m.Gauge("weir_cluster_shards_down", "Shards that were tried in vain just now.", c.down)
	s.commands = m.Counter("weir_cluster_commands_total", "Commands sent to primaries.")
	s.batches = m.Counter("weir_cluster_batches_total", "Batches they were sent in.")
	redirects := func(kind string) *metrics.Counter {
		return m.Counter("weir_cluster_redirects_total", "Commands sent elsewhere, as a node said.",
			"kind", kind)
	}
	s.moved, s.asked = redirects("moved"), redirects("ask")
	failures := func(kind string) *metrics.Counter {
		return m.Counter("weir_cluster_errors_total", "Commands that failed, by what became of them: "+
			"unavailable, not executed; unreplicated, executed; unknown; error, refused as wrong.",
			"kind", kind)
	}
	s.unavailable, s.unreplicated = failures("unavailable"), failures("unreplicated")
	s.unknown, s.others = failures("unknown"), failures("error")
	s.connects = m.Counter("weir_cluster_connect_failures_total", "Attempts to connect that failed.")
	s.wait = m.Histogram("weir_cluster_wait_seconds",
		"From sending a batch to the answer of its WAIT.")
}

// down returns how many shards have no connection.
func (c *Client) down() float64 {
	n := 0
	for _, sh := range c.Stats().Shards {
		if sh.Err != nil {
			n++
		}
	}
	return float64(n)
}

// count counts an error by its kind.
func (s *stats) count(err error) {
	switch {
	case errors.Is(err, ErrUnavailable):
		s.unavailable.Add(0, 1)
	case errors.Is(err, ErrUnreplicated):
		s.unreplicated.Add(0, 1)
	case errors.Is(err, ErrUnknown):
		s.unknown.Add(0, 1)
	default:
		s.others.Add(0, 1)
	}
}

// Stats is the state of a Client, for people.
type Stats struct {
	Shards                             []ShardStats
	Commands, Batches                  uint64
	Moved, Asked                       uint64
	Unavailable, Unreplicated, Unknown uint64
	Errors                             uint64        // commands that the engine refused as wrong
	Wait50, Wait99                     time.Duration // from sending a batch to the answer of its WAIT
}

// ShardStats is one shard.
type ShardStats struct {
	Addr     string
	Replicas []string
	Slots    int
	Queued   int   // commands
	Err      error // why there is no connection, if it was tried and failed
}

// Stats returns the state of the client. The caller owns it.
func (c *Client) Stats() Stats {
	s, t := &c.stats, c.table.Load()
	shown := Stats{Commands: s.commands.Value(), Batches: s.batches.Value(), Moved: s.moved.Value(),
		Asked: s.asked.Value(), Unavailable: s.unavailable.Value(), Unreplicated: s.unreplicated.Value(),
		Unknown: s.unknown.Value(), Errors: s.others.Value(),
		Wait50: s.wait.Quantile(0.5), Wait99: s.wait.Quantile(0.99)}
	for i := range t.shards {
		sh := &t.shards[i]
		one := ShardStats{Addr: sh.addr, Replicas: append([]string(nil), sh.replicas...)}
		sh.link.mu.Lock()
		one.Queued, one.Err = len(sh.link.queue.calls), sh.link.down
		sh.link.mu.Unlock()
		shown.Shards = append(shown.Shards, one)
	}
	for _, sh := range t.slot {
		if sh != nil {
			shown.Shards[sh.index].Slots++
		}
	}
	return shown
}
