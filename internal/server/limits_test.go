package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"weir/internal/metrics"
)

// bounds is a service with Limits, whose requests end when the test says so.
type bounds struct {
	Service
	limiter *Limiter
	called  chan context.Context // of each offloaded request when its handler runs
	release chan struct{}        // lets one of them answer
	begun   chan *Completion
	timers  chan func() // by which the test has the time of a request be over
}

// startBounds starts a server with such a service beside echo.
func startBounds(t *testing.T, cfg Config, l Limits) (*Server, *bounds) {
	t.Helper()
	b := newBounds(l)
	return start(t, cfg, &echo{}, b), b
}

func newBounds(l Limits) *bounds {
	b := &bounds{
		Service: routes{},
		limiter: Env{Metrics: metrics.New(1)}.Limiter("bounds", l),
		called:  make(chan context.Context, 100),
		release: make(chan struct{}),
		begun:   make(chan *Completion, 100),
		timers:  make(chan func(), 100),
	}
	b.limiter.after = func(_ time.Duration, f func()) *time.Timer {
		b.timers <- f
		return time.NewTimer(time.Hour)
	}
	return b
}

// expire has the time be over of the request that began first.
func (b *bounds) expire() { (<-b.timers)() }

func (b *bounds) Routes() []Route {
	pend := func(r *Request) Outcome {
		c := r.Pend()
		if c == nil {
			return Done
		}
		b.begun <- c
		return Pending
	}
	rs := []Route{
		{Pattern: "GET /at-hand/{word}", Handler: func(w *Response, r *Request) Outcome {
			w.Body = append(w.Body, r.Param(0)...)
			return Done
		}},
		{Pattern: "POST /offloaded-within/{word}", Handler: func(w *Response, r *Request) Outcome {
			if r.Inline() {
				return Offload
			}
			b.called <- r.Context()
			<-b.release
			w.Body = fmt.Appendf(w.Body, "%s %s?%s %s %s", r.Method, r.Param(0), r.Query,
				r.Header("X-Word"), r.Body)
			return Done
		}},
		{Pattern: "GET /pending-within", Handler: func(_ *Response, r *Request) Outcome { return pend(r) }},
		{Pattern: "GET /pending-of-worker", Handler: func(_ *Response, r *Request) Outcome {
			if r.Inline() {
				return Offload
			}
			return pend(r)
		}},
		{Pattern: "GET /idle/{word}", Handler: func(w *Response, r *Request) Outcome {
			if r.Inline() {
				return WhenIdle
			}
			w.Body = append(w.Body, r.Param(0)...)
			return Done
		}},
		{Pattern: "GET /panics-of-worker", Handler: func(_ *Response, r *Request) Outcome {
			if r.Inline() {
				return Offload
			}
			r.Pend()
			panic("on purpose")
		}},
	}
	for i := range rs {
		rs[i].Limits = b.limiter
	}
	return rs
}

// held returns what counts for the limits.
func (b *bounds) held() (requests, bytes int64) {
	return b.limiter.requests.Load(), b.limiter.bytes.Load()
}

func (b *bounds) awaitNone(t *testing.T) {
	t.Helper()
	await(t, "nothing to be held", func() bool { r, n := b.held(); return r == 0 && n == 0 })
}

// refused expects a 503 that names a flag.
func (c *client) refused(flag string) {
	c.t.Helper()
	if resp, body := c.response("GET"); resp.StatusCode != 503 || !strings.Contains(body, flag) ||
		resp.Close {
		c.t.Errorf("got %d %s, close %t; want a 503 that names %s on a connection that goes on",
			resp.StatusCode, body, resp.Close, flag)
	}
}

func TestALimitOfRequestsHoldsOffloadedAndPendingOnes(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s, b := startBounds(t, cfg, Limits{Requests: 2})
		one, two, more := dial(t, s), dial(t, s), dial(t, s)
		one.send("POST /offloaded-within/a%2Fb?q=%20 HTTP/1.1\r\nHost: weir\r\nX-Word: w\r\n" +
			"Content-Length: 4\r\n\r\nbody")
		<-b.called
		two.send(get("/pending-within"))
		pending := <-b.begun
		for _, path := range []string{"/pending-within", "/pending-of-worker"} {
			more.send(get(path))
			more.refused("--bounds-max-requests")
		}
		more.send(get("/at-hand/x") + get("/idle/y") + get("/fast/z")) // are not counted
		more.expect("GET", 200, "x")
		more.expect("GET", 200, "y")
		more.expect("GET", 200, "GET z ")
		b.release <- struct{}{}
		one.expect("POST", 200, "POST a/b?q=%20 w body")
		pending.Complete(say("pending"))
		two.expect("GET", 200, "pending")
		b.awaitNone(t)
		more.send(get("/pending-of-worker"))
		(<-b.begun).Complete(say("now"))
		more.expect("GET", 200, "now")
		if n := b.limiter.reached[limitRequests].Value(); n != 2 {
			t.Errorf("%d refusals are counted, want 2", n)
		}
	})
}

func TestALimitOfMemoryHoldsRequestsAndWhatIsReserved(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s, b := startBounds(t, cfg, Limits{Bytes: 10_000})
		c := dial(t, s)
		body := strings.Repeat("x", 9000)
		c.send(post("/offloaded-within/a", body))
		<-b.called
		if _, n := b.held(); n < 9000 {
			t.Errorf("%d bytes are held of a request of more than 9000", n)
		}
		if b.limiter.Reserve(1000) {
			t.Error("more can be reserved than there is")
		}
		b.release <- struct{}{}
		c.expect("POST", 200, "POST a?  "+body)
		b.awaitNone(t)
		if !b.limiter.Reserve(10_000) {
			t.Error("what was free cannot be reserved")
		}
		c.send(get("/pending-within"))
		c.refused("--bounds-max-memory")
		b.limiter.Release(10_000)
		c.send(get("/pending-within"))
		(<-b.begun).Complete(say("now"))
		c.expect("GET", 200, "now")
		b.awaitNone(t)
	})
}

// What hangs has its own client wait no longer than it may; its worker, and its share, are taken until it
// ends.
func TestARequestBeyondItsTimeIsAnsweredAndItsWorkLearnsOfIt(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s, b := startBounds(t, cfg, Limits{Time: time.Second})
		c := dial(t, s)
		c.send(post("/offloaded-within/a", "body") + get("/fast/next"))
		ctx := <-b.called
		b.expire()
		c.refused("--bounds-timeout")
		c.expect("GET", 200, "GET next ")
		<-ctx.Done()
		if n, _ := b.held(); n != 1 {
			t.Errorf("%d requests are held by a handler that hangs, want 1", n)
		}
		b.release <- struct{}{}
		b.awaitNone(t)
		for _, path := range []string{"/pending-within", "/pending-of-worker"} {
			c.send(get(path) + get("/fast/next"))
			late := <-b.begun
			b.expire()
			c.refused("--bounds-timeout")
			c.expect("GET", 200, "GET next ")
			<-late.Context().Done()
			b.awaitNone(t)
			late.Complete(func(*Response) { t.Error("an answer is made that nobody waits for") })
		}
		c.send(get("/pending-within") + get("/fast/next"))
		released := make(chan struct{})
		(<-b.begun).Go(func(ctx context.Context, w *Response) {
			<-ctx.Done()
			w.Pieces(func() { close(released) }, []byte("too late"))
		})
		b.expire()
		c.refused("--bounds-timeout")
		c.expect("GET", 200, "GET next ")
		<-released
		b.awaitNone(t)
	})
}

func TestARequestWhoseTimeIsOverBeforeAWorkerHasItIsNotBegun(t *testing.T) {
	s, b := startBounds(t, Config{Workers: 1}, Limits{Time: time.Second})
	first, second := dial(t, s), dial(t, s)
	first.send(post("/offloaded-within/a", ""))
	<-b.called
	second.send(post("/offloaded-within/b", ""))
	b.expire()
	b.expire()
	first.refused("--bounds-timeout")
	second.refused("--bounds-timeout")
	b.release <- struct{}{}
	b.awaitNone(t)
	if len(b.called) > 0 {
		t.Error("the handler was called for a client that has its answer")
	}
}

func TestABoundedQueueThatIsFullHoldsNothing(t *testing.T) {
	s, b := startBounds(t, Config{Workers: 1, WorkerQueue: 1}, Limits{})
	clients := []*client{dial(t, s), dial(t, s), dial(t, s)}
	clients[0].send(post("/offloaded-within/a", ""))
	<-b.called
	clients[1].send(post("/offloaded-within/a", ""))
	await(t, "it to wait", func() bool { n, _ := b.held(); return n == 2 })
	clients[2].send(post("/offloaded-within/a", ""))
	clients[2].refused("--worker-queue")
	for range 2 {
		b.release <- struct{}{}
	}
	clients[0].expect("POST", 200, "POST a?  ")
	clients[1].expect("POST", 200, "POST a?  ")
	b.awaitNone(t)
}

func TestAClientThatGoesLeavesTheLimits(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s, b := startBounds(t, cfg, Limits{})
		for _, path := range []string{"/pending-within", "/pending-of-worker"} {
			c := dial(t, s)
			c.send(get(path))
			by := <-b.begun
			c.SetLinger(0)
			c.Close()
			<-by.Context().Done()
			b.awaitNone(t)
			by.Complete(func(*Response) { t.Error("an answer is made that nobody waits for") })
		}
		c := dial(t, s)
		c.send(post("/offloaded-within/a", ""))
		ctx := <-b.called
		c.SetLinger(0)
		c.Close()
		<-ctx.Done()
		b.release <- struct{}{}
		b.awaitNone(t)
	})
}

func TestAPanicOfABoundedHandlerIsThatRequestsError(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s, b := startBounds(t, cfg, Limits{})
		c := dial(t, s)
		c.send(get("/panics-of-worker") + get("/fast/a"))
		if resp, _ := c.response("GET"); resp.StatusCode != 500 {
			t.Errorf("got %d, want 500", resp.StatusCode)
		}
		c.expect("GET", 200, "GET a ")
		b.awaitNone(t)
	})
}

// The client of what hangs may have been answered long ago: the stop has to tell all the same.
func TestAStopDoesNotWaitForEverForWhatHangs(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.ShutdownTimeout = 100 * time.Millisecond
		b := newBounds(Limits{Time: time.Second})
		s, stop := launch(t, cfg, b)
		c := dial(t, s)
		c.send(post("/offloaded-within/a", ""))
		<-b.called
		b.expire()
		c.refused("--bounds-timeout")
		if err := stop(); err == nil {
			t.Error("the stop is said to be orderly")
		}
		b.release <- struct{}{}
		b.awaitNone(t)
	})
}

func TestLimitsAreFlags(t *testing.T) {
	l := Limits{Requests: 7, Bytes: 1 << 20, Time: time.Second}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	l.AddFlags(f, "some")
	if err := f.Parse([]string{"--some-max-requests=9", "--some-max-memory=2MiB"}); err != nil ||
		l != (Limits{9, 2 << 20, time.Second}) {
		t.Errorf("got %v, %v", l, err)
	}
}

func TestARouteWithLimitsHasNoStream(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it was taken")
		}
	}()
	NewHandler(Route{Pattern: "GET /a", Stream: NewHandler(), Limits: newBounds(Limits{}).limiter})
}
