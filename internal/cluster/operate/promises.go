package operate

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/doctor"
)

func (f *facts) reachable(Want) Finding {
	var down []*node
	var reason error
	for _, n := range f.nodes {
		if !n.up() {
			down = append(down, n)
			reason = cmp.Or(n.err, reason)
		}
	}
	if len(down) == 0 {
		return fine("%d nodes, %d of them primaries, all answer", len(f.nodes), len(f.shards()))
	}
	found := fmt.Sprintf("%d of %d nodes are down or cannot be reached from here: %s", len(down),
		len(f.nodes), names(down))
	if reason != nil {
		found += fmt.Sprintf(" (%v)", reason)
	}
	for _, n := range down {
		if n.serves() {
			return bad(found, "the users of a primary that is down are answered 503", "start it again, or "+
				"promote a replica; addresses must be those that weir can reach (cluster-announce-ip)")
		}
	}
	return warn(found, "a shard without enough replicas answers 503",
		"start them again; addresses must be those that weir can reach (cluster-announce-ip)")
}

func (f *facts) version(Want) Finding {
	var seen []string
	for _, n := range f.reached() {
		v := n.info["redis_version"] // Valkey says there which Redis it is like
		major, _, _ := strings.Cut(v, ".")
		if number(major) < 7 {
			return broken(fmt.Sprintf("%s is version %q", n.addr, v),
				"functions, by which positions are advanced once, came with 7.0", "update it")
		}
		if valkey := n.info["valkey_version"]; valkey != "" {
			v = "Valkey " + valkey
		} else {
			v = "Redis " + v
		}
		if !slices.Contains(seen, v) {
			seen = append(seen, v)
		}
	}
	return fine("%s", strings.Join(seen, ", "))
}

// allSlots is how many slots a cluster has.
const allSlots = 16384

func (f *facts) whole(Want) Finding {
	for _, n := range f.reached() {
		if n.info["cluster_enabled"] == "0" {
			return broken(n.addr+" is no part of a cluster", "weir's keys are spread over shards",
				"set cluster-enabled yes, and make a cluster by valkey-cli --cluster create")
		}
	}
	for _, n := range f.reached() {
		if n.state["cluster_state"] != "ok" {
			return bad(fmt.Sprintf("%s says that cluster_state is %q", n.addr, n.state["cluster_state"]),
				"it refuses commands, which weir answers by 503", "valkey-cli --cluster check "+n.addr)
		}
	}
	if f.slots != allSlots {
		return bad(fmt.Sprintf("%d of %d slots belong to a node", f.slots, allSlots),
			"users in the others are answered 503", "valkey-cli --cluster fix "+f.nodes[0].addr)
	}
	return fine("state ok, all %d slots in %d shards", allSlots, len(f.shards()))
}

func (f *facts) coverage(Want) Finding {
	return f.ruled("cluster-require-full-coverage", "no", warn,
		"when one shard is lost, all users are answered 503 instead of those of that shard", is("no"))
}

func (f *facts) replicas(want Want) Finding {
	var few []*node
	least := -1
	for _, s := range f.shards() {
		if len(s.replicas) < max(1, want.Replicas) {
			few = append(few, s.primary)
		}
		if least < 0 || len(s.replicas) < least {
			least = len(s.replicas)
		}
	}
	switch {
	case want.Replicas == 0:
		return broken("--cluster-replicas is 0", "what a primary has answered is lost with it, and items "+
			"are given twice", "--cluster-replicas 1")
	case len(few) > 0:
		return broken(fmt.Sprintf("the shards of %s have fewer than %d replicas", names(few), want.Replicas),
			"no change can be answered there: it must be on as many replicas first",
			"valkey-cli --cluster add-node NEW "+few[0].addr+" --cluster-slave, for each")
	}
	return fine("%d or more a shard, %d must have a change", max(0, least), want.Replicas)
}

func (f *facts) strictness(want Want) Finding {
	for _, s := range f.shards() {
		if want.Replicas > 0 && len(s.replicas) > want.Replicas {
			return warn(fmt.Sprintf("the shard of %s has %d replicas, and %d of them must have a change",
				s.primary.addr, len(s.replicas), want.Replicas), "after a failover the new primary "+
				"is mostly, and not always, one that has it", fmt.Sprintf("--cluster-replicas %d, at the "+
				"price of 503 while one of them is away", len(s.replicas)))
		}
	}
	return fine("a replica that takes over has every change that was answered")
}

func (f *facts) placement(Want) Finding {
	for _, s := range f.shards() {
		host, _, _ := net.SplitHostPort(s.primary.addr)
		together := 0
		for _, r := range s.replicas {
			if at, _, _ := net.SplitHostPort(r.addr); at == host {
				together++
			}
		}
		if together > 0 && together == len(s.replicas) {
			return warn(fmt.Sprintf("the primary %s and its replicas have the same address", s.primary.addr),
				"a machine that is lost takes all copies of the shard", "move a replica to another machine")
		}
	}
	return fine("no shard is on one machine alone")
}

func (f *facts) wait(want Want) Finding {
	for _, s := range f.shards() {
		n := s.primary
		switch {
		case n.err != nil:
		case n.waitErr != nil:
			return broken(fmt.Sprintf("WAIT on %s: %v", n.addr, n.waitErr),
				"without it nobody knows what a failover would take back, and items are given twice",
				"allow WAIT, or use an engine that has it")
		case n.waited < int64(want.Replicas):
			return bad(fmt.Sprintf("%d replicas of %s are connected, %d must have a change", n.waited, n.addr,
				want.Replicas), "changes are answered 503 meanwhile", "start them, or see why they do not "+
				"follow")
		}
	}
	return fine("%d replicas of every shard answer it", want.Replicas)
}

func (f *facts) appendOnly(Want) Finding {
	return f.ruled("appendonly", "yes", broken, "a node that ends comes back empty: all positions of its "+
		"shard begin again when its copies have ended together", is("yes"))
}

func (f *facts) staleReplicas(Want) Finding {
	return f.ruled("cluster-replica-validity-factor", "10", broken,
		"a node that was started again may take over with what its file had, before it has caught up",
		func(v string) bool { return v != "0" })
}

func (f *facts) fsync(Want) Finding {
	found := f.ruled("appendfsync", "everysec", broken, "a loss of power takes half a minute of changes, "+
		"and gives their items again", func(v string) bool { return v == "always" || v == "everysec" })
	if found.Severity != doctor.OK {
		return found
	}
	if wrong, _, err := f.setting("no-appendfsync-on-rewrite", is("no")); err == nil && len(wrong) > 0 {
		return warn("no-appendfsync-on-rewrite is yes on "+names(wrong),
			"while the file is written anew nothing is synced", set("no-appendfsync-on-rewrite", "no"))
	}
	return found
}

// nodeTimeouts returns the shortest and the longest cluster-node-timeout.
func (f *facts) nodeTimeouts() (shortest, longest time.Duration, err error) {
	_, _, err = f.setting("cluster-node-timeout", func(v string) bool {
		timeout := time.Duration(number(v)) * time.Millisecond
		longest = max(longest, timeout)
		if shortest == 0 || timeout < shortest {
			shortest = timeout
		}
		return true
	})
	return shortest, longest, err
}

func (f *facts) restartDelay(want Want) Finding {
	wrong, _, err := f.setting("appendfsync", is("always"))
	if err == nil && len(wrong) == 0 {
		return fine("of no matter with appendfsync always")
	}
	const why = "a primary that is killed and back before a replica has taken over may have lost the last " +
		"changes, though a replica has them: it stays the primary, and gives their items again"
	_, timeout, err := f.nodeTimeouts()
	if err != nil {
		if want.RestartDelay > 0 {
			return unseen("cluster-node-timeout cannot be seen; twice that must be below "+
				"--cluster-restart-delay %v", want.RestartDelay)
		}
		timeout = 15 * time.Second
	}
	least := 2*timeout + time.Second
	mend := fmt.Sprintf("have systemd or your orchestrator wait %v before it starts a node of the engine "+
		"again (RestartSec=%.0f), and say so by --cluster-restart-delay %v; or set appendfsync always on "+
		"every node, at half the rate", least, least.Seconds(), least)
	switch {
	case want.RestartDelay == 0:
		return broken("nothing in the engine tells how soon a node that has ended is started again, and "+
			"--cluster-restart-delay is not given", why, mend)
	case want.RestartDelay <= 2*timeout:
		return broken(fmt.Sprintf("--cluster-restart-delay %v is not above twice cluster-node-timeout, %v",
			want.RestartDelay, 2*timeout), why, mend)
	}
	return fine("%v by --cluster-restart-delay, above twice cluster-node-timeout, %v", want.RestartDelay,
		2*timeout)
}

func (f *facts) minReplicas(want Want) Finding {
	least := max(1, want.Replicas)
	return f.ruled("min-replicas-to-write", strconv.Itoa(least), warn, "a primary without replicas goes on "+
		"advancing positions whose answers are 503: their items are skipped", atLeast(int64(least)))
}
