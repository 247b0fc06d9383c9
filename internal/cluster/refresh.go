package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// When the table is learned again without a reason, and how soon at most for one.
const (
	refreshInterval = 10 * time.Second
	refreshPause    = 100 * time.Millisecond
)

// maxAsked is how many nodes are asked at a time, and straggle is how long those are waited for that answer
// later than the first.
const (
	maxAsked = 7
	straggle = 200 * time.Millisecond
)

// refreshSoon asks for the table to be learned again.
func (c *Client) refreshSoon() {
	select {
	case c.stale <- struct{}{}:
	default:
	}
}

// watch learns the table again every so often and when asked to, until the client is closed.
func (c *Client) watch() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		<-pause.C
		interval := time.NewTimer(refreshInterval - rand.N(refreshInterval/4))
		regular := false
		select {
		case <-c.stale:
		case <-interval.C:
			regular = true
		case <-c.done:
		}
		interval.Stop()
		if c.closing.Load() {
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.o.Timeout/2)
		if err := c.refresh(ctx); err != nil {
			c.o.Log.Warn("cluster: no node says which shards there are", "error", err)
		}
		if regular {
			c.checkFormat(ctx)
		}
		cancel()
		pause.Reset(refreshPause)
	}
}

// refresh learns the table from several nodes, and puts it to use.
func (c *Client) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	type answer struct {
		v   *view
		err error
	}
	nodes := c.known()
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	nodes = nodes[:min(len(nodes), maxAsked)]
	answers := make(chan answer, len(nodes))
	for _, addr := range nodes {
		go func() {
			v, err := c.ask(ctx, addr)
			answers <- answer{v, err}
		}()
	}
	var views []*view
	var errs []error
	for range nodes {
		a := <-answers
		if a.err != nil {
			errs = append(errs, a.err)
			continue
		}
		if len(views) == 0 {
			stop := time.AfterFunc(straggle, cancel)
			defer stop.Stop()
		}
		views = append(views, a.v)
	}
	if len(views) == 0 {
		return errors.Join(errs...)
	}
	t := newTable(views)
	if len(t.shards) == 0 {
		return errors.New("no node of the cluster has a slot")
	}
	c.replace(t)
	return nil
}

// known returns the addresses of all nodes, and those that were given.
func (c *Client) known() []string {
	set := make(map[string]bool)
	for _, addr := range c.o.Addrs {
		set[addr] = true
	}
	for _, sh := range c.table.Load().shards {
		set[sh.addr] = true
		for _, addr := range sh.replicas {
			set[addr] = true
		}
	}
	return slices.Collect(maps.Keys(set))
}

// ask asks one node.
func (c *Client) ask(ctx context.Context, addr string) (*view, error) {
	replies, err := c.pool.do(ctx, addr, []string{"CLUSTER", "SLOTS"}, []string{"CLUSTER", "NODES"})
	if err != nil {
		return nil, err
	}
	v, err := parseView(addr, replies[0], replies[1])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	return v, nil
}

// replace puts a new table to use, and retires the links to what is no primary any more.
func (c *Client) replace(t *table) {
	old := c.table.Load()
	c.mu.Lock()
	c.install(t)
	primaries := make(map[string]bool)
	for _, sh := range t.shards {
		primaries[sh.addr] = true
	}
	for addr, l := range c.links {
		if !primaries[addr] {
			delete(c.links, addr)
			l.retire()
		}
	}
	c.mu.Unlock()
	nodes := c.known()
	c.pool.keep(func(addr string) bool { return slices.Contains(nodes, addr) })
	if was, is := old.addrs(), t.addrs(); !slices.Equal(was, is) && len(was) > 0 {
		c.o.Log.Info("cluster: other primaries", "were", was, "are", is)
	}
}

// addrs returns those of the primaries, sorted.
func (t *table) addrs() []string {
	var addrs []string
	for _, sh := range t.shards {
		addrs = append(addrs, sh.addr)
	}
	slices.Sort(addrs)
	return addrs
}
