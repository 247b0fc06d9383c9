package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read reads from a replica of the shard that has slot where there is one that answers, and from the primary
// otherwise: what it returns may be old. It has connections of its own, so a command may be large and may
// wait, as XREAD BLOCK does. It returns within Options.Timeout and the time of BLOCK, or when ctx ends.
// Errors are ErrUnavailable, and Error for what the engine says about the command.
func (c *Client) Read(ctx context.Context, slot uint16, args ...string) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout+block(args))
	defer cancel()
	sh := c.table.Load().slot[slot%slots]
	if sh == nil {
		c.refreshSoon()
		return Reply{}, unavailable(fmt.Errorf("no primary has slot %d", slot))
	}
	nodes := slices.Clone(sh.replicas)
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	nodes = append(nodes, sh.addr)
	var last error
	for hops := 0; len(nodes) > 0 && ctx.Err() == nil && hops < maxHops; hops++ {
		addr := nodes[0]
		nodes = nodes[1:]
		// One that does not answer leaves time for another.
		attempt, cancel := context.WithTimeout(ctx, c.o.Timeout/2+block(args))
		replies, err := c.pool.do(attempt, addr, args)
		cancel()
		if err == nil {
			err = replies[0].Err()
		}
		if err == nil {
			return replies[0], nil
		}
		last = err
		var said Error
		if !errors.As(err, &said) {
			c.refreshSoon()
			continue
		}
		switch code, _, _ := strings.Cut(string(said), " "); {
		case code == "MOVED":
			c.refreshSoon()
			if _, to, ok := redirect(addr, string(said)); ok {
				nodes = append([]string{to}, nodes...)
			}
		case !refusals[code]:
			return replies[0], said
		}
	}
	return Reply{}, unavailable(errors.Join(last, ctx.Err()))
}

// block returns how long a command may wait by its BLOCK, in milliseconds there.
func block(args []string) time.Duration {
	for i, arg := range args[:max(0, len(args)-1)] {
		if strings.EqualFold(arg, "BLOCK") {
			ms, _ := strconv.Atoi(args[i+1])
			return time.Duration(ms) * time.Millisecond
		}
	}
	return 0
}

// Node is one node of the cluster.
type Node struct {
	Addr    string
	Primary bool
	Shard   int // its index, by the lowest slot
	c       *Client
}

// Do sends a command to the node and returns the answer: INFO, CONFIG GET, FUNCTION LIST. It may be sent
// again where a connection has ended. An error reply is an Error.
func (n Node) Do(ctx context.Context, args ...string) (Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, n.c.o.Timeout)
	defer cancel()
	replies, err := n.c.pool.do(ctx, n.Addr, args)
	if err != nil {
		return Reply{}, unavailable(err)
	}
	return replies[0], replies[0].Err()
}

// Nodes returns the nodes that are known, shard by shard, the primary first.
func (c *Client) Nodes() []Node {
	var nodes []Node
	for _, sh := range c.table.Load().shards {
		nodes = append(nodes, Node{sh.addr, true, sh.index, c})
		for _, addr := range sh.replicas {
			nodes = append(nodes, Node{addr, false, sh.index, c})
		}
	}
	return nodes
}

// Each learns again which nodes there are and calls f with each, one after the other. It returns f's errors,
// joined, with the addresses of their nodes.
func (c *Client) Each(ctx context.Context, f func(ctx context.Context, n Node) error) error {
	if err := c.refresh(ctx); err != nil {
		return unavailable(err)
	}
	var errs []error
	for _, n := range c.Nodes() {
		if err := f(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Addr, err))
		}
	}
	return errors.Join(errs...)
}

// Primary returns the address of the primary that has slot, "" where there is none.
func (c *Client) Primary(slot uint16) string {
	if sh := c.table.Load().slot[slot%slots]; sh != nil {
		return sh.addr
	}
	return ""
}
