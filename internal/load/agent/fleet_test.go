package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/load/client"
	"weir/internal/load/measure"
	"weir/internal/load/scenario"
)

// target counts the requests that it answers, by path.
type target struct {
	*httptest.Server
	requests atomic.Uint64
	mu       sync.Mutex
	paths    map[string]int
}

func newTarget(t *testing.T) *target {
	g := &target{paths: make(map[string]int)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := g.requests.Add(1)
		g.mu.Lock()
		g.paths[r.URL.Path]++
		g.mu.Unlock()
		switch {
		case n%10 == 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n%10 == 7:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(g.Close)
	return g
}

// agents serves n agents and returns their addresses. between, if it is not nil, sees their requests first.
func agents(t *testing.T, n int, token string, between func(i int, next http.Handler) http.Handler) ([]string,
	[]*httptest.Server) {
	var (
		hosts   []string
		servers []*httptest.Server
	)
	for i := range n {
		// A machine that is busy is not to look like a silent leader.
		s := New(Options{Token: token, Silence: time.Minute})
		var h http.Handler = s
		if between != nil {
			h = between(i, s)
		}
		ts := httptest.NewServer(h)
		t.Cleanup(func() {
			s.Close() //nolint:errcheck // a test that has failed may leave a run
			ts.Close()
		})
		hosts, servers = append(hosts, ts.Listener.Addr().String()), append(servers, ts)
	}
	return hosts, servers
}

// dialPatiently is Dial with time for machines that are busy with other tests.
func dialPatiently(ctx context.Context, hosts []string, token string, spec scenario.Spec,
	o client.Options) (*Fleet, error) {
	return dial(ctx, hosts, token, spec, o, time.Minute)
}

// until collects into total until enough is over.
func until(t *testing.T, f *Fleet, total *measure.Window, what string, enough func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !enough(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s; there is %+v", what, total)
		}
		w := measure.NewWindow()
		if err := f.Collect(w); err != nil {
			t.Fatal(err)
		}
		total.Add(w)
	}
}

// finish closes a fleet and collects the rest.
func finish(t *testing.T, f *Fleet, total *measure.Window) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	if err := f.Close(ctx); err != nil {
		t.Error(err)
	}
	w := measure.NewWindow()
	if err := f.Collect(w); err != nil {
		t.Error(err)
	}
	total.Add(w)
}

// adds checks that every request of the target is in a window once.
func adds(t *testing.T, w *measure.Window, g *target) {
	t.Helper()
	n := g.requests.Load()
	// A slow machine has not sent all that was due at the end.
	if w.Sent != n || w.Done() != n || w.Intended < n {
		t.Errorf("the target had %d requests; %d were intended, %d sent, %d are over", n, w.Intended,
			w.Sent, w.Done())
	}
	if got := uint64(w.Latency.TotalCount()); got != w.Served+w.Failed[measure.Status] {
		t.Errorf("%d latencies of %d requests", got, w.Served+w.Failed[measure.Status])
	}
	if got := uint64(w.ShedLatency.TotalCount()); got != w.Shed || w.Shed == 0 {
		t.Errorf("%d latencies of %d requests that were shed", got, w.Shed)
	}
	if w.In == 0 || w.Out == 0 || w.CPU <= 0 || w.Lag.TotalCount() == 0 {
		t.Errorf("nothing of %+v", w)
	}
}

func TestWhatAgentsMeasureAddsUp(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			g := newTarget(t)
			hosts, _ := agents(t, n, "a secret", nil)
			f, err := dialPatiently(t.Context(), hosts, "a secret", scenario.Spec{URL: g.URL},
				client.Options{Warm: n, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			total := measure.NewWindow()
			until(t, f, total, "connections", func() bool { return total.Done() == 0 })
			if g.requests.Load() != 0 {
				t.Error("requests before there is a rate")
			}
			if err := f.SetRate(1500); err != nil {
				t.Fatal(err)
			}
			until(t, f, total, "300 answers", func() bool { return total.Done() >= 300 })
			if err := f.SetRate(3000); err != nil {
				t.Fatal(err)
			}
			until(t, f, total, "900 answers", func() bool { return total.Done() >= 900 })
			finish(t, f, total)
			adds(t, total, g)
		})
	}
}

// A share of each agent: of the rate, the connections, and the requests, which are numbered once.
func TestTheLoadIsSharedOut(t *testing.T) {
	fakes, orders := make([]*fake, 3), make([]*order, 3)
	var hosts []string
	for i := range fakes {
		fakes[i] = &fake{start: time.Now()}
		s := New(Options{start: func(_ context.Context, o *order, _ []string) (Engine, string, error) {
			orders[i] = o
			return fakes[i], "", nil
		}})
		ts := httptest.NewServer(s)
		defer ts.Close()
		hosts = append(hosts, ts.Listener.Addr().String())
	}
	spec := scenario.Spec{URL: "http://127.0.0.1:1/", Seed: 9, VarsText: "n\n1\n"}
	f, err := dialPatiently(t.Context(), hosts, "", spec, client.Options{MaxConnections: 100, Warm: 2,
		Seed: 5, Timeout: time.Second, Threads: 2, Arrivals: client.Poisson})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetEnd(1500 * time.Microsecond); err != nil {
		t.Fatal(err)
	}
	if err := f.SetRate(90); err != nil {
		t.Fatal(err)
	}
	if err := f.SetConnections(7); err != nil {
		t.Fatal(err)
	}
	for i, o := range orders {
		if o.Spec.Part != i || o.Spec.Parts != 3 || o.Spec.Seed != 9 || o.Spec.VarsText != spec.VarsText {
			t.Errorf("agent %d has the spec %+v", i, o.Spec)
		}
		if wantMax, c := []int{34, 33, 33}[i], o.Options; c.Seed != 5 || c.MaxConnections != wantMax ||
			c.Warm != 1 || c.Timeout != time.Second || c.Threads != 2 || c.Closed {
			t.Errorf("agent %d has the options %+v", i, c)
		}
		if got := fakes[i].ends; len(got) != 1 || got[0] != 1500*time.Microsecond {
			t.Errorf("agent %d ends after %v", i, got)
		}
		if !strings.HasPrefix(fakes[i].rates[0], "90 after ") ||
			fmt.Sprint(fakes[i].conns) != fmt.Sprintf("[%d]", []int{3, 2, 2}[i]) {
			t.Errorf("agent %d has the rates %v and the connections %v", i, fakes[i].rates, fakes[i].conns)
		}
	}
	if err := f.SetRate(math.NaN()); err == nil {
		t.Error("a rate that is no number is taken")
	}
	w := measure.NewWindow()
	w.Busy = 0.1
	if err := f.Collect(w); err != nil || w.Served != 3 || w.Connections != 9 || w.InFlight != 3 ||
		w.End <= w.Start || w.Start <= 0 {
		t.Errorf("%v: %+v", err, w)
	}
	first := w.End
	w.Reset()
	if err := f.Collect(w); err != nil || w.Served != 3 || w.InFlight != 6 || w.Start != first {
		t.Errorf("%v: %+v, after a window that ended at %v", err, w, first)
	}
	total := measure.NewWindow()
	finish(t, f, total)
	if total.Served != 3 {
		t.Errorf("the last window is %+v", total)
	}
	if err := f.Collect(total); err != nil || total.Served != 3 {
		t.Errorf("after the last window: %v, %+v", err, total)
	}
	for i, e := range fakes {
		if e.closes() != 1 {
			t.Errorf("engine %d was closed %d times", i, e.closes())
		}
	}
}

// A mix of scenarios on two agents asks for what one runner would.
func TestAgentsAskForDifferentThings(t *testing.T) {
	g := newTarget(t)
	hosts, _ := agents(t, 2, "", nil)
	spec := scenario.Spec{Scenario: "feed", Target: g.URL, Users: 1 << 30, Seed: 3}
	f, err := dialPatiently(t.Context(), hosts, "", spec, client.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetRate(500); err != nil {
		t.Fatal(err)
	}
	total := measure.NewWindow()
	until(t, f, total, "200 answers", func() bool { return total.Done() >= 200 })
	finish(t, f, total)
	adds(t, total, g)
	for path, n := range g.paths {
		if n > 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
}

// Answers of agents that get lost on the way are given again, so that the account stays exact.
func TestNothingIsLostWithAnAnswer(t *testing.T) {
	g := newTarget(t)
	var dropped atomic.Int64
	var kinds sync.Map
	hosts, _ := agents(t, 2, "", func(_ int, next http.Handler) http.Handler {
		var n atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Every third answer is dropped after the agent has given it, and every end.
			ends := r.Method == "DELETE"
			if _, again := kinds.LoadOrStore(r.Host+r.Method, true); r.URL.Path != "/runs" &&
				(n.Add(1)%3 == 0 && !ends || ends && !again) {
				next.ServeHTTP(httptest.NewRecorder(), r)
				dropped.Add(1)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	f, err := dialPatiently(t.Context(), hosts, "", scenario.Spec{URL: g.URL}, client.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetRate(1000); err != nil {
		t.Fatal(err)
	}
	total := measure.NewWindow()
	until(t, f, total, "500 answers, and 5 that were dropped",
		func() bool { return total.Done() >= 500 && dropped.Load() >= 5 })
	finish(t, f, total)
	adds(t, total, g)
	if dropped.Load() < 7 {
		t.Error("the last answers were not dropped")
	}
}

func TestALostAgentEndsTheRunWithWhatThereIs(t *testing.T) {
	g := newTarget(t)
	hosts, servers := agents(t, 3, "", nil)
	f, err := dialPatiently(t.Context(), hosts, "", scenario.Spec{URL: g.URL}, client.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetRate(600); err != nil {
		t.Fatal(err)
	}
	total := measure.NewWindow()
	until(t, f, total, "300 answers", func() bool { return total.Done() >= 300 })
	before := total.Done()
	// The second one dies.
	servers[1].Listener.Close()
	servers[1].CloseClientConnections()
	w := measure.NewWindow()
	err = f.Collect(w)
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), hosts[1]) {
		t.Fatalf("an agent that is lost: %v", err)
	}
	if w.Done() != 0 {
		t.Errorf("with an error there is %+v", w)
	}
	if err := f.SetRate(900); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), hosts[1]) {
		t.Errorf("another rate: %v", err)
	}
	finish(t, f, total)
	if total.Done() <= before ||
		uint64(total.Latency.TotalCount()) != total.Served+total.Failed[measure.Status] {
		t.Errorf("%d requests were over before the loss and %d are after it", before, total.Done())
	}
	// The others are free, and so is the lost one after a silence.
	for _, i := range []int{0, 2} {
		again, err := dialPatiently(t.Context(), []string{hosts[i]}, "", scenario.Spec{URL: g.URL},
			client.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		finish(t, again, measure.NewWindow())
	}
}

func TestAnAgentThatHangsIsLost(t *testing.T) {
	hang := make(chan struct{})
	hosts, _ := agents(t, 2, "", func(i int, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i == 1 && strings.HasSuffix(r.URL.Path, "/windows") {
				<-hang
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	defer close(hang)
	g := newTarget(t)
	f, err := Dial(t.Context(), hosts, "", scenario.Spec{URL: g.URL}, client.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Collect(measure.NewWindow()); !errors.Is(err, ErrLost) ||
		!strings.Contains(err.Error(), hosts[1]+": no answer for 2s") {
		t.Errorf("an agent that hangs: %v", err)
	}
	finish(t, f, measure.NewWindow())
}

func TestRunsThatCannotBeginSayWhereAndWhy(t *testing.T) {
	g := newTarget(t)
	good, _ := agents(t, 2, "", nil)
	guarded, _ := agents(t, 1, "a secret", nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	other := g.Listener.Addr().String() // no agent
	here := scenario.Spec{URL: g.URL}
	for _, c := range []struct {
		what  string
		hosts []string
		spec  scenario.Spec
		says  string
	}{
		{"no agents", nil, here, "--agents host:port"},
		{"no port", []string{"127.0.0.1"}, here, `--agents takes host:port, got "127.0.0.1"`},
		{"twice", []string{good[0], good[0]}, here, "names " + good[0] + " twice"},
		{"nobody there", []string{good[0], nobody, good[1]}, here, "agent " + nobody + ": "},
		{"a token", []string{good[0], guarded[0]}, here, "agent " + guarded[0] +
			": the agent wants the token"},
		{"no agent", []string{good[0], other}, here, "agent " + other + ": "},
		{"a target elsewhere", good, scenario.Spec{URL: "http://192.0.2.1/"},
			"--i-own-this-target 192.0.2.1 to weir load agent"},
		{"no such scenario", good, scenario.Spec{Scenario: "dance", Target: g.URL}, `no scenario "dance"`},
		{"nobody at the target", good, scenario.Spec{URL: "http://" + nobody}, "agent " + good[0]},
	} {
		f, err := dialPatiently(t.Context(), c.hosts, "", c.spec, client.Options{Threads: 1})
		if err == nil {
			t.Errorf("%s: no error", c.what)
			finish(t, f, measure.NewWindow())
			continue
		}
		if !strings.Contains(err.Error(), c.says) &&
			!strings.Contains(err.Error(), strings.Replace(c.says, good[0], good[1], 1)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
	}
	// Nobody was left with a run: both can be had.
	f, err := dialPatiently(t.Context(), good, "", here, client.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dialPatiently(t.Context(), good[:1], "", here, client.Options{Threads: 1}); err == nil ||
		!strings.Contains(err.Error(), "one run at a time") {
		t.Errorf("a second leader: %v", err)
	}
	for _, c := range []struct{ host, says string }{
		{good[0], "agent " + good[0] + ": it makes load for another run"},
		{nobody, "agent " + nobody + ": dial tcp " + nobody +
			": connect: connection refused: is weir load agent running there?"},
		{guarded[0], "agent " + guarded[0] + ": the agent wants the token"},
		{other, "agent " + other + ": what answers is no agent"},
	} {
		if err := Ask(t.Context(), []string{c.host}, ""); err == nil ||
			!strings.HasPrefix(err.Error(), "--agents: "+c.says) {
			t.Errorf("asked beforehand: %v, want %q", err, c.says)
		}
	}
	finish(t, f, measure.NewWindow())
	if err := Ask(t.Context(), good, ""); err != nil {
		t.Errorf("agents that are free say %v", err)
	}
}

func TestAFleetThatIsToldToEndAtOnceDoes(t *testing.T) {
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer slow.Close()
	defer close(hang)
	hosts, _ := agents(t, 2, "", nil)
	f, err := dialPatiently(t.Context(), hosts, "", scenario.Spec{URL: slow.URL},
		client.Options{Threads: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetRate(100); err != nil {
		t.Fatal(err)
	}
	total := measure.NewWindow()
	until(t, f, total, "requests in flight", func() bool { return total.Sent > 10 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := f.Collect(total); err != nil || total.Sent <= 10 {
		t.Errorf("%v: %+v", err, total)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if err := f.SetRate(5); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestTheClosedModelIsShared(t *testing.T) {
	g := newTarget(t)
	hosts, _ := agents(t, 2, "", nil)
	f, err := dialPatiently(t.Context(), hosts, "", scenario.Spec{URL: g.URL},
		client.Options{Threads: 1, Closed: true, Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetRate(5); err == nil || !strings.Contains(err.Error(), "the closed model has no rate") ||
		errors.Is(err, ErrLost) {
		t.Errorf("a rate for the closed model: %v", err)
	}
	total := measure.NewWindow()
	if err := f.SetConnections(4); err != nil {
		t.Fatal(err)
	}
	until(t, f, total, "300 answers", func() bool { return total.Done() >= 300 })
	if err := f.Collect(total); err != nil || total.Connections != 4 {
		t.Errorf("%v: %d connections", err, total.Connections)
	}
	finish(t, f, total)
	adds(t, total, g)
}

// The token is for the agents that were named, and not for whom one of them would send the leader to.
func TestTheTokenDoesNotFollowARedirect(t *testing.T) {
	var told atomic.Value
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		told.Store(r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	moved := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer moved.Close()
	err := Ask(t.Context(), []string{moved.Listener.Addr().String()}, "secret")
	if err == nil || told.Load() != nil {
		t.Errorf("elsewhere was told %v, and the leader says %v", told.Load(), err)
	}
}
