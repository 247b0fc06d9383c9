package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/members"
	"weir/internal/cluster/operate"
	"weir/internal/server"
	"weir/internal/systest"
	"weir/internal/webui/webuitest"
)

// engineFlags are those of a node whose engine keeps the promises.
func engineFlags(c *clustertest.Cluster) []string {
	return []string{"--cluster", "valkey://" + strings.Join(c.Addrs()[:2], ","),
		"--cluster-restart-delay", "1m"}
}

func TestANodeStartsOnlyWhereTheEngineKeepsThePromises(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Shards: 3, Replicas: 1, Own: true})
	at := engineFlags(c)[:2]
	if _, err := openServer(t, server.Config{}, t.TempDir(), at...); err == nil ||
		!strings.Contains(err.Error(), "restart delay") || !strings.Contains(err.Error(),
		"--cluster-unsafe") {
		t.Fatalf("without a restart delay: %v", err)
	}
	health := func(p *ports) string {
		status, text := ask(t, "GET", "http://"+p.public+"/health", "")
		if status != http.StatusOK {
			t.Fatalf("health: %d %s", status, text)
		}
		return text
	}
	p := serveHere(t, server.Config{}, t.TempDir(), append(at, "--cluster-unsafe")...)
	wantSays(t, "health", health(p), `"status":"degraded"`, "restart delay")

	p = serveHere(t, server.Config{}, t.TempDir(), engineFlags(c)...)
	wantSays(t, "health", health(p), `"cluster":{"status":"ready"}`)
	// What is changed under a node is found out.
	if _, err := c.Nodes[0].Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru"); err != nil {
		t.Fatal(err)
	}
	status, text := ask(t, "POST", "http://"+p.admin+"/admin/cluster/check", "")
	var report operate.Report
	if err := json.Unmarshal([]byte(text), &report); status != 200 || err != nil ||
		len(report.Findings) == 0 {
		t.Fatalf("%d %s %v", status, text, err)
	}
	wantSays(t, "health", health(p), "eviction", "allkeys-lru")
}

func TestTheEngineIsOnAPageOfItsOwn(t *testing.T) {
	systest.LongRun(t, "a browser")
	c := clustertest.Start(t, clustertest.Options{Shards: 3, Replicas: 1, Own: true})
	p, _ := twoNodes(t, c, nil)
	forgottenNode(t, c)
	b := webuitest.Open(t, "http://"+p.admin, 1280, 900, "light")
	b.Go("/ui/cluster")
	b.Wait("document.querySelector('#cluster-lists').innerText.includes('2 of 2 nodes')")
	b.Wait("document.querySelectorAll('#cluster-nodes tbody tr').length === 3")
	b.Wait("document.querySelector('#cluster-nodes').innerText.includes('this node')")
	b.Wait("document.querySelector('#cluster-nodes').innerText.includes('gone')")
	b.Wait("document.querySelectorAll('#cluster-shards tbody tr').length === 3")
	b.Wait("document.querySelector('#cluster-findings').innerText.includes('cluster-require-full-coverage')")
	b.Click("#cluster-check")
	b.Wait("document.querySelector('#announce').textContent.includes('looked at')")
	b.Look("cluster")
	for _, n := range c.Nodes {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	b.Wait("document.querySelector('#cluster-shards').innerText.includes('refused')")
	b.Wait("document.querySelector('#cluster-nodes-state').innerText.includes('does not answer')")
	b.Clean()
}

// twoNodes serves numbered lists by two nodes, and waits until both have them.
func twoNodes(t *testing.T, c *clustertest.Cluster, flagsOfB []string) (a, b *ports) {
	t.Helper()
	feeds := filepath.Join(t.TempDir(), "feeds.weir")
	numbered(10, 400).write(t, feeds, 9001, 9002)
	flags := append(engineFlags(c), "--feeds", feeds)
	a = serveHere(t, server.Config{}, t.TempDir(), flags...)
	b = serveHere(t, server.Config{}, t.TempDir(), append(flags, flagsOfB...)...)
	for _, p := range []*ports{a, b} {
		systest.Eventually(t, "lists", func() bool {
			status, _ := p.get("/feed/0/position")
			return status == 200
		})
	}
	return a, b
}

// forgottenNode has the engine know of a node that has ended without a word.
func forgottenNode(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	engine, err := cluster.Open(t.Context(), cluster.Options{Addrs: c.Addrs(), Prefix: "weir", Replicas: 1,
		Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	m := members.Join(engine, members.Member{ID: "forgotten", Address: "192.0.2.1:80", Version: "v0"},
		slog.New(slog.DiscardHandler))
	t.Cleanup(func() { m.Close() })
	systest.Eventually(t, "a node that will be forgotten", func() bool {
		all, err := m.List(t.Context())
		return err == nil && len(all) == 3
	})
	engine.Close()
}

// clusterOf is what tests read of GET /admin/cluster.
type clusterOf struct {
	Nodes struct {
		Members []struct {
			Address, Version string
			Self, Here       bool
			Lists            struct{ Serves string }
			Figures          map[string]float64
		}
		Serving struct {
			Number   string
			Have, Of int
		}
	}
}

func TestEveryNodeKnowsOfAllNodes(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Shards: 3, Replicas: 1, Own: true})
	a, b := twoNodes(t, c, nil)
	url := "http://" + b.admin + "/admin/cluster"
	var found clusterOf
	systest.Eventually(t, "both nodes serve the publication, and say their figures", func() bool {
		status, text := ask(t, "GET", url, "")
		found = clusterOf{}
		if err := json.Unmarshal([]byte(text), &found); err != nil || status != 200 {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		said := 0
		for _, m := range found.Nodes.Members {
			if _, ok := m.Figures["events_behind"]; ok {
				said++
			}
		}
		return found.Nodes.Serving.Have == 2 && said == 2
	})
	readAPI(t).test(t, apiRequest{"GET", "/admin/cluster", url, "", 200})
	if n := found.Nodes; n.Serving.Of != 2 || len(n.Members) != 2 {
		t.Fatalf("%+v", n)
	}
	for _, m := range found.Nodes.Members {
		if !m.Here || m.Self != (m.Address == b.public) || m.Address != a.public && m.Address != b.public ||
			m.Version != version || m.Lists.Serves != found.Nodes.Serving.Number ||
			m.Figures["skipped"] != 0 {
			t.Errorf("%+v", m)
		}
	}
	if said, err := ctlOf(t, b.admin, "cluster"); err != nil || !strings.Contains(said,
		"nodes.members."+a.public+".lists.serves") {
		t.Errorf("weir ctl cluster: %s, %v", said, err)
	}
	forgottenNode(t, c)
	systest.Eventually(t, "health names the node that is gone", func() bool {
		status, text := a.get("/health")
		return status == 200 && strings.Contains(text, "other nodes: 192.0.2.1:80 was last heard of")
	})
}

// weirSays runs a command of weir in this process.
func weirSays(t *testing.T, command string, args ...string) (string, error) {
	t.Helper()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(append([]string{command}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// servingOf returns the number of the publication that serves, as a node says it.
func servingOf(t *testing.T, p *ports) string {
	t.Helper()
	var found clusterOf
	systest.Eventually(t, "the publication that serves", func() bool {
		_, text := ask(t, "GET", "http://"+p.admin+"/admin/cluster", "")
		found = clusterOf{}
		return json.Unmarshal([]byte(text), &found) == nil && found.Nodes.Serving.Have == 1
	})
	return found.Nodes.Serving.Number
}

func TestABoxMovesIntoTheEngineAndBack(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Shards: 3, Replicas: 1, Own: true})
	dir, back := t.TempDir(), filepath.Join(t.TempDir(), "back")
	feeds := filepath.Join(t.TempDir(), "feeds.weir")
	numbered(100, 20).write(t, feeds)
	serve := func(dir string, visit func(p *ports), flags ...string) {
		t.Helper()
		a, err := openServer(t, server.Config{}, dir, append(flags, "--feeds", feeds)...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		visit(&ports{t: t, public: a.Addr().String(), admin: a.AdminAddr().String()})
		client.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	serve(dir, func(p *ports) {
		for user := range 50 {
			p.want(fmt.Sprintf("/feed/%d?size=%d", user, user%20+1), 200)
		}
		p.want("/next", 200)
		p.want("/next", 200)
		if status, text := ask(t, "POST", "http://"+p.admin+"/admin/filters",
			`{"url":"https://example.org/feed.xml"}`); status != 201 {
			t.Fatalf("%d %s", status, text)
		}
	})
	engine := engineFlags(c)[:2]
	move := func(name, dir string) string {
		t.Helper()
		out, err := weirSays(t, "cluster", append([]string{name, "--feeds", feeds, dir}, engine...)...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return out
	}
	in := move("import", dir)
	wantSays(t, "import", in, "positions  50 users with 475 items",
		"index 2 on both sides", "filters    1 row")
	if again := move("import", dir); again != in {
		t.Errorf("again: %s, the first time: %s", again, in)
	}
	if out := move("export", back); out != in {
		t.Errorf("back: %s, there: %s", out, in)
	}
	serve(back, func(p *ports) {
		for user := range uint64(50) {
			if got := p.position(user); got != int(user)%20+1 {
				t.Errorf("user %d is at %d", user, got)
			}
		}
		p.want("/current", 200, "1")
	})

	// Nodes go on where the box was, under a publication that is newer than what was imported.
	node := t.TempDir()
	var first string
	serve(node, func(p *ports) {
		systest.Eventually(t, "lists", func() bool {
			status, _ := p.get("/feed/0/position")
			return status == 200
		})
		for user := range 50 {
			at := user%20 + 1
			p.want(fmt.Sprintf("/feed/%d/position", user), 200, fmt.Sprintf(`"position":%d,`, at))
			if at < 20 {
				p.want(fmt.Sprintf("/feed/%d?size=1", user), 200, fmt.Sprintf("[%d]", user*20+at+1))
			}
		}
		first = servingOf(t, p)
	}, engineFlags(c)...)
	if len(first) != 16 || first <= "0000000000000001" {
		t.Errorf("the first publication is %q, and positions were imported under version 1", first)
	}
	out, err := weirSays(t, "cluster", append([]string{"import", "--feeds", feeds, dir}, engine...)...)
	if err == nil || !strings.Contains(err.Error(), "nodes have served from the engine already") {
		t.Errorf("an import after nodes have served: %v %s", err, out)
	}
	// An export, which reads as of the newest version there may be, leaves none of it behind.
	wantSays(t, "export", move("export", filepath.Join(t.TempDir(), "late")), "50 users with 523 items")
	feeds = filepath.Join(t.TempDir(), "newer.weir")
	numbered(100, 21).write(t, feeds)
	serve(node, func(p *ports) {
		out, err := weirSays(t, "publish", append([]string{feeds}, engine...)...)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if second := servingOf(t, p); len(second) != 16 || second <= first {
			t.Errorf("publication %q after %q", second, first)
		}
		p.want("/feed/1?size=1", 200, "[22]")
		for _, name := range []string{"import", "export"} {
			out, err := weirSays(t, "cluster", append([]string{name, "--feeds", feeds, dir}, engine...)...)
			if err == nil || !strings.Contains(err.Error(), "the node "+p.public+" was heard of") {
				t.Errorf("%s while a node is there: %v %s", name, err, out)
			}
		}
	}, engineFlags(c)...)

	for _, wrong := range []struct {
		args []string
		says string
	}{
		{[]string{"import", dir}, "name the engine"},
		{append([]string{"import", dir}, engine...), "--feeds must name"},
		{append([]string{"import", "--feeds", feeds + "x", dir}, engine...), "--feeds: "},
		{append([]string{"import", "--feeds", feeds, dir + "x"}, engine...), "data directory"},
		{append([]string{"import", "--feeds", feeds, t.TempDir()}, engine...), "has no positions"},
		{append([]string{"export", dir}, engine...), "--feeds must name"},
		{append([]string{"import"}, engine...), "one data directory"},
	} {
		out, err := weirSays(t, "cluster", wrong.args...)
		if err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("%v: %v %s, want an error that says %q", wrong.args, err, out, wrong.says)
		}
	}
}
