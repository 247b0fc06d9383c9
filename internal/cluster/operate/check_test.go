package operate

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/doctor"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }

// engine returns the facts of an engine of one shard with a replica, to which nothing is amiss, and what a
// node wants that finds no fault with it.
func engine() (*facts, Want) {
	config := func() map[string]string {
		return map[string]string{"cluster-require-full-coverage": "no", "appendonly": "yes",
			"appendfsync": "everysec", "no-appendfsync-on-rewrite": "no", "cluster-node-timeout": "5000",
			"min-replicas-to-write": "1", "maxmemory-policy": "noeviction",
			"hash-max-listpack-entries": "512",
			"hash-max-listpack-value":   "64", "timeout": "0", "repl-backlog-size": "268435456",
			"cluster-replica-validity-factor": "10"}
	}
	info := func() map[string]string {
		return map[string]string{"redis_version": "7.0.15", "cluster_enabled": "1",
			"maxmemory":   "1000000000",
			"used_memory": "1000000", "aof_last_write_status": "ok",
			"slave0": "ip=10.0.0.2,port=6379,state=online,offset=14,lag=0"}
	}
	state := func() map[string]string { return map[string]string{"cluster_state": "ok"} }
	return &facts{slots: allSlots, nodes: []*node{
		{addr: "10.0.0.1:6379", id: "a", slots: allSlots, info: info(), state: state(), config: config(),
			roundTrip: time.Millisecond, waited: 1},
		{addr: "10.0.0.2:6379", id: "b", primaryID: "a", info: info(), state: state(), config: config(),
			roundTrip: time.Millisecond},
	}}, Want{Replicas: 1, RestartDelay: 11 * time.Second, Users: 1_000_000}
}

func TestASoundEngineHasNoFindings(t *testing.T) {
	f, want := engine()
	for _, found := range f.examine(want) {
		if found.Severity != doctor.OK || found.Breaks || found.Found == "" {
			t.Errorf("%+v", found)
		}
	}
}

func TestWhatIsWrongWithAnEngineIsFound(t *testing.T) {
	set := func(name, value string) func(*facts, *Want) {
		return func(f *facts, _ *Want) { f.nodes[0].config[name] = value }
	}
	info := func(name, value string) func(*facts, *Want) {
		return func(f *facts, _ *Want) { f.nodes[0].info[name] = value }
	}
	const broken doctor.Severity = "broken"
	for name, c := range map[string]struct {
		check    string
		severity doctor.Severity
		spoil    func(*facts, *Want)
	}{
		"no replica":       {"replicas", broken, func(f *facts, _ *Want) { f.nodes = f.nodes[:1] }},
		"too few replicas": {"replicas", broken, func(_ *facts, w *Want) { w.Replicas = 2 }},
		"WAIT off":         {"replicas", broken, func(_ *facts, w *Want) { w.Replicas = 0 }},
		"more replicas": {"strictness", doctor.Warn, func(f *facts, _ *Want) {
			f.nodes = append(f.nodes, &node{addr: "10.0.0.3:6379", primaryID: "a", err: os.ErrClosed})
		}},
		"a replica down": {"nodes", doctor.Warn, func(f *facts, _ *Want) { f.nodes[1].failed = true }},
		"a primary down": {"nodes", doctor.Bad, func(f *facts, _ *Want) { f.nodes[0].err = os.ErrClosed }},
		"one machine": {"placement", doctor.Warn, func(f *facts, _ *Want) {
			f.nodes[1].addr = "10.0.0.1:6380"
		}},
		"no WAIT": {"WAIT", broken, func(f *facts,
			_ *Want) {
			f.nodes[0].waitErr = os.ErrPermission
		}},
		"a replica away": {"WAIT", doctor.Bad, func(f *facts, _ *Want) { f.nodes[0].waited = 0 }},
		"old":            {"version", broken, info("redis_version", "6.2.6")},
		"no cluster":     {"cluster", broken, info("cluster_enabled", "0")},
		"state": {"cluster", doctor.Bad, func(f *facts, _ *Want) {
			f.nodes[1].state["cluster_state"] = "fail"
		}},
		"slots":       {"cluster", doctor.Bad, func(f *facts, _ *Want) { f.slots-- }},
		"coverage":    {"coverage", doctor.Warn, set("cluster-require-full-coverage", "yes")},
		"no file":     {"append-only file", broken, set("appendonly", "no")},
		"no fsync":    {"fsync", broken, set("appendfsync", "no")},
		"fsync rests": {"fsync", doctor.Warn, set("no-appendfsync-on-rewrite", "yes")},
		"no delay":    {"restart delay", broken, func(_ *facts, w *Want) { w.RestartDelay = 0 }},
		"short delay": {"restart delay", broken, set("cluster-node-timeout", "5500")},
		"minimum":     {"min-replicas", doctor.Warn, set("min-replicas-to-write", "0")},
		"stale":       {"stale replicas", broken, set("cluster-replica-validity-factor", "0")},
		"eviction":    {"eviction", broken, set("maxmemory-policy", "allkeys-lru")},
		"users":       {"memory", doctor.Bad, func(_ *facts, w *Want) { w.Users = 40_000_000 }},
		"no maxmemory": {"memory", doctor.Warn, func(f *facts, _ *Want) {
			f.nodes[0].info["maxmemory"], f.nodes[0].info["total_system_memory"] = "0", "1000000000"
		}},
		"short hashes":   {"small hashes", doctor.Warn, set("hash-max-listpack-entries", "64")},
		"short values":   {"small hashes", doctor.Warn, set("hash-max-listpack-value", "4")},
		"hasty failover": {"node timeout", doctor.Warn, set("cluster-node-timeout", "500")},
		"late failover":  {"node timeout", doctor.Warn, set("cluster-node-timeout", "20000")},
		"idle clients":   {"idle clients", doctor.Warn, set("timeout", "30")},
		"short backlog":  {"backlog", doctor.Warn, set("repl-backlog-size", "1048576")},
		"far away": {"round trip", doctor.Warn, func(f *facts, _ *Want) {
			f.nodes[1].roundTrip = 30 * time.Millisecond
		}},
		"clock": {"clocks", doctor.Warn, func(f *facts, _ *Want) { f.nodes[1].skew = -time.Second }},
		"lag":   {"replication", doctor.Warn, info("slave0", "ip=h,port=1,state=online,offset=1,lag=9")},
		"copying": {"replication", doctor.Warn, info("slave0",
			"ip=h,port=1,state=send_bulk,offset=1,lag=0")},
		"disk": {"disk", doctor.Bad, info("aof_last_write_status", "err")},
		"forbidden": {"permissions", doctor.Bad, func(f *facts,
			_ *Want) {
			f.nodes[0].forbidden = []string{"FCALL"}
		}},
		"no DRYRUN": {"permissions", doctor.Unseen, func(f *facts,
			_ *Want) {
			f.nodes[0].aclErr = os.ErrPermission
		}},
		"no CONFIG": {"fsync", doctor.Unseen, func(f *facts, _ *Want) {
			for _, n := range f.nodes {
				n.config, n.configErr = nil, os.ErrPermission
			}
		}},
	} {
		f, want := engine()
		c.spoil(f, &want)
		for _, found := range f.examine(want) {
			if found.Check != c.check {
				continue
			}
			severity := found.Severity
			if found.Breaks {
				severity = broken
			}
			if severity != c.severity || found.Mend == "" || found.Severity != doctor.Unseen &&
				found.Why == "" {
				t.Errorf("%s: got %s %+v, want %s", name, severity, found, c.severity)
			}
		}
	}
}

func TestFsyncAlwaysNeedsNoRestartDelay(t *testing.T) {
	f, want := engine()
	want.RestartDelay = 0
	for _, n := range f.nodes {
		n.config["appendfsync"] = "always"
	}
	for _, found := range f.examine(want) {
		if found.Breaks {
			t.Errorf("%+v", found)
		}
	}
}

func TestNodesAreReadAsTheyDescribeThemselves(t *testing.T) {
	f, err := readNodes("aa :6379@16379 myself,master - 0 0 1 connected 0-99 200 [300->-bb]\n"+
		"bb ::1:6380@16380,host master,fail - 0 0 2 connected 300-16383\n"+
		"cc 10.0.0.3:6381@16381 slave,fail? aa 0 0 1 connected\n"+
		"dd :0@0 master,noaddr - 0 0 0 disconnected\n", "10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range f.nodes {
		got = append(got, n.addr+" "+n.primaryID)
	}
	if want := "10.0.0.1:6379 ,10.0.0.3:6381 aa,[::1]:6380 "; strings.Join(got, ",") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ","), want)
	}
	if f.nodes[0].slots != 101 || f.nodes[2].slots != 16084 || !f.nodes[1].failed || !f.nodes[2].failed {
		t.Errorf("%+v %+v %+v", *f.nodes[0], *f.nodes[1], *f.nodes[2])
	}
	for _, wrong := range []string{"aa", "aa x master - 0 0 1 connected", "aa h:1@2 master - 0 0 1 " +
		"connected 9-x"} {
		if _, err := readNodes(wrong, "h"); err == nil {
			t.Errorf("no error of %q", wrong)
		}
	}
}

func TestRealServersAreExaminedAndLeftAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, server := range clustertest.Servers() {
		t.Run(string(server), func(t *testing.T) {
			t.Parallel()
			c := clustertest.Start(t, clustertest.Options{Server: server, Replicas: 1})
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			node := c.Primary(ctx, 0)
			keys := func() string {
				size, err := node.Do(ctx, "DBSIZE")
				if err != nil {
					t.Fatal(err)
				}
				return size.String()
			}
			before := keys()
			o := cluster.Options{Addrs: c.Addrs()[:1], Replicas: 1, Timeout: 10 * time.Second,
				Prefix: "weir"}
			findings, err := Examine(ctx, o, Want{Replicas: 1, RestartDelay: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				t.Logf("%s: %s: %s", f.Severity, f.Check, f.Found)
				if f.Severity == doctor.Unseen || f.Severity == doctor.Bad && !f.Breaks {
					t.Errorf("%+v", f)
				}
			}
			if after := keys(); before != after {
				t.Errorf("%s keys before, %s after", before, after)
			}
			// What one must not see is said to be unseen.
			for _, n := range c.Nodes {
				if _, err := n.Do(ctx, "ACL", "SETUSER", "blind", "on", ">secret", "~*", "+@all",
					"-config", "-acl",
					"-fcall"); err != nil {
					t.Fatal(err)
				}
			}
			o.User, o.Password = "blind", "secret"
			if findings, err = Examine(ctx, o, Want{Replicas: 1, RestartDelay: time.Minute}); err != nil {
				t.Fatal(err)
			}
			for _, f := range findings {
				if (f.Check == "append-only file" || f.Check == "permissions") &&
					f.Severity != doctor.Unseen {
					t.Errorf("%+v", f)
				}
			}
			o.Password = "wrong"
			if _, err = Examine(ctx, o, Want{}); err == nil || strings.Contains(err.Error(), "wrong:") {
				t.Errorf("with a wrong password: %v", err)
			}
		})
	}
}
