package cluster_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
)

// BenchmarkClients compares what an advance of a position costs this process, by three clients: this
// package's; valkey-go with a DoMulti a shard for all that is ready; and valkey-go with a goroutine a
// request. Each iteration has a round of each, so that they see the same machine. The servers' processes do
// not count, nor does what the measurement costs without a client. WEIR_CLUSTER names nodes of a cluster to
// use, HOST:PORT,HOST:PORT, instead of one of its own.
//
//	go test -run '^$' -bench Clients -benchtime 10x ./internal/cluster
func BenchmarkClients(b *testing.B) {
	addrs := strings.FieldsFunc(os.Getenv("WEIR_CLUSTER"), func(r rune) bool { return r == ',' })
	if len(addrs) == 0 {
		addrs = clustertest.Start(b, clustertest.Options{Replicas: 1}).Addrs()
	}
	for _, wait := range []int{0, 1} {
		for _, inFlight := range []int{16, 64, 200} {
			b.Run(fmt.Sprintf("wait=%d/in-flight=%d", wait, inFlight), func(b *testing.B) {
				c, err := cluster.Open(b.Context(),
					cluster.Options{Addrs: addrs, Replicas: wait, Prefix: "bench"})
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				peer, err := valkey.NewClient(valkey.ClientOption{InitAddress: addrs, DisableRetry: true,
					DisableCache: true})
				if err != nil {
					b.Fatal(err)
				}
				defer peer.Close()
				batched := newMulti(c, peer, wait)
				defer batched.close()
				nothing := newMulti(c, peer, wait)
				nothing.idle()
				defer nothing.close()
				clients := []struct {
					name   string
					submit func(cmd cluster.Command, done func(error))
				}{
					{"weir", func(cmd cluster.Command, done func(error)) {
						c.Submit(b.Context(), cmd, func(_ cluster.Reply, err error) { done(err) })
					}},
					{"multi", batched.submit},
					{"none", nothing.submit},
					{"each", func(cmd cluster.Command, done func(error)) {
						go func() { done(one(b.Context(), peer, cmd, wait)) }()
					}},
				}
				const requests = 20_000
				used := make(map[string]float64) // µs
				for b.Loop() {
					for _, client := range clients {
						before := cpu()
						turns(b, inFlight, requests, advances(c), client.submit)
						used[client.name] += float64((cpu() - before).Microseconds())
					}
				}
				own := used["none"] // the measurement itself
				for _, name := range []string{"weir", "multi", "each"} {
					b.ReportMetric((used[name]-own)/float64(b.N*requests), name+"-us/op")
				}
				b.ReportMetric((used["weir"]-own)/(used["each"]-own), "weir/each")
				b.ReportMetric((used["weir"]-own)/(used["multi"]-own), "weir/multi")
				st := c.Stats()
				b.ReportMetric(float64(st.Commands)/float64(st.Batches), "batch")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// advances returns commands of 300 keys, in turn.
func advances(c *cluster.Client) func(i int) cluster.Command {
	var commands []cluster.Command
	for i := range 300 {
		key := c.Key("p:{" + strconv.Itoa(i) + "}")
		commands = append(commands, cluster.Command{Slot: cluster.Slot(key), Durable: true,
			Args: []string{"BITFIELD", key, "INCRBY", "u48", "#" + strconv.Itoa(i%500), "10"}})
	}
	return func(i int) cluster.Command { return commands[i%len(commands)] }
}

// turns submits commands as an event loop does: as soon as some are done, as many others, in one turn.
func turns(b *testing.B, inFlight, requests int, command func(int) cluster.Command,
	submit func(cluster.Command, func(error))) {
	var mu sync.Mutex
	var finished int
	wake := make(chan struct{}, 1)
	done := func(err error) {
		if err != nil {
			b.Error(err)
		}
		mu.Lock()
		finished++
		first := finished == 1
		mu.Unlock()
		if first {
			wake <- struct{}{}
		}
	}
	for i := range inFlight {
		submit(command(i), done)
	}
	for sent, under := inFlight, inFlight; under > 0; {
		<-wake
		mu.Lock()
		n := finished
		finished = 0
		mu.Unlock()
		under -= n
		for ; n > 0 && sent < requests; n-- {
			submit(command(sent), done)
			sent++
			under++
		}
	}
}

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// one calls by valkey-go's cluster client.
func one(ctx context.Context, peer valkey.Client, cmd cluster.Command, wait int) error {
	call := peer.B().Arbitrary(cmd.Args[0]).Keys(cmd.Args[1]).Args(cmd.Args[2:]...).Build()
	if wait == 0 {
		return peer.Do(ctx, call).Error()
	}
	// A command and its WAIT have to be on one connection, which the cluster client does not promise.
	dedicated, release := peer.Dedicate()
	defer release()
	waits := peer.B().Wait().Numreplicas(int64(wait)).Timeout(1500).Build()
	for _, r := range dedicated.DoMulti(ctx, call, waits) {
		if r.Error() != nil {
			return r.Error()
		}
	}
	return nil
}

// multi sends what is ready for a shard by one DoMulti of valkey-go, from a goroutine a shard.
type multi struct {
	c      *cluster.Client
	nodes  map[string]valkey.Client
	shards map[string]*multiShard
	wait   int
	wg     sync.WaitGroup
}

type multiShard struct {
	mu     sync.Mutex
	wake   sync.Cond
	queue  valkey.Commands
	done   []func(error)
	closed bool
	idle   bool // answers without asking anybody
}

func newMulti(c *cluster.Client, peer valkey.Client, wait int) *multi {
	m := &multi{c: c, nodes: peer.Nodes(), shards: make(map[string]*multiShard), wait: wait}
	for addr, node := range m.nodes {
		s := &multiShard{}
		s.wake.L = &s.mu
		m.shards[addr] = s
		m.wg.Go(func() { s.run(node, wait) })
	}
	return m
}

func (m *multi) submit(cmd cluster.Command, done func(error)) {
	addr := m.c.Primary(cmd.Slot)
	s := m.shards[addr]
	call := m.nodes[addr].B().Arbitrary(cmd.Args...).Build()
	s.mu.Lock()
	s.queue = append(s.queue, call)
	s.done = append(s.done, done)
	if len(s.done) == 1 {
		s.wake.Signal()
	}
	s.mu.Unlock()
}

func (s *multiShard) run(node valkey.Client, wait int) {
	var commands valkey.Commands
	var done []func(error)
	for {
		s.mu.Lock()
		for len(s.done) == 0 && !s.closed {
			s.wake.Wait()
		}
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
		commands, s.queue = s.queue, commands[:0]
		done, s.done = s.done, done[:0]
		idle := s.idle
		s.mu.Unlock()
		if len(done) == 0 {
			return
		}
		if wait > 0 {
			commands = append(commands, node.B().Wait().Numreplicas(int64(wait)).Timeout(1500).Build())
		}
		if idle {
			for i := range done {
				done[i](nil)
			}
			continue
		}
		results := node.DoMulti(context.Background(), commands...)
		for i := range done {
			done[i](results[i].Error())
		}
	}
}

// idle lets m answer without asking anybody, which is what the measurement itself costs.
func (m *multi) idle() {
	for _, s := range m.shards {
		s.mu.Lock()
		s.idle = true
		s.mu.Unlock()
	}
}

func (m *multi) close() {
	for _, s := range m.shards {
		s.mu.Lock()
		s.closed = true
		s.wake.Signal()
		s.mu.Unlock()
	}
	m.wg.Wait()
}
