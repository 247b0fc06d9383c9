package operate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/doctor"
)

func (f *facts) eviction(Want) Finding {
	return f.ruled("maxmemory-policy", "noeviction", broken,
		"positions are thrown away when memory is short, and their users begin again", is("noeviction"))
}

// What a user takes in the engine at most, ids that are no numbers; see docs/cluster.md.
const userBytes = 25

func (f *facts) memory(want Want) Finding {
	var bound, used int64
	unbound := false
	for _, s := range f.shards() {
		n := s.primary
		if n.err != nil {
			continue
		}
		of := number(n.info["maxmemory"])
		if of <= 0 {
			unbound = true
			of = max(0, number(n.info["total_system_memory"]))
		}
		bound += of
		used += max(0, number(n.info["used_memory"]))
	}
	found := fmt.Sprintf("%s of %s used in all primaries", config.Size(used), config.Size(bound))
	needed := used
	if want.Users > 0 {
		needed += want.Users * userBytes
		found += fmt.Sprintf(", and %s for %d users", config.Size(want.Users*userBytes), want.Users)
	}
	switch {
	case bound == 0:
		return unseen("INFO says nothing of memory")
	case needed > bound*9/10:
		return bad(found, "writes are refused when it is full, which weir answers by 503",
			"more memory (maxmemory), or more shards")
	case unbound:
		return warn(found+", with no maxmemory", "the system kills a node that takes too much, instead "+
			"of its refusing writes", "set maxmemory to some 60 % of the machine's: a rewrite of the "+
			"append-only file needs the rest")
	}
	return fine("%s", found)
}

func (f *facts) smallHashes(Want) Finding {
	found := f.ruled("hash-max-listpack-entries", "512", warn, "users whose ids are no numbers share "+
		"hashes, sixty in each at first; a hash that is longer takes four times the memory", atLeast(128))
	if found.Severity != doctor.OK {
		return found
	}
	return f.ruled("hash-max-listpack-value", "64", warn,
		"users whose ids are no numbers take four times the memory", atLeast(16))
}

func (f *facts) nodeTimeout(Want) Finding {
	const name = "cluster-node-timeout"
	shortest, timeout, err := f.nodeTimeouts()
	switch {
	case err != nil:
		return hidden(name, err)
	case shortest < time.Second:
		return warn(fmt.Sprintf("%s is %v", name, shortest), "a pause of a busy node is taken for its end",
			set(name, "5000")).keep(line(name, "5000"))
	case timeout > 15*time.Second:
		return warn(fmt.Sprintf("%s is %v", name, timeout), "the users of a lost primary are answered 503 "+
			"for longer than that", set(name, "5000")).keep(line(name, "5000"))
	}
	return fine("%s %v: a failover takes a little longer", name, timeout)
}

func (f *facts) idleClients(Want) Finding {
	return f.ruled("timeout", "0", warn, "connections of a quiet node are closed all the time",
		func(v string) bool { return v == "0" || number(v) >= 60 })
}

func (f *facts) backlog(Want) Finding {
	return f.ruled("repl-backlog-size", "256mb", warn, "a replica that was away for some seconds copies "+
		"everything anew, and changes are answered 503 meanwhile", atLeast(16<<20))
}

// most returns the node of which something is the longest, nil where there is none.
func (f *facts) most(of func(*node) time.Duration) (worst *node) {
	for _, n := range f.reached() {
		if worst == nil || of(n) > of(worst) {
			worst = n
		}
	}
	return worst
}

func (f *facts) trip(Want) Finding {
	slowest := f.most(func(n *node) time.Duration { return n.roundTrip })
	if slowest == nil || slowest.roundTrip == 0 {
		return unseen("TIME is not allowed")
	}
	found := fmt.Sprintf("%v to the farthest, %s", slowest.roundTrip.Round(10*time.Microsecond), slowest.addr)
	if slowest.roundTrip > 2*time.Millisecond {
		return warn(found, "an answer takes that long, and as long again to the replica and back",
			"put weir and the engine into one zone")
	}
	return fine("%s", found)
}

func (f *facts) clocks(Want) Finding {
	worst := f.most(func(n *node) time.Duration { return n.skew.Abs() })
	if worst == nil || worst.roundTrip == 0 {
		return unseen("TIME is not allowed")
	}
	found := fmt.Sprintf("%v from this machine's at most, on %s", worst.skew.Round(time.Millisecond),
		worst.addr)
	if worst.skew.Abs() > 500*time.Millisecond+worst.roundTrip {
		return warn(found, "the times of events and of leases are compared across machines",
			"run chrony or systemd-timesyncd everywhere")
	}
	return fine("%s", found)
}

func (f *facts) replication(Want) Finding {
	worst, at := int64(0), ""
	for _, s := range f.shards() {
		for i := range s.replicas {
			slave := s.primary.info["slave"+strconv.Itoa(i)]
			values := map[string]string{}
			for part := range strings.SplitSeq(slave, ",") {
				if name, value, ok := strings.Cut(part, "="); ok {
					values[name] = value
				}
			}
			if values["state"] != "" && values["state"] != "online" {
				return warn(fmt.Sprintf("%s:%s is %s", values["ip"], values["port"], values["state"]),
					"it copies everything, and changes of the shard are answered 503 until it has, unless "+
						"there is another replica", "wait")
			}
			if lag := number(values["lag"]); lag > worst {
				worst, at = lag, values["ip"]+":"+values["port"]
			}
		}
	}
	if worst > 2 {
		return warn(fmt.Sprintf("%s was last heard of by its primary %d s ago", at, worst),
			"a change is answered when a replica has it", "see whether the machine or its network is busy")
	}
	return fine("replicas follow")
}

func (f *facts) disk(Want) Finding {
	for _, n := range f.reached() {
		if v := n.info["aof_last_write_status"]; v != "" && v != "ok" {
			return bad(fmt.Sprintf("%s cannot write its append-only file", n.addr), "it refuses all writes",
				"free space on its disk")
		}
	}
	return fine("append-only files are written")
}

func (f *facts) permissions(Want) Finding {
	const rule = "ACL SETUSER USER on >PASSWORD ~weir:* resetchannels -@all +@read +@write +@connection " +
		"+cluster +info +time +wait +function +fcall +config|get +acl|whoami +acl|dryrun on every node"
	var err error
	for _, n := range f.reached() {
		if len(n.forbidden) > 0 {
			return bad(fmt.Sprintf("user %s may not use %s on %s", n.user, strings.Join(n.forbidden, ", "),
				n.addr), "what needs them fails", rule)
		}
		err = cmp.Or(err, n.aclErr)
	}
	if err != nil {
		u := unseen("what the user may do cannot be seen: %v", err)
		u.Mend = rule
		return u
	}
	return fine("the user may do all that weir needs")
}

func (f *facts) functions(Want) Finding {
	loaded := 0
	for _, s := range f.shards() {
		if slices.ContainsFunc(s.primary.libraries, func(l string) bool {
			return strings.HasPrefix(l, "weir")
		}) {
			loaded++
		}
	}
	if loaded == 0 {
		return fine("weir's are loaded when the first node starts")
	}
	return fine("weir's are on %d of %d primaries; a node loads them where they are missing", loaded,
		len(f.shards()))
}
