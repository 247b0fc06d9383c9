package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// stopping runs stop, and returns once the server does not listen any more.
func stopping(t *testing.T, s *Server, stop func() error) (stopped chan error) {
	t.Helper()
	stopped = make(chan error, 1)
	go func() { stopped <- stop() }()
	await(t, "the listener to be closed", func() bool {
		c, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	return stopped
}

func TestIdleConnectionsAreClosedAtTheStop(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		e := &echo{}
		s, stop := launch(t, cfg, e)
		used, handed := dial(t, s), dial(t, s)
		used.passed()
		handed.send(get("/handed/a"))
		handed.expect("GET", 200, "GET handed a  ")
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		used.expectClosed()
		handed.expectClosed()
		checkEmpty(t, s)
		if !e.closed {
			t.Error("the service was not closed")
		}
	})
}

// Requests that were received before the stop are answered, on every lane, with whatever was
// pipelined behind them; then the connection ends.
func TestRequestsInFlightAreAnsweredAtTheStop(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		e := &echo{block: make(chan struct{}), started: make(chan struct{}, 10)}
		cfg.Workers = 1
		s, stop := launch(t, cfg, e)
		offloaded, handed, chunked := dial(t, s), dial(t, s), dial(t, s)
		behind := get("/fast/b") + post("/fast/c", "body")
		offloaded.send(get("/offloaded/a") + behind)
		handed.send(get("/handed/a") + behind)
		chunked.send(chunkedPost("/handed/a", "body") + behind)
		for range 3 {
			<-e.started
		}
		stopped := stopping(t, s, stop)
		select {
		case err := <-stopped:
			t.Fatalf("Run returned with requests in flight: %v", err)
		default:
		}
		if e.closed {
			t.Fatal("the service was closed under its requests")
		}
		close(e.block)
		offloaded.expect("GET", 200, "GET a ")
		handed.expect("GET", 200, "GET handed a  ")
		chunked.expect("POST", 200, "POST handed a  body")
		if !cfg.NetHTTP { // which ends a connection with the answer at hand
			for _, c := range []*client{offloaded, handed, chunked} {
				c.expect("GET", 200, "GET b ")
				if resp := c.expect("POST", 200, "POST c body"); !resp.Close && s.fast != nil {
					t.Error("the last answer does not say that it is the last")
				}
			}
		}
		for _, c := range []*client{offloaded, handed, chunked} {
			if rest, err := io.ReadAll(c.r); len(rest) > 0 || err != nil && !cfg.NetHTTP {
				t.Errorf("then came %q, %v", rest, err)
			}
		}
		if err := <-stopped; err != nil {
			t.Errorf("Run: %v", err)
		}
		checkEmpty(t, s)
	})
}

// A client that reads slowly gets the whole of its answers, also when the stop comes in between.
func TestAnswersUnderWayArriveWholeAtTheStop(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s, stop := launch(t, cfg, &echo{})
		c := dial(t, s)
		c.SetReadBuffer(64 << 10)
		c.send(get("/big/20000000"))
		if _, err := c.r.Peek(1); err != nil {
			t.Fatal(err)
		}
		stopped := stopping(t, s, stop)
		if resp, body := c.response("GET"); resp.StatusCode != 200 || len(body) != 20_000_000 {
			t.Errorf("got %d, %d bytes", resp.StatusCode, len(body))
		}
		c.expectClosed()
		if err := <-stopped; err != nil {
			t.Errorf("Run: %v", err)
		}
		checkEmpty(t, s)
	})
}

func TestAHandlerThatHangsIsGivenUpAtTheStop(t *testing.T) {
	for _, path := range []string{"/offloaded/a", "/handed/a"} {
		t.Run(path, func(t *testing.T) {
			lanes(t, func(t *testing.T, cfg Config) {
				e := &echo{block: make(chan struct{}), started: make(chan struct{}, 10)}
				cfg.ShutdownTimeout = 50 * time.Millisecond
				s, stop := launch(t, cfg, e)
				c := dial(t, s)
				c.send(get(path))
				<-e.started
				if err := stop(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Run returned %v; want that the deadline was exceeded", err)
				}
				if !e.closed {
					t.Error("the service was not closed")
				}
				close(e.block)
			})
		})
	}
}

func TestErrorsOfServicesThatCloseAreReturned(t *testing.T) {
	wrong := errors.New("disk full")
	first, last := &failing{err: wrong}, &failing{}
	_, stop := launch(t, Config{}, first, last)
	if err := stop(); !errors.Is(err, wrong) || !strings.Contains(err.Error(), "failing") {
		t.Errorf("Run returned %v", err)
	}
	if !last.closed || !first.closed {
		t.Error("a service was not closed")
	}
}

type failing struct {
	err    error
	closed bool
}

func (f *failing) Name() string  { return fmt.Sprintf("failing %t", f.err != nil) }
func (*failing) Routes() []Route { return nil }
func (*failing) Health() Health  { return Ready() }
func (f *failing) Close() error  { f.closed = true; return f.err }

// What waits in the listener's queue when the stop comes was received by the system: it is
// answered.
func TestConnectionsNotYetAcceptedAtTheStopAreAnswered(t *testing.T) {
	s, err := New(Config{Listen: "127.0.0.1:0", Loops: 2}, &echo{})
	if err != nil {
		t.Fatal(err)
	}
	if s.fast == nil {
		s.closeListeners()
		t.Skip("net/http closes its listener at once")
	}
	var clients []*client
	for range 10 {
		c := dial(t, s)
		c.send(get("/fast/a"))
		clients = append(clients, c)
	}
	silent := dial(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run: %v", err)
	}
	for _, c := range clients {
		c.expect("GET", 200, "GET a ")
		c.expectClosed()
	}
	silent.expectClosed()
	checkEmpty(t, s)
}

func TestAListenerThatFailsEndsTheServer(t *testing.T) {
	// TLS without a certificate.
	s, err := New(Config{Listen: "127.0.0.1:0", TLSListen: "127.0.0.1:0"}, &echo{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("Run returned %v", err)
	}
}

func TestAnAddressInUseIsSaidWithItsFlag(t *testing.T) {
	s := start(t, Config{})
	for flag, cfg := range map[string]Config{
		"--listen":     {Listen: s.Addr().String()},
		"--tls-listen": {TLSListen: s.Addr().String()},
		"--admin":      {Admin: s.Addr().String()},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("got %v, want an error that names %s", err, flag)
		}
	}
}

// A service may use those before it until it has closed.
func TestServicesCloseInReverseOrder(t *testing.T) {
	var closed []string
	services := []Service{&closing{"first", &closed}, &closing{"second", &closed}, &closing{"third", &closed}}
	_, stop := launch(t, Config{}, services...)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"third", "second", "first"}; !slices.Equal(closed, want) {
		t.Errorf("closed in the order %v, want %v", closed, want)
	}
}

// closing is a service that says when it is closed.
type closing struct {
	name   string
	closed *[]string
}

func (c *closing) Name() string    { return c.name }
func (c *closing) Routes() []Route { return nil }
func (c *closing) Health() Health  { return Ready() }
func (c *closing) Close() error    { *c.closed = append(*c.closed, c.name); return nil }
