package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// series returns the value of a series, by name and labels as Prometheus writes them; of a
// histogram how many it has counted; -1 without.
func series(s *Server, name string, labels ...string) float64 {
next:
	for _, sample := range s.cfg.Metrics.Snapshot(nil) {
		if sample.Name != name || len(sample.Labels) != len(labels)/2 {
			continue
		}
		for i, l := range sample.Labels {
			if l.Key != labels[2*i] || l.Value != labels[2*i+1] {
				continue next
			}
		}
		return sample.Value
	}
	return -1
}

func TestEveryRequestIsCountedOnceOnEveryLane(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.Admin = "127.0.0.1:0"
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		c.send(strings.Repeat(get("/fast/a"), 3) + strings.Repeat(get("/offloaded/a"), 4) +
			strings.Repeat(get("/handed/a"), 5) +
			get("/nowhere") + get("/panic") + get("/fast/a?%zz") + streamed(cfg, "/fast/a", "hello") +
			get("/fast/a"))
		for range 17 {
			c.response("GET")
		}
		for _, want := range []struct {
			route, code string
			n           float64
		}{
			{"GET /fast/{word}", "200", 4}, {"GET /fast/{word}", "422", 1}, {"POST /fast/{word}", "200", 1},
			{"GET /offloaded/{word}", "200", 4}, {"GET /handed/{word}", "200", 5}, {"GET /panic", "500", 1},
			{"unrouted", "404", 1},
		} {
			await(t, "the last request to be counted", func() bool {
				return series(s, "weir_http_requests_total", "route", want.route, "code", want.code) >= want.n
			})
			if n := series(s, "weir_http_requests_total", "route", want.route, "code",
				want.code); n != want.n {
				t.Errorf("%s %s: %v counted, want %v", want.route, want.code, n, want.n)
			}
		}
		for route, want := range map[string]float64{"GET /fast/{word}": 5, "GET /offloaded/{word}": 4,
			"GET /handed/{word}": 5} {
			await(t, "the latency to be observed", func() bool {
				return series(s, "weir_http_request_duration_seconds", "route", route) == want
			})
		}
		if n := series(s, "weir_http_connections"); n != 1 {
			t.Errorf("%v connections, want 1", n)
		}
		if n := series(s, "weir_http_connections_total"); n != 1 {
			t.Errorf("%v connections accepted, want 1", n)
		}
		if n := series(s, "weir_http_handler_panics_total"); n != 1 {
			t.Errorf("%v panics, want 1", n)
		}
	})
}

func TestTheAdminPort(t *testing.T) {
	e := &echo{}
	s := start(t, Config{Admin: "127.0.0.1:0", CriticalServices: []string{"echo"}}, e,
		routes{{Pattern: "POST /admin/poke", Admin: true,
			Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "poked")
			})}})
	ask := func(method, path string, status int, contains string) http.Header {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.AdminAddr().String()+path,
			nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !strings.Contains(string(body), contains) {
			t.Errorf("%s %s: got %d %.200q, %v; want %d with %q", method, path, resp.StatusCode, body, err,
				status, contains)
		}
		return resp.Header
	}
	dial(t, s).passed()
	ask("GET", "/metrics", 200, `weir_http_requests_total{code="200",route="GET /fast/{word}"} 1`)
	ask("GET", "/health/live", 200, `{"status":"ok"}`)
	ask("GET", "/health/ready", 200, `{"status":"ready"`)
	ask("GET", "/debug/pprof/", 200, "goroutine")
	ask("POST", "/admin/poke", 200, "poked")
	ask("GET", "/fast/a", 404, "about:blank")
	// Methods as on the public port, and nothing of the mux's own refusal.
	for path, methods := range map[string]string{"/metrics": "GET, HEAD, OPTIONS",
		"/admin/poke": "OPTIONS, POST"} {
		refused := ask("DELETE", path, 405, "this path answers "+methods+", not DELETE")
		answered := ask("OPTIONS", path, 204, "")
		if refused.Get("Allow") != methods || answered.Get("Allow") != methods ||
			answered.Get("Content-Type") != "" {
			t.Errorf("%s: Allow %q with 405, %v with 204, want %q", path, refused.Get("Allow"), answered,
				methods)
		}
	}
	ask("OPTIONS", "/fast/a", 404, "about:blank")
	down := Down("it is down")
	e.health.now.Store(&down)
	ask("GET", "/health/ready", 503, "it is down")
	ask("GET", "/health/live", 200, "ok")
	http.DefaultClient.CloseIdleConnections()

	c := dial(t, s)
	c.send("POST /admin/poke HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n\r\n")
	if resp, _ := c.response("POST"); resp.StatusCode != 404 {
		t.Errorf("an admin route answers %d on the public port", resp.StatusCode)
	}
}
