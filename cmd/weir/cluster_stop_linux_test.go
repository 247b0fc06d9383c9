package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"weir/internal/cluster/clustertest"
	"weir/internal/systest"
)

// TestSIGTERMEndsANodeWhateverItWaitsFor stops nodes that have no lists, that fetch some from a server that
// sends nothing, and those whose engine does not answer: with requests under way, and before they serve.
func TestSIGTERMEndsANodeWhateverItWaitsFor(t *testing.T) {
	systest.LongRun(t, "processes, and servers that do not answer")
	t.Parallel()
	c := clustertest.Start(t, clustertest.Options{Replicas: 1, Own: true})
	feeds := filepath.Join(t.TempDir(), "feeds.weir")
	numbered(10, 20).write(t, feeds)
	node := func(feeds, prefix string) *process {
		return start(t, append(engineFlags(c), "--feeds", feeds, "--cluster-prefix", prefix, "--data",
			filepath.Join(t.TempDir(), "data"), "--shutdown-timeout", "2s", "--cluster-timeout", "1s")...)
	}
	ends := func(t *testing.T, p *process) {
		t.Helper()
		stop(t, p)
		wantSays(t, "the log", p.logs.String(), "weir has stopped")
	}
	t.Run("without lists", func(t *testing.T) {
		p := node("published", "none")
		p.want("/feed/1", 503, "nothing was published")
		ends(t, p)
	})
	t.Run("fetching lists", func(t *testing.T) {
		asked := make(chan struct{}, 16)
		over := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-over:
			}
		}))
		defer s.Close()
		defer close(over)
		p := node(s.URL+"/feeds.weir", "fetching")
		<-asked
		ends(t, p)
	})
	p := node(feeds, "lists")
	systest.Eventually(t, "lists", func() bool {
		status, _ := p.get("/feed/1/position")
		return status == 200
	})
	for _, n := range c.Nodes {
		if err := n.Stall(); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("with requests that wait for the engine", func(t *testing.T) {
		over := make(chan struct{})
		var refused atomic.Int64
		var clients sync.WaitGroup
		for _, path := range []string{"/feed/1", "/feed/2", "/next", "/feed/3"} {
			clients.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					resp, err := client.Get("http://" + p.public + path)
					if err != nil {
						continue // it has ended
					}
					resp.Body.Close() //nolint:errcheck // nothing is read from it
					if resp.StatusCode == 503 {
						refused.Add(1)
					}
				}
			})
		}
		systest.Eventually(t, "requests that the engine keeps waiting",
			func() bool { return refused.Load() > 0 })
		ends(t, p)
		close(over)
		clients.Wait()
	})
	t.Run("before it serves", func(t *testing.T) {
		cmd := exec.Command("weir", append([]string{"serve", "--listen", "127.0.0.1:0", "--admin=", "--data",
			filepath.Join(t.TempDir(), "data"), "--cluster-timeout", "1s"}, engineFlags(c)...)...)
		var said strings.Builder
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := systest.Start(cmd); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "GOMEMLIMIT") { // the last line before it connects
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "has stopped before it served") {
			t.Errorf("%v:\n%s", err, &said)
		}
	})
}
