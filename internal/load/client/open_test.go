package client

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/load/measure"
)

// A server that stalls makes all requests slow that should have been sent meanwhile, not only those that it
// had.
func TestAStallCountsForEveryRequestThatWasDueInIt(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		const stalled = 200 // requests, many more than there are connections to begin with
		var seen atomic.Int64
		var first, last atomic.Int64
		began := time.Now()
		release := make(chan struct{})
		p := listen(t, func(c *net.TCPConn, _ int) {
			for r := bufio.NewReader(c); request(r); {
				switch n := seen.Add(1); {
				case n == 1:
					first.Store(int64(time.Since(began)))
				case n == stalled:
					last.Store(int64(time.Since(began)))
					close(release)
				}
				<-release
				io.WriteString(c, okAnswer)
			}
		})
		o.Targets, o.Warm, o.Threads = []Target{p.target}, 2, 1
		e := start(t, o, get)
		if err := e.SetRate(500); err != nil {
			t.Fatal(err)
		}
		w := measure.NewWindow()
		await(t, e, w, func(w *measure.Window) bool { return w.Served >= stalled })
		finish(t, e, w)
		if w.Served != w.Done() {
			t.Fatalf("served %d of %d, failed %v", w.Served, w.Done(), w.Failed)
		}
		// The k-th of them, due k/500 s after the first, waited for what was left of the stall by then.
		stall := time.Duration(last.Load() - first.Load())
		for k := 0; k < stalled; k += 20 {
			least := stall - time.Duration(k)*time.Second/500
			slower := int64(0)
			for _, b := range w.Latency.Distribution() {
				if time.Duration(b.To) >= least {
					slower += b.Count
				}
			}
			if slower < int64(k) {
				t.Errorf("%d requests took %v or longer, want %d: the stall took %v", slower, least, k, stall)
			}
		}
	})
}

func TestBeyondTheMostConnectionsRequestsAreDropped(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		var open atomic.Int64
		release := make(chan struct{})
		p := listen(t, func(c *net.TCPConn, _ int) {
			r := bufio.NewReader(c)
			if !request(r) {
				return
			}
			open.Add(1)
			<-release
			for io.WriteString(c, okAnswer); request(r); io.WriteString(c, okAnswer) {
			}
		})
		o.Targets, o.MaxConnections, o.Warm, o.Threads = []Target{p.target}, 5, 2, 2
		e := start(t, o, get)
		if err := e.SetRate(1000); err != nil {
			t.Fatal(err)
		}
		w := measure.NewWindow()
		await(t, e, w, func(w *measure.Window) bool {
			return w.Failed[measure.Dropped] >= 20 && open.Load() == 5
		})
		if w.Sent != 5 || w.Intended != 5+w.Failed[measure.Dropped] || w.InFlight != 5 {
			t.Errorf("intended %d, sent %d, in flight %d, dropped %d", w.Intended, w.Sent, w.InFlight,
				w.Failed[measure.Dropped])
		}
		close(release)
		await(t, e, w, func(w *measure.Window) bool { return w.Served > 50 })
		finish(t, e, w)
	})
}

var quiet = log.New(io.Discard, "", 0)

// numbered is a Listener whose requests carry numbers.
type numbered struct {
	mu      sync.Mutex
	targets int
	wire    string
	next    uint64
	heard   map[uint64]int
	etags   map[string]int
	status  map[int]int
}

func (n *numbered) Next(wire []byte) ([]byte, Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next++
	return append(wire, n.wire...), Request{Target: int(n.next) % n.targets, Ref: n.next}
}

func (n *numbered) Heard(ref uint64, a Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard[ref]++
	n.etags[string(a.ETag)+string(a.LastModified)]++
	n.status[a.Status]++
}

func TestAListenerHearsOfEveryRequestOnce(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		good := listen(t, answering(
			"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nLast-Modified: now\r\nContent-Length: 2\r\n\r\nok"))
		bad := listen(t, func(c *net.TCPConn, _ int) {
			if request(bufio.NewReader(c)) {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
			}
		})
		dead := listenApart(t, func(c *net.TCPConn, _ int) { request(bufio.NewReader(c)) })
		o.Targets = []Target{good.target, bad.target, dead.target}
		o.Threads, o.MaxConnections, o.Warm = 1, 4, 3
		source := &numbered{targets: 3, wire: getRequest, heard: map[uint64]int{}, etags: map[string]int{},
			status: map[int]int{}}
		e := start(t, o, func(int, int) Source { return source })
		w := measure.NewWindow()
		if err := e.SetRate(300); err != nil {
			t.Fatal(err)
		}
		await(t, e, w, requests(30))
		dead.end()
		await(t, e, w, func(w *measure.Window) bool {
			return w.Failed[measure.Refused] > 10 && w.Served > 10 && w.Failed[measure.Cut] > 10
		})
		finish(t, e, w)
		if uint64(len(source.heard)) != w.Done() {
			t.Errorf("heard of %d requests, of %d", len(source.heard), w.Done())
		}
		for ref, n := range source.heard {
			if n != 1 {
				t.Errorf("heard of request %d %d times", ref, n)
			}
		}
		if uint64(source.status[200]) != w.Served || uint64(source.etags[`"e"now`]) != w.Served ||
			uint64(source.status[0]) != w.Errors() {
			t.Errorf("heard %v and %v, served %d, failed %v", source.status, source.etags, w.Served, w.Failed)
		}
	})
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		p := listen(t, func(c *net.TCPConn, _ int) { io.Copy(io.Discard, c) })
		o.Targets, o.Timeout = []Target{p.target}, time.Hour
		e := start(t, o, get)
		w := measure.NewWindow()
		if err := e.SetRate(1000); err != nil {
			t.Fatal(err)
		}
		await(t, e, w, func(w *measure.Window) bool { return w.InFlight > 10 })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if err := e.Collect(w); err != nil {
			t.Fatal(err)
		}
		if w.Connections != 0 || w.InFlight != 0 || w.Done() != 0 {
			t.Errorf("after Close %d connections, %d in flight, %d over", w.Connections, w.InFlight, w.Done())
		}
	})
}

// Where all connections there may be are to other targets, the one that was idle longest makes room.
func TestTargetsShareTheConnections(t *testing.T) {
	a, b := listen(t, answering(okAnswer)), listen(t, answering(okAnswer))
	engines(t, func(t *testing.T, o Options) {
		o.Targets, o.Closed, o.Connections, o.Threads = []Target{a.target, b.target}, true, 1, 1
		source := &numbered{targets: 2, wire: getRequest, heard: map[uint64]int{}, etags: map[string]int{},
			status: map[int]int{}}
		e := start(t, o, func(int, int) Source { return source })
		if err := e.SetConnections(1); err != nil {
			t.Fatal(err)
		}
		w := measure.NewWindow()
		await(t, e, w, requests(50))
		if !o.netHTTP && w.Connections > 1 {
			t.Errorf("%d connections", w.Connections)
		}
		finish(t, e, w)
		if w.Served != w.Done() {
			t.Errorf("served %d of %d, failed %v", w.Served, w.Done(), w.Failed)
		}
	})
}

// stuck is a Source whose first request takes as long to make as the test wants: a generator that stands
// still.
type stuck struct {
	fixed
	first, goOn chan struct{}
}

func (s *stuck) Next(wire []byte) ([]byte, Request) {
	select {
	case s.first <- struct{}{}:
		<-s.goOn
	default:
	}
	return s.fixed.Next(wire)
}

func TestWhatAStallKeepsFromBeingSentBeforeTheEndCountsAsIntended(t *testing.T) {
	engines(t, func(t *testing.T, o Options) {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		defer s.Close()
		o.Targets, o.Threads = []Target{targetOf(t, s.URL)}, 1
		source := &stuck{fixed{wire: getRequest}, make(chan struct{}, 1), make(chan struct{})}
		e := start(t, o, func(int, int) Source { return source })
		if err := e.SetEnd(200 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := e.SetRate(1000); err != nil {
			t.Fatal(err)
		}
		time.Sleep(250*time.Millisecond - time.Since(began)) // the stall
		close(source.goOn)
		w := measure.NewWindow()
		await(t, e, w, func(w *measure.Window) bool { return w.Intended >= 190 && w.Done() == w.Sent })
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := e.Collect(w); err != nil {
			t.Fatal(err)
		}
		if w.Intended < 199 || w.Intended > 200 || w.Sent > 16 || w.Done() != w.Sent {
			t.Errorf("intended %d, sent %d, over %d, expected 200, of which hardly any are sent", w.Intended,
				w.Sent, w.Done())
		}
	})
}
