package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// everyRoute are requests, by method and target, that every way through the kernel answers, and what it
// answers.
var everyRoute = []struct {
	target string
	status int
}{
	{"/fast/a", 200}, {"/handed/a", 200}, {"/either/a?handoff", 200}, {"/either/a?offloaded", 200},
	{"http://weir/fast/a", 200},
	{"/nowhere", 404}, {"/offloaded/a", 405},
}

// refusedRequests break RFC 9112 or RFC 9110; TARGET stands for any route's, and what is sent behind them
// must not be answered.
var refusedRequests = []struct {
	name, raw string
	status    int
	seen      bool // over net/http, too
}{
	{"TE: chunked twice in a list",
		"POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
		400, false},
	{"TE: chunked twice in two lines", "POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, false},
	{"TE: chunked, gzip",
		"POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400, false},
	{"TE: gzip, chunked",
		"POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, false},
	{"TE: empty", "POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n", 400, false},
	{"TE: leading comma", "POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n",
		400, false},
	{"TE: trailing comma", "POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n0\r\n\r\n",
		400, false},
	{"TE: folded", "POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400,
		false},
	{"TE and length", "POST TARGET HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n0\r\n\r\n", 400, false},
	{"TE in HTTP/1.0", "POST TARGET HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, false},
	{"a folded line", "GET TARGET HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400, false},
	{"a line feed without CR", "GET TARGET HTTP/1.1\r\nHost: a\nX: a\r\n\r\n", 400, false},
	{"Host without a name", "GET TARGET HTTP/1.1\r\nHost:\r\n\r\n", 400, true},
	{"Host whose port is no number", "GET TARGET HTTP/1.1\r\nHost: a:b\r\n\r\n", 400, true},
	{"Host with an open bracket", "GET TARGET HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, true},
	{"Host with a malformed escape", "GET TARGET HTTP/1.1\r\nHost: %zz\r\n\r\n", 400, true},
	{"a target with a fragment", "GET TARGET#part HTTP/1.1\r\nHost: a\r\n\r\n", 400, true},
	{"a target with bytes beyond ASCII", "GET TARGET\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400, true},
	{"CONNECT to an authority", "CONNECT weir:80 HTTP/1.1\r\nHost: weir:80\r\n\r\n", 501, true},
	{"CONNECT to a path", "CONNECT /fast/a HTTP/1.1\r\nHost: weir\r\n\r\n", 501, true},
	{"GET *", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400, true},
	{"a target without a host", "GET http:///fast/a HTTP/1.1\r\nHost: a\r\n\r\n", 400, true},
	{"a target of another scheme", "GET ftp://a/fast/a HTTP/1.1\r\nHost: a\r\n\r\n", 400, true},
	{"an unknown expectation", "POST TARGET HTTP/1.1\r\nHost: a\r\nExpect: 103\r\nContent-Length: 1\r\n\r\nx",
		417, false},
	{"a body beyond the limit", "POST TARGET HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n", 413,
		false},
	{"a chunk beyond the limit",
		"POST TARGET HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n", 413, false},
}

// refuses sends raw with another request behind it, and checks that it is the only one answered, by a
// refusal with that status, and that the connection ends without a reset.
func refuses(t *testing.T, s *Server, raw string, status int) {
	t.Helper()
	c := dial(t, s)
	c.send(raw + smuggled)
	method, _, _ := strings.Cut(raw, " ")
	resp, body := c.response(method)
	if resp.StatusCode != status || !resp.Close || resp.Header.Get("Content-Type") != problemType ||
		method != "HEAD" && len(body) == 0 {
		t.Errorf("got %d %s, close %t: %s; want a problem %d and close", resp.StatusCode,
			resp.Header.Get("Content-Type"), resp.Close, body, status)
	}
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		t.Errorf("after the refusal came %q, %v; want a clean end", rest, err)
	}
}

func TestRefusalsAreTheSameOnEveryRoute(t *testing.T) {
	s := start(t, Config{Loops: 1}, &echo{})
	for _, c := range refusedRequests {
		t.Run(c.name, func(t *testing.T) {
			for _, route := range everyRoute {
				raw := strings.Replace(c.raw, "TARGET", route.target, 1)
				refuses(t, s, raw, c.status)
				if rest, ok := strings.CutPrefix(raw, "GET "); ok {
					refuses(t, s, "HEAD "+rest, c.status) // whose answer has no body
				}
			}
		})
	}
	for _, c := range brokenChunkedBodies {
		t.Run("chunks: "+c.name, func(t *testing.T) {
			for _, route := range everyRoute {
				refuses(t, s, "POST "+route.target+
					" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+c.raw, 400)
			}
		})
	}
}

// net/http parses these requests; what it lets pass and shows is refused by the kernel.
func TestRefusalsOverNetHTTP(t *testing.T) {
	s := start(t, Config{NetHTTP: true}, &echo{})
	for _, c := range refusedRequests {
		if c.seen {
			t.Run(c.name, func(t *testing.T) {
				for _, route := range everyRoute {
					if strings.HasPrefix(route.target, "http:") && strings.HasPrefix(c.name, "Host") {
						continue // the target's host counts, and net/http shows no other
					}
					cl := dial(t, s)
					cl.send(strings.Replace(c.raw, "TARGET", route.target, 1) + smuggled)
					resp, _ := cl.response("GET")
					if rest, err := io.ReadAll(cl.r); resp.StatusCode != c.status || len(rest) > 0 ||
						err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("got %d, then %q, %v; want %d alone", resp.StatusCode, rest, err, c.status)
					}
				}
			})
		}
	}
}

func TestChunkedBodiesAreTheSameOnEveryRoute(t *testing.T) {
	s := start(t, Config{}, &echo{})
	c := dial(t, s)
	for _, b := range chunkedBodies {
		for _, route := range everyRoute {
			raw := b.raw[:len(b.raw)-b.rest]
			c.send("POST " + route.target + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
				raw + get("/fast/next"))
			if resp, body := c.response("POST"); resp.StatusCode != route.status || route.status == 200 &&
				!strings.HasSuffix(body, b.content) {
				t.Errorf("%s, %s: got %d %q, want %d", b.name, route.target, resp.StatusCode, body,
					route.status)
			}
			c.expect("GET", 200, "GET next ")
		}
	}
}

// A length beside the chunks is not shown by net/http, so a body in chunks is the last on its connection.
func TestChunkedRequestsOverNetHTTPEndTheConnection(t *testing.T) {
	s := start(t, Config{NetHTTP: true}, &echo{})
	for _, route := range everyRoute {
		for _, length := range []string{"", "Content-Length: 5\r\n"} {
			c := dial(t, s)
			c.send("POST " + route.target + " HTTP/1.1\r\nHost: weir\r\n" + length +
				"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" + smuggled)
			resp, _ := c.response("POST")
			if rest, err := io.ReadAll(c.r); resp.StatusCode != route.status || !resp.Close ||
				len(rest) > 0 || err != nil {
				t.Errorf("%s: got %d, close %t, then %q, %v", route.target, resp.StatusCode, resp.Close, rest,
					err)
			}
		}
	}
}

// Behind a chunked request nothing is laxer than before it.
func TestNothingIsSmuggledBehindAChunkedRequest(t *testing.T) {
	s := start(t, Config{}, &echo{})
	for _, route := range everyRoute {
		for _, bad := range refusedRequests {
			c := dial(t, s)
			c.send(chunkedPost(route.target, "hello") + strings.Replace(bad.raw, "TARGET", route.target, 1) +
				smuggled)
			if resp, _ := c.response("POST"); resp.StatusCode != route.status {
				t.Errorf("%s: got %d, want %d", route.target, resp.StatusCode, route.status)
			}
			method, _, _ := strings.Cut(bad.raw, " ")
			if resp, body := c.response(method); resp.StatusCode != bad.status || !resp.Close {
				t.Errorf("%s behind %s: got %d %s, want %d and close", bad.name, route.target,
					resp.StatusCode, body, bad.status)
			}
			c.expectClosed()
		}
	}
}

func TestContinueIsSaidWhereItHelps(t *testing.T) {
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	head := func(target, fields string) string {
		return "POST " + target + " HTTP/1.1\r\nHost: weir\r\nExpect: 100-continue\r\n" + fields + "\r\n"
	}
	for _, c := range []struct {
		name, fields, early, late string
		said                      bool
		status                    int
	}{
		{"with a length", "Content-Length: 4\r\n", "", "body", true, 200},
		{"with chunks", "Transfer-Encoding: chunked\r\n", "", "4\r\nbody\r\n0\r\n\r\n", true, 200},
		{"with a part of the body behind it", "Content-Length: 4\r\n", "bo", "dy", false, 200},
		{"with all of the body behind it", "Content-Length: 4\r\n", "body", "", false, 200},
		{"without a body", "Content-Length: 0\r\n", "", "", false, 200},
		{"with a body beyond the limit", "Content-Length: 2000000\r\n", "", "", false, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, route := range everyRoute {
				d := newHandDriven(t, Config{})
				cl, conn := d.connect()
				cl.send(get("/fast/before") + head(route.target, c.fields) + c.early)
				d.turn()
				cl.expect("GET", 200, "GET before ")
				if c.said {
					got := make([]byte, len(goOn))
					if _, err := io.ReadFull(cl.r, got); err != nil || string(got) != goOn {
						t.Fatalf("%s: got %q, %v", route.target, got, err)
					}
				}
				if c.late != "" {
					cl.quiet()
					for _, b := range []byte(c.late) { // it is said once
						cl.send(string(b))
						d.turn()
					}
				}
				if conn.phase == phaseHandedOff || conn.phase == phaseOffloaded {
					continue // there is nobody behind this loop
				}
				want := c.status
				if c.status == 200 {
					want = route.status
				}
				if resp, body := cl.response("POST"); resp.StatusCode != want {
					t.Errorf("%s: got %d %s, want %d", route.target, resp.StatusCode, body, want)
				}
				cl.quietOrClosed()
			}
		})
	}
}

// quietOrClosed checks that the server has said nothing more.
func (c *client) quietOrClosed() {
	c.t.Helper()
	c.SetReadDeadline(time.Now())
	if rest, err := io.ReadAll(c.r); len(rest) > 0 || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("then came %q, %v", rest, err)
	}
	c.SetReadDeadline(time.Now().Add(patient))
}

// A body that does not end holds its connection until the request's deadline, whatever route it is for, and
// nothing else.
func TestUnfinishedBodiesHoldNothingForEver(t *testing.T) {
	for _, framing := range []string{
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n",
		"Content-Length: 5\r\n\r\nhel",
		"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 5\r\n\r\nhel",
		"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhel",
	} {
		d := newHandDriven(t, Config{RequestTimeout: 10 * time.Second})
		before := runtime.NumGoroutine()
		var clients []*client
		for _, route := range everyRoute {
			for _, method := range []string{"GET", "POST", "PATCH"} {
				c, _ := d.connect()
				c.send(method + " " + route.target + " HTTP/1.1\r\nHost: weir\r\n" + framing)
				d.turn()
				c.quiet()
				clients = append(clients, c)
			}
		}
		if out, now := d.s.detached.Load(), runtime.NumGoroutine(); out != 0 || now > before {
			t.Errorf("%d requests are with others, %d goroutines were %d", out, now, before)
		}
		d.pass(11 * time.Second)
		for _, c := range clients {
			if resp, _ := c.response("POST"); resp.StatusCode != 408 || !resp.Close {
				t.Errorf("got %d, close %t; want 408 and close", resp.StatusCode, resp.Close)
			}
			c.expectClosed()
		}
	}
}

// Whoever has sent a part of a request only is not waited for at the stop.
func TestUnfinishedRequestsDoNotHoldUpTheStop(t *testing.T) {
	s, stop := launch(t, Config{Loops: 2}, &echo{})
	started := time.Now()
	for i := range 1024 {
		c := dial(t, s)
		c.send(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
			everyRoute[i%len(everyRoute)].target))
	}
	dial(t, s).passed()
	for i := range 64 { // they pin nothing
		c := dial(t, s)
		c.send(get(fmt.Sprintf("/handed/%d", i)))
		c.expect("GET", 200, fmt.Sprintf("GET handed %d  ", i))
		c.Close()
	}
	await(t, "half requests to be held", func() bool { return s.connections.Load() == 1025 })
	if n := s.detached.Load(); n != 0 {
		t.Errorf("%d requests are with others", n)
	}
	if err := stop(); err != nil {
		t.Errorf("after %v: %v", time.Since(started), err)
	}
	checkEmpty(t, s)
}

// The stop gives an unfinished request a moment, in which it is still answered.
func TestARequestThatIsCompletedAtTheStopIsAnswered(t *testing.T) {
	d := newHandDriven(t, Config{RequestTimeout: time.Hour})
	late, lateConn := d.connect()
	never, neverConn := d.connect()
	raw := post("/fast/a", "body")
	late.send(raw[:30])
	never.send(raw[:30])
	d.turn()
	d.post(message{kind: msgStop})
	d.pass(stopGrace / 2)
	late.send(raw[30:])
	d.turn()
	if resp := late.expect("POST", 200, "POST a body"); !resp.Close {
		t.Error("the answer does not say that it is the last")
	}
	never.quiet()
	d.pass(stopGrace)
	if resp, _ := never.response("POST"); resp.StatusCode != 408 {
		t.Errorf("got %d, want 408", resp.StatusCode)
	}
	for _, c := range []*client{late, never} {
		c.expectClosed()
		c.Close()
	}
	for lateConn.fd >= 0 || neverConn.fd >= 0 {
		d.turn()
	}
}

func TestEmptyLinesDoNotKeepAConnection(t *testing.T) {
	d := newHandDriven(t, Config{IdleTimeout: 100 * time.Second})
	c, conn := d.connect()
	for range maxEmptyLines - 1 {
		d.pass(11 * time.Second)
		c.send("\r\n")
		d.turn()
	}
	if conn.fd < 0 {
		t.Fatal("closed too early")
	}
	d.pass(24 * time.Second)
	c.expectClosed()

	c, _ = d.connect()
	c.send(strings.Repeat("\r\n", maxEmptyLines) + get("/fast/a") + strings.Repeat("\r\n", maxEmptyLines) +
		get("/fast/b"))
	d.turn()
	c.expect("GET", 200, "GET a ")
	c.expect("GET", 200, "GET b ")
	c.send(strings.Repeat("\r\n", maxEmptyLines+1) + get("/fast/c"))
	d.turn()
	if resp, _ := c.response("GET"); resp.StatusCode != 400 || !resp.Close {
		t.Errorf("got %d, close %t", resp.StatusCode, resp.Close)
	}
	c.expectClosed()
}

func TestARequestLineThatIsTooLongIsA414(t *testing.T) {
	s := start(t, Config{}, &echo{})
	refusedWith(t, s, "GET /fast/"+strings.Repeat("a", 20_000)+" HTTP/1.1\r\nHost: weir\r\n\r\n", 414)
	refusedWith(t, s, strings.Repeat("A", 20_000)+" /fast/a HTTP/1.1\r\nHost: weir\r\n\r\n", 400)
	refusedWith(t, s, "GET /fast/a HTTP/1.1\r\nHost: weir\r\nX: "+strings.Repeat("a", 20_000)+"\r\n\r\n", 431)
}

// A client that ends its side in the middle of a request is told so; one that ends it behind a request has
// its answer.
func TestTheEndOfAClientsSide(t *testing.T) {
	s := start(t, Config{}, &echo{})
	for _, whole := range []string{get("/fast/a"), get("/handed/a"), get("/offloaded/a"),
		chunkedPost("/fast/a", "body"), chunkedPost("/handed/a", "body")} {
		c := dial(t, s)
		c.send(whole)
		c.CloseWrite()
		if resp, _ := c.response("GET"); resp.StatusCode != 200 {
			t.Errorf("%q: got %d", whole, resp.StatusCode)
		}
		c.expectClosed()

		c = dial(t, s)
		c.send(whole + whole[:len(whole)-1])
		c.CloseWrite()
		for _, want := range []int{200, 400} {
			if resp, _ := c.response("GET"); resp.StatusCode != want {
				t.Errorf("%q and a part: got %d, want %d", whole, resp.StatusCode, want)
			}
		}
		c.expectClosed()
	}
}

// nginx speaks HTTP/1.0 to its upstreams, on a connection for each request.
func TestManyRequestsInHTTP10AtOnceAreAllAnswered(t *testing.T) {
	release := make(chan struct{})
	busy := routes{{Pattern: "GET /busy", Handler: func(*Response, *Request) Outcome {
		<-release
		return Done
	}}}
	s := start(t, Config{Loops: 1}, &echo{}, busy)
	blocking := dial(t, s)
	blocking.send(get("/busy"))
	const n = 800
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = dial(t, s)
		target := []string{"/fast/", "/handed/", "/offloaded/"}[i%3]
		clients[i].send(fmt.Sprintf("GET %s%d HTTP/1.0\r\nHost: weir\r\nConnection: close\r\n\r\n", target,
			i))
	}
	close(release)
	for i, c := range clients {
		resp, body := c.response("GET")
		if resp.StatusCode != 200 || !resp.Close || !strings.Contains(body, fmt.Sprintf(" %d ", i)) {
			t.Errorf("request %d: got %d %q, close %t", i, resp.StatusCode, body, resp.Close)
		}
		c.expectClosed()
	}
}

// Answers to HTTP/1.0 are never chunked, and say whether the connection stays.
func TestAnswersToHTTP10(t *testing.T) {
	for _, nethttp := range []bool{false, true} {
		s := start(t, Config{NetHTTP: nethttp}, &echo{})
		for _, route := range []string{"/fast/a", "/offloaded/a", "/either/a?offloaded", "/handed/a",
			"/nowhere", "/stream/100"} {
			for _, keep := range []bool{false, true} {
				raw := "GET " + route + " HTTP/1.0\r\n"
				if keep {
					raw += "Connection: Keep-Alive\r\n"
				}
				c := dial(t, s)
				c.send(raw + "\r\n" + get("/fast/next"))
				resp, body := c.response("GET")
				if len(resp.TransferEncoding) > 0 || resp.StatusCode == 200 && body == "" {
					t.Errorf("%s: got %d, %v, %d bytes", route, resp.StatusCode, resp.TransferEncoding,
						len(body))
				}
				stays := strings.EqualFold(resp.Header.Get("Connection"), "keep-alive")
				if stays != (keep && route != "/stream/100") { // whose length nobody knows before its end
					t.Errorf("%s, keep-alive %t: got Connection %q", route, keep,
						resp.Header.Get("Connection"))
				}
				if stays {
					c.expect("GET", 200, "GET next ")
				} else {
					c.expectClosed()
				}
			}
		}
	}
}

// The TLS port waits for a body no longer than the loops do, whatever route it is for.
func TestUnfinishedBodiesOverTLSEnd(t *testing.T) {
	cert, pool := selfSigned(t)
	s := start(t, Config{RequestTimeout: 500 * time.Millisecond, TLSListen: "127.0.0.1:0",
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}}}, &echo{})
	for _, route := range everyRoute {
		for _, framing := range []string{"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
			"Content-Length: 5\r\n\r\nhel", "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhel"} {
			c, err := tls.Dial("tcp", s.TLSAddr().String(), &tls.Config{RootCAs: pool})
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(patient))
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: weir\r\n%s", route.target, framing)
			if answer, err := io.ReadAll(c); err != nil ||
				!strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
				t.Errorf("%s: got %q, %v; want 408 and the end", route.target, answer, err)
			}
			c.Close()
		}
	}
	if n := s.counter(s.unrouted, http.StatusRequestTimeout).Value(); n == 0 {
		t.Error("none is counted")
	}
}
