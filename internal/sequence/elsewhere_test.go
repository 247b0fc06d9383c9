package sequence

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/cluster"
	"weir/internal/cluster/clustertest"
	"weir/internal/progress/positionstest"
	"weir/internal/server"
)

// unreliable is an index that takes a round trip, and does not answer for as long as it has an error.
type unreliable struct {
	positionstest.ReferenceIndex
	get, swap atomic.Pointer[error]
	t         *testing.T
}

func (x *unreliable) answers(ctx context.Context, err *error) error {
	if _, ok := ctx.Deadline(); !ok {
		x.t.Error("the index is asked without a limit of time")
	}
	if err != nil {
		return *err
	}
	return nil
}

func (x *unreliable) Get(ctx context.Context) (uint64, error) {
	if err := x.answers(ctx, x.get.Load()); err != nil {
		return 0, err
	}
	return x.ReferenceIndex.Get(ctx)
}

func (x *unreliable) CompareAndSwap(ctx context.Context, from, to uint64) (bool, error) {
	if err := x.answers(ctx, x.swap.Load()); err != nil {
		return false, err
	}
	return x.ReferenceIndex.CompareAndSwap(ctx, from, to)
}

func TestAnIndexThatIsKeptElsewhereIsNotAskedOnALoop(t *testing.T) {
	x := &unreliable{t: t, ReferenceIndex: positionstest.ReferenceIndex{Slow: true}}
	s := open(t, t.TempDir(), Config{index: x})
	broken := errors.New("no answer")
	x.get.Store(&broken)
	for _, route := range s.Routes()[:3] {
		var w server.Response
		if got := route.Handler(&w, server.OnLoop(&server.Request{Method: "GET"})); got != server.Offload {
			t.Errorf("%s on a loop: outcome %d, want Offload", route.Pattern, got)
		}
	}
}

func TestAnIndexThatDoesNotAnswerIs503AndOthersGoOn(t *testing.T) {
	lanes(t, func(t *testing.T, kernel server.Config) {
		x := &unreliable{t: t, ReferenceIndex: positionstest.ReferenceIndex{Slow: true}}
		s := serve(t, kernel, Config{index: x})
		want := func(status int, path string) {
			t.Helper()
			if a := s.do("GET", s.url+path, ""); a.status != status {
				t.Errorf("%s: %d, want %d", path, a.status, status)
			}
		}
		set := func(status int) {
			t.Helper()
			if a := s.do("PUT", s.admin+"/current", `{"index":40}`); a.status != status {
				t.Errorf("PUT: %d %s, want %d", a.status, a.body, status)
			}
		}
		broken := errors.New("no answer")
		want(http.StatusOK, "/next")
		x.swap.Store(&broken)
		want(http.StatusOK, "/current")
		want(http.StatusServiceUnavailable, "/next")
		set(http.StatusServiceUnavailable)
		x.get.Store(&broken)
		want(http.StatusServiceUnavailable, "/current")
		want(http.StatusServiceUnavailable, "/next")
		want(http.StatusServiceUnavailable, "/previous")
		set(http.StatusServiceUnavailable)
		want(http.StatusOK, "/fib/30")
		x.get.Store(nil)
		x.swap.Store(nil)
		want(http.StatusOK, "/next")
		set(http.StatusOK)
		if at, _ := x.ReferenceIndex.Get(t.Context()); at != 40 {
			t.Errorf("the index is %d, want 40", at)
		}
	})
}

// Nodes of a cluster have one index: whichever is asked, a step is given once.
func TestNodesStepOneIndexTogether(t *testing.T) {
	servers := clustertest.Start(t, clustertest.Options{Replicas: 1, Own: true})
	open := func() *served {
		c, err := cluster.Open(t.Context(), cluster.Options{Addrs: servers.Addrs(), Replicas: 1,
			Prefix: clustertest.Prefix(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return serve(t, server.Config{}, Config{Cluster: c})
	}
	nodes := []*served{open(), open()}
	const steps = 50
	var all sync.WaitGroup
	var mu sync.Mutex
	given := make(map[string]int)
	for i := range 4 {
		all.Go(func() {
			for range steps {
				a := nodes[i%2].do("GET", nodes[i%2].url+"/next", "")
				if a.status != http.StatusOK {
					t.Errorf("%d %s", a.status, a.body)
				}
				mu.Lock()
				given[a.body]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(given) != 4*steps { // an answer has its index
		t.Errorf("%d values were given by %d steps", len(given), 4*steps)
	}
}
