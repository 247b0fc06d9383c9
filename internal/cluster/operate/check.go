package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/cluster"
	"weir/internal/doctor"
)

// Finding is what one check of the engine has found.
type Finding struct {
	doctor.Finding
	// Breaks says that a promise does not hold as things are: a node does not start.
	Breaks bool `json:"breaks_promise,omitempty"`
}

// Want is what a node of weir asks of the engine.
type Want struct {
	Replicas     int           // that must have a change before it is answered
	RestartDelay time.Duration // that the operator promises; 0 is unknown
	Users        int64         // that there will be; 0 is unknown
}

// Want returns what the flags ask of the engine.
func (o *Flags) Want() Want { return Want{Replicas: o.replicas, RestartDelay: o.restartDelay} }

// Examine asks all nodes of the engine, and returns a finding for each check, in one order. It changes
// nothing
// there. An error means that no node could be asked.
func Examine(ctx context.Context, o cluster.Options, want Want) ([]Finding, error) {
	f, err := ask(ctx, o)
	if err != nil {
		return nil, err
	}
	return f.examine(want), nil
}

// Breaking returns why the engine does not keep the promises, nil if it does.
func Breaking(findings []Finding) error {
	var errs []error
	for _, f := range findings {
		if f.Breaks {
			errs = append(errs, fmt.Errorf("%s: %s; %s", f.Check, f.Found, f.Mend))
		}
	}
	return errors.Join(errs...)
}

// checks are in the order of the report.
var checks = []struct {
	name string
	look func(*facts, Want) Finding
}{
	{"nodes", (*facts).reachable},
	{"version", (*facts).version},
	{"cluster", (*facts).whole},
	{"coverage", (*facts).coverage},
	{"replicas", (*facts).replicas},
	{"strictness", (*facts).strictness},
	{"placement", (*facts).placement},
	{"WAIT", (*facts).wait},
	{"append-only file", (*facts).appendOnly},
	{"fsync", (*facts).fsync},
	{"restart delay", (*facts).restartDelay},
	{"stale replicas", (*facts).staleReplicas},
	{"min-replicas", (*facts).minReplicas},
	{"eviction", (*facts).eviction},
	{"memory", (*facts).memory},
	{"small hashes", (*facts).smallHashes},
	{"node timeout", (*facts).nodeTimeout},
	{"idle clients", (*facts).idleClients},
	{"backlog", (*facts).backlog},
	{"round trip", (*facts).trip},
	{"clocks", (*facts).clocks},
	{"replication", (*facts).replication},
	{"disk", (*facts).disk},
	{"permissions", (*facts).permissions},
	{"functions", (*facts).functions},
}

func (f *facts) examine(want Want) []Finding {
	findings := make([]Finding, len(checks))
	for i, c := range checks {
		findings[i] = c.look(f, want)
		findings[i].Check = c.name
	}
	return findings
}

// The kinds of findings.

func fine(format string, args ...any) Finding {
	return Finding{Finding: doctor.Finding{Severity: doctor.OK, Found: fmt.Sprintf(format, args...)}}
}

func unseen(format string, args ...any) Finding {
	return Finding{Finding: doctor.Finding{Severity: doctor.Unseen, Found: fmt.Sprintf(format, args...)}}
}

func warn(found, why, mend string) Finding {
	return Finding{Finding: doctor.Finding{Severity: doctor.Warn, Found: found, Why: why, Mend: mend}}
}

func bad(found, why, mend string) Finding {
	return Finding{Finding: doctor.Finding{Severity: doctor.Bad, Found: found, Why: why, Mend: mend}}
}

// broken is bad, and breaks a promise.
func broken(found, why, mend string) Finding {
	f := bad(found, why, mend)
	f.Breaks = true
	return f
}

// keep adds how a change lasts.
func (f Finding) keep(line string) Finding {
	f.Keep = line
	return f
}

// set is how a setting of the engine is changed on all nodes, now and for good.
func set(name, value string) string {
	return fmt.Sprintf("on every node CONFIG SET %s %s", name, value)
}

// line is how a setting lasts.
func line(name, value string) string {
	return fmt.Sprintf("%s %s in every node's configuration file, or CONFIG REWRITE", name, value)
}

// reached returns the nodes that have answered.
func (f *facts) reached() []*node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n *node) bool { return n.err != nil })
}

// names are the addresses of nodes.
func names(nodes []*node) string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.addr
	}
	return strings.Join(all, ", ")
}

// setting returns those nodes of whom a setting's value is not right, by an example of it; and why it cannot
// be seen, if it cannot be anywhere.
func (f *facts) setting(name string, right func(value string) bool) (wrong []*node, value string, err error) {
	seen := false
	for _, n := range f.reached() {
		v, ok := n.config[name]
		if !ok {
			err = cmp.Or(n.configErr, err, fmt.Errorf("%s is not among the settings of %s", name, n.addr))
			continue
		}
		if seen = true; !right(v) {
			wrong, value = append(wrong, n), v
		} else if len(wrong) == 0 {
			value = v
		}
	}
	if seen {
		err = nil
	}
	return wrong, value, err
}

// ruled is a check of a setting alone: where a value is not right, wrong makes the finding, and right is an
// example of one that is.
func (f *facts) ruled(name, right string, wrong func(found, why, mend string) Finding, why string,
	isRight func(value string) bool) Finding {
	nodes, value, err := f.setting(name, isRight)
	switch {
	case err != nil:
		return hidden(name, err)
	case len(nodes) > 0:
		return wrong(fmt.Sprintf("%s is %s on %s", name, value, names(nodes)), why, set(name, right)).
			keep(line(name, right))
	}
	return fine("%s %s", name, value)
}

func is(right string) func(string) bool { return func(v string) bool { return v == right } }

func atLeast(n int64) func(string) bool { return func(v string) bool { return number(v) >= n } }

// number reads a setting or a figure; -1 is none.
func number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// hidden is a finding about a setting that cannot be seen.
func hidden(name string, err error) Finding {
	f := unseen("%s cannot be seen: %v", name, err)
	f.Mend = "let the user run CONFIG GET, or ask whoever runs the engine"
	return f
}

// shard is a primary with its replicas, those that are down included.
type shard struct {
	primary  *node
	replicas []*node
}

func (f *facts) shards() []shard {
	var all []shard
	for _, n := range f.nodes {
		if !n.serves() {
			continue
		}
		s := shard{primary: n}
		for _, r := range f.nodes {
			if r.primaryID == n.id {
				s.replicas = append(s.replicas, r)
			}
		}
		all = append(all, s)
	}
	return all
}
