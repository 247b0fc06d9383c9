package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// handled returns a service with one handed route.
func handled(pattern string, h http.HandlerFunc) routes {
	return routes{{Pattern: pattern, Stream: h}}
}

func TestAHandedOffHandlerLearnsThatItsClientHasGone(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		started, ended := make(chan struct{}), make(chan error, 1)
		s := start(t, cfg, &echo{}, handled("GET /wait", func(w http.ResponseWriter, r *http.Request) {
			close(started)
			<-r.Context().Done()
			ended <- r.Context().Err()
		}))
		c := dial(t, s)
		c.send(get("/wait"))
		<-started
		c.SetLinger(0)
		c.Close()
		if err := <-ended; err != context.Canceled {
			t.Errorf("the context ended by %v", err)
		}
		await(t, "the connection to be gone", func() bool { return s.connections.Load() == 0 })
	})
}

// A client may say that it sends no more and wait for its answer. Where net/http reads the socket by itself
// it takes that for the client's end: the context ends, and the answer is sent.
func TestAHandlerAnswersAClientThatSendsNoMore(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		started, release := make(chan struct{}), make(chan struct{})
		p := newPends()
		s := start(t, cfg, p, handled("GET /wait", func(w http.ResponseWriter, r *http.Request) {
			close(started)
			<-release
			if err := r.Context().Err(); err != nil && !cfg.NetHTTP {
				t.Errorf("the context has ended: %v", err)
			}
			io.WriteString(w, "here you are")
		}))
		handed := dial(t, s)
		handed.send(get("/wait"))
		<-started
		handed.CloseWrite()
		if !cfg.NetHTTP {
			pending, other := dial(t, s), dial(t, s)
			pending.send(get("/pending/a"))
			by := <-p.begun
			pending.CloseWrite()
			for range 2 { // the second is read in a turn of the loop after both ends
				other.passed()
			}
			if err := by.Context().Err(); err != nil {
				t.Errorf("the context of the pending request has ended: %v", err)
			}
			by.Complete(say("and you"))
			pending.expect("GET", 200, "and you")
			pending.expectClosed()
			other.Close()
		}
		close(release)
		handed.expect("GET", 200, "here you are")
		handed.expectClosed()
		await(t, "the connections to be gone",
			func() bool { return s.connections.Load() == 0 && s.inFlight() == 0 })
	})
}

// What has been asked before is answered, whoever sends no more.
func TestHandedOffRequestsBeforeTheEndOfInputAreAnswered(t *testing.T) {
	s := start(t, Config{}, &echo{}, handled("GET /context", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Context().Err())
	}))
	for range 20 {
		c := dial(t, s)
		c.send(strings.Repeat(get("/context"), 20) + get("/fast/last"))
		c.CloseWrite()
		for range 20 {
			c.expect("GET", 200, "<nil>")
		}
		c.expect("GET", 200, "GET last ")
		c.expectClosed()
	}
}

func TestAHandedOffHandlerSeesTheRequestAsNetHTTPWould(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, handled("POST /see/{a}/{rest...}", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %q %q %s %s %d %q", r.Method, r.RequestURI, r.PathValue("a"),
				r.PathValue("rest"), r.Host, r.Header["X"], r.ContentLength, body)
			if r.RemoteAddr == "" || r.Context().Value(http.LocalAddrContextKey) == nil {
				t.Error("the addresses are missing")
			}
			fmt.Fprintf(w, " %s", r.RemoteAddr)
		}))
		c := dial(t, s)
		c.send("POST /see/%C3%A9/b/c?q=1 HTTP/1.1\r\nHost: weir\r\nX: 1\r\nX: 2\r\nContent-Length: " +
			"4\r\n\r\nbody")
		c.expect("POST", 200, `POST /see/%C3%A9/b/c?q=1 "é" "b/c" weir [1 2] 4 "body" `+
			c.LocalAddr().String())
	})
}

func TestAHandedOffAnswerStreams(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		next := make(chan struct{})
		s := start(t, cfg, &echo{}, handled("GET /ticks", func(w http.ResponseWriter, r *http.Request) {
			for i := range 5 {
				fmt.Fprintf(w, "tick %d\n", i)
				w.(http.Flusher).Flush()
				<-next
			}
		}))
		c := dial(t, s)
		c.send(get("/ticks") + get("/fast/after"))
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, len("tick 0\n"))
		for i := range 5 {
			// The next is written only when this has arrived.
			if _, err := io.ReadFull(resp.Body, line); err != nil ||
				string(line) != fmt.Sprintf("tick %d\n", i) {
				t.Fatalf("got %q, %v", line, err)
			}
			next <- struct{}{}
		}
		if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
			t.Fatalf("then came %q, %v", rest, err)
		}
		c.expect("GET", 200, "GET after ")
	})
}

func TestAHandedOffAnswerReachesASlowReaderWhole(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c, other := dial(t, s), dial(t, s)
		c.SetReadBuffer(64 << 10)
		c.send(get("/stream/20000")) // more than the sockets hold
		c.send(get("/fast/after"))
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		piece, total := make([]byte, 100_000), 0
		for {
			other.passed() // served while the slow one waits
			n, err := io.ReadFull(resp.Body, piece)
			total += n
			if err != nil {
				break
			}
		}
		if total != 20_000_000 {
			t.Errorf("got %d bytes of 20000000", total)
		}
		c.expect("GET", 200, "GET after ")
	})
}

func TestAHandlerThatAbortsCutsItsAnswerOff(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{}, routes{
			{Pattern: "GET /abort", Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "half an answer")
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})},
			{Pattern: "GET /panic-late",
				Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.WriteString(w, "half an answer")
					w.(http.Flusher).Flush()
					panic("on purpose")
				})},
		})
		for path, panics := range map[string]uint64{"/abort": 0, "/panic-late": 1} {
			before := s.panics.Value()
			c := dial(t, s)
			c.send(get(path) + get("/fast/after"))
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); err != io.ErrUnexpectedEOF ||
				string(body) != "half an answer" {
				t.Errorf("%s: got %q, %v; want it cut off", path, body, err)
			}
			if n := s.panics.Value() - before; n != panics {
				t.Errorf("%s: %d panics counted, want %d", path, n, panics)
			}
			route, _ := s.routes.find("GET", []byte(path), new([maxParams][]byte))
			await(t, "the request to be counted", func() bool { return s.counter(route, 200).Value() == 1 })
		}
	})
}

func TestAHandlerThatLeavesItsBodyUnreadDoesNotHarmTheNextRequest(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{}, handled("POST /ignore", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "ignored")
		}))
		c := dial(t, s)
		c.send(post("/ignore", strings.Repeat(get("/fast/not-me"), 100)) + get("/fast/after"))
		c.expect("POST", 200, "ignored")
		c.expect("GET", 200, "GET after ")
	})
}

// Handlers may set deadlines; a read that is past its own ends, and the connection goes on.
func TestAHandedOffConnectionKnowsDeadlines(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{}, handled("GET /deadline", func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			for _, at := range []time.Time{time.Now().Add(time.Hour), {}, time.Now().Add(-time.Hour), {}} {
				if err := control.SetReadDeadline(at); err != nil {
					t.Error(err)
				}
			}
			if err := control.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			io.WriteString(w, "done")
		}))
		c := dial(t, s)
		for range 3 {
			c.send(get("/deadline"))
			c.expect("GET", 200, "done")
		}
	})
}

func TestAnAnswerMayBeLongerThanTheOutputBound(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		cfg.MaxOutput = 1000
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		c.send(strings.Repeat(get("/big/100000"), 50) + get("/fast/after"))
		for range 50 {
			c.expect("GET", 200, strings.Repeat("x", 100_000))
		}
		c.expect("GET", 200, "GET after ")
	})
}

// A memory fault, as when a mapped file is truncated, is that request's 503 and ends readiness; a
// nil dereference is a bug like any other.
func TestAPanicIsTakenForAFaultOnlyWhenItNamesAnAddress(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		nothing := func() *Request { return nil }
		s := start(t, cfg, &echo{}, routes{
			{Pattern: "GET /nil",
				Handler: done(func(w *Response, r *Request) {
					w.Body = append(w.Body, nothing().Method...)
				})},
			{Pattern: "GET /nil-handed",
				Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.WriteString(w, nothing().Method)
				})},
		})
		c := dial(t, s)
		for _, path := range []string{"/nil", "/nil-handed"} {
			c.send(get(path))
			if resp, _ := c.response("GET"); resp.StatusCode != 500 {
				t.Errorf("%s: got %d, want 500", path, resp.StatusCode)
			}
		}
		c.send(get("/health"))
		if resp, body := c.response("GET"); resp.StatusCode != 200 || strings.Contains(body, "degraded") {
			t.Errorf("not ready after a bug in a handler: %s", body)
		}
	})
}

func TestAFastHandlerMayHandOffItsRequest(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		c.send(get("/either/a") + get("/either/%C3%A9?handoff") + post("/either/c?handoff", "body c") +
			post("/either/d?offloaded", "body d") +
			head_("/either/e?handoff") + get("/either/f"))
		c.expect("GET", 200, "GET a ")
		// Nothing shows of what the fast handler had begun.
		if resp := c.expect("GET", 200, "GET handed é handoff "); resp.Header.Get("X-Fast") != "" {
			t.Errorf("a handed answer has the fast handler's fields: %v", resp.Header)
		}
		c.expect("POST", 200, "POST handed c handoff body c")
		c.expect("POST", 200, "POST handed d offloaded body d")
		c.expect("HEAD", 200, "")
		c.expect("GET", 200, "GET f ")

		// The same with a body in chunks.
		c.send(streamed(cfg, "/either/g?handoff", "hello") + get("/either/h?handoff") + get("/either/i"))
		c.expect("POST", 200, "POST handed g handoff hello")
		c.expect("GET", 200, "GET handed h handoff ")
		c.expect("GET", 200, "GET i ")

		// Each is counted once, for its route, whoever has answered.
		for pattern, want := range map[string]uint64{"GET /either/{word}": 6, "POST /either/{word}": 3} {
			method, path, _ := strings.Cut(pattern, " ")
			route, _ := s.routes.find(method, []byte(path), new([maxParams][]byte))
			await(t, pattern+" to be counted", func() bool { return s.counter(route, 200).Value() == want })
		}
	})
}

func TestAHandedOffRequestWithoutHandlerIsABug(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{},
			routes{{Pattern: "GET /hands-off", Handler: func(*Response, *Request) Outcome {
				return NetHTTP
			}}})
		c := dial(t, s)
		c.send(get("/hands-off") + get("/fast/after"))
		if resp, _ := c.response("GET"); resp.StatusCode != 500 {
			t.Errorf("got %d, want 500", resp.StatusCode)
		}
		c.expect("GET", 200, "GET after ")
		if n := s.panics.Value(); n != 1 {
			t.Errorf("%d panics counted, want 1", n)
		}
	})
}

// The client goes while a worker has its request, which the worker then wants handed.
func TestAClientMayGoBeforeItsOffloadedRequestIsHandedOff(t *testing.T) {
	started, goOn, handed := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	s := start(t, Config{}, &echo{}, routes{{
		Pattern: "GET /late",
		Handler: func(_ *Response, r *Request) Outcome {
			if r.Inline() {
				return Offload
			}
			close(started)
			<-goOn
			return NetHTTP
		},
		Stream: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handed <- struct{}{} }),
	}})
	c, other := dial(t, s), dial(t, s)
	c.send(get("/late"))
	<-started
	c.SetLinger(0)
	c.Close()
	other.passed()
	close(goOn)
	await(t, "the connection to be gone", func() bool { return s.connections.Load() == 1 })
	if len(handed) > 0 {
		t.Error("the request was handed without a client")
	}
}
