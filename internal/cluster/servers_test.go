package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// onBoth runs a test with a client of the shared cluster of each server.
func onBoth(t *testing.T, test func(t *testing.T, c *cluster.Client)) {
	t.Parallel()
	for _, s := range clustertest.Servers() {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			nodes := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1})
			c, err := cluster.Open(t.Context(), cluster.Options{Addrs: nodes.Addrs()[:1], Replicas: 1,
				Prefix: clustertest.Prefix(t), Timeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			test(t, c)
		})
	}
}

func TestCommandsReachTheShardsOfTheirSlots(t *testing.T) {
	onBoth(t, func(t *testing.T, c *cluster.Client) {
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Add(1)
			key := c.Key(strconv.Itoa(i))
			c.Submit(t.Context(), cluster.Command{Slot: cluster.Slot(key), Durable: true,
				Args: []string{"SET", key, strconv.Itoa(i)}}, func(_ cluster.Reply, err error) {
				if err != nil {
					t.Error(err)
				}
				wg.Done()
			})
		}
		wg.Wait()
		for i := range 300 {
			key := c.Key(strconv.Itoa(i))
			r, err := c.Read(t.Context(), cluster.Slot(key), "GET", key) // all replicas have it
			if s, _ := r.ToString(); err != nil || s != strconv.Itoa(i) {
				t.Fatalf("%s is %q, %v", key, s, err)
			}
		}
	})
}

func TestAReadWaitsAndIsCancelled(t *testing.T) {
	onBoth(t, func(t *testing.T, c *cluster.Client) {
		key := c.Key("stream")
		read := func(ctx context.Context) (cluster.Reply, error) {
			return c.Read(ctx, cluster.Slot(key), "XREAD", "BLOCK", "60000", "STREAMS", key, "0")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if r, err := read(ctx); !errors.Is(err, context.Canceled) {
			t.Error(r, err)
		}
		came := make(chan error)
		go func() {
			r, err := read(t.Context())
			if streams, _ := r.ToArray(); err == nil && len(streams) != 1 {
				err = fmt.Errorf("%d streams", len(streams))
			}
			came <- err
		}()
		_, err := c.Do(t.Context(), cluster.Command{Slot: cluster.Slot(key), Durable: true,
			Args: []string{"XADD", key, "*", "a", "b"}})
		if err := errors.Join(err, <-came); err != nil {
			t.Error(err)
		}
	})
}

func TestAFunctionIsLoadedWhereItIsMissing(t *testing.T) {
	onBoth(t, func(t *testing.T, c *cluster.Client) {
		lib := cluster.NewLibrary("test", `
local function add(keys, args)
	return redis.call('INCRBY', keys[1], args[1])
end
define('add', add)
define('get', function(keys) return redis.call('GET', keys[1]) end, 'no-writes')`)
		for range 2 {
			if err := c.Load(t.Context(), lib); err != nil {
				t.Fatal(err)
			}
		}
		key := c.Key("n")
		call := cluster.Command{Slot: cluster.Slot(key), Durable: true,
			Args: lib.Call("add", []string{key}, "5")}
		for want := int64(5); want <= 10; want += 5 {
			r, err := c.Do(t.Context(), call)
			if n, _ := r.ToInt64(); err != nil || n != want {
				t.Fatal(n, err)
			}
			err = c.Each(t.Context(), func(ctx context.Context, n cluster.Node) error {
				if !n.Primary {
					return nil
				}
				_, err := n.Do(ctx, "FUNCTION", "FLUSH")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var said cluster.Error
		call.Args = []string{"FCALL", "nobody_s", "1", key}
		if _, err := c.Do(t.Context(), call); !errors.As(err, &said) {
			t.Errorf("a function of no library: %v", err)
		}
		if err := c.Load(t.Context(), cluster.NewLibrary("wrong", "define(")); err == nil {
			t.Error("a library that is not Lua is loaded")
		}
	})
}

func TestTheFormatIsFixedAtFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, c *cluster.Client) {
		f, err := c.Format(t.Context(), cluster.Format{Buckets: 100})
		if err != nil || f.Buckets != 100 || f.Seed == 0 {
			t.Fatalf("%+v, %v", f, err)
		}
		if g, err := c.Format(t.Context(), cluster.Format{Buckets: 7}); err != nil || g != f {
			t.Fatalf("%+v, %v", g, err)
		}
		if err := c.CheckVersion(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The version is fixed by who writes first, whether or not that is a feed.
func TestDataOfAnotherVersionIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, c *cluster.Client) {
		key := c.Key("{version}")
		get := cluster.Command{Slot: cluster.Slot(key), Args: []string{"GET", key}}
		if err := c.CheckVersion(t.Context()); err != nil {
			t.Error(err)
		}
		if r, err := c.Do(t.Context(), get); err != nil || !r.IsNil() {
			t.Errorf("a look fixes the version: %v, %v", r, err)
		}
		for range 2 {
			if err := c.FixVersion(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if r, err := c.Do(t.Context(), get); err != nil || r.IsNil() {
			t.Errorf("the version is not fixed: %v, %v", r, err)
		}
		set := cluster.Command{Slot: cluster.Slot(key), Args: []string{"SET", key, "99"}}
		if _, err := c.Do(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		_, err := c.Format(t.Context(), cluster.Format{Buckets: 7})
		for _, err := range []error{err, c.FixVersion(t.Context()), c.CheckVersion(t.Context())} {
			if !errors.Is(err, cluster.ErrFormat) {
				t.Errorf("the version of another weir: %v", err)
			}
		}
	})
}

// Nodes whose functions differ, as in a rolling upgrade, each call their own, whoever was there first.
func TestNodesOfDifferentFunctionsWorkSideBySide(t *testing.T) {
	onBoth(t, func(t *testing.T, c *cluster.Client) {
		var libraries []*cluster.Library
		for _, by := range []string{"1", "100"} {
			libraries = append(libraries, cluster.NewLibrary("upgrade",
				"define('add', function(keys) return redis.call('INCRBY', keys[1], "+by+") end)"))
		}
		for _, l := range libraries {
			if err := c.Load(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		key := c.Key("counter")
		for i, want := range []int64{1, 101, 102, 202} {
			r, err := c.Do(t.Context(), cluster.Command{Slot: cluster.Slot(key), Durable: true,
				Args: libraries[i%2].Call("add", []string{key})})
			if n, _ := r.ToInt64(); err != nil || n != want {
				t.Fatalf("%d, want %d: %v", n, want, err)
			}
		}
	})
}

// load increments counters until stop is called, and says how often each was: answered for, and at most.
type load struct {
	c            *cluster.Client
	wg           sync.WaitGroup
	stopping     atomic.Bool
	succeeded    atomic.Int64 // increments that were answered for
	done, atMost [60]atomic.Int64
	unavailable  atomic.Int64
}

// movable is how many of a shard's first slots hold a third of the counters.
const movable = 100

// inSlots are keys of those.
var inSlots = func() (keys []string) {
	for i := 0; len(keys) < 20; i++ {
		if key := strconv.Itoa(i); cluster.Slot(key) < movable {
			keys = append(keys, key)
		}
	}
	return keys
}()

func startLoad(t *testing.T, c *cluster.Client) *load {
	l := &load{c: c}
	for i := range l.done {
		l.wg.Go(func() {
			for !l.stopping.Load() {
				_, err := c.Do(t.Context(), l.increment(i))
				switch {
				case err == nil:
					l.done[i].Add(1)
					l.atMost[i].Add(1)
					l.succeeded.Add(1)
				case errors.Is(err, cluster.ErrUnavailable):
					l.unavailable.Add(1)
					time.Sleep(time.Millisecond)
				case errors.Is(err, cluster.ErrUnknown), errors.Is(err, cluster.ErrUnreplicated):
					l.atMost[i].Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	return l
}

// increment is of a counter in the first of a shard's slots, for a third of them, or anywhere.
func (l *load) increment(i int) cluster.Command {
	key := l.c.Key(strconv.Itoa(i))
	if i%3 == 0 {
		key = "{" + inSlots[i/3] + "}" + key
	}
	return cluster.Command{Slot: cluster.Slot(key), Durable: true, Args: []string{"INCR", key}}
}

// more waits until every counter was incremented again.
func (l *load) more(t *testing.T) {
	t.Helper()
	var were [len(l.done)]int64
	for i := range were {
		were[i] = l.done[i].Load()
	}
	for i := range were {
		systest.Eventually(t, "a counter to grow", func() bool { return l.done[i].Load() > were[i] })
	}
}

// stop ends the load, and checks that every increment counts once.
func (l *load) stop(t *testing.T) {
	t.Helper()
	l.stopping.Store(true)
	l.wg.Wait()
	for i := range l.done {
		get := l.increment(i)
		get.Args = []string{"GET", get.Args[1]}
		r, err := l.c.Do(t.Context(), get)
		n, _ := r.AsInt64()
		if err != nil || n < l.done[i].Load() || n > l.atMost[i].Load() {
			t.Errorf("counter %d is %d, %v: %d were answered for, %d at most happened", i, n, err,
				l.done[i].Load(), l.atMost[i].Load())
		}
	}
	t.Logf("%d increments, %d refused; %+v", l.succeeded.Load(), l.unavailable.Load(), l.c.Stats())
}

// faulty runs a test with a cluster of its own, and a client under load.
func faulty(t *testing.T, test func(t *testing.T, nodes *clustertest.Cluster, l *load)) {
	t.Parallel()
	nodes := clustertest.Start(t, clustertest.Options{Replicas: 1, Own: true})
	c, err := cluster.Open(t.Context(), cluster.Options{Addrs: nodes.Addrs(), Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := startLoad(t, c)
	l.more(t)
	test(t, nodes, l)
	l.more(t)
	l.stop(t)
}

func TestAClientOutlivesAFailover(t *testing.T) {
	faulty(t, func(t *testing.T, nodes *clustertest.Cluster, l *load) {
		killed := nodes.Primary(t.Context(), 0)
		if err := killed.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := nodes.AwaitFailover(t.Context(), killed); err != nil {
			t.Fatal(err)
		}
		// The former primary comes back as a replica, so that there is one again.
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAClientOutlivesAStalledPrimary(t *testing.T) {
	faulty(t, func(t *testing.T, nodes *clustertest.Cluster, l *load) {
		stalled := nodes.Primary(t.Context(), 0)
		if err := stalled.Stall(); err != nil {
			t.Fatal(err)
		}
		_, err := nodes.AwaitFailover(t.Context(), stalled)
		if err := errors.Join(err, stalled.Resume()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestReshardingFailsNothing(t *testing.T) {
	faulty(t, func(t *testing.T, nodes *clustertest.Cluster, l *load) {
		if err := nodes.Reshard(t.Context(), 0, 1, movable); err != nil {
			t.Fatal(err)
		}
		l.more(t)
		if s := l.c.Stats(); s.Moved == 0 || s.Unavailable+s.Unknown+s.Unreplicated > 0 {
			t.Errorf("while slots moved: %+v", s)
		}
	})
}
