package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counter counts what is written through it.
type counter struct {
	w io.Writer
	n atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// A client that pipelines and never reads costs a bounded amount of memory and no one else's
// service.
func TestAClientThatOnlyWritesIsBounded(t *testing.T) {
	for _, path := range []string{"/fast/abcdefgh", "/big/30000", "/handed/abcdefgh", "/stream/30",
		"/offloaded/abcdefgh"} {
		t.Run(strings.Split(path, "/")[1], func(t *testing.T) {
			s := start(t, Config{}, &echo{})
			before := heap()
			c, other := dial(t, s), dial(t, s)
			w := &counter{w: c}
			stopped := make(chan error, 1)
			const total = 256 << 20
			chunk := strings.Repeat(get(path), 10_000)
			go func() {
				for w.n.Load() < total {
					if _, err := io.WriteString(w, chunk); err != nil {
						stopped <- err
						return
					}
				}
				stopped <- errors.New("everything was taken")
			}()
			// Others are served meanwhile; when nothing was taken during a thousand of their
			// requests, nothing more will be.
			for quiet, last := 0, int64(0); quiet < 1000; quiet++ {
				other.passed()
				if n := w.n.Load(); n != last {
					quiet, last = 0, n
				}
			}
			if grown := heap() - before; grown > 8<<20 {
				t.Errorf("the heap grew by %d bytes for a client that does not read", grown)
			}
			if held := s.input.Load(); held > 2*readSize {
				t.Errorf("%d bytes of its requests are held", held)
			}
			c.SetLinger(0)
			c.Close()
			if err := <-stopped; err.Error() == "everything was taken" {
				t.Errorf("%d bytes were taken from a client that does not read", w.n.Load())
			}
			await(t, "the connection to be given up", func() bool { return s.connections.Load() == 1 })
		})
	}
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAnEndlessHeaderIsRefused(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		w := &counter{w: c}
		go func() {
			io.WriteString(
				w, "GET /fast/a HTTP/1.1\r\nHost: weir\r\n") //nolint:errcheck // it ends when refused
			for {
				if _, err := io.WriteString(w, "X: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil || resp.StatusCode != 431 {
			t.Fatalf("got %v, %v; want 431", resp, err)
		}
		if held := s.input.Load(); held > 2*readSize {
			t.Errorf("%d bytes of it are held", held)
		}
	})
}

// A handler that streams and whose client does not read ends by the write timeout.
func TestStreamsToClientsThatDoNotReadEnd(t *testing.T) {
	ended := make(chan error, 1)
	stream := routes{{Pattern: "GET /endless",
		Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			line := []byte(strings.Repeat("e", 10_000))
			for {
				if _, err := w.Write(line); err != nil {
					ended <- err
					return
				}
			}
		})}}
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.WriteTimeout = 100 * time.Millisecond
		s := start(t, cfg, &echo{}, stream)
		c := dial(t, s)
		c.send(get("/endless"))
		select {
		case <-ended:
		case <-time.After(patient):
			t.Fatal("the handler still writes")
		}
		await(t, "the connection to be closed", func() bool { return s.connections.Load() == 0 })
	})
}

func TestABodyThatDribblesIsRefused(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.RequestTimeout = time.Second
		s := start(t, cfg, &echo{})
		c, other := dial(t, s), dial(t, s)
		c.send("POST /fast/a HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n")
		dribbled := make(chan struct{})
		go func() {
			defer close(dribbled)
			for {
				if _, err := io.WriteString(c, "b"); err != nil {
					return
				}
				other.passed()
			}
		}()
		if resp, _ := c.response("POST"); resp.StatusCode != 408 || !resp.Close {
			t.Errorf("got %d, close %t; want 408 and close", resp.StatusCode, resp.Close)
		}
		await(t, "the connection to be closed", func() bool { return s.connections.Load() == 1 })
		<-dribbled
	})
}

// Nor is a body awaited for ever for a route that net/http answers.
func TestABodyThatStallsEnds(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.RequestTimeout = time.Second
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		c.send("POST /handed/a HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\nbody")
		if resp, body := c.response("POST"); resp.StatusCode != 408 {
			t.Errorf("got %d %s, want 408", resp.StatusCode, body)
		}
		c.expectClosed()
	})
}

// An answer may stream for longer than its request's body may stall.
func TestTheDeadlineOfABodyEndsWithIt(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		t.Parallel() // it waits, mostly
		cfg.RequestTimeout = 500 * time.Millisecond
		s := start(t, cfg, routes{{Pattern: "POST /long",
			Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				select {
				case <-r.Context().Done():
					t.Error("the request was given up")
				case <-time.After(2 * cfg.RequestTimeout):
				}
				io.WriteString(w, "done")
			})}})
		c := dial(t, s)
		for range 2 {
			c.send(streamed(cfg, "/long", "body"))
			c.expect("POST", 200, "done")
		}
		c.send(post("/long", "body"))
		c.expect("POST", 200, "done")
	})
}

func TestConnectionsBeyondTheBoundAreTurnedAway(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.MaxConnections = 3
		s := start(t, cfg, &echo{})
		var open []*client
		for range 3 {
			c := dial(t, s)
			c.passed()
			open = append(open, c)
		}
		for range 5 {
			c := dial(t, s)
			if resp, body := c.response("GET"); resp.StatusCode != 503 ||
				!strings.Contains(body, "--max-connections") {
				t.Fatalf("got %d %s, want 503 and the flag to raise", resp.StatusCode, body)
			}
			c.expectClosed()
		}
		if n := s.closed[closedFull].Value(); n != 5 {
			t.Errorf("%d turned away by the count, want 5", n)
		}
		for i, c := range open {
			c.passed()
			c.Close()
			await(t, "a place to become free", func() bool { return s.connections.Load() == int64(2-i) })
		}
		dial(t, s).passed()
	})
}

// Connections that reset at any moment must not make an answer reach another connection: every
// request names its connection, and every answer names the request.
func TestNoAnswerReachesAnotherConnection(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.Loops, cfg.Workers = 2, 2
		s := start(t, cfg, &echo{})
		var wg sync.WaitGroup
		for worker := range 16 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(worker), 7))
				for i := range 150 {
					if err := visit(s, rnd, fmt.Sprintf("w%d-%d", worker, i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		await(t, "all connections to be gone", func() bool { return s.connections.Load() == 0 })
	})
}

// visit opens a connection, sends requests, reads some answers and goes, mostly by a reset.
func visit(s *Server, rnd *rand.Rand, id string) error {
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patient))
	c := nc.(*net.TCPConn)
	n := 1 + rnd.IntN(8)
	var raw strings.Builder
	answers := make([]string, n)
	for i := range n {
		word := fmt.Sprintf("%s-%d", id, i)
		switch rnd.IntN(5) {
		case 0, 1:
			raw.WriteString(get("/fast/" + word))
			answers[i] = "GET " + word + " "
		case 2:
			raw.WriteString(get("/handed/" + word))
			answers[i] = "GET handed " + word + "  "
		case 3:
			raw.WriteString(get("/offloaded/" + word))
			answers[i] = "GET " + word + " "
		case 4:
			raw.WriteString(streamed(s.cfg, "/handed/"+word, "body"))
			answers[i] = "POST handed " + word + "  body"
		}
	}
	text := raw.String()
	if rnd.IntN(4) == 0 {
		text = text[:rnd.IntN(len(text)+1)]
		n = strings.Count(text, "HTTP/1.1\r\n") - 1 // the last may not be whole
		n = max(n, 0)
	}
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	for i := range rnd.IntN(n + 1) {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("%s: answer %d of %d: %w", id, i, n, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		if string(body) != answers[i] {
			return fmt.Errorf("%s: answer %d is %q, want %q", id, i, body, answers[i])
		}
	}
	switch rnd.IntN(4) {
	case 0: // an orderly end
	case 1:
		c.CloseWrite()
	default:
		c.SetLinger(0)
	}
	return nil
}
