package client

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// fixed is a Source of one request.
type fixed struct {
	wire   string
	asked  *atomic.Int64
	target int
}

func (f fixed) Next(wire []byte) ([]byte, Request) {
	if f.asked != nil {
		f.asked.Add(1)
	}
	return append(wire, f.wire...), Request{Target: f.target}
}

const getRequest = "GET / HTTP/1.1\r\nHost: target\r\n\r\n"

func get(int, int) Source { return fixed{wire: getRequest} }

func targetOf(t *testing.T, url string) Target {
	t.Helper()
	target, err := Resolve(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// start starts an engine that is closed at the end of the test.
func start(t *testing.T, o Options, source func(thread, threads int) Source) *Engine {
	t.Helper()
	e, err := Start(t.Context(), o, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Close(ctx) //nolint:errcheck // a test that wants the error closes by itself
	})
	return e
}

// await collects into w until enough says so.
func await(t *testing.T, e *Engine, w *measure.Window, enough func(w *measure.Window) bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := e.Collect(w); err != nil {
			t.Fatal(err)
		}
		if enough(w) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s: intended %d, sent %d, served %d, shed %d, failed %v, %d connections, %d "+
				"in flight",
				w.Intended, w.Sent, w.Served, w.Shed, w.Failed, w.Connections, w.InFlight)
		}
	}
}

// finish closes e, collects the last, and checks that every request is accounted for.
func finish(t *testing.T, e *Engine, w *measure.Window) {
	t.Helper()
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Collect(w); err != nil {
		t.Fatal(err)
	}
	// A slow machine has not sent all that was due at the end.
	if over := w.Sent + w.Failed[measure.Dropped]; w.Intended < over || w.Done() != over {
		t.Errorf("intended %d, sent %d, dropped %d, over %d: some got lost", w.Intended, w.Sent,
			w.Failed[measure.Dropped], w.Done())
	}
	if w.Connections != 0 || w.InFlight != 0 {
		t.Errorf("%d connections and %d requests are left after Close", w.Connections, w.InFlight)
	}
}

// engines runs a test with the event loops and with net/http.
func engines(t *testing.T, test func(t *testing.T, o Options)) {
	t.Run("net/http", func(t *testing.T) { test(t, Options{netHTTP: true}) })
	if !hasLoops {
		t.Log("no event loops on this system: tested with net/http alone")
		return
	}
	t.Run("loops", func(t *testing.T) { test(t, Options{}) })
}

func TestTheClosedModelKeepsItsConnectionsBusy(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		var most, now atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for n := now.Add(1); ; {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			now.Add(-1)
		}))
		defer s.Close()
		o.Targets, o.Closed, o.Connections, o.Threads = []Target{targetOf(t, s.URL)}, true, 7, 2
		e := start(t, o, get)
		w := measure.NewWindow()
		if err := e.SetConnections(7); err != nil {
			t.Fatal(err)
		}
		await(t, e, w, func(w *measure.Window) bool { return w.Served > 1000 })
		if w.InFlight != 7 {
			t.Errorf("%d in flight, want 7", w.InFlight)
		}
		if err := e.SetConnections(3); err != nil {
			t.Fatal(err)
		}
		await(t, e, w, func(w *measure.Window) bool {
			return w.InFlight == 3 && (o.netHTTP || w.Connections == 3)
		})
		if err := e.SetConnections(20); err != nil {
			t.Fatal(err)
		}
		await(t, e, w, func(w *measure.Window) bool {
			return w.InFlight == 20 && (o.netHTTP || w.Connections == 20)
		})
		finish(t, e, w)
		if w.Served != w.Intended {
			t.Errorf("%d of %d served, failed %v", w.Served, w.Intended, w.Failed)
		}
		if n := most.Load(); n > 20 {
			t.Errorf("%d requests at once", n)
		}
	})
}

func TestTheOpenModelSendsAtItsRate(t *testing.T) {
	for _, arrivals := range []Arrivals{Constant, Poisson} {
		t.Run(string(arrivals), func(t *testing.T) {
			engines(t, func(t *testing.T, o Options) {
				s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				defer s.Close()
				o.Targets, o.Threads, o.Arrivals = []Target{targetOf(t, s.URL)}, 2, arrivals
				e := start(t, o, get)
				began := time.Now()
				if err := e.SetRate(200); err != nil {
					t.Fatal(err)
				}
				w := measure.NewWindow()
				await(t, e, w, func(w *measure.Window) bool { return w.Intended > 100 })
				// However late the machine is, the schedule is never ahead of its time. Six standard
				// deviations for chance.
				if n, most := float64(w.Intended), 200*time.Since(began).Seconds(); n > most+2+6*chance(
					arrivals, most) {
					t.Errorf("%g requests in a time for %g", n, most)
				}
				if err := e.SetRate(0); err != nil {
					t.Fatal(err)
				}
				finish(t, e, w)
				if w.Served != w.Sent {
					t.Errorf("%d of %d served, failed %v", w.Served, w.Sent, w.Failed)
				}
			})
		})
	}
}

// chance is the standard deviation of a number of requests.
func chance(a Arrivals, expected float64) float64 {
	if a == Constant {
		return 0
	}
	return math.Sqrt(expected)
}

func TestStartRefusesWhatCannotWork(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	url := s.URL
	target := targetOf(t, url)
	s.Close()
	for want, o := range map[string]Options{
		"no target":     {},
		"--connections": {Targets: []Target{target}, Closed: true},
		"is the target": {Targets: []Target{target}},
		"no address":    {Targets: []Target{{URL: url}}},
	} {
		e, err := Start(t.Context(), o, get)
		if err == nil {
			e.Close(t.Context()) //nolint:errcheck // the error is below
			t.Errorf("no error, want one that says %q", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %q, want one that says %q", err, want)
		}
	}
}
