package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// clusterSoakEnv is for how long processes of a cluster are disturbed. Without it each disturbance happens once.
const clusterSoakEnv = "WEIR_CLUSTER_SOAK"

// TestNodesGiveNothingTwice asks three processes on an engine for feeds, kills and restarts them and the
// engine's primaries one after the other, and has no item come twice. What is not answered was asked of a
// node that was killed; what is refused is 503.
func TestNodesGiveNothingTwice(t *testing.T) {
	systest.LongRun(t, "processes and servers to kill")
	length, _ := time.ParseDuration(os.Getenv(clusterSoakEnv))
	began := time.Now()
	for _, s := range clustertest.Servers() {
		for round := 0; round == 0 || time.Since(began) < length/2; round++ {
			t.Run(fmt.Sprintf("%s/%d", s, round), func(t *testing.T) { disturbed(t, s) })
			if t.Failed() {
				return
			}
		}
		began = time.Now()
	}
}

// backend is a node that the balancer asks, as long as it is not leaving.
type backend struct {
	*process
	leaving atomic.Bool
}

func disturbed(t *testing.T, s clustertest.Server) {
	const users, perList, nodes, clients = 400, 3000, 3, 12
	engine := clustertest.Start(t, clustertest.Options{Server: s, Replicas: 1, Own: true})
	dir := t.TempDir()
	feeds := filepath.Join(dir, "feeds.weir")
	versions(0, users, perList).write(t, feeds)
	open := func(i int) *backend {
		return &backend{process: start(t, append(engineFlags(engine), "--feeds", feeds, "--data",
			filepath.Join(dir, fmt.Sprint("node", i)))...)}
	}
	var at [nodes]atomic.Pointer[backend]
	for i := range at {
		at[i].Store(open(i))
	}

	var given [users*perList + 1]atomic.Bool
	var answers, refused, ended, unanswered, twice, count atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range clients {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				node := at[rand.IntN(nodes)].Load()
				if node.leaving.Load() {
					continue
				}
				resp, err := client.Post(fmt.Sprintf("http://%s/feed/%d?size=%d", node.public, rand.IntN(users),
					1+rand.IntN(5)), "", nil)
				if err != nil {
					if unanswered.Add(1); !node.leaving.Load() {
						t.Errorf("no answer: %v", err)
						return
					}
					continue
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close() //nolint:errcheck // was read to its end
				switch {
				case err != nil:
					unanswered.Add(1)
				case resp.StatusCode == 200:
					answers.Add(1)
					for _, item := range items(t, string(body)) {
						count.Add(1)
						if given[item].Swap(true) {
							twice.Add(1)
						}
					}
				case resp.StatusCode == 503:
					refused.Add(1)
					if resp.Header.Get("Retry-After") == "" {
						t.Errorf("503 without Retry-After: %s", body)
					}
				case resp.StatusCode == 500:
					ended.Add(1) // no items are left
				default:
					t.Errorf("%d %s", resp.StatusCode, body)
				}
			}
		})
	}
	ctx := t.Context()
	more := func() {
		was := answers.Load()
		systest.Eventually(t, "answers", func() bool { return answers.Load() > was+200 || t.Failed() })
	}
	more()

	// A node is killed, and comes back.
	victim := at[0].Load()
	victim.leaving.Store(true)
	victim.kill()
	more()
	at[0].Store(open(0))
	more()

	// All nodes are replaced, one after the other.
	for i := range at {
		old := at[i].Swap(open(nodes + i))
		old.leaving.Store(true)
		if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		old.wait(0)
		more()
	}

	restart := func(n *clustertest.Node) {
		t.Helper()
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		if err := engine.AwaitHealthy(ctx); err != nil {
			t.Fatal(err)
		}
		more()
	}
	// So are all primaries, as an operator does it, and one is killed.
	for shard := range engine.Options.Shards {
		old := engine.Primary(ctx, shard)
		if _, err := engine.Others(old)[0].Do(ctx, "CLUSTER", "FAILOVER"); err != nil {
			t.Fatal(err)
		}
		if _, err := engine.AwaitFailover(ctx, old); err != nil {
			t.Fatal(err)
		}
		if err := old.Kill(); err != nil {
			t.Fatal(err)
		}
		restart(old)
	}
	old := engine.Primary(ctx, rand.IntN(engine.Options.Shards))
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.AwaitFailover(ctx, old); err != nil {
		t.Fatal(err)
	}
	restart(old)
	close(stop)
	load.Wait()
	client.CloseIdleConnections()

	if twice.Load() > 0 {
		t.Errorf("%d of %d items came twice", twice.Load(), count.Load())
	}
	if ended.Load() > answers.Load() {
		t.Errorf("void: most users had no items left")
	}
	t.Logf("%d answers with %d items, %d refused by 503, %d of killed nodes missing, %d at the end of their list",
		answers.Load(), count.Load(), refused.Load(), unanswered.Load(), ended.Load())
	for i := range at {
		_, metrics := ask(t, "GET", "http://"+at[i].Load().admin+"/metrics", "")
		wantSays(t, "metrics", metrics, "weir_cluster_skipped_items_total")
	}
}
