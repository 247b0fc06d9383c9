package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"weir/internal/cluster/clustertest"
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
	p := serveHere(t, server.Config{}, t.TempDir(), engineFlags(c)...)
	b := webuitest.Open(t, "http://"+p.admin, 1280, 900, "light")
	b.Go("/ui/cluster")
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
	b.Clean()
}

func TestANodeGoesOnWithoutItsEngine(t *testing.T) {
	c := clustertest.Start(t, clustertest.Options{Shards: 3, Replicas: 1, Own: true})
	p := serveHere(t, server.Config{}, t.TempDir(), engineFlags(c)...)
	for _, n := range c.Nodes {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	systest.Eventually(t, "the engine is known to be lost", func() bool {
		status, text := ask(t, "GET", "http://"+p.public+"/health", "")
		return status == http.StatusOK && strings.Contains(text, `"cluster":{"status":"degraded"`)
	})
	if status, text := ask(t, "POST", "http://"+p.public+"/predict", `{"user":"u","items":["a","b"]}`); status != 200 {
		t.Errorf("a prediction without the engine: %d %s", status, text)
	}
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	systest.Eventually(t, "the engine is known to be back", func() bool {
		_, text := ask(t, "GET", "http://"+p.public+"/health", "")
		return strings.Contains(text, `"cluster":{"status":"ready"`)
	})
}
