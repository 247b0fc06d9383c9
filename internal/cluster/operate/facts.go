package operate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"weir/internal/cluster"
)

// facts are what the engine's nodes say of themselves.
type facts struct {
	nodes []*node
	slots int // that a primary serves
}

// node is one node of the engine.
type node struct {
	addr, id  string
	primaryID string // of a replica
	slots     int    // that it serves
	failed    bool   // as the others say

	err       error // it cannot be asked
	info      map[string]string
	state     map[string]string // CLUSTER INFO
	config    map[string]string
	configErr error
	roundTrip time.Duration // median
	skew      time.Duration // its clock against this machine's
	waited    int64         // replicas that WAIT has counted
	waitErr   error
	user      string   // that weir is
	forbidden []string // commands that it may not use
	aclErr    error    // or why that is not known
	libraries []string // of functions
}

// serves says whether the node is the primary of a shard.
func (n *node) serves() bool { return n.primaryID == "" && n.slots > 0 }

// up says whether the node can be used.
func (n *node) up() bool { return n.err == nil && !n.failed }

// ask asks the engine's nodes, all at once. An error means that none of those named could be asked; what a
// single one does not say is in its facts.
func ask(ctx context.Context, o cluster.Options) (*facts, error) {
	var f *facts
	var errs []error
	for _, addr := range o.Addrs {
		client, err := dial(addr, o)
		if err == nil {
			f, err = discover(ctx, client, addr)
			client.Close()
		}
		if err == nil {
			break
		}
		if errs = append(errs, fmt.Errorf("%s: %w", addr, err)); ctx.Err() != nil {
			break
		}
	}
	if f == nil {
		return nil, fmt.Errorf("no node of --cluster can be asked: %w", errors.Join(errs...))
	}
	var all sync.WaitGroup
	for _, n := range f.nodes {
		if n.serves() {
			f.slots += n.slots
		}
		all.Go(func() { n.ask(ctx, o) })
	}
	all.Wait()
	return f, nil
}

// dial connects to one node and no other.
func dial(addr string, o cluster.Options) (valkey.Client, error) {
	option := valkey.ClientOption{InitAddress: []string{addr}, Username: o.User, Password: o.Password,
		ForceSingleClient: true, DisableCache: true, DisableRetry: true, AlwaysPipelining: true,
		PipelineMultiplex: -1, Dialer: net.Dialer{Timeout: o.Timeout}, ConnWriteTimeout: o.Timeout}
	if o.TLS != nil {
		option.TLSConfig = o.TLS.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil && option.TLSConfig.ServerName == "" {
			option.TLSConfig.ServerName = host
		}
	}
	return valkey.NewClient(option)
}

// do sends one command.
func do(ctx context.Context, c valkey.Client, args ...string) (valkey.ValkeyMessage, error) {
	return c.Do(ctx, c.B().Arbitrary(args...).Build()).ToMessage()
}

// text sends one command that is answered by text.
func text(ctx context.Context, c valkey.Client, args ...string) (string, error) {
	m, err := do(ctx, c, args...)
	if err != nil {
		return "", err
	}
	said, err := m.ToString()
	return strings.TrimPrefix(said, "txt:"), err // how RESP3 marks text for people
}

// discover finds all nodes by one of them.
func discover(ctx context.Context, c valkey.Client, seed string) (*facts, error) {
	lines, err := text(ctx, c, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, err
	}
	return readNodes(lines, host)
}

// readNodes reads the answer to CLUSTER NODES. A node that does not know its own address has that of host.
func readNodes(lines, host string) (*facts, error) {
	f := new(facts)
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) < 8 {
			return nil, fmt.Errorf("an answer to CLUSTER NODES that weir does not understand: %.80q", line)
		}
		flags := strings.Split(words[2], ",")
		if slices.Contains(flags, "noaddr") || slices.Contains(flags, "handshake") {
			continue
		}
		addr, _, _ := strings.Cut(words[1], "@")
		colon := strings.LastIndexByte(addr, ':')
		if colon < 0 {
			return nil, fmt.Errorf("an address in CLUSTER NODES that weir does not understand: %.80q",
				words[1])
		}
		at, port := addr[:colon], addr[colon+1:]
		if at == "" {
			at = host
		}
		n := &node{id: words[0], addr: net.JoinHostPort(at, port),
			failed: slices.Contains(flags, "fail") || slices.Contains(flags, "fail?")}
		if words[3] != "-" {
			n.primaryID = words[3]
		}
		for _, slots := range words[8:] {
			if strings.HasPrefix(slots, "[") { // on its way to another node
				continue
			}
			from, to, ranges := strings.Cut(slots, "-")
			if !ranges {
				to = from
			}
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil || first > last {
				return nil, fmt.Errorf("slots in CLUSTER NODES that weir does not understand: %.80q", slots)
			}
			n.slots += last - first + 1
		}
		f.nodes = append(f.nodes, n)
	}
	slices.SortFunc(f.nodes, func(a, b *node) int { return strings.Compare(a.addr, b.addr) })
	return f, nil
}

// looks is how often the time of a round trip is taken.
const looks = 9

// ask asks the node about itself.
func (n *node) ask(ctx context.Context, o cluster.Options) {
	ctx, cancel := context.WithTimeout(ctx, 2*o.Timeout)
	defer cancel()
	c, err := dial(n.addr, o)
	if err != nil {
		n.err = err
		return
	}
	defer c.Close()
	var infoText, stateText string
	if infoText, n.err = text(ctx, c, "INFO", "everything"); n.err != nil {
		return
	}
	n.info = fields(infoText)
	if stateText, n.err = text(ctx, c, "CLUSTER", "INFO"); n.err != nil {
		return
	}
	n.state = fields(stateText)
	var m valkey.ValkeyMessage
	if m, n.configErr = do(ctx, c, "CONFIG", "GET", "*"); n.configErr == nil {
		n.config, n.configErr = m.AsStrMap()
	}
	if policy := n.info["maxmemory_policy"]; policy != "" && n.config == nil { // some show it by INFO alone
		n.config = map[string]string{"maxmemory-policy": policy}
	}
	n.measure(ctx, c)
	if n.serves() {
		if m, n.waitErr = do(ctx, c, "WAIT", strconv.Itoa(o.Replicas), "1000"); n.waitErr == nil {
			n.waited, n.waitErr = m.AsInt64()
		}
	}
	n.askPermissions(ctx, c, o.Prefix)
	if m, err := do(ctx, c, "FUNCTION", "LIST"); err == nil {
		libraries, _ := m.ToArray()
		for _, l := range libraries {
			if of, err := l.AsMap(); err == nil {
				name := of["library_name"]
				if text, err := name.ToString(); err == nil {
					n.libraries = append(n.libraries, text)
				}
			}
		}
	}
}

// measure finds out how long a round trip takes, and what time it is there.
func (n *node) measure(ctx context.Context, c valkey.Client) {
	var trips []time.Duration
	for range looks {
		start := time.Now()
		m, err := do(ctx, c, "TIME")
		took := time.Since(start)
		if err != nil {
			return
		}
		if parts, err := m.AsIntSlice(); err == nil && len(parts) == 2 {
			there := time.Unix(parts[0], parts[1]*1000)
			if len(trips) == 0 || took < slices.Min(trips) {
				n.skew = there.Sub(start.Add(took / 2))
			}
		}
		trips = append(trips, took)
	}
	slices.Sort(trips)
	n.roundTrip = trips[len(trips)/2]
}

// needed are commands that weir uses on keys below its prefix, each as it might be. Nothing is done by them.
var needed = [][]string{
	{"PING"}, {"CLUSTER", "SLOTS"}, {"CLUSTER", "SHARDS"}, {"ASKING"}, {"READONLY"}, {"INFO"}, {"TIME"},
	{"WAIT", "1", "10"}, {"FUNCTION", "LIST"}, {"FUNCTION", "LOAD", "code"}, {"FCALL", "f", "1", "KEY"},
	{"GET", "KEY"}, {"SET", "KEY", "v"}, {"DEL", "KEY"}, {"EXPIRE", "KEY", "1"}, {"GETRANGE", "KEY",
		"0", "1"},
	{"SETRANGE", "KEY", "0", "v"}, {"HGET", "KEY", "f"}, {"HGETALL", "KEY"}, {"HSET", "KEY", "f", "v"},
	{"HSETNX", "KEY", "f", "v"}, {"HDEL", "KEY", "f"}, {"HSCAN", "KEY", "0"},
	{"XADD", "KEY", "*", "f", "v"}, {"XRANGE", "KEY", "-", "+"}, {"XREAD", "STREAMS", "KEY", "0"},
	{"XTRIM", "KEY", "MINID", "0"}, {"XLEN", "KEY"}, {"XINFO", "STREAM", "KEY"},
}

// askPermissions finds out which of the commands weir may not use.
func (n *node) askPermissions(ctx context.Context, c valkey.Client, prefix string) {
	if n.user, n.aclErr = text(ctx, c, "ACL", "WHOAMI"); n.aclErr != nil {
		return
	}
	for _, command := range needed {
		args := append([]string{"ACL", "DRYRUN", n.user}, command...)
		for i, word := range args {
			if word == "KEY" {
				args[i] = prefix + ":{check}"
			}
		}
		said, err := text(ctx, c, args...)
		if err != nil {
			n.aclErr = err
			return
		}
		if said != "OK" {
			name := command[0]
			if slices.Contains([]string{"CLUSTER", "FUNCTION", "XINFO"}, name) {
				name += " " + command[1]
			}
			n.forbidden = append(n.forbidden, name)
		}
	}
}

// fields reads lines of NAME:VALUE, as INFO has them.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}
