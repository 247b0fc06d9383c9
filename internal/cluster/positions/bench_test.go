//go:build linux

package positions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/progress"
	"weir/internal/progress/positionstest"
)

// BenchmarkEngine measures real servers, and what asking them costs, for bench/run/cluster.go. What is
// compared takes turns; each iteration is one round of all. WEIR_BENCH_USERS is how many users there are.
func BenchmarkEngine(b *testing.B) {
	users := 100_000
	if n, err := strconv.Atoi(os.Getenv("WEIR_BENCH_USERS")); err == nil {
		users = n
	}
	for _, s := range clustertest.Servers() {
		b.Run(string(s), func(b *testing.B) {
			// Valkey as it is installed here has the C library's memory, which neither has in production.
			if found, _ := filepath.Glob("/usr/lib/*/libjemalloc.so.2"); len(found) > 0 {
				b.Setenv("LD_PRELOAD", found[0])
			}
			o := clustertest.Options{Server: s, Replicas: 1, Own: true, NodeTimeout: time.Minute}
			three := clustertest.Start(b, o)
			o.Shards = 1
			one := clustertest.Start(b, o)
			m := &measure{b: b, users: users, three: three}
			for b.Loop() {
				m.memory()
				for range 3 { // in turns
					m.client()
					m.engine()
					m.wait()
					m.events()
					m.shards(three, "shards3-us")
					m.shards(one, "shards1-us")
				}
			}
			b.ReportMetric(0, "ns/op")
			for unit, values := range m.sums {
				b.ReportMetric(values/float64(m.counts[unit]), unit)
			}
		})
	}
}

// measure is what was measured, by unit.
type measure struct {
	b      *testing.B
	users  int
	three  *clustertest.Cluster
	sums   map[string]float64
	counts map[string]int
}

func (m *measure) put(unit string, value float64) {
	if m.sums == nil {
		m.sums, m.counts = make(map[string]float64), make(map[string]int)
	}
	m.sums[unit] += value
	m.counts[unit]++
}

// open returns a client, and positions for dense ids or for names.
func (m *measure) open(c *clustertest.Cluster, replicas int, as positionstest.Shape) (*cluster.Client,
	*generation, *positionstest.Book) {
	m.b.Helper()
	client, err := cluster.Open(m.b.Context(), cluster.Options{Addrs: c.Addrs(), Replicas: replicas,
		Timeout: 10 * time.Second})
	m.must(err)
	// As many hashes as the first lists of so many users fix where they are millions.
	_, err = client.Format(m.b.Context(), cluster.Format{Buckets: uint64(max(1, m.users/usersOfHash))})
	m.must(err)
	p, err := Open(m.b.Context(), client, Options{})
	m.must(err)
	ids := make([]uint64, m.users)
	for i := range ids {
		ids[i] = uint64(i)
		if as != positionstest.Dense {
			ids[i] |= 1 << 40
		}
	}
	book := positionstest.NewBook(1, as, progress.MaxLen, ids...)
	g, err := p.Prepare(book)
	m.must(err)
	return client, g.(*generation), book
}

func (m *measure) must(err error) {
	if err != nil {
		m.b.Helper()
		m.b.Fatal(err)
	}
}

// advance moves a user on by ten items.
func advance(g *generation, b *positionstest.Book, rank uint64, done func(error)) {
	u, _ := b.User(rank)
	g.Submit(context.Background(), u, progress.List{Tag: rank + 1, Len: progress.MaxLen},
		progress.Advance(10), func(_ progress.Move, err error) { done(err) })
}

// turns submits commands as an event loop does: as soon as some are done, as many others, in one turn.
func (m *measure) turns(inFlight, n int, submit func(i int, done func(error))) {
	var mu sync.Mutex
	var finished int
	var failed error
	wake := make(chan struct{}, 1)
	done := func(err error) {
		mu.Lock()
		if err != nil && failed == nil {
			failed = err
		}
		finished++
		first := finished == 1
		mu.Unlock()
		if first {
			wake <- struct{}{}
		}
	}
	sent := 0
	for ; sent < min(inFlight, n); sent++ {
		submit(sent, done)
	}
	for under := sent; under > 0; {
		<-wake
		mu.Lock()
		more := finished
		finished = 0
		if failed != nil {
			n = 0
		}
		mu.Unlock()
		under -= more
		for ; more > 0 && sent < n; more-- {
			submit(sent, done)
			sent++
			under++
		}
	}
	m.must(failed)
}

// cpu returns what all threads of a process have used, by the scheduler's count.
func (m *measure) cpu(pid int) time.Duration {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	m.must(err)
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		m.must(err)
		sum += time.Duration(ns)
	}
	return sum
}

// used returns what f uses of processes, each, in microseconds of CPU an operation.
func (m *measure) used(n int, f func(), pids ...int) []float64 {
	before := make([]time.Duration, len(pids))
	for i, pid := range pids {
		before[i] = m.cpu(pid)
	}
	f()
	used := make([]float64, len(pids))
	for i, pid := range pids {
		used[i] = float64((m.cpu(pid) - before[i]).Nanoseconds()) / 1000 / float64(n)
	}
	return used
}

// primaries are the processes that have the slots of a cluster in which nothing failed over.
func primaries(c *clustertest.Cluster) []int {
	var pids []int
	for _, n := range c.Nodes[:c.Options.Shards] {
		pids = append(pids, n.PID())
	}
	return pids
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

// requests is how many operations a figure is of.
const requests = 30_000

// client compares what an advance costs this process: 64 in flight, a turn at a time, and by 64 goroutines
// that call valkey-go.
func (m *measure) client() {
	const inFlight = 64
	c, g, book := m.open(m.three, 0, positionstest.Dense)
	defer c.Close()
	draw := func() uint64 { return rand.Uint64N(uint64(m.users)) }
	submit := func(_ int, done func(error)) { advance(g, book, draw(), done) }
	m.turns(inFlight, 1000, submit)
	m.put("batched-us", sum(m.used(requests, func() { m.turns(inFlight, requests, submit) }, os.Getpid())))

	peer, err := valkey.NewClient(valkey.ClientOption{InitAddress: m.three.Addrs(), DisableCache: true,
		DisableRetry: true})
	m.must(err)
	defer peer.Close()
	each := func(n int) {
		var all sync.WaitGroup
		for range inFlight {
			all.Go(func() {
				for range n / inFlight {
					rank := draw()
					u, _ := book.User(rank)
					args := g.command(g.place(u, g.bound), progress.List{Tag: rank + 1, Len: progress.MaxLen},
						"advance", 10, 0).Args
					err := peer.Do(context.Background(), peer.B().Arbitrary(args[:3]...).Keys(args[3]).
						Args(args[4:]...).Build()).Error()
					if err != nil {
						m.b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	each(1000)
	m.put("goroutine-us", sum(m.used(requests, func() { each(requests) }, os.Getpid())))
}

// engine compares what advances and SETs of keys a user cost the primaries, 64 in flight a shard.
func (m *measure) engine() {
	c, g, book := m.open(m.three, 0, positionstest.Dense)
	defer c.Close()
	const inFlight = 3 * 64
	pids := primaries(m.three)
	m.put("set-us", sum(m.used(requests, func() {
		m.turns(inFlight, requests, func(_ int, done func(error)) { m.set(c, rand.IntN(m.users), done) })
	}, pids...)))
	m.put("advance-us", sum(m.used(requests, func() {
		m.turns(inFlight, requests, func(_ int, done func(error)) {
			advance(g, book, rand.Uint64N(uint64(m.users)), done)
		})
	}, pids...)))
}

// set is the position of a user as a key of its own has it.
func (m *measure) set(c *cluster.Client, user int, done func(error)) {
	key := c.Key("u:{" + strconv.Itoa(user) + "}")
	c.Submit(context.Background(), cluster.Command{Slot: cluster.Slot(key), Args: []string{"SET", key,
		"8 bytes."}}, func(_ cluster.Reply, err error) { done(err) })
}

// wait compares rates with WAIT 1 and without, 200 in flight.
func (m *measure) wait() {
	for unit, replicas := range map[string]int{"wait-rate": 1, "nowait-rate": 0} {
		c, g, book := m.open(m.three, replicas, positionstest.Dense)
		submit := func(_ int, done func(error)) {
			advance(g, book, rand.Uint64N(uint64(m.users)), done)
		}
		m.turns(200, 1000, submit)
		began := time.Now()
		m.turns(200, requests, submit)
		m.put(unit, requests/time.Since(began).Seconds())
		c.Close()
	}
}

// events compares what an event costs the primaries, 100 an entry of a stream and one.
func (m *measure) events() {
	c, _, _ := m.open(m.three, 0, positionstest.Dense)
	defer c.Close()
	const bytes = 40
	for unit, each := range map[string]int{"event-us": 1, "event-of-100-us": 100} {
		payload := strings.Repeat("x", bytes*each)
		n := requests / each
		m.put(unit, sum(m.used(requests, func() {
			m.turns(64, n, func(i int, done func(error)) {
				key := c.Key("e:{" + strconv.Itoa(i%12) + "}")
				c.Submit(context.Background(), cluster.Command{Slot: cluster.Slot(key),
					Args: []string{"XADD", key, "MAXLEN", "~", "10000", "*", "e", payload}},
					func(_ cluster.Reply, err error) { done(err) })
			})
		}, primaries(m.three)...)))
	}
}

// shards puts what an advance costs the busiest primary, with WAIT 1 and 64 in flight a shard: the reverse of
// how many a second it could take if each process had a core.
func (m *measure) shards(s *clustertest.Cluster, unit string) {
	c, g, book := m.open(s, 1, positionstest.Dense)
	defer c.Close()
	submit := func(_ int, done func(error)) {
		advance(g, book, rand.Uint64N(uint64(m.users)), done)
	}
	m.turns(64*s.Options.Shards, 1000, submit)
	busiest := 0.0
	for _, used := range m.used(requests, func() { m.turns(64*s.Options.Shards, requests, submit) },
		primaries(s)...) {
		busiest = max(busiest, used)
	}
	m.put(unit, busiest)
}

// memory puts the bytes a user in strings, in hashes and by a key each, at the primaries.
func (m *measure) memory() {
	grown := func(unit string, fill func()) {
		m.must(m.flush())
		before := m.data()
		fill()
		m.put(unit, (m.data()-before)/float64(m.users))
	}
	for unit, as := range map[string]positionstest.Shape{"dense-bytes": positionstest.Dense,
		"by-id-bytes": positionstest.Scattered} {
		grown(unit, func() {
			c, g, book := m.open(m.three, 0, as)
			defer c.Close()
			m.turns(1000, m.users, func(i int, done func(error)) { advance(g, book, uint64(i), done) })
		})
	}
	grown("key-bytes", func() {
		c, _, _ := m.open(m.three, 0, positionstest.Dense)
		defer c.Close()
		m.turns(1000, m.users, func(i int, done func(error)) { m.set(c, i, done) })
	})
}

func (m *measure) flush() error {
	for _, n := range m.three.Nodes[:m.three.Options.Shards] {
		if _, err := n.Do(m.b.Context(), "FLUSHALL", "SYNC"); err != nil {
			return err
		}
	}
	return nil
}

// data returns what the primaries have in memory, without their buffers.
func (m *measure) data() (bytes float64) {
	for _, n := range m.three.Nodes[:m.three.Options.Shards] {
		r, err := n.Do(m.b.Context(), "INFO", "memory")
		m.must(err)
		text, err := r.ToString()
		m.must(err)
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			v, _ := strconv.ParseFloat(value, 64)
			switch name {
			case "used_memory":
				bytes += v
			case "mem_total_replication_buffers", "mem_aof_buffer", "mem_clients_normal",
				"mem_cluster_links":
				bytes -= v
			}
		}
	}
	return bytes
}
