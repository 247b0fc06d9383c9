package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"weir/internal/metrics"
)

// named is a service by a name, whose health the test sets.
type named struct {
	name  string
	given bool // data
	setHealth
}

func (n *named) Name() string { return n.name }
func (n *named) Routes() []Route {
	ok := func(w *Response, _ *Request) Outcome { w.Body = append(w.Body, n.name...); return Done }
	return []Route{{Pattern: "GET /" + n.name, Handler: ok},
		{Pattern: "GET /" + n.name + "/live", Handler: ok, Class: Critical}}
}
func (n *named) Health() Health { return n.get() }
func (n *named) Close() error   { return nil }
func (n *named) Critical() bool { return n.given }

func TestHealthIsThatOfTheServicesAndOfTheCriticalOnesAboveAll(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		for _, c := range []struct {
			critical []string // of --critical-services; nil for the default
			a, b     Health   // a has data, b none
			status   int
			want     string
		}{
			{nil, Ready(), Ready(), 200,
				`{"status":"ready","services":{"a":{"status":"ready"},"b":{"status":"ready"}}}`},
			{nil, Degraded("so so"), Ready(), 200,
				`{"status":"degraded","services":{"a":{"status":"degraded","reason":"so so"},"b":{"status":"ready"}}}`},
			{nil, Ready(), Down("no"), 200,
				`{"status":"degraded","services":{"a":{"status":"ready"},"b":{"status":"down","reason":"no"}}}`},
			{nil, Down("no"), Ready(), 503,
				`{"status":"down","services":{"a":{"status":"down","reason":"no"},"b":{"status":"ready"}}}`},
			{[]string{"b"}, Down("no"), Ready(), 200,
				`{"status":"degraded","services":{"a":{"status":"down","reason":"no"},"b":{"status":"ready"}}}`},
			{[]string{"b"}, Ready(), Down("no"), 503,
				`{"status":"down","services":{"a":{"status":"ready"},"b":{"status":"down","reason":"no"}}}`},
			{[]string{}, Down("no"), Down("no"), 200,
				`{"status":"degraded","services":{"a":{"status":"down","reason":"no"},"b":{"status":"down","reason":"no"}}}`},
		} {
			cfg.CriticalServices = c.critical
			a, b := &named{name: "a", given: true}, &named{name: "b"}
			a.now.Store(&c.a)
			b.now.Store(&c.b)
			s := start(t, cfg, a, b)
			client := dial(t, s)
			client.send(get("/health"))
			client.expect("GET", c.status, c.want)
			for _, n := range []*named{a, b} {
				// What is down takes its own routes out, but not those that tell how it is.
				client.send(get("/" + n.name))
				if n.get().State == StateDown {
					if resp, body := client.response("GET"); resp.StatusCode != 503 ||
						!strings.Contains(body, n.name+" is down: no") {
						t.Errorf("%s: %d %s", n.name, resp.StatusCode, body)
					}
				} else {
					client.expect("GET", 200, n.name)
				}
				client.send(get("/" + n.name + "/live"))
				client.expect("GET", 200, n.name)
			}
		}
	})
}

func TestAServiceThatComesUpAnswersAtOnce(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		n := &named{name: "a"}
		down := Down("not yet")
		n.now.Store(&down)
		s := start(t, cfg, n)
		c := dial(t, s)
		await(t, "the kernel to see that it is down", func() bool {
			c.send(get("/a"))
			resp, _ := c.response("GET")
			return resp.StatusCode == 503
		})
		n.now.Store(nil)
		c.send(get("/a"))
		c.expect("GET", 200, "a")
	})
}

func TestCriticalServicesMustBeThere(t *testing.T) {
	if _, err := New(Config{CriticalServices: []string{"a", "c"}}, &named{name: "a"},
		&named{name: "b"}); err == nil || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("got %v, want an error that names c", err)
	}
}

// Whatever a background goroutine does, the process goes on, and the service is degraded.
func TestBackgroundWorkThatFailsDegradesItsService(t *testing.T) {
	for name, c := range map[string]struct {
		work func(context.Context)
		want Health
	}{
		"sound work": {func(context.Context) {}, Ready()},
		"a panic": {func(context.Context) { panic("on purpose") },
			Degraded("background work has ended (it); see the log, and restart")},
		"a nil dereference": {func(context.Context) { (*Request)(nil).Method = "" },
			Degraded("background work has ended (it); see the log, and restart")},
	} {
		var log strings.Builder
		b := Env{Metrics: metrics.New(1), Log: slog.New(slog.NewTextHandler(&log, nil))}.Background("test")
		b.Go("it", c.work)
		b.Go("another", func(ctx context.Context) { <-ctx.Done() })
		await(t, name, func() bool { return b.Health() == c.want })
		b.Stop()
		if b.Health() != c.want || strings.Contains(log.String(), "work=it") != (c.want != Ready()) {
			t.Errorf("%s: %v, and the log says %s", name, b.Health(), log.String())
		}
	}
}

// keeper is a service that keeps something.
type keeper struct{ named }

func (k *keeper) Storage() Storage { return Storage{Durability: "all of it lasts", LagSeconds: 1.5} }

func TestHealthSaysWhatIsPromisedOfWhatAServiceKeeps(t *testing.T) {
	k := &keeper{named{name: "k"}}
	ready := Ready()
	k.now.Store(&ready)
	client := dial(t, start(t, Config{}, k))
	client.send(get("/health"))
	client.expect("GET", 200,
		`{"status":"ready","services":{"k":{"status":"ready","storage":{"durability":"all of it lasts","lag_seconds":1.5}}}}`)
}
