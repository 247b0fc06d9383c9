package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// echo is a service with a route of each kind.
type echo struct {
	health  setHealth
	block   chan struct{} // offloaded and handed handlers wait for it when set
	started chan struct{}
	closed  bool
}

// setHealth is a health that a test sets; ready unless it does.
type setHealth struct{ now atomic.Pointer[Health] }

func (h *setHealth) get() Health {
	if now := h.now.Load(); now != nil {
		return *now
	}
	return Ready()
}

func (e *echo) Name() string   { return "echo" }
func (e *echo) Health() Health { return e.health.get() }
func (e *echo) Close() error   { e.closed = true; return nil }

func (e *echo) wait() {
	if e.block != nil {
		e.started <- struct{}{}
		<-e.block
	}
}

// done makes a Handler of one that always answers.
func done(f func(w *Response, r *Request)) Handler {
	return func(w *Response, r *Request) Outcome {
		f(w, r)
		return Done
	}
}

func (e *echo) Routes() []Route {
	fast := func(w *Response, r *Request) Outcome {
		w.Body = append(w.Body, r.Method...)
		w.Body = append(w.Body, ' ')
		w.Body = append(w.Body, r.Param(0)...)
		for q := r.Query; ; {
			key, value, rest, more, ok := r.NextQuery(q)
			if !ok {
				w.Problem(http.StatusUnprocessableEntity, "malformed query")
				return Done
			}
			if !more {
				break
			}
			w.Body = fmt.Appendf(w.Body, " %s=%s", key, value)
			q = rest
		}
		w.Body = append(w.Body, ' ')
		w.Body = append(w.Body, r.Body...)
		return Done
	}
	return []Route{
		{Pattern: "GET /fast/{word}", Handler: fast},
		{Pattern: "POST /fast/{word}", Handler: fast},
		{Pattern: "GET /offloaded/{word}", Handler: func(w *Response, r *Request) Outcome {
			if r.Inline() {
				return Offload
			}
			e.wait()
			return fast(w, r)
		}},
		{Pattern: "GET /big/{size}", Handler: done(func(w *Response, r *Request) {
			n := 0
			fmt.Sscan(string(r.Param(0)), &n)
			w.Body = append(w.Body, bytes.Repeat([]byte{'x'}, n)...)
		})},
		{Pattern: "GET /panic", Handler: func(w *Response, r *Request) Outcome {
			w.Body = append(w.Body, "half an answer"...)
			panic("on purpose")
		}},
		{Pattern: "GET /handed/panic", Stream: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic("on purpose")
		})},
		{Pattern: "GET /handed/{word}", Stream: http.HandlerFunc(e.handed)},
		{Pattern: "POST /handed/{word}", Stream: http.HandlerFunc(e.handed)},
		{Pattern: "GET /either/{word}", Handler: e.either(fast), Stream: http.HandlerFunc(e.handed)},
		{Pattern: "POST /either/{word}", Handler: e.either(fast), Stream: http.HandlerFunc(e.handed)},
		{Pattern: "GET /stream/{n}", Stream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := 0
			fmt.Sscan(r.PathValue("n"), &n)
			line := bytes.Repeat([]byte{'s'}, 1000)
			for range n {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		})},
	}
}

// either hands off what a query asks it to, on the loop or on a worker, and answers the rest.
func (e *echo) either(fast Handler) Handler {
	return func(w *Response, r *Request) Outcome {
		w.Field("X-Fast", "yes")
		w.Body = append(w.Body, "not to be seen "...)
		switch q := string(r.Query); {
		case q == "offloaded" && r.Inline():
			return Offload
		case q == "handoff" || q == "offloaded":
			return NetHTTP
		}
		w.Body = w.Body[:0]
		return fast(w, r)
	}
}

func (e *echo) handed(w http.ResponseWriter, r *http.Request) {
	e.wait()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		WriteProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	fmt.Fprintf(w, "%s handed %s %s %s", r.Method, r.PathValue("word"), r.URL.RawQuery, body)
}

// start runs a server until the test ends; it fails the test when the stop is not orderly.
func start(t testing.TB, cfg Config, services ...Service) *Server {
	t.Helper()
	s, stop := launch(t, cfg, services...)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		checkEmpty(t, s)
	})
	return s
}

// launch runs a server until stop is called, which returns what Run did.
func launch(t testing.TB, cfg Config, services ...Service) (s *Server, stop func() error) {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	if cfg.Loops == 0 {
		cfg.Loops = 1
	}
	s, err := New(cfg, services...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() error {
		cancel()
		return <-done
	}
}

// checkEmpty checks that a stopped server has let go of everything.
func checkEmpty(t testing.TB, s *Server) {
	t.Helper()
	// A TLS connection that its own goroutine is about to close is closed for net/http, which does not wait
	// for it.
	await(t, "all connections to be closed", func() bool { return s.connections.Load() == 0 })
	if n := s.input.Load(); n != 0 {
		t.Errorf("%d bytes of input are still counted after the stop", n)
	}
}

// patient is how long tests wait for what comes at once, unless the machine has much else to do.
const patient = 2 * time.Minute

// await waits for a condition that no channel tells of.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// client is one connection that a test drives by hand.
type client struct {
	t testing.TB
	*net.TCPConn
	r       *bufio.Reader
	arrived func(n int) // waits until n bytes more have arrived; nil where nobody needs to know
}

func newClient(t testing.TB, c net.Conn) *client {
	c.SetDeadline(time.Now().Add(patient))
	return &client{t: t, TCPConn: c.(*net.TCPConn), r: bufio.NewReader(c)}
}

func dial(t testing.TB, s *Server) *client {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return newClient(t, c)
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
	if c.arrived != nil {
		c.arrived(len(s))
	}
}

// CloseWrite and Close say the client's last.
func (c *client) CloseWrite() error { return c.last(c.TCPConn.CloseWrite()) }
func (c *client) Close() error      { return c.last(c.TCPConn.Close()) }

func (c *client) last(err error) error {
	if c.arrived != nil && err == nil {
		c.arrived(1) // an end has a number, as a byte has
	}
	return err
}

// response reads one answer to a request of that method.
func (c *client) response(method string) (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("read the answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("read the body: %v", err)
	}
	return resp, string(body)
}

// expect reads one answer and checks its status and body.
func (c *client) expect(method string, status int, body string) *http.Response {
	c.t.Helper()
	resp, got := c.response(method)
	if resp.StatusCode != status || got != body {
		c.t.Fatalf("got %d %q, want %d %q", resp.StatusCode, got, status, body)
	}
	return resp
}

// expectClosed checks that the server has nothing more to say.
func (c *client) expectClosed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Fatalf("got %q, %v; want a clean end", rest, err)
	}
}

// passed returns once the loop has seen everything that other clients have sent before: with one
// loop, what came first is read first.
func (c *client) passed() {
	c.t.Helper()
	c.send(get("/fast/passed"))
	c.expect("GET", 200, "GET passed ")
}

func get(path string) string   { return "GET " + path + " HTTP/1.1\r\nHost: weir\r\n\r\n" }
func head_(path string) string { return "HEAD " + path + " HTTP/1.1\r\nHost: weir\r\n\r\n" }

// streamed is a post that more may follow: in chunks, but over net/http, where these end the connection.
func streamed(cfg Config, path, body string) string {
	if cfg.NetHTTP {
		return post(path, body)
	}
	return chunkedPost(path, body)
}

// chunkedPost is post with the body in chunks of 100 bytes, the first with an extension, and a trailer.
func chunkedPost(path, body string) string {
	raw := "POST " + path + " HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n"
	extension := ";a=\"b\""
	for len(body) > 0 {
		n := min(len(body), 100)
		raw += fmt.Sprintf("%x%s\r\n%s\r\n", n, extension, body[:n])
		body, extension = body[n:], ""
	}
	return raw + "0\r\nX: y\r\n\r\n"
}

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: weir\r\nContent-Length: %d\r\n\r\n%s", path,
		len(body), body)
}

// lanes runs a test on the event loops and on net/http: what a route answers must not depend on it.
func lanes(t *testing.T, f func(t *testing.T, cfg Config)) {
	t.Run("loops", func(t *testing.T) { f(t, Config{}) })
	t.Run("net/http", func(t *testing.T) { f(t, Config{NetHTTP: true}) })
}

func TestEveryKindOfRouteAnswersInOrderOnOneConnection(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		// All at once: fast, handed, offloaded, with bodies, a HEAD, and an error in the middle.
		c.send(get("/fast/a?x=1&y=%20z+") + get("/handed/b?q") + get("/offloaded/c") +
			post("/fast/d", "body d") +
			post("/handed/e", "body e") + head_("/fast/f") + head_("/handed/g") + get("/nowhere") +
			get("/fast/%C3%A9%2F"))
		c.expect("GET", 200, "GET a x=1 y= z  ")
		c.expect("GET", 200, "GET handed b q ")
		c.expect("GET", 200, "GET c ")
		c.expect("POST", 200, "POST d body d")
		c.expect("POST", 200, "POST handed e  body e")
		c.expect("HEAD", 200, "")
		c.expect("HEAD", 200, "")
		resp, body := c.response("GET")
		if resp.StatusCode != 404 || resp.Header.Get("Content-Type") != problemType {
			t.Fatalf("got %d %s %q, want a 404 problem", resp.StatusCode, resp.Header.Get("Content-Type"),
				body)
		}
		c.expect("GET", 200, "GET é/ ")
	})
}

func TestMethodsAndPathsWithoutRoute(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		c.send("DELETE /fast/a HTTP/1.1\r\nHost: weir\r\n\r\n")
		resp, body := c.response("DELETE")
		const methods = "GET, HEAD, OPTIONS, POST"
		if resp.StatusCode != 405 || resp.Header.Get("Allow") != methods ||
			!strings.Contains(body, "answers "+methods+", not DELETE") {
			t.Fatalf("got %d, Allow %q, %s", resp.StatusCode, resp.Header.Get("Allow"), body)
		}
		for _, target := range []string{"/fast/a", "http://weir/fast/a"} {
			c.send("OPTIONS " + target + " HTTP/1.1\r\nHost: weir\r\n\r\n" + get("/fast/b"))
			resp, body = c.response("OPTIONS")
			if resp.StatusCode != 204 || resp.Header.Get("Allow") != methods || body != "" ||
				resp.Header.Get("Content-Type") != "" || resp.Header.Get("Content-Length") != "" {
				t.Errorf("OPTIONS %s: got %d, %v, %q", target, resp.StatusCode, resp.Header, body)
			}
			c.expect("GET", 200, "GET b ")
		}
		c.send("OPTIONS /nowhere HTTP/1.1\r\nHost: weir\r\n\r\n")
		if resp, _ := c.response("OPTIONS"); resp.StatusCode != 404 || resp.Header.Get("Allow") != "" {
			t.Errorf("OPTIONS /nowhere: got %d, Allow %q", resp.StatusCode, resp.Header.Get("Allow"))
		}
		// The server as a whole: that it is there.
		c.send("OPTIONS * HTTP/1.1\r\nHost: weir\r\n\r\n" + get("/fast/b"))
		if resp, body := c.response("OPTIONS"); resp.StatusCode/100 != 2 || body != "" || resp.Close {
			t.Errorf("OPTIONS *: got %d, %v, %q", resp.StatusCode, resp.Header, body)
		}
		c.expect("GET", 200, "GET b ")
		for _, path := range []string{"/", "/fast", "/fast/", "/fast/a/b", "//fast/a"} {
			c.send(get(path))
			if resp, _ := c.response("GET"); resp.StatusCode != 404 {
				t.Errorf("%s: got %d, want 404", path, resp.StatusCode)
			}
		}
	})
}

func TestHandlerPanicIsThatRequestsError(t *testing.T) {
	lanes(t, func(t *testing.T, cfg Config) {
		s := start(t, cfg, &echo{})
		c := dial(t, s)
		c.send(get("/fast/before") + get("/panic") + get("/handed/panic") + get("/fast/after"))
		c.expect("GET", 200, "GET before ")
		for range 2 {
			resp, body := c.response("GET")
			if resp.StatusCode != 500 || strings.Contains(body, "on purpose") ||
				strings.Contains(body, "half") {
				t.Fatalf("got %d %q, want a 500 problem without internals", resp.StatusCode, body)
			}
		}
		c.expect("GET", 200, "GET after ")
		if n := s.panics.Value(); n != 2 {
			t.Errorf("%d panics counted, want 2", n)
		}
	})
}
