package main

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/systest"
)

// A mock says where it listens, answers, and ends at once when it is told to, though a request hangs.
func TestMockServesFeedsUntilItIsTold(t *testing.T) {
	for _, netHTTP := range []string{"--net-http=false", "--net-http"} {
		t.Run(netHTTP, func(t *testing.T) {
			p := startCommand(t, []string{"mock", netHTTP, "--listen", "127.0.0.1:0", "--clock", "stepped",
				"--churn", "1", "--items", "3"})
			p.want("/feed/7.rss", 200)
			p.want("/stats?seed=7", 200, `{"seed":7,"requests":1}`)
			p.want("/knobs", 200)
			if status, body := ask(t, "POST", "http://"+p.public+"/clock", ""); status != 200 ||
				!strings.Contains(string(body), `"step":1`) {
				t.Errorf("POST /clock: %d %s", status, body)
			}
			hung := make(chan error, 1)
			go func() {
				resp, err := http.Get("http://" + p.public + "/feed/8.rss?hang=1")
				if err == nil {
					resp.Body.Close()
				}
				hung <- err
			}()
			systest.Eventually(t, "a request hangs", func() bool {
				_, body := ask(t, "GET", "http://"+p.public+"/stats", "")
				return strings.Contains(string(body), `"waiting":1,`)
			})
			start := time.Now()
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			client.CloseIdleConnections()
			p.wait(0)
			if err := <-hung; err == nil {
				t.Error("a hung request was answered")
			}
			if strings.Contains(p.logs.String(), "given up") {
				t.Errorf("the hung request held up the end for %v:\n%s", time.Since(start), p.logs)
			}
		})
	}
}
