package clustertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// slots is how many a cluster has.
const slots = 16384

// Cluster is a cluster that runs.
type Cluster struct {
	Options      Options
	Nodes        []*Node       // the primaries of the shards in order, then their replicas
	Certificates *Certificates // nil without Options.TLS

	dir   string
	gates gates
}

// Addrs returns where clients find the nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// Stop ends all nodes.
func (c *Cluster) Stop() error {
	err := each(c.Nodes, (*Node).Kill)
	return errors.Join(err, c.gates.close())
}

// form makes one cluster of nodes that know nothing of each other, and waits until all agree.
func (c *Cluster) form(ctx context.Context) error {
	shards := c.Options.Shards
	err := each(c.Nodes, func(n *Node) (err error) {
		if n.ID, err = n.text(ctx, "CLUSTER", "MYID"); err != nil || n != c.Nodes[n.Shard] {
			return err
		}
		_, err = n.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(n.Shard+1))
		_, also := n.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(n.Shard*slots/shards),
			strconv.Itoa((n.Shard+1)*slots/shards-1))
		return errors.Join(err, also)
	})
	if err != nil {
		return err
	}
	for _, n := range c.Nodes[1:] {
		_, err := c.Nodes[0].Do(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(n.announced),
			strconv.Itoa(n.announcedBus))
		if err != nil {
			return err
		}
	}
	err = each(c.Nodes[shards:], func(n *Node) error {
		return await(ctx, "a replica that knows its primary", func() (bool, error) {
			_, err := n.Do(ctx, "CLUSTER", "REPLICATE", c.Nodes[n.Shard].ID)
			return err == nil, err
		})
	})
	if err != nil {
		return err
	}
	return c.AwaitHealthy(ctx)
}

// AwaitHealthy waits until all nodes are up, agree on who is primary of what, and all replicas have what
// their primary has.
func (c *Cluster) AwaitHealthy(ctx context.Context) error {
	var agreed string
	return await(ctx, "a healthy cluster", func() (bool, error) {
		agreed = ""
		for _, n := range c.Nodes {
			info, err := n.text(ctx, "CLUSTER", "INFO")
			if err != nil {
				return false, err
			}
			f := fields(info)
			if f["cluster_state"] != "ok" || f["cluster_known_nodes"] != strconv.Itoa(len(c.Nodes)) {
				return false, fmt.Errorf("%s: %s", n.Addr(), info)
			}
			replication, err := n.text(ctx, "INFO", "replication")
			if err != nil {
				return false, err
			}
			f = fields(replication)
			if f["role"] == "slave" && f["master_link_status"] != "up" ||
				f["role"] == "master" && f["connected_slaves"] != strconv.Itoa(c.Options.Replicas) {
				return false, fmt.Errorf("%s: %s", n.Addr(), replication)
			}
			view, err := n.view(ctx)
			if err != nil {
				return false, err
			}
			seen := ""
			for _, other := range c.Nodes {
				v := view[other.ID]
				if strings.Contains(v.flags, "fail") || strings.Contains(v.flags, "handshake") {
					return false, fmt.Errorf("%s sees %s as %s", n.Addr(), other.Addr(), v.flags)
				}
				seen += fmt.Sprint(v.primary, v.slots)
			}
			if agreed != "" && seen != agreed {
				return false, fmt.Errorf("%s sees %s, another %s", n.Addr(), seen, agreed)
			}
			agreed = seen
		}
		return true, nil
	})
}

// seen is what a node says of another.
type seen struct {
	flags   string
	primary bool // of slots
	slots   string
}

// view returns what a node says of the cluster, by ids.
func (n *Node) view(ctx context.Context) (map[string]seen, error) {
	text, err := n.text(ctx, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	view := make(map[string]seen)
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 8 {
			view[f[0]] = seen{
				flags:   f[2],
				primary: len(f) > 8 && strings.Contains(f[2], "master") && !strings.Contains(f[2], "fail"),
				slots:   strings.Join(f[8:], " "),
			}
		}
	}
	return view, nil
}

// Primary returns the node that most others take for the primary of a shard now, nil if there is none.
func (c *Cluster) Primary(ctx context.Context, shard int) *Node {
	votes := make(map[*Node]int)
	for _, n := range c.Nodes {
		look, cancel := context.WithTimeout(ctx, time.Second)
		view, err := n.view(look)
		cancel()
		if err != nil {
			continue
		}
		for _, other := range c.Nodes {
			if other.Shard == shard && view[other.ID].primary {
				votes[other]++
			}
		}
	}
	var primary *Node
	for n, count := range votes {
		if count > votes[primary] {
			primary = n
		}
	}
	return primary
}

// Others returns the nodes of a shard but for one.
func (c *Cluster) Others(n *Node) []*Node {
	var others []*Node
	for _, other := range c.Nodes {
		if other.Shard == n.Shard && other != n {
			others = append(others, other)
		}
	}
	return others
}

// AwaitFailover waits until another node is primary of n's shard, and returns it.
func (c *Cluster) AwaitFailover(ctx context.Context, n *Node) (*Node, error) {
	var primary *Node
	err := await(ctx, "a failover", func() (bool, error) {
		primary = c.Primary(ctx, n.Shard)
		return primary != nil && primary != n, nil
	})
	return primary, err
}

// Isolate cuts a node off from all others, as a partition does: nothing is closed, nothing arrives. Clients
// still reach it. It takes Options.Proxies.
func (c *Cluster) Isolate(n *Node) error {
	if !c.Options.Proxies {
		return errors.New("there are no proxies to cut")
	}
	c.gates.set(func() { c.gates.isolated = n })
	return nil
}

// Heal undoes Isolate: what was sent meanwhile arrives.
func (c *Cluster) Heal() { c.gates.set(func() { c.gates.isolated = nil }) }

// DelayReplication has what nodes send each other, but for the bus, arrive later by d. It takes
// Options.Proxies.
func (c *Cluster) DelayReplication(d time.Duration) { c.gates.set(func() { c.gates.delay = d }) }

// Reshard moves n slots from one shard to another, keys and all, as valkey-cli --cluster reshard does.
func (c *Cluster) Reshard(ctx context.Context, from, to, n int) error {
	source, target := c.Primary(ctx, from), c.Primary(ctx, to)
	if source == nil || target == nil {
		return errors.New("there is no primary")
	}
	view, err := source.view(ctx)
	if err != nil {
		return err
	}
	out, err := source.connect()
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := target.connect()
	if err != nil {
		return err
	}
	defer in.Close()
	for _, slot := range ranges(view[source.ID].slots, n) {
		slot := strconv.Itoa(slot)
		steps := []struct {
			client valkey.Client
			args   []string
		}{
			{in, []string{"CLUSTER", "SETSLOT", slot, "IMPORTING", source.ID}},
			{out, []string{"CLUSTER", "SETSLOT", slot, "MIGRATING", target.ID}},
			{in, []string{"CLUSTER", "SETSLOT", slot, "NODE", target.ID}},
			{out, []string{"CLUSTER", "SETSLOT", slot, "NODE", target.ID}},
		}
		for i, step := range steps {
			if i == 2 {
				if err := moveKeys(ctx, out, slot, target.port); err != nil {
					return fmt.Errorf("slot %s: %w", slot, err)
				}
			}
			if _, err := do(ctx, step.client, step.args...); err != nil {
				return fmt.Errorf("%s: %w", strings.Join(step.args, " "), err)
			}
		}
	}
	return nil
}

// migrateSlots is Reshard by what Valkey has for it, all slots at once; Redis has nothing.
func (c *Cluster) migrateSlots(ctx context.Context, from, to, n int) error {
	if c.Options.Server != Valkey {
		return c.Reshard(ctx, from, to, n)
	}
	source, target := c.Primary(ctx, from), c.Primary(ctx, to)
	if source == nil || target == nil {
		return errors.New("there is no primary")
	}
	view, err := source.view(ctx)
	if err != nil {
		return err
	}
	moved := ranges(view[source.ID].slots, n)
	args := []string{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"}
	for i, slot := range moved {
		if i == 0 || slot != moved[i-1]+1 {
			args = append(args, strconv.Itoa(slot))
		}
		if i == len(moved)-1 || slot != moved[i+1]-1 {
			args = append(args, strconv.Itoa(slot))
		}
	}
	if _, err := source.Do(ctx, append(args, "NODE", target.ID)...); err != nil {
		return err
	}
	return await(ctx, "the slots in the other shard", func() (bool, error) {
		view, err := target.view(ctx)
		if err != nil {
			return false, err
		}
		has := make(map[int]bool)
		for _, slot := range ranges(view[target.ID].slots, slots) {
			has[slot] = true
		}
		return !slices.ContainsFunc(moved, func(slot int) bool { return !has[slot] }), nil
	})
}

// moveKeys moves the keys of a slot to the node that listens on a port.
func moveKeys(ctx context.Context, source valkey.Client, slot string, port int) error {
	for {
		m, err := do(ctx, source, "CLUSTER", "GETKEYSINSLOT", slot, "100")
		if err != nil {
			return err
		}
		keys, err := m.AsStrSlice()
		if err != nil || len(keys) == 0 {
			return err
		}
		_, err = do(ctx, source, append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(port), "", "0",
			"5000", "KEYS"}, keys...)...)
		if err != nil {
			return err
		}
	}
}

// ranges returns the first n slots of "0-99 200-299".
func ranges(text string, n int) []int {
	var all []int
	for _, f := range strings.Fields(text) {
		first, last, _ := strings.Cut(f, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			continue // of a slot under way: "[93->-id]"
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			to = from
		}
		for slot := from; slot <= to && len(all) < n; slot++ {
			all = append(all, slot)
		}
	}
	return all
}
